"""A repository without git: commits are values, branches are names. The shipped double for tests and trial runs.

Only the user's folder and the workspaces are real folders, because agents and checks work on files.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from irontree.domain.plan import PublishPolicy, WorkspacePolicy
from irontree.domain.protection import LineCount
from irontree.domain.secrets import known_secrets
from irontree.domain.workflow.checkout import Checkout as UserCheckout
from irontree.errors import ConfigRefused, GitFailed, IrontreeError, NoSuchBranch, PublicationRefused
from irontree.ports import (
    BackupFailure,
    Blocker,
    Cancellation,
    Checkout,
    CommitRefused,
    Committed,
    Document,
    LeftLock,
    Moved,
    Published,
    Rewritten,
    Standing,
    Workspace,
    WorkspaceName,
)
from irontree.repository.backup import KEPT, LOG_REF
from irontree.repository.copying import texts_of
from irontree.repository.git import STATE_FOLDER

Files = Mapping[str, bytes]
Hook = Callable[[Files], str | None]
"""A commit hook: receives the files; a returned text refuses the commit."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: its files, its parents and its message."""

    files: Files
    parents: tuple[str, ...] = ()
    message: str = ""

    @property
    def sha(self) -> str:
        """40 hex digits over all of it, like git's."""
        parts = [
            *self.parents,
            self.message,
            *(f"{path}\0{hash_of(data)}" for path, data in sorted(self.files.items())),
        ]
        return hash_of("\n".join(parts).encode())


def hash_of(data: bytes) -> str:
    """40 hex digits."""
    return hashlib.sha256(data).hexdigest()[:40]


