"""The next action of a loop or an issue: halts first, what is in progress, aggregation, a new run (R11)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.decide import Aggregate, Finalize, Halt, Recover, Run, Verify, decide, may_start, step_for
from irontree.domain.halt import CONCERN_ALL, CONCERN_ONE_ISSUE
from irontree.domain.state import Phase
from tests.unit.domain.histories import PATHS, WITH_CODE, History, reach, task
from tests.unit.domain.trees import node, scope

RETRY = reach(Phase.COMMITTED).then("verify_failed_retryable").now


def alone(state, **more):
    return scope([node(state.task_key)], [state], **more)


# --- one issue ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "action"),
    [
        (PATHS[Phase.READY], Run),
        (("task_adopted", "task_approved"), Run),
        (PATHS[Phase.RUNNING], Recover),
        ((*PATHS[Phase.RUNNING], "run_commit_failed"), Run),
        ((*PATHS[Phase.RUNNING], "run_interrupted"), Run),
        (PATHS[Phase.COMMITTED], Verify),
        ((*PATHS[Phase.COMMITTED], "verify_publication_failed"), Verify),
        ((*PATHS[Phase.COMMITTED], "verify_failed_retryable"), Run),
        (PATHS[Phase.VERIFIED], Finalize),
        ((*PATHS[Phase.PENDING], "checkup_accept_recorded"), Finalize),
        ((*PATHS[Phase.COMMITTED], "checkup_preflight_blocked", "checkup_unblocked"), Verify),
        ((*PATHS[Phase.TERMINAL], ("checkup_unblocked", {"resolution": "verify"})), Verify),
        ((*PATHS[Phase.TERMINAL], ("checkup_unblocked", {"resolution": "retry", "extra_attempts": 1})), Run),
    ],
)
def test_the_last_event_decides_what_comes_next(steps, action):
    """The table of ruling R11, where the protocol's literal wording misroutes four states."""
    state = History().then(*steps).now
    assert decide(alone(state)) == action(state.task_key)
    assert step_for(alone(state), state) == action(state.task_key)


@pytest.mark.parametrize(
    "phase", [Phase.TERMINAL, Phase.PENDING, Phase.STALE, Phase.ADOPTED, Phase.BLOCKED, Phase.DONE]
)
def test_an_issue_that_waits_for_a_person_or_is_done_has_no_step(phase):
    state = reach(phase).now
    assert step_for(alone(state), state) is None


# --- halts --------------------------------------------------------------------------------------------------

HALTING = [
    (Phase.TERMINAL, "fail_terminal"),
    (Phase.PENDING, "pending_acceptance"),
    (Phase.STALE, "reapproval_required"),
    (Phase.BLOCKED, "blocked"),
]


def test_the_goal_is_reached_when_all_in_scope_is_done():
    nodes = [node("a"), node("b"), node("c")]
    states = [task("a", Phase.DONE), task("b", Phase.DONE), task("c", Phase.BLOCKED)]
    assert decide(scope(nodes, states, keys=["a", "b"])) == Halt("goal_reached")


def test_the_goal_is_not_reached_by_a_task_that_was_never_published():
    assert decide(scope([node("a"), node("b")], [task("a", Phase.DONE)])) == Halt(
        "protocol_gap", detail="b is not published"
    )


def test_a_goal_without_tasks_is_not_reached():
    """In scope is the frozen set less what was cancelled; of nothing nothing can be done (S8)."""
    assert decide(scope([], [])) == Halt("protocol_gap", detail="no task is in scope")


@pytest.mark.parametrize("first", range(len(HALTING)))
def test_the_first_condition_that_holds_wins_over_all_later_ones(first):
    present = HALTING[first:]
    states = [task(f"t-{number}", phase, number=number) for number, (phase, _) in enumerate(present, start=1)]
    states.append(task("ready", Phase.READY, number=9))
    decision = decide(scope([node(state.task_key) for state in states], states, budget=0))
    assert isinstance(decision, Halt)
    assert (decision.reason, decision.task_key) == (HALTING[first][1], "t-1")


