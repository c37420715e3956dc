"""What members of the team are asked, and the standing approval of it, in `.mino/agent-requests/`, each file sealed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from irontree.domain.agent_requests import KEY, AskedAgent, StandingApproval
from irontree.domain.spec import MAX_BYTES
from irontree.domain.values import Value
from irontree.errors import LogDamaged
from irontree.files import Disk, read_bytes
from irontree.store.documents import FileResultStore
from irontree.store.layout import Layout
from irontree.store.sealing import V, is_sealed, not_ours, sealed, unsealed, whole_key

REQUEST_BYTES: Final = 16 * 1024 * 1024
"""A comment can be as long as its forge takes it."""
_REMEDY: Final = "find out who wrote it; if you know that nobody else did: `irontree audit --vouch`"
_UNREADABLE: Final = "put the file right, or move it away: what was asked may then be asked again"
_APPROVE: Final = "read the settings, and approve them here: `irontree toolchain approve`"


class FileAgentRequests:
    """The port `AgentRequests` on files, sealed with the key of check results (R18).

    No version wrote them without a seal, so what has none is never believed.
    """

    def __init__(self, root: Path, key: Path, disk: Disk | None = None) -> None:
        self._layout = Layout(root)
        self._disk = disk or Disk()
        self._key = key
        self._begin_sealing = FileResultStore(root, key, disk).begin_sealing

    def keys(self) -> tuple[str, ...]:
        """The keys of all requests, sorted, whether they can be read or not."""
        return tuple(
            sorted(path.stem for path in self._layout.agent_requests.glob("*.yml") if KEY.fullmatch(path.stem))
        )

    def load(self, key: str) -> AskedAgent | None:
        """The request; None if there is none. Raises LogDamaged, also for the file of another one."""
        return self._ours(self._unsealed_request(key), self._path(key), _REMEDY) if KEY.fullmatch(key) else None

    def save(self, request: AskedAgent) -> None:
        """Write the request durably, in place of what it was before."""
        self._put(self._path(request.key), request)

    def vouch(self) -> int:
        """Seal all requests that are there, whoever wrote them; how many. The standing approval is not among them."""
        vouched = 0
        for key in self.keys():
            with suppress(LogDamaged):
                if found := self._unsealed_request(key):
                    self.save(found[0])
                    vouched += 1
        return vouched

    def draft(self, issue_number: int) -> str | None:
        """The document that divides that issue by what members claim; None if there is none."""
        data = read_bytes(self._draft(issue_number), MAX_BYTES)
        return data.decode("utf-8", "replace") if data else None

    def save_draft(self, issue_number: int, text: str) -> None:
        """Write that document durably, in place of an earlier one; an empty one is none."""
        self._disk.write_durably(self._draft(issue_number), text.encode())

    def draft_path(self, issue_number: int) -> str:
        """Where it is, as `.mino/…`."""
        return self._layout.shown(self._draft(issue_number))

    def _draft(self, issue_number: int) -> Path:
        return self._layout.drafts / f"issue-{issue_number}.md"

    def standing(self) -> StandingApproval | None:
        """The standing approval; None if nobody gave one. Raises LogDamaged."""
        path = self._layout.standing_approval
        return self._ours(self._unsealed(StandingApproval, path, _APPROVE), path, _APPROVE)

    def approve(self, standing: StandingApproval) -> None:
        """Write the standing approval durably, in place of an earlier one."""
        self._put(self._layout.standing_approval, standing)

    def _path(self, key: str) -> Path:
        return self._layout.agent_requests / f"{key}.yml"

    def _put(self, path: Path, value: Value) -> None:
        self._disk.write_durably(path, sealed(value, self._begin_sealing()))

    def _unsealed_request(self, key: str) -> tuple[AskedAgent, str] | None:
        path = self._path(key)
        found = self._unsealed(AskedAgent, path, _UNREADABLE)
        if found and found[0].key != key:
            raise LogDamaged(f"{self._layout.shown(path)} is the request {found[0].key}", remedy=_REMEDY)
        return found

    def _unsealed(self, model: type[V], path: Path, remedy: str) -> tuple[V, str] | None:
        data = read_bytes(path, REQUEST_BYTES)
        shown = self._layout.shown(path)
        return None if data is None else unsealed(model, data, shown, limit=REQUEST_BYTES, remedy=remedy)

    def _ours(self, found: tuple[V, str] | None, path: Path, remedy: str) -> V | None:
        """The value, if it carries our seal."""
        if found is None:
            return None
        key = whole_key(self._key)
        if key is None or not is_sealed(*found, key):
            raise not_ours(self._layout.shown(path), remedy)
        return found[0]
