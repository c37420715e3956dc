"""Steps of a workflow file in the engine: their checks alone, their gates, their iterations (docs/hotl.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.gates import Gate, Gates
from irontree.domain.plan import Shell
from irontree.domain.state import Phase
from irontree.errors import RequirementsRefused
from irontree.ports import AgentResult, AgentTask
from irontree.services.answers.approve import approve
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.proposal import Proposal
from irontree.services.proposals.sources import propose
from irontree.services.questions.listing import waiting
from irontree.services.questions.pages import question_text
from irontree.services.views.history import say_issue_event
from irontree.services.work.preflight import changed_since_approval
from tests.support.hotl import workflow
from tests.support.workflow_scenes import AUTO, NAME, ONE, TWO, begin, driven, proposed
from tests.support.world import Scene, accepts, does, prepared, sends_back

CHECKED = "loop: false\nverify: has greet.txt hello"
UNCHECKED = "loop: false"
ASKS = "risk_level: high\nauto_approve: true"
UNTIL = "loop: until it says hello\nmax_iterations: 3\nverify: has greet.txt hello"


@pytest.fixture(autouse=True)
def agent(scene):
    scene.agent = ScriptedAgent(does(greet_txt="hello"))


def writes_everything(task: AgentTask) -> None:
    does(**{f"{task.task_key}_txt": f"attempt {task.attempt}", "greet_txt": "hello"})(task)


# --- From the file to its end --------------------------------------------------------------------------


def test_a_file_becomes_a_tree_and_is_worked_off_step_by_step(scene):
    scene.agent = ScriptedAgent(writes_everything)
    assert driven(scene, CHECKED, CHECKED) == "goal_reached"
    assert [task.task_key for task in scene.agent.tasks] == [ONE, TWO]
    assert [scene.state(key).completion_basis for key in ("rate", ONE, TWO)] == ["aggregated", "verified", "verified"]
    assert scene.last(ONE).event.code_ref != scene.last(TWO).event.code_ref


def test_a_file_with_mistakes_is_refused_before_anything_is_written(scene):
    with pytest.raises(RequirementsRefused, match=rf"{NAME}:10: Step 'Part 1' loop must be false or"):
        proposed(scene, "loop: maybe\nverify: pytest")
    assert not scene.plans.revisions()


def test_the_approval_shows_steps_commands_gates_and_what_proves_nothing(scene):
    scene.policy = scene.policy.model_copy(update={"checks": (Shell(name="tests", run="make test"),)})
    steps = (UNTIL, "loop: false\nverify: true\ngate: human", UNCHECKED)
    shown = approval_text(scene.app, proposed(scene, *steps), loop_mode=True)
    for words in (
        *("Step 1: until it says hello, at most 3 iterations", "Check of `rate-part-1`: `has greet.txt hello`"),
        *("its gate **approves itself** (auto_approve is true, and the risk is not high)", "`true` proves nothing"),
        *("Step 3: one attempt; **no verify**: nothing checks it", "Configured checks do not run for steps"),
        "run by bash where there is one",
    ):
        assert words in shown
    assert "make test" not in shown


@pytest.mark.parametrize(
    ("front", "gates", "why"),
    [
        (ASKS, None, "auto_approve is not true, or the risk is high"),
        (AUTO, Gates(acceptance=Gate()), "gates.acceptance is configured"),
    ],
)
def test_the_approval_says_which_gates_wait_and_why(scene, front: str, gates: Gates | None, why: str):
    scene.policy = scene.policy.model_copy(update={"gates": gates})
    shown = approval_text(scene.app, proposed(scene, "loop: false\ngate: human", front=front), loop_mode=True)
    assert f"its gate **waits for a person** ({why})" in shown


# --- Staleness -----------------------------------------------------------------------------------------


def test_a_tick_changes_nothing_and_another_check_does(scene):
    begin(scene, CHECKED, CHECKED)
    path, state = scene.root / NAME, scene.state(ONE)
    path.write_text(path.read_text().replace("- [ ] **Step 1", "- [x] **Step 1"))
    assert changed_since_approval(scene.app, scene.world, state) is None
    assert proposed_again(scene, path).approved
    path.write_text(path.read_text().replace("has greet.txt hello", "true", 1))
    assert "is not what was approved" in (changed_since_approval(scene.app, scene.world, state) or "")
    assert changed_since_approval(scene.app, scene.world, scene.state(TWO)) is None


def proposed_again(scene: Scene, path: Path) -> Proposal:
    return propose(scene.app, path)


def test_a_step_that_is_inserted_begins_nothing_again_that_is_done(scene):
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="bye"), *[writes_everything] * 9)
    loop = begin(scene, CHECKED, CHECKED)
    assert scene.drive(loop).reason == "fail_terminal"
    path = scene.root / NAME
    text = path.read_text()
    new = text.partition("- [ ] **Step 2: Part 2**")[2].replace("has greet.txt hello", "has greet.txt bye")
    path.write_text(f"{text.replace('Step 2: Part 2', 'Step 2: New', 1)}- [ ] **Step 3: Part 2**{new}")
    proposal = propose(scene.app, path)
    assert [task.node.task_key for task in proposal.due] == ["rate-new", TWO]
    again = approve(scene.app, proposal, proposal.name, "ada")
    assert scene.state(ONE).phase is Phase.DONE
    scene.drive(again)
    assert [task.task_key for task in scene.agent.tasks][2] == "rate-new"
    assert scene.state(ONE).attempt_count == 1


# --- Its own checks ------------------------------------------------------------------------------------


def test_only_its_own_checks_judge_it(scene):
    scene.policy = scene.policy.model_copy(update={"checks": (Shell(name="tests", run="has never.txt"),)})
    assert driven(scene, CHECKED) == "goal_reached"
    assert scene.checks.commands == ["has greet.txt hello"]


def test_the_configured_checks_are_not_tried_before_its_first_attempt_either(scene):
    checks = (Shell(name="tests", run="has never.txt"),)
    scene.policy = scene.policy.model_copy(update={"checks": checks, "preflight": True})
    assert driven(scene, CHECKED) == "goal_reached"


def test_a_list_runs_in_its_order_to_the_first_failure(scene):
    items = "\n".join(f"  - type: shell\n    command: has {name}.txt" for name in ("greet", "no", "never"))
    assert driven(scene, f"loop: false\nverify:\n{items}") == "fail_terminal"
    assert scene.checks.commands == ["has greet.txt", "has no.txt"]


def test_a_person_is_asked_once_behind_the_checks_of_a_machine(scene):
    listed_checks = """\
