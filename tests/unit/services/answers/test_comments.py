"""Answers in comments: taken once, from people with write access alone, and whatever else is said once (R9, R20)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.app import Preferences
from irontree.domain.comments import reply_problems
from irontree.domain.gates import Gate, Gates
from irontree.domain.state import Phase
from irontree.errors import AnswerRefused, Busy, RemoteUnavailable
from irontree.ports import EffectLedger
from irontree.services.answers.answers import answer_issue
from irontree.services.answers.comments import look
from irontree.services.delivery.comments import asked_at
from irontree.services.delivery.deliver import tell_halts
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.loops import loop as loops
from irontree.services.questions.commands import answers_to
from irontree.services.questions.listing import asked_about, offered
from irontree.services.questions.pages import question_text
from irontree.services.questions.questions import gate_words
from irontree.store.memory import MemoryDeliveries
from tests.support.forges import change_comment
from tests.support.watching import Killed, Watched
from tests.support.world import MANUAL_TASK, ONE_TASK, BusyFor, Scene, accepts, does, sends_back


@pytest.fixture
def asking(scene) -> Scene:
    """Its loop has halted: the work on issue 1 waits for acceptance. `alice` and `bob` have write access."""
    scene.tracker.writers |= {"alice", "bob"}
    scene.drive(scene.start(MANUAL_TASK))
    return scene


def says(scene: Scene, text: str, by: str = "alice") -> str:
    """A comment on issue 1; its address."""
    return scene.forge(by).post_comment(1, text).url


def outcomes(scene: Scene) -> list[tuple[str, str]]:
    return [(found.by, found.outcome) for found in look(scene.app)]


def replies(scene: Scene) -> list[str]:
    """What we said to answers that were not taken."""
    return [body for body in scene.comments() if "was not taken" in body]


def test_the_comment_that_asks_says_how_a_comment_answers(asking):
    """Every legal choice, and no SHA and no event name (R10)."""
    assert asking.comments()[0].split("`")[1:8:2] == ["/accept", "/send-back NOTE", "/skip greeting", "/stop"]


def test_a_comment_by_somebody_with_write_access_answers_the_question(asking):
    url = says(asking, "Nice.\n\n/accept well done")
    (found,) = look(asking.app)
    assert (found.issue_number, found.outcome, found.by, found.comment) == (1, "taken", "alice", url)
    meta = asking.last().meta
    assert asking.events()[-1] == "checkup_accept_recorded"
    assert (meta["by"], meta["actor"], meta["channel"], meta["note"]) == ("alice", "alice", "comment", "well done")
    assert (meta["comment"], meta["commented_at"]) == (url, asking.tracker.comments[1][1].created_at)


def test_what_is_sent_back_takes_its_note_along(asking):
    says(asking, "/send-back\nsay it in green")
    look(asking.app)
    assert asking.events()[-1] == "verify_failed_retryable"
    assert asking.last().meta["note"] == "say it in green"
    assert "Reason: Sent back by alice: say it in green" in asking.comments()[-1]


@pytest.mark.parametrize(("text", "status"), [("/skip greeting", "cancelled"), ("/stop", "cancelled")])
def test_skip_and_stop_are_events_of_the_loop(asking, text: str, status: str):
    url = says(asking, text)
    assert outcomes(asking) == [("alice", "taken")]
    (loop,) = loops.read_loops(asking.app)[0]
    assert loop.entity.status == status
    assert asking.loops.read(loop.id).records[-1].meta["comment"] == url


def test_a_task_is_skipped_only_by_its_name(asking):
    says(asking, "/skip another-task")
    assert outcomes(asking) == [("alice", "refused")]
    assert "another-task is not the task that asks here" in replies(asking)[0]


def test_more_attempts_are_allowed_by_their_number(scene):
    scene.tracker.writers |= {"alice"}
    scene.agent = ScriptedAgent(*[does(greet_txt="bye")] * 4)
    scene.drive(scene.start(ONE_TASK))
    assert scene.state().phase is Phase.TERMINAL
    says(scene, "/retry 2 with more care")
    assert outcomes(scene) == [("alice", "taken")]
    assert scene.state().max_retry_count == 5


def test_the_budget_of_a_loop_is_extended_where_it_last_worked(scene):
    """A loop has no issue: its question is told, and answered, under the issue of its last transition."""
    scene.tracker.writers |= {"alice"}
    scene.preferences = Preferences(loop_budget=1)
    loop = scene.start(ONE_TASK)
    assert scene.drive(loop).reason == "loop_budget_exhausted"
    tell_halts(scene.app, scene.world)
    assert "- `/extend N`: allow more transitions\n- `/stop`: stop the whole loop\n" in scene.comments()[-1]
    url = says(scene, "/extend 20")
    (found,) = look(scene.app)
    assert (found.outcome, found.loop_id) == ("taken", loop.id)
    events = {record.event.event: record.meta for record in scene.loops.read(loop.id).records}
    assert events["loop_budget_extended"]["comment"] == url
    assert loops.read_loop(scene.app, loop.id).entity.status == "running"


def test_text_by_people_without_write_access_is_never_a_command(asking):
    """And it is not answered: nobody makes us talk who may not decide (R20)."""
    says(asking, "/accept", by="mallory")
    assert outcomes(asking) == []
    assert asking.state().phase is Phase.PENDING
    assert replies(asking) == []


def test_who_has_no_account_there_is_a_stranger_too(asking):
    """Write access is what the forge says at that moment, not what it said when the comment was read first."""
    says(asking, "hello")
    look(asking.app)
    asking.tracker.writers -= {"alice"}
    says(asking, "/accept")
    assert outcomes(asking) == []


def test_a_person_who_shares_our_account_may_answer_too(asking):
    """On a laptop the token is the person's own; what this program wrote is known by its marker."""
    says(asking, "/accept", by="us")
    assert outcomes(asking) == [("us", "taken")]