def test_a_terminal_failure_is_reported_as_such_although_it_is_blocked_too():
    state = reach(Phase.TERMINAL).now
    assert state.workflow_entry_state == "blocked"
    assert decide(alone(state)) == Halt("fail_terminal", state.task_key)


def test_a_halt_stops_the_whole_loop_even_if_another_task_could_go_on():
    states = [task("a", Phase.BLOCKED, number=1), task("b", Phase.COMMITTED, number=2)]
    assert decide(scope([node("a"), node("b")], states)) == Halt("blocked", "a", "dirty-working-tree")


# --- `loop.on_halt: go_on` -----------------------------------------------------------------------------------


def waits_and_ready(state, *, needs=(), go_on=("a", "b"), **more):
    """*state* of task `a`, and `b`, which may start unless it *needs* the other."""
    states = [replace(state, task_key="a", issue_number=1), task("b", Phase.READY, number=2)]
    return scope([node("a"), node("b", needs=needs)], states, go_on=go_on, **more)


@pytest.mark.parametrize("phase", [Phase.TERMINAL, Phase.PENDING])
def test_others_go_on_while_an_issue_waits_for_a_person(phase):
    assert decide(waits_and_ready(reach(phase).now)) == Run("b")


@pytest.mark.parametrize("check", sorted(CONCERN_ONE_ISSUE))
def test_a_block_of_one_issue_lets_others_go_on(check):
    blocked = replace(reach(Phase.BLOCKED).now, blocking_check=check)
    assert decide(waits_and_ready(blocked)) == Run("b")


@pytest.mark.parametrize(
    "state",
    [
        reach(Phase.STALE).now,
        reach(Phase.ADOPTED).now,
        replace(reach(Phase.PENDING).now, problem="sequence 2 is missing"),
        *(replace(reach(Phase.BLOCKED).now, blocking_check=check) for check in sorted(CONCERN_ALL)),
        replace(reach(Phase.BLOCKED).now, blocking_check="of-a-later-version"),
    ],
    ids=lambda state: state.problem or state.blocking_check or state.phase.name,
)
def test_what_may_concern_all_stops_the_loop(state):
    decision = decide(waits_and_ready(state))
    assert isinstance(decision, Halt)
    assert (decision.task_key, decision.waiting) == ("a", ())


def test_the_plan_of_the_task_that_waits_says_whether_others_go_on():
    pending = reach(Phase.PENDING).now
    assert decide(waits_and_ready(pending, go_on=["a"])) == Run("b")
    assert decide(waits_and_ready(pending, go_on=["b"])) == Halt("pending_acceptance", "a")


def test_what_depends_on_a_task_that_waits_waits_too_and_then_the_loop_halts():
    assert decide(waits_and_ready(reach(Phase.PENDING).now, needs=["a"])) == Halt(
        "pending_acceptance", "a", waiting=("a",)
    )


def test_the_loop_halts_at_the_first_of_those_that_wait_and_names_all():
    kinds = [(Phase.PENDING, 9), (Phase.TERMINAL, 7), (Phase.PENDING, 3)]
    states = [task(key, phase, sequence=at, number=at) for key, (phase, at) in zip("abc", kinds, strict=True)]
    found = scope([node(key) for key in "abc"], states, go_on="abc")
    assert decide(found) == Halt("fail_terminal", "b", waiting=("b", "c", "a"))


def test_what_stops_the_loop_is_asked_before_what_only_waits():
    states = [task("a", Phase.PENDING, number=1), task("b", Phase.BLOCKED, number=2), task("c", Phase.READY, number=3)]
    found = scope([node(key) for key in "abc"], states, go_on="abc")
    assert decide(found) == Halt("blocked", "b", "dirty-working-tree", ("a",))


def test_an_issue_that_was_answered_goes_first():
    """It is in progress again: verification, another attempt and finalization come before a new run."""
    states = [replace(RETRY, task_key="a", issue_number=1), task("b", Phase.READY, number=2)]
    assert decide(scope([node("a"), node("b")], states, go_on="ab")) == Run("a")


