"""Terminals: they serve the flows and follow them, look on at each other, answer, and stop as they are told."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from irontree.app import App
from irontree.cli.console import Console
from irontree.cli.drive import Drive
from irontree.errors import AnswerRefused
from irontree.flows.runs import runs
from irontree.flows.serve.session import TerminalSession
from irontree.flows.server.private import LocalServer
from irontree.services.answers.answers import Answer
from irontree.services.execution.steps import next_step, stop_at
from irontree.services.loops.loop import read_loop
from irontree.services.views.overview import SERVING
from tests.integration.crash.laboratory import faults
from tests.prefect.terminal import follow, follower, typed
from tests.prefect.toys import DIAMOND, FRIENDLY, GREETING, make_toy, served, wait_until
from tests.support.repositories import git
from tests.support.soak import in_soak


@pytest.fixture
def open_session(state_folder, environment):
    """Be a terminal on that project, whose flows are served."""

    @contextmanager
    def open_session(app) -> Iterator[TerminalSession]:
        with TerminalSession(
            app, environment=environment, folder=state_folder, comments_every=timedelta(seconds=0.5)
        ) as session:
            session.begin()
            yield session

    return open_session


@in_soak
@pytest.mark.timeout(300)
def test_two_folders_and_a_viewer_at_once_each_see_their_own_loop_to_its_goal(tmp_path, client, open_session):
    """...and when the serving terminals end, no run is left that seems to go on."""
    first = make_toy(tmp_path / "first", client, DIAMOND)
    second = make_toy(tmp_path / "second", client, FRIENDLY)
    loops = {toy: toy.authorise() for toy in (first, second)}
    with open_session(first.app) as one, open_session(second.app) as two, open_session(first.app) as viewer:
        assert [session.serves for session in (one, two, viewer)] == [True, True, False]
        two.runs.set_going(loops[second])
        ended, screen = follow(first.app, one, loops[first], "issue-3=accept:pretty")
        assert ended == "completed"
        assert follow(second.app, two, loops[second], "issue-1=send-back:longer", "issue-1=accept")[0] == "completed"
        assert follower(first.app, viewer, loops[first]).follow() == "completed"
    assert "Answered: accept (“pretty”)" in screen.lines
    assert [line for line in screen.lines if line.endswith(": done")] == [
        f"#{number} {title}: done"
        for number, title in ((1, "Greeting"), (3, "Left"), (4, "Right"), (2, "Parts"), (5, "Close"))
    ]
    assert screen.lines.index("goal reached: everything in scope is done") == len(screen.lines) - 1
    for toy in (first, second):
        assert [run for run in runs.taken_up(client, toy.id) if run.name != "janitor"] == []  # on its schedule
        assert faults(toy.app) == []
    assert {run.parameters["number"] for run in first.all_runs() if "number" in run.parameters} == {1, 2, 3, 4, 5}
    assert {run.parameters["number"] for run in second.all_runs() if "number" in run.parameters} == {1}


@in_soak
def test_a_question_that_loses_its_run_is_asked_again_while_a_terminal_follows(tmp_path, client, open_session):
    """Somebody cancels the suspended run in the browser."""
    toy = make_toy(tmp_path, client, FRIENDLY)
    loop_id = toy.authorise()
    with open_session(toy.app) as session:
        assert follow(toy.app, session, loop_id)[0] == "halted"
        [asking] = toy.suspended()
        runs.cancel(client, asking.id)
        assert follower(toy.app, session, loop_id, "issue-1=accept").follow() == "completed"


def test_a_comment_on_the_issue_answers_while_a_terminal_serves(tmp_path, client, open_session):
    """A wrong one is answered under it and changes nothing; the right one lets the run and its loop go on."""
    toy = make_toy(tmp_path, client, FRIENDLY)
    loop_id = toy.authorise()
    with open_session(toy.app) as session:
        assert follow(toy.app, session, loop_id)[0] == "halted"
        toy.app.forge().post_comment(1, "/retry 2")
        wait_until(lambda: "was not taken" in toy.app.forge().comments(1)[-1].body)
        toy.app.forge().post_comment(1, "/accept pretty")
        wait_until(lambda: read_loop(toy.app, loop_id).entity.status == "completed")
        session.come_to_rest()
    accepted = next(record for record in toy.app.log.read(1).records if record.event.event == "checkup_accept_recorded")
    assert (accepted.meta["channel"], accepted.meta["note"]) == ("comment", "pretty")
    assert faults(toy.app) == []


def test_an_answer_that_was_given_beforehand_fits_the_question_that_is_asked(tmp_path, client, open_session):
    """`retry` allows an attempt after failures, with a number; a block has no field for that."""
    toy = make_toy(tmp_path, client, GREETING)
    loop_id = toy.authorise()
    with toy.app.driver.hold("stop"):
        stop_at(toy.app, 1, "enough")
    with open_session(toy.app) as session:
        ended, screen = follow(toy.app, session, loop_id, "issue-1=retry")
    assert ended == "completed", screen.lines
    assert "Answered: retry" in screen.lines


def test_a_choice_that_a_form_does_not_offer_is_refused_with_those_that_it_offers(tmp_path, client, open_session):
    toy = make_toy(tmp_path, client, FRIENDLY)
    loop_id = toy.authorise()
    with open_session(toy.app) as session:
        assert follow(toy.app, session, loop_id)[0] == "halted"
        asked_about = next_step(toy.app, 1, loop_id)
        with pytest.raises(AnswerRefused, match="“allow” is not offered") as refusal:
            session.runs.answer(asked_about, Answer("allow", "Ada"), session.runs.asked(asked_about))
    assert refusal.value.remedy == "One of: accept, reject, skip, stop."


def test_a_terminal_begins_with_its_loop_and_serves_the_rest_a_little_later(
    tmp_path, client, state_folder, environment
):
    """Whoever waits for the first attempt waits for two of the five deployments; a run left by the dead is cleared."""
    toy = make_toy(tmp_path, client, GREETING)
    loop_id = toy.authorise()
    with TerminalSession(toy.app, environment=environment, folder=state_folder) as session:
        page = session.begin(loop_id)
        assert page == session.runs.url(session.runs.run_of_loop(loop_id).id)
        wait_until(lambda: len(client.read_deployments(deployment_filter=runs.of_repository(toy.id))) == 5)
        assert follower(toy.app, session, loop_id).follow() == "completed"
        session.come_to_rest()


def test_a_terminal_that_ends_begins_to_poll_no_comments(tmp_path, client, state_folder, environment):
    """It begins when the server is first asked something, which may be whether all is at rest."""
    toy = make_toy(tmp_path, client, GREETING)
    with TerminalSession(toy.app, environment=environment, folder=state_folder) as session:
        session.begin()
        session.finish()
        assert session.runs.at_rest()
        assert "comments" not in {thread.name for thread in threading.enumerate()}


def test_runs_that_others_start_and_answers_typed_here_wait_for_no_next_look(
    tmp_path, client, state_folder, environment
):
    """Here whoever takes up runs looks every ten minutes, but for the first time."""
    toy = make_toy(tmp_path, client, FRIENDLY)
    loop_id = toy.authorise()
    seldom = environment | {"PREFECT_WORKER_QUERY_SECONDS": "600"}
    with TerminalSession(toy.app, environment=seldom, folder=state_folder) as session:
        session.begin(loop_id)
        assert follower(toy.app, session, loop_id, "issue-1=send-back:longer", "issue-1=accept").follow() == "completed"
        session.come_to_rest()


@dataclass
class BusyServer:
    """A server that is waited for while something happens."""

    folder: Path
    meanwhile: Callable[[], object]
    private: LocalServer | None = None

    def start(self, app: App) -> None:
        pass

    def take_child(self) -> None:
        pass

    def expected_environment(self) -> dict[str, str]:
        return {}

    def environment(self) -> dict[str, str]:
        self.meanwhile()
        return {}


@in_soak
def test_what_others_do_while_a_terminal_waits_for_its_server_is_told(tmp_path, client, state_folder):
    toy = make_toy(tmp_path, client, GREETING, "issue", "loop")
    loop_id = toy.authorise()
    told = io.StringIO()
    with served(toy), toy.app.alive(SERVING).hold("irontree serve"):
        server = BusyServer(state_folder, lambda: toy.go(loop_id))
        assert Drive(toy.app, server, Console(told, told)).drive(loop_id) == 0
    assert "#1 Greeting: done" in told.getvalue()
    assert "goal reached: everything in scope is done" in told.getvalue()


# --- other commands ---------------------------------------------------------------------------------------------


def test_an_answer_that_is_typed_as_a_command_wakes_the_run_that_waits_and_its_loop(tmp_path, client, api_url):
    toy = make_toy(tmp_path, client, FRIENDLY, "issue", "loop")
    loop_id = toy.authorise()
    with served(toy):
        toy.go(loop_id)
    with typed(toy.root, ["checkup", "accept", "issue-1"], {"PREFECT_API_URL": api_url}, tmp_path / "log") as command:
        assert command.end() == 0, command.said
    assert f"loop {loop_id} goes on: {api_url.removesuffix('/api')}/runs/flow-run/" in command.said
    assert {run.state for run in toy.all_runs() if run.state != "COMPLETED"} == {"SCHEDULED"}
    with served(toy):
        toy.settle()
    # The issue's run may ask for the loop once more after its goal: that run has nothing to do.
    assert "Goal reached" in [run.state_name for run in toy.all_runs()]


@in_soak
def test_cancelling_a_loop_as_a_command_closes_the_form_of_its_question(tmp_path, client, api_url):
    toy = make_toy(tmp_path, client, FRIENDLY, "issue", "loop")
    loop_id = toy.authorise()
    with served(toy):
        toy.go(loop_id)
    words = ["task", "resume", loop_id, "cancel"]
    with typed(toy.root, words, {"PREFECT_API_URL": api_url}, tmp_path / "log") as command:
        assert command.end() == 0, command.said
    assert toy.suspended() == []
    with served(toy):
        toy.settle()
    assert [run.message for run in toy.runs_of(1)] == ["its loop is cancelled"]


def test_detached_the_loop_is_left_to_whoever_serves_it(tmp_path, client, api_url):
    toy = make_toy(tmp_path, client, GREETING, "issue", "loop")
    words = ["task", "SPEC.md", "--approve", toy.revision(), "--detach"]
    with typed(toy.root, words, {"PREFECT_API_URL": api_url}, tmp_path / "log") as command:
        assert command.end() == 0, command.said
    [loop_id] = toy.app.loops.ids()
    [run] = toy.all_runs()
    assert (run.state, run.parameters["loop_id"]) == ("SCHEDULED", loop_id)
    assert command.said.splitlines()[-1] == f"Loop {loop_id} is left to a worker: {runs.url_for(run.id)}"


# --- Ctrl-C ---------------------------------------------------------------------------------------------------


@pytest.fixture
def held(tmp_path, client):
    """A project whose agent, in its first attempt, works until a file is gone."""
    agent = f"""\