loop: false
verify:
  - type: human-review
    prompt: Look at the colours
  - type: shell
    command: has greet.txt hello
  - type: browser
    url: http://localhost:3000
    check: the badge is there
gate: human"""
    loop = begin(scene, listed_checks, front=ASKS)
    assert scene.drive(loop).reason == "pending_acceptance"
    assert scene.checks.commands == ["has greet.txt hello"]
    assert scene.last(ONE).told.reasons == (
        "only a person can judge: Look at the colours",
        "only a person can judge: the badge is there at http://localhost:3000",
        "only a person can judge: approve step 1: Part 1",
    )
    assert scene.drive(loop, prepared(accepts())).reason == "goal_reached"
    assert scene.state(ONE).completion_basis == "accepted"


def test_a_step_without_checks_passes_and_that_is_recorded(scene):
    assert driven(scene, UNCHECKED) == "goal_reached"
    passed = next(record for record in scene.records(ONE) if record.event.event == "verify_passed")
    assert passed.told.reasons == ("no verify",)
    assert say_issue_event(passed).startswith("passed without a check, published as ")


def test_an_artifact_is_judged_at_the_commit_behind_the_checks_before_it(scene):
    artifact = """\
loop: false
verify:
  - type: shell
    command: makes
  - type: artifact
    path: made
    assert:
      kind: matches-glob
      value: "*.sql"
