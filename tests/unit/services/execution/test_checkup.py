"""Acceptance, sending back, aggregation, finalization, unblocking: and when each is refused (protocol, phase 6)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent, idles
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.plan import Shell
from irontree.domain.state import Phase
from irontree.errors import NotEligible, PublicationRefused
from irontree.ports import Blocker
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.checkup import Decider, accept, aggregate, finalize, send_back, unblock
from irontree.services.execution.publish import publish
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.proposals.sources import propose
from irontree.services.questions.listing import list_questions
from irontree.services.views.history import say_issue_event
from tests.support.approving import write_plan
from tests.support.world import MANUAL_TASK, ONE_TASK, PARTS, Scene, accepts, does, nobody, prepared

ADA = Decider("ada", "looks fine")


def pending(scene: Scene, retries: int = 3) -> Scene:
    scene.policy = scene.policy.model_copy(update={"max_retry_count": retries})
    scene.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="hello, prettier"))
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    return scene


def test_accepting_publishes_exactly_the_pending_commit(scene):
    pending(scene)
    anchor = scene.state().anchor
    state = accept(scene.app, 1, ADA)
    assert (state.last_event, state.phase, state.code_ref) == ("checkup_accept_recorded", Phase.VERIFIED, anchor)
    assert scene.repository.remote["main"] == anchor
    assert (state.completion_basis, scene.last().meta["by"], scene.last().meta["note"]) == (
        *("accepted", "ada", "looks fine"),
    )


def test_accepting_runs_no_check_a_second_time(scene):
    pending(scene)
    ran = len(scene.checks.commands)
    accept(scene.app, 1, ADA)
    assert len(scene.checks.commands) == ran


def test_what_fails_when_it_has_to_be_checked_again_is_not_published(scene):
    pending(scene)
    before = scene.repository.remote["main"]
    scene.results._reports.clear()
    scene.checks = ScriptedCheckRunner(lambda *_: 1)
    state = accept(scene.app, 1, ADA)
    assert (state.last_event, state.phase) == ("checkup_accept_publication_failed", Phase.PENDING)
    assert scene.repository.remote["main"] == before


def test_what_cannot_be_published_yet_is_not_said_to_be_accepted(scene):
    """As with changes at the same paths in a checkout without a remote: what to do is said, also in listings."""
    pending(scene)
    way = "commit or stash them"

    def refuse(_sha: str) -> None:
        raise PublicationRefused("README.md", reason="checkout-not-clean", remedy=f"{way}, then go on")

    scene.repository.before_push = refuse
    state = accept(scene.app, 1, ADA)
    assert (state.last_event, state.phase) == ("checkup_accept_publication_failed", Phase.PENDING)
    assert say_issue_event(scene.last()) == f"not accepted yet: README.md. What to do: {way}, then accept again"
    [asked] = list_questions(scene.app, scene.world, ())
    assert asked.said == f"not accepted yet: README.md. {way}, then accept again"


def test_it_is_not_said_that_checks_have_run_where_there_are_none(scene):
    scene.publish("# Toy\n\n## Greeting\n\n- [ ] it is lovely (manual)\n")
    run(scene.app, 1)
    verify(scene.app, 1)
    accept(scene.app, 1, ADA)
    assert scene.notes.lines
    assert not [line for line in scene.notes.lines if "have already run" in line]


def test_accepting_where_nothing_changed_publishes_nothing(scene):
    scene.agent = ScriptedAgent(idles)
    scene.publish("# Toy\n\n## Greeting\n\n- [ ] it is lovely (manual)\n")
    run(scene.app, 1)
    verify(scene.app, 1)
    before = scene.repository.remote["main"]
    state = accept(scene.app, 1, ADA)
    assert (state.code_ref, state.code_publication_state) == ("not_applicable", "not_applicable")
    assert scene.repository.remote["main"] == before


@pytest.mark.parametrize("act", [accept, send_back])
def test_only_a_pending_issue_is_accepted_or_sent_back(scene, act):
    """TC-4.2"""
    scene.publish(ONE_TASK)
    with pytest.raises(NotEligible, match="nothing waits for acceptance"):
        act(scene.app, 1, ADA)
    assert scene.events() == ["task_published"]


def test_sending_back_is_a_failed_verification_with_the_note_as_context(scene):
    pending(scene)
    state = send_back(scene.app, 1, Decider("ada", "prettier please"))
    assert (state.last_event, state.phase, state.attempt_count) == ("verify_failed_retryable", Phase.READY, 1)
    run(scene.app, 1)
    assert "prettier please" in scene.agent.tasks[1].prompt


def test_sending_back_needs_a_note(scene):
    pending(scene)
    with pytest.raises(NotEligible, match="needs a note"):
        send_back(scene.app, 1, Decider("ada"))
    assert scene.events()[-1] == "verify_pending_acceptance"


def test_sending_back_the_last_attempt_is_terminal(scene):
    pending(scene, retries=0)
    assert send_back(scene.app, 1, Decider("ada", "no")).last_event == "verify_failed_terminal"


def test_going_on_after_a_block_puts_the_approval_back_as_it_was(scene):
    scene.publish(ONE_TASK)
    scene.write(ONE_TASK.replace("hello", "good day"))
    assert run(scene.app, 1).phase is Phase.STALE
    scene.app.forge().edit_issue(1, state="closed")
    assert [change.where for change in reconcile(scene.app).outside] == ["issue-1"]
    state = unblock(scene.app, 1, "resume", ADA)
    assert (state.phase, scene.last().event.approval_state) == (Phase.STALE, "approval_ready")


def test_sending_back_runs_no_check_again_whatever_was_approved_since(scene):
    pending(scene)
    scene.checks.commands.clear()
    scene.policy = scene.policy.model_copy(update={"checks": (Shell(name="all", run="has README.md"),)})
    proposal = propose(scene.app, scene.root / "SPEC.md")
    write_plan(scene.app, proposal, proposal.name, "ada")
    send_back(scene.app, 1, Decider("ada", "prettier please"))
    assert scene.checks.commands == []


def test_what_was_sent_back_is_accepted_at_its_new_commit(scene):
    pending(scene)
    first = scene.state().anchor
    send_back(scene.app, 1, Decider("ada", "prettier please"))
    run(scene.app, 1)
    verify(scene.app, 1)
    state = accept(scene.app, 1, ADA)
    assert state.code_ref != first
    assert first not in set(scene.repository.history(scene.repository.remote["main"])), "one commit per task"


def test_a_parent_waits_for_all_planned_children_and_names_them(scene):
    """TC-4.3, B11"""
    loop = scene.start()
    scene.drive(loop, nobody)
    with pytest.raises(NotEligible, match="parts-part-two not done"):
        aggregate(scene.app, scene.number(PARTS))


def test_a_parent_is_done_by_its_children(scene):
    loop = scene.start()
    scene.drive(loop, prepared(accepts()))
    assert scene.events(PARTS)[1:] == ["checkup_aggregate_recorded", "checkup_done"]
    assert scene.records(PARTS)[1].meta["children"] == ["parts-part-one", "parts-part-two"]


def test_a_container_without_children_is_never_complete(scene):
    proposal = propose(scene.app, scene.write(ONE_TASK))
    plan = write_plan(scene.app, proposal, proposal.name, "ada")
    node = plan.nodes[0].model_copy(update={"shape": "composite", "executability": "container"})
    scene.plans.save(plan.model_copy(update={"nodes": (node,)}))
    publish(scene.app, scene.plans.load(plan.spec_revision))
    assert scene.state().phase is Phase.CONTAINER
    with pytest.raises(NotEligible, match="has no children") as refused:
        aggregate(scene.app, 1)
    assert "break it down" in refused.value.remedy


def test_only_a_container_is_aggregated(scene):
    scene.publish(ONE_TASK)
    with pytest.raises(NotEligible, match="only a container"):
        aggregate(scene.app, 1)


def test_nothing_is_finalized_without_evidence(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    with pytest.raises(NotEligible, match="no completion evidence"):
        finalize(scene.app, 1)


def test_finalizing_binds_the_recorded_evidence(scene):
    pending(scene)
    accepted = accept(scene.app, 1, ADA)
    state = finalize(scene.app, 1)
    assert state.done
    assert (state.completion_basis, state.code_ref) == ("accepted", accepted.code_ref)
    with pytest.raises(NotEligible):
        finalize(scene.app, 1)


# --- unblocking (R13) ----------------------------------------------------------------------------------


def blocked(scene: Scene) -> Scene:
    scene.publish(ONE_TASK)
    scene.repository.blockers.append(Blocker("missing-identity", "nobody commits", "git config user.name"))
    run(scene.app, 1)
    scene.repository.blockers.clear()
    return scene


def terminal(scene: Scene) -> Scene:
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 0})
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    return scene


def test_going_on_restores_the_state_before_the_block(scene):
    state = unblock(blocked(scene).app, 1, "resume", ADA)
    assert (state.phase, state.blocking_check, state.current_stage) == (Phase.READY, None, "definition")
    event = scene.last().event
    assert (event.cleared_sequence, event.resolution, event.by, event.reason) == (2, "resume", "ada", "looks fine")
    assert run(scene.app, 1).last_event == "run_completed"


def test_more_attempts_raise_the_budget(scene):
    state = unblock(terminal(scene).app, 1, "retry", ADA, extra_attempts=2)
    assert (state.phase, state.attempt_count, state.max_retry_count) == (Phase.READY, 1, 2)
    assert run(scene.app, 1).attempt_count == 2


def test_the_same_commit_can_be_verified_again(scene):
    state = unblock(terminal(scene).app, 1, "verify", ADA)
    assert (state.phase, state.attempt_count) == (Phase.COMMITTED, 1)
    assert verify(scene.app, 1).last_event == "verify_failed_terminal"


@pytest.mark.parametrize(
    ("prepare", "resolution", "extra"),
    [(terminal, "resume", 0), (terminal, "retry", 0), (blocked, "verify", 0)],
    ids=["nothing to resume", "no attempt left", "nothing committed"],
)
def test_a_way_on_that_leads_nowhere_is_refused_and_writes_nothing(scene, prepare, resolution, extra):
    prepare(scene)
    before = scene.events()
    with pytest.raises(NotEligible):
        unblock(scene.app, 1, resolution, ADA, extra_attempts=extra)
    assert scene.events() == before


def test_what_is_not_held_is_not_unblocked(scene):
    scene.publish(ONE_TASK)
    with pytest.raises(NotEligible, match="nothing to unblock"):
        unblock(scene.app, 1, "resume", ADA)
