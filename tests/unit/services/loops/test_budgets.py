"""Budgets of agents: counted from the log, warned of once, at the limit a question of the loop (protocol, Budgets)."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from irontree.agents.scripted import ScriptedAgent, ScriptedStep
from irontree.domain.agents import AgentSpec, ReviewerSpec
from irontree.domain.attempt import Usage
from irontree.domain.budgets import BudgetPolicy, SpendingLimits
from irontree.domain.decide import Halt, Run, Verify
from irontree.errors import AnswerRefused, Cancelled, NotEligible
from irontree.ports import AgentResult, AgentTask, CodingAgent
from irontree.services.answers.answers import Answer, answer_loop
from irontree.services.execution.run import run
from irontree.services.execution.steps import Idle, next_step, perform
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import next_decision
from irontree.services.loops.funds import read_funds
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.planner import plan_document
from irontree.services.proposals.sources import propose
from irontree.services.questions.listing import explain
from irontree.services.questions.pages import question_text
from irontree.services.questions.questions import question_of_loop
from irontree.services.views.overview import overview
from tests.support.watching import Killed
from tests.support.world import GREETING, ONE_TASK, SPEC, Scene, ends, nobody, prepared, writes_what_is_asked

TWO_TASKS = """\
# Toy

## Greeting

- [ ] it says hello `$ has greet.txt hello`

## Close

Depends on: Greeting