def read_files(folder: Path) -> dict[str, bytes]:
    """All files below *folder* but its `.mino/`, by path with `/`."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    named = ((path.relative_to(folder).as_posix(), path) for path in files)
    return {name: path.read_bytes() for name, path in named if not name.startswith(f"{STATE_FOLDER}/")}


def write_files(folder: Path, files: Files) -> None:
    """Make *folder* hold exactly *files*; its `.mino/` stays."""
    for name in read_files(folder).keys() - files.keys():
        (folder / name).unlink()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@dataclass(slots=True)
class MemoryRepository:
    """The port `Repository`; *root* is the user's folder on branch `main`, *cache* is where workspaces go.

    *remote* holds the branches of the one remote. A test may fill `blockers`, `failures` (raised one by one when
    the remote is talked to) and `hook`; `before_push` is called with each commit that is about to be published.
    """

    root: Path
    cache: Path
    id: str = "0123456789ab"
    remote: dict[str, str] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    blockers: list[Blocker] = field(default_factory=list)
    failures: list[IrontreeError] = field(default_factory=list)
    hook: Hook = lambda _: None
    before_push: Callable[[str], None] = lambda _: None
    has_history: bool = False
    had: dict[tuple[str | None, str], set[str]] = field(default_factory=dict)
    """What branches were seen to contain, by remote and name."""
    backup_failed: BackupFailure | None = None
    backup_damaged: str = ""
    locks_left: tuple[LeftLock, ...] = ()
    stands_on: str = "main"
    """The branch that the user has checked out."""
    _workspaces: dict[str, MemoryWorkspace] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first = self.add(Commit(read_files(self.root), message="first"))
        self.refs[_head("main")] = self.remote["main"] = first

    def add(self, commit: Commit) -> str:
        """Add a commit; returns its SHA."""
        self.commits[commit.sha] = commit
        return commit.sha

    # --- the port ----------------------------------------------------------------------------------------

    def user_name(self) -> str | None:
        return "Memory User"

    def preflight(self, policy: PublishPolicy, workspace: WorkspacePolicy) -> tuple[Blocker, ...]:
        """The blockers that a test has set."""
        del policy, workspace
        return tuple(self.blockers)

    def checkout(self, policy: PublishPolicy, *, exempt: Sequence[str] = ()) -> Checkout:
        """The target is always checked out, or main as long as it is not there."""
        stands = self.refs.get(_head(policy.target_branch), self.refs[_head("main")])
        changed = _changed(self.commits[stands].files, read_files(self.root))
        return Checkout(self._tip(policy), uncommitted=tuple(path for path in changed if path not in exempt))

    def user_checkout(self, remote: str | None) -> UserCheckout:
        """The user is on `stands_on`; all else is as it was last fetched."""
        top, head = str(self.root.resolve()), self.refs[_head(self.stands_on)]
        names = frozenset({*self._heads(), *(self.remote if remote else ())})
        dirty = _changed(self.commits[head].files, read_files(self.root))
        return UserCheckout(top, top, head, self.stands_on, branches=names, dirty=dirty)

    def switch(self, branch: str, start: str) -> str | None:
        is_new = self.refs.setdefault(_head(branch), start) == start
        self.stands_on = branch if is_new else self.stands_on
        return None if is_new else f"there is a branch {branch} already"

    def base(self, policy: PublishPolicy, *, own: bool = False) -> str:
        self._talk(policy)
        branch = policy.target_branch
        known = (policy.remote, branch) in self.had
        if policy.remote and branch not in self.remote and known and not own:
            raise PublicationRefused(f"{branch} was deleted", reason="target-gone", remedy="push it again")
        tip = self._tip(policy)
        return self._see(policy, tip) if branch in (self.remote if policy.remote else self._heads()) else tip

    def standing(self, policy: PublishPolicy) -> Standing:
        own, there = self.refs.get(_head(policy.target_branch)), self.remote.get(policy.target_branch)
        if policy.remote is None or own is None or there is None:
            return Standing()
        mine, theirs = set(self.history(own)), set(self.history(there))
        ahead, behind = len(mine - theirs), len(theirs - mine)
        unsaved = ", ".join(self._unsaved(own, there)) if behind and not ahead else ""
        return Standing(ahead, behind, unsaved, "git pull" if behind else "")

    def has_published(self, sha: str, policy: PublishPolicy) -> bool:
        """Whether the target has *sha* in its history; it is always as it was last fetched."""
        here = self.refs.get(_head(policy.target_branch), "")
        return self.contains(self.remote.get(policy.target_branch, "") if policy.remote else here, sha)

    def fork_point(self, sha: str, policy: PublishPolicy) -> str | None:
        return next((known for known in self.history(sha) if self.has_published(known, policy)), None)

    def taken_back(self, shas: Sequence[str], policy: PublishPolicy) -> frozenset[str]:
        had = self.had.get((policy.remote, policy.target_branch), set())
        return frozenset(sha for sha in shas if sha in had and not self.has_published(sha, policy))

    def workspace(self, name: WorkspaceName, policy: WorkspacePolicy) -> MemoryWorkspace:
        del policy
        return self._workspaces.setdefault(name, MemoryWorkspace(self, self.cache / name))

    def keep(self, sha: str, ref: str, *, source: Workspace | None = None) -> None:
        if isinstance(source, MemoryWorkspace):
            self.commits |= {found: source.commits[found] for found in source.history(sha) if found in source.commits}
        held = self.refs.get(ref)
        if sha not in self.commits or (held and held not in self.history(sha)):
            raise GitFailed(f"cannot point {ref} at {sha}: it holds {held}")
        self.refs[ref] = sha

    def read_ref(self, ref: str) -> str | None:
        return self.refs.get(ref)

    def find_token(self, token: str, *, base: str, source: Workspace) -> str | None:
        if not isinstance(source, MemoryWorkspace) or source.head is None:
            return None
        ours = [sha for sha in source.history(source.head) if sha not in set(source.history(base))]
        found = [sha for sha in ours if token in _tokens(source.commit_of(sha).message)]
        return found[0] if len(found) == 1 else None

    def publish(self, sha: str, policy: PublishPolicy, *, onto: str | None = None) -> Published | Moved | Rewritten:
        if not policy.pushes:
            raise ConfigRefused(
                f"with publish.mode {policy.mode} nothing is pushed to {policy.target_branch}",
                remedy="merge its request",
            )
        self.before_push(sha)
        self._talk(policy)
        is_missing = policy.remote is not None and policy.target_branch not in self.remote
        if is_missing and onto and (policy.remote, policy.target_branch) in self.had:
            return Rewritten(onto, None)
        if policy.remote is None and _head(policy.target_branch) not in self.refs:
            if onto and not self.contains(self._tip(policy), onto):
                raise PublicationRefused(f"{policy.target_branch} is gone", reason="target-gone", remedy="git branch")
            self.refs[_head(policy.target_branch)] = sha
        tip = sha if is_missing else self._tip(policy)
        if onto and not self.contains(tip, onto) and not self.contains(tip, sha):
            return Rewritten(onto, tip)
        if tip not in self.history(sha) and sha not in self.history(tip):
            return Moved(tip)
        if policy.remote and (tip == sha or sha not in self.history(tip)):
            self.remote[policy.target_branch] = sha
        self._see(policy, sha)
        followed = self._follows(policy.target_branch, sha)
        if not followed and policy.remote is None:
            raise PublicationRefused(
                f"your checkout of {policy.target_branch} is in the way", reason="checkout-not-clean"
            )
        return Published(sha, None if followed else f"your own {policy.target_branch} could not follow")

    def document_at(self, sha: str, path: str) -> Document | None:
        files = self.commits[sha].files
        name = next((name for name in files if name.casefold() == path.casefold()), None)
        return Document(name, files[name].decode()) if name else None

    def diff(self, base: str, sha: str, *, first: Sequence[str] = ()) -> str:
        old, new = self.commits[base].files, self.commits[sha].files
        paths = sorted(self.changed_files(base, sha), key=lambda path: path not in first)
        return "\n".join(line for path in paths for line in _diff(path, old, new))

    def files_at(self, sha: str) -> dict[str, str]:
        return dict.fromkeys(self.commits[sha].files, "")

    def changed_files(self, base: str, sha: str) -> tuple[str, ...]:
        return _changed(self.commits[base].files, self.commits[sha].files)

    def texts(self, base: str, sha: str, *, only: Collection[str] | None = None) -> Iterator[tuple[str, str, str]]:
        old, new = self.commits[base].files, self.commits[sha].files
        for path in self.changed_files(base, sha):
            if only is not None and path not in only:
                continue
            before, now = (files.get(path, b"").decode("utf-8", "replace") for files in (old, new))
            yield path, before, now

    def secrets(self, policy: WorkspacePolicy) -> frozenset[str]:
        return known_secrets({}, texts_of(policy.copy_files, self.root))

    def line_counts(self, base: str, sha: str) -> tuple[LineCount, ...]:
        old, new = self.commits[base].files, self.commits[sha].files
        return tuple(_line_count(path, old, new) for path in self.changed_files(base, sha))

    def contains(self, tip: str, sha: str) -> bool:
        return tip in self.commits and sha in self.history(tip)

    def lacking(self, shas: Sequence[str]) -> frozenset[str]:
        return frozenset(sha for sha in shas if sha not in self.commits)

    def unreferenced(self, shas: Sequence[str]) -> frozenset[str]:
        reached = {known for tip in (*self.refs.values(), *self.remote.values()) for known in self.history(tip)}
        return frozenset(sha for sha in shas if sha not in reached)

    def mark_history(self) -> None:
        self.has_history = True

    def remove_leftovers(self) -> int:
        return 0

    def back_up(self) -> None:
        state = self.root / STATE_FOLDER
        files = {
            f"{STATE_FOLDER}/{name}/{path}": data
            for name in KEPT
            if (state / name).is_dir()
            for path, data in read_files(state / name).items()
        }
        last = self.refs.get(LOG_REF)
        if files and (last is None or self.commits[last].files != files):
            self.refs[LOG_REF] = self.add(Commit(files, (last,) if last else (), "The state of the log"))

    def backup_failure(self) -> BackupFailure | None:
        return self.backup_failed

    def backup_damage(self) -> str:
        return self.backup_damaged

    def left_locks(self) -> tuple[LeftLock, ...]:
        return self.locks_left

    def lost_files(self) -> tuple[str, ...]:
        backups = self.history(self.refs[LOG_REF]) if LOG_REF in self.refs else ()
        known = {path for sha in backups for path in self.commits[sha].files}
        return tuple(sorted(path for path in known if not (self.root / path).exists()))

    def history(self, sha: str) -> Iterator[str]:
        """The commit and all that it stands on, nearest first."""
        return _history(sha, self.commits)

    def _tip(self, policy: PublishPolicy) -> str:
        here = self.refs.get(_head(policy.target_branch))
        start = policy.branch_from if policy.branch_from in self.commits else None
        found = (self.remote.get(policy.target_branch, here) if policy.remote else here) or start
        if found is None:
            raise NoSuchBranch(f"there is no branch {policy.target_branch}")
        return found

    def _heads(self) -> set[str]:
        return {name.removeprefix(_head("")) for name in self.refs if name.startswith(_head(""))}

    def _see(self, policy: PublishPolicy, tip: str) -> str:
        self.had.setdefault((policy.remote, policy.target_branch), set()).update(self.history(tip))
        return tip

    def _talk(self, policy: PublishPolicy) -> None:
        if policy.remote and self.failures:
            raise self.failures.pop(0)

    def _move(self, branch: str, sha: str) -> None:
        self.refs[_head(branch)] = sha
        spared = {name: data for name, data in read_files(self.root).items() if not self._tracked(name)}
        write_files(self.root, {**spared, **self.commits[sha].files})

    def _follows(self, branch: str, sha: str) -> bool:
        """Move the user's branch ahead to *sha* unless it diverged or unsaved work is in the way; `False` if so."""
        current = self.refs.get(_head(branch))
        if current is None:  # no such branch here
            return True
        if sha in self.history(current):
            return True
        if current not in self.history(sha) or self._unsaved(current, sha):
            return False
        self._move(branch, sha)
        return True

    def _unsaved(self, current: str, sha: str) -> tuple[str, ...]:
        """Files that the user changed and that differ between the two commits."""
        found, old = read_files(self.root), self.commits[current].files
        return tuple(p for p in _changed(old, self.commits[sha].files) if found.get(p) != old.get(p))

    def _tracked(self, path: str) -> bool:
        return any(path in commit.files for commit in self.commits.values())


