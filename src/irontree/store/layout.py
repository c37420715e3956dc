"""Where everything stands under `.mino/` (docs/protocol.md, files on disk), and its creation."""

from __future__ import annotations

from pathlib import Path

from irontree.errors import EnvironmentRefused
from irontree.files import Disk

STATE_FOLDER = ".mino"
# Nothing but the configuration is ever committed.
GITIGNORE = "*\n!config.yml\n!.gitignore\n"


class Layout:
    """Paths of one repository's state; *root* is its main worktree. Asking for a path creates nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = state = root / STATE_FOLDER
        # The one file under version control.
        self.config = state / "config.yml"
        # Approved plans, `{revision}.yml`.
        self.plans = state / "plans"
        # A folder `issue-{N}` per stream.
        self.events = state / "events"
        # Streams of revisions that are no longer in force.
        self.archive = state / "archive"
        # What Prefect was told of; losing it loses nothing.
        self.mirrored = state / ".mirrored"
        # Who runs, for people and other tools.
        self.run_lock = state / "run.lock"
        # Loop entities `{loop_id}.yml` and a folder per loop; which loop is active, for people and other tools.
        self.loops = state / "loops"
        self.active_lock = self.loops / "active.lock"
        # What members of the team are asked, `{key}.yml`, and the standing approval of it: no key is a single word.
        self.agent_requests = state / "agent-requests"
        self.standing_approval = self.agent_requests / "approval.yml"
        # What their claims about an issue come to, a document that a person may approve.
        self.drafts = state / "drafts"
        # Held for the instant of an append (R2).
        self.append_lock = state / ".append"
        # Held by the process that changes git, a workspace or the forge (R3).
        self.driver_lock = state / ".driver"
        # Held by the active loop (R3).
        self.lease_lock = self.loops / ".lease"
        # Caches, which can be rebuilt from the log at any time.
        self.cache = state / ".cache"

    def stream(self, issue_number: int) -> Path:
        """The folder of one issue's events."""
        return self.events / f"issue-{issue_number}"

    def brief(self, issue_number: int) -> Path:
        """The brief of one issue."""
        return self.state / "briefs" / f"issue-{issue_number}.md"

    def reports(self, issue_number: int) -> Path:
        """The folder of one issue's report and check results; for 0, of results that belong to no issue."""
        return self.state / "reports" / (f"issue-{issue_number}" if issue_number else "base")

    def delivery(self, issue_number: int) -> Path:
        """The ledger of effects done for one issue."""
        return self.state / "deliveries" / f"issue-{issue_number}"

    def loop(self, loop_id: str) -> Path:
        """The entity file of one loop."""
        return self.loops / f"{loop_id}.yml"

    def alive(self, run_id: str) -> Path:
        """Held by the process of that flow run as long as it lives."""
        return self.state / ".runs" / run_id

    def shown(self, path: Path) -> str:
        """*path* as people read it: relative to the repository, with `/`."""
        return path.relative_to(self.root).as_posix()


def require_own_folder(layout: Layout) -> None:
    """Refuse a state folder that is a link, or none: git would not ignore it, and two repositories could share one.

    Raises EnvironmentRefused.
    """
    state = layout.state
    if state.is_symlink() or (state.exists() and not state.is_dir()):
        raise EnvironmentRefused(
            f"{state} is {'a symbolic link' if state.is_symlink() else 'no folder'}",
            remedy="move it away; the state of a repository is a folder of its own in it (`irontree init` makes it)",
        )


def create(root: Path) -> Layout:
    """Create `.mino/` with its `.gitignore` in the main worktree *root*; leave what is there as it is.

    Raises EnvironmentRefused for a link in its place.
    """
    layout = Layout(root)
    require_own_folder(layout)
    ignore = layout.state / ".gitignore"
    if not ignore.exists():
        Disk().write_durably(ignore, GITIGNORE.encode())
    return layout