- [ ] closed `$ has close.txt`
"""


def costs(
    dollars: float | None, *, tokens: int | None = 0, seconds: float = 1.0, then: ScriptedStep = writes_what_is_asked
) -> ScriptedStep:
    """A step that does its work and says what it took."""

    def step(task: AgentTask) -> AgentResult:
        then(task)
        return AgentResult("exited", 0, seconds, "", usage=Usage(tokens, 0 if tokens is not None else None, dollars))

    return step


def idle(_: AgentTask) -> None:
    """Do nothing that could pass."""


def limited(scene: Scene, **limits: str) -> Scene:
    """The scene with these budgets: `issue="5 USD"`, `loop="2h"`."""
    units = {"USD": "money", "ns": "tokens"}
    found = {
        scope: SpendingLimits(**{units.get(text[-3:].strip(), units.get(text[-2:], "time")): text})
        for scope, text in limits.items()
    }
    policy = BudgetPolicy(**found)
    agent = AgentSpec(adapter="aider", command=("agent",))
    scene.policy = scene.policy.model_copy(update={"budgets": policy, "agent": agent})
    return scene


def more(amount: str) -> Answer:
    return Answer("extend", "ada", amount=amount)


def puts_the_clock_back(scene: Scene) -> ScriptedStep:
    """A step in which the clock of the machine is set right, by hours."""

    def step(_: AgentTask) -> None:
        scene.clock.moment -= timedelta(hours=3)

    return step


# --- at the limit ------------------------------------------------------------------------------------------


def test_without_a_budget_nothing_is_counted_and_no_file_has_a_word_of_it(scene):
    scene.agent = ScriptedAgent(costs(1000.0))
    loop = scene.start(TWO_TASKS)
    assert scene.drive(loop).reason == "goal_reached"
    assert read_funds(scene.app, scene.world).of_issue(scene.state()) == ()
    assert "budgets" not in scene.plans.load(scene.plans.revisions()[0]).model_dump()["policy"]


def test_an_attempt_that_was_over_its_budget_still_counts_and_only_the_next_one_is_stopped(scene):
    limited(scene, loop="5 USD").agent = ScriptedAgent(costs(6.0))
    loop = scene.start(TWO_TASKS)
    halt = scene.drive(loop)
    assert scene.state().done
    assert (halt.reason, halt.task_key) == ("loop_budget_exhausted", None)
    assert halt.detail == "this loop: 6.00 USD of 5.00 USD spent, nothing left"
    assert len(scene.agent.tasks) == 1


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"attempt": "2 USD"}, "each attempt of issue-1: 3.00 USD of 2.00 USD spent, nothing left"),
        ({"issue": "3 USD"}, "issue-1: 3.00 USD of 3.00 USD spent, nothing left"),
        ({"loop": "1000 tokens"}, "this loop: 2000 tokens of 1000 tokens spent, nothing left"),
        ({"day": "1m"}, "the day 2026-04-22: 1m 30s of 1m spent, nothing left"),
    ],
)
def test_each_scope_and_unit_stops_the_next_attempt(scene, limits, words):
    limited(scene, **limits).agent = ScriptedAgent(costs(3.0, tokens=2000, seconds=90.0, then=idle))
    loop = scene.start(ONE_TASK)
    assert scene.drive(loop).detail == words
    assert len(scene.agent.tasks) == 1


@pytest.mark.parametrize("limits", [{"loop": "5 USD"}, {"attempt": "5 USD"}, {"issue": "9 USD"}])
@pytest.mark.parametrize("when", ["before the first attempt", "in the first attempt", "in the second attempt"])
def test_a_clock_that_is_put_back_lets_no_limit_through(scene, limits, when):
    limited(scene, **limits)
    loop = scene.start(ONE_TASK)
    if when == "before the first attempt":
        puts_the_clock_back(scene)(None)
    back = puts_the_clock_back(scene)
    first = back if when == "in the first attempt" else idle
    second = back if when == "in the second attempt" else idle
    scene.agent = ScriptedAgent(costs(3.0, then=first), costs(6.0, then=second), costs(6.0), costs(6.0))
    assert scene.drive(loop).reason == "loop_budget_exhausted"
    assert len(scene.agent.tasks) == 2


def test_an_extension_in_the_unit_that_is_used_up_lets_the_loop_go_on(scene):
    limited(scene, issue="3 USD").agent = ScriptedAgent(costs(3.0, then=idle), costs(3.0))
    loop = scene.start(ONE_TASK)
    assert scene.drive(loop, prepared(more("4 USD"))).reason == "goal_reached"
    extended = next(r for r in scene.loops.read(loop.id).records if r.event.event == "loop_budget_extended")
    assert (extended.event.extra_transitions, extended.event.budget_max_transitions) == (0, 50)
    assert extended.meta["budget"] == {"scope": "issue", "unit": "money", "extra": "4.00 USD", "issue": "1"}


def test_two_budgets_that_are_used_up_are_both_said_in_the_first_question(scene):
    limited(scene, issue="2 USD", loop="3 USD").agent = ScriptedAgent(costs(4.0, then=idle), costs(1.0))
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    [first, second] = [words for words in question_of_loop(scene.app, loop.id).detail.split("; used up too, ") if words]
    assert "of 2.00 USD spent" in first
    assert "asked about next: this loop: 4.00 USD of 3.00 USD spent" in second
    answer_loop(scene.app, loop.id, more("5 USD"))
    assert scene.drive(loop).detail == "this loop: 4.00 USD of 3.00 USD spent, nothing left"


def test_too_small_an_extension_asks_again_under_another_key(scene):
    limited(scene, issue="3 USD").agent = ScriptedAgent(costs(6.0, then=idle))
    loop = scene.start(ONE_TASK)
    keys: list[str] = []

    def answer(question):
        keys.append(question.key)
        return more("1 USD") if len(keys) == 1 else None

    assert scene.drive(loop, answer).detail == "issue-1: 6.00 USD of 4.00 USD spent, nothing left"
    assert len(set(keys)) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer("extend", "ada", count=20),
        more("20"),
        more("2h"),
        more("200000 tokens"),
        more("0 USD"),
        more("-5 USD"),
        more(""),
    ],
)
def test_an_answer_in_another_unit_or_none_is_refused_and_changes_nothing(scene, answer):
    limited(scene, issue="3 USD").agent = ScriptedAgent(costs(3.0, then=idle))
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    before = scene.loop_events(loop)
    with pytest.raises(AnswerRefused):
        answer_loop(scene.app, loop.id, answer)
    assert scene.loop_events(loop) == before


def test_of_two_people_who_extend_at_once_the_second_is_told_that_it_is_answered(scene):
    limited(scene, issue="3 USD").agent = ScriptedAgent(costs(3.0, then=idle))
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    asked = question_of_loop(scene.app, loop.id)
    both = replace(more("4 USD"), question=asked.key)
    answer_loop(scene.app, loop.id, both)
    with pytest.raises(AnswerRefused):
        answer_loop(scene.app, loop.id, both)
    assert [budget.limit for budget in read_funds(scene.app, scene.world).of_issue(scene.state())] == [7_000_000]


def test_resuming_without_an_extension_slips_past_nothing(scene):
    limited(scene, issue="3 USD").agent = ScriptedAgent(costs(3.0, then=idle))
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    loops.resume(scene.app, loop.id)
    assert next_decision(scene.app, loop.id) == Halt(
        "loop_budget_exhausted", detail="issue-1: 3.00 USD of 3.00 USD spent, nothing left"
    )
    assert isinstance(next_step(scene.app, 1, loop.id), Idle)
    with pytest.raises(NotEligible, match="no agent may work on issue-1") as refused:
        run(scene.app, 1)
    assert loop.id in refused.value.remedy
    assert len(scene.agent.tasks) == 1


def test_a_single_step_outside_any_loop_obeys_the_same_limits(scene):
    limited(scene, day="3 USD").agent = ScriptedAgent(costs(3.0, then=idle))
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    perform(scene.app, Verify(GREETING))
    with pytest.raises(NotEligible) as refused:
        run(scene.app, 1)
    assert "wait until 2026-04-23T00:00:00Z" in refused.value.remedy
    funds = read_funds(scene.app, scene.world)
    assert [budget.words for budget in funds.of_issue(scene.state())] == [
        "the day 2026-04-22: 3.00 USD of 3.00 USD spent, nothing left"
    ]


# --- what cannot be read -----------------------------------------------------------------------------------


def test_an_agent_that_never_says_what_it_costs_is_not_started_where_money_is_limited(scene):
    limited(scene, issue="3 USD")
    scene.policy = scene.policy.model_copy(update={"agent": AgentSpec(command=("agent",))})
    loop = scene.start(ONE_TASK)
    assert scene.drive(loop).reason == "blocked"
    assert scene.last().event.blocking_check == "budget-unreadable"
    assert "money" in scene.last().meta["reason"]
    assert scene.agent.tasks == []


def test_an_attempt_whose_cost_cannot_be_read_halts_and_says_so_until_a_person_lets_it_pass(scene):
    limited(scene, issue="100 USD").agent = ScriptedAgent(costs(None, then=idle), costs(1.0))
    loop = scene.start(ONE_TASK)
    halt = scene.drive(loop)
    assert halt.detail == "issue-1: attempt 1 of issue-1 does not say how much money it took, and it has a limit"
    assert scene.drive(loop, prepared(more("1 USD"))).reason == "goal_reached"


def test_an_attempt_that_never_started_costs_nothing(scene):
    limited(scene, issue="3 USD").agent = ScriptedAgent(ends("not_started"), costs(1.0))
    loop = scene.start(ONE_TASK)
    assert scene.drive(loop, prepared(Answer("go-on", "ada"))).reason == "goal_reached"


def test_a_refused_commit_keeps_what_its_attempt_took(scene):
    limited(scene, issue="3 USD").agent = ScriptedAgent(costs(3.0))
    scene.repository.hook = lambda _: "no"
    loop = scene.start(ONE_TASK)
    assert scene.drive(loop).reason == "loop_budget_exhausted"
    assert scene.events()[-1] == "run_commit_failed"


def dies(task: AgentTask) -> None:
    """The driver is killed in the middle of its agent."""
    raise Killed


def dies_behind(task: AgentTask) -> None:
    """The driver is killed when the agent has ended and its result is kept, and before the log says so."""
    task.transcript.mkdir(parents=True)
    usage = {"input_tokens": 1, "output_tokens": 1, "cost_usd": 2.5}
    (task.transcript / "result.json").write_text(json.dumps({"ended": "exited", "seconds": 9, "usage": usage}))
    raise Killed


def test_an_attempt_that_was_cut_off_is_taken_for_too_much_money(scene):
    limited(scene, issue="100 USD").agent = ScriptedAgent(dies, costs(1.0))
    loop = scene.start(ONE_TASK)
    with pytest.raises(Killed):
        scene.drive(loop)
    assert "attempt 1 of issue-1 does not say how much money it took" in scene.drive(loop).detail


def test_an_attempt_that_was_cut_off_has_taken_no_more_time_than_has_passed_and_than_it_had(scene):
    limited(scene, issue="20h").agent = ScriptedAgent(dies, costs(1.0))
    loop = scene.start(ONE_TASK)
    with pytest.raises(Killed):
        scene.drive(loop)
    scene.clock.moment += timedelta(days=2)
    assert scene.drive(loop).reason == "goal_reached"
    assert [budget.spent for budget in read_funds(scene.app, scene.world).of_issue(scene.state())] == [3_601_000]


def test_a_kill_between_an_attempt_and_its_record_loses_nothing_of_what_it_took(scene):
    limited(scene, issue="100 USD").agent = ScriptedAgent(dies_behind, costs(1.0))
    loop = scene.start(ONE_TASK)
    with pytest.raises(Killed):
        scene.drive(loop)
    assert scene.drive(loop).reason == "goal_reached"
    assert [budget.spent for budget in read_funds(scene.app, scene.world).of_issue(scene.state())] == [3_500_000]


# --- the day -----------------------------------------------------------------------------------------------


def test_the_budget_of_a_day_lifts_itself_at_midnight(scene):
    limited(scene, day="3 USD").agent = ScriptedAgent(costs(3.0, then=idle), costs(3.0))
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    asked = question_of_loop(scene.app, loop.id)
    assert asked.not_before == "2026-04-23T00:00:00Z"
    scene.clock.moment = datetime.fromisoformat(asked.not_before) + timedelta(seconds=1)
    assert question_of_loop(scene.app, loop.id) is None
    assert isinstance(next_decision(scene.app, loop.id), Run)
    assert scene.drive(loop).reason == "goal_reached"


# --- who sees it -------------------------------------------------------------------------------------------


def test_four_fifths_are_warned_of_once(scene):
    limited(scene, loop="10 USD").agent = ScriptedAgent(costs(4.0), costs(4.0), costs(0.5), costs(0.5))
    loop = scene.start(SPEC)
    scene.drive(loop)
    warned = [line for line in scene.notes.lines if line.startswith("budget: ")]
    assert warned == ["budget: this loop: 8.00 USD of 10.00 USD spent, 2.00 USD left"]


def test_listings_the_question_and_why_say_what_is_spent(scene):
    limited(scene, issue="3 USD").agent = ScriptedAgent(costs(3.0, then=idle))
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    words = "issue-1: 3.00 USD of 3.00 USD spent, nothing left"
    assert [budget.words for budget in overview(scene.app).budgets] == [words]
    assert words in explain(scene.app, GREETING).because
    assert words in question_text(scene.app, question_of_loop(scene.app, loop.id))


def test_the_report_says_what_is_spent(scene):
    limited(scene, issue="3 USD").agent = ScriptedAgent(costs(2.0))
    scene.drive(scene.start(ONE_TASK))
    report = scene.projections.texts[scene.root / ".mino/reports/issue-1/report.md"]
    assert "## Budgets\n\n- issue-1: 2.00 USD of 3.00 USD spent, 1.00 USD left\n" in report


def test_the_approval_shows_the_budgets_in_one_line(scene):
    limited(scene, issue="3 USD", day="2h")
    text = approval_text(scene.app, propose(scene.app, scene.write(ONE_TASK)), loop_mode=True, answer="")
    assert "- Budgets of the agents: each issue: 3.00 USD; each day (UTC): 2h" in text


# --- reviewers ---------------------------------------------------------------------------------------------


def test_what_reviewers_take_counts_once_and_a_spent_budget_stops_them_too(scene):
    limited(scene, issue="3 USD").agent = ScriptedAgent(costs(3.0))
    reviewer = ReviewerSpec(name="eve", adapter="aider", command=("eve",))
    scene.policy = scene.policy.model_copy(update={"reviewers": (reviewer,)})
    scene.reviewers["eve"] = ScriptedAgent(costs(1.0, then=idle))
    loop = scene.start(ONE_TASK)
    assert scene.drive(loop, nobody).reason == "loop_budget_exhausted"
    assert scene.events()[-1] == "run_completed"
    assert scene.reviewers["eve"].tasks == []


def test_a_reviewer_that_spoke_counts_with_its_attempt(scene):
    limited(scene, issue="100 USD").agent = ScriptedAgent(costs(3.0))
    reviewer = ReviewerSpec(name="eve", adapter="aider", command=("eve",))
    scene.policy = scene.policy.model_copy(update={"reviewers": (reviewer,)})
    scene.reviewers["eve"] = ScriptedAgent(costs(1.0, then=idle))
    scene.drive(scene.start(ONE_TASK))
    assert scene.last().event.blocking_check == "no-review"
    (budget,) = read_funds(scene.app, scene.world).of_issue(scene.state())
    assert budget.spent == 6_000_000, "it was asked three times"


def reviewed(scene: Scene, *steps: ScriptedStep) -> Scene:
    """The scene with 100 USD for an issue, an agent that takes 3 of them, and a reviewer who takes these steps."""
    limited(scene, issue="100 USD").agent = ScriptedAgent(costs(3.0))
    reviewer = ReviewerSpec(name="eve", adapter="aider", command=("eve",))
    scene.policy = scene.policy.model_copy(update={"reviewers": (reviewer,)})
    scene.reviewers["eve"] = ScriptedAgent(*steps)
    return scene


def keeps(dollars: float) -> ScriptedStep:
    """A round of a reviewer without a verdict, kept as adapters do."""

    def step(task: AgentTask) -> AgentResult:
        task.transcript.mkdir(parents=True)
        usage = {"input_tokens": 1, "output_tokens": 1, "cost_usd": dollars}
        (task.transcript / "result.json").write_text(json.dumps({"ended": "exited", "seconds": 9, "usage": usage}))
        return AgentResult("exited", 0, 9.0, "", usage=Usage(1, 1, dollars))

    return step


def begins_and_dies(task: AgentTask) -> None:
    task.transcript.mkdir(parents=True)
    raise Killed


def is_stopped(task: AgentTask) -> AgentResult:
    keeps(2.0)(task)
    return AgentResult("cancelled", None, 9.0, "", usage=Usage(1, 1, 2.0))


def test_a_review_that_is_stopped_in_its_second_round_keeps_what_both_rounds_took(scene):
    reviewed(scene, keeps(1.0), is_stopped)
    loop = scene.start(ONE_TASK)
    with pytest.raises(Cancelled):
        scene.drive(loop)
    (budget,) = read_funds(scene.app, scene.world).of_issue(scene.state())
    assert (budget.spent, budget.unread) == (6_000_000, 0)


def test_a_review_that_is_asked_again_adds_to_what_the_one_before_took(scene):
    reviewed(scene, is_stopped, keeps(1.0))
    loop = scene.start(ONE_TASK)
    with pytest.raises(Cancelled):
        scene.drive(loop)
    scene.drive(loop)
    assert scene.last().event.blocking_check == "no-review"
    (budget,) = read_funds(scene.app, scene.world).of_issue(scene.state())
    assert budget.spent == 8_000_000, "three of the attempt, two before the stop, three rounds after it"


def test_a_reviewer_is_held_to_what_is_left(scene):
    """Of time by the limit of its program, of the rest by its allowance; each round anew."""
    limited(reviewed(scene, keeps(1.0)), issue="60s").agent = ScriptedAgent(costs(1.0, seconds=20))
    granted = []

    def agent(spec: AgentSpec) -> CodingAgent:
        granted.append(spec.wall_seconds)
        return scene.app.agent(spec)

    scene.publish(ONE_TASK)
    app = replace(scene.app, agent=agent)
    for step in (Run(GREETING), Verify(GREETING)):
        perform(app, step)
    assert granted[-4:] == [60, 40, 31, 22], "the attempt, and three rounds"
    assert [task.allowance.time for task in scene.reviewers["eve"].tasks] == [40_000, 31_000, 22_000]


def test_a_reviewer_is_not_asked_again_once_nothing_is_left_and_the_loop_asks_for_more(scene):
    limited(reviewed(scene, keeps(1.0)), issue="5 USD").agent = ScriptedAgent(costs(3.0))
    loop = scene.start(ONE_TASK)
    with pytest.raises(NotEligible, match="no agent may work on issue-1"):
        scene.drive(loop)
    assert len(scene.reviewers["eve"].tasks) == 2
    assert next_decision(scene.app, loop.id).reason == "loop_budget_exhausted"


def test_a_planner_is_held_to_what_is_left_of_the_day(scene):
    limited(scene, day="15s").agent = ScriptedAgent(keeps(1.0))
    with pytest.raises(NotEligible, match="no agent may plan"):
        plan_document(scene.app, "make it", "NOTES.md", "")
    assert [task.allowance.time for task in scene.agent.tasks] == [15_000, 6_000]


def test_what_the_log_says_of_a_review_counts_where_nothing_of_it_is_kept(scene):
    reviewed(scene, keeps(1.0))
    scene.drive(scene.start(ONE_TASK))
    kept = read_funds(scene.app, scene.world).of_issue(scene.state())
    shutil.rmtree(scene.root / ".mino" / "reports")
    assert read_funds(scene.app, scene.world).of_issue(scene.state()) == kept
    assert kept[0].spent == 6_000_000


def test_a_review_that_was_killed_is_taken_for_too_much_until_a_person_lets_it_pass(scene):
    reviewed(scene, begins_and_dies, keeps(1.0))
    loop = scene.start(ONE_TASK)
    with pytest.raises(Killed):
        scene.drive(loop)
    assert "the review by eve of issue-1 does not say how much money it took" in scene.drive(loop).detail
    assert len(scene.reviewers["eve"].tasks) == 1
    scene.drive(loop, prepared(more("1 USD")))
    assert len(scene.reviewers["eve"].tasks) > 1


def test_planning_counts_for_the_day_and_is_refused_when_that_is_spent(scene):
    limited(scene, day="3 USD")
    folder = scene.root / ".mino" / "reports" / "plans" / "20260422T150000Z" / "1"
    folder.mkdir(parents=True)
    kept = {"ended": "exited", "seconds": 9, "usage": {"input_tokens": 1, "output_tokens": 1, "cost_usd": 3.5}}
    (folder / "result.json").write_text(json.dumps(kept))
    with pytest.raises(NotEligible, match=r"no agent may plan: the day 2026-04-22: 3.50 USD of 3.00 USD spent"):
        plan_document(scene.app, "make it", "NOTES.md", "")
