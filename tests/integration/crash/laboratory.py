"""A small real project that is laid out once, restored for each experiment, and looked at afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import psutil

from irontree.app import App, Origin
from irontree.bootstrap import open_app, set_up
from irontree.domain.decide import Aggregate, Finalize, Run, Verify
from irontree.domain.digests import digest_chain
from irontree.domain.state import TaskState
from irontree.domain.values import NOT_APPLICABLE
from irontree.processes.family import MARK
from irontree.services.answers.approve import approve
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.steps import perform
from irontree.services.loops.loop import read_loops
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from tests.support.repositories import git
from tests.support.store import asked_agent, standing
from tests.support.watching import Side

Life = Literal["begin", "own", "change", "asked", "discussed"]
ROOT = Path(__file__).resolve().parents[3]
SPEC = """\
# Toy

## Greeting

- [ ] it says hello `$ grep -q hello greet.txt`

## Parts

### Part one

Depends on: Greeting

- [ ] one exists `$ test -f one.txt`

### Part two

Depends on: Part one

- [ ] two exists `$ test -f two.txt`
- [ ] it is pretty (manual)
"""
AGENT = """\
case $IRONTREE_TASK_KEY in
greeting) [ $IRONTREE_ATTEMPT = 1 ] && echo bye > greet.txt || echo hello > greet.txt ;;
*) echo attempt $IRONTREE_ATTEMPT > ${IRONTREE_TASK_KEY##*-}.txt ;;
esac
"""
BEFORE = """\
# Toy

## Parts

### Part one

- [ ] one exists `$ test -f one.txt`

## Two

Depends on: Parts

- [ ] two exists `$ test -f two.txt`
"""
"""What was approved before somebody changed their mind: Part one is done, Two was closed outside."""
CHANGED = (
    BEFORE.replace("one exists", "one is there")
    + """
## Extra

Depends on: Two

- [ ] extra exists `$ test -f extra.txt`
"""
)
"""What is approved then: finished work begins again, and there is a task that the open loop does not have."""
CHANGED_AGAIN = CHANGED.replace("extra exists", "extra is there")
"""What the loop meets on its way, and what is approved in the form."""
APPENDING = "echo attempt $IRONTREE_ATTEMPT >> ${IRONTREE_TASK_KEY##*-}.txt"
GIVEN_BACK = "run_interrupted"
TALKATIVE = "report:\n  promotion: always\ncomment:\n  reply: always\n"
"""Notes in the documents for what is verified, and a reply where there may be one."""


@dataclass(frozen=True)
class Ended:
    """How one life of the driver ended: its exit code, the effects it had if it lived to tell, else what it said."""

    code: int
    effects: tuple[str, ...] = ()
    said: str = ""


class Drivers:
    """A process that has imported everything, and forks a driver for each life, one at a time."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.crash.driver"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, root: Path, kill: tuple[int | str, Side] | None = None, **job: object) -> int:
        """Begin a life with the project at *root* and the cache beside it; its process id."""
        assert self._server.stdin
        print(json.dumps({"root": str(root), "kill": kill, **job}), file=self._server.stdin, flush=True)
        return int(self._hear()["pid"])

    def end(self) -> Ended:
        """Wait for the end of the life that began."""
        answer = self._hear()
        effects = tuple(json.loads(answer["said"])) if answer["code"] == 0 else ()
        return Ended(answer["code"], effects, answer["said"])

    def close(self) -> None:
        self._server.communicate()

    def _hear(self) -> dict[str, Any]:
        assert self._server.stdout
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer


@dataclass
class Laboratory:
    """The project is always at `place`: it knows its own path. *life* is what its driver lives through."""

    folder: Path
    life: Life = "begin"
    drivers: Drivers = field(init=False)

    def __post_init__(self) -> None:
        self.place.mkdir(parents=True)
        if self.life == "asked":
            lay_out(self.place, settings=team_that_counts(self.place))
            ask(self.open())
        elif self.life == "discussed":
            lay_out(self.place, settings=team_that_discusses(self.place))
            open_issue(self.open())
        elif self.life != "change":
            lay_out(self.place, settings=TALKATIVE)
            if self.life == "own":
                propose_as_a_whole(self.root)
        else:
            lay_out(self.place, APPENDING, BEFORE)
            work_before(self.open())
        self.place.rename(self.template)
        self.drivers = Drivers()

    @property
    def place(self) -> Path:
        return self.folder / "place"

    @property
    def template(self) -> Path:
        return self.folder / "template"

    @property
    def root(self) -> Path:
        return self.place / "project"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_CACHE_HOME": str(self.place / "cache"), "XDG_STATE_HOME": str(self.place / "state")}

    def restore(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.template, self.place, symlinks=True)

    def live(self, kill: tuple[int | str, Side] | None = None, *, others: bool = False) -> Ended:
        """One life of the driver, from what is there now; killed at that effect, or at the first of that kind."""
        self.drivers.start(self.root, kill, others=others, life=self.life)
        return self.drivers.end()

    def open(self) -> App:
        return open_app(self.root, origin=Origin("eve", "command"), environment=self.environment)

    def close(self) -> None:
        self.drivers.close()


