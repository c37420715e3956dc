"""Judges what a storm left, from git's commands, the forge's files and the log's YAML; it knows nothing of the program.

Every check returns complaints, one sentence each; none means that it is as promised.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import yaml

from tools.storms.project import MARK, Place, git

LOGS: Final = ("events", "archive", "loops", "plans")
KERNEL_LOCKS: Final = {
    ".lock",
    "log.lock",
    "template.lock",
    "alive.lock",
    "start.lock",
    "clients.lock",
    "password.lock",
}
"""Files that are locked by the kernel and stay; everything else with such a name is left over."""
LEFTOVER: Final = re.compile(r".*\.(lock|tmp)|tmp_(obj|pack|idx)_.*|.*\.md\.new|irontree-serving-.*")
SERVER: Final = "irontree.flows.server.private"
TASK_KEY: Final = re.compile(r"<!-- irontree:task-key (\S+) -->")
MARKER: Final = re.compile(r"<!-- irontree:\d+:\S+ -->")
AUDIBLE: Final = {
    "task_reapproval_required",
    "run_commit_failed",
    "verify_failed_retryable",
    "verify_failed_terminal",
    "verify_pending_acceptance",
    "verify_publication_failed",
    "checkup_preflight_blocked",
    "checkup_accept_publication_failed",
    "checkup_reconcile_external_close_detected",
    "checkup_reconcile_sequence_gap_detected",
}
BUG: Final = 3


@dataclass
class Facts:
    """What the driver did itself, so that the oracle can tell it from what the program did."""

    kind: str
    tasks: list[str] = field(default_factory=list)
    """Keys of the tasks that the document asks for."""
    pushed: list[str] = field(default_factory=list)
    """Commits that others, or the user, pushed."""
    edits: dict[str, str] = field(default_factory=dict)
    """Files of the user's checkout that are theirs and not committed: path to content."""


def look(place: Place, seen: Path) -> list[str]:
    """Compare the log with every earlier look, kept in the folder *seen*; then keep this one."""
    complaints = [complaint for kept in _files(seen) if (complaint := _changed(place, seen, kept))]
    for name in LOGS:
        for path in _files(place.state / name):
            if path.suffix == ".yml" and not path.name.startswith(".") and _immutable(path.relative_to(place.state)):
                kept = seen / path.relative_to(place.state)
                kept.parent.mkdir(parents=True, exist_ok=True)
                if not kept.exists():
                    shutil.copyfile(path, kept)
    return complaints


def judge(place: Place, facts: Facts) -> list[str]:
    """All complaints about a storm that has come to its end, apart from what earlier looks saw."""
    return [
        *sequences(place),
        *issues(place, facts),
        *comments(place),
        *commits(place, facts),
        *evidence(place, facts),
        *others(place, facts),
        *checkout(place, facts),
        *leftovers(place),
        *outputs(place),
    ]


# --- the log ------------------------------------------------------------------------------------------------


def sequences(place: Place) -> list[str]:
    """The events of each stream are numbered from 1 without holes, and say the number that their file has."""
    complaints = []
    for folder, events in streams(place).items():
        numbers = [int(path.name[:4]) for path in events]
        if numbers != list(range(1, len(numbers) + 1)):
            complaints.append(f"{folder}: sequences are {numbers}")
        complaints += [f"{path}: says another sequence" for path in events if _said(path).get("sequence") != _of(path)]
    return complaints


def evidence(place: Place, facts: Facts) -> list[str]:
    """Every task is done, and what is done names a commit that is on the target."""
    complaints = []
    done = set()
    for folder, events in streams(place).items():
        last = _said(events[-1]) if events else {}
        if folder.startswith("events/") and last.get("event") == "checkup_done":
            done.add(str(last["task_key"]))
        for path in events:
            said = _said(path)
            if said.get("event") == "checkup_done" and not _proved(place, said):
                complaints.append(f"{folder}: done with {said.get('code_ref')}, which is not on the target")
    missing = sorted(set(facts.tasks) - done)
    return complaints + ([f"not done: {', '.join(missing)}"] if missing else [])