def test_our_own_comments_command_nothing(asking):
    says(asking, "/stop\n\n<!-- irontree:1:abcdefgh -->", by="us")
    assert outcomes(asking) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/approve 0a1b2c3d", "is no answer to"),
        ("/retry 1", "is no answer to"),
        ("/send-back", "needs a note"),
        ("/accept\n/stop", "a comment is one answer"),
    ],
)
def test_a_wrong_answer_gets_one_reply_with_the_reason_and_the_issue_stays_answerable(asking, text: str, reason: str):
    says(asking, text)
    assert outcomes(asking) == [("alice", "refused")]
    assert outcomes(asking) == []
    (reply,) = replies(asking)
    assert reason in reply
    assert "`/accept`, `/send-back NOTE`, `/skip greeting`, `/stop`" in reply
    assert reply_problems(reply) == ()
    says(asking, "/accept")
    assert outcomes(asking) == [("alice", "taken")]


def test_what_was_said_before_the_question_is_refused_as_early(scene):
    scene.tracker.writers |= {"alice"}
    loop = scene.start(MANUAL_TASK)
    says(scene, "/accept")
    scene.drive(loop)
    assert outcomes(scene) == [("alice", "refused")]
    assert "said before this was asked" in replies(scene)[0]
    assert scene.state().phase is Phase.PENDING


def test_where_our_comment_could_not_be_posted_the_time_tells_what_came_before(scene):
    scene.tracker.writers |= {"alice"}
    scene.drive(scene.start(MANUAL_TASK))
    scene.tracker.comments.clear()
    says(scene, "/accept")
    assert outcomes(scene) == [("alice", "taken")]


def test_of_two_valid_answers_the_first_counts_and_the_second_is_told_so(asking):
    says(asking, "/accept", by="alice")
    says(asking, "/send-back no", by="bob")
    assert outcomes(asking) == [("alice", "taken"), ("bob", "refused")]
    assert asking.events().count("checkup_accept_recorded") == 1
    assert "has no open question" in replies(asking)[0]


def test_behind_a_stop_nothing_is_accepted(asking):
    """The issue still waits by its own log; but a person has said that nobody goes on with it."""
    says(asking, "/stop", by="alice")
    says(asking, "/accept", by="bob")
    assert outcomes(asking) == [("alice", "taken"), ("bob", "refused")]
    says(asking, "/accept", by="bob")
    assert outcomes(asking) == []
    assert asking.state().phase is Phase.PENDING