@dataclass(slots=True)
class MemoryWorkspace:
    """The port `Workspace` on a folder; its own commits stay here until the repository keeps them."""

    repository: MemoryRepository
    path: Path
    commits: dict[str, Commit] = field(default_factory=dict)
    head: str | None = None
    prepared_for: str | None = None
    put_there: Files = field(default_factory=dict)

    def prepare(
        self,
        base: str,
        *,
        tree_of: str | None = None,
        owner: str = "",
        published: str = "",
        cancel: Cancellation | None = None,
    ) -> None:
        """Put HEAD at *base* and the files as in *tree_of* or *base*; a double has no caches that stay."""
        del owner, published, cancel
        self.path.mkdir(parents=True, exist_ok=True)
        self.put_there = self.commit_of(tree_of or base).files
        write_files(self.path, self.put_there)
        self.head = self.prepared_for = base

    def commit(self, message: str, *, base: str, without: Collection[str] = ()) -> Committed | CommitRefused | None:
        before, files = self.commit_of(base).files, read_files(self.path)
        spared = tuple(f"{place}/" for place in without)
        dropped = tuple(path for path in _changed(before, files) if f"{path}/".startswith(spared))
        kept = {path: data for path, data in before.items() if path in dropped}
        files = {path: data for path, data in files.items() if path not in dropped} | kept
        changed = _changed(before, files)
        if not changed:
            return None
        refused = self.repository.hook(files)
        if refused is not None:
            return CommitRefused(refused)
        self.head = self._add(Commit(files, (base,), message))
        return Committed(self.head, changed, dropped)

    def commit_document(self, document: Document, message: str, *, base: str) -> Committed | CommitRefused | None:
        self.prepared_for = None
        files = {**self.commit_of(base).files, document.path: document.text.encode()}
        self.path.mkdir(parents=True, exist_ok=True)
        write_files(self.path, files)
        return self.commit(message, base=base)

    def salvage(self, base: str, ref: str) -> str | None:
        """Keep the current files under *ref*; `None` if they are those of *base*, or of another attempt."""
        files = read_files(self.path) if self.path.is_dir() else {}
        if self.prepared_for != base or files == self.commit_of(base).files:
            return None
        sha = self._add(Commit(files, (base,), f"Salvaged work on {base}"))
        self.repository.keep(sha, ref, source=self)
        return sha

    def merge(self, ours: str, theirs: str, message: str) -> str | None:
        """Merge whole files; None if both sides changed one of them differently."""
        self.prepared_for = None
        files = self._merged(ours, theirs)
        self.head = ours if files is None else self._add(Commit(files, (ours, theirs), message))
        self.path.mkdir(parents=True, exist_ok=True)
        write_files(self.path, self.commit_of(self.head).files)
        return None if files is None else self.head

    def untracked(self) -> frozenset[str]:
        return frozenset(read_files(self.path)) - {*self.put_there}

    def remove_untracked(self, unwanted: Callable[[str], bool]) -> tuple[str, ...]:
        found = tuple(sorted(path for path in self.untracked() if unwanted(path)))
        for path in found:
            (self.path / path).unlink()
        return found

    def put_back(self) -> tuple[str, ...]:
        here = read_files(self.path)
        write_files(self.path, {**here, **self.put_there})
        return tuple(sorted(path for path, data in self.put_there.items() if here.get(path) != data))

    def put(self, commit: str, paths: Sequence[str]) -> None:
        files = self.commit_of(commit).files
        for path in paths:
            (self.path / path).unlink(missing_ok=True)
        write_files(self.path, {**read_files(self.path), **{path: files[path] for path in paths if path in files}})

    def history(self, sha: str) -> Iterator[str]:
        """The commit and all that it stands on, nearest first."""
        return _history(sha, {**self.repository.commits, **self.commits})

    def commit_of(self, sha: str) -> Commit:
        """The commit, from here or from the repository; raises GitFailed if it is in neither."""
        found = self.commits.get(sha) or self.repository.commits.get(sha)
        if found is None:
            raise GitFailed(f"{sha} is not in {self.path}")
        return found

    def _merged(self, ours: str, theirs: str) -> dict[str, bytes] | None:
        known = set(self.history(ours))
        fork = self.commit_of(next(sha for sha in self.history(theirs) if sha in known)).files
        mine, other = self.commit_of(ours).files, self.commit_of(theirs).files
        changed_there = _changed(fork, other)
        if any(mine.get(path) not in (fork.get(path), other.get(path)) for path in changed_there):
            return None
        kept = {path: data for path, data in mine.items() if path not in changed_there}
        return kept | {path: other[path] for path in changed_there if path in other}

    def _add(self, commit: Commit) -> str:
        self.commits[commit.sha] = commit
        return commit.sha


