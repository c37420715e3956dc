"""The follower: shows the log as it grows, has every question answered once, and sees to it that somebody drives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.cli.follow import CRASHES, Follower, ShownSoFar
from irontree.domain.agents import AgentSpec
from irontree.domain.budgets import BudgetPolicy, SpendingLimits
from irontree.errors import ServerUnavailable
from irontree.flows.runs.runs import RunInfo
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import approve
from irontree.services.execution.run import run as attempt
from irontree.services.loops import loop as loops
from irontree.services.proposals.sources import propose
from irontree.services.views.overview import activity
from tests.support.hotl import workflow
from tests.support.world import (
    MANUAL_TASK,
    ONE_TASK,
    SPEC,
    Scene,
    accepts,
    does,
    drive,
    ends,
    make_scene,
    nobody,
    sends_back,
    writes_what_is_asked,
)
from tests.unit.cli.following import Person, Terminal, follower_of, run


def ctrl_c() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def scene(tmp_path) -> Scene:
    return make_scene(tmp_path)


@pytest.fixture
def follow(scene):
    """A follower of a loop over that document, driven as far as it goes without anybody."""

    def follow(spec: str = MANUAL_TASK, *prepared: str, person: Person | None = None, driven: bool = True) -> Follower:
        return follower_of(scene, spec, *prepared, person=person, driven=driven)

    return follow


# --- showing ------------------------------------------------------------------------------------------------------


def test_what_goes_on_is_said_of_the_tasks_of_the_loop_alone(scene):
    scene.publish(ONE_TASK)
    attempt(scene.app, 1)
    world = scene.world
    [key] = world.states
    assert activity(world, [key]).endswith(": checks run")
    assert activity(world, ["another"]) == "starting the next step"


@pytest.mark.parametrize("progress", ["progress: verbose\n", ""])
def test_where_all_steps_of_a_workflow_file_are_is_told_where_it_asks_for_that(scene, progress):
    path = scene.root / "hotl-workflow-rate.md"
    checked = "loop: false\nverify: has greet.txt hello"
    path.write_text(workflow(checked, checked, front=f"{progress}risk_level: low\nauto_approve: true"))
    proposal = propose(scene.app, path)
    loop = approve(scene.app, proposal, proposal.name, "ada")
    shown = ShownSoFar.all_of(scene.app, loop.id)
    follower = Follower(scene.app, Terminal(scene, loop), loop.id, Person(), [], "Ada", shown)
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="hello"))
    attempt(scene.app, 2)
    follower.catch_up()
    follower.catch_up()
    scene.drive(loop)
    follower.catch_up()
    told = [line for line in follower.screen.lines if line.startswith(path.name)]
    indent = "\n" + 12 * " "
    begun = ("→ Running Step 1: Part 1 (1)", "· Pending Step 2: Part 2")
    ended = ("✓ Done Step 1: Part 1 (1)", "✓ Done Step 2: Part 2 (1)")
    lists = [f"{path.name}:{indent}{indent.join(steps)}" for steps in (begun, ended)]
    assert told == (lists if progress else [])


def test_events_are_told_once_in_their_order_with_the_titles_of_their_issues(follow):
    follower = follow(SPEC, "issue-4=accept")
    assert follower.follow() == "completed"
    lines = follower.screen.lines
    assert [line for line in lines if line.endswith(": done")] == [
        f"#{number} {title}: done"
        for number, title in ((1, "Greeting"), (3, "Part one"), (4, "Part two"), (2, "Parts"), (5, "Close"))
    ]
    assert len(lines) == len(set(lines))
    follower.catch_up()
    assert follower.screen.lines == lines


def test_a_failed_verification_is_told_with_what_the_next_attempt_will_be_told(follow, scene):
    scene.agent = ScriptedAgent(does(greet_txt="bye\n"), writes_what_is_asked)
    follower = follow(MANUAL_TASK)
    follower.catch_up()
    [failed] = [line for line in follower.screen.lines if "verification failed" in line]
    assert failed.splitlines()[0] == "#1 Greeting: verification failed at attempt 1 of 4"
    assert failed.splitlines()[1].endswith("| $ has greet.txt hello")


# --- the log grows while it is read -----------------------------------------------------------------------------


@dataclass
class Watched:
    """A port in front of which something happens whenever it is used."""

    port: object
    first: Callable[[], None]

    def __getattr__(self, name: str) -> object:
        self.first()
        return getattr(self.port, name)


class Notes(Person):
    """A person whose being asked stands among the lines, and who turns away."""

    def ask(self, *_) -> None:
        self.lines.append("asked")


def grow_at(use: int, follower: Follower) -> None:
    """Drive the loop as far as it goes just before the follower uses the log that many times."""
    scene, uses = follower.session.scene, iter(range(1, use + 1))

    def work() -> None:
        if next(uses, None) == use:
            drive(scene.app, follower.loop_id, nobody)

    app = scene.app
    ports = {name: Watched(getattr(app, name), work) for name in ("log", "replays", "loops")}
    follower.app = replace(app, **ports)


USES = range(1, 12)
"""More often than the log is used in one look."""


@pytest.mark.parametrize("use", USES)
def test_all_is_told_before_the_end_whenever_the_loop_gets_there(follow, use):
    follower = follow(ONE_TASK, driven=False)
    grow_at(use, follower)
    assert follower.follow() == "completed"
    lines = follower.screen.lines
    assert len(lines) == len(set(lines))
    assert lines[-2:] == ["#1 Greeting: done", "goal reached: everything in scope is done"]


@pytest.mark.parametrize("use", USES)
def test_what_led_to_a_question_is_told_before_it_is_asked(follow, use):
    follower = follow(MANUAL_TASK, driven=False, person=Notes())
    grow_at(use, follower)
    assert follower.follow() == "halted"
    *told, asked = follower.screen.lines
    assert told[-2:] == [
        "#1 Greeting: waits for a person: only a person can judge: it is friendly",
        "the loop stops here: your acceptance is needed",
    ]
    assert asked == "asked"


def test_what_is_recorded_while_a_run_ends_is_told_with_its_reason(follow, scene):
    follower = follow(ONE_TASK, driven=False)

    def fails(_: str) -> RunInfo:
        attempt(scene.app, 1)
        return run("FAILED", message="the disk is full")

    follower.session.run_of_loop = fails
    with pytest.raises(ServerUnavailable, match="the disk is full"):
        follower.follow()
    assert follower.screen.lines[0] == "#1 Greeting: attempt 1 of 4: the agent works"


def test_the_server_is_asked_first_when_something_has_begun_and_not_later(follow, scene):
    follower = follow(ONE_TASK, driven=False, person=Person(before=[lambda: attempt(scene.app, 1)]))
    follower.look_after_every = 3600
    follower.session.loop_run = run("FAILED", message="the disk is full")
    with pytest.raises(ServerUnavailable, match="the disk is full"):
        follower.follow()


def test_a_loop_that_ends_just_before_the_terminal_that_serves_it_is_completed(follow, scene):
    follower = follow(ONE_TASK, driven=False)

    def alive() -> bool:
        drive(scene.app, follower.loop_id, nobody)
        return False

    follower.session.alive = alive
    assert follower.follow() == "completed"


def test_a_loop_whose_last_step_is_the_one_that_is_finished_after_ctrl_c_is_completed(follow, scene):
    follower = follow(ONE_TASK, driven=False, person=Person(before=[ctrl_c]))

    def at_rest() -> bool:
        drive(scene.app, follower.loop_id, nobody)
        return True

    follower.session.at_rest = at_rest
    assert follower.follow() == "completed"


def test_a_line_at_which_ctrl_c_came_is_told_after_it(follow):
    class Slow(Person):
        def say(self, text: str) -> None:
            if self.before:
                self.before.pop(0)()
            super().say(text)

    follower = follow(ONE_TASK, person=Slow(before=[lambda: None, ctrl_c]))
    assert follower.follow() == "completed"
    first, second, third, *_ = follower.screen.lines
    assert first == "#1 Greeting: attempt 1 of 4: the agent works"
    assert second.startswith("Finishing the present step")
    assert third.startswith("#1 Greeting: attempt 1 of 4: committed")


# --- answering ------------------------------------------------------------------------------------------------


def test_prepared_answers_are_used_in_their_order_and_those_that_are_left_are_known(follow):
    follower = follow(
        MANUAL_TASK, "issue-1=send-back:friendlier", "issue-1=accept:good", "issue-1=accept:twice", "issue-9=accept"
    )
    assert follower.follow() == "completed"
    assert [(given.choice, given.note, given.by) for given in follower.session.given] == [
        ("send-back", "friendlier", "Ada"),
        ("accept", "good", "Ada"),
    ]
    assert [prepared.text for prepared in follower.prepared] == ["issue-1=accept:twice", "issue-9=accept"]
    assert "Answered: reject (“friendlier”)" in follower.screen.lines


def test_a_refused_answer_is_said_with_its_reason_and_the_person_is_asked_again(follow):
    person = Person([sends_back(""), accepts()])
    follower = follow(person=person)
    assert follower.follow() == "completed"
    assert person.asked == 2
    assert any("needs a note" in line for line in person.lines)


def test_a_question_whose_answer_is_on_its_way_is_not_asked_twice(follow, scene):
    person = Person([accepts()])
    follower = follow(person=person)
    follower.session.answer = lambda *_: person.before.extend([lambda: None] * 3 + [go_on])

    def go_on() -> None:
        answer_issue(scene.app, 1, accepts(), follower.loop_id)
        drive(scene.app, follower.loop_id, nobody)

    assert follower.follow() == "completed"
    assert person.asked == 1


def test_where_nobody_answers_it_ends_halted(follow):
    follower = follow()
    assert follower.follow() == "halted"
    assert follower.screen.asked == 1


def test_an_answer_from_elsewhere_is_as_good(follow, scene):
    """The person in front of the screen turns away, for somebody was faster."""
    person = Person()
    follower = follow(person=person)

    def answered_in_the_browser(question, asked, url, still_open):
        answer_issue(scene.app, 1, accepts(), follower.loop_id)
        loops.resume(scene.app, follower.loop_id)
        assert not still_open()
        drive(scene.app, follower.loop_id, nobody)

    person.ask = answered_in_the_browser
    assert follower.follow() == "completed"


def test_a_loop_that_is_stopped_is_cancelled(follow):
    assert follow(MANUAL_TASK, "issue-1=stop").follow() == "cancelled"


def test_a_question_of_the_loop_itself_is_answered_too(follow, scene):
    scene.preferences = replace(scene.preferences, loop_budget=1)
    follower = follow(MANUAL_TASK, "loop=extend:10", "issue-1=accept")
    assert follower.follow() == "completed"
    assert [given.choice for given in follower.session.given] == ["extend", "accept"]


@pytest.fixture
def spending(scene):
    """Its agent has spent the budget of the loop after the first attempt."""
    agent = AgentSpec(adapter="aider", command=("agent",))
    budgets = BudgetPolicy(loop=SpendingLimits(time="1s"))
    scene.policy = scene.policy.model_copy(update={"agent": agent, "budgets": budgets})
    scene.agent = ScriptedAgent(ends("exited", 0), ends("exited", 0, greet_txt="hello"))


@pytest.mark.usefixtures("spending")
def test_a_prepared_answer_that_does_not_fit_is_said_with_what_does_and_the_next_one_is_taken(follow):
    follower = follow(MANUAL_TASK, "loop=extend:20", "loop=extend:1h", "issue-1=accept")
    assert follower.follow() == "completed"
    assert [given.choice for given in follower.session.given] == ["extend", "accept"]
    assert [line for line in follower.screen.lines if "`loop=extend:20` needs" in line and "'5 USD'" in line]


@pytest.mark.usefixtures("spending")
def test_a_spent_budget_is_warned_of_once_and_extended_by_an_amount(follow):
    follower = follow(MANUAL_TASK, "loop=extend:1h", "issue-1=accept")
    assert follower.follow() == "completed"
    assert [given.choice for given in follower.session.given] == ["extend", "accept"]
    warned = [line for line in follower.screen.lines if "budget: " in line]
    assert len(warned) == 1
    assert "budget: this loop: 1s of 1s spent, nothing left" in warned[0]


# --- looking after the runs -------------------------------------------------------------------------------------


def test_a_halt_that_nobody_asks_about_is_taken_up(follow):
    follower = follow(MANUAL_TASK, "issue-1=accept")
    follower.session.shows_forms = False
    assert follower.follow() == "completed"


def test_a_loop_that_has_no_run_is_taken_up(follow):
    follower = follow(MANUAL_TASK, "issue-1=accept", driven=False)
    follower.session.loop_run = None
    assert follower.follow() == "completed"


def test_a_loop_whose_process_died_is_started_again(follow):
    follower = follow(MANUAL_TASK, "issue-1=accept", driven=False)
    follower.session.loop_run = run("CRASHED")
    assert follower.follow() == "completed"
    assert "The loop's process died; starting it again." in follower.screen.lines


def test_a_loop_whose_process_keeps_dying_is_left_to_somebody_who_looks_why(follow):
    follower = follow(driven=False)
    follower.session.loop_run = run("CRASHED", message="killed")
    follower.session.set_going = lambda _: None
    with pytest.raises(ServerUnavailable, match=r"Crashed\. killed") as refusal:
        follower.follow()
    assert follower.screen.lines.count("The loop's process died; starting it again.") == CRASHES
    assert refusal.value.remedy == f"go on with: irontree resume {follower.loop_id}"


@pytest.mark.parametrize(("ended", "how"), [(run("CANCELLED"), "called off"), (run("COMPLETED", "Stopped"), "stopped")])
def test_a_loop_that_somebody_ended_in_the_browser_or_at_the_other_terminal_is_told_apart(follow, ended, how):
    follower = follow(driven=False)
    follower.session.loop_run = ended
    assert follower.follow() == how


def test_a_loop_that_failed_is_told_with_its_reason(follow):
    follower = follow(driven=False)
    follower.session.loop_run = run("FAILED", message="the disk is full")
    with pytest.raises(ServerUnavailable, match="the disk is full"):
        follower.follow()


def test_flows_that_nobody_serves_any_more_are_told(follow):
    follower = follow(driven=False)
    follower.session.served = False
    with pytest.raises(ServerUnavailable, match=r"serves the flows was killed by SIGKILL\. Why"):
        follower.follow()


# --- Ctrl-C --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driven", [True, False])
def test_the_first_ctrl_c_waits_until_the_present_step_is_finished_and_asks_nobody(follow, driven):
    """...also where nothing is at work, because somebody is asked."""
    person = Person([accepts()])
    follower = follow(driven=driven, person=person)
    follower.session.resting = False

    def rests() -> None:
        follower.session.resting = True

    person.before = [ctrl_c, lambda: None, rests]
    assert follower.follow() == "stopped"
    assert follower.session.finishing
    assert person.asked == 0


def test_the_second_ctrl_c_passes(follow):
    follower = follow(driven=False, person=Person(before=[ctrl_c, ctrl_c]))
    follower.session.resting = False
    with pytest.raises(KeyboardInterrupt):
        follower.follow()


def test_a_viewer_leaves_at_the_first_ctrl_c_and_stops_nobody(follow):
    follower = follow(driven=False, person=Person(before=[ctrl_c]))
    follower.session.serves = False
    with pytest.raises(KeyboardInterrupt):
        follower.follow()
    assert not follower.session.finishing


def test_ctrl_c_at_a_question_leaves_it_open_and_stops_nothing(follow, scene):
    class Leaves(Person):
        def ask(self, *_) -> Answer | None:
            raise KeyboardInterrupt

    follower = follow(person=Leaves())
    assert follower.follow() == "left"
    assert not follower.session.finishing
    assert loops.read_loop(scene.app, follower.loop_id).entity.status == "halted"
