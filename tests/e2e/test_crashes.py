"""Whatever is killed, the work ends as if nothing had been: same events, commits and comments, and nobody left over."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from irontree.errors import ServerUnavailable
from irontree.flows.runs import runs
from irontree.flows.runs.forms import open_question
from irontree.flows.runs.recovery import newest_run, start_what_waits
from irontree.flows.serve.session import TerminalSession
from irontree.flows.server.connection import ServerState, local_environment
from irontree.flows.server.credentials import read_password
from irontree.flows.server.private import LocalServer
from tests.integration.crash.laboratory import faults, outcome
from tests.prefect.harness import ROOT, drain, prefect_at, prepare_folder
from tests.prefect.terminal import follow, follower, typed
from tests.prefect.toys import FRIENDLY, GREETING, Toy, make_halted, make_toy, served, text_of, wait_until
from tests.support.processes import Witness
from tests.support.repositories import git
from tests.support.soak import SOAK, in_soak

pytestmark = pytest.mark.timeout(300)

PLAIN = 'echo whole > "$IRONTREE_TASK_KEY.txt"'
CHAIN = f"{GREETING}\n## Close\n\nDepends on: Greeting\n\n- [ ] it is there `$ test -f close.txt`\n"
SPEC = CHAIN if SOAK else GREETING
"""Each task costs the start of a process; `irontree demo --kill` goes on with further ones in `make test` too."""


def checked_by(command: str) -> str:
    return f"verify:\n  commands: [{{name: tests, run: {json.dumps(command)}}}]\n"


@pytest.fixture
def witness(tmp_path) -> Iterator[Witness]:
    """Sees the agents' processes."""
    made = Witness(tmp_path)
    yield made
    made.close()


class Held:
    """A project whose agent, or else whose check, works in its first attempt until it is released."""

    def __init__(self, folder: Path, client, witness: Witness, *, at: str = "agent") -> None:
        self.folder = folder
        (folder / "hold").touch()
        wait = f"""\
if mkdir {folder}/started 2>&-; then
  {witness.hold}
  echo half > half.txt
  while [ -e {folder}/hold ]; do sleep 0.05; done
  rm half.txt
fi
"""
        agent, check = (wait, "true") if at == "agent" else ("", wait)
        self.toy = make_toy(folder / "held", client, SPEC, agent=f"{agent}{PLAIN}", settings=checked_by(check))

    def release(self) -> None:
        (self.folder / "hold").unlink()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, api_url) -> dict[str, Any]:
    """What there is after a run that nobody disturbed."""
    with runs.connect() as client:
        toy = make_toy(
            tmp_path_factory.mktemp("undisturbed"),
            client,
            SPEC,
            "issue",
            "loop",
            agent=PLAIN,
            settings=checked_by("true"),
        )
        loop_id = toy.authorise()
        with served(toy):
            assert toy.go(loop_id).state_name == "Goal reached"
        return dict(outcome(toy.app))


@pytest.fixture
def held(request, tmp_path, client, witness) -> Held:
    """Held while the agent works, or where the test says."""
    return Held(tmp_path, client, witness, at=getattr(request, "param", "agent"))


def numbered_without_gaps(found: Mapping[str, Any]) -> dict[str, Any]:
    """A kill between taking a number and writing its issue skips that number: no number is ever given twice."""
    issues = {number: issue for number, issue in found["issues"].items() if issue}
    places = {str(number): place for place, number in enumerate(sorted(issues), start=1)}

    def renumbered(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"#(\d+)", lambda match: f"#{places.get(match[1], match[1])}", value)
        return type(value)(map(renumbered, value)) if isinstance(value, (list, tuple)) else value

    states = {key: renumbered(state) for key, state in found["states"].items()}
    return {
        **found,
        "states": states,
        "commits": renumbered(found["commits"]),
        "issues": renumbered([*issues.values()]),
    }


def ends_as(toy: Toy, undisturbed: dict[str, Any]) -> bool:
    """Whether nothing is lost, doubled or left over."""
    assert numbered_without_gaps(outcome(toy.app)) == numbered_without_gaps(undisturbed)
    assert faults(toy.app) == []
    return True


def kill(toy: Toy, run_id: object) -> None:
    """SIGKILL the process of that run."""
    holder = toy.app.alive(str(run_id)).holder()
    assert holder
    os.kill(holder.pid, signal.SIGKILL)


# --- one process of the flows, while a terminal follows ------------------------------------------------------


@pytest.fixture
def session(held, witness, state_folder, environment):
    """A terminal that follows the loop; its agent is at work."""
    loop_id = held.toy.authorise()
    with TerminalSession(held.toy.app, environment=environment, folder=state_folder) as session:
        session.wait_ready()
        session.set_going(loop_id)
        witness.wait_until_held()
        yield session, loop_id


