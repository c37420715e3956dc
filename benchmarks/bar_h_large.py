"""(h) A large repository whose set-up leaves 500 MB: a verification from nothing, and the taking of a commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from benchmarks import projects
from benchmarks.baselines import issue_by_hand
from benchmarks.baselines.issue_by_hand import Place
from benchmarks.measure import Comparison, Pair, alternate, pairs_of
from benchmarks.sandbox import Effort, git
from irontree.app import App
from irontree.domain.decide import Run, Verify
from irontree.services.execution.steps import perform
from irontree.services.record import read_world

VERIFY_BAR, SECONDS_BAR, COMMIT_BAR = 1.5, 1.0, 3.0
SECONDS = 3.0
"""What a verification may take beside its checks."""
MOST_PAIRS = 7
"""Each writes gigabytes."""
PER_FOLDER, LINES, PARTS = 100, 40, 4_000
_SETTINGS = "workspace:\n  setup: ['{setup}']\n  cache: [deps]\n"
_SETUP = "mkdir deps; head -c {whole} /dev/urandom | split -a 3 -b {part} - deps/part-"


def compare(effort: Effort) -> Iterator[Comparison]:
    """Each side has such a repository; the second verification and those after it count, with `true` as their check."""
    files, megabytes = (200, 4) if effort.quick else (20_000, 500)
    ours, other = (Large.lay_out(effort.folder / name, files, megabytes) for name in ("ours", "by-hand"))
    pairs, titles = min(effort.pairs, MOST_PAIRS), (f"task-{number}" for number in count(1))
    what = f"{files:,} files and a cache of {megabytes} MB"
    name = f"h: verify, {what}"
    rounds = alternate(
        lambda: ours.verified(next(titles)), lambda: other.verified_by_hand(next(titles)), pairs, effort.watching(name)
    )
    found = pairs_of(rounds, float)
    yield Comparison(name, VERIFY_BAR, found)
    limit = tuple(Pair(pair.ours, SECONDS) for pair in found)
    yield Comparison(f"{name}, against {SECONDS:g} s", SECONDS_BAR, limit)
    name = f"h: take a commit, {files:,} files"
    rounds = alternate(ours.taken, other.taken_by_hand, pairs, effort.watching(name))
    yield Comparison(name, COMMIT_BAR, pairs_of(rounds, float))


@dataclass(frozen=True, slots=True)
class Large:
    """A repository whose set-up makes a folder `deps`, which is cached."""

    app: App
    place: Place

    @classmethod
    def lay_out(cls, folder: Path, files: int, megabytes: int) -> Large:
        """One with that many files and megabytes, for the one side or the other."""
        (folder / "cache").mkdir(parents=True)
        part = megabytes * 1_000_000 // PARTS
        setup = _SETUP.format(whole=part * PARTS, part=part)
        app = projects.lay_out(folder, "project", _SETTINGS.format(setup=setup))
        root = app.repository.root
        for number in range(files):
            path = root / f"folder-{number // PER_FOLDER}" / f"file-{number % PER_FOLDER}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"a line of file {number}\n" * LINES, encoding="utf-8")
        (root / ".gitignore").write_text("deps/\n", encoding="utf-8")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message=Many files")
        git(root, "push", "--quiet", "origin", "main")
        (folder / "made").mkdir()
        subprocess.run(["sh", "-c", setup], cwd=folder / "made", check=True)
        place = Place(root, folder / "cache", root / ".mino" / "loop.yml", projects.AGENT, projects.CHECK)
        return cls(app, place)

    def verified(self, title: str) -> float:
        """Seconds of the verification of a new task's commit."""
        projects.publish_task(self.app, title)
        perform(self.app, Run(title))
        seconds = _timed(lambda: perform(self.app, Verify(title)))
        if read_world(self.app).states[title].last_event != "verify_passed":
            raise RuntimeError(f"{title} did not pass")
        return seconds

    def verified_by_hand(self, title: str) -> float:
        """The same of a commit made by hand: the old folder removed, a clone, the cache copied in, and what follows."""
        _remove(self.place.cache / "run")
        sha = issue_by_hand.run(replace(self.place, agent=f"IRONTREE_TASK_KEY={title}; {self.place.agent}"))
        made = self.place.root.parent / "made" / "deps"

        def by_hand() -> None:
            _remove(self.place.cache / "verify")
            issue_by_hand.verify(self.place, sha)
            words = ["cp", "-a", "--reflink=auto", str(made), str(self.place.cache / "verify")]
            subprocess.run(words, check=True)

        return _timed(by_hand)

    def taken(self) -> float:
        """Seconds of the taking of a commit from a workspace that was prepared."""
        world = read_world(self.app)
        base = git(self.place.root, "rev-parse", "main")
        policy = next(iter(world.plans.values())).policy.workspace
        workspace = self.app.repository.workspace("run", policy)
        workspace.prepare(base, published=base)
        (workspace.path / "more.txt").write_text("more\n", encoding="utf-8")
        return _timed(lambda: workspace.commit("[run] #1: more\n", base=base))

    def taken_by_hand(self) -> float:
        """The same in a clone, by `git add` and `git commit`."""
        base = git(self.place.root, "rev-parse", "main")
        _remove(self.place.cache / "run")
        clone = issue_by_hand.private_clone(self.place, "run", base)
        shutil.copytree(self.place.root.parent / "made" / "deps", clone / "deps")
        (clone / "more.txt").write_text("more\n", encoding="utf-8")

        def by_hand() -> None:
            git(clone, "-c", "core.fsync=committed,reference", "add", "--all")
            git(clone, "-c", "core.fsync=committed,reference", "commit", "--quiet", "--message=[run] #1: more")

        return _timed(by_hand)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _timed(work: Callable[[], object]) -> float:
    """Seconds; what was left unwritten before it is not counted."""
    os.sync()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
