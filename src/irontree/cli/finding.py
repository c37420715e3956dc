"""Which issue somebody means, and which step of it."""

from __future__ import annotations

from irontree.domain.ids import typed_issue
from irontree.domain.meant import meant
from irontree.domain.state import TaskState
from irontree.errors import NotEligible
from irontree.services.world import World


def find_issue(world: World, text: str) -> TaskState:
    """The issue that `issue-12`, `#12`, `12` or a task key names; raises NotEligible if the log knows none."""
    return world.state(find_number(world, text))


def find_number(world: World, text: str) -> int:
    """Its number, even if nothing of its log can be read; raises NotEligible for a key that nobody has."""
    number = typed_issue(text)
    if number is not None:
        return number
    if text in world.states:
        return world.states[text].issue_number
    raise NotEligible(
        f"{text!r} is no issue (issue-12, #12, 12) and no task key here{meant(text, world.states)}",
        remedy="`irontree status` lists them",
    )
