"""Where a repository's state lives: its worktrees, and the main one among them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, NoReturn

from irontree.errors import EnvironmentRefused, NotARepository
from irontree.repository.git import USAGE, Git


class Worktree(NamedTuple):
    """An entry of `git worktree list`; *branch* is a full ref name, None if HEAD is detached."""

    path: Path
    branch: str | None
    bare: bool


def main_worktree(git: Git) -> Path:
    """The main worktree of the repository that *git*'s folder is in; the folder itself for a submodule's.

    A bare repository has none: `git config irontree.dir` then names the linked worktree that takes its place.
    Raises NotARepository, and EnvironmentRefused for a folder whose name is no text.
    """
    main = worktrees(git)[0]
    if not main.bare and _is_worktree(main.path):
        found = main.path
    else:
        found = _configured(git) or _own_worktree(git, main) or _worktree_of_modules(git) or _refuse(main)
    _require_text(found)
    return found


def _require_text(folder: Path) -> None:
    """Refuse a name that is not UTF-8: it is told to the server, written into archives and shown on pages."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise EnvironmentRefused(
            f"the name of the folder {str(folder)!a} is not UTF-8 text",
            remedy="rename the folder, or the one that it is in",
        ) from None


def worktrees(git: Git) -> tuple[Worktree, ...]:
    """All worktrees, the main one first. Raises NotARepository if there is no repository."""
    answer, end = git.ask("worktree", "list", "--porcelain", "-z"), "\0"
    if answer.exit_code == USAGE:  # one before 2.36 lists them by lines alone
        answer, end = git.ask("worktree", "list", "--porcelain"), "\n"
    if answer.exit_code != 0:
        reason = answer.stderr.decode("utf-8", "replace").strip()
        raise NotARepository(f"{git.folder}: {reason}", remedy="go to a git repository, or make one with `git init`")
    entries = answer.stdout.decode("utf-8", "surrogateescape").split(2 * end)
    return tuple(_entry(entry, end) for entry in entries if entry)


def _entry(text: str, end: str) -> Worktree:
    fields = dict(line.partition(" ")[::2] for line in text.split(end))
    return Worktree(Path(fields["worktree"]), fields.get("branch"), "bare" in fields)


def _is_worktree(path: Path) -> bool:
    return (path / ".git").exists()


def _configured(git: Git) -> Path | None:
    value = git.find("config", "--get", "irontree.dir")
    if not value:
        return None
    path = Path(value)
    if not path.is_absolute() or not _is_worktree(path) or common_dir(git.at(path)) != common_dir(git):
        raise NotARepository(
            f"irontree.dir is {value}, which is not a worktree of this repository",
            remedy="set it to the absolute path of one: `git config irontree.dir PATH`",
        )
    return path


def _own_worktree(git: Git, main: Worktree) -> Path | None:
    """The current worktree, if it is the main one: for a submodule git lists its git folder instead."""
    git_dir, top = (
        None if main.bare else git.find("rev-parse", "--path-format=absolute", each)
        for each in ("--git-dir", "--show-toplevel")
    )
    return Path(top) if git_dir and top and Path(git_dir) == common_dir(git) else None


def _worktree_of_modules(git: Git) -> Path | None:
    """The main worktree of a submodule, found from a linked one."""
    common = common_dir(git)
    value = git.find("config", "--file", str(common / "config"), "--get", "core.worktree")
    return (common / value).resolve() if value else None


def common_dir(git: Git) -> Path:
    """The git folder that all worktrees share."""
    return Path(git.find("rev-parse", "--path-format=absolute", "--git-common-dir") or git.folder)


def _refuse(main: Worktree) -> NoReturn:
    what = "is a bare repository" if main.bare else "does not say where its main worktree is"
    raise NotARepository(
        f"{main.path} {what}, so there is no place for .mino/",
        remedy="name one of its worktrees: `git config irontree.dir /path/to/worktree`",
    )
