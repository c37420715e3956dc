"""The sample project of `irontree demo`: its content, and laying it out in a folder.

All of it is package data: `data/history` holds its first commits as mails. Each sample is a document beside
`patches/TASK_KEY/ATTEMPT.patch`, what the replay agent applies, each on top of what the tasks before it published.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from irontree.config_file import write_config
from irontree.domain.documents import read_document
from irontree.domain.spec import Requirements
from irontree.errors import EnvironmentRefused, GitFailed, Refused
from irontree.processes.running import capture
from irontree.repository.git import git_environment
from irontree.store.layout import create

PROJECT: Final = "fairshare"
CHECK: Final = {"name": "tests", "run": "python3 -m unittest -q"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One document to work through, and the prepared work on its tasks, in the folder *folder* of the data."""

    folder: str
    document: str

    def tree(self) -> Requirements:
        """The parsed document; tree, keys and revision are the same wherever it is laid out."""
        return read_document(self.data(self.document).read_bytes(), self.document)

    def data(self, *names: str) -> Traversable:
        """A file or folder of its data."""
        return data(self.folder).joinpath(*names)


REQUIREMENTS: Final = Sample("requirements", "requirements.md")
WORKFLOW: Final = Sample("workflow", "hotl-workflow-trip-page.md")


TOOLCHAIN: Final = Sample("toolchain", "issue.md")
"""An issue that a team talks over, divides and does; its document is what the team makes of it."""
TEAM: Final[tuple[Mapping[str, object], ...]] = (
    {"name": "chief", "lead": True, "kinds": ["infrastructure"], "capabilities": ["seeing the whole"]},
    {"name": "coder", "kinds": ["bug"], "capabilities": ["Python"]},
    {"name": "tester", "kinds": ["feature", "test"], "capabilities": ["tests"]},
)


def issue() -> tuple[str, str]:
    """Title and text of the issue that the team of `TOOLCHAIN` talks over."""
    title, _, text = TOOLCHAIN.data(TOOLCHAIN.document).read_text(encoding="utf-8").partition("\n\n")
    return title.removeprefix("# "), text


def history() -> bytes:
    """The project's commits but the last, oldest first, as a mailbox for `git am`."""
    mails = sorted(data("history").iterdir(), key=lambda mail: mail.name)
    return b"".join(mail.read_bytes() for mail in mails)


def data(name: str) -> Traversable:
    """A file or folder of the package's data."""
    return files("irontree.demo").joinpath("data", name)


# --- Laying the sample out: a clone for the user, its remote, and the prepared work


BRANCH: Final = "main"
REMOTE: Final = "origin"
PACE_SECONDS: Final = 1.0
GIT_SECONDS: Final = 60
MARKER: Final = ".irontree-demo"
_MARKER_TEXT: Final = "`irontree demo` made this folder. When it makes it anew, what it made before goes to earlier/.\n"
_AUTHOR: Final = {
    "GIT_AUTHOR_NAME": "Mira Lindqvist",
    "GIT_AUTHOR_EMAIL": "mira@example.org",
    "GIT_AUTHOR_DATE": "2025-05-14T08:30:00+02:00",
    "GIT_COMMITTER_DATE": "2025-05-14T08:30:00+02:00",
}
_NO_SETTINGS_OF_OTHERS: Final = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@dataclass(frozen=True, slots=True)
class DemoPlace:
    """Where the sample lies: absolute paths below one folder."""

    folder: Path
    earlier: Path | None = None
    """Where the sample that was in the folder before is now."""

    @property
    def repository(self) -> Path:
        """The user's clone, on `main`."""
        return self.folder / PROJECT

    @property
    def remote(self) -> Path:
        """The bare repository that verified code is pushed to."""
        return self.folder / f"{PROJECT}.git"

    @property
    def patches(self) -> Path:
        """What the replay agent applies, `TASK_KEY/ATTEMPT.patch`."""
        return self.folder / "patches"


def lay_out(
    folder: Path, sample: Sample = REQUIREMENTS, *, agent: Sequence[str] = (), pace: float = PACE_SECONDS
) -> DemoPlace:
    """Lay *sample* out in *folder*, which must be new, empty, or an earlier demo's.

    What an earlier demo left is moved to `earlier/N` in the folder; nothing is ever deleted. The caller ensures
    that no demo is running there. *agent* is the command of another coding agent than the replay program, which
    takes *pace* seconds for an attempt. The project and its commits are the same each time, whatever the user's git
    settings are. Raises Refused for any other folder, EnvironmentRefused if it cannot be written.
    """
    folder = folder.resolve()
    try:
        place = DemoPlace(folder, _make_room(folder))
        _copy(sample.data("patches"), place.patches)
        _make_clone(place, sample)
        write_config(
            create(place.repository).config,
            {
                "verify.commands": [dict(CHECK)],
                **_workers(sample, place, agent, pace),
                **({} if agent else {"sandbox.read": [str(place.patches)]}),
                "publish.mode": "direct",
                "publish.remote": REMOTE,
                "publish.target_branch": BRANCH,
            },
            _explained(sample, agent),
        )
    except OSError as error:
        raise EnvironmentRefused(
            f"{error.filename or folder}: {error.strerror}",
            remedy="name a folder that you may write to: `irontree demo DIR`",
        ) from error
    _make_remote(place)
    return place