def test_an_answer_through_the_form_in_the_same_minute_wins_once(asking):
    """It is recorded between our look at the forge and our turn at the lock."""
    says(asking, "/send-back no")

    def answer_first(_, side: str) -> None:
        if side == "after" and asking.state().phase is Phase.PENDING:
            answer_issue(asking.app, 1, accepts())

    asking.forge_seen = Watched(asking.forge_seen, ["comments_since"], answer_first)
    assert outcomes(asking) == [("alice", "refused")]
    assert asking.events()[-1] == "checkup_accept_recorded"


def test_a_comment_that_was_edited_is_nobodys_word(asking):
    """Others with write access may edit it; a new comment is asked for, once."""
    says(asking, "looks good")
    change_comment(asking.tracker, 1, asking.tracker.comments[1][-1].id, "/accept")
    assert outcomes(asking) == [("alice", "refused")]
    assert "was edited" in replies(asking)[0]
    assert outcomes(asking) == []


def test_an_edit_of_what_was_taken_changes_nothing(asking):
    says(asking, "/send-back more")
    look(asking.app)
    sent_back = next(comment.id for comment in asking.tracker.comments[1] if comment.author == "alice")
    asking.drive(loops.read_loops(asking.app)[0][0])
    change_comment(asking.tracker, 1, sent_back, "/accept")
    assert outcomes(asking) == []
    assert asking.state().phase is Phase.PENDING


def test_a_comment_that_is_deleted_before_it_is_seen_says_nothing(asking):
    says(asking, "/accept")
    asking.tracker.comments[1].pop()
    assert outcomes(asking) == []


def test_a_cursor_that_is_lost_repeats_nothing(asking):
    """Events name their comment, replies are known by their marker (R9)."""
    says(asking, "/retry 1", by="bob")
    says(asking, "/send-back more", by="alice")
    look(asking.app)
    asking.drive(loops.read_loops(asking.app)[0][0])
    before = (asking.events(), len(replies(asking)))
    ledger = asking.deliveries.load(1)
    asking.deliveries.save(1, replace(ledger, settled=EffectLedger().settled))
    look(asking.app)
    assert (asking.events(), len(replies(asking))) == before


def test_a_kill_between_the_event_and_the_cursor_repeats_nothing_under_the_next_question(asking):
    """The event names the comment: it is known as taken, and not called early."""
    says(asking, "/send-back more")

    def die(call: str, side: str) -> None:
        if side == "before" and asking.events()[-1] == "verify_failed_retryable":
            raise Killed

    asking.deliveries = Watched(asking.deliveries, ["save"], die)
    with pytest.raises(Killed):
        look(asking.app)
    asking.deliveries = asking.deliveries._port
    asking.drive(loops.read_loops(asking.app)[0][0])
    before = asking.events()
    assert outcomes(asking) == [("alice", "taken")]
    assert (asking.events(), replies(asking)) == (before, [])


def test_a_reply_whose_answer_was_lost_is_not_posted_twice(asking):
    says(asking, "/retry 1")
    asking.tracker.lost_answers = 1
    assert [found.outcome for found in look(asking.app)] == ["later"]
    assert outcomes(asking) == [("alice", "refused")]
    assert len(replies(asking)) == 1


def test_an_outage_is_later_and_says_when(asking):
    says(asking, "/accept")
    asking.tracker.outage = "503"
    (found,) = look(asking.app)
    assert (found.outcome, found.said, found.ended_pass) == ("later", "503", True)
    asking.tracker.outage = None
    assert outcomes(asking) == [("alice", "taken")]


@pytest.mark.parametrize("passing", [RemoteUnavailable("503"), Busy("somebody is at it")])
def test_what_keeps_an_answer_from_being_done_for_a_while_refuses_it_not(asking, passing):
    """It is neither settled nor replied to, and taken by the next look."""
    says(asking, "/accept")
    working, failing = asking.repository, [passing]

    def fail_once(_: str, side: str) -> None:
        if side == "before" and failing:
            raise failing.pop()

    asking.repository = Watched(working, ["workspace", "read_ref", "publish", "lacking", "find_token"], fail_once)
    assert [found.outcome for found in look(asking.app)] == ["later"]
    assert (replies(asking), asking.deliveries.load(1).settled) == ([], ())
    assert outcomes(asking) == [("alice", "taken")]
    assert asking.events()[-1] == "checkup_accept_recorded"


