"""What is approved, by whom, and what happens when it changes (phases 1 and 2; R6, R7, R17)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.halt import RULE
from irontree.domain.plan import Shell
from irontree.domain.state import Phase
from irontree.errors import ApprovalRefused, Busy, NotEligible, RequirementsRefused
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.answers.approve import approve, approve_again, approve_stepwise
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.publish import publish, release_approved
from irontree.services.execution.run import run
from irontree.services.execution.steps import Idle, catch_up, next_step
from irontree.services.execution.verify import verify
from irontree.services.loops.choice import replacement
from irontree.services.loops.loop import Loop
from irontree.services.proposals.again import propose_again
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.proposal import ApprovalChoices
from irontree.services.proposals.sources import propose
from irontree.services.questions.pages import question_text
from irontree.services.questions.questions import question_about
from irontree.services.views.overview import overview
from tests.support.approving import write_plan
from tests.support.watching import Killed, Watched, dying_at
from tests.support.world import CLOSE, GREETING, ONE, ONE_TASK, PARTS, SPEC, TWO, Scene, does

WITH_CLOSE = f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n"
NESTED = "# Toy\n\n## Parts\n\n### Part one\n\n- [ ] one exists `$ has one.txt`\n"
CHANGED = ONE_TASK.replace("says hello", "says good day")
ALL = Shell(name="all", run="has README.md")


def with_check(scene: Scene) -> None:
    scene.policy = scene.policy.model_copy(update={"checks": (ALL,)})


def without_check(scene: Scene) -> None:
    scene.policy = scene.policy.model_copy(update={"checks": ()})


def stale(scene: Scene, text: str = CHANGED) -> str:
    """An issue that waits for approval of *text*; the name to approve."""
    scene.publish(ONE_TASK)
    scene.write(text)
    assert run(scene.app, 1).phase is Phase.STALE
    return propose(scene.app, scene.root / "SPEC.md").name


def test_proposing_writes_nothing(scene):
    proposal = propose(scene.app, scene.write(SPEC))
    approval_text(scene.app, proposal, loop_mode=True, answer="yes")
    assert scene.plans.revisions() == ()
    assert scene.tracker.issues == {}


def test_only_the_shown_revision_can_be_approved(scene):
    proposal = propose(scene.app, scene.write(SPEC))
    for other in ("deadbeefdeadbeef", "0" * 64):
        with pytest.raises(ApprovalRefused, match=other) as refused:
            write_plan(scene.app, proposal, other, "ada")
        assert proposal.name in refused.value.remedy
    assert scene.plans.revisions() == ()


def test_the_name_may_be_typed_in_any_case(scene):
    proposal = propose(scene.app, scene.write(SPEC))
    assert write_plan(scene.app, proposal, proposal.name.upper(), "ada").approval.by == "ada"


def test_exactly_what_was_approved_is_continued_without_asking(scene):
    plan = scene.publish(SPEC)
    proposal = propose(scene.app, scene.root / "SPEC.md")
    assert proposal.approved_plan == plan
    assert write_plan(scene.app, proposal, proposal.name, "bob") == plan


def test_a_changed_configuration_has_to_be_approved_again(scene):
    scene.publish(SPEC)
    with_check(scene)
    assert propose(scene.app, scene.root / "SPEC.md").approved_plan is None


def test_an_approval_without_loop_mode_starts_no_loop(scene):
    """R17"""
    proposal = propose(scene.app, scene.write(SPEC), loop_mode=False)
    write_plan(scene.app, proposal, proposal.name, "ada", loop_mode=False)
    assert propose(scene.app, scene.root / "SPEC.md", loop_mode=False).approved_plan is not None
    assert propose(scene.app, scene.root / "SPEC.md").approved_plan is None


def test_an_earlier_plan_is_no_approval_any_more(scene):
    """A to B and back to A: B is in force, so A is a change like any other."""
    scene.publish(ONE_TASK)
    scene.publish(CHANGED)
    proposal = propose(scene.app, scene.write(ONE_TASK))
    assert proposal.approved_plan is None
    publish(scene.app, write_plan(scene.app, proposal, proposal.name, "ada"))
    assert run(scene.app, 1).last_event == "run_completed"


def test_a_key_that_another_document_owns_is_refused_with_both_names(scene):
    """R8"""
    scene.publish(ONE_TASK)
    (scene.root / "OTHER.md").write_text(ONE_TASK)
    with pytest.raises(RequirementsRefused, match=r"OTHER\.md:3: task key greeting belongs to SPEC\.md already"):
        propose(scene.app, scene.root / "OTHER.md")


def test_two_documents_live_side_by_side(scene):
    scene.publish(ONE_TASK)
    (scene.root / "OTHER.md").write_text(ONE_TASK.replace("Greeting", "Farewell"))
    proposal = propose(scene.app, scene.root / "OTHER.md")
    publish(scene.app, write_plan(scene.app, proposal, proposal.name, "ada"))
    assert propose(scene.app, scene.root / "SPEC.md").approved_plan is not None
    assert scene.state("farewell").issue_number == 2


def test_a_document_that_is_not_there_is_refused(scene):
    with pytest.raises(RequirementsRefused, match=r"NONE\.md: No such file"):
        propose(scene.app, scene.root / "NONE.md")


# --- approval again ------------------------------------------------------------------------------------


def test_approving_a_changed_task_begins_it_again(scene):
    name = stale(scene)
    revision = propose(scene.app, scene.root / "SPEC.md").revision
    state = approve_again(scene.app, 1, name, "ada")
    assert (state.phase, state.sequence, state.approved_revision) == (Phase.READY, 1, revision)
    assert run(scene.app, 1).last_event == "run_completed"


def test_approving_a_changed_configuration_lets_the_work_go_on_where_it_was(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    with_check(scene)
    assert verify(scene.app, 1).phase is Phase.STALE
    approval = propose(scene.app, scene.root / "SPEC.md").name
    state = approve_again(scene.app, 1, approval, "ada")
    assert (state.last_event, state.phase) == ("task_approved", Phase.COMMITTED)
    assert verify(scene.app, 1).last_event == "verify_passed"
    assert scene.checks.commands == ["has README.md", "has greet.txt hello"], "by the newly approved commands"


def test_without_its_document_a_configuration_can_be_approved_again(scene):
    """The document need not be where the work is done."""
    plan = scene.publish(ONE_TASK)
    (scene.root / "SPEC.md").unlink()
    with_check(scene)
    assert run(scene.app, 1).phase is Phase.STALE
    assert approve_again(scene.app, 1, propose_again(scene.app, plan).name, "ada").phase is Phase.READY


def test_settings_that_nobody_saw_are_not_approved_with_a_name_that_was_shown_before(scene):
    """R6: what was approved is what runs."""
    scene.publish(ONE_TASK)
    revision = propose(scene.app, scene.root / "SPEC.md").name
    with_check(scene)
    assert run(scene.app, 1).phase is Phase.STALE
    with pytest.raises(ApprovalRefused, match="is not what was shown") as refused:
        approve_again(scene.app, 1, revision, "ada")
    assert propose(scene.app, scene.root / "SPEC.md").name in refused.value.remedy
    assert scene.state().phase is Phase.STALE


def test_settings_that_change_between_question_and_answer_are_not_approved(scene):
    shown = propose(scene.app, scene.write(ONE_TASK)).name
    with_check(scene)
    with pytest.raises(ApprovalRefused, match="is not what was shown"):
        propose(scene.app, scene.root / "SPEC.md").require_named(shown)


def test_the_form_names_document_and_settings(scene):
    scene.publish(ONE_TASK)
    with_check(scene)
    state = run(scene.app, 1)
    text = question_text(scene.app, question_about(state, RULE["reapproval_required"]))
    assert propose(scene.app, scene.root / "SPEC.md").name in text


# --- tasks that were removed, and finished ones that changed (R7) -----------------------------------------


def without_close(scene: Scene) -> str:
    """Greeting and Close are published, and Close is no longer in the document; what to approve."""
    scene.publish(WITH_CLOSE)
    return propose(scene.app, scene.write(ONE_TASK)).name


def test_approving_a_document_without_a_task_cancels_it(scene):
    approval = without_close(scene)
    assert run(scene.app, 2).phase is Phase.STALE
    approve_again(scene.app, 2, approval, "ada")
    assert scene.world.cancelled == {CLOSE}
    assert scene.tracker.issues[2].state == "closed"
    assert isinstance(next_step(scene.app, 2), Idle)
    with pytest.raises(NotEligible) as refused:
        run(scene.app, 2)
    assert refused.value.message == "issue-2 was cancelled: SPEC.md was approved without it"
    assert refused.value.remedy == "put it back into the document and approve that"
    found = reconcile(scene.app)
    assert (found.outside, found.open_questions) == ((), ())


def test_the_approval_names_what_it_cancels(scene):
    without_close(scene)
    proposal = propose(scene.app, scene.root / "SPEC.md")
    assert "Close is cancelled" in approval_text(scene.app, proposal, loop_mode=True, answer="yes")


def test_a_removed_child_does_not_keep_its_parent_waiting(scene):
    loop = scene.start(SPEC)
    less = SPEC[: SPEC.index("### Part two")] + "## Close\n\nDepends on: Part one\n\n- [ ] closed `$ has close.txt`\n"
    proposal = propose(scene.app, scene.write(less))
    new = approve(scene.app, proposal, proposal.name, "ada")
    assert scene.drive(new).reason == "goal_reached"
    assert scene.state(PARTS).done
    assert scene.loop_events(loop)[-1] == "loop_cancelled", "the earlier loop is replaced"
    row = {row.task_key: row for row in overview(scene.app).issues}[TWO]
    assert (row.phase, row.depth) == ("cancelled", 1), "it is still shown, and where it was"


def test_a_removed_task_can_be_kept_and_then_runs_as_it_was_approved(scene):
    without_close(scene)
    proposal = propose(scene.app, scene.root / "SPEC.md", choices=ApprovalChoices(keep_removed=True))
    plan = write_plan(scene.app, proposal, proposal.name, "ada")
    publish(scene.app, plan)
    assert plan.kept == (CLOSE,)
    assert run(scene.app, 2).last_event == "run_completed"
    assert propose(scene.app, scene.root / "SPEC.md").approved_plan == plan, "it is not asked about again"


def test_a_kept_task_stays_kept_at_the_next_approval(scene):
    without_close(scene)
    proposal = propose(scene.app, scene.root / "SPEC.md", choices=ApprovalChoices(keep_removed=True))
    publish(scene.app, write_plan(scene.app, proposal, proposal.name, "ada"))
    with_check(scene)
    again = propose(scene.app, scene.root / "SPEC.md")
    assert write_plan(scene.app, again, again.name, "ada").kept == (CLOSE,)


def test_a_cancelled_task_that_comes_back_goes_on(scene):
    approval = without_close(scene)
    run(scene.app, 2)
    approve_again(scene.app, 2, approval, "ada")
    proposal = propose(scene.app, scene.write(WITH_CLOSE))
    approve(scene.app, proposal, proposal.name, "ada")
    assert scene.world.cancelled == frozenset()
    assert scene.tracker.issues[2].state == "open"
    assert scene.state(CLOSE).phase is Phase.READY


def done_and_changed(scene: Scene) -> None:
    loop = scene.start(NESTED)
    assert scene.drive(loop).reason == "goal_reached"
    scene.write(NESTED.replace("one exists", "one is there"))


def test_a_finished_task_whose_text_changed_stays_done_unless_somebody_reopens_it(scene):
    done_and_changed(scene)
    proposal = propose(scene.app, scene.root / "SPEC.md")
    assert proposal.draft.changed_done == (ONE,)
    assert "stays done" in approval_text(scene.app, proposal, loop_mode=True, answer="yes")
    publish(scene.app, write_plan(scene.app, proposal, proposal.name, "ada"))
    assert scene.state(ONE).done


def test_a_reopened_task_begins_again_with_the_composite_it_is_part_of(scene):
    done_and_changed(scene)
    proposal = propose(scene.app, scene.root / "SPEC.md", choices=ApprovalChoices(reopen_done=True))
    assert "begins again" in approval_text(scene.app, proposal, loop_mode=True, answer="yes")
    loop = approve(scene.app, proposal, proposal.name, "ada")
    assert (scene.state(ONE).phase, scene.state(PARTS).phase) == (Phase.READY, Phase.CONTAINER)
    assert scene.tracker.issues[scene.number(ONE)].state == "open"
    scene.agent = ScriptedAgent(does(one_txt="once more"))
    assert scene.drive(loop).reason == "goal_reached"
    assert publish(scene.app, scene.plans.load(proposal.revision))[-1][2] == "kept", "reopened once"


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method"),
    [("log", "append"), ("log", "archive"), ("deliveries", "save"), ("forge_seen", "edit_issue")],
)
def test_a_crash_while_finished_work_is_reopened_leaves_none_of_it_done_or_closed(scene, port, method, side, call):
    """R7: the composite and its child begin again together, wherever it was cut off."""
    done_and_changed(scene)
    proposal = propose(scene.app, scene.root / "SPEC.md", choices=ApprovalChoices(reopen_done=True))
    plain = getattr(scene, port)
    setattr(scene, port, Watched(plain, [method], dying_at(side, call)))
    with pytest.raises(Killed):
        approve(scene.app, proposal, proposal.name, "ada")
    setattr(scene, port, plain)
    again = propose(scene.app, scene.root / "SPEC.md")
    approve(scene.app, again, again.name, "ada")
    assert (scene.state(ONE).phase, scene.state(PARTS).phase) == (Phase.READY, Phase.CONTAINER)
    assert {issue.state for issue in scene.tracker.issues.values()} == {"open"}
    assert reconcile(scene.app).outside == ()


def test_approving_again_does_not_start_a_loop_that_nobody_named(scene):
    proposal = propose(scene.app, scene.write(ONE_TASK), loop_mode=False)
    publish(scene.app, write_plan(scene.app, proposal, proposal.name, "ada", loop_mode=False))
    scene.write(CHANGED)
    run(scene.app, 1)
    wanted = propose(scene.app, scene.root / "SPEC.md")
    approve_again(scene.app, 1, wanted.name, "ada")
    assert scene.plans.load(wanted.revision).loop_mode is False


def test_an_approved_document_releases_every_task_that_waited_for_it(scene):
    scene.publish(SPEC)
    with_check(scene)
    for key in (GREETING,):
        assert run(scene.app, scene.number(key)).phase is Phase.STALE
    proposal = propose(scene.app, scene.root / "SPEC.md")
    approve(scene.app, proposal, proposal.name, "bob")
    assert scene.state().phase is Phase.READY
    assert (scene.last().event.by, scene.last().event.channel) == ("bob", "command")


def test_a_document_that_is_approved_without_a_loop_releases_what_waited_too(scene):
    scene.publish(SPEC)
    with_check(scene)
    assert run(scene.app, scene.number(GREETING)).phase is Phase.STALE
    proposal = propose(scene.app, scene.root / "SPEC.md", loop_mode=False)
    assert {status for _, _, status in approve_stepwise(scene.app, proposal, proposal.name, "bob")} == {"kept"}
    assert (scene.state().phase, scene.last().event.by) == (Phase.READY, "bob")


def test_nothing_is_approved_without_a_loop_under_a_loop_at_work(scene):
    loop = scene.start(ONE_TASK)
    proposal = propose(scene.app, scene.write(CHANGED), loop_mode=False)
    with scene.lease.hold(loop.id), pytest.raises(Busy, match="at work on SPEC"):
        approve_stepwise(scene.app, proposal, proposal.name, "ada")
    assert scene.plans.load(proposal.revision) is None


def test_a_halted_loop_over_other_tasks_does_not_go_on_after_an_approval_without_one(scene):
    loop = scene.start(ONE_TASK)
    proposal = propose(scene.app, scene.write(WITH_CLOSE), loop_mode=False)
    approve_stepwise(scene.app, proposal, proposal.name, "ada")
    assert scene.loop_events(loop)[-1] == "loop_cancelled"
    assert replacement(scene.app, loop.id) is None


MORE = NESTED + "\n### Part three\n\n- [ ] three exists `$ has three.txt`\n"


def halted_over_a_part_that_changed(scene: Scene) -> tuple[Loop, str]:
    """A loop that waits for approval of a document with a changed part and a new one; what to approve."""
    loop = scene.start(NESTED)
    scene.write(MORE.replace("one exists", "one is there"))
    assert scene.drive(loop).reason == "reapproval_required"
    return loop, propose(scene.app, scene.root / "SPEC.md").name


def test_a_task_that_an_answer_in_the_form_adds_is_in_the_loop_that_goes_on(scene):
    """Else the composite would wait for ever for a child that no loop has."""
    loop, name = halted_over_a_part_that_changed(scene)
    answer_issue(scene.app, scene.number(ONE), Answer("approve", "ada", revision=name), loop.id)
    assert scene.loop_events(loop)[-1] == "loop_cancelled"
    following = replacement(scene.app, loop.id)
    assert set(following.keys) == {PARTS, ONE, "parts-part-three"}
    scene.agent = ScriptedAgent(does(one_txt="1"), does(three_txt="3"))
    assert scene.drive(following).reason == "goal_reached"


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method", "call"),
    [
        ("plans", "save", 1),
        *(("loops", "append", call) for call in (1, 2)),
        ("loops", "write_entity", 1),
        ("log", "archive", 1),
        *(("log", "append", call) for call in (1, 2)),
        ("forge_seen", "create_issue", 1),
    ],
)
def test_an_answer_that_was_cut_short_is_finished_by_itself_or_by_the_same_answer(scene, port, method, call, side):
    loop, name = halted_over_a_part_that_changed(scene)
    given, plain = Answer("approve", "ada", revision=name), getattr(scene, port)
    setattr(scene, port, Watched(plain, [method], dying_at(side, call)))
    with pytest.raises(Killed):
        answer_issue(scene.app, scene.number(ONE), given, loop.id)
    setattr(scene, port, plain)
    catch_up(scene.app)
    if scene.state(ONE).phase is Phase.STALE:
        answer_issue(scene.app, scene.number(ONE), given)
    scene.agent = ScriptedAgent(does(one_txt="1"), does(three_txt="3"))
    following = replacement(scene.app, loop.id) or loop
    assert scene.drive(following).reason == "goal_reached"
    assert set(following.keys) == {PARTS, ONE, "parts-part-three"}
    assert len(scene.tracker.issues) == 3


def test_an_answer_that_would_replace_a_loop_at_work_has_to_wait_and_nothing_is_written(scene):
    loop, name = halted_over_a_part_that_changed(scene)
    revisions = scene.plans.revisions()
    with scene.lease.hold(loop.id), pytest.raises(Busy, match="at work on SPEC"):
        answer_issue(scene.app, scene.number(ONE), Answer("approve", "ada", revision=name))
    assert scene.plans.revisions() == revisions


def test_an_answer_in_the_form_releases_every_task_that_waited_as_its_own_word(scene):
    scene.publish(f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n")
    with_check(scene)
    assert [run(scene.app, number).phase for number in (1, 2)] == [Phase.STALE] * 2
    approve_again(scene.app, 1, propose(scene.app, scene.root / "SPEC.md").name, "bob")
    assert [(scene.last(key).event.by, scene.last(key).event.channel) for key in (GREETING, CLOSE)] == [
        ("bob", "command")
    ] * 2


def test_an_answer_in_the_form_starts_no_loop_where_none_is_open(scene):
    approve_again(scene.app, 1, stale(scene), "ada")
    assert scene.loops.ids() == ()


def test_text_that_returns_re_approves_itself(scene):
    """R7"""
    stale(scene)
    scene.write(ONE_TASK)
    assert release_approved(scene.app, scene.world) == (1,)
    event = scene.last().event
    assert (event.event, event.channel) == ("task_approved", "reverted")
    assert scene.state().phase is Phase.READY


def test_a_configuration_that_returns_does_so_too(scene):
    scene.publish(ONE_TASK)
    with_check(scene)
    run(scene.app, 1)
    without_check(scene)
    catch_up(scene.app)
    assert scene.state().phase is Phase.READY


def test_text_that_stays_changed_is_asked_about_once(scene):
    stale(scene)
    assert release_approved(scene.app, scene.world) == ()
    with pytest.raises(NotEligible):
        run(scene.app, 1)
    assert scene.events().count("task_reapproval_required") == 1


def test_a_changed_task_in_a_loop_halts_it_and_its_answer_goes_on(scene):
    loop = scene.start(SPEC)
    scene.write(SPEC.replace("one exists", "one is there"))
    revision = propose(scene.app, scene.root / "SPEC.md").revision

    def answers(question):
        if question.rule.reason == "reapproval_required":
            return Answer("approve", "ada", revision=propose(scene.app, scene.root / "SPEC.md").name)
        return Answer("accept", "ada")

    assert scene.drive(loop, answers).reason == "goal_reached"
    assert scene.state(ONE).approved_revision == revision
    assert scene.state(TWO).approved_revision != revision


def test_a_cut_off_attempt_is_settled_before_its_task_begins_again(scene):
    """R7: never during a run."""

    def dies(_):
        raise Killed

    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(dies)
    with pytest.raises(Killed):
        run(scene.app, 1)
    proposal = propose(scene.app, scene.write(CHANGED))
    approve(scene.app, proposal, proposal.name, "ada")
    assert scene.state().phase is Phase.READY
    assert "0003-run-interrupted.yml" in next(iter(scene.log.archived.values())).files


def test_the_answer_in_a_form_is_the_same_approval(scene):
    revision = stale(scene)
    assert answer_issue(scene.app, 1, Answer("approve", "ada", revision=revision)).phase is Phase.READY
