"""The boxes of a workflow file: ticked for the steps that are done, one character each (docs/hotl.md)."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from irontree.domain.ids import normalize
from irontree.domain.workflow.compile import unticked
from irontree.domain.workflow.reading import BOX_COLUMN, read


class Ticked(NamedTuple):
    """The text with its boxes as they must be, and the steps whose box had a tick without being done."""

    text: str
    set_back: tuple[int, ...]


def with_boxes(text: str, source: str, done: Collection[int]) -> Ticked | None:
    """*text* with a tick for each step that is *done*; None if the rest of it is not the approved *source* any more."""
    written = read(text)
    if normalize(unticked(written)) != source:
        return None
    pieces = re.split("(\r\n|\r|\n)", text)
    set_back = []
    for step in written.steps:
        at = 2 * step.line  # line ends stand between the lines
        if step.ticked is None or step.ticked == (step.number in done):
            continue
        sign = " " if step.ticked else "x"
        pieces[at] = f"{pieces[at][:BOX_COLUMN]}{sign}{pieces[at][BOX_COLUMN + 1 :]}"
        if step.ticked:
            set_back.append(step.number)
    return Ticked("".join(pieces), tuple(set_back))