def test_what_was_taken_before_the_forge_failed_is_said(asking):
    """The run that waited for it is to go on now, not with the next look."""
    says(asking, "/send-back more")
    says(asking, "/accept", by="bob")

    def fail_for_the_second(call: str, side: str) -> None:
        if side == "before" and asking.events()[-1] == "verify_failed_retryable":
            raise RemoteUnavailable("503")

    asking.forge_seen = Watched(asking.forge_seen, ["may_write"], fail_for_the_second)
    assert outcomes(asking) == [("alice", "taken"), ("", "later")]


def test_while_somebody_else_works_comments_wait(asking):
    says(asking, "/accept")
    asking.driver = BusyFor(asking.clock, 60)
    assert [found.outcome for found in look(asking.app)] == ["later"]
    asking.driver = BusyFor(asking.clock, 1)
    assert outcomes(asking) == [("alice", "taken")]


def test_where_nothing_waits_the_forge_is_not_asked(scene):
    scene.drive(scene.start(ONE_TASK))

    def never(*_) -> None:
        raise AssertionError("the forge was asked")

    scene.forge_seen = Watched(scene.forge_seen, ["comments_since", "comments", "may_write"], never)
    assert look(scene.app) == ()


def test_one_look_at_a_question_without_an_answer_is_one_request(asking):
    asked = []
    asking.forge_seen = Watched(
        asking.forge_seen, ["comments_since", "comments", "may_write", "about"], lambda call, _: asked.append(call)
    )
    says(asking, "interesting")
    look(asking.app)
    assert asked == ["comments_since"] * 2  # before and after


def test_a_stepwise_issue_is_answered_too(scene):
    """It has no loop, and so nothing to skip or stop."""
    scene.tracker.writers |= {"alice"}
    scene.publish(MANUAL_TASK)
    run(scene.app, 1)
    verify(scene.app, 1)
    says(scene, "/skip greeting")
    says(scene, "/accept")
    assert outcomes(scene) == [("alice", "refused"), ("alice", "taken")]
    assert "`/accept`, `/send-back NOTE`." in replies(scene)[0]


def test_a_limit_of_the_forge_is_handed_on(asking):
    """Who polls waits as long as it asks for."""
    moment = asking.clock.now()

    def limited(*_) -> None:
        raise RemoteUnavailable("too many requests", not_before=moment)

    asking.forge_seen = Watched(asking.forge_seen, ["comments_since"], limited)
    (found,) = look(asking.app)
    assert (found.outcome, found.not_before) == ("later", moment)


# --- gates ------------------------------------------------------------------------------------------------------


def behind(scene: Scene, gate: Gate) -> Scene:
    """A scene that waits for acceptance behind this gate; `us` wrote the issue, on behalf of ada."""
    scene.policy = scene.policy.model_copy(update={"gates": Gates(acceptance=gate)})
    scene.tracker.writers |= {"alice", "bob"}
    scene.drive(scene.start(MANUAL_TASK))
    return scene


def test_two_people_have_to_say_the_same_and_the_event_names_both(scene):
    behind(scene, Gate(approvers=2))
    assert "(2 people with write access decide that it goes on)" in scene.comments()[0]
    first = says(scene, "/accept nice")
    assert outcomes(scene) == [("alice", "counted")]
    assert [*scene.tracker.reactions.values()] == [{("us", "eyes")}]
    assert scene.state().phase is Phase.PENDING
    second = says(scene, "/accept", by="bob")
    assert outcomes(scene) == [("bob", "taken")]
    assert scene.last().meta["approvers"] == [f"alice {first}", f"bob {second}"]
    assert scene.last().meta["by"] == "alice, bob"
    assert replies(scene) == []


def test_two_who_said_it_between_two_looks_are_enough_and_neither_is_refused(scene):
    behind(scene, Gate(approvers=2))
    for name in ("alice", "bob"):
        says(scene, "/accept", by=name)
    assert outcomes(scene) == [("alice", "taken"), ("bob", "taken")]
    assert replies(scene) == []


