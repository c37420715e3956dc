"""The event catalogue against the contract's own table (protocol, event file and loop events)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from irontree.domain.events import CATEGORY, ISSUE_EVENTS, IssueEvent, kebab
from irontree.domain.loop import LOOP_EVENTS, LoopEntity, LoopEvent, default_budget
from tests.unit.domain.histories import PLAIN, event

COMMON = [
    "version",
    "task_key",
    "issue_number",
    "spec_revision",
    "approved_revision",
    "sequence",
    "event",
    "current_stage",
    "next_stage",
    "workflow_entry_state",
    "approval_state",
    "attempt_count",
    "max_retry_count",
    "code_publication_state",
    "pass_fail_outcome",
    "completion_basis",
    "code_ref",
]
FIXED = (
    "current_stage",
    "next_stage",
    "workflow_entry_state",
    "approval_state",
    "code_publication_state",
    "pass_fail_outcome",
    "completion_basis",
    "code_ref",
)
VAR = "(var)"
# Typed by hand from the protocol's templates; columns as in FIXED, then the extra keys in their order.
CONTRACT = """
checkup_accept_publication_failed|verify|checkup|pending_acceptance|approved|local_only|null|null|null|
checkup_accept_recorded|checkup|done|ready_to_start|approved|(var)|pass|accepted|(var)|
checkup_aggregate_recorded|checkup|done|ready_to_start|approved|not_applicable|pass|aggregated|not_applicable|
checkup_done|done|none|ready_to_start|approved|(var)|pass|(var)|(var)|reply_posted
checkup_preflight_blocked|(var)|none|blocked|approved|(var)|null|null|null|blocking_check
checkup_reconcile_external_close_detected|(var)|none|blocked|approved|(var)|null|null|null|
checkup_reconcile_sequence_gap_detected|(var)|(var)|(var)|approved|(var)|null|null|null|\
found_sequences missing_sequences highest_replayable_sequence
run_commit_failed|run|verify|ready_to_start|approved|local_only|null|null|null|
run_completed|verify|verify|ready_to_start|approved|(var)|null|null|(var)|
run_started|run|verify|ready_to_start|approved|local_only|null|null|null|
task_adopted|definition|run|ready_to_start|pending|not_applicable|null|null|null|\
adopted_from issue_url original_title adopted_at
task_published|definition|(var)|(var)|approved|not_applicable|null|null|null|
task_re_adopted|definition|run|ready_to_start|pending|not_applicable|null|null|null|\
adopted_from issue_url previous_revision archive_path adopted_at
verify_failed_retryable|run|verify|ready_to_start|approved|(var)|fail_retryable|null|null|verify_anchor_sha
verify_failed_terminal|verify|none|blocked|approved|(var)|fail_terminal|null|null|\
verify_anchor_sha report_path promoted_doc
verify_passed|checkup|done|ready_to_start|approved|(var)|pass|verified|(var)|\
verify_anchor_sha report_path promoted_doc reply_posted
verify_pending_acceptance|verify|checkup|pending_acceptance|approved|(var)|null|null|null|\
verify_anchor_sha report_path promoted_doc reply_posted
verify_publication_failed|verify|verify|ready_to_start|approved|local_only|null|null|null|verify_anchor_sha
"""
ROWS = {cells[0]: cells[1:] for cells in (line.split("|") for line in CONTRACT.strip().splitlines())}
# Ruling R13 and, for the event that the contract names without a template, R7. Extra keys only.
ADDED = {
    "task_approved": "by channel",
    "task_reapproval_required": "",
    "run_interrupted": "",
    "checkup_unblocked": "cleared_sequence resolution extra_attempts by reason",
}
OPTIONAL = {"report_path", "promoted_doc", "reply_posted", "issue_url", "reason"}
ELSEWHERE = {
    "current_stage": "decompose",
    "next_stage": "decompose",
    "workflow_entry_state": "needs_breakdown",
    "approval_state": "draft",
    "code_publication_state": "local_only",
    "pass_fail_outcome": "fail_retryable",
    "completion_basis": "aggregated",
    "code_ref": "c" * 40,
}
"""For each key, a legal value that no row fixes it to but one, which ALTERNATIVE is for."""
ALTERNATIVE = {"code_publication_state": "published", "pass_fail_outcome": "pass", "completion_basis": "accepted"}
FIXED_CELLS = [
    (name, key, cell) for name, cells in ROWS.items() for key, cell in zip(FIXED, cells, strict=False) if cell != VAR
]
LOOP_ROWS = {
    "loop_started": "goal_kind task_keys budget_max_transitions intent_hash",
    "loop_halted": "halt_reason halt_at_task_key transitions_used",
    "loop_resumed": "previous_halt_reason transitions_used",
    "loop_budget_extended": "extra_transitions budget_max_transitions by",
    "loop_completed": "completed_at transitions_used",
    "loop_cancelled": "cancelled_at cancellation_scope task_key",
}
LOOP_PLAIN: dict[str, Any] = {
    "loop_id": "2026-04-22-1432-a3f8b2",
    "sequence": 1,
    "goal_kind": "set_done",
    "task_keys": ("core-api",),
    "budget_max_transitions": 50,
    "intent_hash": "0a1b2c3d",
    "halt_reason": "stale_takeover",
    "transitions_used": 3,
    "previous_halt_reason": "blocked",
    "extra_transitions": 10,
    "by": "ada",
    "completed_at": "2026-04-22T14:32:11Z",
    "cancelled_at": "2026-04-22T14:32:11Z",
    "cancellation_scope": "task",
}


def loop_event(name: str) -> LoopEvent:
    model = LOOP_EVENTS[name]
    return model(**{key: LOOP_PLAIN[key] for key, field in model.model_fields.items() if field.is_required()})


def test_the_catalogue_is_the_contracts_18_events_and_the_four_that_are_documented_as_added():
    assert set(ISSUE_EVENTS) == set(ROWS) | set(ADDED)
    assert len(ROWS) == 18


@pytest.mark.parametrize("name", sorted(ISSUE_EVENTS))
def test_every_event_has_the_17_common_keys_and_then_its_own_in_the_contracts_order(name):
    extra = ADDED[name] if name in ADDED else ROWS[name][len(FIXED)]
    assert list(event(name).model_dump()) == COMMON + extra.split()


@pytest.mark.parametrize(("name", "key", "cell"), FIXED_CELLS)
def test_a_value_that_the_contract_fixes_is_written_without_being_asked_for(name, key, cell):
    written = ISSUE_EVENTS[name].model_fields[key].default
    assert written == (None if cell == "null" else cell)


@pytest.mark.parametrize(("name", "key", "cell"), FIXED_CELLS)
def test_a_value_other_than_the_fixed_one_is_refused(name, key, cell):
    other = ELSEWHERE[key] if ELSEWHERE[key] != cell else ALTERNATIVE[key]
    with pytest.raises(ValidationError, match=key):
        event(name, **{key: other})


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name, cells in ROWS.items() for key, cell in zip(FIXED, cells, strict=False) if cell == VAR],
)
def test_a_value_that_the_contract_leaves_open_has_to_be_given(name, key):
    given = event(name).model_dump(exclude={key})
    with pytest.raises(ValidationError, match=key):
        ISSUE_EVENTS[name](**given)


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("run_completed", {"local_only", "not_applicable"}),
        ("verify_passed", {"published", "not_applicable"}),
        ("checkup_accept_recorded", {"published", "not_applicable"}),
        ("checkup_done", {"published", "not_applicable"}),
    ],
)
def test_work_is_local_until_evidence_says_that_it_is_published(name, legal):
    for publication in ("local_only", "published", "not_applicable"):
        if publication in legal:
            assert event(name, code_publication_state=publication).code_publication_state == publication
        else:
            with pytest.raises(ValidationError, match="code_publication_state"):
                event(name, code_publication_state=publication)


@pytest.mark.parametrize("name", sorted(ISSUE_EVENTS))
def test_the_optional_keys_may_be_absent_and_are_null_then(name):
    read = event(name)
    optional = OPTIONAL & set(read.model_dump())
    assert {getattr(read, key) for key in optional} <= {None}
    assert ISSUE_EVENTS[name].model_validate(read.model_dump(exclude=optional)) == read


def test_an_adopted_issue_is_pending_and_may_be_recorded_as_approved_already():
    assert event("task_adopted").approval_state == "pending"
    assert event("task_re_adopted", approval_state="approved").approval_state == "approved"


@pytest.mark.parametrize("name", sorted(ISSUE_EVENTS))
def test_an_event_reads_back_from_text_scalars_as_what_was_written(name):
    """Ruling R1: every scalar in a file is text; revisions such as 12345e67 and 00123456 stay what they are."""
    written = event(name, spec_revision="00123456", approved_revision="12345e67")
    assert ISSUE_EVENTS[name].model_validate(as_text(written.model_dump(mode="json"))) == written


def as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return None if value is None else str(value)


@pytest.mark.parametrize("version", [None, "2", 2, "one", [], 1.5])
def test_another_protocol_version_is_refused_as_a_wrong_value(version):
    with pytest.raises(ValidationError, match="version"):
        event("run_started", version=version)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("task_key", "Core API"),
        ("task_key", "a" * 81),
        ("issue_number", 0),
        ("sequence", 0),
        ("spec_revision", "12345e6"),
        ("approved_revision", "1234567G"),
        ("attempt_count", -1),
        ("max_retry_count", -1),
        ("code_publication_state", "pushed"),
    ],
)
def test_a_common_key_with_an_impossible_value_is_refused(key, wrong):
    with pytest.raises(ValidationError, match=key):
        event("verify_failed_retryable", **{key: wrong})


def test_an_unknown_key_is_refused_and_an_event_cannot_be_changed():
    with pytest.raises(ValidationError, match="note"):
        event("run_started", note="hello")
    with pytest.raises(ValidationError, match="frozen"):
        event("run_started").sequence = 2  # type: ignore[misc]


SILENT = """task_published task_adopted task_re_adopted run_started run_completed verify_passed
    checkup_accept_recorded checkup_aggregate_recorded loop_resumed"""
AUDIBLE = """task_reapproval_required run_commit_failed verify_failed_retryable verify_failed_terminal
    verify_publication_failed verify_pending_acceptance loop_halted checkup_preflight_blocked
    checkup_accept_publication_failed checkup_reconcile_external_close_detected
    checkup_reconcile_sequence_gap_detected"""
ADDED_SILENT = "task_approved run_interrupted checkup_unblocked loop_budget_extended"


def test_every_event_has_the_category_that_the_contract_gives_it():
    by_category = dict.fromkeys((SILENT + " " + ADDED_SILENT).split(), "silent")
    by_category |= dict.fromkeys(AUDIBLE.split(), "audible")
    by_category |= {"checkup_done": "terminal"}
    by_category |= dict.fromkeys(("loop_started", "loop_completed", "loop_cancelled"), "loop")
    assert by_category == CATEGORY
    assert set(CATEGORY) == set(ISSUE_EVENTS) | set(LOOP_EVENTS)


def test_every_event_has_a_kebab_name_of_its_own_in_lower_case():
    """Two names that a case-insensitive file system takes for one would overwrite each other."""
    names = {name: kebab(name) for name in CATEGORY}
    assert names["verify_failed_retryable"] == "verify-failed-retryable"
    assert names["checkup_reconcile_external_close_detected"] == "checkup-reconcile-external-close"
    assert names["checkup_reconcile_sequence_gap_detected"] == "checkup-reconcile-sequence-gap"
    assert all(set(found) <= set("abcdefghijklmnopqrstuvwxyz-") for found in names.values())
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("name", sorted(LOOP_ROWS))
def test_a_loop_event_has_the_contracts_keys_in_their_order(name):
    assert list(loop_event(name).model_dump()) == ["version", "loop_id", "sequence", "event", *LOOP_ROWS[name].split()]


def test_the_loop_catalogue_is_the_contracts_and_the_one_that_is_documented_as_added():
    assert set(LOOP_EVENTS) == set(LOOP_ROWS)


@pytest.mark.parametrize("loop_id", ["2026-04-22-1432-A3F8B2", "../x", "\uff12026-04-22-1432-a3f8b2", "", None])
def test_a_loop_id_that_could_not_be_a_file_name_of_ours_is_refused(loop_id):
    with pytest.raises(ValidationError, match="loop_id"):
        LOOP_EVENTS["loop_resumed"](loop_id=loop_id, sequence=1, previous_halt_reason="blocked", transitions_used=1)


def test_the_loop_entity_has_the_contracts_keys_in_their_order():
    entity = LoopEntity(
        loop_id="2026-04-22-1432-a3f8b2",
        created_at="2026-04-22T14:32:11Z",
        goal_kind="set_done",
        intent="all",
        resolved_query="",
        task_keys=("core-api",),
        budget_max_transitions=50,
    )
    assert list(entity.model_dump()) == [
        *("loop_id", "created_at", "goal_kind", "intent", "resolved_query", "task_keys", "budget_max_transitions"),
        *("budget_used", "status", "halt_reason", "halt_at_task_key", "halt_at_iso", "transitions", "completed_at"),
    ]
    assert (entity.budget_used, entity.status, entity.transitions) == (0, "running", ())


@pytest.mark.parametrize(("tasks", "budget"), [(0, 50), (1, 50), (5, 50), (6, 60), (200, 2000)])
def test_the_default_budget_is_ten_transitions_a_task_but_never_fewer_than_fifty(tasks, budget):
    assert default_budget(tasks) == budget


def test_every_key_that_some_event_leaves_open_is_a_key_of_the_contract():
    """The test data itself: PLAIN has no key that no event knows."""
    known = {key for model in ISSUE_EVENTS.values() for key in model.model_fields}
    assert set(PLAIN) <= known
    assert set(IssueEvent.model_fields) == set(COMMON)
