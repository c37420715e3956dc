"""Terminal, service and worker are killed while issues are taken in, and while requests wait: nothing is doubled."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from irontree.domain.commands import Issues
from irontree.services.proposals.sources import resolve
from tests.integration.crash.laboratory import faults
from tests.prefect.terminal import typed
from tests.prefect.toys import Toy, make_toy, wait_until
from tests.support.repositories import git
from tests.support.soak import in_soak

pytestmark = [in_soak, pytest.mark.timeout(600)]
LONG = 120.0
PLAIN = 'echo whole > "$IRONTREE_TASK_KEY.txt"'
NAMES = ("First", "Second")
SPEC = "# Toy\n" + "".join(f"\n## {name}\n\n- [ ] it is there `$ test -f {name.lower()}.txt`\n" for name in NAMES)
GO_ON = "loop:\n  on_halt: go_on\n"
Moment = Callable[[Toy], object]


@pytest.fixture
def chosen(api_url, tmp_path) -> dict[str, str]:
    """The environment of somebody who types."""
    return {"PREFECT_API_URL": api_url, "XDG_STATE_HOME": str(tmp_path / "state")}


def below(pattern: str) -> Moment:
    """When a file of that name is there, below `.mino/`."""
    return lambda toy: list((toy.root / ".mino").glob(pattern))


def pushed(toy: Toy) -> str:
    """When a branch to be proposed is on the remote."""
    return git(toy.root.parent / "remote.git", "branch", "--list", "feature/*")


def kill_at(toy: Toy, words: list[str], chosen: Mapping[str, str], log: Path, moment: Moment) -> None:
    """Type that command and kill it at that moment; what it started ends with it."""
    with typed(toy.root, words, chosen, log) as command:
        wait_until(lambda: moment(toy) or command.process.poll() is not None, every=0.01, patience=LONG)
        started = psutil.Process(command.process.pid).children(recursive=True)
        os.kill(command.process.pid, signal.SIGKILL)
        command.process.wait()
    assert psutil.wait_procs(started, timeout=60)[1] == []


def type_to_the_end(toy: Toy, words: list[str], chosen: Mapping[str, str], log: Path) -> tuple[int, str]:
    with typed(toy.root, words, chosen, log) as command:
        return command.end(), command.said


# --- issues are taken in ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moment",
    [
        "plans/*.yml",
        "events/issue-1/0001-*.yml",
        "events/issue-2/0001-*.yml",
        "events/issue-2/0002-*.yml",
        "loops/*.yml",
        "events/issue-1/*run-started.yml",
    ],
)
def test_the_command_is_killed_while_it_takes_issues_in_and_typed_again(tmp_path, client, chosen, moment):
    toy = make_toy(tmp_path / "toy", client, SPEC, agent=PLAIN)
    (toy.root / "SPEC.md").unlink()
    for name in NAMES:
        body = f"Key: {name.lower()}\n\n- [ ] it is there `$ test -f {name.lower()}.txt`\n"
        toy.app.forge().create_issue(name, body)
    words = ["task", "#1 #2", "--approve", resolve(toy.app, Issues((1, 2)), "#1 #2").name]
    kill_at(toy, words, chosen, tmp_path / "first", below(moment))
    code, said = type_to_the_end(toy, words, chosen, tmp_path / "second")
    assert code == 0, said
    for number in (1, 2):
        assert toy.state(number).done
        assert toy.events(number)[:2] == ["task_adopted", "task_approved"]
    assert faults(toy.app) == []


# --- requests are open --------------------------------------------------------------------------------------


@pytest.fixture
def proposing(tmp_path, client) -> Toy:
    """Two tasks that are proposed in requests, the second while the first one waits."""
    toy = make_toy(tmp_path / "toy", client, SPEC, agent=PLAIN, settings=GO_ON)
    config = toy.root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace("publish:\n", "publish:\n  mode: pull_request\n"))
    return toy


def requests(toy: Toy) -> list[Path]:
    return sorted((toy.root / ".mino" / "forge" / "pulls").glob("*.md"))


def both_wait_in_one_request_each(toy: Toy) -> bool:
    assert [toy.events(number)[-1] for number in (1, 2)] == ["verify_pending_acceptance"] * 2
    assert len(requests(toy)) == 2
    assert faults(toy.app) == []
    return True


def merge_both(toy: Toy) -> None:
    theirs = toy.root.parent / "theirs"
    git(theirs.parent, "clone", "--quiet", "remote.git", "theirs")
    for branch in ("feature/1-first", "feature/2-second"):
        git(theirs, "merge", "--quiet", "--no-ff", "-m", f"Merge {branch}", f"origin/{branch}")
    git(theirs, "push", "--quiet", "origin", "main")


def all_is_done(toy: Toy, loop_id: str) -> bool:
    assert toy.loop(loop_id).entity.status == "completed"
    for number in (1, 2):
        assert toy.events(number).count("checkup_accept_recorded") == 1
        assert toy.state(number).done
    subjects = git(toy.root.parent / "remote.git", "log", "--format=%s", "main").splitlines()
    assert sorted(line for line in subjects if line.startswith("[run]")) == ["[run] #1: First", "[run] #2: Second"]
    assert faults(toy.app) == []
    return True


MOMENTS: dict[str, Moment] = {
    "branch": pushed,
    "request": below("forge/pulls/*.md"),
    "pending": below("events/issue-1/*verify-pending-acceptance.yml"),
    "second": below("events/issue-2/*run-started.yml"),
    "both": below("events/issue-2/*verify-pending-acceptance.yml"),
    "halted": below("loops/*/events/*loop-halted.yml"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_command_is_killed_while_it_proposes_and_typed_again(proposing, tmp_path, chosen, moment):
    words = ["task", "SPEC.md", "--approve", proposing.revision()]
    kill_at(proposing, words, chosen, tmp_path / "first", MOMENTS[moment])
    code, said = type_to_the_end(proposing, words[:2], chosen, tmp_path / "second")
    assert code == 1, said
    assert both_wait_in_one_request_each(proposing)
    merge_both(proposing)
    code, said = type_to_the_end(proposing, words[:2], chosen, tmp_path / "third")
    assert code == 0, said
    [loop_id] = proposing.app.loops.ids()
    assert all_is_done(proposing, loop_id)


@pytest.mark.parametrize("victim", ["service", "worker"])
@pytest.mark.parametrize("moment", ["branch", "pending", "second"])
def test_the_service_or_its_worker_is_killed_while_requests_are_open(proposing, tmp_path, chosen, victim, moment):
    loop_id = proposing.authorise()
    serve = ["serve", "--attach"]
    with typed(proposing.root, serve, chosen, tmp_path / "first") as first:
        wait_until(lambda: MOMENTS[moment](proposing), every=0.01, patience=LONG)
        if victim == "worker":
            [worker] = psutil.Process(first.process.pid).children()
            worker.kill()
            first.wait_until_it_says("the worker died; starting another", patience=LONG)
            wait_until(lambda: proposing.loop(loop_id).entity.status == "halted", patience=LONG)
    with typed(proposing.root, serve, chosen, tmp_path / "second") as second:
        second.wait_until_it_says("Ctrl-C stops", patience=LONG)
        wait_until(lambda: proposing.loop(loop_id).entity.status == "halted", patience=LONG)
        assert both_wait_in_one_request_each(proposing)
        merge_both(proposing)
        for number in (2, 1):
            code, said = type_to_the_end(
                proposing, ["checkup", "accept", f"issue-{number}", "--wait", "60"], chosen, tmp_path / f"{number}"
            )
            assert code == 0, said
        wait_until(lambda: proposing.loop(loop_id).entity.status == "completed", patience=LONG)
        second.interrupt()
        assert second.end() == 0, second.said
    assert all_is_done(proposing, loop_id)
