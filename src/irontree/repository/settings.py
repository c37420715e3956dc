"""The user's git settings, and which of them a private workspace gets (ruling R4)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irontree.repository.git import Git

# Who commits, how it is signed, and what git does to file contents on the way in and out. Values of all scopes,
# because an `includeIf "gitdir:~/work/"` of the user does not apply in his cache folder.
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

# In a workspace nobody asks the user's credential helpers, and a push to any address is refused, also to one that
# was added as a remote there. What an agent does outside its workspace, or undoes, is beyond this (private-workspaces).
_SEALED = (("credential.helper", ""), ("url.no-push-from-a-workspace://.pushinsteadof", ""))


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings that hold in a repository, in the order in which git read them: the last of a name counts."""

    entries: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str | None:
        """The value of *name* (section and variable in lower case); None if it is not set."""
        return next((value for key, value in reversed(self.entries) if key == name), None)

    def subsections(self, section: str) -> tuple[str, ...]:
        """The names in `section.NAME.variable`, each once: the remotes for `remote`."""
        parts = (key.split(".", 1)[1].rsplit(".", 1)[0] for key, _ in self.entries if _has_subsection(key, section))
        return tuple(dict.fromkeys(parts))

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
        """Configuration text with what a workspace shares with the repository at *common_dir*."""
        carried = [(key, value) for key, value in self.entries if key in _CARRIED or key.startswith(_CARRIED_SECTIONS)]
        if self.get("filter.lfs.process") and not self.get("lfs.storage"):
            # One store of large files for both: nothing is downloaded twice, and the user's push finds new ones.
            carried.append(("lfs.storage", str(common_dir / "lfs")))
        return "".join(_line(key, value) for key, value in (*carried, *_SEALED))


def read_settings(git: Git) -> Settings:
    """All settings in force in the repository."""
    return parse_settings(git.read("config", "--list", "-z"))


def parse_settings(text: str) -> Settings:
    """What `git config -z` prints; a setting without a value is true."""
    entries = (entry.partition("\n") for entry in text.split("\0") if entry)
    return Settings(tuple((key, value if has_value else "true") for key, has_value, value in entries))


def _has_subsection(key: str, section: str) -> bool:
    return key.startswith(f"{section}.") and key.count(".") > 1


def _line(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    subsection, _, variable = rest.rpartition(".")
    head = f'[{section} "{_escaped(subsection)}"]' if subsection else f"[{section}]"
    return f'{head}\n\t{variable} = "{_escaped(value)}"\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