def test_the_flow_processes_of_the_loop_and_of_its_issue_are_killed_at_once(held, session, witness, undisturbed):
    """The agent dies with its flow, and the terminal starts the loop's run again, which starts the issue's."""
    terminal, loop_id = session
    for run in (newest_run(held.toy.app, loop_id), held.toy.runs_of(1)[0]):
        kill(held.toy, run.id)
    witness.wait_until_all_are_gone()
    made = follower(held.toy.app, terminal, loop_id)
    assert made.follow() == "completed"
    terminal.come_to_rest()
    assert "The loop's process died; starting it again." in made.screen.lines
    assert held.toy.events().count("run_interrupted") == 1
    assert ends_as(held.toy, undisturbed)


@in_soak
@pytest.mark.parametrize(("held", "given_back"), [("agent", 1), ("check", 0)], indirect=["held"])
def test_the_flow_process_of_an_issue_is_killed(held, session, witness, undisturbed, given_back):
    """Agent and check die with it, the loop notices, and an attempt that was cut off is given back."""
    terminal, loop_id = session
    kill(held.toy, held.toy.runs_of(1)[0].id)
    witness.wait_until_all_are_gone()
    assert follower(held.toy.app, terminal, loop_id).follow() == "completed"
    terminal.come_to_rest()
    assert held.toy.events().count("run_interrupted") == given_back
    assert ends_as(held.toy, undisturbed)


def test_the_run_of_an_issue_is_cancelled_in_the_browser(held, session, witness, client):
    """That holds: the agent is killed, its work is kept, the loop halts, and a person says how to go on."""
    terminal, loop_id = session
    runs.cancel(client, held.toy.runs_of(1)[0].id)
    witness.wait_until_all_are_gone()
    assert follower(held.toy.app, terminal, loop_id).follow() == "halted"
    assert held.toy.events() == ["task_published", "run_started", "run_interrupted", "checkup_preflight_blocked"]
    assert "half" in git(held.toy.root, "show", "refs/irontree/salvage/issue-1/2:half.txt")
    [asking] = held.toy.suspended()
    assert "was cancelled in Prefect" in held.toy.asked(asking.id).description
    assert follower(held.toy.app, terminal, loop_id, "issue-1=go-on").follow() == "completed"
    terminal.come_to_rest()
    assert faults(held.toy.app) == []


@in_soak
def test_the_run_of_the_loop_is_cancelled_in_the_browser(held, session, witness, client):
    """That holds for the issue too, until somebody resumes the loop."""
    terminal, loop_id = session
    runs.cancel(client, newest_run(held.toy.app, loop_id).id)
    witness.wait_until_all_are_gone()
    assert follower(held.toy.app, terminal, loop_id).follow() == "called off"
    terminal.come_to_rest()
    assert held.toy.loop(loop_id).entity.halt_reason == "blocked"
    assert held.toy.events() == ["task_published", "run_started", "run_interrupted"]
    assert start_what_waits(held.toy.app) == ()
    terminal.set_going(loop_id)
    assert follower(held.toy.app, terminal, loop_id).follow() == "completed"
    terminal.come_to_rest()
    assert faults(held.toy.app) == []


@in_soak
def test_the_flow_process_of_the_loop_is_killed_while_the_agent_works(held, session, undisturbed):
    """The issue's run goes on, and the terminal starts the loop's again."""
    terminal, loop_id = session
    kill(held.toy, newest_run(held.toy.app, loop_id).id)
    held.release()
    made = follower(held.toy.app, terminal, loop_id)
    assert made.follow() == "completed"
    terminal.come_to_rest()
    assert "The loop's process died; starting it again." in made.screen.lines
    assert "run_interrupted" not in held.toy.events()
    assert ends_as(held.toy, undisturbed)


@in_soak
def test_the_process_that_serves_the_flows_is_killed_and_another_terminal_goes_on(
    held, session, witness, client, state_folder, environment, undisturbed
):
    """...and no run seems to go on meanwhile."""
    terminal, loop_id = session
    os.kill(terminal._serving._program.pid, signal.SIGKILL)
    witness.wait_until_all_are_gone()
    with pytest.raises(ServerUnavailable, match="has ended") as refusal:
        follower(held.toy.app, terminal, loop_id).follow()
    assert f"irontree resume {loop_id}" in refusal.value.remedy
    assert runs.taken_up(client, held.toy.id) != ()
    terminal.__exit__(None, None, None)
    assert runs.taken_up(client, held.toy.id) == ()
    with TerminalSession(held.toy.app, environment=environment, folder=state_folder) as another:
        another.wait_ready()
        assert another.serves
        assert follow(held.toy.app, another, loop_id)[0] == "completed"
    assert ends_as(held.toy, undisturbed)


# --- the command -------------------------------------------------------------------------------------------


def type_kill_and_type_again(held: Held, api_url: str, moment: Callable[[], object]) -> None:
    """The command is killed at that moment, and typed again without its approval."""
    words = ["task", "SPEC.md", "--approve", held.toy.revision()]
    chosen = {"PREFECT_API_URL": api_url}
    with typed(held.toy.root, words, chosen, held.folder / "first") as command:
        wait_until(lambda: moment() or command.process.poll() is not None)
        processes = psutil.Process(command.process.pid).children(recursive=True)
        command.process.kill()
        command.process.wait()
    assert psutil.wait_procs(processes, timeout=60)[1] == []
    with typed(held.toy.root, words[:2], chosen, held.folder / "second") as again:
        assert again.end() == 0, again.said