def _proved(place: Place, said: Mapping[str, Any]) -> bool:
    code = str(said.get("code_ref"))
    if code == "not_applicable":
        return said.get("completion_basis") == "aggregated"
    return bool(re.fullmatch(r"[0-9a-f]{40}", code)) and contains(place, code)


def streams(place: Place) -> dict[str, list[Path]]:
    """The event files of each stream in the order of their numbers, by the folder that they are in."""
    found: dict[str, list[Path]] = defaultdict(list)
    for name in ("events", "archive", "loops"):
        for path in _files(place.state / name):
            if re.fullmatch(r"\d{4}-[a-z-]+\.yml", path.name):
                found[str(path.parent.relative_to(place.state))].append(path)
    return {folder: sorted(paths) for folder, paths in sorted(found.items())}


def _of(path: Path) -> int:
    return int(path.name[:4])


def _said(path: Path) -> dict[str, Any]:
    read = _yaml(path.read_text(encoding="utf-8"))
    return dict(read.get("iron_tree") or read.get("loop") or {})


def _yaml(text: str) -> dict[str, Any]:
    read = yaml.safe_load(text)
    return read if isinstance(read, dict) else {}


def _immutable(path: Path) -> bool:
    """A loop's own file, beside its folder, and the plan of a name are views that are written anew."""
    return "events" in path.parts or path.parts[0] == "plans"


def _changed(place: Place, seen: Path, kept: Path) -> str:
    path = kept.relative_to(seen)
    now = place.state / path
    candidates = [now] if now.exists() else []
    if path.parts[0] == "events":
        candidates += sorted((place.state / "archive").glob(f"{path.parts[1]}-*/events/{path.name}"))
    if path.parts[0] == "plans":
        candidates += sorted((place.state / "plans").glob(f"{path.stem}.*.yml"))
    if any(_same(kept, candidate) for candidate in candidates):
        return ""
    return f"{path}: seen before, {'changed' if candidates else 'gone'} now"


def _same(one: Path, other: Path) -> bool:
    """Equal but for the address of a reply, which is noted once it is posted."""
    if one.read_bytes() == other.read_bytes():
        return True
    values = [_yaml(path.read_text(encoding="utf-8")) for path in (one, other)]
    for value in values:
        value.get("iron_tree", {}).pop("reply_posted", None)
    return values[0] == values[1]


# --- the forge ----------------------------------------------------------------------------------------------


def issues(place: Place, facts: Facts) -> list[str]:
    """One issue for each task."""
    keys: Counter[str] = Counter()
    for path in sorted((place.state / "forge" / "issues").glob("*.md")):
        keys.update(TASK_KEY.findall(path.read_text(encoding="utf-8")))
    twice = [f"{count} issues for {key}" for key, count in keys.items() if count > 1]
    return twice + [f"no issue for {key}" for key in facts.tasks if key not in keys]


def comments(place: Place) -> list[str]:
    """No comment with one marker is posted twice, and none is said more often than it has a reason in the log."""
    complaints = []
    for folder in sorted((place.state / "forge").glob("*/*/comments")):
        markers: Counter[str] = Counter()
        texts: Counter[str] = Counter()
        for path in folder.glob("*.md"):
            text = path.read_text(encoding="utf-8").split("---\n", 2)[-1]
            markers.update(MARKER.findall(text))
            texts.update([MARKER.sub("", text).strip()] if MARKER.search(text) else [])
        issue = int(folder.parent.name)
        complaints += [f"issue {issue}: posted {count} times: {what}" for what, count in markers.items() if count > 1]
        reasons = _reasons(place, issue)
        complaints += [
            f"issue {issue}: said {count} times, for {reasons} events: {text[:80]}"
            for text, count in texts.items()
            if count > max(1, reasons)
        ]
    return complaints


def _reasons(place: Place, issue: int) -> int:
    """How many events the issue has that are told on it."""
    named = f"issue-{issue}"
    return sum(
        str(_said(path).get("event")) in AUDIBLE
        for folder, events in streams(place).items()
        if folder == f"events/{named}" or folder.startswith(f"archive/{named}-")
        for path in events
    )


