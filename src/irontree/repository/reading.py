"""Reads from a repository through GitPython, whose git is run under the same rules as ours (decision 0006)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from irontree.domain.protection import LineCount
from irontree.errors import EnvironmentRefused, GitFailed
from irontree.processes.running import Process
from irontree.repository.settings import Settings

_OF_ITS_OWN = {name: os.environ.pop(name) for name in tuple(os.environ) if name.startswith("GIT_PYTHON_")}
# An import must not depend on a child, which may be killed: with a git that is not there none is asked for its version.
_WITHOUT_CHILD = {"GIT_PYTHON_GIT_EXECUTABLE": "/nonexistent/git", "GIT_PYTHON_REFRESH": "quiet"}
os.environ.update(_WITHOUT_CHILD)
import git  # noqa: E402  (it looks at these variables now: for another git, and for whether to write to the terminal)
from git.repo.fun import find_worktree_git_dir  # noqa: E402

for _name in _WITHOUT_CHILD:
    del os.environ[_name]
os.environ.update(_OF_ITS_OWN)

T = TypeVar("T")

_UNADORNED = ("--no-ext-diff", "--no-textconv")
_NOTHING, _LINK = "000000", "120000"
"""Modes of what is not there, and of a symbolic link."""
_BATCH = 500
_QUESTIONS = 3
"""How often the child that answers is asked the same, when it has ended."""


class Runner(Protocol):
    """What a reader needs of `Git`, which itself has a reader."""

    @property
    def folder(self) -> Path:
        """The worktree."""

    def read(self, *words: str, stdin: bytes = b"", strict: bool = True) -> bytes:
        """See `Git.read`."""

    def answering(self, *words: str) -> Process | None:
        """See `Git.answering`."""

    def settings_of_reader(self) -> Settings:
        """See `Git.settings_of_reader`."""


class Change(NamedTuple):
    """A file that differs, with its modes and the ids of its contents; zeros where it is not there."""

    path: str
    old_mode: str
    old_id: str
    mode: str
    id: str

    @property
    def is_new(self) -> bool:
        """Whether it was not there before."""
        return self.old_mode == _NOTHING


class GitReader(git.Repo):
    """GitPython's view of the worktree that *runner* works in; see `Git.repo`.

    Git itself has found the worktree: GitPython would follow the caller's GIT_DIR. Git also says what names of refs
    and objects mean, and not GitPython's own reading of files, which knows no reftables and only UTF-8.
    """

    def __init__(self, runner: Runner) -> None:
        dot_git = runner.folder / ".git"
        linked = None if dot_git.is_dir() else find_worktree_git_dir(dot_git)
        self.git_dir = runner.folder / linked if linked else dot_git
        self.working_dir = self._working_tree_dir = runner.folder
        self.git: _Commands = _Commands(runner)
        self._runner = runner

    def find(self, name: str) -> str | None:
        """The id of the object that git resolves *name* to (`main^{tree}`, `HEAD:a.txt`); `None` if there is none."""
        found = self._answer(self.git.get_object_header, name)
        return found[0] if found else None

    def content(self, name: str) -> bytes | None:
        """The content of the file that *name* resolves to, or `None`."""
        found = self._answer(self.git.get_object_data, name)
        return found[3] if found and found[1] == "blob" else None

    def paths(self, command: str, *words: str, **options: bool) -> tuple[str, ...]:
        """The paths that a command prints with `-z`."""
        return tuple(path for path in getattr(self.git, command)(*words, **options).split("\0") if path)

    def says(self, command: str, *words: str) -> bool:
        """Whether a command succeeds, by its exit code."""
        try:
            getattr(self.git, command)(*words)
        except GitFailed:
            return False
        return True

    def commit_of(self, ref: str) -> str | None:
        """The commit that *ref* points at; None if there is no such ref."""
        return self.find(f"{ref}^{{commit}}")

    def contains(self, tip: str, sha: str) -> bool:
        """Whether *tip* has *sha* in its history (a commit has itself); False if either is not here."""
        return self.says("merge-base", "--is-ancestor", sha, tip)

    def listed(self, shas: Sequence[str], *options: str, but: Sequence[str] = ()) -> Iterator[str]:
        """The output of `rev-list` for *shas*, in batches that fit a command line; without any it would list HEAD."""
        for start in range(0, len(shas), _BATCH):
            yield from self.git.rev_list(*options, *shas[start : start + _BATCH], *but, "--").split()

    def stands_at(self, there: str) -> bool:
        """Whether HEAD names *there*, a commit or a branch in full, without asking git; False if only git can tell."""
        try:  # without waiting: an agent can put a pipe in its place, and this read has no limit of time
            head = os.open(Path(self.git_dir) / "HEAD", os.O_RDONLY | os.O_NONBLOCK)
            try:
                return os.read(head, len(there) + 7).removeprefix(b"ref: ").strip() == os.fsencode(there)
            finally:
                os.close(head)
        except OSError:
            return False

    @cached_property
    def settings(self) -> Settings:
        """All settings in force."""
        return self._runner.settings_of_reader()

    def _answer(self, question: Callable[[str], T], name: str) -> T | None:
        if "\n" in name:  # would be two questions, and shift all later answers
            return None
        for left in reversed(range(_QUESTIONS)):
            try:
                return question(name)
            except ValueError:  # there is no such object, or nothing can have such a name
                return None
            except GitFailed:  # the child was for this one query
                raise
            except (EnvironmentRefused, BrokenPipeError) as error:
                self.git.clear_cache()  # it has ended, or would give this answer to the next query
                if left and isinstance(error, BrokenPipeError):  # it was killed, perhaps
                    continue
                message = f"git cat-file does not answer in {self.working_dir}: {error}"
                raise GitFailed(message, remedy="look there with `git fsck`") from error
        return None

    # --- what differs between two commits

    def diff(self, base: str, sha: str, first: Sequence[str]) -> str:
        """The unified diff, as git writes it; the files in *first*, if there are any, before all others."""

        def part(*pathspecs: str) -> str:
            return str(self.git.diff(*_UNADORNED, base, sha, "--", *pathspecs, strip_newline_in_stdout=False))

        ahead = part(*(f":(top,literal){path}" for path in first)) if first else ""
        return ahead + part(":(top)", *(f":(top,exclude,literal){path}" for path in first))

    def changes(self, command: str, *words: str) -> Iterator[Change]:
        """What a plumbing command of git's says of each file that differs."""
        entries = iter(self.paths(command, "--raw", "--no-renames", "-z", *words))
        for facts, path in zip(entries, entries, strict=True):
            old_mode, mode, old_id, new_id, _ = facts.removeprefix(":").split()
            yield Change(path, old_mode, old_id, mode, new_id)

    def texts(self, base: str, sha: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, str, str]]:
        """Each *wanted* file that differs, with what can be read in it before and now; in UTF-16 that is ASCII."""
        for change in self.changes("diff-tree", "-r", base, sha):
            if wanted(change.path):
                before, now = (_as_text(self.content(each) or b"") for each in (change.old_id, change.id))
                yield change.path, before, now

    def line_counts(self, base: str, sha: str) -> Iterator[LineCount]:
        """The lines added and removed in each file that differs; a renamed file is two."""
        changes = {change.path: change for change in self.changes("diff-tree", "-r", base, sha)}
        for entry in self.paths("diff", "--numstat", "--no-renames", *_UNADORNED, "-z", base, sha):
            added, removed, path = entry.split("\t", 2)
            came, went = (int(lines) if lines.isdecimal() else None for lines in (added, removed))  # binary: `-`
            change = changes[path]
            kept = change.is_new or change.mode == change.old_mode
            yield LineCount(path, came, went, new=change.is_new, kept=kept, link=change.mode == _LINK)

    def files(self, sha: str) -> Iterator[tuple[str, str]]:
        """The path of each file in that commit, with where it leads if it is a link."""
        for entry in self.paths("ls-tree", "-r", "-z", sha):
            facts, _, path = entry.partition("\t")
            mode, _, name = facts.split()
            yield path, _as_text(self.content(name) or b"") if mode == _LINK else ""