def _head(branch: str) -> str:
    return f"refs/heads/{branch}"


def _history(sha: str, commits: Mapping[str, Commit]) -> Iterator[str]:
    seen: set[str] = set()
    queue = [sha]
    while queue:
        current = queue.pop(0)
        if current in seen or current not in commits:
            continue
        seen.add(current)
        yield current
        queue += commits[current].parents


def _changed(old: Files, new: Files) -> tuple[str, ...]:
    return tuple(sorted(path for path in {**old, **new} if old.get(path) != new.get(path)))


def _diff(path: str, old: Files, new: Files) -> Iterator[str]:
    before, after = (files.get(path, b"").decode("utf-8", "replace").splitlines() for files in (old, new))
    return difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm="")


def _line_count(path: str, old: Files, new: Files) -> LineCount:
    if any(b"\0" in files.get(path, b"") for files in (old, new)):
        return LineCount(path, None, None, path not in old, path in new)
    signs = [line[:1] for line in _diff(path, old, new)][2:]  # behind the two lines that name the file
    return LineCount(path, signs.count("+"), signs.count("-"), path not in old, path in new)


def _tokens(message: str) -> set[str]:
    trailers = (line.partition(":") for line in message.splitlines() if line.startswith("Irontree-"))
    return {token.strip() for _, _, token in trailers}
