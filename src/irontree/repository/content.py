"""What commits hold: their files, and how they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from irontree.errors import GitFailed
from irontree.ports import Document, LineCount
from irontree.repository.history import shown

if TYPE_CHECKING:
    from irontree.repository.git import Git


def document_at(git: Git, sha: str, path: str) -> Document | None:
    """The text file *path* of commit *sha*, under the name it has there in whatever case; None if there is none.

    Raises GitFailed for what is no text.
    """
    folder = path.rpartition("/")[0]
    names = git.paths("ls-tree", "-z", "--name-only", sha, "--", f"{folder}/" if folder else ".")
    name = next((name for name in sorted(names, key=lambda name: name != path) if _same(name, path)), None)
    if name is None:
        return None
    answer = git.ask("cat-file", "blob", f"{sha}:{name}")
    try:
        if answer.exit_code == 0:
            return Document(name, answer.stdout.decode())
    except UnicodeDecodeError as error:
        raise GitFailed(f"{name} is not text in UTF-8", remedy="move it, or set report.docs_path") from error
    raise GitFailed(f"{name} is not a file", remedy="move it, or set report.docs_path")


def _same(name: str, path: str) -> bool:
    """Whether a file system that takes upper and lower case for one would have them in one place."""
    return name.casefold() == path.casefold()


def diff(git: Git, base: str, sha: str) -> str:
    """The unified diff between two commits, as text for people."""
    answer = git.ask("diff", "--no-ext-diff", "--no-textconv", base, sha)
    if answer.exit_code != 0:
        raise GitFailed(f"no diff between {base} and {sha} in {git.folder}", output=answer.stderr.decode())
    return answer.stdout.decode("utf-8", "replace")


def changed_files(git: Git, base: str, sha: str) -> tuple[str, ...]:
    """Paths that differ between two commits; a renamed file is two."""
    found = git.paths("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", base, sha)
    return tuple(shown(path) for path in found)


def line_counts(git: Git, base: str, sha: str) -> tuple[LineCount, ...]:
    """The same, each with how many lines came and went; git writes `-` for files that it takes for binary."""
    found = git.paths("diff", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "-z", base, sha)
    return tuple(_line_count(*entry.split("\t", 2)) for entry in found)


def _line_count(added: str, removed: str, path: str) -> LineCount:
    has_lines = added.isdecimal() and removed.isdecimal()
    return LineCount(shown(path), int(added) if has_lines else None, int(removed) if has_lines else None)