def test_budgets_stop_the_loop_while_others_wait():
    pending = reach(Phase.PENDING).now
    assert decide(waits_and_ready(pending, budget=0)) == Halt("loop_budget_exhausted", waiting=("a",))
    spent = replace(waits_and_ready(pending), overspent={"b": "the day's money is spent"})
    assert decide(spent) == Halt("loop_budget_exhausted", detail="the day's money is spent", waiting=("a",))


def test_a_task_outside_the_scope_halts_nothing():
    states = [task("a", Phase.BLOCKED, number=1), task("b", Phase.COMMITTED, number=2)]
    assert decide(scope([node("a"), node("b")], states, keys=["b"])) == Verify("b")


@pytest.mark.parametrize(
    ("first", "second", "halted_at"),
    [((5, 1), (3, 2), "b"), ((3, 2), (5, 1), "a"), ((4, 2), (4, 1), "b"), ((4, 1), (4, 2), "a")],
)
def test_of_two_issues_that_halt_alike_the_one_that_stopped_first_is_named(first, second, halted_at):
    states = [
        task(key, Phase.PENDING, sequence=sequence, number=number)
        for key, (sequence, number) in zip("ab", (first, second), strict=True)
    ]
    decision = decide(scope([node("a"), node("b")], states))
    assert isinstance(decision, Halt)
    assert decision.task_key == halted_at


def test_a_damaged_log_blocks_and_says_why():
    state = replace(reach(Phase.READY).now, problem="sequence 2 is missing")
    assert decide(alone(state)) == Halt("blocked", state.task_key, "sequence 2 is missing")
    assert step_for(alone(state), state) is None


def test_a_goal_is_not_reached_through_a_damaged_log():
    state = replace(reach(Phase.DONE).now, problem="sequence 6 is missing")
    assert decide(alone(state)) == Halt("blocked", state.task_key, "sequence 6 is missing")


@pytest.mark.parametrize("budget", [0, -1])
def test_the_budget_halts_before_an_action_and_after_every_other_reason(budget):
    ready, gone = task("a", Phase.READY), task("a", Phase.DONE)
    assert decide(alone(ready, budget=budget)) == Halt("loop_budget_exhausted")
    assert decide(alone(ready, budget=1)) == Run("a")
    assert decide(alone(gone, budget=budget)) == Halt("goal_reached")
    stuck = scope([node("a", needs=["b"])], [ready], budget=budget)
    assert decide(stuck) == Halt("protocol_gap", detail="a waits for b")


# --- recovery -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.BLOCKED, Phase.TERMINAL, Phase.COMMITTED, Phase.VERIFIED])
def test_a_cut_off_attempt_is_recovered_before_anything_else(phase):
    """Its work is only in the workspace until then, and accepting or publishing another task may use that."""
    states = [task("a", phase, number=1, sequence=1), task("b", Phase.RUNNING, number=2, sequence=9)]
    assert decide(scope([node("a"), node("b")], states, budget=0)) == Recover("b")


def test_of_two_cut_off_attempts_the_older_is_recovered_first():
    states = [task("a", Phase.RUNNING, number=1, sequence=8), task("b", Phase.RUNNING, number=2, sequence=2)]
    assert decide(scope([node("a"), node("b")], states)) == Recover("b")


# --- order --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.COMMITTED, Phase.VERIFIED])
def test_an_issue_in_progress_comes_before_aggregation_and_a_new_run(phase):
    nodes = [node("new"), node("parent", container=True), node("child", parent="parent"), node("old")]
    states = [
        task("new", Phase.READY, number=1, sequence=1),
        task("parent", Phase.CONTAINER, number=2, sequence=1),
        task("child", Phase.DONE, number=3),
        task("old", phase, number=4, sequence=20),
    ]
    assert decide(scope(nodes, states)) in (Verify("old"), Finalize("old"))
    without_old = [state for state in states if state.task_key != "old"]
    assert decide(scope(nodes, without_old, keys=["new", "parent", "child"])) == Aggregate("parent")


def test_a_retry_is_in_progress_too():
    states = [task("new", Phase.READY, number=1), replace(RETRY, task_key="old", issue_number=2)]
    assert decide(scope([node("new"), node("old")], states)) == Run("old")