def _as_text(data: bytes) -> str:
    return data.replace(b"\0", b"").decode("utf-8", "replace")


class _Commands(git.Git):
    """GitPython's commands, and its conversation with `cat-file`, in the environment and limits of the runner."""

    __slots__ = ("_runner",)

    def __init__(self, runner: Runner) -> None:
        super().__init__()
        self._runner = runner

    def execute(  # type: ignore[override]
        self, command: list[str], *, as_process: bool = False, with_exceptions: bool = True, **options: Any
    ) -> Any:
        """What the command prints; raises GitFailed on any exit code but 0."""
        _, *words = command
        if as_process:
            return self._runner.answering(*words) or _Once(self._runner, words)
        printed = self._runner.read(*words, strict=with_exceptions).decode("utf-8", "surrogateescape")
        return printed.removesuffix("\n") if options.get("strip_newline_in_stdout", True) else printed

    def clear_cache(self) -> _Commands:
        """Use another child from now on."""
        self.cat_file_all = self.cat_file_header = None
        return self

    def _parse_object_header(self, header_line: Any) -> Any:
        """As GitPython's, but for ids of any length: those of SHA-256 have 64 digits."""
        match header_line.decode().split():
            case []:
                raise BrokenPipeError("it has ended")
            case [sha, kind, size] if size.isdecimal():
                return sha, kind, int(size)
            case _:
                raise ValueError(header_line)


class _Once:
    """`cat-file` outside a use: one child per query."""

    def __init__(self, runner: Runner, words: list[str]) -> None:
        self.stdin, self.stdout = self, io.BytesIO()
        self._runner, self._words = runner, words

    def write(self, question: bytes) -> None:
        """Run the query."""
        self.stdout = io.BytesIO(self._runner.read(*self._words, stdin=question))

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""
