"""A private workspace: where agents work and checks run (R4, R5)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from irontree.domain.checks import truncate
from irontree.domain.plan import WorkspacePolicy
from irontree.domain.text import few
from irontree.errors import Cancelled, ConfigRefused, EnvironmentRefused, GitFailed
from irontree.files import disk_errors, is_folder, make_private, read_beneath, remove, remove_beneath
from irontree.ports import Cancellation, CommitRefused, Committed, Document, WorkspaceName
from irontree.processes.family import SHELL, ProcessLimits
from irontree.repository.caches import SetupCaches
from irontree.repository.copying import copy_files, require_inside, write_inside
from irontree.repository.git import DURABLY, Git, hooks_environment, said, shown
from irontree.repository.hooks import HookRun, has_hooks
from irontree.repository.settings import Settings
from irontree.repository.store import PrivateStore, bytes_of, discard, remove_half_made
from irontree.repository.taking import Taken, asking_for, disarm, empty, submodules, take, whole_tree
from irontree.repository.throwaway import ThrowAwayGit

T = TypeVar("T")

SETUP_SECONDS = 1800
_AT_ONCE = ("-c", "checkout.workers=4")
"""Many files are written by several processes: they wait for the disk."""
_CONFLICT = 1
"""How `git merge-tree` ends where it cannot merge."""
_NOTE_BYTES = 100
_NAME_IT = "if it may run on what an agent writes, name it in workspace.filters in .mino/config.yml"
_EMPTY_LINES = re.compile(r"\n{3,}")


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
    path: Path
    """Its folder, in the user's cache."""
    store: PrivateStore
    policy: WorkspacePolicy
    setup_environment: Mapping[str, str] = field(repr=False)
    keep: Callable[[str, str, GitWorkspace], None]
    """Fetches a commit to a ref of the user's repository."""
    settings: Callable[[], Settings]
    """The user's settings, read once: those that a workspace was prepared with hold until it is settled."""
    note: Callable[[str], None]
    """Is told what somebody should know."""

    @_told_in_words
    def prepare(
        self,
        base: str,
        *,
        tree_of: str | None = None,
        owner: str = "",
        published: str = "",
        cancel: Cancellation | None = None,
    ) -> None:
        """Put HEAD at *base*, detached, and the files as in *tree_of* or *base*; then copy and set up.

        The folder is made anew, unless *owner* prepared it last: then ignored files stay, but where the policy is
        pristine. Set-up is copied from a cache, which is built at *published*, where both agree on dependencies. Raises
        EnvironmentRefused or GitFailed.
        """
        settings = self._begin(owner)
        if self.name == "run" or not self.store.history.bases():  # of others is shown what is not published
            self.store.history.hold(base)
        self._published_note.write_text(published, encoding="ascii")
        self._fill(base, tree_of or base, settings, cancel, published=published)
        self._require_hooks(settings)
        self._submodules_had.write_text(json.dumps(self._submodules()), encoding="utf-8")
        self._prepared_for.write_text(base, encoding="ascii")
        self._owner_note.write_text(owner, encoding="utf-8")

    @_told_in_words
    def commit(self, message: str, *, base: str, without: Collection[str] = ()) -> Committed | CommitRefused | None:
        """Make one commit on *base* of all files that differ from it, the user's hooks included; None if none does.

        What the agent did with git does not matter. What hooks leave beside the commit, and changes under `.mino/` and
        at the paths *without*, are left out and reported.
        """
        self._require_contents()
        settings = self._restore()
        if changed := self._submodules_changed():
            return CommitRefused(f"files of a submodule were changed, which no commit here can hold: {few(changed)}")
        try:
            taken = self._taken(base, without=without)
        except GitFailed as error:  # a name, a link or an encoding that git cannot commit
            return CommitRefused(error.output or error.message)
        if not isinstance(taken, Taken):
            return taken
        if refused := self._asks_for("filter", settings):
            return CommitRefused(f"{refused}\n{_NAME_IT}")
        return self._written(taken, (base,), message, settings)

    @_told_in_words
    def commit_document(self, document: Document, message: str, *, base: str) -> Committed | CommitRefused | None:
        """Make one commit on *base* that changes that file alone, hooks included; None if git sees no change.

        The workspace must be prepared afterwards. Raises EnvironmentRefused where the file cannot be put there.
        """
        self._begin()
        self._mending(lambda: self._place(base, None))
        write_inside(self.path, document)
        made = self.commit(message, base=base)
        if not isinstance(made, Committed) or made.files == (document.path,):
            return made
        beside = ", ".join(path for path in made.files if path != document.path)
        return CommitRefused(f"hooks changed other files as well, which nobody has verified: {beside}")

    @_told_in_words
    def salvage(self, base: str, ref: str) -> str | None:
        """Keep all files that differ from *base* under *ref* in the user's repository.

        `None` if the workspace holds nothing of an attempt at *base*. The earlier commit of *ref* stays in its history.
        Files that git cannot commit are left out: they must not keep every other task from going on.
        """
        if base not in self._noted_bases() or not is_folder(self.path):
            return None
        self._restore()
        try:
            taken = self._taken(base, whole=False)
        except GitFailed:
            self._drop_index()
            taken = self._taken(base, whole=False)
        known = self.store.source.repo.commit_of(ref)
        if not isinstance(taken, Taken):
            return None
        if known and taken.tree == self.store.source.repo.find(f"{known}^{{tree}}"):
            return known
        parents = (base, known) if known else (base,)
        sha = commit_tree(self.git, taken.tree, parents, f"Salvaged work on {base}")
        self.keep(sha, ref, self)
        return sha

    @_told_in_words
    def merge(self, ours: str, theirs: str, message: str) -> str | None:
        """Merge *theirs* into *ours*, hooks included; None on conflict. The workspace must be prepared afterwards."""
        settings = self._begin()
        self._mending(lambda: self._place(ours, None))
        if refused := self._asks_for("merge", settings):
            raise ConfigRefused(refused, remedy=_NAME_IT)
        found = self.git.at(self.path).run("merge-tree", "--write-tree", "--no-messages", ours, theirs)  # attributes
        if found.exit_code == _CONFLICT:
            return None
        if not found.ok:
            raise GitFailed(f"git merge-tree failed in {self.path}: {said(found).strip()}", output=found.output)
        made = self._written(Taken(found.output.split()[-1], ()), (ours, theirs), message, settings)
        if isinstance(made, CommitRefused):
            raise GitFailed(f"the merge in {self.path} was refused: {made.output.strip()}", output=made.output)
        return made.sha if made else ours

    @property
    def git(self) -> Git:
        """Git on the private store, with this work tree."""
        return self.store.git(self.path, self.name)

    @_told_in_words
    def untracked(self) -> frozenset[str]:
        """The files that are beside the tracked ones, ignored or not; of a folder of such, what is directly in it."""
        self._restore()
        disarm(self.path)
        return frozenset(map(shown, self._beside()))

    def _beside(self) -> Iterator[str]:
        for path in self.git.repo.paths("ls-files", "--others", "--directory", "-z"):
            if not path.endswith("/"):
                yield path
            elif is_folder(self.path / path):
                yield from (f"{path}{each.name}" for each in (self.path / path).iterdir())

    @_told_in_words
    def remove_untracked(self, unwanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Remove the *unwanted* of the files that are beside the tracked ones; those."""
        self._restore()
        disarm(self.path)
        found = sorted(path for path in self._beside() if unwanted(shown(path)))
        self._put(found, ())
        return tuple(map(shown, found))

    @_told_in_words
    def put_back(self) -> tuple[str, ...]:
        """Make the tracked files as they were put there; those that were not."""
        self._restore()
        disarm(self.path)
        found = self.git.repo.paths("diff", "--name-only", "--no-ext-diff", "--ignore-submodules=all", "-z")
        self._put(found, found)
        return tuple(map(shown, found))

    @_told_in_words
    def put(self, commit: str, paths: Sequence[str]) -> None:
        """Make these files as they are in *commit*; one that it does not have is removed."""
        there = self.git.repo.paths("ls-tree", "-r", "--name-only", "-z", commit)
        self._put(paths, sorted({*paths}.intersection(there)), commit)

    def _put(self, paths: Sequence[str], there: Sequence[str], *commit: str) -> None:
        """Remove *paths*, and put those of them *there* that are in the commit, or in the index."""
        for path in paths:
            remove_beneath(self.path, path)
        if there:
            listed = ("--pathspec-from-file=-", "--pathspec-file-nul")
            names = os.fsencode("\0".join(there))
            self.git.change("--literal-pathspecs", "checkout", "--force", *commit, *listed, stdin=names)

    @property
    def _prepared_for(self) -> Path:
        """Holds the base that the files belong to; missing while the workspace is being prepared."""
        return self.store.folder / f"{self.name}.base"

    @property
    def _earlier_note(self) -> Path:
        """The same of a workspace of an earlier version."""
        return self.path.parent / f"{self.name}.base"

    def _noted_bases(self) -> frozenset[str]:
        found = (read_beneath(note.parent, note.name, _NOTE_BYTES) for note in (self._prepared_for, self._earlier_note))
        return frozenset(base.decode("ascii", "replace") for base in found if base)

    @property
    def _owner_note(self) -> Path:
        """Holds the owner of what is ignored in the folder; empty if nobody has a right to it."""
        return self.store.folder / f"{self.name}.owner"

    @property
    def _published_note(self) -> Path:
        """Holds the commit of the target at which caches were built that the folder was made of."""
        return self.store.folder / f"{self.name}.published"

    def _begin(self, owner: str = "") -> Settings:
        """What is in the workspace counts no more; it is removed, unless it is the *owner*'s."""
        if self.name == "run":  # its last commit is kept or given up by now
            self.store.tidy()
        settings = self._restore()
        if not (owner and bytes_of(self._owner_note) == owner.encode()):
            self._owner_note.unlink(missing_ok=True)
            discard(self.path)
            self._drop_index()
        for note in (
            self._prepared_for,
            self._submodules_had,
            self._earlier_note,
            self.path.parent / f"{self.name}.gitconfig",
        ):
            note.unlink(missing_ok=True)
        (self.store.git_dir / self.store.made_ref(self.path)).unlink(missing_ok=True)
        if not is_folder(self.path):
            remove(self.path)
            make_private(self.path)
        remove_half_made(self.path.parent)
        return settings

    def _restore(self) -> Settings:
        settings = self.settings()
        self.store.restore(settings, self.policy)
        return settings

    def _require_contents(self) -> None:
        """Raise if the whole workspace was removed: that must not pass for deleting all files of the project."""
        if not is_folder(self.path) or not any(self.path.iterdir()):
            raise EnvironmentRefused(
                f"the workspace {self.path} was removed while it was worked in",
                remedy="if you did not do it, look at what the agent did (its transcript is under .mino/reports); "
                "to go on makes it anew and tries again",
            )

    def _mending(self, action: Callable[[], T]) -> T:
        """Do *action*; if git fails, try again with a new index, finally with a new store."""
        for mend in (self._drop_index, self._renew):
            try:
                return action()
            except GitFailed:
                mend()
        return action()

    def _drop_index(self) -> None:
        """Remove the index, which may be damaged."""
        self.store.index(self.name).unlink(missing_ok=True)

    def _renew(self) -> None:
        self.store.renew()
        self._restore()

    def _place(self, tree: str, cancel: Cancellation | None) -> None:
        disarm(self.path)
        self.git.change(*_AT_ONCE, "read-tree", "--reset", "-u", tree, cancel=cancel)
        if os.path.lexists(self.path / ".gitmodules"):  # they come by a set-up command, into empty folders
            empty(self.path, submodules(self.git))
        self.git.change("clean", "-ffdxq" if self.policy.pristine else "-ffdq")

    @property
    def _submodules_had(self) -> Path:
        return self.store.folder / f"{self.name}.submodules"

    def _submodules(self) -> dict[str, str]:
        """The tree of the files in each submodule that is there; those of an agent's own workspace alone."""
        if self.name != "run" or not os.path.lexists(self.path / ".gitmodules"):
            return {}
        found = dict[str, str]()
        for path in submodules(self.git):
            with suppress(OSError):  # it is not there, or behind a link
                disarm(self.path, path)
                found[shown(path)] = whole_tree(self.store.git(self.path / path, "submodule"))
        return found

    def _submodules_changed(self) -> list[str]:
        """Those whose files differ from what set-up brought."""
        if not self._submodules_had.is_file():
            return []
        had, now = json.loads(self._submodules_had.read_text(encoding="utf-8")), self._submodules()
        return sorted(path for path, tree in now.items() if had.get(path, tree) != tree)

    def _taken(self, base: str, *, whole: bool = True, without: Collection[str] = ()) -> Taken | CommitRefused | None:
        if not self.store.index(self.name).is_file():  # an earlier version prepared the workspace, without one
            self.git.change("read-tree", base)
        return take(self.git, self.path, base, whole=whole, without=without)

    def _fill(
        self, head: str, tree: str, settings: Settings, cancel: Cancellation | None = None, *, published: str
    ) -> None:
        cached = self._cached(tree, published, settings, cancel)
        self._put_files(head, tree, settings, cancel)
        if cached:
            self._caches.bring(cached)
        else:
            self._set_up(cancel)

    def _put_files(self, head: str, tree: str, settings: Settings, cancel: Cancellation | None) -> None:
        self._mending(lambda: self._place(tree, cancel))
        if refused := self._asks_for("filter", settings):
            raise ConfigRefused(refused, remedy=_NAME_IT)
        self._copy_files()
        self._throwaway.put(head, settings, (head,), tree)

    def _cached(self, tree: str, published: str, settings: Settings, cancel: Cancellation | None) -> str | None:
        """The name of the cache that serves for *tree*, built if it is missing; `None` if none may.

        What an attempt wrote has no part in one: where it changed dependencies, set-up runs for it alone.
        """
        if not (self.policy.cache_paths and published):
            return None
        key = self._mending(lambda: self._caches.key(self.git, published))
        if self._mending(lambda: self._caches.key(self.git, tree)) != key:
            return None
        if not self._caches.has(key):
            self._make_folder_anew()
            self._put_files(published, published, settings, cancel)
            self._set_up(cancel)
            self._keep(key)
            self._make_folder_anew()
        return key

    def _keep(self, key: str) -> None:
        """Make the cache of what set-up left, and tell what will be missing where it serves."""
        disarm(self.path)
        found = self.git.repo.paths("ls-files", "--others", "--directory", "--no-empty-directory", "-z")
        made = [path.rstrip("/") for path in found if path.rstrip("/") not in self.policy.copy_files]
        self._caches.keep(key, made)
        if missed := self._caches.missed(made):
            self.note(
                f"workspace.setup also makes {few([*map(shown, missed)])}: where the cache serves, that is missing, "
                "unless workspace.cache in .mino/config.yml names it too"
            )

    def _make_folder_anew(self) -> None:
        discard(self.path)
        self._drop_index()
        make_private(self.path)

    @property
    def _caches(self) -> SetupCaches:
        return SetupCaches(self.path.parent / "caches", self.path, self.policy, self.store.source.children)

    @property
    def _throwaway(self) -> ThrowAwayGit:
        return ThrowAwayGit(self.store, self.path, self.name)

    def _asks_for(self, attribute: str, settings: Settings) -> str:
        """Why the files cannot be taken without a program of the user's that was not approved; empty if they can."""
        programs = settings.programs(f"{attribute}.", self.policy.filters)
        found = asking_for(self.git, self.path, attribute, programs)
        return f"{found} needs a program of your git settings that may not run here" if found else ""

    def _written(
        self, taken: Taken, parents: tuple[str, ...], message: str, settings: Settings
    ) -> Committed | CommitRefused | None:
        """Make the commit, after the user's hooks and signed if he signs, and the ref by which a crash leaves it."""
        if has_hooks(settings, self.store.common_dir):
            published = bytes_of(self._published_note).decode("ascii")
            theirs = replace(self, name="hooks", path=self.path.with_name("hooks"))
            found = theirs._hooked(taken.tree, parents, message, settings, published)  # noqa: SLF001  (its own)
            if not isinstance(found, tuple) or isinstance(found, CommitRefused):
                return found
            after, written = found
            taken, message = after._replace(left=(*taken.left, *after.left)), self._with_trailers(written, message)
        try:
            sha = commit_tree(self.git, taken.tree, parents, message, sign=settings.is_on("commit.gpgsign"))
        except GitFailed as error:
            return CommitRefused(error.output or error.message)
        self.git.change(*DURABLY, "update-ref", self.store.made_ref(self.path), sha)
        return Committed(sha, taken.files, taken.left)

    def _hooked(
        self, tree: str, parents: tuple[str, ...], message: str, settings: Settings, published: str
    ) -> tuple[Taken, str] | CommitRefused | None:
        """What the hooks make of the commit, in this folder of theirs, which is set up as another workspace is."""
        self._begin()
        self._fill(parents[0], tree, settings, published=published)
        children = self.store.source.children.lending(lambda: self.store.history.lent).within(self.policy.place)
        environment = hooks_environment(self.store.environment, self.path)
        return HookRun(self._throwaway, children, environment, settings, *parents).run(message)

    def _with_trailers(self, written: str, message: str) -> str:
        """The message that hooks have written, with our trailers put back that it lacks."""
        there = self.git.read("interpret-trailers", "--parse", stdin=written.encode()).decode().splitlines()
        lost = [line for line in message.splitlines() if line.startswith("Irontree-") and line not in there]
        words = [word for line in lost for word in ("--trailer", line)]
        return self.git.read("interpret-trailers", *words, stdin=written.encode()).decode() if lost else written

    def _copy_files(self) -> None:
        names = self.policy.copy_files
        require_inside(names)
        tracked = self.git.repo.paths("ls-files", "-z", "--", *names) if names else ()
        if tracked:
            raise ConfigRefused(
                f"workspace.copy names {tracked[0]}, which git tracks",
                remedy="take it out of workspace.copy in .mino/config.yml: tracked files are there anyway",
            )
        copy_files(names, self.store.source.folder, self.path)

    def _set_up(self, cancel: Cancellation | None) -> None:
        for command in self.policy.setup:
            self._run_set_up(command, cancel)

    def _run_set_up(self, command: str, cancel: Cancellation | None) -> None:
        done = (
            self.store.source.children.lending(lambda: self.store.history.lent)
            .within(self.policy.place)
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


def commit_tree(git: Git, tree: str, parents: Sequence[str], message: str, *, sign: bool = False) -> str:
    """Write a commit object; returns its id. Raises GitFailed, also where it cannot be signed."""
    words = [*(word for parent in parents for word in ("-p", parent)), *(("-S",) if sign else ())]
    made = git.change(*DURABLY, "commit-tree", *words, "-F", "-", tree, stdin=tidy(message).encode())
    return made.splitlines()[-1]


def tidy(message: str) -> str:
    """The message without white space at the ends of lines, and without empty lines around it or one after another."""
    text = "\n".join(line.rstrip() for line in message.splitlines()).strip("\n")
    return _EMPTY_LINES.sub("\n\n", text) + "\n"
