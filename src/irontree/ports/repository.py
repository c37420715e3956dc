"""The user's repository and the private workspaces (rulings R4, R5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from irontree.domain.plan import PublishPolicy, WorkspacePolicy
    from irontree.ports.basics import Cancellation


@dataclass(frozen=True, slots=True)
class Blocker:
    """A reason why no work can start; `check` is the short kebab id of `blocking_check`."""

    check: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Committed:
    """Our commit in a workspace."""

    sha: str
    files: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    """Paths that hooks or the agent left and that are not in the commit."""
    joined: tuple[str, ...] = ()
    """Commits that the agent made itself, oldest first (`abc1234 subject`): their changes are in this one."""


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """git or a hook refused; `output` is what it said."""

    output: str


@dataclass(frozen=True, slots=True)
class Published:
    """`sha` is reachable from the target branch; `warning` if the user's checkout could not follow."""

    sha: str
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """The target is not an ancestor of what was to be published; `tip` must be merged first."""

    tip: str


@dataclass(frozen=True, slots=True)
class Document:
    """A file of a commit: its path as it is spelled there, and its text."""

    path: str
    text: str


WorkspaceName = Literal["run", "verify", "review"]
"""Where agents change code, where checks run, and where agents only look: none sees what another left (ruling R4)."""


@dataclass(frozen=True, slots=True)
class LineCount:
    """How many lines of a file came and went between two commits; both None for a file that has no lines."""

    path: str
    added: int | None
    removed: int | None


class Workspace(Protocol):
    """One of the private workspaces (ruling R4)."""

    @property
    def path(self) -> Path:
        """Its folder; never inside the user's repository."""
        ...

    def prepare(self, base: str, *, tree_of: str | None = None, cancel: Cancellation | None = None) -> None:
        """HEAD detached at *base*, clean but for ignored caches; with *tree_of*, files as in that commit; set up."""
        ...

    def commit(self, message: str, *, base: str, replaces: str | None = None) -> Committed | CommitRefused | None:
        """One commit on *base* of everything that differs from it (agent's own commits folded in); None: no change.

        Raises EnvironmentRefused if the workspace was removed, or git fails.
        """
        ...

    def commit_document(self, document: Document, message: str, *, base: str) -> Committed | CommitRefused | None:
        """One commit on *base* that changes that file alone, hooks included; None: git ignores it, or nothing differs.

        Raises EnvironmentRefused where a link in the path would lead elsewhere.
        """
        ...

    def salvage(self, base: str, ref: str) -> str | None:
        """Keep all that differs from *base* (commits, edits, untracked) under *ref* in the user's repository."""
        ...

    def merge(self, ours: str, theirs: str, message: str) -> str | None:
        """Merge commit of the two, or None on conflict (workspace is left clean)."""
        ...


class Repository(Protocol):
    """The user's repository: questions, and the few effects we have on it (rulings R4, R5)."""

    @property
    def root(self) -> Path:
        """The main worktree; `.mino/` is in it."""
        ...

    @property
    def id(self) -> str:
        """`irontree.id` of this clone, made by `init` (ruling R21)."""
        ...

    def user_name(self) -> str | None:
        """Who commits here, as git knows them; None if it does not."""
        ...

    def preflight(
        self, policy: PublishPolicy, workspace: WorkspacePolicy, *, exempt: Sequence[str] = ()
    ) -> tuple[Blocker, ...]:
        """What would stop a run now; empty: the runway is clear. *exempt* are paths whose changes do not count."""
        ...

    def base(self, policy: PublishPolicy) -> str:
        """The commit new work starts from: the remote target's tip (fetched), or the local branch without a remote."""
        ...

    def ahead(self, policy: PublishPolicy) -> int:
        """How many commits of the user's own target branch the remote has not, as last fetched: work starts without.

        0 without a remote, and where the remote or the user has no such branch.
        """
        ...

    def has_published(self, sha: str, policy: PublishPolicy) -> bool:
        """Whether the target has *sha* in its history: the remote's as last fetched, the local one without a remote."""
        ...

    def workspace(self, name: WorkspaceName, policy: WorkspacePolicy) -> Workspace:
        """The private workspace of that name, created on first use."""
        ...

    def keep(self, sha: str, ref: str, *, source: Workspace | None = None) -> None:
        """Point `refs/irontree/...` *ref* at *sha*, bringing it over from *source*; the same again is nothing."""
        ...

    def read_ref(self, ref: str) -> str | None:
        """The commit *ref* points at; None if there is no such ref."""
        ...

    def find_token(self, token: str, *, base: str, source: Workspace) -> str | None:
        """The commit in `base..HEAD` of *source* whose trailer carries *token*."""
        ...

    def publish(self, sha: str, policy: PublishPolicy) -> Published | Moved:
        """Push *sha* to the target (never forced). Raises RemoteUnavailable or PublicationRefused."""
        ...

    def document_at(self, sha: str, path: str) -> Document | None:
        """The text file *path* of commit *sha*, in whatever case its name is spelled there; None if there is none."""
        ...

    def diff(self, base: str, sha: str) -> str:
        """The unified diff between two commits."""
        ...

    def changed_files(self, base: str, sha: str) -> tuple[str, ...]:
        """Paths that differ between two commits."""
        ...

    def line_counts(self, base: str, sha: str) -> tuple[LineCount, ...]:
        """The same paths, each with how many lines came and went."""
        ...

    def contains(self, tip: str, sha: str) -> bool:
        """Whether *tip* has *sha* in its history; False if either is not here."""
        ...

    def lacking(self, shas: Sequence[str]) -> frozenset[str]:
        """Those of *shas* that are no commits here."""
        ...

    def unreferenced(self, shas: Sequence[str]) -> frozenset[str]:
        """Those of *shas*, all of them here, that no ref reaches: git may throw them away."""
        ...

    def mark_history(self) -> None:
        """Remember that there are events, so that a deleted log is not taken for a first run (ruling R13)."""
        ...

    def lost_files(self) -> tuple[str, ...]:
        """Paths (`.mino/events/issue-7/0002-run-started.yml`) that the log's backup held and that are gone (R13)."""
        ...

    def back_up(self) -> None:
        """Commit `.mino/{plans,events,archive,loops}` to `refs/irontree/log` by plumbing (ruling R13)."""
        ...
