"""The user's repository: queries, and the few effects we have on it (R4, R5, R21)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from irontree.domain.plan import PublishPolicy, WorkspacePolicy
from irontree.domain.protection import LineCount
from irontree.domain.secrets import known_secrets
from irontree.domain.workflow.checkout import Checkout as UserCheckout
from irontree.errors import ConfigRefused, EnvironmentRefused, GitFailed, NotARepository
from irontree.ports import (
    BackupFailure,
    Blocker,
    Checkout,
    Document,
    LeftLock,
    Moved,
    Published,
    Rewritten,
    Standing,
    Workspace,
    WorkspaceName,
)
from irontree.processes.children import ChildProcesses
from irontree.processes.containers import scrubbed_environment
from irontree.repository import backup, publication, worktrees
from irontree.repository.backup import LOG_REF, OURS
from irontree.repository.checkout import changed_paths, without
from irontree.repository.copying import texts_of
from irontree.repository.git import FETCH, STATE_FOLDER, Git, git_environment, shown, way_past
from irontree.repository.location import common_dir, main_worktree
from irontree.repository.locks import UsersLocks
from irontree.repository.moving import Moving
from irontree.repository.publication import local_branch, tracking_branch
from irontree.repository.settings import Settings
from irontree.repository.store import PrivateStore, remove_half_made
from irontree.repository.workspace import GitWorkspace


def open_repository(
    start: Path,
    children: ChildProcesses,
    cache_root: Path,
    state_root: Path,
    environment: Mapping[str, str],
    note: Callable[[str], None] = lambda _: None,
) -> GitRepository:
    """Open the repository that *start* is in, from whatever linked worktree or subfolder.

    Workspaces go to `cache_root/irontree/<repo-id>/`, what is believed to `state_root/irontree/<repo-id>/`.
    *environment* is the caller's; *note* is told in one line each what of a killed git was put right. Raises
    NotARepository.
    """
    if not start.is_dir():
        raise NotARepository(f"{start} is not a folder", remedy="go to a git repository")
    git = Git(start, children, git_environment(environment), caller=environment)
    root = main_worktree(git)
    usual = root / ".git"
    locks = UsersLocks(root, usual if usual.is_dir() else common_dir(git), note)
    return GitRepository(replace(git.at(root), locks=locks), locks, cache_root, state_root, environment)


@dataclass(frozen=True)
class GitRepository:
    """The port `Repository`, on the git that the user has; *git* is in the main worktree."""

    git: Git
    locks: UsersLocks
    cache_root: Path
    state_root: Path
    environment: Mapping[str, str] = field(repr=False)

    @contextmanager
    def driven(self) -> Iterator[None]:
        """Settle what a killed git left in the user's repository, and keep git's answering child for the block.

        What cannot be settled now is told, and tried again next time: it stops no other work.
        """
        with self.git.use():
            try:
                self._moving.settle(self.locks.clear())
                if backup.unreadable(self.git):  # git would refuse to fetch
                    self.back_up()
            except EnvironmentRefused as error:
                self.locks.note(f"what a killed git left in {self.root} cannot be settled now: {error.message}")
            yield

    @property
    def root(self) -> Path:
        """The main worktree; `.mino/` is in it."""
        return self.git.folder

    @property
    def id(self) -> str:
        """`irontree.id` of this clone, 12 hex (R21). Raises NotARepository before `init`."""
        found = self._ours.get("irontree.id")
        if not found:
            raise NotARepository(f"{self.root} is not set up for irontree", remedy="irontree init")
        return found

    @property
    def home(self) -> str | None:
        """`host:path` at which the state lives (R21); None before `init`."""
        return self._ours.get("irontree.home")

    def adopt_home(self, host: str) -> str:
        """Make *host* and the present path this repository's home; returns its id, made if it has none."""
        if self._ours.get("irontree.id") is None:
            self._set("irontree.id", uuid.uuid4().hex[:12])
        self._set("irontree.home", f"{host}:{self.root}")
        return self.id

    @property
    def moved_to(self) -> str | None:
        """The archive to which `export` gave this home up, or `None`."""
        return self._ours.get("irontree.exported")

    @property
    def importing(self) -> str | None:
        """The archive whose `import` has begun but not ended, or `None`."""
        return self._ours.get("irontree.importing")

    def give_up_home(self, archive: str) -> None:
        """Stop work here: it continues where *archive* is imported (R21)."""
        self._set("irontree.exported", archive)

    def begin_import(self, archive: str, workspace_id: str) -> None:
        """Allow no work here until all of *archive* is imported; from now on this has the old home's id."""
        self._set("irontree.importing", archive)
        self._set("irontree.id", workspace_id)

    def take_over(self, host: str) -> None:
        """End an import: make this the home, and then allow work again."""
        self.adopt_home(host)
        for name in ("irontree.exported", "irontree.importing"):
            self.git.run("config", "--local", "--unset-all", name)
            vars(self).pop("_ours", None)

    def pack_refs(self, target: Path) -> dict[str, str]:
        """Write `refs/irontree/*` with their objects to the file *target*; returns what they point at."""
        lines = self.git.repo.git.for_each_ref("--format=%(refname) %(objectname)", OURS).splitlines()
        packed = {name: sha for name, _, sha in (line.partition(" ") for line in lines)}
        names = "".join(f"{name}\n" for name in packed)
        self.git.change("bundle", "create", "--quiet", str(target), "--stdin", stdin=names.encode())
        return packed

    def require_whole_refs(self, source: Path, expected: Mapping[str, str]) -> None:
        """Raise EnvironmentRefused unless the file *source* holds exactly these refs, with all objects."""
        repo = self.git.repo
        lines = repo.git.bundle("list-heads", str(source), with_exceptions=False).splitlines()
        found = {name: sha for sha, _, name in (line.partition(" ") for line in lines)}
        foreign = [name for name in found if not name.startswith(OURS)]
        if found != dict(expected) or foreign or not repo.says("bundle", "verify", str(source)):
            raise EnvironmentRefused("the git objects in the archive are not complete", remedy="export again")

    def unpack_refs(self, source: Path) -> None:
        """Import the refs in *source*, all or none; a backup of the log that diverges is kept as salvage.

        Raises EnvironmentRefused if any other ref here diverges.
        """
        before = self.read_ref(LOG_REF)
        salvaged = f"{OURS}salvage/log/{before}"
        if before:
            self.git.change("update-ref", salvaged, before)
        try:
            self.git.change(*FETCH, "--atomic", str(source), f"{OURS}*:{OURS}*", f"^{LOG_REF}")
        except GitFailed as error:
            raise EnvironmentRefused(
                f"commits of tasks here are not those of the archive:\n{error.output.strip()}",
                remedy=f"look at `git for-each-ref {OURS}`; delete what you do not need, or import into a fresh clone",
            ) from error
        # The backup is made from files, which were compared before; all other refs only ever move forward.
        self.git.change(*FETCH, str(source), f"+{LOG_REF}:{LOG_REF}")
        if before and self.contains(LOG_REF, before):
            self.git.change("update-ref", "-d", salvaged)

    def mark_history(self) -> None:
        """Remember that there are events, so that a deleted log is not taken for a first run."""
        if not self.has_history():
            self._set("irontree.events", "yes")

    def has_history(self) -> bool:
        """Whether there ever was an event."""
        return self._ours.get("irontree.events") == "yes"

    # --- queries of `init` -------------------------------------------------------------------------------

    def remotes(self) -> tuple[str, ...]:
        """The names of the remotes, alphabetically."""
        return tuple(self.git.repo.git.remote().split())

    def current_branch(self) -> str | None:
        """The branch that is checked out; None for a detached HEAD."""
        return self.git.repo.git.symbolic_ref("--quiet", "--short", "HEAD", with_exceptions=False) or None

    def default_target(self, remote: str | None) -> str | None:
        """The branch to publish to by default: the remote's own default as far as it is known here, else ours."""
        ask = self.git.repo.git
        head = remote and ask.symbolic_ref("--quiet", f"refs/remotes/{remote}/HEAD", with_exceptions=False)
        return head.removeprefix(f"refs/remotes/{remote}/") if head else self.current_branch()

    def remote_url(self, remote: str) -> str | None:
        """The address of *remote* as git would call it (`insteadOf` applied); None without such a remote."""
        return self.git.repo.git.remote("get-url", remote, with_exceptions=False) or None

    def tip(self, branch: str) -> str | None:
        """The commit *branch* points at here, else at a remote as last fetched; None without such a branch."""
        return next((sha for ref in self._named(branch) if (sha := self.read_ref(ref))), None)

    def merge_of(self, sha: str, branch: str) -> tuple[str, str | None] | None:
        """The commit that brought *sha* into *branch*, here or at a remote as last fetched, and its committer.

        `None` if *branch* does not contain *sha*. After a fast-forward it is *sha* itself, without a committer.
        """
        tip = next((ref for ref in self._named(branch) if self.contains(ref, sha)), None)
        if tip is None:
            return None
        ask, since = self.git.repo.git, f"{sha}..{tip}"
        behind = frozenset(ask.rev_list("--ancestry-path", since, "--").split())
        own = ask.log("--first-parent", "--format=%H %P%x09%cn", since, "--").splitlines()
        brought = next((line for line in reversed(own) if line.split(maxsplit=1)[0] in behind), None)
        if brought is None:
            return sha, None
        hashes, _, committer = brought.partition("\t")
        commit, first_parent, *_ = hashes.split()
        return (sha, None) if first_parent == sha else (commit, committer)

    def _named(self, branch: str) -> tuple[str, ...]:
        return (f"refs/heads/{branch}", *(f"refs/remotes/{remote}/{branch}" for remote in self.remotes()))

    def user_name(self) -> str | None:
        """`user.name`; None if git does not know it."""
        return self.git.repo.settings.get("user.name") or None

    def ignored(self, paths: Sequence[str]) -> frozenset[str]:
        """Those of *paths*, existing or not, that git ignores; a folder ends with `/`."""
        return frozenset(self.git.repo.git.check_ignore("--", *paths, with_exceptions=False).splitlines())

    def committed(self, path: str) -> bytes | None:
        """The content of *path* (with `/`) in the commit that is checked out; None if it has none."""
        return self.git.repo.content(f"HEAD:{path}")

    # --- the port ----------------------------------------------------------------------------------------

    def preflight(self, policy: PublishPolicy, workspace: WorkspacePolicy) -> tuple[Blocker, ...]:
        """What would stop a run now; empty if nothing."""
        return publication.blockers(self._moving, policy, workspace)

    def checkout(self, policy: PublishPolicy, *, exempt: Sequence[str] = ()) -> Checkout:
        """What of the user's checkout work starts without; `.mino/` and *exempt* paths do not count."""
        tracked = self.read_ref(tracking_branch(policy)) if policy.remote else None
        return Checkout(
            start=tracked or self.read_ref(local_branch(policy)) or policy.branch_from,
            detached=self.current_branch() is None,
            uncommitted=without(changed_paths(self.git), (STATE_FOLDER, *exempt)),
        )

    def user_checkout(self, remote: str | None) -> UserCheckout:
        """What a workflow's branch is chosen by; see the port."""
        return worktrees.user_checkout(self.git, remote)

    def switch(self, branch: str, start: str) -> str | None:
        """Put the user's checkout, which is at *start*, on *branch*; see the port."""
        return self._moving.switch(branch, start)

    def base(self, policy: PublishPolicy, *, own: bool = False) -> str:
        """The commit new work starts from; see the port. Raises RemoteUnavailable, PublicationRefused, NoSuchBranch."""
        return publication.base(self.git, policy, own=own)

    def standing(self, policy: PublishPolicy) -> Standing:
        """How the user's own target branch stands to the remote's, as last fetched; see the port."""
        return publication.standing(self.git, policy)

    def has_published(self, sha: str, policy: PublishPolicy) -> bool:
        """Whether the target has *sha* in its history: the remote's as last fetched, the local one without a remote."""
        return self.contains(tracking_branch(policy) if policy.remote else local_branch(policy), sha)

    def fork_point(self, sha: str, policy: PublishPolicy) -> str | None:
        """The newest commit in the history of both *sha* and the target, as last fetched; None if there is none."""
        target = tracking_branch(policy) if policy.remote else local_branch(policy)
        return self.git.repo.git.merge_base(target, sha, with_exceptions=False).strip() or None

    def taken_back(self, shas: Sequence[str], policy: PublishPolicy) -> frozenset[str]:
        """Those of *shas* that the target had, as its reflog here says, and has no more, as last fetched."""
        ref = tracking_branch(policy) if policy.remote else local_branch(policy)
        if (tip := self.read_ref(ref)) is None:
            return frozenset()
        lacking = frozenset(shas).intersection(self.git.repo.listed(shas, "--ignore-missing", but=("--not", tip)))
        if not lacking:
            return lacking
        had = dict.fromkeys(self.git.repo.git.rev_list("--walk-reflogs", ref, with_exceptions=False).split())
        return lacking.difference(self.git.repo.listed(sorted(lacking), but=("--not", *had)))

    def workspace(self, name: WorkspaceName, policy: WorkspacePolicy) -> GitWorkspace:
        """The private workspace of that name; made when it is first prepared."""
        settings = cache(lambda: self.git.repo.settings)
        scrubbed = scrubbed_environment(self.environment)
        path, note = self._cache() / name, self.locks.note
        return GitWorkspace(name, path, self._store(), policy, scrubbed, self.keep, settings, note)

    def remove_leftovers(self) -> int:
        """Remove what a killed git left half made in the state folder and beside the workspaces; returns how many."""
        return remove_half_made(self._cache()) + self._store().remove_leftovers()

    def stores(self) -> tuple[Path, ...]:
        """The objects that the `.git` of its workspaces borrows; git has to read them wherever it runs there."""
        return self._store().history.lent

    def keep(self, sha: str, ref: str, source: Workspace | None = None) -> None:
        """Point `refs/irontree/...` *ref* at *sha*, fetched from the private store if a *source* is named; idempotent.

        Raises GitFailed if *ref* holds a commit that *sha* does not descend from.
        """
        try:
            self.git.change(*FETCH, str(self._store().git_dir) if source else ".", f"{sha}:{ref}")
        except GitFailed:  # no error if it was fetched before, and the store wiped since
            if self.read_ref(ref) != sha:
                raise

    def read_ref(self, ref: str) -> str | None:
        """The commit *ref* points at; None if there is no such ref."""
        return self.git.repo.commit_of(ref)

    def find_token(self, token: str, *, base: str, source: Workspace) -> str | None:
        """The commit that was made last in *source*, on *base*, if an `Irontree-…` trailer of it holds *token*."""
        found = [sha for sha, tokens in self._store().made(source.path, base) if token in tokens]
        return found[0] if len(found) == 1 else None

    def publish(self, sha: str, policy: PublishPolicy, *, onto: str | None = None) -> Published | Moved | Rewritten:
        """Make *sha* reachable from the target branch, or say which tip has to be merged first.

        *onto* is the tip that it was checked on top of; `None` on a branch of our own.

        Raises ConfigRefused, RemoteUnavailable, PublicationRefused.
        """
        if not policy.pushes:
            raise ConfigRefused(
                f"with publish.mode {policy.mode} nothing is pushed to {policy.target_branch}",
                remedy="merge its request",
            )
        publish = publication.publish_there if policy.remote else publication.publish_here
        return publish(self._moving, sha, policy, onto)

    def document_at(self, sha: str, path: str) -> Document | None:
        """The text file *path* of commit *sha*, in whatever case its name is spelled there; None if there is none.

        Raises GitFailed for a file that is not text.
        """
        folder, repo = path.rpartition("/")[0], self.git.repo
        names = repo.paths("ls-tree", "-z", "--name-only", sha, "--", f"{folder}/" if folder else ".")
        alike = [name for name in names if name.casefold() == path.casefold()]  # one place in many a file system
        if not alike:
            return None
        name = path if path in alike else alike[0]
        content, remedy = repo.content(f"{sha}:{name}"), "move it, or set report.docs_path"
        if content is None:
            raise GitFailed(f"{name} is not a file", remedy=remedy)
        try:
            return Document(name, content.decode())
        except UnicodeDecodeError as error:
            raise GitFailed(f"{name} is not text in UTF-8", remedy=remedy) from error

    def diff(self, base: str, sha: str, *, first: Sequence[str] = ()) -> str:
        """The unified diff between two commits, as text for people; the files in *first* come before all others."""
        found = [path for path in self.changed_files(base, sha) if path in first]
        return shown(self.git.repo.diff(base, sha, found))

    def files_at(self, sha: str) -> dict[str, str]:
        """The paths of all files in that commit, each with where it leads if it is a link."""
        return {shown(path): shown(leads) for path, leads in self.git.repo.files(sha)}

    def changed_files(self, base: str, sha: str) -> tuple[str, ...]:
        """Paths that differ between two commits; a renamed file is two."""
        if (base, sha) not in self._changed:
            found = self.git.repo.paths("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", base, sha)
            self._changed[base, sha] = tuple(map(shown, found))
        return self._changed[base, sha]

    def texts(self, base: str, sha: str, *, only: Collection[str] | None = None) -> Iterator[tuple[str, str, str]]:
        """The same paths, each with its text in both, whatever attributes say of it; empty where there is none."""
        found = self.git.repo.texts(base, sha, lambda path: only is None or shown(path) in only)
        return ((shown(path), before, now) for path, before, now in found)

    def secrets(self, policy: WorkspacePolicy) -> frozenset[str]:
        """Values that belong in no commit: of our variables with a secret's name, and in files of `workspace.copy`."""
        return known_secrets(self.environment, texts_of(policy.copy_files, self.root))

    def line_counts(self, base: str, sha: str) -> tuple[LineCount, ...]:
        """The same paths, each with its lines added and removed."""
        return tuple(count._replace(path=shown(count.path)) for count in self.git.repo.line_counts(base, sha))

    @cached_property
    def _changed(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Cached answers: the difference of two commits never changes."""
        return {}

    def contains(self, tip: str, sha: str) -> bool:
        """Whether *tip* has *sha* in its history; False if either is not here."""
        return self.git.repo.contains(tip, sha)

    def lacking(self, shas: Sequence[str]) -> frozenset[str]:
        """Those of *shas* that are not commits here."""
        return frozenset(shas).difference(self.git.repo.listed(shas, "--no-walk=unsorted", "--ignore-missing"))

    def unreferenced(self, shas: Sequence[str]) -> frozenset[str]:
        """Those of *shas*, all of them here, that no ref reaches."""
        return frozenset(shas).intersection(
            self.git.repo.listed(shas, but=("--not", f"--exclude={backup.LOG_REF}", "--all"))
        )

    def back_up(self) -> None:
        """Commit what the folders `KEPT` of `.mino` hold to `refs/irontree/log`, if it changed (R13).

        A failure is told and written down, with the time of the first in a row.
        """
        try:
            if wrong := backup.back_up(self.git, self._cache()):
                self.locks.note(
                    f"the log's back-up in {backup.LOG_REF} could not be read ({wrong}), and was made anew from the "
                    "files here; what it alone held is lost"
                )
        except (EnvironmentRefused, OSError) as error:
            words = error.message if isinstance(error, EnvironmentRefused) else str(error)
            remedy = getattr(error, "remedy", None) or "`irontree checkup repair` tries again"
            self.locks.note(f"the log could not be backed up: {words} ({remedy})")
            backup.write_failure(self._failure, words, remedy)
        else:
            self._failure.unlink(missing_ok=True)

    def backup_failure(self) -> BackupFailure | None:
        """What has kept the log from being backed up since the last time that it could be; `None` if nothing."""
        return backup.read_failure(self._failure)

    @property
    def _failure(self) -> Path:
        return self.root / STATE_FOLDER / ".backup-failed"

    def backup_damage(self) -> str:
        """Why the log's back-up cannot be read, in words; empty if it can, or there is none."""
        return backup.unreadable(self.git)

    def left_locks(self) -> tuple[LeftLock, ...]:
        """Locks in the repository's git that nobody seems to hold, and that are not known to be ours."""
        return tuple(
            LeftLock(f"{lock.path} is {lock.seconds / 60:.0f} min old", way_past(lock.path))
            for lock in self.locks.standing()
        )

    def lost_files(self) -> tuple[str, ...]:
        """Paths that the log's backup held and that are gone, archived streams excepted (R13)."""
        return backup.lost(self.git)

    @property
    def _moving(self) -> Moving:
        return Moving(self.git, self.locks.common_dir, self.locks.note)

    @property
    def state_folder(self) -> Path:
        """Where what is believed is kept. Raises EnvironmentRefused for one inside the repository or a workspace."""
        folder, cache = self._elsewhere("state", self.state_root), self._cache()
        if cache in folder.parents:
            raise EnvironmentRefused(
                f"the state folder {self.state_root} is inside the folder of workspaces {cache}, where agents write",
                remedy="set XDG_STATE_HOME to a folder elsewhere",
            )
        return folder

    def _store(self) -> PrivateStore:
        return PrivateStore(self.state_folder, self.git, self.locks.common_dir, self.environment)

    def _cache(self) -> Path:
        return self._elsewhere("cache", self.cache_root)

    def _elsewhere(self, what: str, root: Path) -> Path:
        """The folder of this repository in the user's folder *root*, which must not be inside the repository."""
        folder = root / "irontree" / self.id
        if folder.is_relative_to(self.root):
            raise EnvironmentRefused(
                f"the {what} folder {root} is inside the repository, where tools would find its files",
                remedy=f"set XDG_{what.upper()}_HOME to a folder elsewhere",
            )
        return folder

    @cached_property
    def _ours(self) -> Settings:
        """Our keys in the repository's own configuration."""
        return Settings(self.git.settings().own)

    def _set(self, name: str, value: str) -> None:
        self.git.change("config", "--local", name, value)
        vars(self).pop("_ours", None)  # read again
