"""What `.hotl` shows of a workflow file that is worked off: each row of the mapping, from the log alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from irontree.agents.scripted import ScriptedAgent, idles
from irontree.app import App
from irontree.domain.workflow.compile import Ticked
from irontree.domain.workflow.run import Run, run_as_json, run_from_json
from irontree.errors import EnvironmentRefused
from irontree.ports import AgentResult, AgentTask
from irontree.services.answers.answers import Answer
from irontree.services.answers.approve import approve
from irontree.services.execution.run import run
from irontree.services.execution.steps import catch_up, follow_up
from irontree.services.execution.verify import verify
from irontree.services.loops.loop import Loop, cancel
from irontree.services.proposals.sources import propose
from irontree.services.views.workflow_run import show_runs, show_runs_of
from tests.support.hotl import workflow
from tests.support.watching import Killed
from tests.support.world import Answers, Scene, accepts, does, drive, nobody, prepared, sends_back

NAME = "hotl-workflow-rate.md"
CHECKED = "loop: false\nverify: has greet.txt hello"
UNTIL = "loop: until it says hello\nmax_iterations: 2\nverify: has greet.txt hello"
ASKS = "risk_level: high"


@dataclass
class Shown:
    """The port `WorkflowRuns` that remembers."""

    runs: list[Run] = field(default_factory=list)
    log: Sequence[str] = ()
    fails: bool = False
    is_killed: bool = False
    ticked: list[tuple[str, Callable[[str], Ticked | None]]] = field(default_factory=list)
    set_back: tuple[int, ...] = ()

    def show(self, run: Run, log: Sequence[str]) -> None:
        if self.is_killed:
            raise Killed
        if self.fails:
            raise EnvironmentRefused("the disk is full", remedy="make room")
        self.runs.append(run)
        self.log = log

    def tick(self, path: str, mark: Callable[[str], Ticked | None]) -> tuple[int, ...]:
        self.ticked.append((path, mark))
        return self.set_back

    @property
    def now(self) -> Run:
        return self.runs[-1]

    @property
    def lines(self) -> list[str]:
        return [line.partition("]** ")[2] or line for line in self.log]


@pytest.fixture
def shown() -> Shown:
    return Shown()


def app_of(scene: Scene, shown: Shown) -> App:
    return replace(scene.app, workflow_runs=lambda: shown)


def begin(scene: Scene, *steps: str, front: str = "risk_level: low\nauto_approve: true") -> Loop:
    (scene.root / NAME).write_text(workflow(*steps, front=front))
    proposal = propose(scene.app, scene.root / NAME)
    return approve(scene.app, proposal, proposal.name, "ada")


def driven(scene: Scene, shown: Shown, loop: Loop, answers: Answers = nobody) -> Run:
    drive(app_of(scene, shown), loop.id, answers)
    return shown.now


def test_a_run_in_which_all_goes_well(scene, shown):
    scene.agent = ScriptedAgent(does(greet_txt="hello"), idles)
    loop = begin(scene, f"{CHECKED}\ngate: human", "loop: false")
    done = driven(scene, shown, loop)
    assert [step.status for step in done.steps] == ["done", "done"]
    assert (done.status, done.workflow_slug, done.executor_mode) == ("completed", "rate", "irontree")
    assert done.more == {"driver": "irontree", "loop_id": loop.id}
    assert [step.more for step in done.steps] == [{"issue_number": 2}, {"issue_number": 3}]
    assert [(step.gate_result, step.gate_mode) for step in done.steps] == [("approved", "auto"), (None, None)]
    assert (done.steps[0].verify["passed"], done.steps[0].verify["stdout"]) == (True, "step: has greet.txt hello\n")
    assert shown.lines == [
        *("→ Step 1: Part 1", "✓ Step 1: Done (1 attempt(s))", "Gate Step 1: approved (auto)"),
        *("→ Step 2: Part 2", "✓ Step 2: Done (no verify, 1 attempt(s))", "Run finalized: completed"),
    ]
    assert run_from_json(run_as_json(done)) == done


def test_it_begins_pending_and_its_id_is_that_of_its_beginning(scene, shown):
    begin(scene, CHECKED)
    show_runs(app_of(scene, shown), scene.world, [scene.state("rate-part-1")])
    (step,) = shown.now.steps
    assert (shown.now.status, shown.now.current_step) == ("running", 1)
    assert (step.status, step.attempts, step.started_at, step.verify["passed"]) == ("pending", 0, None, None)
    assert shown.now.run_id.startswith("rate-20260422T")


def test_a_loop_that_was_stopped_leaves_its_run_abandoned(scene, shown):
    loop = begin(scene, CHECKED)
    show_runs(app_of(scene, shown), scene.world, [scene.state("rate-part-1")])
    assert shown.now.status == "running"
    cancel(scene.app, loop.id, "ada")
    show_runs_of(app_of(scene, shown), loop.id)
    assert shown.now.status == "abandoned"


def test_killed_before_it_is_shown_the_next_command_shows_it(scene, shown):
    begin(scene, CHECKED)
    scene.agent = ScriptedAgent(does(greet_txt="hello"))
    number = scene.number("rate-part-1")
    run(scene.app, number)
    passed = verify(scene.app, number)
    shown.is_killed = True
    with pytest.raises(Killed):
        follow_up(app_of(scene, shown), passed)
    shown.is_killed = False
    catch_up(app_of(scene, shown))
    assert [step.status for step in shown.now.steps] == ["done"]


def test_what_is_committed_is_in_progress(scene, shown):
    begin(scene, CHECKED)
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    follow_up(app_of(scene, shown), run(scene.app, scene.number("rate-part-1")))
    (step,) = shown.now.steps
    assert (step.status, step.attempts, step.verify["passed"]) == ("in_progress", 1, None)
    assert step.started_at is not None


def test_what_an_agent_works_on_is_in_progress_before_it_ends(scene, shown):
    seen = []
    scene.agent = ScriptedAgent(lambda task: seen.append(shown.now.steps[0].status) or does(greet_txt="hello")(task))
    driven(scene, shown, begin(scene, CHECKED))
    assert seen == ["in_progress"]


def test_iterations_that_are_used_up(scene, shown):
    scene.agent = ScriptedAgent(does(greet_txt="bye"), does(greet_txt="good bye"))
    run_now = driven(scene, shown, begin(scene, UNTIL, CHECKED))
    failed, pending = run_now.steps
    assert (run_now.status, failed.status, failed.attempts, failed.max_iterations) == ("paused", "failed", 2, 2)
    assert (failed.verify["passed"], pending.status) == (False, "pending")
    printed = "  verify stdout: step: has greet.txt hello"
    assert shown.lines[1:] == [
        *("✗ Step 1: Failed (1 attempt(s))", printed, "↻ Step 1: Retrying (2/2)"),
        *("✗ Step 1: Failed (2 attempt(s))", printed),
    ]
    assert {step.status for run_then in shown.runs for step in run_then.steps[:1]} == {"in_progress", "failed"}


def test_what_waits_for_a_person_and_what_they_said(scene, shown):
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="hello again"))
    loop = begin(scene, f"{UNTIL}\ngate: human", front=ASKS)
    (step,) = driven(scene, shown, loop).steps
    assert shown.now.status == "paused"
    assert step.block_reason == "human review required: only a person can judge: approve step 1: Part 1"
    driven(scene, shown, loop, prepared(sends_back("say it twice"), accepts()))
    (step,) = shown.now.steps
    assert (step.status, step.attempts, step.gate_result, step.gate_mode) == ("done", 2, "approved", "human")
    assert "Human review for Step 1: rejected (human)" in shown.lines
    assert "Human review for Step 1: approved (human)" in shown.lines
    assert any(each.steps[0].gate_result == "rejected" for each in shown.runs)


@pytest.mark.parametrize("detail", ["", "report_detail: full\n"])
def test_the_report_has_what_failing_checks_printed_and_in_full_what_all_printed(scene, shown, detail):
    scene.agent = ScriptedAgent(does(greet_txt="bye"), does(greet_txt="hello"), does(greet_txt="hello again"))
    reviewed = "loop: false\nverify:\n  - type: shell\n    command: has greet.txt again\n"
    reviewed += "  - type: human-review\n    prompt: It is kind"
    driven(scene, shown, begin(scene, UNTIL, reviewed, front=f"{detail}risk_level: low"))
    passed = ["  verify stdout: step: has greet.txt hello"] if detail else []
    looked = ["  verify stdout: step: has greet.txt again"] if detail else []
    assert shown.lines == [
        *("→ Step 1: Part 1", "✗ Step 1: Failed (1 attempt(s))", "  verify stdout: step: has greet.txt hello"),
        *("↻ Step 1: Retrying (2/2)", "✓ Step 1: Done (2 attempt(s))", *passed),
        *(
            "→ Step 2: Part 2",
            "✗ Step 2: Blocked (human review required: only a person can judge: It is kind)",
            *looked,
        ),
    ]
    assert [line for line in shown.log if line.startswith("  ")] == [line for line in shown.lines if "stdout" in line]


def test_each_check_of_a_list_is_marked_and_iterations_are_those_that_there_are(scene, shown):
    listed = (
        "verify:\n  - type: shell\n    command: has greet.txt hello\n  - type: human-review\n    prompt: It is kind\n"
    )
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="bye"))
    loop = begin(scene, f"loop: false\n{listed}", CHECKED)

    def marks() -> list[bool | None]:
        return [check["passed"] for check in shown.now.steps[0].verify["checks"]]

    driven(scene, shown, loop)
    assert (marks(), [step.max_iterations for step in shown.now.steps]) == ([True, None], [1, 1])
    driven(scene, shown, loop, prepared(accepts()))
    assert marks() == [True, True]


def test_a_note_of_who_sends_back_is_in_the_report(scene, shown):
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="hello again"))
    loop = begin(scene, f"{UNTIL}\ngate: human", front=ASKS)
    driven(scene, shown, loop, prepared(sends_back("say it twice"), accepts()))
    at = shown.lines.index("Human review for Step 1: rejected (human)")
    assert shown.lines[at + 1] == shown.log[at + 1] == "  note: say it twice"


def test_what_is_blocked_and_what_is_skipped(scene, shown):
    def refuses(_: AgentTask) -> AgentResult:
        return AgentResult("exited", 1, 1.0, "I will not do that")

    scene.agent = ScriptedAgent(*[refuses] * 9)
    loop = begin(scene, CHECKED, CHECKED)
    first = driven(scene, shown, loop).steps[0]
    assert (shown.now.status, first.status) == ("blocked", "blocked")
    assert "I will not do that" in (first.block_reason or "")
    drive(app_of(scene, shown), loop.id, prepared(Answer("skip", "ada")))
    show_runs(app_of(scene, shown), scene.world, [scene.state("rate-part-1")])
    assert [step.block_reason for step in shown.now.steps] == ["skipped", "skipped"]


def test_a_stopped_loop_is_abandoned(scene, shown):
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    loop = begin(scene, CHECKED)
    driven(scene, shown, loop, prepared(Answer("stop", "ada")))
    show_runs(app_of(scene, shown), scene.world, [scene.state("rate-part-1")])
    assert shown.now.status == "abandoned"


def test_the_boxes_of_done_steps_are_ticked_and_ticks_by_hand_are_told(scene, shown):
    scene.agent = ScriptedAgent(does(greet_txt="hello"), idles)
    shown.set_back = (2,)
    driven(scene, shown, begin(scene, CHECKED, CHECKED))
    text = (scene.root / NAME).read_text()
    assert {path for path, _ in shown.ticked} == {NAME}
    made = [ticked.text for _, mark in shown.ticked if (ticked := mark(text))]
    assert [text.count("- [x]") for text in made] == sorted(text.count("- [x]") for text in made)
    assert made[0] == text
    assert made[-1] == text.replace("- [ ]", "- [x]")
    assert f"the box of step 2 in {NAME} was ticked by hand: it is not done" in scene.notes.lines


def test_a_document_is_shown_nowhere(scene, shown):
    scene.start()
    show_runs(app_of(scene, shown), scene.world, scene.world.states.values())
    assert not shown.runs


def test_a_disk_that_is_full_stops_no_work(scene, shown):
    shown.fails = True
    scene.agent = ScriptedAgent(does(greet_txt="hello"))
    assert drive(app_of(scene, shown), begin(scene, CHECKED).id, nobody).reason == "goal_reached"
    assert any("the run of hotl-workflow-rate.md in .hotl is not up to date" in line for line in scene.notes.lines)
