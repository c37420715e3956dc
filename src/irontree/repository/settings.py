"""The user's git settings, and which of them a private workspace gets (R4)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

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
