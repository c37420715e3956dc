"""What others hear of: every event of every stream, once, whatever stream an issue has by now."""

from __future__ import annotations

from irontree.domain.decide import Run
from irontree.domain.events import ISSUE_EVENTS
from irontree.services.execution.steps import perform
from irontree.services.views.history import _ISSUE_WORDS, event_feed
from tests.support.world import GREETING, ONE_TASK, Scene

CHANGED = ONE_TASK.replace("it says hello `", "it says hello to all `")


def told(scene: Scene, known: dict[str, int]) -> list[tuple[str, int, str]]:
    """What is new beyond *known*, which remembers it."""
    found = list(event_feed(scene.app, known))
    known |= {one.place: one.sequence for one in found}
    return [(one.stream, one.sequence, one.event) for one in found]


def test_every_event_is_told_once(scene):
    known: dict[str, int] = {}
    loop = scene.start(ONE_TASK)
    assert told(scene, known) == [("issue.1", 1, "task_published"), (f"loop.{loop.id}", 1, "loop_started")]
    perform(scene.app, Run(GREETING), loop.id)
    assert told(scene, known) == [("issue.1", 2, "run_started"), ("issue.1", 3, "run_completed")]
    assert told(scene, known) == []


def test_each_event_of_an_issue_has_its_words():
    assert _ISSUE_WORDS.keys() == ISSUE_EVENTS.keys()


def test_the_events_of_an_issue_that_begins_again_are_told_as_well(scene):
    """R7: its new stream begins at sequence 1; what was told of the old one hides nothing."""
    known: dict[str, int] = {}
    scene.publish(ONE_TASK)
    perform(scene.app, Run(GREETING))
    told(scene, known)
    scene.publish(CHANGED)
    assert told(scene, known) == [("issue.1", 1, "task_published")]
    perform(scene.app, Run(GREETING))
    assert [event for _, _, event in told(scene, known)] == ["run_started", "run_completed"]


def test_what_was_told_by_the_issue_alone_is_not_told_again(scene):
    """An earlier version remembered it so, and most streams are their issue's first."""
    scene.publish(ONE_TASK)
    assert told(scene, {"issue.1": 1}) == []
