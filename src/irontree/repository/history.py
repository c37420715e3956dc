"""Questions about commits and refs, what commits hold and how they differ; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from irontree.errors import GitFailed
from irontree.ports import Document, LineCount
from irontree.repository.git import Git

_BATCH = 500
_TRAILERS = "--format=%H%n%(trailers:only,unfold)%x00"


def has_commit(git: Git, sha: str) -> bool:
    """Whether the commit is here."""
    return commit_of(git, sha) is not None


def present(git: Git, shas: Sequence[str]) -> frozenset[str]:
    """Those of *shas* that are commits here."""
    options = ("--no-walk=unsorted", "--ignore-missing")
    return frozenset(sha for some in _batches(shas) for sha in git.repo.git.rev_list(*options, *some, "--").split())


def unreferenced(git: Git, shas: Sequence[str]) -> frozenset[str]:
    """Those of *shas*, all of them here, that are reachable from no ref."""
    return frozenset(
        sha for some in _batches(shas) for sha in git.repo.git.rev_list(*some, "--not", "--all", "--").split()
    ).intersection(shas)


def _batches(shas: Sequence[str]) -> Iterator[Sequence[str]]:
    """Command lines have a limit of length; no command at all for nothing, which git would take for HEAD."""
    return (shas[start : start + _BATCH] for start in range(0, len(shas), _BATCH))


def commit_of(git: Git, ref: str) -> str | None:
    """The commit that *ref* points at; None if there is no such ref."""
    return git.repo.find(f"{ref}^{{commit}}")


def stands_at(git: Git, sha: str) -> bool:
    """Whether HEAD of a private clone is detached at *sha*, without asking git: then `{sha}..HEAD` is empty."""
    try:
        with (git.folder / ".git" / "HEAD").open("rb") as head:
            return head.read(len(sha) + 2).strip() == sha.encode()
    except OSError:
        return False


def is_ancestor(git: Git, older: str, newer: str) -> bool:
    """Whether *newer* contains *older* (a commit contains itself); False if either is not here."""
    return git.repo.says("merge-base", "--is-ancestor", older, newer)


def merge_of(git: Git, sha: str, branch: str) -> tuple[str, str | None] | None:
    """The commit on *branch* that brought *sha* in, and its committer; None if *branch* has not got *sha*.

    Where it was fast-forwarded there is no such commit: it is *sha* itself, and nobody is named.
    """
    if not is_ancestor(git, sha, branch):
        return None
    ask, since = git.repo.git, f"{sha}..{branch}"
    behind = frozenset(ask.rev_list("--ancestry-path", since, "--").split())
    own = ask.log("--first-parent", "--format=%H %P%x09%cn", since, "--").splitlines()
    brought = next((line for line in reversed(own) if line.split(maxsplit=1)[0] in behind), None)
    if brought is None:
        return sha, None
    hashes, _, committer = brought.partition("\t")
    commit, first_parent, *_ = hashes.split()
    return (sha, None) if first_parent == sha else (commit, committer)


def commit_with_token(git: Git, token: str, base: str) -> str | None:
    """The one commit in `base..HEAD` of which a trailer of ours holds *token*; None for none or several."""
    if stands_at(git, base):
        return None
    text = git.repo.git.log(_TRAILERS, f"{base}..HEAD", with_exceptions=False)  # a workspace may not know this base
    found = [sha for sha, tokens in _trailers(text) if token in tokens]
    return found[0] if len(found) == 1 else None


def _trailers(log: str) -> Iterator[tuple[str, set[str]]]:
    for entry in filter(str.strip, log.split("\0")):
        sha, *trailers = entry.strip().splitlines()
        ours = (line.partition(":") for line in trailers if line.lower().startswith("irontree-"))
        yield sha, {value.strip() for _, _, value in ours}


def shown(path: str) -> str:
    """A path for events and reports: bytes that are no UTF-8 become a replacement mark."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# --- What commits hold: their files, and how they differ


def document_at(git: Git, sha: str, path: str) -> Document | None:
    """The text file *path* of commit *sha*, under the name it has there in whatever case; None if there is none.

    Raises GitFailed for what is no text.
    """
    folder = path.rpartition("/")[0]
    names = git.repo.paths("ls-tree", "-z", "--name-only", sha, "--", f"{folder}/" if folder else ".")
    name = next((name for name in sorted(names, key=lambda name: name != path) if _same(name, path)), None)
    if name is None:
        return None
    content = git.repo.content(f"{sha}:{name}")
    try:
        if content is not None:
            return Document(name, content.decode())
    except UnicodeDecodeError as error:
        raise GitFailed(f"{name} is not text in UTF-8", remedy="move it, or set report.docs_path") from error
    raise GitFailed(f"{name} is not a file", remedy="move it, or set report.docs_path")


def _same(name: str, path: str) -> bool:
    """Whether a file system that takes upper and lower case for one would have them in one place."""
    return name.casefold() == path.casefold()


def diff(git: Git, base: str, sha: str) -> str:
    """The unified diff between two commits, as text for people."""
    printed: bytes = git.repo.git.diff("--no-ext-diff", "--no-textconv", base, sha, stdout_as_string=False)
    return printed.decode("utf-8", "replace")


def changed_files(git: Git, base: str, sha: str) -> tuple[str, ...]:
    """Paths that differ between two commits; a renamed file is two."""
    found = git.repo.paths("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", base, sha)
    return tuple(shown(path) for path in found)


def line_counts(git: Git, base: str, sha: str) -> tuple[LineCount, ...]:
    """The same, each with how many lines came and went; git writes `-` for files that it takes for binary."""
    found = git.repo.paths("diff", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "-z", base, sha)
    return tuple(_line_count(*entry.split("\t", 2)) for entry in found)


def _line_count(added: str, removed: str, path: str) -> LineCount:
    has_lines = added.isdecimal() and removed.isdecimal()
    return LineCount(shown(path), int(added) if has_lines else None, int(removed) if has_lines else None)
