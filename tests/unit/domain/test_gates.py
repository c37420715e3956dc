"""Gates: whose word counts, and how often."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.agents import AgentSpec
from irontree.domain.gates import GATE_OF, Gate, Gates, judge
from irontree.domain.halt import RULES
from irontree.domain.plan import ExecutionPolicy, PlanNode, PublishPolicy

NAMES = st.sampled_from(["alice", "Alice", "bob", "BOB", "carol", "dave"])


@given(st.lists(NAMES, max_size=8), st.sets(NAMES), st.booleans())
def test_everybody_counts_once_and_who_asked_does_not_where_that_is_wanted(voters, requesters, not_requester: bool):
    counted = Gate(not_requester=not_requester).counted(voters, requesters)
    folded = [name.casefold() for name in counted]
    assert len(set(folded)) == len(folded)
    assert set(counted) <= set(voters)
    asked = {name.casefold() for name in requesters} if not_requester else set()
    assert set(folded) == {name.casefold() for name in voters} - asked


def test_the_words_say_how_many_and_who_not():
    both = Gate(approvers=2, not_requester=True)
    assert both.decide == "2 people with write access who did not ask for the work decide"
    assert Gate().decide == "somebody with write access decides"
    assert Gate().words == "somebody with write access"


@given(
    gate=st.none() | st.builds(Gate, approvers=st.integers(1, 4), not_requester=st.booleans()),
    people=st.lists(NAMES, max_size=6),
    asked=st.sets(NAMES),
    by_timer=st.booleans(),
)
def test_one_rule_says_who_passes(gate, people, asked, by_timer: bool):
    """No gate and a timer pass; nobody known never does; otherwise as many different people as it asks for."""
    found = judge(gate, people, asked, by_timer=by_timer)
    if gate is None or by_timer:
        assert found == "passed"
        return
    left_out = {name.casefold() for name in asked} if gate.not_requester else set()
    enough = len({name.casefold() for name in people} - left_out) >= gate.approvers
    assert found == ("unidentified" if not people else "passed" if enough else "too_few")


def test_every_halt_of_an_issue_may_have_a_gate_and_no_other():
    assert set(GATE_OF) == {rule.reason for rule in RULES if rule.asked_of == "issue"}
    assert set(GATE_OF.values()) == set(Gates.model_fields)


def test_what_lets_nothing_pass_needs_no_gate():
    """To send back, to skip and to stop is always possible, from anywhere."""
    free = {choice.name for rule in RULES for choice in rule.choices if not choice.permits}
    assert free == {"send-back", "skip", "stop"}


def test_a_node_may_have_gates_and_retries_of_its_own():
    policy = ExecutionPolicy(
        agent=AgentSpec(), publish=PublishPolicy(target_branch="main"), gates=Gates(failure=Gate()), max_retry_count=1
    )
    plain = PlanNode(task_key="a", title="A")
    own = plain.model_copy(update={"gates": Gates(acceptance=Gate(approvers=2)), "max_retry_count": 0})
    assert (policy.gates_of(plain), policy.retries_of(plain)) == (policy.gates, 1)
    assert (policy.gates_of(own), policy.retries_of(own)) == (own.gates, 0)
    assert own.digest != plain.digest


def test_what_is_unset_is_no_part_of_what_was_approved():
    """Digests as they were before there were gates and retries of a node, budgets, gates and caches of a policy."""
    assert PlanNode(task_key="a", title="t").digest.startswith("dcb2705f5651858d")
    policy = ExecutionPolicy(agent=AgentSpec(), publish=PublishPolicy(target_branch="main"))
    assert policy.digest == "1bbdcb237447253b1bd2b62e68ed9c893d0c460e0610514a25da089da46d3d44"