def test_the_command_is_killed_while_the_agent_works_and_typed_again(held, witness, api_url, undisturbed):
    def agent_works() -> bool:
        return (held.folder / "started").exists() and witness.wait_until_held() is None

    type_kill_and_type_again(held, api_url, agent_works)
    witness.wait_until_all_are_gone()
    assert ends_as(held.toy, undisturbed)


@in_soak
@pytest.mark.parametrize("written", ["plans", "loops"])
def test_the_command_is_killed_while_it_publishes_and_typed_again(held, api_url, undisturbed, written):
    held.release()
    type_kill_and_type_again(held, api_url, lambda: list((held.toy.root / ".mino" / written).glob("*.yml")))
    assert ends_as(held.toy, undisturbed)


# --- the server --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mortal(tmp_path_factory) -> Iterator[tuple[Path, LocalServer]]:
    """A private server that may be killed, and its state folder."""
    state_folder = prepare_folder(tmp_path_factory.mktemp("mortal") / "state")
    with closing(LocalServer(state_folder, os.environ, linger=1).start()) as server:
        yield state_folder, server


@pytest.fixture
def own_server(mortal) -> Iterator[tuple[Path, dict[str, str]]]:
    """This process's Prefect is at that server; its state folder, and the environment of processes that use it."""
    state_folder, server = mortal
    api_url = server.wait_ready()
    with prefect_at(api_url, read_password(state_folder)):
        yield state_folder, local_environment(os.environ, state_folder, api_url) | {"PYTHONPATH": str(ROOT)}
        drain()


def kill_server(state_folder: Path) -> None:
    pid = json.loads((state_folder / "server.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(pid))


def test_the_private_server_is_killed_while_the_agent_works_and_comes_back(tmp_path, witness, undisturbed, own_server):
    state_folder, environment = own_server
    with runs.connect() as client:
        held = Held(tmp_path, client, witness)
        loop_id = held.toy.authorise()
        with TerminalSession(held.toy.app, environment=environment, folder=state_folder) as session:
            session.wait_ready()
            session.set_going(loop_id)
            witness.wait_until_held()
            kill_server(state_folder)
            held.release()
            assert follower(held.toy.app, session, loop_id).follow() == "completed"
            session.come_to_rest()
        assert ends_as(held.toy, undisturbed)


@in_soak
def test_the_server_is_killed_under_an_open_question_which_is_answered_when_it_is_back(tmp_path, own_server):
    state_folder, _ = own_server
    with runs.connect() as client:
        toy, loop_id = make_halted(tmp_path / "toy", client, "issue", "loop")
        drain()
        kill_server(state_folder)
        wait_until(lambda: ServerState(state_folder).address())
        with served(toy):
            toy.answer(toy.suspended()[0].id, "accept this commit")
            assert toy.rest(loop_id).state_name == "Goal reached"
        assert faults(toy.app) == []


def test_a_process_that_dies_before_its_form_is_stored_leaves_no_run_that_cannot_be_answered(tmp_path, client):
    """Prefect sets the state of a run first, then stores what it asks."""
    toy = make_toy(tmp_path, client, FRIENDLY, "issue", "loop")
    loop_id = toy.authorise()
    with served(toy):
        toy.go(loop_id)
        [asking] = toy.suspended()
        key = toy.asked(asking.id).key
        wait_until(lambda: toy.app.alive(str(asking.id)).holder() is None)
        for part in ("schema", "description"):
            client.request("DELETE", f"/flow_runs/{asking.id}/input/suspended-{key}-{part}")
        assert open_question(client, asking.id) is None
        start_what_waits(toy.app)
        assert wait_until(lambda: open_question(client, asking.id)).key != key
        toy.answer(asking.id, "accept this commit")
        assert toy.rest(loop_id).state_name == "Goal reached"


def test_prefects_database_is_deleted_under_an_open_question_and_the_janitor_has_it_asked_again(tmp_path, own_server):
    state_folder, _ = own_server
    with runs.connect() as client:
        toy, loop_id = make_halted(tmp_path / "toy", client, "issue", "loop")
        before = toy.asked(toy.suspended()[0].id)
        drain()
        (state_folder / "prefect.db").unlink()
        kill_server(state_folder)
        wait_until(lambda: ServerState(state_folder).address())
        toy.deploy("issue", "loop", "janitor")
        assert toy.all_runs() == []
        with served(toy):
            run = client.create_flow_run_from_deployment(toy.deployment("janitor"))
            wait_until(lambda: runs.state(client, run.id).final)
            toy.settle()
            [asking] = toy.suspended()
            assert text_of(toy.asked(asking.id)) == text_of(before)
            assert toy.asked(asking.id).key == before.key
            toy.answer(asking.id, "accept this commit")
            assert toy.rest(loop_id).state_name == "Goal reached"
