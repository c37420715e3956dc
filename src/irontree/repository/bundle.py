"""`refs/irontree/*` with their objects as one file, for `export` and `import` (ruling R21)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from irontree.errors import EnvironmentRefused, GitFailed
from irontree.repository.backup import LOG_REF
from irontree.repository.git import FETCH
from irontree.repository.history import is_ancestor

if TYPE_CHECKING:
    from irontree.repository.git import Git

OURS = "refs/irontree/"
_ALL_BUT_LOG = (f"{OURS}*:{OURS}*", f"^{LOG_REF}")


def refs(git: Git) -> dict[str, str]:
    """Every ref of ours, and the object that it names."""
    lines = git.read("for-each-ref", "--format=%(refname) %(objectname)", OURS).splitlines()
    return {name: sha for name, _, sha in (line.partition(" ") for line in lines)}


def pack(git: Git, target: Path) -> dict[str, str]:
    """Write all refs of ours and everything that they reach to *target*; the refs."""
    packed = refs(git)
    names = "".join(f"{name}\n" for name in packed)
    git.change("bundle", "create", "--quiet", str(target), "--stdin", stdin=names.encode())
    return packed


def require_whole(git: Git, bundle: Path, expected: Mapping[str, str]) -> None:
    """Raise EnvironmentRefused unless *bundle* has exactly the refs *expected*, all of them ours, and is complete."""
    listed = git.ask("bundle", "list-heads", str(bundle))
    lines = listed.stdout.decode("utf-8", "replace").splitlines()
    found = {name: sha for sha, _, name in (line.partition(" ") for line in lines)}
    foreign = [name for name in found if not name.startswith(OURS)]
    if listed.exit_code or found != dict(expected) or foreign or not git.holds("bundle", "verify", str(bundle)):
        raise EnvironmentRefused("the git objects in the archive are not complete", remedy="export again")


def unpack(git: Git, bundle: Path) -> None:
    """Bring the refs of *bundle* over, all or none; a backup of the log that did not lead there is kept as salvage.

    Raises EnvironmentRefused if another ref here went another way.
    """
    before = git.find("rev-parse", "--verify", "--quiet", LOG_REF)
    salvaged = f"{OURS}salvage/log/{before}"
    if before:
        git.change("update-ref", salvaged, before)
    try:
        git.change(*FETCH, "--atomic", str(bundle), *_ALL_BUT_LOG)
    except GitFailed as error:
        raise EnvironmentRefused(
            f"commits of tasks here are not those of the archive:\n{error.output.strip()}",
            remedy=f"look at `git for-each-ref {OURS}`; delete what you do not need, or import into a fresh clone",
        ) from error
    # The backup is made from files, which were compared before; all other refs only ever move forward.
    git.change(*FETCH, str(bundle), f"+{LOG_REF}:{LOG_REF}")
    if before and is_ancestor(git, before, LOG_REF):
        git.change("update-ref", "-d", salvaged)
