"""A private workspace: where agents work and checks run (R4, R5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from irontree.domain.checks import truncate
from irontree.domain.plan import WorkspacePolicy
from irontree.errors import Cancelled, ConfigRefused, EnvironmentRefused, GitFailed
from irontree.files import disk_errors, remove
from irontree.ports import Cancellation, CommitRefused, Committed, Document, WorkspaceName
from irontree.processes import Completed
from irontree.processes.family import SHELL, ProcessLimits
from irontree.repository.clone import PrivateClone, copy_files, require_inside, write_inside
from irontree.repository.git import AGAIN_SECONDS, DURABLY, STATE_FOLDER, Git, said, shown, was_killed
from irontree.repository.settings import Settings

T = TypeVar("T")

SETUP_SECONDS = 1800
COMMIT_SECONDS = 900
COMMITS_LISTED = 20
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")


P = ParamSpec("P")


def _told_in_words(
    method: Callable[Concatenate[GitWorkspace, P], T],
) -> Callable[Concatenate[GitWorkspace, P], T]:
    """Let what the disk refuses end as EnvironmentRefused, which names the workspace and what to check."""

    @wraps(method)
    def told(self: GitWorkspace, /, *arguments: P.args, **options: P.kwargs) -> T:
        with disk_errors(self.path):
            return method(self, *arguments, **options)

    return told


@dataclass(frozen=True, slots=True)
class GitWorkspace:
    """The port `Workspace`. The caller holds the driver lock, so no other process uses it."""

    name: WorkspaceName
    git: Git
    clone: PrivateClone
    policy: WorkspacePolicy
    setup_environment: Mapping[str, str] = field(repr=False)
    keep: Callable[[str, str, GitWorkspace], None]
    """Fetches a commit to a ref of the user's repository."""
    settings: Callable[[], Settings]
    """The user's settings, read once: those that a workspace was prepared with hold until it is settled."""

    @property
    def path(self) -> Path:
        """Its folder, in the user's cache."""
        return self.git.folder

    @_told_in_words
    def prepare(self, base: str, *, tree_of: str | None = None, cancel: Cancellation | None = None) -> None:
        """Put HEAD at *base*, detached, and the files as in *tree_of* or *base*; then copy and set up.

        Ignored files (caches) stay, unless the policy is pristine. Raises EnvironmentRefused or GitFailed.
        """
        with disk_errors(self.path):
            self._prepared_for.unlink(missing_ok=True)
            settings = self._restore()
            self._mending((base, tree_of or base), lambda: self._place(base, tree_of or base, cancel))
            self._copy_files()
            for command in self.policy.setup:
                self._set_up(command, cancel)
            self._require_hooks(settings)
            self._prepared_for.write_text(base, encoding="ascii")

    @_told_in_words
    def commit(
        self,
        message: str,
        *,
        base: str,
        replaces: str | None = None,  # noqa: ARG002 - the port's; what stands on *base* replaces it by itself
    ) -> Committed | CommitRefused | None:
        """Make one commit on *base* of all that differs from it, the user's hooks included; None if nothing does.

        Commits that the agent made are folded in. A hook that reformats and refuses gets a second try with what
        it changed. What hooks leave beside the commit, and changes under `.mino/`, are dropped and reported.
        """
        self._require_contents()
        settings = self._restore()
        joined = self._commits_on(base)
        self._mending((base,), lambda: self.git.change("reset", "--quiet", base))
        try:
            left = self._stage()
            if left is None:
                return None
        except GitFailed as error:  # a name, a link or an encoding that git cannot commit
            return CommitRefused(error.output or error.message)
        refused = self._try_commit(message, base)
        if refused and not self.git.repo.git.diff("--cached", "--name-only"):
            return None  # not a change after all: line ends, filters
        if refused and self._stage() is not None:  # hooks reformatted something
            refused = self._try_commit(message, base)
        if refused is None and self.clone.has_hooks(settings):
            refused = self._put_right(message, base)
        if refused:
            return refused
        return self._committed(whole=not left and self._takes_all(settings))._replace(joined=joined)

    def _takes_all(self, settings: Settings) -> bool:
        """Whether a commit takes up every change: there is no hook, and no submodule has changes of its own."""
        return not self.clone.has_hooks(settings) and not (self.path / ".gitmodules").exists()

    def _commits_on(self, base: str) -> tuple[str, ...]:
        """The commits made on *base*, oldest first; none if git cannot tell."""
        if self.git.repo.stands_at(base):
            return ()
        words = ("--reverse", "--no-decorate", "--format=%h %s", f"{base}..HEAD")
        found = self.git.repo.git.log(*words, with_exceptions=False)
        return tuple(map(shown, found.splitlines()[:COMMITS_LISTED]))

    @_told_in_words
    def commit_document(self, document: Document, message: str, *, base: str) -> Committed | CommitRefused | None:
        """Make one commit on *base* that changes that file alone, hooks included; None if git sees no change.

        The workspace must be prepared afterwards. Raises EnvironmentRefused where the file cannot be put there.
        """
        self._prepared_for.unlink(missing_ok=True)
        self._restore()
        self._mending((base,), lambda: self._place(base, base, None))
        write_inside(self.path, document)
        made = self.commit(message, base=base)
        if not isinstance(made, Committed) or made.files == (document.path,):
            return made
        beside = ", ".join(path for path in made.files if path != document.path)
        return CommitRefused(f"hooks changed other files as well, which nobody has verified: {beside}")

    @_told_in_words
    def salvage(self, base: str, ref: str) -> str | None:
        """Keep all that differs from *base* (commits, edits, untracked files) under *ref* in the user's repository.

        `None` if the workspace holds nothing of an attempt at *base*. The earlier commit of *ref* stays in its history.
        Files that git cannot commit are left out: they must not keep every other task from going on.
        """
        if not self._prepared_for.is_file() or self._prepared_for.read_text(encoding="ascii") != base:
            return None
        self._restore()
        words = ("--verify", "--quiet", "HEAD^{commit}")
        head = self.git.repo.git.rev_parse(*words, with_exceptions=False)  # no repository is left, maybe: mended next
        self._mending((base,), lambda: self.git.change("reset", "--quiet", base))
        self._stage(whole=False)
        sha = self._snapshot(head if head and self.git.repo.commit_of(head) else base, ref)
        if sha is not None:
            self.keep(sha, ref, self)
        return sha

    @_told_in_words
    def merge(self, ours: str, theirs: str, message: str) -> str | None:
        """Merge *theirs* into *ours*, hooks included; None on conflict. The workspace must be prepared afterwards."""
        self._prepared_for.unlink(missing_ok=True)
        self._restore()
        self._mending((ours, theirs), lambda: self._place(ours, ours, None))
        done = self.git.run(
            *(*DURABLY, "merge", "--quiet", "--no-ff", "--no-edit", "-m", message, theirs), seconds=COMMIT_SECONDS
        )
        if done.ok:
            return self._head()
        conflict = bool(self.git.repo.paths("ls-files", "--unmerged", "-z"))
        self._place(ours, ours, None)
        if conflict:
            return None
        raise GitFailed(f"git merge failed in {self.path}: {said(done).strip()}", output=done.output)

    @_told_in_words
    def differing(self) -> tuple[str, ...]:
        """The tracked files that are not as they were put there."""
        self._restore()
        return tuple(shown(path) for state, path in self._status() if state[1] not in " ?")

    @_told_in_words
    def put(self, commit: str, paths: Sequence[str]) -> None:
        """Make these files as they are in *commit*; one that it does not have is removed."""
        there = frozenset(self.git.repo.paths("ls-tree", "-r", "--name-only", "-z", commit, "--", *paths))
        for path in paths:
            remove(self.path / path)
        if there:
            self.git.change("--literal-pathspecs", "checkout", "--force", commit, "--", *sorted(there))

    @property
    def _prepared_for(self) -> Path:
        """Holds the base that the files belong to; missing while the workspace is being prepared."""
        return self.path.parent / f"{self.name}.base"

    def _require_contents(self) -> None:
        """Raise if the whole workspace was removed: that must not pass for deleting all files of the project."""
        if not self.path.is_dir() or not any(self.path.iterdir()):
            raise EnvironmentRefused(
                f"the workspace {self.path} was removed while it was worked in",
                remedy="if you did not do it, look at what the agent did (its transcript is under .mino/reports); "
                "to go on makes it anew and tries again",
            )

    def _restore(self) -> Settings:
        settings = self.settings()
        self.clone.restore(settings, self.policy.copy_files)
        return settings

    def _mending(self, commits: Sequence[str], action: Callable[[], T]) -> T:
        """Do *action*; if git fails, fetch *commits* and try again, finally with a recreated clone."""
        for mend in (self._bring, self._drop_index, self._renew):
            try:
                return action()
            except GitFailed:
                with suppress(GitFailed):  # the next try reports what is wrong
                    mend(commits)
        return action()

    def _bring(self, commits: Sequence[str]) -> None:
        """Fetch what a clone without shared objects (of a shallow repository) lacks."""
        missing = [sha for sha in commits if not self.git.repo.commit_of(sha)]
        if missing:
            self.git.change(
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--update-shallow"),
                *(str(self.clone.source.folder), *missing),
            )

    def _drop_index(self, _: Sequence[str]) -> None:
        """Remove the index, which may be damaged; git recreates it from HEAD."""
        (self.clone.git_dir / "index").unlink(missing_ok=True)

    def _renew(self, commits: Sequence[str]) -> None:
        self.clone.renew()
        self._restore()
        self._bring(commits)

    def _place(self, base: str, tree_of: str, cancel: Cancellation | None) -> None:
        self.git.change(*_NO_HOOKS, "checkout", "--quiet", "--force", "--detach", tree_of, cancel=cancel)
        if tree_of != base:
            self.git.change("reset", "--quiet", "--soft", base)
        self.git.change("clean", "-ffdxq" if self.policy.pristine else "-ffdq")

    def _copy_files(self) -> None:
        names = self.policy.copy_files
        require_inside(names)
        tracked = self.git.repo.paths("ls-files", "-z", "--", *names) if names else ()
        if tracked:
            raise ConfigRefused(
                f"workspace.copy names {tracked[0]}, which git tracks",
                remedy="take it out of workspace.copy in .mino/config.yml: tracked files are there anyway",
            )
        copy_files(names, self.clone.source.folder, self.path)

    def _set_up(self, command: str, cancel: Cancellation | None) -> None:
        done = (
            self.git.children.lending(lambda: self.clone.stores)
            .within(self.policy.container)
            .run(
                [SHELL, "-c", command],
                cwd=self.path,
                environment={**self.setup_environment, "IRONTREE_WORKSPACE": str(self.path)},
                limits=ProcessLimits(SETUP_SECONDS, cancel=cancel),
            )
        )
        if done.ended == "cancelled":
            raise Cancelled(f"workspace.setup was stopped: {command}")
        if not done.ok:
            raise EnvironmentRefused(
                f"workspace.setup failed (`{command}`, {done.ended}, exit code {done.exit_code}):\n"
                f"{truncate(done.output)}",
                remedy=f"run it by hand in {self.path}, then correct workspace.setup in .mino/config.yml",
            )

    def _require_hooks(self, settings: Settings) -> None:
        hooks = settings.relative_hooks_path
        if self.name == "run" and hooks and not (self.path / hooks).is_dir():
            raise EnvironmentRefused(
                f"core.hooksPath is {hooks}, which is not in the workspace, so the hooks would silently not run",
                remedy="add the command that makes it to workspace.setup in .mino/config.yml (husky: `npx husky`)",
            )

    def _stage(self, *, whole: bool = True) -> list[str] | None:
        """Stage everything except `.mino/`; returns the changed paths there, or `None` if nothing else changed.

        Raises GitFailed for files that git refuses; unless *whole* is asked for, they are left out.
        """
        changed = self._unstaged()
        seen: set[str] = set()
        while nested := {path for path in changed if path.endswith("/")} - seen:
            for path in nested:  # a nested repository: git would commit a pointer and no files
                remove(self.path / path / ".git")
            seen |= nested
            changed = self._unstaged()
        ours = [path for path in changed if path.startswith(f"{STATE_FOLDER}/")]
        if len(changed) == len(ours):
            return None
        if whole:
            self.git.change(*DURABLY, "add", "--all")
        else:
            self.git.run(*DURABLY, "add", "--all", "--ignore-errors")
        if ours:  # afterwards: as a pathspec of `add`, ":!.mino" fails where .mino is ignored
            self.git.change("reset", "--quiet", "--", STATE_FOLDER)
        return ours

    def _unstaged(self) -> list[str]:
        return [path for state, path in self._status() if state[1] != " "]

    def _status(self) -> Iterator[tuple[str, str]]:
        for entry in self.git.repo.paths("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"):
            yield entry[:2], entry[3:]

    def _try_commit(self, message: str, base: str) -> CommitRefused | None:
        """Commit what is staged on *base*; again if a signal ended git before it had."""
        done = self._give_commit(message)
        for _ in AGAIN_SECONDS:
            if done.ok or not was_killed(done) or not self.git.repo.stands_at(base):
                break
            done = self._give_commit(message)
        made = done.ok or (was_killed(done) and not self.git.repo.stands_at(base))
        return None if made else CommitRefused(said(done))

    def _give_commit(self, message: str, *options: str) -> Completed:
        return self.git.run(
            *(*options, *DURABLY, "commit", "--quiet", "--cleanup=whitespace", "--file=-"),
            stdin=message.encode(),
            seconds=COMMIT_SECONDS,
        )

    def _put_right(self, message: str, base: str) -> CommitRefused | None:
        """After hooks: HEAD must be one commit on *base*, and have the trailers of *message*; they are put back."""
        found = self.git.repo.git.log("-1", "--format=%P%x00%(trailers:only,unfold)%x00%B", "HEAD")
        parents, trailers, written = found.split("\0")
        if parents != base:
            return CommitRefused(f"a hook left something else than one commit on {base[:12]}: look at post-commit")
        lost = [
            line for line in message.splitlines() if line.startswith("Irontree-") and line not in trailers.split("\n")
        ]
        if not lost:
            return None
        words = [word for line in lost for word in ("--trailer", line)]
        whole = self.git.read("interpret-trailers", *words, stdin=written.encode()).decode()
        self.git.change("reset", "--quiet", "HEAD")  # what the hooks staged behind the commit is not part of it
        self.git.change("reset", "--quiet", "--soft", base)
        done = self._give_commit(whole, *_NO_HOOKS)
        return None if done.ok else CommitRefused(said(done))

    def _committed(self, *, whole: bool) -> Committed:
        """The commit at HEAD, and what it left out, which is dropped: nothing if it took up the *whole*."""
        sha, *files = self.git.repo.paths("diff-tree", "-r", "--root", "--name-only", "--no-renames", "-z", "HEAD")
        dropped = () if whole else tuple(shown(path) for _, path in self._status())
        if dropped:
            self._place(sha, sha, None)
        return Committed(sha, tuple(shown(path) for path in files), dropped)

    def _head(self) -> str:
        return str(self.git.repo.git.rev_parse("HEAD^{commit}"))

    def _snapshot(self, head: str, ref: str) -> str | None:
        """A commit of the index on top of *head*, the agent's last; None if nothing differs from HEAD, the base."""
        tree = self.git.change(*DURABLY, "write-tree").splitlines()[-1]
        base = self._head()
        known = self.clone.source.repo.commit_of(ref)
        if tree == self._tree(base) and head == base:
            return None
        if known and tree == self.clone.source.repo.find(f"{known}^{{tree}}"):
            return known
        if tree == self._tree(head) and not known:
            return head
        if known:
            self._bring((known,))
        parents = [word for parent in (head, known) if parent for word in ("-p", parent)]
        made = self.git.change(*DURABLY, "commit-tree", *parents, "-m", f"Salvaged work on {base}", tree)
        return made.splitlines()[-1]

    def _tree(self, commit: str) -> str:
        return str(self.git.repo.git.rev_parse(f"{commit}^{{tree}}"))
