"""Where a repository's state lives, the user's git settings, and which of them a private workspace gets (R4)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, NoReturn

from irontree.errors import NotARepository
from irontree.repository.git import Git


class Worktree(NamedTuple):
    """An entry of `git worktree list`; *branch* is a full ref name, None if HEAD is detached."""

    path: Path
    branch: str | None
    bare: bool


def main_worktree(git: Git) -> Path:
    """The main worktree of the repository that *git*'s folder is in; the folder itself for a submodule's.

    A bare repository has none: `git config irontree.dir` then names the linked worktree that takes its place.
    Raises NotARepository.
    """
    main = worktrees(git)[0]
    if not main.bare and _is_worktree(main.path):
        return main.path
    return _configured(git) or _own_worktree(git, main) or _worktree_of_modules(git) or _refuse(main)


def worktrees(git: Git) -> tuple[Worktree, ...]:
    """All worktrees, the main one first. Raises NotARepository if there is no repository."""
    answer = git.ask("worktree", "list", "--porcelain")
    if answer.exit_code != 0:
        reason = answer.stderr.decode("utf-8", "replace").strip()
        raise NotARepository(f"{git.folder}: {reason}", remedy="go to a git repository, or make one with `git init`")
    entries = answer.stdout.decode("utf-8", "surrogateescape").split("\n\n")
    return tuple(_entry(entry) for entry in entries if entry)


def _entry(text: str) -> Worktree:
    fields = dict(line.partition(" ")[::2] for line in text.splitlines())
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
    found = None if main.bare else git.find("rev-parse", "--path-format=absolute", "--git-dir", "--show-toplevel")
    if not found:
        return None
    git_dir, _, top = found.partition("\n")
    return Path(top) if Path(git_dir) == common_dir(git) else None


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


# --- The user's git settings, and which of them a private workspace gets (R4)


# Committer, signing, and conversions of file contents. Values of all scopes, because a user's
# `includeIf "gitdir:~/work/"` does not apply in the cache folder.
_CARRIED_SECTIONS = ("user.", "author.", "committer.", "gpg.", "filter.", "merge.", "lfs.", "i18n.")
_CARRIED = frozenset(
    {
        "commit.gpgsign",
        "core.attributesfile",
        "core.autocrlf",
        "core.commentchar",
        "core.eol",
        "core.excludesfile",
        "core.hookspath",
        "core.safecrlf",
        "core.whitespace",
    }
)

# In a workspace the user's credential helpers are not used, and a push to any address is refused, also to one added
# as a remote there. What an agent does outside its workspace, or undoes, is beyond this (private-workspaces).
_SEALED = (("credential.helper", ""), ("url.no-push-from-a-workspace://.pushinsteadof", ""))


class Settings(NamedTuple):
    """All settings in force in a repository, in git's reading order: the last of a name counts."""

    entries: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str | None:
        """The value of *name* (section and variable in lower case); None if it is not set."""
        return next((value for key, value in reversed(self.entries) if key == name), None)

    @property
    def remotes(self) -> tuple[str, ...]:
        """The names in `remote.NAME.variable`, each once."""
        keys = (key for key, _ in self.entries if key.startswith("remote.") and key.count(".") > 1)
        return tuple(dict.fromkeys(key.split(".", 1)[1].rsplit(".", 1)[0] for key in keys))

    @property
    def hooks_path(self) -> str | None:
        """`core.hooksPath` if it is set to something."""
        return self.get("core.hookspath") or None

    @property
    def relative_hooks_path(self) -> str | None:
        """The hooks path if it is one inside the worktree, as husky's `.husky/_`."""
        path = self.hooks_path
        return path if path and not path.startswith(("/", "~", "%(")) else None

    def for_workspace(self, common_dir: Path) -> str:
        """Configuration text for a workspace, with the settings that it shares with the repository at *common_dir*."""
        carried = [(key, value) for key, value in self.entries if key in _CARRIED or key.startswith(_CARRIED_SECTIONS)]
        if self.get("filter.lfs.process") and not self.get("lfs.storage"):
            # A shared store of large files: nothing is downloaded twice, and the user's push finds new ones.
            carried.append(("lfs.storage", str(common_dir / "lfs")))
        return "".join(_line(key, value) for key, value in (*carried, *_SEALED))


def parse_settings(text: str) -> Settings:
    """Parse the output of `git config -z`; a setting without a value is true."""
    entries = (entry.partition("\n") for entry in text.split("\0") if entry)
    return Settings(tuple((key, value if has_value else "true") for key, has_value, value in entries))


def _line(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    subsection, _, variable = rest.rpartition(".")
    head = f'[{section} "{_escaped(subsection)}"]' if subsection else f"[{section}]"
    return f'{head}\n\t{variable} = "{_escaped(value)}"\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
