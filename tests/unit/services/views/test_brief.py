"""The brief: every section of the contract, filled from plan and log (contract, brief)."""

from __future__ import annotations

import re

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.app import Preferences
from irontree.domain.agents import Member
from irontree.domain.attempt import Claim
from irontree.domain.decide import Finalize, Run, Verify
from irontree.domain.plan import WorkspacePolicy
from irontree.domain.values import PromotionPolicy
from irontree.errors import EnvironmentRefused, NotEligible, RemoteUnavailable
from irontree.ports import AgentResult, Links
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.run import run
from irontree.services.execution.steps import perform
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, Scene, does

DETAILED = """\
# Toy

## Base

- [ ] it is there `$ has README.md`

## Greeting

Depends on: Base
Files: greet.txt

- [ ] it says hello `$ has greet.txt hello`
- [ ] it is friendly (manual)
"""


def says(text: str, **files: str):
    """A step that writes these files and leaves these last words."""

    def step(task) -> AgentResult:
        does(**files)(task)
        return AgentResult("exited", 0, 1.0, "", claim=Claim(None, "summary", text))

    return step


def work(scene: Scene, *steps: type) -> None:
    for step in steps:
        perform(scene.app, step(GREETING))


def brief(scene: Scene, number: int) -> dict[str, str]:
    """The sections of the written brief, by heading."""
    text = scene.projections.texts[scene.root / f".mino/briefs/issue-{number}.md"]
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {heading: body.strip() for heading, body in zip(parts[::2], parts[1::2], strict=True)}


@pytest.fixture
def lived(scene) -> dict[str, str]:
    """The brief of an issue that failed, was sent back, and was accepted."""
    scene.preferences = Preferences(close_on_done="manual", reply="never")
    setup = WorkspacePolicy(setup=("npm ci",))
    scene.policy = scene.policy.model_copy(update={"workspace": setup})
    scene.publish(DETAILED)
    scene.agent = ScriptedAgent(
        does(base_txt="x"),
        says("no idea", greet_txt="bye"),
        says("greeted", greet_txt="hello"),
        says("greeted warmly", greet_txt="hello, dear"),
    )
    for step in (Run("base"), Verify("base"), Finalize("base")):
        perform(scene.app, step)
    work(scene, Run, Verify, Run, Verify)
    number = scene.number()
    with scene.driver.hold("answer"):
        answer_issue(scene.app, number, Answer("send-back", "ada", note="warmer"))
    work(scene, Run, Verify)
    with scene.driver.hold("answer"):
        answer_issue(scene.app, number, Answer("accept", "ada", note="lovely"))
    work(scene, Finalize)
    return brief(scene, number)


SECTIONS = (
    *("Issue", "Classification", "Dependencies", "Acceptance Criteria", "Verification", "Target Files"),
    *("Work Breakdown", "Workflow State", "Manual Acceptance", "Failure Context", "External Event"),
    *("Completion Handoff", "Execution Summary", "Verification Report", "Verification Summary", "Pass/Fail Outcome"),
    *("Open Questions / Warnings", "Source"),
)


def test_the_18_sections_of_the_contract_are_there_in_order(lived):
    assert tuple(lived) == SECTIONS


def test_what_has_happened_is_in_every_section_that_it_concerns(lived):
    empty = [heading for heading, body in lived.items() if "_(" in body]
    assert empty == ["Work Breakdown", "External Event", "Open Questions / Warnings"]


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("Issue", "- Task Key: greeting"),
        ("Classification", "- Approval State: approved"),
        ("Dependencies", "- Depends On: base"),
        ("Acceptance Criteria", "- [ ] it is friendly (a person judges this)"),
        ("Verification", "- `$ has greet.txt hello`"),
        ("Target Files", "- `greet.txt`"),
        ("Workflow State", "- Attempt Count: 3"),
        ("Workflow State", "- Current Stage: done"),
        ("Workflow State", "- Manual Close: close issue #2 once you have looked at it"),
        ("Manual Acceptance", "> lovely"),
        ("Failure Context", "> warmer"),
        ("Completion Handoff", "- Completion Basis: accepted"),
        ("Execution Summary", "- Attempt: 3 / 4"),
        ("Execution Summary", "  - `greet.txt`"),
        ("Execution Summary", "  - `npm ci`"),
        ("Execution Summary", "  - `agent`"),
        ("Execution Summary", "- Notes: the agent says: greeted warmly"),
        ("Verification Report", "- Local: .mino/reports/issue-2/report.md"),
        ("Verification Summary", "- Reviewer: ada"),
        ("Verification Summary", "- Notes: lovely"),
        ("Pass/Fail Outcome", "pass"),
        ("Source", "- Spec: SPEC.md"),
    ],
)
def test_the_sections_say_what_the_log_says(lived, section, line):
    assert line in lived[section].splitlines()


def test_what_somebody_writes_into_a_brief_decides_nothing(scene):
    """It is made from plan and log, and never read back."""
    scene.publish(DETAILED)
    number = scene.number()
    waits = scene.projections.read("brief", number)
    lie = waits.replace("- Depends On: base", "- Depends On: none").replace(
        "Current Stage: definition", "Current Stage: done"
    )
    scene.projections.write("brief", number, lie)
    with pytest.raises(NotEligible, match="depends on base, not done yet"):
        run(scene.app, number)
    reconcile(scene.app)
    assert scene.projections.read("brief", number) == waits != lie


def test_notes_in_the_documents_are_named(scene):
    scene.policy = scene.policy.model_copy(update={"promotion": PromotionPolicy(mode="always")})
    scene.publish(ONE_TASK)
    work(scene, Run, Verify)
    assert "- Docs: docs/integrations/greeting.md" in brief(scene, 1)["Verification Report"]


