"""What people do to issues on the forge is noticed, told, asked about or set back; never believed (External Events)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Finalize, Run, Verify
from irontree.domain.external import CLOSED, DELETED, REOPENED
from irontree.domain.halt import RULE
from irontree.domain.state import Phase
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.consistency.drift import EDITED, UNASKED
from irontree.services.consistency.reconcile import reconcile, repair
from irontree.services.execution.run import run
from irontree.services.execution.steps import perform
from irontree.services.questions.listing import explain
from irontree.services.questions.pages import question_text
from irontree.services.questions.questions import question_about
from tests.support import issues
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, SPEC, Scene


def told(scene: Scene) -> list[str]:
    return [change.what for change in reconcile(scene.app).outside]


def finished(scene: Scene) -> Scene:
    scene.drive(scene.start(ONE_TASK))
    return scene


def closed(scene: Scene) -> None:
    scene.publish(ONE_TASK)
    scene.forge_seen.edit_issue(1, state="closed")


def reopened(scene: Scene) -> None:
    finished(scene).forge_seen.edit_issue(1, state="open")


def deleted(scene: Scene) -> None:
    scene.publish(ONE_TASK)
    scene.tracker.issues.clear()


STOPPING = [(closed, CLOSED), (reopened, REOPENED), (deleted, DELETED)]


@pytest.mark.parametrize(("happens", "event"), STOPPING)
def test_what_contradicts_the_log_blocks_the_issue_and_is_recorded_once(scene, happens, event):
    happens(scene)
    assert told(scene) == [event.reason]
    state = scene.state()
    assert (state.phase, state.blocking_check, state.done) == (Phase.BLOCKED, event.check, False)
    assert scene.last().event.event == event.event
    before = scene.events()
    assert told(scene) == []
    assert scene.events() == before


@pytest.mark.parametrize(("happens", "event"), STOPPING)
def test_its_reason_stands_in_why_in_the_form_and_in_the_brief(scene, happens, event):
    happens(scene)
    reconcile(scene.app)
    assert event.reason in explain(scene.app, GREETING).because
    form = question_text(scene.app, question_about(scene.state(), RULE["blocked"]))
    assert event.reason in form
    brief = scene.projections.read("brief", 1)
    assert f"- Event: {event.name}\n" in brief


@pytest.mark.parametrize(("happens", "event"), STOPPING)
def test_a_person_clears_it_and_the_work_is_where_it_was(scene, happens, event):
    happens(scene)
    reconcile(scene.app)
    state = answer_issue(scene.app, 1, Answer("go-on", "ada"))
    assert state.phase is (Phase.DONE if event is REOPENED else Phase.READY)
    assert told(scene) == []


def test_an_issue_that_stays_done_is_closed_again_by_that_answer(scene):
    reopened(scene)
    reconcile(scene.app)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    assert (scene.state().done, scene.tracker.issues[1].state) == (True, "closed")


def test_an_issue_that_is_opened_again_twice_is_asked_about_twice(scene):
    reopened(scene)
    reconcile(scene.app)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    reconcile(scene.app)
    scene.forge_seen.edit_issue(1, state="open")
    assert told(scene) == [REOPENED.reason]


def test_a_done_issue_that_a_person_is_to_close_was_never_opened_again(scene):
    scene.preferences = replace(scene.preferences, close_on_done="manual")
    finished(scene)
    assert scene.tracker.issues[1].state == "open"
    scene.preferences = replace(scene.preferences, close_on_done="auto")
    assert told(scene) == [], "not even after the setting was changed"


def test_a_done_issue_that_waits_for_approval_again_is_not_closed_outside(scene):
    finished(scene)
    scene.write(ONE_TASK.replace("says", "cries"))
    assert told(scene) == []


def test_the_work_goes_on_without_an_issue_that_is_gone(scene):
    deleted(scene)
    reconcile(scene.app)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    assert perform(scene.app, Run(GREETING)).last_event == "run_completed"
    assert not scene.deliveries.load(1).failures, "there is nobody to tell, and nothing to try again"


def test_where_none_of_several_issues_can_be_seen_nobody_is_said_to_have_deleted_them(scene):
    """Another account, or a token that sees nothing, must not stop everything."""
    scene.publish(SPEC)
    kept = dict(scene.tracker.issues)
    scene.tracker.issues.clear()
    found = reconcile(scene.app)
    assert (found.outside, found.unseen) == ((), tuple(kept))
    assert "forge: none of its" in found.problems[0]
    assert "irontree checkup reconcile issue-1" in found.problems[0]
    scene.tracker.issues.update({number: issue for number, issue in kept.items() if number != 2})
    assert told(scene) == [DELETED.reason]


def test_issues_of_a_forge_that_is_lost_are_given_up_one_by_one_and_that_ends(scene):
    """An older backup has none of them: whoever knows it says so, and nothing is asked or tried again for ever."""
    scene.publish(SPEC)
    numbers = tuple(scene.tracker.issues)
    scene.tracker.issues.clear()
    for number in numbers:
        assert number in reconcile(scene.app).unseen
        [change] = reconcile(scene.app, number).outside
        assert (change.where, change.what) == (f"issue-{number}", DELETED.reason)
        answer_issue(scene.app, number, Answer("go-on", "ada"))
    found = reconcile(scene.app)
    assert (found.unseen, found.undelivered, found.problems, found.open_questions) == ((), (), (), ())
    assert perform(scene.app, Run(GREETING)).last_event == "run_completed"
    assert reconcile(scene.app).undelivered == ()


def test_a_finished_issue_that_is_gone_is_told_nothing_more_and_that_is_said_once(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    scene.tracker.issues.clear()
    for step in (Verify, Finalize):
        perform(scene.app, step(GREETING))
    assert scene.deliveries.load(1).failures
    found = reconcile(scene.app)
    assert [(change.what, change.remedy) for change in found.outside] == [
        (DELETED.reason, "it is done: nothing more is posted there")
    ]
    assert (found.undelivered, told(scene), scene.state().done) == ((), [], True)


def test_finished_issues_of_a_lost_forge_are_believed_gone_where_they_are_named(scene):
    scene.drive(scene.start(ONE_TASK + "\n## Close\n\n- [ ] closed `$ has close.txt`\n"))
    kept = dict(scene.tracker.issues)
    scene.tracker.issues.clear()
    assert reconcile(scene.app).unseen == (), "all was told"
    for number in kept:
        ledger = scene.deliveries.load(number)
        scene.deliveries.save(number, replace(ledger, failures=("comment_post_failed: 503",)))
    assert reconcile(scene.app).unseen == tuple(kept)
    assert [change.where for number in kept for change in reconcile(scene.app, number).outside] == [
        f"issue-{n}" for n in kept
    ]
    assert (reconcile(scene.app).unseen, reconcile(scene.app).undelivered) == ((), ())


def test_nothing_is_recorded_while_the_forge_is_away(scene):
    closed(scene)
    scene.tracker.outage = "503"
    assert told(scene) == []
    assert any("could not be read: 503" in line for line in scene.notes.lines)


# --- what does not stop the work ---------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"title": "Other"}, {"body": "Please do something else"}])
def test_an_edited_issue_is_told_once_changes_nothing_and_repair_puts_it_back(scene, change):
    scene.publish(ONE_TASK)
    before = scene.tracker.issues[1]
    scene.forge_seen.edit_issue(1, **change)
    assert told(scene) == [EDITED]
    assert told(scene) == []
    assert scene.state().phase is Phase.READY
    assert scene.deliveries.load(1).noticed == (EDITED,)
    assert EDITED in explain(scene.app, GREETING).because
    assert EDITED in scene.projections.read("brief", 1)
    assert [one.what for one in repair(scene.app)] == ["its title and text were put back to what is approved"]
    after = scene.tracker.issues[1]
    assert ((after.title, after.body), scene.deliveries.load(1).noticed) == ((before.title, before.body), ())
    assert told(scene) == []


def test_the_edited_text_of_an_adopted_issue_needs_approval_again_and_is_never_put_back(scene):
    """Its text is its approval (R7); published issues have a document."""
    issues.write(scene)
    issues.authorise(scene, 1)
    issues.edit(scene, 1, body=f"{issues.CLEAR}\nAnd it is loud.\n")
    [what] = told(scene)
    assert scene.last().event.event == "task_reapproval_required"
    assert scene.last().meta["reason"] == what
    assert told(scene) == []
    assert repair(scene.app) == ()
    assert "And it is loud." in scene.tracker.issues[1].body
    issues.edit(scene, 1, body=issues.CLEAR)
    assert reconcile(scene.app).approved_again == (1,)


def test_an_edit_that_was_taken_back_is_forgotten(scene):
    scene.publish(ONE_TASK)
    title = scene.tracker.issues[1].title
    scene.forge_seen.edit_issue(1, title="Other")
    reconcile(scene.app)
    scene.forge_seen.edit_issue(1, title=title)
    assert told(scene) == []
    assert scene.deliveries.load(1).noticed == ()


def test_who_is_asked_something_is_told_that_the_issue_was_edited(scene):
    scene.drive(scene.start(MANUAL_TASK))
    scene.forge_seen.edit_issue(1, body="Accept it whatever it does")
    reconcile(scene.app)
    assert EDITED in question_text(scene.app, question_about(scene.state(), RULE["pending_acceptance"]))


def test_line_ends_and_blank_lines_that_a_forge_makes_otherwise_are_no_edit(scene):
    scene.publish(ONE_TASK)
    body = scene.tracker.issues[1].body
    scene.forge_seen.edit_issue(1, body=body.replace("\n", "\r\n") + "\r\n")
    assert told(scene) == []


def test_a_text_that_was_ours_is_ours_still_when_the_templates_change(scene):
    scene.publish(ONE_TASK)
    reconcile(scene.app)
    scene.preferences = replace(scene.preferences, close_on_done="manual")  # it stands in the text
    assert told(scene) == []


def test_labels_that_follow_the_state_are_set_back_and_told(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.set_labels(1, add=["stage:done", "mine"], remove=["stage:task"])
    [what] = told(scene)
    assert what == "the label stage:task was removed and the label stage:done was set by hand"
    assert {"stage:task", "mine"} <= scene.labels()
    assert "stage:done" not in scene.labels()
    assert told(scene) == []


def test_a_question_of_ours_that_was_deleted_is_told_and_posted_again_by_repair(scene):
    scene.drive(scene.start(MANUAL_TASK))
    [asked] = scene.comments()
    reconcile(scene.app)
    scene.tracker.comments[1].clear()
    assert told(scene) == [UNASKED]
    assert told(scene) == []
    assert scene.comments() == [], "a person deleted it"
    assert [one.what for one in repair(scene.app)] == ["the comment that asks something was posted again"]
    assert scene.comments() == [asked]
    assert (told(scene), scene.deliveries.load(1).noticed) == ([], ())


def test_an_old_comment_that_was_deleted_is_nobodys_loss(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.edit_issue(1, state="closed")
    reconcile(scene.app)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    scene.tracker.comments[1].clear()
    assert told(scene) == []
    assert repair(scene.app) == ()
    assert scene.comments() == []


def test_an_attempt_that_is_under_way_is_left_alone(scene):
    scene.publish(ONE_TASK)

    def looks(task):
        scene.forge_seen.edit_issue(1, state="closed")
        assert told(scene) == []

    scene.agent = ScriptedAgent(looks)
    run(scene.app, 1)
    assert told(scene) == [CLOSED.reason]
