"""The cursor of effects done, `.mino/deliveries/issue-{N}` (ruling R9)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pydantic import Field

from irontree.domain.values import Value
from irontree.errors import LogDamaged
from irontree.ports import DeliveryCursor
from irontree.store.codec import EVENT_BYTES
from irontree.store.documents import decode_value, encode_value
from irontree.store.files import read_bytes, replace
from irontree.store.layout import Layout


class _CursorFile(Value):
    sequence: int = Field(ge=0)
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    replied: int = Field(default=0, ge=0)
    closed: bool = False
    text: str = ""
    noticed: tuple[str, ...] = ()
    halt_told: str = ""
    ready: str = ""
    withdrawn: str = ""
    settled: tuple[str, ...] = ()
    voted_on: str = ""
    voters: tuple[str, ...] = ()


class FileDeliveries:
    """The port `Deliveries` on the files of one repository; *root* is its main worktree."""

    def __init__(self, root: Path) -> None:
        self._layout = Layout(root)

    def load(self, issue_number: int) -> DeliveryCursor:
        """The cursor; at 0 for an issue never delivered, and when the file is damaged.

        It is not synced, so a power loss may damage it. Delivering again is safe: effects are idempotent.
        """
        path = self._layout.delivery(issue_number)
        data = read_bytes(path, EVENT_BYTES)
        if data is None:
            return DeliveryCursor()
        try:
            found = decode_value(_CursorFile, data, self._layout.shown(path), limit=EVENT_BYTES, remedy="")
        except LogDamaged:
            return DeliveryCursor()
        return DeliveryCursor(**dict(found))

    def save(self, issue_number: int, cursor: DeliveryCursor) -> None:
        """Store the cursor."""
        replace(self._layout.delivery(issue_number), encode_value(_CursorFile(**asdict(cursor))))
