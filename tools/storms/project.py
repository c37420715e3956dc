"""The sample that a storm works on: a project, its remote, an agent, and a home in which nothing was done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import yaml

KINDS: Final = ("plain", "push", "pulls", "changed", "edits")
"""No remote; a bare remote that others push to; pull requests; a changing document; a user who edits and commits."""
MARK: Final = "STORM_MARK"
DOCUMENT: Final = "SPEC.md"
SPEC: Final = """\
# Storm

## Alpha

- [ ] it is there `$ test -f alpha.txt`

## Beta

Depends on: Alpha

- [ ] it is whole `$ grep -q whole beta.txt`

## Group

### Gamma

- [ ] it reads well (manual)

### Delta

Depends on: Beta

- [ ] it is there `$ test -f group-delta.txt`
"""
CHANGED: Final = SPEC.replace("it is there `$ test -f group-delta", "it is there, in time `$ test -f group-delta")
ADDED: Final = "\n## Epsilon\n\nDepends on: Group\n\n- [ ] it is there `$ test -f epsilon.txt`\n"
AGENT: Final = """\
cat >/dev/null
echo half > "$IRONTREE_TASK_KEY.part"
sleep {pace}
word=whole
[ "$IRONTREE_TASK_KEY $IRONTREE_ATTEMPT" = "beta 1" ] && word=broken
echo "$word" > "$IRONTREE_TASK_KEY.txt"
sleep {pace}
rm "$IRONTREE_TASK_KEY.part"
echo "$IRONTREE_TASK_KEY: attempt $IRONTREE_ATTEMPT"
"""


@dataclass(frozen=True)
class Place:
    """Where the things of a storm are, below its folder."""

    folder: Path

    @property
    def project(self) -> Path:
        """The user's checkout."""
        return self.folder / "project"

    @property
    def remote(self) -> Path:
        """The bare repository; missing in storms without one."""
        return self.folder / "remote.git"

    @property
    def other(self) -> Path:
        """The clone of somebody else, who pushes too."""
        return self.folder / "other"

    @property
    def home(self) -> Path:
        """The user's home."""
        return self.folder / "home"

    @property
    def outputs(self) -> Path:
        """What each command said, one file for each."""
        return self.folder / "outputs"

    @property
    def state(self) -> Path:
        """The log, the forge and the settings."""
        return self.project / ".mino"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of every command of the storm: nothing of whoever runs it but the way to programs."""
        home = str(self.home)
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/.config",
            "XDG_CACHE_HOME": f"{home}/.cache",
            "XDG_STATE_HOME": f"{home}/.local/state",
            "XDG_DATA_HOME": f"{home}/.local/share",
            "GIT_CONFIG_NOSYSTEM": "1",
            MARK: home,
        }


def git(folder: Path, *words: str, check: bool = True) -> str:
    """What git says there, without settings of whoever runs the storm."""
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_OPTIONAL_LOCKS": "0",
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        env=environment,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        timeout=60,
    )
    if check and done.returncode:
        message = f"git {' '.join(words)} in {folder} failed: {done.stderr.strip()}"
        raise OSError(message)
    return done.stdout.strip("\n")


def keep_template(folder: Path) -> Path:
    """An empty database of the private server in *folder*, for storms to begin with: each saves 17 s of migrations."""
    words = [sys.executable, "-m", "irontree.flows.server.private", "--folder", str(folder), "--build-template"]
    subprocess.run(words, check=True)
    return folder / "template.db"


def lay_out(folder: Path, kind: str, pace: float, template: Path | None = None) -> Place:
    """Make the sample of that kind in the new *folder*; its agent sleeps twice *pace* seconds.

    The *template* database is put where the program keeps its own.
    """
    place = Place(folder)
    for made in (place.project, place.home, place.outputs):
        made.mkdir(parents=True)
    if template:
        server = place.home / ".local/state/irontree" / f"prefect-{version('prefect')}"
        server.mkdir(parents=True)
        shutil.copy(template, server)
    (folder / "agent.sh").write_text(AGENT.format(pace=pace), encoding="utf-8")
    git(place.project, "init", "--quiet", "--initial-branch=main")
    _name(place.project, "Ada")
    for number, text in enumerate(("first", "second"), start=1):
        (place.project / f"README-{number}.md").write_text(f"{text}\n", encoding="utf-8")
        commit(place.project, f"{text} commit")
    if kind != "plain":
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(place.remote))
        git(place.project, "remote", "add", "origin", str(place.remote))
        git(place.project, "push", "--quiet", "--set-upstream", "origin", "main")
        git(folder, "clone", "--quiet", str(place.remote), str(place.other))
        _name(place.other, "Grace")
    return place


def configure(place: Place, kind: str) -> None:
    """What a user does after `irontree init`: name the agent, write the document, commit and push both."""
    path = place.state / "config.yml"
    settings: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    settings["agent"] = {"command": f"sh {place.folder / 'agent.sh'}"}
    if kind == "pulls":
        settings["publish"]["mode"] = "pull_request"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    (place.project / DOCUMENT).write_text(SPEC, encoding="utf-8")
    commit(place.project, "Set up")
    if kind != "plain":
        git(place.project, "push", "--quiet", "origin", "main")


def commit(folder: Path, message: str) -> None:
    """Commit everything there, if there is anything."""
    git(folder, "add", "--all")
    if git(folder, "status", "--porcelain"):
        git(folder, "commit", "--quiet", "--message", message)


def _name(folder: Path, name: str) -> None:
    git(folder, "config", "user.name", name)
    git(folder, "config", "user.email", f"{name.lower()}@example.org")
