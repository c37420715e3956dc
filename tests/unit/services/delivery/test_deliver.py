"""The forge follows the log: labels, comments, closing (R9, R10, R12, R16)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from irontree.agents.scripted import ScriptedAgent
from irontree.app import Preferences
from irontree.domain.commands import parse_command
from irontree.domain.comments import marked_problems, status_problems, told_part
from irontree.domain.decide import Finalize, Run
from irontree.domain.events import SequenceGapDetected
from irontree.errors import ConfigRefused
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.consistency.reconcile import reconcile
from irontree.services.delivery.comments import comment_marker
from irontree.services.delivery.deliver import deliver
from irontree.services.execution.checkup import Decider, accept, finalize
from irontree.services.execution.run import run
from irontree.services.execution.steps import perform
from irontree.services.execution.verify import verify
from irontree.services.record import closed_by_users
from tests.support.watching import Killed, Watched, dying
from tests.support.world import GREETING, MANUAL_TASK, ONE_TASK, Scene, does, ends

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def step(scene: Scene, action, *arguments):
    state = action(scene.app, 1, *arguments)
    deliver(scene.app, scene.world, 1)
    return state


def verified(scene: Scene, text: str = ONE_TASK) -> Scene:
    scene.publish(text)
    step(scene, run)
    step(scene, verify)
    return scene


# --- labels (R16) --------------------------------------------------------------------------------------


def test_labels_are_a_function_of_the_state(scene):
    scene.publish(MANUAL_TASK)
    seen = [scene.labels()]
    for action in (run, verify):
        step(scene, action)
        seen.append(scene.labels())
    step(scene, accept, Decider("ada"))
    seen.append(scene.labels())
    step(scene, finalize)
    seen.append(scene.labels())
    assert [labels - {"enhancement"} for labels in seen] == [
        {"stage:task"},
        {"stage:verify"},
        {"stage:verify", "pending-acceptance"},
        {"stage:done"},
        {"stage:done"},
    ]


def test_the_labels_of_a_new_issue_come_with_it(scene):
    sent: list[str] = []
    scene.forge_seen = Watched(scene.forge_seen, ["set_labels"], lambda label, side: sent.append(f"{label} {side}"))
    scene.publish(ONE_TASK)
    assert (scene.labels(), sent) == ({"enhancement", "stage:task"}, [])
    step(scene, run)
    assert (scene.labels(), sent) == ({"enhancement", "stage:verify"}, ["set_labels before", "set_labels after"])


class DropsLabels:
    """A forge that makes issues without labels: Gitea passes over ids that it does not know."""

    def __init__(self, forge) -> None:
        self._forge = forge

    def __getattr__(self, name: str):
        return getattr(self._forge, name)

    def create_issue(self, title: str, body: str, _):
        return self._forge.create_issue(title, body)


def test_labels_that_a_new_issue_did_not_get_are_set_afterwards(scene):
    scene.forge_seen = DropsLabels(scene.forge_seen)
    scene.publish(ONE_TASK)
    assert scene.labels() == {"stage:task"}


def test_labels_of_people_stay(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.set_labels(1, add=["good first issue"])
    step(scene, run)
    assert "good first issue" in scene.labels()


def test_all_seven_labels_exist_after_the_first_delivery(scene):
    scene.publish(ONE_TASK)
    assert len(scene.tracker.labels) == 7


def test_every_label_says_what_it_means_as_long_as_a_forge_takes_it(scene):
    """GitHub takes a hundred characters."""
    scene.publish(ONE_TASK)
    assert all(0 < len(label.description) <= 100 for label in scene.tracker.labels.values())


def test_labels_that_an_outage_kept_from_being_made_are_made_later(scene):
    scene.publish(ONE_TASK)
    scene.tracker.labels.clear()
    scene.deliveries._ledgers.clear()
    scene.tracker.outage = "503"
    assert deliver(scene.app, scene.world, 1).failures
    scene.tracker.outage = None
    deliver(scene.app, scene.world, 1)
    assert len(scene.tracker.labels) == 7


# --- comments ------------------------------------------------------------------------------------------


def test_an_audible_event_posts_one_comment_with_its_marker(scene):
    verified(scene, MANUAL_TASK)
    assert len(scene.comments()) == 1
    assert comment_marker(1, scene.last()) in scene.comments()[0]
    deliver(scene.app, scene.world, 1)
    assert len(scene.comments()) == 1


def test_a_comment_about_a_failure_names_the_check_that_failed(scene):
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    verified(scene)
    assert "\nReason: `has greet.txt hello` fails: criterion: has greet.txt hello\n" in scene.comments()[0]


def test_silent_events_post_none(scene):
    verified(scene)
    step(scene, finalize)
    assert scene.comments() == []


def test_a_marker_tells_neither_event_nor_hash(scene):
    verified(scene, MANUAL_TASK)
    token = comment_marker(1, scene.last()).split(":")[-1].removesuffix(" -->")
    assert "pending" not in token
    assert not all(letter in "0123456789abcdef" for letter in token)


def test_somebody_elses_comment_with_our_marker_does_not_count(scene):
    scene.publish(MANUAL_TASK)
    step(scene, run)
    verify(scene.app, 1)
    scene.forge("mallory").post_comment(1, comment_marker(1, scene.last()))
    deliver(scene.app, scene.world, 1)
    assert len(scene.comments()) == 2


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("port", "method"), [("forge_seen", "post_comment"), ("forge_seen", "set_labels"), ("deliveries", "save")]
)
def test_a_crash_in_between_posts_nothing_twice_and_nothing_never(scene, port, method, side):
    scene.publish(MANUAL_TASK)
    step(scene, run)
    verify(scene.app, 1)
    setattr(scene, port, Watched(getattr(scene, port), [method], dying(side)))
    with pytest.raises(Killed):
        deliver(scene.app, scene.world, 1)
    deliver(scene.app, scene.world, 1)
    assert len(scene.comments()) == 1
    assert "pending-acceptance" in scene.labels()
    assert scene.deliveries.load(1).sequence == 4


def test_of_a_row_that_costs_nothing_only_the_first_is_told_and_then_the_question(scene):
    """R12"""
    scene.publish(ONE_TASK)
    scene.repository.hook = lambda _: "no"
    scene.agent = ScriptedAgent(lambda task: does(greet_txt=task.transcript.name)(task))
    for _ in range(4):
        step(scene, run)
    assert scene.events()[-1] == "checkup_preflight_blocked"
    assert [body.splitlines()[0].split(" — ")[0] for body in scene.comments()] == [
        *("⚠️ run commit failed", "⚠️ The commit is refused"),
    ], "the person who must act is told"


def test_after_an_answer_a_new_row_is_told_again(scene):
    scene.publish(ONE_TASK)
    scene.repository.hook = lambda _: "no"
    step(scene, run)
    step(scene, run)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    step(scene, run)
    assert sum("commit failed" in body for body in scene.comments()) == 2


def test_another_kind_of_refusal_in_a_row_is_told(scene):
    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(ends("exited", 1), does(greet_txt="hello"))
    scene.repository.hook = lambda _: "no"
    step(scene, run)
    step(scene, run)
    assert scene.events()[-1] == "run_commit_failed"
    assert len(scene.comments()) == 1


def test_a_gap_event_is_told_although_it_stands_behind_the_gap(scene):
    """R13"""
    verified(scene)
    del scene.log.files(1).files["0002-run-started.yml"]
    reconcile(scene.app)
    assert isinstance(scene.last().event, SequenceGapDetected)
    assert len(scene.comments()) == 1
    assert "sequence gap" in scene.comments()[0]


def asking(scene: Scene, changed: str) -> str:
    """The comment that asks for the acceptance of a task whose agent wrote that."""
    scene.agent = ScriptedAgent(does(greet_txt=changed))
    verified(scene, MANUAL_TASK)
    (comment,) = scene.comments()
    assert marked_problems(comment) == ()
    return comment


def test_who_has_only_the_forge_sees_what_is_to_be_accepted(scene):
    """R14: the commit, the files with their counts, the change, and what the checks said at that commit."""
    comment = asking(scene, "hello\n")
    assert f"Commit `{scene.state().commit}`, which is published to `main` once it is accepted" in comment
    assert "| criterion | `has greet.txt hello` | passed, exit code 0 |" in comment
    assert "- `greet.txt` +1 -0\n" in comment
    assert "<details>\n<summary>The change</summary>\n\n```diff\n" in comment
    assert "\n+hello\n```\n\n</details>\n" in comment


def test_a_long_change_is_cut_and_the_command_that_shows_all_is_named(scene):
    comment = asking(scene, "hello\n" * 500)
    shown = comment.count("\n+hello")
    assert 100 < shown < 250
    assert f"{500 - shown} more lines: `irontree show issue-1 --diff` shows all." in comment


def test_a_change_whose_lines_are_long_is_cut_too(scene):
    comment = asking(scene, "hello " + "x" * 200_000)
    assert len(comment) < 10_000
    assert "more line" in comment


@pytest.mark.parametrize("end", ["\n", "\r", "\x0b", "\x0c", "\x85", "\u2028"])
def test_nothing_in_a_change_takes_effect_or_is_taken_for_ours(scene, end):
    """Neither markup nor a fence, an event, a command, or the marker of another comment of ours."""
    event = f"```yaml{end}iron_tree:{end}  event: checkup_done{end}```"
    parts = ("hello", "```", event, "</details>", "/accept", "<!-- irontree:1:mfrggzdfmztwq2lk -->", SECRET)
    comment = asking(scene, end.join(parts))
    assert parse_command(told_part(comment)) is None
    assert not [line for line in comment.splitlines() if line.startswith(("/accept", "iron_tree", "```yaml"))]
    assert comment.count("<!--") == 1
    assert SECRET not in comment
    assert scene.log.read_text(comment, "here", 1).records == ()
    tokens = MarkdownIt("commonmark").enable("table").parse(comment)
    html = [line for token in tokens if token.type == "html_block" for line in token.content.splitlines()]
    assert html[:2] + html[-2:-1] == ["<details>", "<summary>The change</summary>", "</details>"]
    assert len(html) == 4


# --- failures ------------------------------------------------------------------------------------------


def test_a_failure_is_kept_shown_and_tried_again(scene):
    scene.publish(MANUAL_TASK)
    step(scene, run)
    verify(scene.app, 1)
    scene.tracker.outage = "503 from the forge"
    ledger = deliver(scene.app, scene.world, 1)
    said = [f"{what}: 503 from the forge" for what in ("comment_post_failed", "stage_label_sync_failed")]
    assert (ledger.sequence, list(ledger.failures)) == (3, said)
    assert scene.deliveries.load(1) == ledger
    scene.tracker.outage = None
    assert deliver(scene.app, scene.world, 1).failures == ()
    assert len(scene.comments()) == 1
    assert "pending-acceptance" in scene.labels()


def test_an_outage_of_the_forge_never_stops_the_work(scene):
    loop = scene.start(ONE_TASK)
    scene.tracker.outage = "503"
    assert scene.drive(loop).reason == "goal_reached"
    assert scene.tracker.issues[1].state == "open"
    scene.tracker.outage = None
    reconcile(scene.app)
    assert scene.tracker.issues[1].state == "closed"
    assert scene.labels() == {"enhancement", "stage:done"}


def test_an_issue_without_events_has_nothing_to_deliver(scene):
    assert deliver(scene.app, scene.world, 7).sequence == 0


def test_what_is_delivered_is_not_looked_at_again(scene):
    verified(scene)
    scene.tracker.outage = "nobody should ask"
    assert deliver(scene.app, scene.world, 1).failures == ()


# --- closing -------------------------------------------------------------------------------------------


def done(scene: Scene, text: str = ONE_TASK) -> Scene:
    verified(scene, text)
    step(scene, finalize)
    return scene


def test_a_finished_feature_is_closed(scene):
    assert done(scene).tracker.issues[1].state == "closed"


def test_a_finished_bug_is_left_to_a_person(scene):
    done(scene, ONE_TASK.replace("## Greeting\n", "## Greeting\n\nType: bug\n"))
    assert scene.tracker.issues[1].state == "open"
    assert "bug" in scene.labels()


@pytest.mark.parametrize(("setting", "state"), [("auto", "closed"), ("manual", "open")])
def test_the_configuration_has_the_last_word(scene, setting, state):
    """TC-4.4"""
    scene.preferences = Preferences(close_on_done=setting)
    assert done(scene).tracker.issues[1].state == state


@pytest.mark.parametrize(("setting", "left"), [("auto", ()), ("manual", (1,))])
def test_what_is_done_and_left_for_a_person_to_close_can_be_named(scene, setting, left):
    scene.preferences = Preferences(close_on_done=setting)
    before = verified(scene).app
    assert closed_by_users(before, scene.world, {"greeting"}) == ()
    step(scene, finalize)
    assert closed_by_users(scene.app, scene.world, {"greeting"}) == left
    assert closed_by_users(scene.app, scene.world, {"another"}) == ()


def test_an_issue_that_a_person_opened_again_is_left_open(scene):
    done(scene)
    scene.forge_seen.edit_issue(1, state="open")
    deliver(scene.app, scene.world, 1)
    assert scene.tracker.issues[1].state == "open"


def test_an_unfinished_issue_is_never_closed(scene):
    verified(scene)
    assert scene.tracker.issues[1].state == "open"


def test_going_on_after_somebody_closed_it_opens_it_again(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.edit_issue(1, state="closed")
    reconcile(scene.app)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    assert scene.tracker.issues[1].state == "open"
    assert reconcile(scene.app).outside == ()
    assert run(scene.app, 1).last_event == "run_completed"


def test_an_issue_that_could_not_be_opened_when_the_work_went_on_is_opened_later(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.edit_issue(1, state="closed")
    reconcile(scene.app)
    scene.tracker.outage = "503"
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    step(scene, run)
    scene.tracker.outage = None
    deliver(scene.app, scene.world, 1)
    assert scene.tracker.issues[1].state == "open"
    assert reconcile(scene.app).outside == ()
    assert len(scene.comments()) == len(set(scene.comments())), "nothing is posted twice"


def test_an_issue_that_is_closed_once_more_is_asked_about_once_more(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.edit_issue(1, state="closed")
    reconcile(scene.app)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    step(scene, run)
    scene.forge_seen.edit_issue(1, state="closed")
    step(scene, verify)
    assert [change.where for change in reconcile(scene.app).outside] == ["issue-1"]
    assert scene.tracker.issues[1].state == "closed"


def test_a_finished_issue_that_could_not_be_opened_in_time_stays_closed(scene):
    scene.publish(ONE_TASK)
    scene.forge_seen.edit_issue(1, state="closed")
    reconcile(scene.app)
    scene.tracker.outage = "503"
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    for action in (run, verify, finalize):
        step(scene, action)
    scene.tracker.outage = None
    assert deliver(scene.app, scene.world, 1).failures == ()
    assert scene.tracker.issues[1].state == "closed"


class Edited:
    """What the configuration gives, until somebody who edits it has it broken."""

    def __init__(self, found) -> None:
        self.broken = False
        self._found = found

    def __call__(self):
        if self.broken:
            raise ConfigRefused("forge.kind: nothing is called that")
        return self._found


def test_a_configuration_that_is_broken_in_mid_attempt_does_not_stop_the_work(scene):
    """R9: what follows from an event never does."""
    scene.publish(ONE_TASK)
    forge = Edited(scene.forge_seen)

    def breaks_it(task):
        forge.broken = True
        does(greet_txt="hello")(task)

    scene.agent = ScriptedAgent(breaks_it)
    app = replace(scene.app, forge=forge)
    assert perform(app, Run(GREETING)).last_event == "run_completed"
    assert "stage_label_sync_failed: forge.kind: nothing is called that" in scene.deliveries.load(1).failures
    forge.broken = False
    assert deliver(app, scene.world, 1).failures == ()


def test_without_a_readable_configuration_work_is_finished_and_the_issue_is_closed_later(scene):
    verified(scene)
    preferences = Edited(scene.preferences)
    preferences.broken = True
    app = replace(scene.app, preferences=preferences)
    assert perform(app, Finalize(GREETING)).done
    assert scene.tracker.issues[1].state == "open"
    preferences.broken = False
    assert deliver(app, scene.world, 1).failures == ()
    assert scene.tracker.issues[1].state == "closed"


# --- what a comment must not hold (R10) -----------------------------------------------------------------


def test_a_comment_that_may_not_be_posted_as_it_is_says_what_its_template_says(scene):
    class Careless:
        """A renderer whose reasons are not made harmless."""

        def render(self, template, **values):
            view = values.get("comment")
            spoilt = f"\n\nReason: see .mino/events of {'a1' * 20}" if view and view.reason else ""
            return scene_renderer.render(template, **values) + spoilt

    scene_renderer = scene.renderer
    scene.agent = ScriptedAgent(does(greet_txt="nothing"))
    scene.publish(ONE_TASK)
    scene.renderer = Careless()
    scene.policy = scene.policy.model_copy(update={"max_retry_count": 1})
    step(scene, run)
    assert scene.comments(), "a changed configuration is told"
    assert all(status_problems(body) == () for body in scene.comments())
