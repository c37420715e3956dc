"""The user's git settings, and which of them the private store and the workspaces get (R4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# What of the user's settings the private store gets: committer, signing, and conversions of file contents. Values of
# all scopes, because a user's `includeIf "gitdir:~/work/"` does not apply in the state folder.
_CARRIED_SECTIONS = ("user.", "author.", "committer.", "gpg.", "filter.", "merge.", "lfs.", "i18n.")
# Programs: they run where the files of an agent are, so only those that were approved.
_PROGRAMS = ("filter.", "merge.")
_LINES = ("core.autocrlf", "core.eol", "core.safecrlf", "core.whitespace", "core.commentchar")
_CARRIED = frozenset({"core.attributesfile", "core.excludesfile", *_LINES})

# Names that some file system takes for `.git` are refused on all: people who fetch the commit have others.
_OURS = (("core.hookspath", "/dev/null"), ("core.protecthfs", "true"), ("core.protectntfs", "true"))

# What of them a workspace gets. No key, no program, no path.
_SHOWN_SECTIONS = ("author.", "committer.", "i18n.")
_SHOWN = frozenset({"user.name", "user.email", *_LINES})

# In a workspace the user's credential helpers are not used, and a push to any address is refused, also to one added
# as a remote there. What an agent does outside its workspace, or undoes, is beyond this (private-workspaces).
_SEALED = (("credential.helper", ""), ("url.no-push-from-a-workspace://.pushinsteadof", ""))
_NOWHERE = "https://no-download-into-a-workspace.invalid"
_TRUE = frozenset({"true", "yes", "on", "1"})


class Settings(NamedTuple):
    """All settings in force in a repository, in git's reading order: the last of a name counts."""

    entries: tuple[tuple[str, str], ...]
    own: tuple[tuple[str, str], ...] = ()
    """Those of them that stand in the repository's own file, not in one that it includes: a commit can change that."""
    files: tuple[str, ...] = ()
    """What they were read from, seen from the folder of the repository."""

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

    def keeps_hooks_in(self, files: Path, common_dir: Path) -> bool:
        """Whether the hooks in force, or one by a link, are in the worktree *files*, where work can change them."""
        if self.relative_hooks_path:
            return True
        folder = Path(self.hooks_path).expanduser() if self.hooks_path else common_dir / "hooks"
        found = [folder, *(folder.iterdir() if folder.is_dir() else ())]
        ours, top = common_dir.resolve(), files.resolve()
        return any(
            path.is_relative_to(top) and not path.is_relative_to(ours) for path in (each.resolve() for each in found)
        )

    def is_on(self, name: str) -> bool:
        """Whether the setting *name* is true."""
        return (self.get(name) or "").lower() in _TRUE

    def programs(self, section: str, approved: Sequence[str]) -> frozenset[str]:
        """The names in `SECTION.NAME.variable` that are not among the *approved*."""
        return frozenset(name for key, _ in self.entries if (name := _program(key, section))).difference(approved)

    def for_store(self, common_dir: Path, approved: Sequence[str]) -> str:
        """Configuration text for the private store of the repository at *common_dir*.

        It has the filters and merge drivers whose names are among the *approved*.
        """
        refused = {each: self.programs(each, approved) for each in _PROGRAMS}
        carried = [
            (key, value)
            for key, value in self.entries
            if (key in _CARRIED or key.startswith(_CARRIED_SECTIONS))
            and not any(_program(key, each) in names for each, names in refused.items())
        ]
        if "lfs" in approved and not self.get("lfs.storage"):
            # A shared store of large files: nothing is downloaded twice, and the user's push finds new ones.
            carried.append(("lfs.storage", str(common_dir / "lfs")))
        if "lfs" in approved and not self.get("lfs.url"):  # or the one in the work's `.lfsconfig` would count
            carried.append(("lfs.url", _NOWHERE))
        return "".join(_line(key, value) for key, value in (*carried, *_OURS))

    def for_workspace(self) -> str:
        """Configuration text for the throw-away `.git` of a workspace."""
        shown = [(key, value) for key, value in self.entries if key in _SHOWN or key.startswith(_SHOWN_SECTIONS)]
        return "".join(_line(key, value) for key, value in (*shown, *_SEALED))


def _program(key: str, section: str) -> str:
    """NAME in `SECTION.NAME.variable`; empty for any other key."""
    return key.removeprefix(section).rpartition(".")[0] if key.startswith(section) else ""


_FILE = "file:"
LISTING = ("config", "--list", "--show-scope", "--show-origin", "-z")


def parse_settings(text: str) -> Settings:
    """Parse what `LISTING` prints; a setting without a value is true."""
    fields = iter(text.split("\0"))
    entries = [
        (scope, origin, (key, value if has_value else "true"))
        for scope, origin, (key, has_value, value) in zip(
            fields, fields, (entry.partition("\n") for entry in fields), strict=False
        )
    ]
    own_file = next((origin for scope, origin, _ in entries if scope == "local"), None)
    origins = dict.fromkeys(origin for _, origin, _ in entries)
    return Settings(
        tuple(setting for _, _, setting in entries),
        tuple(setting for scope, origin, setting in entries if scope == "local" and origin == own_file),
        tuple(origin.removeprefix(_FILE) for origin in origins if origin.startswith(_FILE)),
    )


def _line(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    subsection, _, variable = rest.rpartition(".")
    head = f'[{section} "{_escaped(subsection)}"]' if subsection else f"[{section}]"
    return f'{head}\n\t{variable} = "{_escaped(value)}"\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