def team_that_counts(place: Path) -> str:
    """A team of one member, which answers and leaves a line in a file each time that it is asked."""
    script = f'echo asked >> {place / "asked"}; echo "It does." > "$IRONTREE_ANSWER_FILE"'
    return f"toolchain:\nteam:\n- name: tester\n  command: {json.dumps(['sh', '-c', script])}\n"


def team_that_discusses(place: Path) -> str:
    """A team of two, each of which claims a part of its own, leaves a line in a file when asked, and does its part."""
    claim = {"title": "Part of {}", "criteria": ["it is there `$ test -f part-of-{}.txt`"]}
    answer = json.dumps({"position": "I can.", "claims": [claim]})
    members = "".join(_member(place, name, answer.replace("{}", name)) for name in ("quant", "coder"))
    return f"toolchain: {{discussion: everybody}}\nteam:\n{members}"


def _member(place: Path, name: str, answer: str) -> str:
    stored = place / f"{name}.json"  # a command with backticks cannot be approved in a comment
    stored.write_text(answer)
    says = f'echo {name} >> {place / "asked"}; cat {stored} > "$IRONTREE_ANSWER_FILE"'
    script = f'if [ "$IRONTREE_ANSWER_FILE" ]; then {says}; else echo > "$IRONTREE_TASK_KEY.txt"; fi'
    return f"- name: {name}\n  command: {json.dumps(['sh', '-c', script])}\n"


def open_issue(app: App) -> None:
    """Approve the settings, and open an issue that is to be talked over."""
    app.agent_requests.approve(standing(app.policy(None)))
    app.forge().create_issue("Averages", "Trade on two averages.\n", ["type/feat"])


def ask(app: App) -> None:
    """Approve the settings, and have somebody ask the member below an issue."""
    app.agent_requests.approve(standing(app.policy(None)))
    issue = app.forge().create_issue("It prints nothing", "Since version 2.\n")
    app.agent_requests.save(asked_agent(issue_number=issue.number))


def propose_as_a_whole(root: Path) -> None:
    """Have the branch of the work proposed when all of it is done."""
    config = root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace("publish:\n", "publish:\n  mode: pull_request\n"))


@contextmanager
def laboratory(folder: Path, life: Life = "begin") -> Iterator[Laboratory]:
    made = Laboratory(folder, life)
    try:
        yield made
    finally:
        made.close()


def work_before(app: App) -> None:
    """Finish Part one and what it is part of, and have Two closed outside while its loop is open."""
    proposal = propose(app, app.repository.root / "SPEC.md")
    approve(app, proposal, proposal.name, "ada")
    for step in (Run("parts-part-one"), Verify("parts-part-one"), Finalize("parts-part-one")):
        perform(app, step)
    for step in (Aggregate("parts"), Finalize("parts")):
        perform(app, step)
    app.forge().edit_issue(read_world(app).states["two"].issue_number, state="closed")
    reconcile(app)


OPEN = "sandbox: none\n"
"""Where agents and checks wait for us, and tell us of it, outside of their workspace."""


def lay_out(place: Path, agent: str = AGENT, spec: str = SPEC, settings: str = "", sandbox: str = OPEN) -> Path:
    """A clone at `project` with a bare `remote.git`, set up, its document written; the clone."""
    command = json.dumps(["sh", "-c", agent])
    config = f"publish:\n  remote: origin\n  target_branch: main\nagent:\n  command: {command}\n{settings}{sandbox}"
    made, root = _laid_out(os.environ["HOME"], config), place / "project"
    for name in ("project", "remote.git"):
        shutil.copytree(made / name, place / name)
    settings_of_git = root / ".git" / "config"
    told = settings_of_git.read_text().replace(str(made), str(place))
    settings_of_git.write_text(re.sub(r"(?<=\tid = )\w+", uuid.uuid4().hex[:12], told))
    git(root, "status")  # the index knows the copied files by their new inodes
    (root / "SPEC.md").write_text(spec)
    return root


