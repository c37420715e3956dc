"""Where everything stands under `.mino/` (docs/protocol.md, files on disk), and its creation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from irontree.files import Disk

STATE_FOLDER = ".mino"
# Nothing but the configuration is ever committed.
GITIGNORE = "*\n!config.yml\n!.gitignore\n"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one repository's state; *root* is its main worktree. Asking for a path creates nothing."""

    root: Path

    @property
    def state(self) -> Path:
        """The state folder itself."""
        return self.root / STATE_FOLDER

    @property
    def config(self) -> Path:
        """The configuration, the one file under version control."""
        return self.state / "config.yml"

    @property
    def plans(self) -> Path:
        """Approved plans, `{revision}.yml`."""
        return self.state / "plans"

    @property
    def events(self) -> Path:
        """A folder `issue-{N}` per stream."""
        return self.state / "events"

    def stream(self, issue_number: int) -> Path:
        """The folder of one issue's events."""
        return self.events / f"issue-{issue_number}"

    @property
    def archive(self) -> Path:
        """Streams of revisions that are no longer in force."""
        return self.state / "archive"

    def brief(self, issue_number: int) -> Path:
        """The brief of one issue."""
        return self.state / "briefs" / f"issue-{issue_number}.md"

    def reports(self, issue_number: int) -> Path:
        """The folder of one issue's report and check results."""
        return self.state / "reports" / f"issue-{issue_number}"

    @property
    def mirrored(self) -> Path:
        """What Prefect was told of; losing it loses nothing."""
        return self.state / ".mirrored"

    def delivery(self, issue_number: int) -> Path:
        """The ledger of effects done for one issue."""
        return self.state / "deliveries" / f"issue-{issue_number}"

    @property
    def run_lock(self) -> Path:
        """Who runs, for people and other tools."""
        return self.state / "run.lock"

    @property
    def loops(self) -> Path:
        """Loop entities `{loop_id}.yml` and a folder per loop."""
        return self.state / "loops"

    def loop(self, loop_id: str) -> Path:
        """The entity file of one loop."""
        return self.loops / f"{loop_id}.yml"

    @property
    def active_lock(self) -> Path:
        """Which loop is active, for people and other tools."""
        return self.loops / "active.lock"

    @property
    def append_lock(self) -> Path:
        """Held for the instant of an append (R2)."""
        return self.state / ".append"

    @property
    def driver_lock(self) -> Path:
        """Held by the process that changes git, a workspace or the forge (R3)."""
        return self.state / ".driver"

    @property
    def lease_lock(self) -> Path:
        """Held by the active loop (R3)."""
        return self.loops / ".lease"

    def alive(self, run_id: str) -> Path:
        """Held by the process of that flow run as long as it lives."""
        return self.state / ".runs" / run_id

    @property
    def cache(self) -> Path:
        """The folder of caches, which can be rebuilt from the log at any time."""
        return self.state / ".cache"

    def shown(self, path: Path) -> str:
        """*path* as people read it: relative to the repository, with `/`."""
        return path.relative_to(self.root).as_posix()


def create(root: Path, disk: Disk | None = None) -> Layout:
    """Create `.mino/` with its `.gitignore` in the main worktree *root*; leave what is there as it is."""
    layout = Layout(root)
    ignore = layout.state / ".gitignore"
    if not ignore.exists():
        (disk or Disk()).write_durably(ignore, GITIGNORE.encode())
    return layout