def test_one_person_twice_counts_once(scene):
    behind(scene, Gate(approvers=2))
    for _ in range(3):
        says(scene, "/accept")
    assert outcomes(scene) == [("alice", "counted")] * 3


def test_who_asked_for_the_work_does_not_count(scene):
    """The issue is ours: whoever shares our account asked for it."""
    behind(scene, Gate(not_requester=True))
    says(scene, "/accept", by="us")
    assert outcomes(scene) == [("us", "refused")]
    assert "you asked for this work" in replies(scene)[0]
    says(scene, "/accept", by="bob")
    assert outcomes(scene) == [("bob", "taken")]


def test_who_lost_write_access_in_between_does_not_count(scene):
    behind(scene, Gate(approvers=2))
    says(scene, "/accept")
    look(scene.app)
    scene.tracker.writers -= {"alice"}
    says(scene, "/accept", by="bob")
    assert outcomes(scene) == [("bob", "counted")]
    assert scene.deliveries.load(1).voters == ("bob",)


def test_who_deletes_or_edits_what_they_said_takes_it_back(scene):
    behind(scene, Gate(approvers=2))
    says(scene, "/accept")
    says(scene, "let us see", by="bob")
    look(scene.app)
    [hers] = [one for one in scene.tracker.comments[1] if one.author == "alice"]
    scene.tracker.comments[1].remove(hers)
    says(scene, "/accept", by="bob")
    assert outcomes(scene) == [("bob", "counted")]


def test_approvals_of_different_things_do_not_add_up(scene):
    scene.agent = ScriptedAgent(*[does(greet_txt="bye")] * 4)
    scene.policy = scene.policy.model_copy(update={"gates": Gates(failure=Gate(approvers=2))})
    scene.tracker.writers |= {"alice", "bob"}
    scene.drive(scene.start(ONE_TASK))
    says(scene, "/retry 1")
    says(scene, "/retry 5", by="bob")
    assert outcomes(scene) == [("alice", "counted"), ("bob", "counted")]
    says(scene, "/retry 1", by="bob")
    assert outcomes(scene) == [("bob", "taken")]


def test_one_person_may_still_send_back_and_stop(scene):
    """It lets nothing pass."""
    behind(scene, Gate(approvers=2))
    says(scene, "/send-back in green")
    assert outcomes(scene) == [("alice", "taken")]


def test_partial_approvals_outlive_the_cursor(scene):
    """The forge keeps them; they are counted anew."""
    behind(scene, Gate(approvers=2))
    says(scene, "/accept")
    look(scene.app)
    scene.deliveries = MemoryDeliveries()
    says(scene, "/accept", by="bob")
    assert ("bob", "taken") in outcomes(scene)


def test_who_is_not_known_by_name_cannot_pass_a_gate_and_is_told_where_to(scene):
    """Form and command line alike: they end in the same place."""
    behind(scene, Gate(approvers=1))
    with pytest.raises(AnswerRefused, match="counts only comments on the issue") as refused:
        answer_issue(scene.app, 1, accepts())
    assert refused.value.remedy == "comment `/accept` on issue #1"
    assert answer_issue(scene.app, 1, sends_back("in green")).last_event == "verify_failed_retryable"


def test_form_and_status_say_who_decides_and_who_has_said_so(scene):
    behind(scene, Gate(approvers=2))
    says(scene, "/accept")
    look(scene.app)
    question = asked_at(scene.app, 1)
    who = "2 people with write access decide; 1 of 2 so far: alice; 1 more is needed"
    words = f"only comments on the issue count for `/accept`: {who}"
    assert gate_words(scene.app, scene.world, question) == words
    assert words in question_text(scene.app, question)
    assert [choice.name for choice in offered(scene.app, scene.world, question)] == ["send-back", "skip", "stop"]
    assert words in (shown := asked_about(scene.app, scene.world, (), scene.state())).said
    assert [choice.name for choice, _ in answers_to(shown)] == ["send-back"]


def test_the_gate_that_was_approved_holds_whatever_the_settings_say_now(scene):
    """To loosen it is a change of what was approved (R6)."""
    behind(scene, Gate(approvers=2))
    scene.policy = scene.policy.model_copy(update={"gates": None})
    says(scene, "/accept")
    assert outcomes(scene) == [("alice", "counted")]
