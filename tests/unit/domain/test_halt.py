"""The seven halt conditions, in their order, and what a person may answer (protocol, Halt Semantics)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.halt import RULE, RULES, choices, halt_of, rule_about
from irontree.domain.state import Phase
from tests.unit.domain.histories import reach

ORDER = [
    "goal_reached",
    "fail_terminal",
    "pending_acceptance",
    "reapproval_required",
    "blocked",
    "protocol_gap",
    "loop_budget_exhausted",
]
HALTS = {
    Phase.TERMINAL: "fail_terminal",
    Phase.PENDING: "pending_acceptance",
    Phase.STALE: "reapproval_required",
    Phase.ADOPTED: "reapproval_required",
    Phase.BLOCKED: "blocked",
}
# Reason -> who asks, and the answers: name and what it needs. A star: only inside a loop; a plus: where it matters.
ANSWERS = {
    "goal_reached": (None, []),
    "fail_terminal": ("issue", ["retry count", "verify", "+allow", "*skip", "*stop"]),
    "pending_acceptance": ("issue", ["accept", "send-back note", "+allow", "*skip", "*stop"]),
    "reapproval_required": (
        "issue",
        [
            *("approve revision", "+approve-keep revision", "+approve-reopen revision"),
            *("+approve-keep-reopen revision", "*skip", "*stop"),
        ],
    ),
    "blocked": ("issue", ["go-on", "+allow", "*skip", "*stop"]),
    "protocol_gap": ("loop", ["go-on", "*stop"]),
    "loop_budget_exhausted": ("loop", ["extend count", "*stop"]),
}


def test_the_seven_conditions_stand_in_the_protocols_order():
    assert [rule.reason for rule in RULES] == ORDER
    assert list(RULE) == ORDER


@pytest.mark.parametrize("phase", list(Phase))
def test_an_issue_halts_in_exactly_these_phases(phase):
    rule = halt_of(reach(phase).now)
    assert (rule.reason if rule else None) == HALTS.get(phase)


@pytest.mark.parametrize("phase", list(Phase))
def test_a_log_that_cannot_be_trusted_blocks_in_every_phase(phase):
    assert halt_of(replace(reach(phase).now, problem="sequence 2 is missing")) is RULE["blocked"]


@pytest.mark.parametrize("reason", ORDER)
def test_a_person_is_asked_by_the_issue_or_the_loop_and_has_these_choices(reason):
    asked_of, answers = ANSWERS[reason]
    rule = RULE[reason]
    told = [
        f"{'*' * choice.loop_only}{'+' * choice.special}{choice.name} {' '.join(choice.needs)}".strip()
        for choice in rule.choices
    ]
    assert (rule.asked_of, told) == (asked_of, answers)


@pytest.mark.parametrize("reason", ORDER)
def test_every_choice_of_a_halt_has_its_own_name_and_label(reason):
    """A form sends the label, a terminal the name: neither may stand for two answers."""
    rule = RULE[reason]
    words = [word for choice in rule.choices for word in (choice.name, choice.label)]
    assert len(set(words)) == len(words)
    assert rule.title


@pytest.mark.parametrize("reason", sorted(set(HALTS.values())))
def test_skipping_and_stopping_need_a_loop_and_something_else_is_always_left(reason):
    rule = RULE[reason]
    alone = {choice.name for choice in choices(rule, in_loop=False)}
    assert alone
    assert {choice.name for choice in choices(rule, in_loop=True)} == alone | {"skip", "stop"}


@pytest.mark.parametrize(("attempts", "is_said"), [(1, False), (4, True)])
def test_whoever_sends_back_after_the_last_attempt_is_told_before(attempts, is_said):
    state = replace(reach(Phase.PENDING).now, attempt_count=attempts, max_retry_count=3)
    [label] = [
        choice.label for choice in rule_about(state, RULE["pending_acceptance"]).choices if choice.typed == "reject"
    ]
    assert ("no attempt is left, so you are asked next whether to allow more" in label) is is_said


def test_special_choices_are_offered_only_by_name():
    """R7: an approval can keep or reopen tasks that were there before, where there are any."""
    rule = RULE["reapproval_required"]
    assert [choice.name for choice in choices(rule, in_loop=False)] == ["approve"]
    offered = choices(rule, in_loop=False, special=["approve-keep"])
    assert [choice.name for choice in offered] == ["approve", "approve-keep"]
