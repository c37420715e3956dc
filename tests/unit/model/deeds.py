"""What somebody else does between two commands: on the forge, on the target branch, in the files under `.mino/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irontree.ports import Blocker
from tests.support.memory_project import push_from_elsewhere
from tests.unit.model.ending import SPOILT_CONTENTS, restore

Deed = Callable[[Any, int, int], None]
"""Is given the model and two numbers that say of what, and which."""


def close_or_open(model: Any, place: int, which: int) -> None:
    """Close an issue on the forge, or open it."""
    for number in model.some_number(place):
        model.scene.forge("eve").edit_issue(number, state=("open", "closed")[which % 2])


def relabel(model: Any, place: int, which: int) -> None:
    """Change an issue's labels."""
    for number in model.some_number(place):
        add = ["stage:done", "stage:run", "theirs"][which % 3]
        model.scene.forge("eve").set_labels(number, add=[add], remove=["stage:task"])
        model.ledger.relabelled[number] = model.scene.world.state(number).sequence


def retitle(model: Any, place: int, _: int) -> None:
    """Give an issue another title."""
    for number in model.some_number(place):
        model.scene.forge("eve").edit_issue(number, title="theirs")


def forget_what_was_delivered(model: Any, place: int, _: int) -> None:
    """Lose the cursor of an issue."""
    for number in model.some_number(place):
        model.scene.deliveries._ledgers.pop(number, None)


def lose_the_briefs(model: Any, *_: int) -> None:
    """Delete all briefs."""
    model.scene.projections.texts.clear()


def publish_elsewhere(model: Any, place: int, which: int) -> None:
    """Publish a file of their own, a target that is broken or whole again, a rival, or a conflict with a task."""
    keys = sorted(model.scene.world.states) or ["nothing"]
    key = keys[place % len(keys)]
    files = (
        ("elsewhere.txt", str(place)),
        ("broken", "yes"),
        ("broken", "no"),
        ("rival", key),
        (f"{key}.txt", "theirs"),
    )
    path, content = files[which % len(files)]
    push_from_elsewhere(model.scene.repository, {path: content.encode()})


def rewrite_the_target(model: Any, *_: int) -> None:
    """Take their last commit back, by force."""
    repository = model.scene.repository
    tip = repository.commits[repository.remote["main"]]
    if tip.message == "from elsewhere":
        repository.remote["main"] = tip.parents[0]


def leave_work_lying_about(model: Any, _: int, which: int) -> None:
    """Have a file in no commit, or not any more."""
    path = model.scene.root / "scratch.txt"
    path.unlink(missing_ok=True) if which % 2 else path.write_text("mine\n")


def lose_the_identity(model: Any, _: int, which: int) -> None:
    """Have git not know who commits, or know it again: no attempt can start meanwhile."""
    unknown = Blocker("missing-identity", "git does not know who commits", "git config user.name")
    model.scene.repository.blockers[:] = [] if which % 2 else [unknown]


def spoil_an_event(model: Any, place: int, which: int) -> None:
    """Delete an event file, or write something else into it."""
    for number in model.some_number(place):
        files = model.scene.log.files(number).files
        name, content = sorted(files)[-1 - which % len(files)], SPOILT_CONTENTS[(place + which) % len(SPOILT_CONTENTS)]
        model.ledger.damaged.add(number)
        model.spoilt.setdefault((number, len(model.scene.log.archives(number)), name), files[name])
        files[name] = content or b""
        if content is None:
            del files[name]


def restore_the_events(model: Any, *_: int) -> None:
    """Put back what was spoilt."""
    restore(model.scene, model.spoilt)


def lose_an_entity(model: Any, *_: int) -> None:
    """Lose the files of all loops; their events are not lost, but what they had used since the last of those."""
    model.scene.loops.entities.clear()
    model.ledger.loops.clear()


DEEDS: tuple[Deed, ...] = (
    close_or_open,
    relabel,
    retitle,
    forget_what_was_delivered,
    lose_the_briefs,
    publish_elsewhere,
    publish_elsewhere,
    rewrite_the_target,
    leave_work_lying_about,
    lose_the_identity,
    spoil_an_event,
    restore_the_events,
    lose_an_entity,
)
