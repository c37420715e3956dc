"""The loop: its frozen set, its budget, its halts, and how it ends (protocol, Loop Mode; R12, R17)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.app import Preferences
from irontree.cli.loops import loop_table
from irontree.domain.decide import Halt, Run
from irontree.domain.loop import LoopEntity
from irontree.errors import Busy, LogDamaged, NotEligible, in_words
from irontree.services.answers.answers import Answer
from irontree.services.answers.approve import approve
from irontree.services.delivery.comments import asked_in_comments
from irontree.services.delivery.deliver import tell_halts
from irontree.services.execution.steps import perform
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import next_decision
from irontree.services.proposals.proposal import ApprovalChoices
from irontree.services.proposals.sources import propose
from irontree.services.questions.listing import list_questions, waiting
from irontree.services.questions.pages import question_text
from irontree.services.questions.questions import question_of_loop
from irontree.services.views.history import say_loop_event
from irontree.services.views.overview import overview
from irontree.store.codec import read_mapping
from tests.support.watching import Killed, Watched, dying
from tests.support.world import (
    CLOSE,
    GREETING,
    MANUAL_TASK,
    ONE,
    ONE_TASK,
    PARTS,
    SPEC,
    TWO,
    Scene,
    accepts,
    nobody,
    prepared,
)


def read(scene: Scene, loop: loops.Loop) -> loops.Loop:
    return loops.read_loop(scene.app, loop.id)


def extends(count: int) -> Answer:
    return Answer("extend", "ada", count=count)


# --- start ---------------------------------------------------------------------------------------------


def test_one_approval_starts_the_loop_over_exactly_its_tasks(scene):
    loop = scene.start()
    assert loop.keys == (GREETING, PARTS, ONE, TWO, CLOSE)
    assert (loop.entity.status, loop.entity.budget_used, loop.entity.budget_max_transitions) == ("running", 0, 50)
    assert scene.loop_events(loop) == ["loop_started"]


def test_the_budget_can_be_configured(scene):
    scene.preferences = Preferences(loop_budget=7)
    assert scene.start().entity.budget_max_transitions == 7


def test_authorising_again_goes_on_with_the_same_loop(scene):
    loop = scene.start()
    assert scene.start().id == loop.id
    assert len(scene.loops.ids()) == 1


def test_a_loop_that_was_stopped_is_not_gone_on_with(scene):
    first = scene.start(ONE_TASK)
    loops.cancel(scene.app, first.id, "ada")
    assert scene.start(ONE_TASK).id != first.id


def test_a_document_that_is_approved_with_other_tasks_has_one_open_loop_the_new_one(scene):
    first = scene.start(ONE_TASK)
    scene.drive(first, nobody)
    with_more = scene.start(SPEC)
    with_less = scene.start(ONE_TASK + "\n## Other\n\n- [ ] it is `$ has other.txt`\n")
    again = scene.start(SPEC)
    assert read(scene, first).entity.status == "completed", "it had ended before"
    assert [read(scene, loop).entity.status for loop in (with_more, with_less, again)] == [
        "cancelled",
        "cancelled",
        "running",
    ]
    assert "has other tasks" in scene.loops.read(with_less.id).records[-1].meta["reason"]


def test_the_loop_of_another_document_is_left_alone(scene):
    first = scene.start(ONE_TASK)
    (scene.root / "OTHER.md").write_text("# Other\n\n## Close\n\n- [ ] closed `$ has close.txt`\n")
    proposal = propose(scene.app, scene.root / "OTHER.md")
    approve(scene.app, proposal, proposal.name, "ada")
    assert read(scene, first).entity.status == "running"


def test_a_loop_that_is_at_work_is_not_replaced_and_nothing_is_written(scene):
    first = scene.start(ONE_TASK)
    proposal = propose(scene.app, scene.write(SPEC))
    with scene.lease.hold(first.id), pytest.raises(Busy, match="at work on SPEC"):
        approve(scene.app, proposal, proposal.name, "ada")
    assert scene.plans.load(proposal.revision) is None
    assert scene.loops.ids() == (first.id,)


def test_asking_again_for_what_is_done_starts_nothing(scene):
    first = scene.start(ONE_TASK)
    scene.drive(first)
    assert scene.start(ONE_TASK).id == first.id
    assert scene.drive(first) == Halt("goal_reached")
    assert scene.loop_events(first) == ["loop_started", "loop_completed"]


def test_the_same_proposal_shows_the_same_loop_at_any_time_but_for_the_minute(scene):
    document = scene.write(ONE_TASK)
    first, again = propose(scene.app, document), propose(scene.app, document)
    scene.clock.moment += timedelta(hours=1)
    later = propose(scene.app, document)
    assert first.loop_id == again.loop_id
    assert later.loop_id == "2026-04-22-1300-" + first.loop_id[-6:]
    loop = approve(scene.app, later, later.name, "ada")
    assert loop.id == later.loop_id
    loops.cancel(scene.app, loop.id, "ada")
    assert scene.start(ONE_TASK).id != loop.id, "the same, approved twice within a minute"


def test_a_finished_document_shows_the_loop_that_finished_it_unless_a_task_begins_again(scene):
    finished = scene.start(ONE_TASK)
    scene.drive(finished)
    document = scene.root / "SPEC.md"
    assert propose(scene.app, document).loop_id == finished.id
    scene.write(ONE_TASK.replace("it says hello", "it greets"))
    assert propose(scene.app, document).loop_id == finished.id, "it stays done"
    again = propose(scene.app, document, choices=ApprovalChoices(reopen_done=True))
    assert approve(scene.app, again, again.name, "ada").id == again.loop_id != finished.id


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method"),
    [("plans", "save"), ("loops", "append"), ("loops", "write_entity"), ("forge_seen", "create_issue")],
)
def test_a_crash_during_the_start_is_gone_on_from(scene, port, method, side):
    setattr(scene, port, Watched(getattr(scene, port), [method], dying(side)))
    proposal = propose(scene.app, scene.write(SPEC))
    with pytest.raises(Killed):
        approve(scene.app, proposal, proposal.name, "ada")
    again = propose(scene.app, scene.root / "SPEC.md")
    loop = approve(scene.app, again, again.name, "ada")
    assert len(scene.loops.ids()) == 1
    assert scene.drive(loop, prepared(accepts())) == Halt("goal_reached")


# --- budget --------------------------------------------------------------------------------------------


def test_a_transition_is_counted_durably_before_it_is_taken(scene):
    loop = scene.start(ONE_TASK)
    counted = []
    scene.agent = ScriptedAgent(lambda _: counted.append(scene.loops.read_entity(loop.id).budget_used))
    perform(scene.app, Run(GREETING), loop.id)
    assert counted == [1]
    taken = read(scene, loop).entity.transitions[0]
    assert (taken.task_key, taken.skill, taken.outcome) == (GREETING, "run", "run_completed")


def test_a_transition_that_a_crash_cut_short_is_counted(scene):
    loop = scene.start(ONE_TASK)

    def dies(_):
        raise Killed

    scene.agent = ScriptedAgent(dies)
    with pytest.raises(Killed):
        perform(scene.app, Run(GREETING), loop.id)
    assert read(scene, loop).entity.budget_used == 1
    assert read(scene, loop).entity.transitions[0].outcome == "started"


def test_an_exhausted_budget_halts_and_more_lets_it_go_on(scene):
    scene.preferences = Preferences(loop_budget=4)
    loop = scene.start(SPEC)
    assert scene.drive(loop).reason == "loop_budget_exhausted"
    assert scene.drive(loop, prepared(extends(20), accepts())) == Halt("goal_reached")
    entity = read(scene, loop).entity
    assert (entity.budget_max_transitions, entity.status) == (24, "completed")


def test_a_stepwise_command_costs_no_loop_anything(scene):
    loop = scene.start(ONE_TASK)
    perform(scene.app, Run(GREETING))
    assert read(scene, loop).entity.budget_used == 0


# --- halt and resume -----------------------------------------------------------------------------------


def test_a_halt_is_recorded_once(scene):
    loop = scene.start()
    scene.drive(loop)
    scene.drive(loop)
    assert scene.loop_events(loop) == ["loop_started", "loop_halted"]
    entity = read(scene, loop).entity
    assert (entity.halt_reason, entity.halt_at_task_key) == ("pending_acceptance", TWO)
    assert entity.halt_at_iso


def test_resuming_a_running_loop_is_nothing(scene):
    loop = scene.start()
    loops.resume(scene.app, loop.id)
    assert scene.loop_events(loop) == ["loop_started"]


def test_what_has_ended_is_not_resumed(scene):
    loop = scene.start()
    loops.cancel(scene.app, loop.id, "ada")
    with pytest.raises(NotEligible, match="cancelled; only halted loops can be resumed"):
        loops.resume(scene.app, loop.id)


def test_a_loop_that_nobody_knows_is_refused(scene):
    with pytest.raises(NotEligible, match="not found"):
        loops.read_loop(scene.app, "2026-04-22-1432-a3f8b2")


def test_the_loop_to_resume_need_not_be_named_where_one_is_open(scene):
    with pytest.raises(NotEligible, match=r"^No loop is open") as refused:
        loops.only_open(scene.app)
    assert "irontree task" in refused.value.remedy
    first = scene.start(ONE_TASK)
    assert loops.only_open(scene.app).id == first.id
    (scene.root / "OTHER.md").write_text("# Other\n\n## Close\n\n- [ ] closed `$ has close.txt`\n")
    proposal = propose(scene.app, scene.root / "OTHER.md", intent="OTHER.md")
    second = approve(scene.app, proposal, proposal.name, "ada")
    with pytest.raises(NotEligible, match=r"^2 loops are open") as refused:
        loops.only_open(scene.app)
    for loop in (first, second):
        assert f"irontree resume {loop.id}  ({loop.entity.intent})" in refused.value.message
    loops.cancel(scene.app, first.id, "ada")
    assert loops.only_open(scene.app).id == second.id


@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_an_ended_loop_takes_no_more_events(scene, end):
    loop = scene.start(ONE_TASK)
    loops.cancel(scene.app, loop.id, "ada") if end == "cancel" else loops.complete(scene.app, loop.id)
    before = scene.loop_events(loop)
    for act in (
        lambda: loops.extend(scene.app, loop.id, 5, "ada"),
        lambda: loops.skip(scene.app, loop.id, GREETING, "ada"),
        lambda: loops.cancel(scene.app, loop.id, "ada"),
    ):
        with pytest.raises(NotEligible, match=r"Loop .* is (cancelled|completed)"):
            act()
    assert scene.loop_events(loop) == before


def test_completing_twice_is_completing_once(scene):
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    loops.complete(scene.app, loop.id)
    assert scene.loop_events(loop) == ["loop_started", "loop_completed"]


def test_a_cancelled_loop_is_never_completed(scene):
    loop = scene.start(ONE_TASK)
    loops.cancel(scene.app, loop.id, "ada")
    with pytest.raises(NotEligible, match="cancelled"):
        loops.complete(scene.app, loop.id)


# --- skip (R17) ----------------------------------------------------------------------------------------


def test_skipping_cancels_dependents_and_composite_ancestors_and_the_rest_goes_on(scene):
    loop = scene.start()
    skipped = loops.skip(scene.app, loop.id, ONE, "ada")
    assert set(skipped) == {ONE, PARTS, CLOSE}
    assert read(scene, loop).keys == (GREETING, TWO)
    assert scene.drive(loop, prepared(accepts())) == Halt("goal_reached")
    assert scene.events(ONE) == ["task_published"]


def test_a_halted_loop_goes_on_without_what_a_person_skipped_and_says_so_task_by_task(scene):
    loop = scene.start()
    assert scene.drive(loop, prepared(Answer("skip", "ada"))) == Halt("goal_reached")
    records = scene.loops.read(loop.id).records
    events = [record.event for record in records]
    assert [event.event for event in events] == [
        *("loop_started", "loop_halted", *["loop_cancelled"] * 3, "loop_resumed", "loop_completed"),
    ]
    cancelled = [(event.cancellation_scope, event.task_key) for event in events[2:5]]
    assert sorted(cancelled) == [("task", CLOSE), ("task", PARTS), ("task", TWO)]
    assert say_loop_event(records[0]) == f"loop {loop.id} started"
    reached = f"goal reached: everything in scope is done but what was skipped: {CLOSE}, {PARTS}, {TWO}"
    assert say_loop_event(records[-1]) == reached
    [row] = loop_table(overview(scene.app)).rows
    assert row[1] == "2 of 2, 3 skipped"


def test_what_is_done_cannot_be_skipped_and_nothing_that_depends_on_it_is(scene):
    loop = scene.start()
    scene.drive(loop, nobody)
    before = scene.loop_events(loop)
    with pytest.raises(NotEligible, match="greeting is done; there is nothing to skip"):
        loops.skip(scene.app, loop.id, GREETING, "ada")
    assert scene.loop_events(loop) == before


def test_a_skip_leaves_alone_what_needs_nothing_but_finished_parts(scene):
    loop = scene.start(SPEC + "\n## After one\n\nDepends on: Part one\n\n- [ ] after `$ has one.txt`\n")
    while not scene.world.is_done(ONE):
        perform(scene.app, next_decision(scene.app, loop.id), loop.id)
    assert set(loops.skip(scene.app, loop.id, PARTS, "ada")) == {PARTS, TWO, CLOSE}
    assert read(scene, loop).keys == (GREETING, ONE, "after-one")


def test_what_is_not_in_scope_cannot_be_skipped(scene):
    loop = scene.start()
    loops.skip(scene.app, loop.id, TWO, "ada")
    with pytest.raises(NotEligible, match="not in the scope"):
        loops.skip(scene.app, loop.id, TWO, "ada")


@pytest.mark.parametrize("events", [1, 2, 3])
def test_a_skip_that_was_cut_short_is_finished_by_the_same_answer(scene, events):
    """The task itself goes last, so that the question about it is still open."""
    loop = scene.start()
    left = [events]

    def tell(_, side):
        left[0] -= side == "after"
        if left[0] == 0:
            left[0] = -1
            raise Killed

    app = replace(scene.app, loops=Watched(scene.loops, ["append"], tell))
    with pytest.raises(Killed):
        loops.skip(app, loop.id, TWO, "ada")
    assert (TWO in read(scene, loop).keys) == (events < 3)
    if events < 3:
        loops.skip(scene.app, loop.id, TWO, "ada")
    assert read(scene, loop).keys == (GREETING, ONE)


# --- the file and the events ---------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["before", "after"])
def test_events_win_over_a_file_that_a_crash_kept_behind(scene, side):
    loop = scene.start()
    scene.drive(loop)
    app = replace(scene.app, loops=Watched(scene.loops, ["change_entity"], dying(side)))
    with pytest.raises(Killed):
        loops.resume(app, loop.id)
    assert read(scene, loop).entity.status == "running"
    loops.cancel(scene.app, loop.id, "ada")
    assert scene.loops.read_entity(loop.id).status == "cancelled"


def test_a_file_that_is_lost_is_made_again_from_the_events(scene):
    scene.preferences = Preferences(loop_budget=4)
    loop = scene.start(SPEC)
    scene.drive(loop)
    before = scene.loops.read_entity(loop.id)
    scene.loops.entities.clear()
    found = read(scene, loop).entity
    assert found == before.model_copy(update={"transitions": (), "created_at": found.created_at})
    loops.extend(scene.app, loop.id, 3, "ada")
    assert scene.loops.read_entity(loop.id).budget_used == before.budget_used
    assert scene.loops.read_entity(loop.id).budget_max_transitions == 7


@pytest.mark.parametrize("damage", [b"torn", b"", b"loop_id: [1"])
def test_a_damaged_file_hides_no_loop_and_repair_makes_it_from_its_events(scene, damage):
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    before = scene.loops.entities[loop.id]
    scene.loops.entities[loop.id] = damage
    found = read(scene, loop)
    assert (found.id, found.entity.status, found.damage) == (loop.id, "completed", None)
    assert found.entity.budget_used == LoopEntity.model_validate(read_mapping(before, "")).budget_used
    assert loops.remake_entity(scene.app, loop.id)
    assert not loops.remake_entity(scene.app, loop.id)


def test_an_open_loop_with_a_damaged_file_is_the_one_that_goes_on(scene):
    loop = scene.start(ONE_TASK)
    scene.loops.entities[loop.id] = b"torn"
    assert scene.start(ONE_TASK).id == loop.id
    assert scene.drive(loop).reason == "goal_reached"
    assert scene.loops.ids() == (loop.id,)


@pytest.mark.parametrize("lost", ["show", "first event", "--events"])
def test_a_halted_loop_that_cannot_be_trusted_asks_nothing_and_keeps_nobody_from_looking(scene, lost):
    """R13: its damage is said; nobody could record an answer."""
    loop = scene.start(ONE_TASK)
    loops.halt(scene.app, loop.id, Halt("protocol_gap", detail="stuck"))
    assert [asked.loop_id for asked in list_questions(scene.app, scene.world, (read(scene, loop),))] == [loop.id]
    files = scene.loops.files(loop.id).files
    files.pop("0001-loop-started.yml") if lost == "first event" else files.clear()
    assert (waiting(scene.app), asked_in_comments(scene.app)) == ((), ())
    tell_halts(scene.app, scene.world)
    [damage] = loops.read_loops(scene.app)[1]
    assert "cannot be trusted" in damage


@pytest.mark.parametrize("lost", ["events", "first event", "all but a torn event"])
def test_no_second_loop_starts_over_one_whose_events_are_lost(scene, lost):
    loop = scene.start(ONE_TASK)
    loops.halt(scene.app, loop.id, Halt("blocked"))
    files = scene.loops.files(loop.id).files
    if lost == "events":
        files.clear()
    elif lost == "first event":
        del files["0001-loop-started.yml"]
    else:
        files["0001-loop-started.yml"] = b"torn"
        del files["0002-loop-halted.yml"], scene.loops.entities[loop.id]
    with pytest.raises(LogDamaged) as refused:
        scene.start(ONE_TASK)
    assert "irontree init --from-backup" in refused.value.remedy
    assert scene.loops.ids() == (loop.id,)


def test_nothing_is_appended_to_a_loop_that_a_newer_version_wrote_and_upgrading_is_the_advice(scene):
    loop = scene.start(ONE_TASK)
    scene.loops.files(loop.id).files["0002-loop-pondered.yml"] = b"loop: {version: 2, event: loop_pondered}"
    with pytest.raises(LogDamaged) as refused:
        loops.cancel(scene.app, loop.id, "ada")
    assert in_words(refused.value).count("upgrade irontree") == 1
    assert scene.loops.read(loop.id).highest_sequence == 2


# --- what a loop decides -------------------------------------------------------------------------------


def test_the_issue_in_progress_comes_before_a_new_one(scene):
    loop = scene.start()
    perform(scene.app, Run(GREETING), loop.id)
    assert type(next_decision(scene.app, loop.id)).__name__ == "Verify"


def test_a_loop_that_has_nothing_left_in_scope_is_cancelled(scene):
    loop = scene.start(SPEC)
    loops.skip(scene.app, loop.id, GREETING, "ada")
    assert read(scene, loop).entity.status == "cancelled"
    assert scene.loops.read(loop.id).records[-1].meta["reason"] == "every task in scope was skipped"


def test_a_skip_that_was_cut_short_behind_its_last_task_ends_the_loop_all_the_same(scene):
    loop = scene.start(MANUAL_TASK)
    scene.drive(loop)
    app = replace(scene.app, loops=Watched(scene.loops, ["append"], dying("after")))
    with pytest.raises(Killed):
        loops.skip(app, loop.id, GREETING, "ada")
    scene.drive(loop)
    assert scene.loop_events(loop)[-2:] == ["loop_cancelled"] * 2
    assert read(scene, loop).cancelled == {GREETING}
    assert question_of_loop(scene.app, loop.id) is None


def test_skipping_the_only_task_in_a_form_ends_its_loop_instead_of_asking_on(scene):
    loop = scene.start(MANUAL_TASK)
    assert scene.drive(loop, prepared(Answer("skip", "ada"))).reason == "pending_acceptance"
    assert read(scene, loop).entity.status == "cancelled"
    assert question_of_loop(scene.app, loop.id) is None


def test_an_outside_dependency_that_is_not_done_is_named(scene):
    scene.publish(SPEC)
    scene.start(SPEC)
    loop = loops.start(scene.app, "2026-04-22-1432-0000ff", (ONE,), intent="", query="SPEC.md", budget=50)
    halt = scene.drive(loop)
    assert (halt.reason, halt.detail) == ("protocol_gap", "parts-part-one waits for greeting")
    question = question_of_loop(scene.app, loop.id)
    assert question.detail == halt.detail
    assert halt.detail in question_text(scene.app, question)