def test_what_is_not_delivered_and_what_did_not_work_is_under_warnings(scene):
    scene.policy = scene.policy.model_copy(update={"promotion": PromotionPolicy(mode="always")})
    scene.publish(ONE_TASK)
    work(scene, Run)
    scene.repository.hook = lambda _: "too long a line"
    scene.tracker.outage = "503"
    work(scene, Verify)
    assert brief(scene, 1)["Open Questions / Warnings"].splitlines() == [
        "- promotion_failed: git refused the commit: too long a line",
        "- stage_label_sync_failed: 503",
    ]


@pytest.mark.parametrize(
    ("text", "failed_step"), [(ONE_TASK, "publication"), (MANUAL_TASK, "checkup accept publication")]
)
def test_a_publication_that_failed_is_the_failure_context_until_it_succeeds(scene, text, failed_step):
    """Outcome E, and the same at an acceptance: what is left to do is publication alone."""

    def publish() -> None:
        if text is ONE_TASK:
            work(scene, Verify)
        else:
            with scene.driver.hold("answer"):
                answer_issue(scene.app, 1, Answer("accept", "ada"))

    scene.publish(text)
    work(scene, Run, *([Verify] if text is MANUAL_TASK else []))
    scene.repository.failures += [RemoteUnavailable("no route to the remote")] * 3
    publish()
    lines = brief(scene, 1)["Failure Context"].splitlines()
    assert {f"- Failed Check: {failed_step}", "- Outcome: publication_failed", "- Attempt: 1 / 4"} <= set(lines)
    assert f"- Verify Anchor SHA: {scene.state().commit}" in lines
    assert "no route to the remote" in lines
    publish()
    assert brief(scene, 1)["Failure Context"] == "_(no failure so far)_"


def test_a_refused_commit_is_in_the_brief_with_what_git_said(scene):
    scene.repository.hook = lambda _: "no sign-off"
    scene.publish(ONE_TASK)
    work(scene, Run)
    lines = brief(scene, 1)["Failure Context"].splitlines()
    assert {"- Failed Check: git commit", "- Verify Anchor SHA: none — commit refused", "no sign-off"} <= set(lines)


WORKFLOW_STATE = (
    *("Spec Revision", "Approved Revision", "Current Stage", "Next Stage", "Workflow Entry State"),
    *("Attempt Count", "Max Retry Count", "Code Publication State", "Halt Reason"),
)
"""Neither the goal of a loop nor its tasks."""


def test_the_halt_reason_is_in_the_brief_as_long_as_a_person_is_waited_for(scene):
    """A mirror alone: the loop's own log has the last word."""
    loop = scene.start(MANUAL_TASK)
    scene.drive(loop)
    told = dict(line.removeprefix("- ").split(": ") for line in brief(scene, 1)["Workflow State"].splitlines())
    assert told["Halt Reason"] == "pending_acceptance"
    assert tuple(told) == WORKFLOW_STATE
    assert loop.id not in "".join(brief(scene, 1).values())
    with scene.driver.hold("answer"):
        answer_issue(scene.app, 1, Answer("accept", "ada"))
    assert "Halt Reason" not in brief(scene, 1)["Workflow State"]


def test_an_agent_without_last_words_leaves_no_note(scene):
    scene.publish(MANUAL_TASK)
    work(scene, Run)
    assert "- Notes: none" in brief(scene, 1)["Execution Summary"]


class Called:
    """A forge under another name, with the addresses that it has for people."""

    def __init__(self, forge, name: str, page: str | None) -> None:
        self._forge, self.name, self.links = forge, name, Links(page)

    def __getattr__(self, name: str):
        return getattr(self._forge, name)


@pytest.mark.parametrize(
    ("name", "page", "line"),
    [
        ("local", None, "- Local forge: #1 .mino/forge/issues/0001.md"),
        ("gitea", "https://git.example/ada/engine", "- Gitea: #1 https://git.example/ada/engine/issues/1"),
        ("github", "https://github.com/ada/engine", "- GitHub: #1 https://github.com/ada/engine/issues/1"),
    ],
)
def test_the_brief_names_the_forge_and_where_the_issue_is_there(scene, name, page, line):
    scene.forge_seen = Called(scene.forge_seen, name, page)
    scene.publish(ONE_TASK)
    assert line in brief(scene, 1)["Issue"].splitlines()


class Unwritable:
    """Projections whose files cannot be written: a folder is in their place."""

    def __init__(self, projections) -> None:
        self._projections = projections

    def __getattr__(self, name: str):
        return getattr(self._projections, name)

    def write(self, what: str, issue_number: int, _: str) -> None:
        raise EnvironmentRefused(f".mino/{what}s/issue-{issue_number}.md: Is a directory")


def test_a_brief_and_a_report_that_cannot_be_written_are_told_and_no_step_fails(scene):
    scene.publish(ONE_TASK)
    scene.projections = Unwritable(scene.projections)
    perform(scene.app, Run(GREETING))
    assert perform(scene.app, Verify(GREETING)).last_event == "verify_passed"
    assert [line for line in scene.notes.lines if "Is a directory" in line][-2:] == [
        "warning: the report of #1 is not up to date: .mino/reports/issue-1.md: Is a directory",
        "warning: the brief of #1 is not up to date: .mino/briefs/issue-1.md: Is a directory",
    ]


def test_the_command_that_ran_is_that_of_the_tasks_author(scene):
    scene.policy = scene.policy.model_copy(update={"team": (Member(name="coder", command=("coder", "--go")),)})
    scene.reviewers["coder"] = ScriptedAgent(does(greet_txt="hello"))
    scene.publish(ONE_TASK)
    work(scene, Run)
    assert "  - `coder --go`" in "\n".join(brief(scene, 1).values()).splitlines()