if mkdir {tmp_path}/started; then
  echo half > half.txt
  while [ -e {tmp_path}/hold ]; do sleep 0.05; done
fi
echo whole > greeting.txt; rm -f half.txt
"""
    (tmp_path / "hold").touch()
    return make_toy(tmp_path / "toy", client, GREETING, agent=agent)


@pytest.fixture
def working(held, api_url, tmp_path):
    """`irontree task` on it, in the middle of the first attempt."""
    revision = held.revision()
    words = ["task", "SPEC.md", "--approve", revision]
    with typed(held.root, words, {"PREFECT_API_URL": api_url}, tmp_path / "log") as command:
        wait_until(lambda: (tmp_path / "started").exists() or command.process.poll() is not None)
        assert command.process.poll() is None, command.said
        yield command


def test_the_first_ctrl_c_lets_the_step_finish_and_says_how_to_go_on(held, working, api_url, tmp_path):
    working.interrupt()
    working.wait_until_it_says("Finishing the present step")
    (tmp_path / "hold").unlink()
    assert working.end() == 130
    assert held.events() == ["task_published", "run_started", "run_completed"]
    resume = working.said.splitlines()[-1]
    assert resume.startswith("Go on with: irontree resume ")
    words = resume.partition("irontree ")[2].split()
    with typed(held.root, words, {"PREFECT_API_URL": api_url}, tmp_path / "second") as again:
        assert again.end() == 0, again.said
    assert held.state().done
    assert held.events().count("run_started") == 1


def test_the_second_ctrl_c_kills_the_agent_keeps_its_work_and_gives_the_attempt_back(held, working, client):
    working.interrupt()
    working.wait_until_it_says("Finishing the present step")
    working.interrupt()
    assert working.end() == 130
    assert held.events() == ["task_published", "run_started", "run_interrupted"]
    assert held.state().attempt_count == 0
    assert "half" in git(held.root, "show", "refs/irontree/salvage/issue-1/2:half.txt")
    assert working.said.splitlines()[-1].startswith("Go on with: irontree resume ")
    of_work = [run for run in runs.taken_up(client, held.id) if {"number", "loop_id"} & run.parameters.keys()]
    assert of_work == []  # a janitor may be due
    assert faults(held.app) == []


@in_soak
def test_the_second_ctrl_c_ends_as_interrupted_also_where_the_log_cannot_tell_what_became_of_the_attempt(held, working):
    (held.root / ".mino" / "events" / "issue-1" / "0003-nonsense.yml").write_text("not an event\n")
    working.interrupt()
    working.wait_until_it_says("Finishing the present step")
    working.interrupt()
    assert working.end() == 130
    assert held.events() == ["task_published", "run_started"]
