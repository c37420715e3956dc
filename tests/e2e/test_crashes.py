"""Whatever is killed, the work ends as if nothing had been: same events, commits and comments, and nobody left over."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psutil
import pytest

from irontree.errors import ServerUnavailable
from irontree.flows.runs import runs
from irontree.flows.runs.recovery import newest_run, start_what_waits
from irontree.flows.serve.session import TerminalSession
from tests.integration.crash.laboratory import faults
from tests.prefect.terminal import follow, follower, typed
from tests.prefect.toys import Toy, wait_until
from tests.support.crashes import Held, ends_as
from tests.support.repositories import git
from tests.support.soak import in_soak

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def held(request, tmp_path, client, witness) -> Held:
    """Held while the agent works, or where the test says."""
    return Held(tmp_path, client, witness, at=getattr(request, "param", "agent"))


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
        session.begin()
        session.runs.set_going(loop_id)
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
    terminal.runs.set_going(loop_id)
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
    with pytest.raises(ServerUnavailable, match="was killed by SIGKILL") as refusal:
        follower(held.toy.app, terminal, loop_id).follow()
    assert f"irontree resume {loop_id}" in refusal.value.remedy
    assert runs.taken_up(client, held.toy.id) != ()
    terminal.__exit__(None, None, None)
    assert runs.taken_up(client, held.toy.id) == ()
    with TerminalSession(held.toy.app, environment=environment, folder=state_folder) as another:
        another.begin()
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
