"""Replies to who wrote an issue: at most one for an attempt, tried once, and never what a person noted (R10)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.agents.scripted import ScriptedAgent
from irontree.app import Origin, Preferences
from irontree.domain.comments import reply_problems
from irontree.domain.decide import Verify
from irontree.domain.digests import digest_chain
from irontree.domain.values import PromotionPolicy
from irontree.ports import Links
from irontree.services.delivery.deliver import deliver, reply_decision
from irontree.services.execution.checkup import Decider, accept, finalize, send_back
from irontree.services.execution.run import run
from irontree.services.execution.steps import perform
from irontree.services.execution.verify import verify
from irontree.services.views.report import brief_text
from tests.support.watching import Killed, Watched, dying
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, Scene, does, make_scene

ADVICE = "Please restart the shop after this, or the old prices stay."
BUG = ONE_TASK.replace("## Greeting\n", "## Greeting\n\nType: bug\n")


def replying(scene: Scene, mode: str = "always", **settings) -> Scene:
    scene.preferences = Preferences(reply=mode, **settings)
    return scene


def step(scene: Scene, action, *arguments, **named):
    state = action(scene.app, 1, *arguments, **named)
    deliver(scene.app, scene.world, 1)
    return state


def verified(scene: Scene, text: str = ONE_TASK, note: str = "") -> Scene:
    scene.publish(text)
    step(scene, run)
    step(scene, verify, note=note)
    return scene


def replies(scene: Scene) -> list[str]:
    return [comment for comment in scene.comments() if comment.startswith(("Your issue", "The task"))]


def reply_of(scene: Scene, event: str) -> str | None:
    return next(r.event.reply_posted for r in scene.records() if r.event.event == event)


# --- when ----------------------------------------------------------------------------------------------


def test_auto_says_nothing_where_there_is_nothing_to_say(scene):
    verified(scene)
    step(scene, finalize)
    assert scene.comments() == []
    assert reply_of(scene, "verify_passed") is None


def test_auto_replies_to_a_note_that_asks_for_something(scene):
    verified(scene, note=ADVICE)
    (reply,) = replies(scene)
    assert "Whoever looked at it has something for you to do or to know" in reply


def test_auto_replies_to_such_a_note_of_whoever_accepted(scene):
    verified(scene, MANUAL_TASK)
    step(scene, accept, Decider("ada", ADVICE))
    assert replies(scene) == []
    step(scene, finalize)
    (reply,) = replies(scene)
    assert "Whoever looked at it has something for you to do or to know" in reply


@pytest.mark.parametrize(
    ("channel", "how"), [("command", "on the command line"), ("form", "in Prefect"), ("comment", "by comment")]
)
def test_the_last_word_on_an_issue_that_asked_is_who_accepted_it_how_and_what_was_published(scene, channel, how):
    verified(scene, MANUAL_TASK)
    accept(replace(scene.app, origin=Origin("ada", channel)), 1, Decider("ada"))
    deliver(scene.app, scene.world, 1)
    step(scene, finalize)
    published = f"published as commit {scene.state().code_ref[:7]} on main"
    assert f"\nAccepted by ada {how}, {published}, 1 check passed.\n" in scene.comments()[-1]
    assert reply_of(scene, "checkup_done") == scene.tracker.comments[1][-1].url


def test_the_last_word_on_an_issue_that_failed_before_is_that_it_passed(scene):
    scene.agent = ScriptedAgent(does(greet_txt="bye"), does(greet_txt="hello"))
    scene.publish(ONE_TASK)
    for action in (run, verify, run, verify, finalize):
        step(scene, action)
    failed, passed = scene.comments()
    assert failed.startswith("❌ verify failed")
    assert f"Verified, published as commit {scene.state().code_ref[:7]} on main" in passed


def test_a_comment_takes_one_call_where_nothing_was_cut_off(scene):
    """docs/forges.md says what is called."""
    asked: list[str] = []
    scene.forge_seen = Watched(scene.forge_seen, ["comments", "post_comment"], lambda name, _: asked.append(name))
    verified(scene, MANUAL_TASK)
    step(scene, accept, Decider("ada"))
    step(scene, finalize)
    assert len(scene.comments()) == 2
    assert asked == ["post_comment"] * 4, "before and after each"


def test_a_comment_whose_answer_was_lost_is_looked_for_before_it_is_posted_again(scene):
    scene.publish(MANUAL_TASK)
    step(scene, run)
    verify(scene.app, 1)
    scene.tracker.lost_answers = 1
    assert deliver(scene.app, scene.world, 1).failures
    assert deliver(scene.app, scene.world, 1).failures == ()
    assert len(scene.comments()) == 1


def test_auto_tells_who_wrote_an_adopted_issue_where_the_notes_are(scene):
    """Issues of our own have no author who would have to be told."""
    scene.policy = scene.policy.model_copy(update={"promotion": PromotionPolicy(mode="always")})
    verified(scene)
    own, adopted = scene.state(), replace(scene.state(), adopted=True)
    assert not reply_decision(scene.app, own, scene.last()).yes
    assert reply_decision(scene.app, adopted, scene.last()).yes


def test_always_replies_once_for_an_attempt(scene):
    verified(replying(scene))
    step(scene, finalize)
    assert len(replies(scene)) == 1
    assert reply_of(scene, "verify_passed")
    assert reply_of(scene, "checkup_done") is None


def test_never_is_never(scene):
    verified(replying(scene, "never"), note=ADVICE)
    step(scene, finalize)
    assert scene.comments() == []


def test_after_a_persons_decision_there_may_be_a_second(scene):
    """What was said before it (look at it) is not what is said after it (it is done)."""
    verified(replying(scene), MANUAL_TASK)
    step(scene, accept, Decider("ada"))
    step(scene, finalize)
    first, second = replies(scene)
    assert "ready for you to look at" in first
    assert "- it is friendly" in first
    assert second.startswith("The task “Greeting” is done.\n\nAccepted by ada")
    assert second.count("ccepted") == 1


def test_what_was_sent_back_may_be_replied_to_when_it_converges_again(scene):
    verified(replying(scene), MANUAL_TASK)
    step(scene, send_back, Decider("ada", "friendlier"))
    step(scene, run)
    step(scene, verify)
    assert len(replies(scene)) == 2


def test_a_pending_issue_has_a_status_comment_and_may_have_a_reply(scene):
    verified(replying(scene), MANUAL_TASK)
    status, reply = scene.comments()
    assert status.startswith("⏸️ manual acceptance required")
    assert reply.startswith("The task “Greeting” is ready for you to look at.")


def test_an_invitation_that_was_answered_before_it_could_be_posted_is_not_posted(scene):
    scene.publish(MANUAL_TASK)
    step(replying(scene), run)
    verify(scene.app, 1)
    accept(scene.app, 1, Decider("ada"))
    deliver(scene.app, scene.world, 1)
    assert replies(scene) == []


# --- what ----------------------------------------------------------------------------------------------


def test_the_log_notes_the_address_of_the_reply(scene):
    verified(replying(scene))
    assert reply_of(scene, "verify_passed") == scene.tracker.comments[1][0].url


def test_a_reply_leads_to_the_change_and_to_the_document(scene):
    scene.policy = scene.policy.model_copy(update={"promotion": PromotionPolicy(mode="always")})
    verified(replying(scene))
    (reply,) = replies(scene)
    assert f"https://forge.example/commit/{scene.state().code_ref}" in reply
    assert "https://forge.example/main/docs/integrations/greeting.md" in reply


class Unlinked:
    """A forge that shows neither commits nor files."""

    def __init__(self, forge) -> None:
        self._forge = forge

    def __getattr__(self, name):
        return Links(None) if name == "links" else getattr(self._forge, name)


def test_without_an_address_the_document_is_named(scene):
    scene.policy = scene.policy.model_copy(update={"promotion": PromotionPolicy(mode="always")})
    scene.forge_seen = Unlinked(scene.forge_seen)
    verified(replying(scene))
    assert "written down in “docs/integrations/greeting.md”." in replies(scene)[0]


@pytest.mark.parametrize("event", ["verify", "accept"])
@given(note=st.text(st.characters(codec="utf-8"), min_size=1, max_size=120))
def test_a_note_is_never_echoed(tmp_path_factory, event, note):
    """Whatever a person noted, no word of it that is not ours already is on the forge."""
    scene = replying(make_scene(tmp_path_factory.mktemp("scene")))
    secret = f"{note} please upgrade xyzzy"
    verified(scene, MANUAL_TASK, note=secret if event == "verify" else "")
    step(scene, accept, Decider("ada", secret if event == "accept" else ""))
    step(scene, finalize)
    posted = "\n".join(scene.comments())
    assert "xyzzy" not in posted
    assert not [text for text in replies(scene) if reply_problems(text)]


# --- closing -------------------------------------------------------------------------------------------


def manual_close(scene: Scene) -> str | None:
    state, world = scene.state(), scene.world
    lines = brief_text(scene.app, world, state, world.plan(state)).splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("- Manual Close: ")), None)


def test_the_close_instruction_is_in_the_reply_if_there_is_one(scene):
    verified(replying(scene, close_on_done="manual"), MANUAL_TASK)
    step(scene, accept, Decider("ada"))
    step(scene, finalize)
    assert "close this issue" in replies(scene)[-1]
    assert manual_close(scene) is None
    assert scene.tracker.issues[1].state == "open"


def test_the_close_instruction_is_in_the_brief_if_there_is_no_reply(scene):
    verified(replying(scene, "never", close_on_done="manual"))
    step(scene, finalize)
    assert scene.comments() == []
    assert manual_close(scene) == "close issue #1 once you have looked at it"


def test_a_reply_about_an_issue_that_we_close_says_nothing_of_closing(scene):
    verified(replying(scene), MANUAL_TASK)
    step(scene, accept, Decider("ada"))
    step(scene, finalize)
    assert "close" not in replies(scene)[-1]


class Named:
    """A forge of that name."""

    def __init__(self, forge, name: str) -> None:
        self._forge, self.name = forge, name

    def __getattr__(self, name):
        return getattr(self._forge, name)


def test_on_github_the_close_instruction_is_a_command(scene):
    scene.forge_seen = Named(scene.forge_seen, "github")
    verified(replying(scene, close_on_done="manual"), MANUAL_TASK)
    step(scene, accept, Decider("ada"))
    step(scene, finalize)
    assert "`gh issue close 1 --reason completed`" in replies(scene)[-1]


# --- failures and crashes ------------------------------------------------------------------------------


def test_a_reply_that_fails_is_a_warning_and_not_tried_again(scene):
    scene.publish(ONE_TASK)
    step(replying(scene), run)
    verify(scene.app, 1)
    scene.tracker.outage = "503"
    ledger = deliver(scene.app, scene.world, 1)
    assert ledger.warnings == ("reply_post_failed: 503",)
    scene.tracker.outage = None
    ledger = deliver(scene.app, scene.world, 1)
    assert scene.comments() == []
    assert (ledger.failures, ledger.warnings) == ((), ("reply_post_failed: 503",))
    assert reply_of(scene, "verify_passed") is None


def test_the_warning_is_in_the_report_and_the_brief(scene):
    """Both are made anew after what is to be told."""
    scene.publish(ONE_TASK)
    step(replying(scene), run)
    scene.tracker.outage = "503"
    perform(scene.app, Verify(GREETING))
    texts = scene.projections.texts
    for name in (".mino/reports/issue-1/report.md", ".mino/briefs/issue-1.md"):
        assert "reply_post_failed: 503" in texts[scene.root / name]
        assert "stage_label_sync_failed: 503" in texts[scene.root / name]


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method"), [("forge_seen", "post_comment"), ("log", "record_reply"), ("deliveries", "save")]
)
def test_a_crash_in_between_posts_no_reply_twice_and_loses_none(scene, port, method, side):
    scene.publish(ONE_TASK)
    step(replying(scene), run)
    verify(scene.app, 1)
    setattr(scene, port, Watched(getattr(scene, port), [method], dying(side)))
    with pytest.raises(Killed):
        deliver(scene.app, scene.world, 1)
    deliver(scene.app, scene.world, 1)
    assert len(replies(scene)) == 1
    assert reply_of(scene, "verify_passed") == scene.tracker.comments[1][0].url


def test_what_is_delivered_again_is_not_replied_to_again(scene):
    """A ledger that was set back, by a repair or an outage, brings back status comments alone."""
    verified(replying(scene))
    scene.tracker.comments.clear()
    scene.deliveries.save(1, replace(scene.deliveries.load(1), sequence=0))
    deliver(scene.app, scene.world, 1)
    assert scene.comments() == []


def test_a_reply_does_not_break_the_chain_of_digests(scene):
    verified(replying(scene))
    step(scene, finalize)
    assert digest_chain(scene.records()) == ()