# --- git ----------------------------------------------------------------------------------------------------


def target(place: Place) -> Path:
    """The repository whose `main` verified work is published to."""
    return place.remote if place.remote.exists() else place.project


def contains(place: Place, commit: str) -> bool:
    """Whether that commit is part of the target."""
    return commit in _history(target(place))


def _history(repository: Path) -> list[str]:
    return git(repository, "rev-list", "main").splitlines()


def commits(place: Place, facts: Facts) -> list[str]:
    """Each attempt is on the target once, and one commit for each task; a request may have one for each attempt."""
    said = git(target(place), "log", "--format=%(trailers:key=Irontree-Run,valueonly)", "main").split()
    complaints = [
        f"{count} commits of attempt {run} on the target" for run, count in Counter(said).items() if count > 1
    ]
    if facts.kind != "pulls":
        tasks = Counter(run.rpartition("/")[0] for run in set(said))
        complaints += [f"{count} commits of task {task} on the target" for task, count in tasks.items() if count > 1]
    return complaints


def others(place: Place, facts: Facts) -> list[str]:
    """Whatever others pushed is still there."""
    return [f"{commit}: pushed by others, not on the target" for commit in facts.pushed if not contains(place, commit)]


def checkout(place: Place, facts: Facts) -> list[str]:
    """The user's checkout has their own edits, byte for byte, and no change but those."""
    complaints = edits(place, facts)
    status = git(place.project, "status", "--porcelain", "--untracked-files=all").splitlines()
    complaints += [f"the checkout is not clean: {line}" for line in status if line[3:] not in facts.edits]
    if git(place.project, "symbolic-ref", "--quiet", "HEAD", check=False) != "refs/heads/main":
        complaints.append("the checkout is not on main")
    if facts.kind != "pulls":
        ahead = set(_history(target(place))) - set(_history(place.project))
        ours = git(target(place), "log", "--grep=^Irontree-Run: ", "--format=%H", "main").split()
        complaints += [f"the user's main did not follow to {commit}" for commit in ours if commit in ahead]
    return complaints


def edits(place: Place, facts: Facts) -> list[str]:
    """What the user edited is as they left it, byte for byte."""
    return [
        f"{name}: the user's edit is changed or gone"
        for name, content in facts.edits.items()
        if not (path := place.project / name).exists() or path.read_text(encoding="utf-8") != content
    ]


# --- what is left -------------------------------------------------------------------------------------------


def leftovers(place: Place) -> list[str]:
    """No process of the storm lives, no lock and no temporary file is left, no git command is noted as at work."""
    living = [f"still alive: {process.pid} {_line(process)}" for process in marked(place)]
    files = [
        str(path.relative_to(place.folder))
        for folder in (place.project, place.remote, place.home)
        for path in _files(folder)
        if LEFTOVER.fullmatch(path.name) and path.name not in KERNEL_LOCKS
    ]
    noted = [str(path.relative_to(place.folder)) for path in (place.project / ".git" / "irontree").glob("*.json")]
    return living + [f"left over: {name}" for name in sorted({*files, *noted})]


def marked(place: Place) -> list[psutil.Process]:
    """The living processes of this storm, by a variable of their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == str(place.home):
                found.append(process)
        except psutil.Error:
            continue
    return found


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "gone"


def outputs(place: Place) -> list[str]:
    """No command ended with the exit code of a bug, said a traceback, or wrote the report of one."""
    complaints = []
    for path in sorted(place.outputs.glob("*.json")):
        said = json.loads(path.read_text(encoding="utf-8"))
        if said["code"] == BUG:
            complaints.append(f"{path.stem}: exit code 3 of {' '.join(said['words'])}")
    complaints += [
        f"{path.name}: a traceback"
        for path in sorted(place.outputs.glob("*.txt"))
        if "Traceback (most recent call last)" in path.read_text(encoding="utf-8", errors="replace")
    ]
    reports = _files(place.home / ".local" / "state" / "irontree" / "reports")
    return complaints + [f"a report of a bug: {path.name}" for path in reports]


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            yield Path(parent) / name
