"""An issue without events here gets them from its comments, as older tools left them (protocol, Source Of Truth)."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.domain.events import IssueEvent, Record
from irontree.domain.state import Phase
from irontree.services.consistency.reconcile import reconcile, restore
from irontree.store.codec import write_mapping
from tests.support.world import MANUAL_TASK, ONE_TASK, Scene, accepts, make_scene, prepared


def block(event: IssueEvent, **changes: object) -> str:
    """An event as tools before 1.12 wrote it into a comment."""
    yaml = write_mapping({"iron_tree": event.model_dump(mode="json") | changes})
    return f"```yaml\n{yaml}```\n"


@pytest.fixture
def history(tmp_path: Path) -> list[IssueEvent]:
    """The events of a finished issue, from another time."""
    scene = make_scene(tmp_path / "earlier")
    scene.drive(scene.start(MANUAL_TASK), prepared(accepts("fine")))
    return [record.event for record in scene.records()]


@pytest.fixture
def issue(scene: Scene) -> Scene:
    """An issue on the forge of which nothing is known here."""
    scene.forge_seen.create_issue("Greeting", "Say hello", ["stage:verify"])
    return scene


def say(scene: Scene, *texts: str, account: str = "us") -> None:
    for text in texts:
        scene.forge(account).post_comment(1, text)


def summary(events: list[IssueEvent]) -> str:
    dump = "\n".join(f"--- sequence {event.sequence} · {event.event} ---\n{block(event)}" for event in events)
    return f"✅ done — #1\n\n<details>\n\n{dump}\n</details>\n"


def read(scene: Scene) -> list[IssueEvent]:
    return [record.event for record in scene.log.read(1).records]


def test_the_local_log_is_the_first_source_and_comments_are_not_even_read(scene, history):
    scene.publish(ONE_TASK)
    say(scene, *map(block, history))
    found = restore(scene.app, 1)
    assert (found.source, found.events, found.is_local, found.sound) == ("local events", 1, True, True)
    assert [event.event for event in read(scene)] == ["task_published"]


def test_the_comment_of_a_finished_issue_restores_it_whole(issue, history):
    say(issue, "I like it", summary(history))
    found = restore(issue.app, 1)
    assert (found.source, found.events, found.missing) == ("summary comment", len(history), ())
    assert read(issue) == history
    assert issue.log.read(1).replayed().state.done


def test_the_comments_of_the_events_restore_an_issue_whatever_their_order(issue, history):
    say(issue, *(f"Some words.\n\n{block(event)}" for event in reversed(history[:3])))
    found = restore(issue.app, 1)
    assert (found.source, found.events, found.sound) == ("event comments", 3, True)
    assert read(issue) == history[:3]
    assert issue.log.read(1).replayed().state.phase is Phase.COMMITTED


def test_event_comments_count_only_where_there_is_no_summary(issue, history):
    more = history[-1].model_copy(update={"sequence": len(history) + 1})
    say(issue, summary(history), block(more))
    assert restore(issue.app, 1).source == "summary comment"
    assert read(issue) == history


def test_sources_that_contradict_each_other_are_a_gap_and_a_question(issue, history):
    other = history[2].model_copy(update={"code_ref": "f" * 40})
    say(issue, summary(history), block(other))
    found = restore(issue.app, 1)
    assert (found.diverging, found.missing, found.sound) == ((3,), (3,), False)
    gap = read(issue)[-1]
    assert (gap.event, gap.missing_sequences, gap.highest_replayable_sequence) == (
        *("checkup_reconcile_sequence_gap_detected", (3,), 2),
    )
    assert issue.log.read(1).replayed().state.phase is Phase.BLOCKED


def test_what_is_missing_in_the_comments_is_a_gap(issue, history):
    """Sequences 1, 3, 4: replayed as far as 1."""
    say(issue, *(block(history[index]) for index in (0, 2, 3)))
    assert restore(issue.app, 1).missing == (2,)
    gap = read(issue)[-1]
    assert (gap.sequence, gap.found_sequences, gap.missing_sequences, gap.highest_replayable_sequence) == (
        *(5, (1, 3, 4), (2,), 1),
    )


def test_an_event_that_may_not_stand_where_it_does_is_not_written(issue, history):
    illegal = history[4].model_copy(update={"sequence": 3})
    say(issue, *map(block, [*history[:2], illegal]))
    assert restore(issue.app, 1).missing == (3,)
    assert [event.event for event in read(issue)[:-1]] == ["task_published", "run_started"]


def test_only_people_with_write_access_are_believed(issue, history):
    say(issue, *map(block, history), account="mallory")
    found = restore(issue.app, 1)
    assert (found.events, found.distrusted, issue.log.streams()) == (0, len(history), ())


def test_a_stranger_s_comment_does_not_even_contradict_ours(issue, history):
    say(issue, *map(block, history[:3]))
    say(issue, block(history[1], attempt_count="9"), account="mallory")
    assert restore(issue.app, 1).sound


def test_what_a_newer_version_wrote_restores_nothing_and_says_upgrade(issue, history):
    say(issue, *map(block, history[:2]), block(history[2], version="2"))
    found = restore(issue.app, 1)
    assert (found.events, issue.log.streams()) == (0, ())
    assert "upgrade irontree" in found.problems[0].what


def test_blocks_that_cannot_be_used_are_named_with_their_comment(issue, history):
    say(issue, block(history[0]), block(history[1], issue_number="2"), "```yaml\niron_tree: [\n```\n")
    found = restore(issue.app, 1)
    assert [problem.path for problem in found.problems] == ["memory:issue-1#2", "memory:issue-1#3"]
    assert "speaks of issue 2" in found.problems[0].what


def test_without_the_first_event_nothing_is_restored(issue, history):
    say(issue, *map(block, history[1:3]))
    assert (restore(issue.app, 1).events, issue.log.streams()) == (0, ())


def test_reconcile_restores_open_issues_that_carry_our_labels_and_says_nothing_again_that_was_said(issue, history):
    say(issue, *map(block, history[:4]))
    before = len(issue.tracker.comments[1])
    [found] = reconcile(issue.app).restored
    assert (found.issue_number, found.events) == (1, 4)
    assert len(issue.tracker.comments[1]) == before
    assert [q.issue_number for q in reconcile(issue.app).pending_acceptance] == [1]
    assert reconcile(issue.app).restored == ()


def test_a_closed_issue_is_restored_when_it_is_asked_about(issue, history):
    issue.forge_seen.edit_issue(1, state="closed")
    say(issue, summary(history))
    assert reconcile(issue.app).restored == ()
    assert reconcile(issue.app, 1).restored[0].events == len(history)
    assert [one.is_local for one in reconcile(issue.app, 1).restored] == [True]


def test_each_restored_event_says_which_comment_it_is_from(issue, history):
    say(issue, *map(block, history[:2]))
    restore(issue.app, 1)
    records: tuple[Record[IssueEvent], ...] = issue.log.read(1).records
    assert [record.meta["restored_from"] for record in records] == ["memory:issue-1#1", "memory:issue-1#2"]