def test_a_retry_runs_although_a_dependency_is_no_longer_done():
    """A dependency that was reopened meanwhile does not strand an attempt that has begun."""
    retry = replace(RETRY, task_key="b", issue_number=2)
    nodes = [node("a"), node("b", needs=["a"])]
    assert decide(scope(nodes, [task("a", Phase.READY, number=1), retry])) == Run("b")


@pytest.mark.parametrize(
    ("first", "second", "chosen"), [((7, 1), (5, 2), "b"), ((5, 2), (5, 1), "b"), ((5, 1), (7, 2), "a")]
)
@pytest.mark.parametrize("phase", [Phase.READY, Phase.COMMITTED, Phase.VERIFIED])
def test_ties_go_to_the_lowest_sequence_then_the_lowest_issue_number(phase, first, second, chosen):
    states = [
        task(key, phase, sequence=sequence, number=number)
        for key, (sequence, number) in zip("ab", (first, second), strict=True)
    ]
    decision = decide(scope([node("a"), node("b")], states))
    assert decision in (Run(chosen), Verify(chosen), Finalize(chosen))


@pytest.mark.parametrize(("verify_at", "retry_at", "chosen"), [(9, 4, Run("r")), (4, 9, Verify("v"))])
def test_verify_finalize_and_retry_are_one_rank(verify_at, retry_at, chosen):
    states = [
        task("v", Phase.COMMITTED, number=1, sequence=verify_at),
        replace(RETRY, task_key="r", issue_number=2, sequence=retry_at),
    ]
    assert decide(scope([node("v"), node("r")], states)) == chosen


# --- eligibility --------------------------------------------------------------------------------------------


def test_a_task_starts_when_all_it_depends_on_is_done():
    nodes = [node("a"), node("b"), node("c", needs=["a", "b"])]
    half = [task("a", Phase.DONE, number=1), task("b", Phase.COMMITTED, number=2), task("c", Phase.READY, number=3)]
    assert not may_start(scope(nodes, half), half[2])
    assert step_for(scope(nodes, half), half[2]) is None
    all_done = [task("a", Phase.DONE), task("b", Phase.DONE), half[2]]
    assert may_start(scope(nodes, all_done), half[2])


@pytest.mark.parametrize("outside", [None, Phase.READY, Phase.BLOCKED])
def test_a_dependency_outside_the_scope_counts_all_the_same(outside):
    nodes = [node("a"), node("b", needs=["a"])]
    known = [task("a", outside, number=1)] if outside else []
    halted = decide(scope(nodes, [*known, task("b", Phase.READY, number=2)], keys=["b"]))
    assert halted == Halt("protocol_gap", detail="b waits for a")
    done = [task("a", Phase.DONE, number=1), task("b", Phase.READY, number=2)]
    assert decide(scope(nodes, done, keys=["b"])) == Run("b")


def test_a_container_is_never_run_even_if_its_log_says_ready():
    state = task("c", Phase.READY)
    assert decide(scope([node("c", container=True)], [state])) == Halt(
        "protocol_gap", detail="c waits for its children (it has none: break it down)"
    )


@pytest.mark.parametrize("phase", [Phase.READY, Phase.RUNNING, Phase.COMMITTED, Phase.VERIFIED, Phase.CONTAINER])
def test_nothing_is_done_for_a_task_that_no_plan_approves(phase):
    """Ruling R6: commands and dependencies are the plan's; without one there is nothing to go by."""
    assert decide(scope([], [task("a", phase)], keys=["a"])) == Halt("protocol_gap", detail="a is in no plan")


# --- aggregation --------------------------------------------------------------------------------------------

FAMILY = [node("p", container=True), node("x", parent="p"), node("y", parent="p")]


def test_a_container_is_aggregated_when_all_planned_children_are_done():
    states = [task("p", Phase.CONTAINER, number=1), task("x", Phase.DONE, number=2), task("y", Phase.DONE, number=3)]
    assert decide(scope(FAMILY, states)) == Aggregate("p")


