"""A delivery that is killed and done again leaves each of its comments once (R9)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.app import Preferences
from irontree.services.delivery.deliver import deliver
from irontree.services.execution.checkup import Decider, accept, finalize
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from tests.support.watching import Killed, Watched, dying, dying_at
from tests.support.world import MANUAL_TASK, Scene, does


def step(scene: Scene, action, *arguments):
    action(scene.app, 1, *arguments)
    deliver(scene.app, scene.world, 1)


def asks_acceptance(scene: Scene) -> None:
    """Due are a status comment and a reply."""
    scene.publish(MANUAL_TASK)
    step(scene, run)
    verify(scene.app, 1)


def failed_before(scene: Scene) -> None:
    """Due are two status comments and a reply."""
    scene.agent = ScriptedAgent(does(greet_txt="bye"), does(greet_txt="hello"))
    scene.publish(MANUAL_TASK)
    step(scene, run)
    for action in (verify, run, verify):
        action(scene.app, 1)


def ends_unseen(scene: Scene) -> None:
    """Due are a status comment and the last word, of two events."""
    asks_acceptance(scene)
    accept(scene.app, 1, Decider("ada"))
    finalize(scene.app, 1)


class LosesAnswer:
    """The answer to that post (from 1) is lost, and the process dies before it can note anything."""

    def __init__(self, scene: Scene, number: int) -> None:
        self._scene, self._left = scene, number

    def posting(self, _: str, side: str) -> None:
        self._left -= side == "before"
        self._scene.tracker.lost_answers = int(self._left == 0 and side == "before")

    def saving(self, *_: str) -> None:
        if self._left <= 0:
            raise Killed


@pytest.mark.parametrize("way", ["before", "after", "answer lost"])
@pytest.mark.parametrize(
    ("due", "posts", "post"),
    [(due, n, post) for due, n in ((asks_acceptance, 2), (failed_before, 3), (ends_unseen, 2)) for post in range(n)],
)
def test_each_comment_of_a_delivery_that_was_cut_off_is_there_once(scene, due, posts, post, way):
    """Killed around any post, or after its answer was lost and before that could be noted; then again, as the first."""
    scene.preferences = Preferences(reply="always")
    due(scene)
    seen, ledgers = scene.forge_seen, scene.deliveries
    for number in (post + 1, 1):
        if way == "answer lost":
            losing = LosesAnswer(scene, number)
            scene.forge_seen = Watched(seen, ["post_comment"], losing.posting)
            scene.deliveries = Watched(ledgers, ["save"], losing.saving)
        else:
            scene.forge_seen = Watched(seen, ["post_comment"], dying_at(way, number))
        with suppress(Killed):
            deliver(scene.app, scene.world, 1)
    scene.forge_seen, scene.deliveries = seen, ledgers
    assert deliver(scene.app, scene.world, 1).failures == ()
    markers = [body.strip().splitlines()[-1] for body in scene.comments()]
    assert (len(markers), len(set(markers))) == (posts, posts)


def test_what_a_delivery_has_caught_up_with_is_not_looked_for_later(scene):
    asks_acceptance(scene)
    seen, asked = scene.forge_seen, []
    scene.forge_seen = Watched(seen, ["post_comment"], dying("after"))
    with pytest.raises(Killed):
        deliver(scene.app, scene.world, 1)
    scene.forge_seen = Watched(seen, ["comments"], lambda name, _: asked.append(name))
    deliver(scene.app, scene.world, 1)
    looked = len(asked)
    assert looked
    step(scene, accept, Decider("ada"))
    step(scene, finalize)
    assert (len(scene.comments()), len(asked)) == (2, looked)