@cache
def _laid_out(home: str, config: str) -> Path:
    """Both, with that configuration, made once for each home, which goes with the tests: most tests have the same."""
    place = Path(tempfile.mkdtemp(prefix="laid-out-", dir=home))
    root = place / "project"
    git(place, "init", "--quiet", "--bare", "remote.git")
    git(place, "init", "--quiet", "project")
    git(root, "remote", "add", "origin", "../remote.git")
    (root / "README.md").write_text("toy\n")
    set_up(root)
    (root / ".mino" / "config.yml").write_text(config)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    git(root, "push", "--quiet", "origin", "main")
    return place


# --- what is there afterwards ---------------------------------------------------------------------------


def outcome(app: App) -> Mapping[str, Any]:
    """Everything by which a disturbed run must be like an undisturbed one."""
    world = read_world(app)
    loops, problems = read_loops(app)
    remote, archive = app.repository.root.parent / "remote.git", app.repository.root / ".mino" / "archive"
    [branch] = {plan.policy.publish.target_branch for plan in world.plans.values()}
    return {
        "problems": (*world.problems, *problems),
        "states": {key: _essence(app, state) for key, state in world.states.items()},
        "events": {key: _events(app, state.issue_number) for key, state in world.states.items()},
        "archives": sorted(str(path.relative_to(archive)) for path in archive.rglob("*.yml")),
        "plan": [app.plans.load(revision).nodes for revision in app.plans.revisions()],
        "loops": sorted((loop.entity.status, _loop_events(app, loop.id)) for loop in loops),
        "commits": sorted(git(remote, "log", "--format=%s", branch).splitlines()),
        "content": git(remote, "ls-tree", "-r", "--name-only", branch).splitlines(),
        "user": git(app.repository.root, "status", "--porcelain"),
        "issues": {number: _issue(app, number) for number in range(1, len(world.states) + 3)},
        "requests": [(r.title, r.state, r.base_branch) for r in app.forge().find_pull_requests(branch)],
        "undelivered": [app.deliveries.load(number).failures for number in world.replays],
        "locks": [path.name for path in (app.repository.root / ".mino").rglob("*.lock")],
    }


def faults(app: App) -> list[str]:
    """What an audit would complain about, and what a killed driver must not leave."""
    world = read_world(app)
    found = []
    for number in world.replays:
        records = app.log.read(number).records
        if [record.event.sequence for record in records] != list(range(1, len(records) + 1)):
            found.append(f"issue-{number}: sequences are not contiguous")
        found += [f"issue-{number}: digest {broken}" for broken in digest_chain(records)]
        named = {getattr(record.event, name, None) for record in records for name in ("code_ref", "verify_anchor_sha")}
        found += [f"{sha} is in no ref" for sha in named - {None, NOT_APPLICABLE} if not _has_ref(app, str(sha))]
    found += [f"{process} is left" for process in leftover_processes(app.repository.root.parent)]
    found += [f"{path} is left" for path in (app.repository.root / ".mino").rglob(".*.tmp")]
    return found


def leftover_processes(place: Path) -> list[str]:
    """Children of ours that still live, below *place*."""
    return [str(process) for process in psutil.process_iter() if _is_ours(process, place)]


def budget_used(app: App) -> int:
    return sum(found.entity.budget_used for found in read_loops(app)[0])


def _is_ours(process: psutil.Process, place: Path) -> bool:
    try:
        return MARK in process.environ() and Path(process.cwd()).is_relative_to(place)
    except (psutil.Error, OSError):
        return False


def _essence(app: App, state: TaskState) -> tuple[object, ...]:
    """The state, with the message of the commit that is its evidence in the place of the SHA."""
    evidence = state.code_ref
    if evidence not in (None, NOT_APPLICABLE):
        evidence = git(app.repository.root, "show", "--no-patch", "--format=%s", str(evidence))
    return state.phase.value, state.attempt_count, state.completion_basis, evidence


def _events(app: App, number: int) -> list[str]:
    """The names, less the attempts that a kill gave back."""
    names = [record.event.event for record in app.log.read(number).records]
    return [
        name for place, name in enumerate(names) if name != GIVEN_BACK and names[place + 1 : place + 2] != [GIVEN_BACK]
    ]


def _loop_events(app: App, loop_id: str) -> list[str]:
    return [record.event.event for record in app.loops.read(loop_id).records]


def _issue(app: App, number: int) -> object:
    issue = app.forge().read_issue(number)
    if issue is None:
        return None
    comments = [comment.body.splitlines()[0] for comment in app.forge().comments(number)]
    return issue.title, issue.state, sorted(issue.labels), comments


def _has_ref(app: App, sha: str) -> bool:
    return bool(git(app.repository.root, "for-each-ref", "--contains", sha, "--count=1", "refs/irontree", check=False))