@pytest.mark.parametrize("other", [None, Phase.VERIFIED, Phase.READY])
def test_a_container_waits_for_children_that_are_not_done_or_not_even_published(other):
    """B11: publishing that was cut off after the first child must not complete the parent."""
    states = [task("p", Phase.CONTAINER, number=1), task("x", Phase.DONE, number=2)]
    states += [task("y", other, number=3)] if other else []
    assert step_for(scope(FAMILY, states), states[0]) is None


def test_a_container_without_children_is_never_aggregated():
    childless = [node("p", container=True)]
    assert decide(scope(childless, [task("p", Phase.CONTAINER)])) == Halt(
        "protocol_gap", detail="p waits for its children (it has none: break it down)"
    )


def test_an_aggregated_container_is_finalized_like_any_other():
    parent = History().then(*PATHS[Phase.CONTAINER], "checkup_aggregate_recorded").now
    children = [task("x", Phase.DONE, number=2), task("y", Phase.DONE, number=3)]
    assert decide(scope(FAMILY, [replace(parent, task_key="p"), *children])) == Finalize("p")


# --- protocol_gap says what is waited for -------------------------------------------------------------------


def test_a_gap_names_everything_that_is_left_in_a_fixed_order():
    nodes = [node("p", container=True), node("x", parent="p", needs=["gone"]), node("late"), node("early")]
    states = [task("x", Phase.READY, number=2), task("p", Phase.CONTAINER, number=1)]
    assert decide(scope(nodes, states)) == Halt(
        "protocol_gap",
        detail="early is not published; late is not published; p waits for its children x; x waits for gone",
    )


def test_a_gap_in_a_large_tree_is_told_in_a_few_lines():
    wide = [node(f"t-{number}", needs=["gone"]) for number in range(50)]
    states = [task(known.task_key, Phase.READY, number=number) for number, known in enumerate(wide, start=1)]
    decision = decide(scope(wide, states))
    assert isinstance(decision, Halt)
    assert decision.detail.count(";") == 9
    parent = node("p", container=True)
    children = [node(f"c-{number}", parent="p", needs=["gone"]) for number in range(50)]
    decision = decide(scope([parent, *children], [task("p", Phase.CONTAINER)], keys=["p"]))
    assert isinstance(decision, Halt)
    assert decision.detail.endswith("c-9 and 40 more")


def test_a_done_task_with_code_is_not_started_again():
    """Literally, the protocol's sixth step matches a finished task too."""
    finished = History().then("task_published", "run_started", WITH_CODE, "verify_passed", "checkup_done").now
    assert finished.workflow_entry_state == "ready_to_start"
    assert step_for(alone(finished), finished) is None


# --- budgets of agents --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "decision"),
    [
        (Phase.READY, Halt("loop_budget_exhausted", detail="nothing left")),
        (Phase.COMMITTED, Halt("loop_budget_exhausted", detail="nothing left")),
        (Phase.RUNNING, Recover),
        (Phase.PENDING, Halt("pending_acceptance", "core-api")),
        (Phase.DONE, Halt("goal_reached")),
    ],
)
def test_a_spent_budget_stops_what_would_call_an_agent_and_comes_after_every_other_halt(phase, decision):
    """A task is among the overspent ones only if its next step calls an agent: with reviewers, verification does."""
    state = reach(phase).now
    found = decide(replace(alone(state), overspent={state.task_key: "nothing left"}))
    assert found == (decision if isinstance(decision, Halt) else decision(state.task_key))


def test_what_calls_no_agent_goes_on_before_the_loop_halts_and_no_other_attempt_is_begun_instead():
    """Checks and publication are nobody's spending; another task's attempt would be."""
    retry, committed = RETRY, task("other", Phase.COMMITTED)
    ready = task("third", Phase.READY)
    both = scope([node(retry.task_key), node("other"), node("third")], [retry, committed, ready])
    overspent = {retry.task_key: "nothing left"}
    assert decide(replace(both, overspent=overspent)) == Verify("other")
    alone_with_ready = scope([node(retry.task_key), node("third")], [retry, ready])
    assert decide(replace(alone_with_ready, overspent=overspent)).reason == "loop_budget_exhausted"
