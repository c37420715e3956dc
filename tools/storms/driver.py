"""Drives the program through a storm, from outside: starts its commands, kills what they started, starts them again."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from irontree.flows.serve.forking import FLOW, FORK_SERVER
from tools.storms import oracle, project
from tools.storms.project import DOCUMENT, KINDS, Place, git

POLL: Final = 0.005
PATIENCE: Final = 180.0
"""Seconds that one command may take before it counts as hanging."""
TURNS: Final = 40
QUIET_TURNS: Final = 25
PREFERRED: Final = ("accept", "go-on", "approve", "verify", "retry", "extend", "allow")
"""Of the answers to a question, the first that there is: all but those that give work up."""
LOCKED: Final = re.compile(r"the remote is locked by (\S+remote\.git/\S+\.lock); if it stays .*remove the file")
TARGETS: Final = ("everything", "group", "terminal", "server", "forks", "flow", "git", "agent", "any")
POINTS: Final = (
    "project/.mino/config.yml",
    "project/.mino/plans/*.yml",
    "project/.mino/loops/*.yml",
    "project/.mino/loops/*/events/*.yml",
    "project/.mino/loops/active.lock",
    "project/.mino/run.lock",
    "project/.mino/deliveries/issue-*",
    "project/.mino/events/issue-*/*-task-published.yml",
    "project/.mino/events/issue-*/*-run-started.yml",
    "project/.mino/events/issue-*/*-run-completed.yml",
    "project/.mino/events/issue-*/*-verify-failed-retryable.yml",
    "project/.mino/events/issue-*/*-verify-pending-acceptance.yml",
    "project/.mino/events/issue-*/*-verify-passed.yml",
    "project/.mino/events/issue-*/*-checkup-accept-recorded.yml",
    "project/.mino/events/issue-*/*-checkup-done.yml",
    "project/.mino/reports/issue-*/attempt-*/prompt.md",
    "project/.mino/reports/issue-*/*.yml",
    "project/.mino/forge/issues/*.md",
    "project/.mino/forge/issues/*/comments/*.md",
    "project/.mino/forge/pulls/*.md",
    "project/.mino/**/.*.tmp",
    "project/.git/index.lock",
    "project/.git/HEAD.lock",
    "project/.git/config.lock",
    "project/.git/irontree/*.json",
    "project/.git/refs/heads/main",
    "project/.git/refs/heads/main.lock",
    "project/.git/refs/remotes/origin/main",
    "project/.git/refs/irontree/log.lock",
    "project/.git/refs/irontree/issue-*/*",
    "project/.git/refs/irontree/issue-*/*.lock",
    "remote.git/refs/heads/*",
    "remote.git/refs/heads/*.lock",
    "home/.local/state/irontree/*/run.index.lock",
    "home/.local/state/irontree/*/store.git/refs/made/*",
    "home/.cache/irontree/*/verify/.git/HEAD",
    "home/.local/state/irontree/*/server.json",
)


@dataclass
class Kill:
    """One shot: at whom, at which point or after how many seconds; and, once it was made, what it hit."""

    at: str
    point: str = ""
    seconds: float = 0.0
    hit: list[str] = field(default_factory=list)
    command: str = ""


@dataclass
class Outcome:
    """One line of the results."""

    seed: int
    kind: str
    mode: str = ""
    """How it goes on: `stepwise` by a command for each step, a `loop` in a terminal, or one that is `served`."""
    kills: list[Kill] = field(default_factory=list)
    restarts: int = 0
    questions: list[str] = field(default_factory=list)
    """Those that no undisturbed run asks."""
    complaints: list[str] = field(default_factory=list)
    outcome: str = ""
    seconds: float = 0.0

    def line(self) -> str:
        """This as JSON."""
        return json.dumps(asdict(self))


class Storm:
    """One storm, all of it chosen by its seed."""

    def __init__(self, seed: int, folder: Path, template: Path | None = None) -> None:
        """One that begins with the *template* database of the private server; without, the program makes one."""
        self._random = random.Random(seed)  # noqa: S311 (repeatable, no secret)
        self.kind = KINDS[seed % len(KINDS)]
        self.outcome = Outcome(seed, self.kind)
        self.place = Place(folder)
        self._template = template
        self.facts = oracle.Facts(self.kind)
        self.planned = [self._kill() for _ in range(self._random.randint(3, 7))]
        self._sends_back = self._random.random() < 0.3  # noqa: PLR2004
        self._serves = self._random.random() < 0.3  # noqa: PLR2004
        self._changes_at = self._random.randint(2, 5)
        self._stepwise = self._random.random() < 0.4  # noqa: PLR2004
        if self._stepwise:  # its commands are short
            self.planned += [self._kill() for _ in range(self._random.randint(4, 8))]
        self.outcome.mode = "stepwise" if self._stepwise else "served" if self._serves else "loop"
        self._commands = 0
        self._serving: subprocess.Popen[bytes] | None = None
        self._approve = True

    def run(self) -> Outcome:
        """Make the storm and judge it; its folder is left as it is."""
        began = time.monotonic()
        try:
            self._storm()
            self.outcome.complaints += oracle.judge(self.place, self.facts)
        finally:
            self._end_all()
            self.outcome.seconds = round(time.monotonic() - began, 1)
        self.outcome.complaints = sorted(set(self.outcome.complaints))
        self.outcome.outcome = "complaints" if self.outcome.complaints else "sound"
        return self.outcome

    # --- the course of it -----------------------------------------------------------------------------------

    def _storm(self) -> None:
        pace = round(self._random.uniform(0.1, 0.6), 2)
        project.lay_out(self.place.folder, self.kind, pace, self._template)
        self._command("init")
        if not (self.place.state / "config.yml").exists():
            self._command("init", quiet=True)
        project.configure(self.place, self.kind)
        self.facts.tasks = ["alpha", "beta", "group", "group-gamma", "group-delta"]
        for turn in range(TURNS):
            if not self.planned:
                break
            self._meanwhile(turn)
            if self._turn(quiet=False):
                self.planned.clear()
        self._stop_serving()
        if self.kind == "changed" and "epsilon" not in self.facts.tasks:
            self._change_document()
        for _ in range(QUIET_TURNS):
            if self._turn(quiet=True):
                break
        for words in (("checkup", "reconcile"), ("checkup", "repair"), ("audit",), ("checkup", "check")):
            if self._command(*words, quiet=True) != 0:
                self.outcome.complaints.append(f"{' '.join(words)}: refused after the storm ({self._commands:03})")
        self._look()
        self._come_to_rest()

    def _turn(self, *, quiet: bool) -> bool:
        """Do what a user would do next; whether nothing is left to do."""
        self._look()
        status = self._status()
        if status is None:
            return False
        if self._approve or not status["issues" if self._stepwise else "loops"]:
            how = ("--stepwise",) if self._stepwise else ()
            self._command("task", DOCUMENT, "--approve", self._revision(), *how, quiet=quiet)
            self._approve = False
            return False
        if status["questions"]:
            self._answer(status["questions"][0], quiet=quiet)
            return False
        if status["next"]:
            self._go_on(shlex.split(status["next"])[1:], quiet=quiet)
            return False
        done = {issue["task_key"] for issue in status["issues"] if issue["phase"] == "done"}
        self._approve = not done.issuperset(self.facts.tasks)
        return not self._approve

    def _go_on(self, words: Sequence[str], *, quiet: bool) -> None:
        if (
            self._serves
            and not self._stepwise
            and not quiet
            and (self._serving is None or self._serving.poll() is not None)
        ):
            self._serving = self._start(["serve", "--grace", "5"])[0]
        self._command(*words, quiet=quiet)
        time.sleep(0.2)

    def _answer(self, question: dict[str, Any], *, quiet: bool) -> None:
        self._count(question)
        answers = {answer["choice"]: shlex.split(answer["command"])[1:] for answer in question["answers"]}
        if self.kind == "pulls" and self._merge():
            self._command("checkup", "reconcile", quiet=quiet)
            return
        if self._sends_back and "send-back" in answers and question["task_key"] == "group-gamma":
            self._sends_back = False
            self._command(*answers["send-back"], quiet=quiet)
            return
        chosen = next((answers[choice] for choice in PREFERRED if choice in answers), None)
        if chosen is None:
            self._command("checkup", "reconcile", quiet=quiet)
        else:
            self._command(*chosen, quiet=quiet)

    def _count(self, question: dict[str, Any]) -> None:
        """Note a question that only the kills can have caused."""
        expected = {
            "pending_acceptance": self.kind == "pulls" or question["task_key"] == "group-gamma",
            "reapproval_required": self.kind == "changed",
        }
        if not expected.get(question["reason"]):
            self.outcome.questions.append(f"{question['task_key']}: {question['reason']}: {question['detail']}"[:300])

    # --- what people do -------------------------------------------------------------------------------------

    def _meanwhile(self, turn: int) -> None:
        if self.kind == "push" and self._random.random() < 0.4:  # noqa: PLR2004
            self._push(self.place.other, f"other-{turn}.txt")
        if self.kind == "edits" and self._random.random() < 0.4:  # noqa: PLR2004
            self._push(self.place.project, f"mine-{turn}.txt")
        if self.kind == "changed" and turn == self._changes_at:
            self._change_document()

    def _push(self, folder: Path, name: str) -> None:
        """Commit a file there and push it, as people do; if git refuses, it is left for another time."""
        (folder / name).write_text(f"{name}\n", encoding="utf-8")
        try:
            git(folder, "add", name)
            git(folder, "commit", "--quiet", "--message", f"Add {name}", "--", name)
            git(folder, "pull", "--quiet", "--rebase", "--autostash", "origin", "main")
            git(folder, "push", "--quiet", "origin", "main")
        except OSError:
            return
        self.facts.pushed.append(git(folder, "rev-parse", "HEAD"))

    def _edit(self) -> None:
        """Change files of the checkout while the program is at work there; they stay in no commit to the end."""
        for name in ("README-2.md", "untracked.txt"):
            self.facts.edits[name] = f"edit {self._commands} of {name}\n"
            (self.place.project / name).write_text(self.facts.edits[name], encoding="utf-8")

    def _change_document(self) -> None:
        (self.place.project / DOCUMENT).write_text(project.CHANGED + project.ADDED, encoding="utf-8")
        git(self.place.project, "commit", "--quiet", "--message", "Change the document", "--", DOCUMENT)
        git(self.place.project, "pull", "--quiet", "--rebase", "origin", "main")
        git(self.place.project, "push", "--quiet", "origin", "main")
        self.facts.tasks.append("epsilon")
        self._approve = True

    def _merge(self) -> bool:
        """Merge every open request with git; whether there was one."""
        git(self.place.other, "fetch", "--quiet", "origin")
        git(self.place.other, "switch", "--quiet", "main")
        git(self.place.other, "reset", "--quiet", "--hard", "origin/main")
        branches = git(self.place.other, "branch", "--remotes", "--no-merged", "main", "--format=%(refname)").split()
        for branch in branches:
            git(self.place.other, "merge", "--quiet", "--no-ff", "--no-edit", branch)
        if branches:
            git(self.place.other, "push", "--quiet", "origin", "main")
            self.facts.pushed.append(git(self.place.other, "rev-parse", "HEAD"))
        return bool(branches)

    # --- commands -------------------------------------------------------------------------------------------

    def _status(self) -> dict[str, Any] | None:
        said = self._ask("status", "--json")
        return said if isinstance(said, dict) else None

    def _revision(self) -> str:
        said = self._ask("task", DOCUMENT, "--plan", "--json")
        return str(said["name"]) if said else "00000000"

    def _ask(self, *words: str) -> Any:
        """What a command that only looks says, as JSON; a complaint if it cannot."""
        process, stem = self._start(list(words))
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        self._note(stem, words, code)
        said = stem.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
        try:
            return json.loads(said)
        except ValueError:
            self.outcome.complaints.append(f"{' '.join(words)}: exit code {code}, no JSON ({stem.name})")
            return None

    def _command(self, *words: str, quiet: bool = False) -> int:
        """Run a command to its end, whatever ends it; its exit code."""
        kills = [] if quiet else self.planned[: self._random.choice((1, 1, 1, 2))]
        process, stem = self._start(list(words))
        began = time.monotonic()
        for kill in kills:
            if not self._wait(process, self._moment(kill, began)):
                self._another_moment(kill)
                break
            if self.kind == "edits" and self._random.random() < 0.5:  # noqa: PLR2004
                self._edit()
            self._shoot(kill, process, words)
        if not self._wait(process, lambda: False):
            code = process.wait()
        else:
            self.outcome.complaints.append(f"{' '.join(words)}: still at work after {PATIENCE:.0f} s ({stem.name})")
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        self.outcome.restarts += not quiet
        self._note(stem, words, code)
        self._unlock_remote(stem.with_suffix(".txt").read_text(encoding="utf-8", errors="replace"))
        return code

    def _unlock_remote(self, said: str) -> None:
        """Remove the lock of the remote that a command named, as it asks for: a push was killed in the remote."""
        at_work = any(_class(one, 0) == "git" for one in oracle.marked(self.place))
        if (named := LOCKED.search(said)) and (lock := Path(named[1])).exists() and not at_work:
            self.outcome.questions.append(f"remote: locked: {lock.relative_to(self.place.remote)}")
            lock.unlink()

    def _start(self, words: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
        self._commands += 1
        stem = self.place.outputs / f"{self._commands:03}-{words[0]}"
        with stem.with_suffix(".txt").open("wb") as output:
            process = subprocess.Popen(
                ["irontree", *words],
                cwd=self.place.project,
                env=self.place.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return process, stem

    def _note(self, stem: Path, words: Sequence[str], code: int) -> None:
        noted = {"words": list(words), "code": code}
        stem.with_suffix(".json").write_text(json.dumps(noted), encoding="utf-8")

    def _wait(self, process: subprocess.Popen[bytes], reached: Callable[[], bool]) -> bool:
        """Wait for the moment; False if the process ended before. A moment that never comes is there at the end."""
        until = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < until:
            if reached():
                return True
            time.sleep(POLL)
        return process.poll() is None

    # --- kills ----------------------------------------------------------------------------------------------

    def _kill(self) -> Kill:
        at = self._random.choice(TARGETS)
        if self._random.random() < 0.7:  # noqa: PLR2004
            late = self._random.choice((0.0, 0.0, 0.0, round(self._random.uniform(0, 0.1), 3)))
            points = [point for point in POINTS if self.kind != "plain" or not point.startswith("remote.git")]
            return Kill(at, point=self._random.choice(points), seconds=late)
        return Kill(at, seconds=round(self._random.choice((1.0, 15.0)) * self._random.random(), 3))

    def _another_moment(self, kill: Kill) -> None:
        """The point was not reached: it may be in the next command, or any moment has to do."""
        if self._random.random() < 0.5:  # noqa: PLR2004
            kill.point, kill.seconds = "", round((2 if self._stepwise else 6) * self._random.random(), 3)
        self.planned.append(self.planned.pop(self.planned.index(kill)))

    def _moment(self, kill: Kill, began: float) -> Callable[[], bool]:
        if not kill.point:
            return lambda: time.monotonic() - began >= kill.seconds
        before = self._found(kill.point)

        def reached() -> bool:
            if self._found(kill.point) <= before:
                return False
            time.sleep(kill.seconds)
            return True

        return reached

    def _found(self, point: str) -> set[tuple[str, int, int]]:
        found = set()
        for path in self.place.folder.glob(point):
            with suppress(OSError):
                stat = path.stat()
                found.add((str(path), stat.st_ino, stat.st_mtime_ns))
        return found

    def _shoot(self, kill: Kill, process: subprocess.Popen[bytes], words: Sequence[str]) -> None:
        self.planned.remove(kill)
        victims = self._victims(kill.at, process)
        kill.command = " ".join(words)
        for victim in victims:
            with suppress(psutil.Error):
                kill.hit.append(" ".join(victim.cmdline()[:6])[-120:])
                victim.kill()
        self.outcome.kills.append(kill)

    def _victims(self, at: str, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
        living = oracle.marked(self.place)
        if at == "everything":
            return living
        if at == "group":
            return [one for one in living if _group(one) == process.pid]
        fitting = [one for one in living if at == "any" or _class(one, process.pid) == at]
        return [self._random.choice(fitting or living)] if living else []

    # --- the end --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self.outcome.complaints += oracle.look(self.place, self.place.folder / "seen")
        self.outcome.complaints += oracle.edits(self.place, self.facts)

    def _stop_serving(self) -> None:
        if self._serving is not None:
            self._serving.send_signal(signal.SIGINT)
            try:
                self._serving.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.outcome.complaints.append("serve: still at work after Ctrl-C")
                self._serving.kill()
                self._serving.wait()

    def _come_to_rest(self) -> None:
        """Wait until nothing but the private server is left, which stays for a minute by itself; then end it."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            living = oracle.marked(self.place)
            servers = [one for one in living if _class(one, 0) == "server"]
            if len(living) == len(servers):
                for one in servers:
                    with suppress(psutil.Error):
                        one.terminate()
                psutil.wait_procs(servers, timeout=20)
                return
            time.sleep(0.5)

    def _end_all(self) -> None:
        for one in oracle.marked(self.place):
            with suppress(psutil.Error):
                one.kill()


def _group(process: psutil.Process) -> int:
    try:
        return os.getpgid(process.pid)
    except OSError:
        return 0


def _class(process: psutil.Process, terminal: int) -> str:
    """Which part of the program a process is."""
    if process.pid == terminal:
        return "terminal"
    try:
        line = " ".join(process.cmdline())
        name = process.name()
    except psutil.Error:
        return "gone"
    if oracle.SERVER in line:
        return "server"
    if name.startswith("git"):
        return "git"
    if "agent.sh" in line or name == "sleep":
        return "agent"
    if name == FORK_SERVER:
        return "forks"
    return "flow" if "python" in name or name == FLOW else "other"
