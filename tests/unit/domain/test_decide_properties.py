"""What no decision may ever be, in any condition of any tree; and that following decisions leads to the goal."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from irontree.domain.decide import Aggregate, Finalize, Halt, Recover, Run, Verify, decide, step_for, waiting
from irontree.domain.graph import Graph
from irontree.domain.halt import RULES, concerns_one_issue, halt_of
from irontree.domain.state import Phase
from tests.unit.domain.histories import WITH_CODE, History, histories
from tests.unit.domain.trees import node, scope, scopes, trees

WORK = {Run: Phase.READY, Verify: Phase.COMMITTED, Finalize: Phase.VERIFIED, Recover: Phase.RUNNING}
WORK |= {Aggregate: Phase.CONTAINER}


def in_scope(given_scope):
    return [given_scope.states[key] for key in given_scope.keys if key in given_scope.states]


def done(given_scope, key):
    return key in given_scope.states and given_scope.states[key].done


def stops(given_scope):
    """The states in scope that halt the loop at once."""
    halting = [state for state in in_scope(given_scope) if halt_of(state)]
    return [s for s in halting if not (s.task_key in given_scope.go_on and concerns_one_issue(s))]


@given(scopes())
def test_an_action_is_one_that_the_contract_allows_in_that_state(found):
    decision = decide(found)
    event(type(decision).__name__ if not isinstance(decision, Halt) else decision.reason)
    if isinstance(decision, Halt):
        return
    state = found.states[decision.task_key]
    assert decision.task_key in found.keys
    assert decision.task_key in found.nodes
    assert state.phase is WORK[type(decision)]
    assert state.problem is None
    match decision:
        case Run():
            assert found.nodes[decision.task_key].executability == "executable"
            assert state.attempt_count <= state.max_retry_count
            needed = found.nodes[decision.task_key].depends_on
            assert state.started or all(done(found, key) for key in needed)
        case Verify():
            assert state.commit is not None
        case Finalize():
            assert state.completion_basis is not None
            assert state.code_publication_state == (
                "not_applicable" if state.code_ref == "not_applicable" else "published"
            )
        case Aggregate():
            children = found.children[decision.task_key]
            assert children
            assert all(done(found, key) for key in children)


@given(scopes())
def test_only_recovery_comes_before_a_halt_or_without_budget(found):
    decision = decide(found)
    if not isinstance(decision, Halt | Recover):
        assert not stops(found)
        assert found.budget_left > 0


@given(scopes())
def test_the_first_halt_condition_in_the_protocols_order_is_the_one_given(found):
    decision = decide(found)
    if not isinstance(decision, Halt) or decision.reason == "goal_reached":
        return
    order = [rule.reason for rule in RULES]
    halting = stops(found) or ([] if decision.reason == "loop_budget_exhausted" else in_scope(found))
    present = [order.index(rule.reason) for state in halting if (rule := halt_of(state))]
    assert order.index(decision.reason) == min([*present, order.index(decision.reason)])
    if decision.task_key:
        rule = halt_of(found.states[decision.task_key])
        assert rule is not None
        assert rule.reason == decision.reason


@given(scopes())
def test_a_halt_names_all_that_wait_beside_it_and_no_step_that_needs_nobody_is_left(found):
    decision, waits = decide(found), waiting(found)
    assert {state.task_key for state in waits} == {
        state.task_key for state in in_scope(found) if halt_of(state) and state not in stops(found)
    }
    if not isinstance(decision, Halt):
        return
    assert decision.waiting == tuple(state.task_key for state in waits)
    if decision.task_key in decision.waiting:
        assert all(step_for(found, state) is None for state in in_scope(found))
        assert decision.task_key == decision.waiting[0]


@given(scopes())
def test_without_the_setting_whatever_waits_stops_the_loop(found):
    literal = replace(found, go_on=frozenset())
    decision = decide(literal)
    assert not waiting(literal)
    if isinstance(decision, Halt):
        assert decision.waiting == ()
    elif not isinstance(decision, Recover):
        assert not any(halt_of(state) for state in in_scope(literal))


@given(scopes())
def test_the_goal_is_reached_exactly_when_everything_in_scope_is_done(found):
    reached = bool(found.keys) and all(done(found, key) for key in found.keys)
    assert (decide(found) == Halt("goal_reached")) == reached


@given(scopes(), st.randoms(use_true_random=False))
def test_a_decision_depends_on_no_order_of_keys_states_or_nodes(found, chance):
    def shuffled(items):
        items = list(items)
        chance.shuffle(items)
        return items

    other = replace(
        found,
        nodes=dict(shuffled(found.nodes.items())),
        states=dict(shuffled(found.states.items())),
        keys=tuple(shuffled(found.keys)),
    )
    assert decide(other) == decide(found) == decide(found)


@given(scopes())
def test_what_a_loop_does_for_a_task_is_what_the_task_alone_would_do(found):
    decision = decide(found)
    if not isinstance(decision, Halt):
        assert step_for(found, found.states[decision.task_key]) == decision


@given(histories())
def test_a_lone_task_always_has_a_step_a_question_or_nothing_left_to_do(history):
    """No state strands: whatever the log says, somebody knows what comes next."""
    state = history.now
    alone = scope([], [state])
    found = replace(alone, nodes={state.task_key: node(state.task_key)}, keys=(state.task_key,))
    if state.phase is not Phase.CONTAINER:
        assert bool(step_for(found, state)) + bool(halt_of(state)) + state.done == 1


# --- following decisions ------------------------------------------------------------------------------------


class Loop:
    """A loop over a published tree that does what `decide` says and records what *outcome* makes of it."""

    def __init__(self, nodes, outcome, go_on=()):
        self.nodes = nodes
        self.go_on = go_on
        self.outcome = outcome
        self.steps = []
        self.histories = {known.task_key: published(known, number) for number, known in enumerate(nodes, start=1)}

    def run(self, budget=10_000):
        while True:
            states = [history.now for history in self.histories.values()]
            decision = decide(scope(self.nodes, states, budget=budget - len(self.steps), go_on=self.go_on))
            if isinstance(decision, Halt):
                return decision
            self.steps.append(decision)
            key = decision.task_key
            self.histories[key] = self.histories[key].then(*self.outcome(decision, self.histories[key]))


def published(known, number):
    container = known.executability == "container"
    return History().then(
        "task_published",
        task_key=known.task_key,
        issue_number=number,
        next_stage="decompose" if container else "run",
        workflow_entry_state="needs_breakdown" if container else "ready_to_start",
    )


def all_goes_well(decision, _):
    match decision:
        case Run():
            return ("run_started", WITH_CODE)
        case Verify():
            return ("verify_passed",)
        case Finalize():
            return ("checkup_done",)
        case Aggregate():
            return ("checkup_aggregate_recorded",)


def has_an_order(nodes):
    """What intake lets through: nothing waits for itself."""
    return not Graph.of(nodes).cycles


@given(trees().filter(has_an_order))
def test_when_all_goes_well_every_task_takes_three_steps_every_container_two_and_the_goal_is_reached(nodes):
    loop = Loop(nodes, all_goes_well)
    containers = sum(known.executability == "container" for known in nodes)
    assert loop.run() == Halt("goal_reached")
    assert len(loop.steps) == 3 * (len(nodes) - containers) + 2 * containers


@given(trees(), st.randoms(use_true_random=False), st.booleans())
def test_whatever_happens_the_loop_ends_and_work_is_serial(nodes, chance, go_on):
    def anything(decision, history):
        match decision:
            case Run():
                ends = [("run_started", WITH_CODE), ("run_started", "run_completed"), ("run_started",)]
                return chance.choice([*ends, ("run_started", "run_commit_failed"), ("checkup_preflight_blocked",)])
            case Recover():
                return chance.choice([(WITH_CODE,), ("run_interrupted",)])
            case Verify():
                last = history.now.attempt_count > history.now.max_retry_count
                failed = "verify_failed_terminal" if last else "verify_failed_retryable"
                ends = [("verify_passed",), ("verify_passed",), ("verify_pending_acceptance",)]
                return chance.choice([*ends, (failed,), ("verify_publication_failed",)])
            case _:
                return all_goes_well(decision, history)

    loop = Loop(nodes, anything, [known.task_key for known in nodes] if go_on else ())
    ended = loop.run(budget=60)
    assert len(loop.steps) <= 60
    assert ended.reason in {rule.reason for rule in RULES}
    under_way = [key for key, history in loop.histories.items() if history.now.started]
    assert len([key for key in under_way if key not in ended.waiting]) <= 1
