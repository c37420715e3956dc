"""`loop.on_halt: go_on`: questions are open while other work goes on, and an answer starts no second loop (R17)."""

from __future__ import annotations

import pytest

from irontree.domain.state import Phase
from irontree.flows.runs.recovery import take_up, wake_overtaken
from irontree.services.answers.answers import ANSWERING
from irontree.services.execution.steps import put_in_order
from irontree.services.questions.questions import open_questions
from irontree.services.record import read_world
from tests.prefect.toys import AGENT, FRIENDLY, GREETING, Toy, make_toy, served, wait_until
from tests.support.repositories import git

GO_ON = "loop:\n  on_halt: go_on\n"
ACCEPT = "accept this commit"
STOP = "stop the whole loop"
PARTING = "\n## Parting\n\n- [ ] it is there `$ test -f parting.txt`\n- [ ] it is friendly (manual)\n"
OTHER = "\n## Other\n\n- [ ] it is there `$ test -f other.txt`\n"
LAST = "\n## Last\n\nDepends on: Greeting\n\n- [ ] it is there `$ test -f last.txt`\n"


@pytest.fixture
def project(tmp_path, client):
    """Lay out a project whose loop is approved and goes on at halts; nothing is started yet."""

    def project(spec: str, agent: str = AGENT, mode: str = "direct") -> tuple[Toy, str]:
        toy = make_toy(tmp_path, client, spec, "issue", "loop", agent=agent, settings=GO_ON)
        config = toy.root / ".mino" / "config.yml"
        config.write_text(config.read_text().replace("publish:\n", f"publish:\n  mode: {mode}\n"))
        return toy, toy.authorise()

    return project


def asking(toy: Toy) -> list[int]:
    """The issues whose forms are open."""
    return sorted(run.parameters["number"] for run in toy.suspended())


def test_two_questions_are_open_at_once_a_third_issue_is_done_and_each_answer_lets_the_loop_go_on(project):
    toy, loop_id = project(FRIENDLY + PARTING + OTHER)
    with served(toy):
        first = toy.go(loop_id)
        assert (first.state_name, first.message.rpartition(". ")[2]) == ("Halted", "Open questions of issues: 2")
        assert asking(toy) == [1, 2]
        assert toy.state(3).done
        halted = toy.app.loops.read(loop_id).records[-1]
        assert (halted.event.halt_at_task_key, halted.told.waiting) == ("greeting", ("greeting", "parting"))
        toy.answer(toy.runs_of(2)[0].id, ACCEPT)
        assert toy.rest(loop_id).state_name == "Halted"
        assert (asking(toy), toy.state(2).done) == ([1], True)
        toy.answer(toy.runs_of(1)[0].id, ACCEPT)
        assert toy.rest(loop_id).state_name == "Goal reached"
    again = ["loop_halted", "loop_resumed"]
    assert toy.loop_events(loop_id) == ["loop_started", *again, *again, "loop_completed"]
    assert [len(toy.runs_of(number)) for number in (1, 2, 3)] == [1, 1, 1]


SLOW = f"""{AGENT}
if [ "$IRONTREE_TASK_KEY" = other ]; then
  touch "{{folder}}/at-work"
  for turn in $(seq 300); do [ -f "{{folder}}/enough" ] || sleep 0.1; done
fi
"""
"""Works on the task `other` until somebody says that it is enough, and half a minute at most."""


def at_work_on_other(toy: Toy, folder, loop_id: str) -> None:
    """Let the loop go until it works on `other`, and `greeting` asks."""
    assert take_up(toy.app, loop_id)
    wait_until((folder / "at-work").exists)
    wait_until(toy.suspended)
    world = read_world(toy.app)
    assert (world.state(1).phase, world.state(2).phase) == (Phase.PENDING, Phase.RUNNING)
    [question] = open_questions(toy.app, world, [toy.loop(loop_id)])
    assert (question.task_key, toy.loop(loop_id).entity.status) == ("greeting", "running")


def test_an_answer_while_another_issue_is_at_work_is_recorded_after_that_step_and_the_loop_never_halts(
    project, tmp_path
):
    toy, loop_id = project(FRIENDLY + OTHER + LAST, SLOW.format(folder=tmp_path))
    with served(toy):
        at_work_on_other(toy, tmp_path, loop_id)
        toy.answer(toy.suspended()[0].id, ACCEPT)
        wait_until(lambda: toy.app.alive(ANSWERING).holder())
        assert toy.state(1).phase is Phase.PENDING
        (tmp_path / "enough").touch()
        assert toy.rest(loop_id).state_name == "Goal reached"
    assert toy.loop_events(loop_id) == ["loop_started", "loop_completed"]
    assert len([run for run in toy.all_runs() if "number" not in run.parameters]) == 1
    assert toy.events(3)[0:2] == ["task_published", "run_started"]


def test_a_loop_that_is_stopped_in_the_form_of_one_issue_stops_after_the_step_at_work(project, tmp_path):
    toy, loop_id = project(FRIENDLY + OTHER, SLOW.format(folder=tmp_path))
    with served(toy):
        at_work_on_other(toy, tmp_path, loop_id)
        toy.answer(toy.suspended()[0].id, STOP)
        wait_until(lambda: toy.app.alive(ANSWERING).holder())
        (tmp_path / "enough").touch()
        assert toy.rest(loop_id).state_name == "Cancelled"
    assert toy.events(2) == ["task_published", "run_started", "run_completed"]
    assert toy.suspended() == []


def merge(toy: Toy, folder, *branches: str) -> None:
    """Merge proposed branches into the target, as a person does with plain git."""
    theirs = folder / "theirs"
    if not theirs.exists():
        git(folder, "clone", "--quiet", "remote.git", "theirs")
    git(theirs, "fetch", "--quiet", "origin")
    for branch in branches:
        git(theirs, "merge", "--quiet", "--no-ff", "-m", f"Merge {branch}", f"origin/{branch}")
    git(theirs, "push", "--quiet", "origin", "main")


def test_several_requests_are_open_at_once_and_a_merge_is_seen_while_the_loop_works(project, tmp_path):
    toy, loop_id = project(GREETING + OTHER + LAST, SLOW.format(folder=tmp_path), "pull_request")
    with served(toy):
        at_work_on_other(toy, tmp_path, loop_id)
        assert toy.state(3).runs_started == 0
        merge(toy, tmp_path, "feature/1-greeting")
        (tmp_path / "enough").touch()
        assert toy.rest(loop_id).state_name == "Halted"
        assert toy.state(1).done
        assert (asking(toy), toy.loop_events(loop_id)) == ([2, 3], ["loop_started", "loop_halted"])
        merge(toy, tmp_path, "feature/3-last", "feature/2-other")
        put_in_order(toy.app, "janitor")
        assert take_up(toy.app, loop_id)
        wake_overtaken(toy.app)
        assert toy.rest(loop_id).state_name == "Goal reached"
