"""What every PlanStore keeps, on disk and in memory."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from irontree.config_file import read_config
from irontree.domain.ids import computed_digest
from irontree.domain.plan import Approval, PlanNode
from irontree.store.documents import FilePlanStore
from irontree.store.layout import create
from irontree.store.memory import MemoryPlanStore
from tests.support.store import plan


@pytest.fixture(params=["disk", "memory"])
def plans(request, tmp_path):
    if request.param == "memory":
        return MemoryPlanStore()
    create(tmp_path)
    return FilePlanStore(tmp_path)


def test_an_unknown_revision_has_no_plan(plans):
    assert plans.revisions() == ()
    assert plans.load("00123456") is None
    assert plans.load("../../config") is None


def test_what_was_saved_is_loaded_equal_and_in_any_case(plans):
    saved = plan(spec_revision="abcdef12")
    plans.save(saved)
    assert plans.load("abcdef12") == plans.load("ABCDEF12") == saved


def test_every_setting_that_a_person_approves_is_loaded_equal(plans):
    """All scalars of a file are text: no setting may be so strict that what was approved cannot be read."""
    image = f"sha256:{'ab' * 32}"
    config = read_config(
        "verify: {commands: [make], seconds: 9, detection: false, reviewers: [{name: critic, command: critic}]}\n"
        "agent: {command: agent, wall_seconds: 8, stall_seconds: 7, permissions: [{tool: edit, allow: false}]}\n"
        f"container: {{image: '{image}', network: false}}\n"
        "workspace: {pristine: true}\nforge: {adapter: github}\nrun: {max_retry_count: 1, same_failure: 2}\n"
        "loop: {on_halt: go_on}\n"
        "gates: {acceptance: {approvers: 2}, failure: {not_requester: true}}\n"
        "budgets: {day: {money: 2.5, tokens: 100, time: 1h}, time_zone: Europe/Vienna}\n",
        "config.yml",
    )
    saved = plan(policy=config.policy("origin", "main"))
    plans.save(saved)
    assert plans.load("00123456") == saved
    assert plans.load("00123456").policy.digest == saved.policy.digest


@pytest.mark.parametrize("revision", ["00123456", "12345e67", "11111111", "0000000a"])
def test_a_revision_that_looks_like_a_number_is_none(plans, revision):
    plans.save(plan(spec_revision=revision))
    assert plans.revisions() == (revision,)
    assert plans.load(revision).spec_revision == revision


def test_revisions_come_in_the_order_of_their_approval(plans):
    for revision, moment in [
        ("cccccccc", "2026-04-22T14:32:11Z"),
        ("aaaaaaaa", "2026-04-22T14:32:11.500Z"),
        ("bbbbbbbb", "2026-04-22T16:00:00+02:00"),
    ]:
        plans.save(plan(spec_revision=revision, approval=Approval(by="ada", at=moment, channel="terminal")))
    assert plans.revisions() == ("bbbbbbbb", "cccccccc", "aaaaaaaa")


def test_the_plan_saved_last_is_in_force(plans):
    plans.save(plan(budget_max_transitions=50))
    assert plans.load("00123456").budget_max_transitions == 50
    plans.save(plan(budget_max_transitions=60))
    assert plans.load("00123456").budget_max_transitions == 60
    assert plans.revisions() == ("00123456",)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(source=st.text(), title=st.text(min_size=1), command=st.text(min_size=1))
def test_every_text_survives_to_the_character(plans, source, title, command):
    node = PlanNode(task_key="a", title=title, description=source, verification=(command,), target_files=(title,))
    saved = plan(source=source, nodes=(node,))
    plans.save(saved)
    assert plans.load("00123456") == saved


def test_two_texts_with_one_revision_are_filed_side_by_side(plans):
    """Eight digits are a label: a second text that has them is made in a second."""
    digest = computed_digest(plan(source="first"))
    label, other = digest[:8], f"{digest[:8]}{'0' * 56}"
    earlier_version = plan(source="first", spec_revision=label)
    first = plan(source="first", spec_revision=label, digest=digest)
    second = plan(source="second", spec_revision=label, digest=other)
    for saved in (earlier_version, first, second):
        plans.save(saved)
    assert plans.revisions() == (label, other)
    assert plans.load(label) == plans.load(digest) == first
    assert plans.load(other.upper()) == second
    assert plans.load("f" * 64) is None
    plans.save(again := second.model_copy(update={"loop_mode": False}))
    assert plans.load(other) == again
    assert plans.load(digest) == first


def test_a_plan_of_an_earlier_version_is_found_by_the_digest_of_its_text(plans):
    digest = computed_digest(plan(source="first"))
    plans.save(plan(source="first", spec_revision=digest[:8]))
    assert plans.load(digest).source == "first"
    assert plans.load(f"{digest[:8]}{'0' * 56}") is None