def _workers(sample: Sample, place: DemoPlace, agent: Sequence[str], pace: float) -> dict[str, object]:
    """The settings that say who works."""
    if sample is not TOOLCHAIN:
        return {"agent.command": list(agent) or _replay(place.patches, pace)}
    team = [{**each, "command": list(agent) or _replay(place.patches / str(each["name"]), pace)} for each in TEAM]
    return {"toolchain": {"language": "en", "discussion": "everybody"}, "team": team}


def _explained(sample: Sample, agent: Sequence[str]) -> dict[str, str]:
    """Comments on these settings."""
    if agent or sample is TOOLCHAIN:
        return {}
    return {"agent.command": "replays prepared patches, calls no model; put your own agent here"}


def _make_room(folder: Path) -> Path | None:
    """Claim the folder and move an earlier sample away; returns where to."""
    marker = folder / MARKER
    if folder.exists() and not marker.is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused(
            f"{folder} is neither empty nor the folder of an earlier demo",
            remedy="name a new or empty folder: `irontree demo DIR`",
        )
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text(_MARKER_TEXT, encoding="utf-8")
    return _move_aside(folder)


def _move_aside(folder: Path) -> Path | None:
    place = DemoPlace(folder)
    left = [path for path in (place.repository, place.remote, place.patches) if path.exists()]
    if not left:
        return None
    number = 1 + max((int(path.name) for path in folder.glob("earlier/*") if path.name.isdecimal()), default=0)
    earlier = DemoPlace(folder / "earlier" / str(number))
    earlier.folder.mkdir(parents=True)
    for path in left:
        path.rename(earlier.folder / path.name)
    settings = earlier.repository / ".git" / "config"
    if settings.is_file():  # or the earlier clone would keep using the new one's remote
        _git(earlier.folder, "config", "--file", str(settings), f"remote.{REMOTE}.url", str(earlier.remote))
    return earlier.folder


def _make_clone(place: DemoPlace, sample: Sample) -> None:
    _git(place.folder, "init", "--quiet", "--template=", f"--initial-branch={BRANCH}", str(place.repository))
    for name, value in _settings(place).items():
        _git(place.repository, "config", name, value)
    mailbox = place.repository / ".git" / "history.mbox"
    mailbox.write_bytes(history())
    _git(place.repository, "am", "--quiet", "--committer-date-is-author-date", str(mailbox))
    mailbox.unlink()
    if sample is TOOLCHAIN:  # an issue, which is on the forge
        return
    _copy(sample.data(sample.document), place.repository / sample.document)
    _git(place.repository, "add", sample.document)
    _git(place.repository, "commit", "--quiet", "--message=Write down what is missing for 1.0", variables=_AUTHOR)


def _settings(place: DemoPlace) -> dict[str, str]:
    """The clone's settings: a committer, and overrides of user settings that would sign, refuse or change files."""
    return {
        "user.name": "Iron Tree Demo",
        "user.email": "demo@example.org",
        "commit.gpgSign": "false",
        "core.autocrlf": "false",
        "core.hooksPath": str(place.repository / ".git" / "hooks"),
    }


def _make_remote(place: DemoPlace) -> None:
    _git(place.folder, "init", "--quiet", "--bare", "--template=", f"--initial-branch={BRANCH}", str(place.remote))
    _git(place.repository, "remote", "add", REMOTE, str(place.remote))
    _git(place.repository, "push", "--quiet", "--set-upstream", REMOTE, BRANCH)


def _replay(patches: Path, pace: float) -> list[str]:
    return [sys.executable, "-m", "irontree", "agents", "replay", str(patches), "--pace", f"{pace:g}"]


def _copy(source: Traversable, target: Path) -> None:
    """Copy package data, which need not be files on a disk."""
    if source.is_file():
        target.write_bytes(source.read_bytes())
        return
    target.mkdir()
    for child in source.iterdir():
        _copy(child, target / child.name)


def _git(folder: Path, *words: str, variables: Mapping[str, str] | None = None) -> None:
    done = capture(
        ["git", *words],
        cwd=folder,
        environment={**git_environment(os.environ), **_NO_SETTINGS_OF_OTHERS, **(variables or {})},
        seconds=GIT_SECONDS,
    )
    if done.exit_code != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise GitFailed(f"git {words[0]} failed in {folder}: {said}", output=said)
