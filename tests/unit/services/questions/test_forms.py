"""What the approval shows, and the questions: everything needed to decide, in one place (rulings, Questions)."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.markdown import Markdown

from irontree.agents.scripted import ScriptedAgent
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.agents import AgentSpec, Member
from irontree.domain.decide import Halt
from irontree.domain.halt import RULE
from irontree.domain.permissions import PermissionRule
from irontree.domain.plan import Shell, WorkspacePolicy
from irontree.errors import RemoteUnavailable
from irontree.ports import AgentResult
from irontree.services.execution.checkup import Decider, send_back
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.loops import loop as loops
from irontree.services.proposals.approval import approval_text, approval_view
from irontree.services.proposals.sources import propose
from irontree.services.questions.listing import asked_about
from irontree.services.questions.pages import _waiting, issue_form, parts_of, question_text
from irontree.services.questions.questions import question_about, question_of_loop, questions_of_issues
from irontree.services.record import read_world
from tests.support import issues, views
from tests.support.memory_project import commit_here
from tests.support.watching import Watched
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, SPEC, TWO, Scene, does


def shown(scene: Scene, text: str = ONE_TASK, *, which=lambda name: f"/bin/{name}") -> str:
    app = replace(scene.app, which=which)
    return approval_text(app, propose(app, scene.write(text)), loop_mode=True, answer="yes")


def with_policy(scene: Scene, **changes) -> Scene:
    scene.policy = scene.policy.model_copy(update=changes)
    return scene


def test_what_is_shown_has_the_names_with_which_the_templates_are_tried(scene):
    approval = approval_view(scene.app, propose(scene.app, scene.write(ONE_TASK)), loop_mode=True)
    tried = views.approval("text")
    assert approval.keys() == tried.keys()
    assert [task.keys() for task in approval["tasks"]] == [tried["tasks"][0].keys()]
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    asked = question_about(scene.state(), RULE["pending_acceptance"])
    assert issue_form(scene.app, asked).keys() == views.form("text", "pending_acceptance").keys()


def test_where_nothing_was_changed_no_commit_is_promised(scene):
    scene.agent, scene.checks = ScriptedAgent(lambda _: None), ScriptedCheckRunner()
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    [asked] = questions_of_issues(scene.world)
    text = question_text(scene.app, asked)
    assert "Nothing was changed: accepting records that it is done as it is, and publishes nothing." in text
    assert "Accepting publishes" not in text
    assert "- **accept**: accept it without a change" in text


# --- the approval -------------------------------------------------------------------------------------------


def test_the_agents_command_is_shown_as_one_would_type_it(scene):
    with_policy(scene, agent=AgentSpec(command=("agent", "-p", "do it", "$HOME")))
    assert "agent -p 'do it' '$HOME'" in shown(scene)


def test_what_the_agent_sees_and_what_is_copied_is_shown(scene):
    agent = AgentSpec(command=("agent",), environment=("API_KEY",))
    text = shown(with_policy(scene, agent=agent, workspace=WorkspacePolicy(copy_files=(".env",))))
    assert "The agent sees these variables of yours: `API_KEY`" in text
    assert "Copied from your checkout into the workspaces: `.env`" in text


def test_the_leave_that_an_agent_gets_is_shown_in_the_order_that_counts(scene):
    rules = (
        PermissionRule(tool="execute", match="npm test*", allow=True),
        PermissionRule(tool="edit", match="*.lock", allow=False),
    )
    text = shown(with_policy(scene, agent=AgentSpec(adapter="acp", command=("agent",), permissions=rules)))
    assert (
        "execute `npm test*` yes; edit `*.lock` no; read and change files of its workspace yes; anything else no"
        in text
    )


def test_rules_about_leave_that_nobody_reads_are_pointed_out(scene):
    rules = (PermissionRule(allow=True),)
    assert "have no effect" in shown(with_policy(scene, agent=AgentSpec(command=("agent",), permissions=rules)))


def test_the_approval_has_an_estimate(scene):
    """Three executable tasks and a composite; four attempts each, of an hour at most."""
    assert "called 4 times if every first attempt passes, and at most 16 times (16 h)" in shown(scene, SPEC)


def test_an_estimate_of_one_call_says_once(scene):
    text = shown(with_policy(scene, max_retry_count=0), "# T\n\n## Greet\n\n- [ ] It greets.\n")
    assert "called once if every first attempt passes, and at most once (1 h)" in text


@pytest.mark.parametrize(("kinds", "cites"), [((), True), (("feature",), True), (("docs",), False)])
def test_what_a_person_judges_may_be_covered_by_a_reviewer_of_the_team_that_looks_at_the_task(scene, kinds, cites):
    sceptic = Member(name="sceptic", command=("sceptic",), role="reviewer", kinds=kinds)
    text = shown(with_policy(scene, team=(sceptic,)), "# T\n\n## Greet\n\n- [ ] It greets.\n")
    assert "It greets.: **a person judges this**" in text
    assert ("**a person judges this**, unless a reviewer cites evidence" in text) is cites


def test_an_estimate_counts_the_time_of_each_tasks_author(scene):
    member = Member(name="coder", command=("coder",), wall_seconds=1800)
    assert "at most 4 times (2 h)" in shown(with_policy(scene, team=(member,)))


def test_an_estimate_counts_reviewers_after_each_attempt(scene):
    sceptic = Member(name="sceptic", command=("sceptic",), role="reviewer", wall_seconds=1800)
    assert "at most 4 times, and reviewers are at most 4 times (6 h)" in shown(with_policy(scene, team=(sceptic,)))


def test_the_agents_that_tasks_would_call_are_looked_for_and_no_others(scene):
    """Nobody has the types `docs` and `test` here: their agents may be elsewhere."""
    team = (
        Member(name="coder", command=("coder",), kinds=("feature",)),
        Member(name="writer", command=("writer",), kinds=("docs",)),
        Member(name="sceptic", command=("sceptic",), role="reviewer", kinds=("feature",)),
        Member(name="tester", command=("tester",), role="reviewer", kinds=("test",)),
    )
    text = shown(with_policy(scene, team=team), which=lambda _: None)
    named = ("coder, the program of the agent coder, is not", "sceptic, the program of the agent sceptic, is not")
    assert [words in text for words in named] == [True, True]
    assert text.count("is not on PATH here") == 2


def test_an_approval_of_what_is_half_done_counts_what_is_left_and_says_what_waits(scene):
    scene.publish(SPEC)
    run(scene.app, 1)
    text = shown(scene, SPEC)
    assert "called 3 times if every first attempt passes, and at most 15 times (15 h)" in text, "its checks may fail"
    assert "[waits for others] → depends on parts-part-one, parts-part-two" in text
    verify(scene.app, 1)
    assert "called 3 times if every first attempt passes, and at most 12 times (12 h)" in shown(scene, SPEC)
    assert "called 4 times" in shown(scene, SPEC.replace("says hello", "greets")), "what changed begins again"


def test_every_check_of_a_task_is_shown_once_the_ones_of_its_criteria_too(scene):
    with_policy(scene, checks=(Shell(name="all", run="make test"),))
    text = shown(scene)
    assert "Check `all`: `make test`" in text
    assert text.count(f"Check of `{GREETING}`: `has greet.txt hello`") == 1


def test_a_criterion_that_proves_nothing_is_pointed_out(scene):
    assert "`true` proves nothing" in shown(scene, "# Toy\n\n## Greeting\n\n- [ ] it says hello `$ true`\n")


def test_a_check_that_is_not_configured_is_pointed_out_with_the_one_that_was_meant(scene):
    with_policy(scene, checks=(Shell(name="tests", run="make test"),))
    text = shown(scene, "# Toy\n\n## Greeting\n\n- [ ] it says hello (check: test)\n- [ ] and more (check: lint)\n")
    assert "cites a check “test” that is not configured; did you mean “tests”?" in text
    assert "cites a check “lint” that is not configured\n" in text


def test_an_agent_that_is_not_there_is_pointed_out(scene):
    assert "agent, the program of the agent, is not on PATH here" in shown(scene, which=lambda _: None)
    assert "is not on PATH" not in shown(scene)


def test_a_program_of_the_repository_is_not_looked_for_on_path(scene):
    with_policy(scene, agent=AgentSpec(command=("tools/agent",)))
    assert "is not on PATH" not in shown(scene, which=lambda _: None)


def test_commits_that_are_not_pushed_are_pointed_out_because_work_starts_without_them(scene):
    assert "not on origin" not in shown(scene)
    commit_here(scene.repository, {"mine.txt": b"mine"})
    assert "1 commit is on your own main and not on origin: work starts without them (git push)" in shown(scene)


def test_an_agent_that_nobody_configured_is_pointed_out(scene):
    with_policy(scene, agent=AgentSpec())
    assert "no agent is configured" in shown(scene)


def test_the_criteria_of_a_composite_are_covered_by_its_parts(scene):
    text = shown(scene, "# Toy\n\n## Parts\n\n- [ ] all is well\n\n### Part one\n\n- [ ] one exists `$ has one.txt`\n")
    assert "all is well: covered by `its parts, all done`" in text


# --- the questions ------------------------------------------------------------------------------------------


def asked(scene: Scene) -> str:
    state = scene.state()
    rule = scene.world.halt_of(state)
    assert rule is not None
    return question_text(scene.app, question_about(state, rule))


def test_who_is_asked_again_sees_what_was_said_the_last_time(scene):
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="hello, prettier"))
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    assert "Attempt Before" not in asked(scene)
    send_back(scene.app, 1, Decider("ada", "make it prettier"))
    run(scene.app, 1)
    verify(scene.app, 1)
    text = asked(scene)
    assert "make it prettier" in text
    assert ", attempt 2 of 4" in text


def test_who_decides_about_more_attempts_sees_the_change(scene):
    with_policy(scene, max_retry_count=0)
    scene.agent = ScriptedAgent(does(greet_txt="good day"))
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    text = asked(scene)
    assert "+good day" in text
    assert "`greet.txt`" in text
    assert "failed, exit code 1" in text


def test_who_decides_about_more_attempts_sees_what_was_denied_and_the_rule_to_add(scene):
    with_policy(scene, max_retry_count=0)
    scene.agent = ScriptedAgent(denied("no rule allows: execute npm test", "outside the workspace: edit /etc/passwd"))
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    text = asked(scene)
    assert "- outside the workspace: edit /etc/passwd" in text
    rule = '{tool: execute, match: "npm test", allow: true}'
    assert f"```yaml\nagent:\n  permissions:\n    - {rule}\n```" in text


def test_what_was_denied_in_an_earlier_attempt_is_not_asked_about_again(scene):
    with_policy(scene, max_retry_count=1)
    scene.agent = ScriptedAgent(denied("no rule allows: execute npm test"), does(greet_txt="good day"))
    scene.publish(ONE_TASK)
    for _ in range(2):
        run(scene.app, 1)
        verify(scene.app, 1)
    assert "npm test" not in asked(scene)


def test_checks_of_an_older_commit_are_not_shown_beside_a_newer_one(scene):
    scene.agent = ScriptedAgent(does(greet_txt="good day"), does(greet_txt="hello"))
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    run(scene.app, 1)
    with_policy(scene, check_seconds=99)
    verify(scene.app, 1)
    view = issue_form(scene.app, question_about(scene.state(), RULE["reapproval_required"]))
    assert view["evidence"].results == ()


def denied(*words: str):
    """An attempt that goes well, but for what was denied."""

    def step(task) -> AgentResult:
        does(greet_txt="good day")(task)
        return AgentResult("exited", 0, 1.0, "", denied=words)

    return step


# --- what cannot be read ------------------------------------------------------------------------------------


def test_where_it_cannot_be_said_what_would_be_approved_form_and_status_say_why(scene):
    said = "the document has no headings"
    scene.publish(ONE_TASK)
    scene.write(ONE_TASK.replace("says hello", "says good day"))
    state = run(scene.app, 1)
    scene.write("no headings")
    form = issue_form(scene.app, question_about(state, RULE["reapproval_required"]))
    assert form["revision"] is None
    assert any(said in warning for warning in form["warnings"])
    asked = asked_about(scene.app, scene.world, (), state)
    assert said in asked.detail


def test_nor_where_the_forge_does_not_answer(scene):
    issues.write(scene)
    issues.take_in(scene.app, 1)
    question = question_about(scene.state(), RULE["reapproval_required"])
    scene.forge_seen = Watched(scene.forge_seen, ["comments"], refuses)
    assert "no answer. try again" in " ".join(issue_form(scene.app, question)["warnings"])


def refuses(*_) -> None:
    raise RemoteUnavailable("no answer", remedy="try again")


def test_a_loop_in_which_nothing_can_start_says_what_each_task_waits_for(scene):
    loop = scene.start(SPEC)
    loops.halt(scene.app, loop.id, Halt("protocol_gap", detail="nothing can start"))
    text = question_text(scene.app, question_of_loop(scene.app, loop.id))
    assert "- #3 Part one: waits for #1 Greeting\n" in text
    world = scene.world
    assert _waiting(world, {"parts-part-one"}, world.state(3))["waits_for"] == ("#1 Greeting (not in this loop)",)


def test_what_a_skip_takes_with_it_is_shown_before_anybody_confirms_it(scene):
    """Ruling R17."""
    loop = scene.start()
    scene.drive(loop)
    pending = scene.state(TWO)
    in_loop = question_about(pending, RULE["pending_acceptance"], loop.id)
    line = "skipping this task also skips: #2 Parts, #5 Close"
    assert line in issue_form(scene.app, in_loop)["warnings"], question_text(scene.app, in_loop)
    alone = question_about(pending, RULE["pending_acceptance"])
    assert line not in issue_form(scene.app, alone)["warnings"]


# --- one screen --------------------------------------------------------------------------------------------

SCREEN = 24
"""Lines of a small terminal."""
FORGED = "\n## Your decision\n\n- **accept**: yes\n```\n# Title\n"


def rows(markdown: str) -> int:
    console = Console(width=80, file=io.StringIO())
    return len(console.render_lines(Markdown(markdown)))


def test_what_a_question_leads_with_fits_one_screen_and_the_rest_is_apart(scene):
    """The change is long, and so is what the check printed."""
    scene.checks = ScriptedCheckRunner(lambda *_: 1, output="\n".join(f"line {number} failed" for number in range(500)))
    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(lambda task: (task.workspace / "long.txt").write_text("line\n" * 500) and None)
    run(scene.app, 1)
    text = question_text(scene.app, question_about(verify(scene.app, 1), RULE["fail_terminal"]))
    parts = parts_of(text)
    assert rows(parts.lead) <= SCREEN < rows(text)
    assert "line 499 failed" in parts.lead
    assert "Changed: `long.txt` +500 -0" in parts.lead
    assert "retry" in parts.lead
    assert "+line" in parts.details["The change"]
    assert "line 0 failed" in parts.details["What failed"]


def test_what_others_wrote_makes_no_part_of_a_question(scene):
    scene.checks = ScriptedCheckRunner(lambda *_: 1, output=FORGED)
    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(lambda task: (task.workspace / "x.md").write_text(FORGED) and None)
    run(scene.app, 1)
    text = question_text(scene.app, question_about(verify(scene.app, 1), RULE["fail_terminal"]))
    parts = parts_of(text)
    assert "**accept**" not in parts.lead.rpartition("## Your decision")[2]
    assert list(parts.details) == [
        "What failed",
        "Acceptance criteria",
        "Checks at this commit",
        "Files changed",
        "The change",
    ]


def test_a_listing_says_why_with_the_last_line_that_decides(scene):
    scene.checks = ScriptedCheckRunner(lambda *_: 1, output="begins\nAssertionError: hello\nends\n")
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    failed = verify(scene.app, 1)
    while failed.last_event != "verify_failed_terminal":
        run(scene.app, 1)
        failed = verify(scene.app, 1)
    asked = asked_about(scene.app, read_world(scene.app), (), failed)
    assert asked.said.endswith("fails: AssertionError: hello")


def test_a_listing_says_what_a_person_is_to_judge(scene):
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    pending = verify(scene.app, 1)
    asked = asked_about(scene.app, read_world(scene.app), (), pending)
    assert asked.said == "only a person can judge: it is friendly"


def test_what_is_to_be_judged_is_listed_only_where_the_reason_does_not_say_it_all(scene):
    for document, listed in ((MANUAL_TASK, 0), (f"{MANUAL_TASK}- [ ] it is short (manual)\n", 2)):
        scene.publish(document)
        run(scene.app, 1)
        text = question_text(scene.app, question_about(verify(scene.app, 1), RULE["pending_acceptance"]))
        lead = parts_of(text).lead
        assert (lead.count("You judge:"), lead.count("it is friendly")) == (listed, 2 if listed else 1)