"""

    def judge(command: str, workspace: Path) -> int:
        (workspace / "made").mkdir()
        (workspace / "made" / "1.sql").write_text("x")
        return 0

    scene.checks = ScriptedCheckRunner(judge)
    assert driven(scene, artifact) == "goal_reached"
    report = scene.results.load(scene.number(ONE), scene.last(ONE).event.code_ref)
    assert [(result.command, result.output) for result in report.results][1:] == [
        ("made holds a file named *.sql", "artifact matches glob: made/*.sql")
    ]


@pytest.mark.parametrize(
    ("asserted", "words"),
    [
        ("kind: exists", "artifact missing: no.txt"),
        ("kind: contains\n    value: x", "artifact missing: no.txt"),
        ("kind: matches-glob\n    value: x", "artifact directory missing: no.txt"),
    ],
)
def test_a_missing_artifact_fails_in_upstreams_words(scene, asserted: str, words: str):
    step = f"loop: false\nverify:\n  type: artifact\n  path: no.txt\n  assert:\n    {asserted}\n"
    loop = begin(scene, step)
    assert scene.drive(loop).reason == "fail_terminal"
    report = scene.results.load(scene.number(ONE), scene.state(ONE).anchor)
    assert report.failed is not None
    assert report.failed.output == words


# --- Its loop ------------------------------------------------------------------------------------------


def test_a_step_without_a_loop_is_tried_once(scene):
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    assert driven(scene, CHECKED) == "fail_terminal"
    assert scene.state(ONE).attempt_count == 1


def test_a_loop_goes_on_until_its_check_passes(scene):
    scene.agent = ScriptedAgent(does(greet_txt="bye"), does(greet_txt="good bye"), does(greet_txt="hello"))
    assert driven(scene, UNTIL) == "goal_reached"
    assert scene.state(ONE).attempt_count == 3


def test_iterations_that_are_used_up_are_told_in_hotls_words(scene):
    scene.agent = ScriptedAgent(*(does(greet_txt=f"bye {number}") for number in range(3)))
    loop = begin(scene, UNTIL)
    halt = scene.drive(loop)
    assert (halt.reason, scene.state(ONE).attempt_count) == ("fail_terminal", 3)
    told = "Step 1 reached max iterations (3). it says hello not met."
    assert scene.last(ONE).told.reason == told
    assert any(told in comment for comment in scene.comments(ONE))


# --- Its gate ------------------------------------------------------------------------------------------


def test_a_gate_approves_itself_where_the_file_allows_it_and_the_log_says_so(scene):
    assert driven(scene, f"{CHECKED}\ngate: human") == "goal_reached"
    passed = next(record for record in scene.records(ONE) if record.event.event == "verify_passed")
    assert passed.told.gate == "approved, auto"
    assert say_issue_event(passed).endswith(", its gate approved itself")


def test_a_gate_at_high_risk_waits_and_can_be_sent_back(scene):
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="hello again"))
    step = f"{UNTIL}\ngate: human"
    loop = begin(scene, step, front=ASKS)
    assert scene.drive(loop).reason == "pending_acceptance"
    assert scene.drive(loop, prepared(sends_back("say it twice"), accepts())).reason == "goal_reached"
    assert "say it twice" in scene.agent.tasks[1].prompt
    assert scene.state(ONE).attempt_count == 2


def test_a_configured_acceptance_is_not_left_out(scene):
    scene.policy = scene.policy.model_copy(update={"gates": Gates(acceptance=Gate())})
    assert driven(scene, f"{CHECKED}\ngate: human") == "pending_acceptance"


# --- Nothing changed -----------------------------------------------------------------------------------


def test_a_step_that_changes_nothing_passes_with_its_checks(scene):
    """The second step of the same check finds its work done."""
    assert driven(scene, CHECKED, CHECKED) == "goal_reached"
    passed = next(record for record in scene.records(TWO) if record.event.event == "verify_passed")
    assert (passed.event.code_ref, passed.event.code_publication_state) == ("not_applicable", "not_applicable")
    assert say_issue_event(passed) == "verified, nothing to publish"
    assert scene.state(TWO).phase is Phase.DONE


def test_an_agent_that_refuses_is_asked_about(scene):
    def refuses(_: AgentTask) -> AgentResult:
        return AgentResult("exited", 1, 1.0, "I will not do that")

    scene.agent = ScriptedAgent(*[refuses] * 9)
    assert driven(scene, UNCHECKED) == "blocked"


def test_an_agent_that_changes_nothing_in_spite_of_a_failing_check_is_asked_about(scene):
    def says_why(_: AgentTask) -> AgentResult:
        return AgentResult("exited", 0, 1.0, "The file is somewhere else.")

    scene.agent = ScriptedAgent(says_why)
    assert driven(scene, UNTIL) == "blocked"
    assert scene.state(ONE).blocking_check == "agent-asks"


# --- What the agent is told, and what it may not change -------------------------------------------------


def test_the_agent_is_told_of_its_step(scene):
    scene.agent = ScriptedAgent(does(greet_txt="bye"), does(greet_txt="hello"), does(close_txt="x"))
    driven(scene, UNTIL, UNCHECKED)
    first, again, second = (task.prompt for task in scene.agent.tasks)
    for words in ("step 1 of 2", "Try it", "Success criteria: It works", "repeated until: it says hello", "Do it"):
        assert words in first
    assert "failed at: $ has greet.txt hello" in again
    for words in ("step 2 of 2", "Part 1 (done)", "No machine checks it."):
        assert words in second
    assert "every criterion below" not in second


def test_the_approval_shows_a_command_of_several_lines_as_it_is_written(scene):
    command = "test -d . # it is there\ntouch x  y"
    (scene.root / NAME).write_text(workflow("loop: false\nverify: |\n  test -d . # it is there\n  touch x  y"))
    text = approval_text(scene.app, propose(scene.app, scene.root / NAME), loop_mode=True)
    assert f"```sh\n{command}\n```\n" in text
    assert "it is there touch" not in text


def test_the_approval_shows_configured_commands_of_several_lines_as_they_are_written_too(scene):
    command = "true # nothing\ntouch  x"
    workspace = scene.policy.workspace.model_copy(update={"setup": (command,)})
    scene.policy = scene.policy.model_copy(update={"workspace": workspace, "browser": command})
    (scene.root / NAME).write_text(workflow("loop: false\nverify:\n  type: browser\n  url: http://x\n  check: y"))
    text = approval_text(scene.app, propose(scene.app, scene.root / NAME), loop_mode=True)
    assert text.count(f"```sh\n{command}\n```\n") == 2
    assert "nothing touch" not in text


def test_changes_of_the_workflow_file_are_left_out_and_told(scene):
    def edits(task: AgentTask) -> None:
        does(greet_txt="hello")(task)
        (task.workspace / NAME).write_text("nothing left to do")
        (task.workspace / ".hotl" / "state").mkdir(parents=True)
        (task.workspace / ".hotl" / "state" / "a.json").write_text("{}")

    scene.agent = ScriptedAgent(edits)
    assert driven(scene, CHECKED) == "goal_reached"
    completed = next(record for record in scene.records(ONE) if record.event.event == "run_completed")
    assert sorted(completed.told.dropped) == [".hotl/state/a.json", NAME]
    assert say_issue_event(completed).partition("; changes left out of the commit: ")[2]
    assert NAME not in scene.repository.files_at(scene.state(ONE).code_ref or "")


def test_they_are_told_too_where_nothing_else_was_changed(scene):
    def ticks(task: AgentTask) -> None:
        (task.workspace / NAME).write_text("- [x] done")

    scene.agent = ScriptedAgent(ticks)
    assert driven(scene, UNCHECKED) == "goal_reached"
    completed = next(record for record in scene.records(ONE) if record.event.event == "run_completed")
    assert (completed.told.dropped, completed.event.code_ref) == ((NAME,), "not_applicable")


def test_two_files_of_one_name_are_refused(scene):
    begin(scene, CHECKED)
    other = scene.root / "docs" / "plans" / "2026-01-02-rate-workflow.md"
    other.parent.mkdir(parents=True)
    other.write_text(workflow(CHECKED))
    with pytest.raises(RequirementsRefused, match=f"rate belongs to {NAME} already. Give the file another name"):
        propose(scene.app, other)


def test_the_question_and_its_list_say_that_iterations_are_used_up(scene):
    scene.agent = ScriptedAgent(*(does(greet_txt=f"bye {number}") for number in range(3)))
    driven(scene, UNTIL)
    (question,) = waiting(scene.app)
    assert question.said.startswith("Step 1 reached max iterations (3). it says hello not met. `has")
    assert "**Why:** Step 1 reached max iterations (3). it says hello not met." in question_text(scene.app, question)
