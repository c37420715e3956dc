"""Recovery looks at evidence: own commit by ref, by token, or neither (R11)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.agents import Member
from irontree.domain.decide import Recover, Run
from irontree.domain.state import Phase
from irontree.errors import NotEligible
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.run import recover, run
from irontree.services.execution.steps import catch_up, next_step, perform, settle_leftovers, stop_at
from irontree.services.record import run_message
from tests.support.repositories import PLAIN
from tests.support.watching import Killed, Watched
from tests.support.world import GREETING, ONE_TASK, Scene, does, writes_what_is_asked

TWO_TASKS = f"{ONE_TASK}\n## Close\n\n- [ ] closed `$ has close.txt`\n"


def dies(task):
    does(greet_txt="half")(task)
    raise Killed


@pytest.fixture
def cut_off(scene) -> Scene:
    """A driver that died in the middle of its agent."""
    scene.publish(TWO_TASKS)
    scene.agent = ScriptedAgent(dies, writes_what_is_asked)
    with pytest.raises(Killed):
        run(scene.app, 1)
    assert scene.state().phase is Phase.RUNNING
    return scene


def commit_in_workspace(scene: Scene) -> str:
    state = scene.state()
    workspace = scene.repository.workspace("run", PLAIN)
    made = workspace.commit(run_message(state, scene.world.nodes[GREETING]), base=state.base_sha)
    return made.sha


def test_a_commit_found_by_its_ref_is_the_attempts_end(cut_off):
    sha = commit_in_workspace(cut_off)
    cut_off.repository.keep(sha, "refs/irontree/issue-1/2", source=cut_off.repository.workspace("run", PLAIN))
    state = recover(cut_off.app, 1)
    assert (state.last_event, state.commit, state.attempt_count) == ("run_completed", sha, 1)
    assert cut_off.last().meta["recovered"] == "true"


def test_a_commit_found_by_its_token_is_kept_first(cut_off):
    sha = commit_in_workspace(cut_off)
    assert recover(cut_off.app, 1).commit == sha
    assert cut_off.repository.refs["refs/irontree/issue-1/2"] == sha


def test_without_a_commit_the_work_is_salvaged_and_the_attempt_given_back(cut_off):
    state = recover(cut_off.app, 1)
    assert (state.last_event, state.attempt_count) == ("run_interrupted", 0)
    ref = cut_off.last().meta["salvage_ref"]
    assert cut_off.repository.commits[cut_off.repository.refs[ref]].files["greet.txt"] == b"half"


def test_an_attempt_that_had_changed_nothing_has_nothing_to_salvage(cut_off):
    cut_off.repository.workspace("run", PLAIN).prepare(cut_off.state().base_sha)
    assert recover(cut_off.app, 1).last_event == "run_interrupted"
    assert "salvage_ref" not in cut_off.last().meta


def test_children_are_killed_before_anybody_looks_at_evidence(cut_off):
    cut_off.repository = Watched(cut_off.repository, ["read_ref"], lambda name, _: cut_off.journal.append(name))
    cut_off.journal.clear()
    recover(cut_off.app, 1)
    assert cut_off.journal[:2] == ["children killed", "read_ref"]


def test_the_run_lock_of_the_dead_driver_is_gone_afterwards(cut_off):
    cut_off.run_lock.write(GREETING, 1)
    settle_leftovers(cut_off.app)
    assert cut_off.run_lock.held is None


def test_so_is_that_of_one_that_died_behind_the_last_event_of_its_attempt(scene):
    scene.publish(ONE_TASK)
    run(scene.app, 1)
    scene.run_lock.write(GREETING, 1)
    catch_up(scene.app)
    assert scene.run_lock.held is None


def test_an_issue_that_is_not_running_is_left_alone(scene):
    scene.publish(ONE_TASK)
    scene.journal.clear()
    assert recover(scene.app, 1).last_event == "task_published"
    assert scene.journal == []


def test_a_plan_that_is_lost_is_named_before_anything_is_touched(cut_off):
    cut_off.plans._plans.clear()
    with pytest.raises(NotEligible, match="in no approved plan"):
        recover(cut_off.app, 1)
    assert cut_off.events() == ["task_published", "run_started"]


def test_the_work_of_another_issue_is_settled_before_its_workspace_is_used_again(cut_off):
    """Its workspace is the only place where that work is."""
    perform(cut_off.app, Run("close"))
    assert cut_off.events()[-1] == "run_interrupted"
    assert cut_off.repository.refs[cut_off.last().meta["salvage_ref"]]
    assert cut_off.events("close")[-1] == "run_completed"


def test_the_step_that_recovers_is_not_done_twice(cut_off):
    assert perform(cut_off.app, Recover(GREETING)).last_event == "run_interrupted"
    assert cut_off.events().count("run_interrupted") == 1


def test_a_recovered_attempt_goes_on_to_the_same_end(cut_off):
    loop = cut_off.start(TWO_TASKS)
    assert cut_off.drive(loop).reason == "goal_reached"
    assert cut_off.events()[1:4] == ["run_started", "run_interrupted", "run_started"]


def test_settling_leaves_a_log_alone_that_cannot_be_trusted(cut_off):
    cut_off.log.files(1).files["0003-run-completed.yml"] = b"torn"
    settle_leftovers(cut_off.app)
    assert cut_off.events() == ["task_published", "run_started"]


def test_catching_up_delivers_what_a_dead_driver_did_not(scene):
    scene.publish(ONE_TASK)
    scene.repository.hook = lambda _: "no"
    run(scene.app, 1)
    assert scene.comments() == []
    catch_up(scene.app)
    assert len(scene.comments()) == 1
    brief = scene.root / ".mino/briefs/issue-1.md"
    assert "no" in scene.projections.texts[brief]
    catch_up(scene.app)
    assert len(scene.comments()) == 1


# --- stopped by a person ----------------------------------------------------------------------------------


def test_work_that_a_person_stopped_is_settled_and_goes_on_at_a_persons_word_alone(cut_off):
    state = stop_at(cut_off.app, 1, "its run was cancelled")
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "cancelled")
    assert cut_off.events()[-2:] == ["run_interrupted", "checkup_preflight_blocked"]
    assert any("Its run was cancelled" in comment for comment in cut_off.comments())
    answer_issue(cut_off.app, 1, Answer("go-on", "ada"))
    assert next_step(cut_off.app, 1) == Run(GREETING)


def test_where_a_person_is_asked_already_nothing_more_is_recorded(cut_off):
    before = stop_at(cut_off.app, 1, "its run was cancelled")
    assert stop_at(cut_off.app, 1, "its run was cancelled") == before


def test_the_time_of_an_attempt_that_was_cut_off_is_at_most_that_of_its_author(scene):
    scene.policy = scene.policy.model_copy(update={"team": (Member(name="coder", command=("x",), wall_seconds=7),)})
    scene.reviewers["coder"] = ScriptedAgent(dies)
    scene.publish(ONE_TASK)
    with pytest.raises(Killed):
        run(scene.app, 1)
    scene.clock.moment += timedelta(hours=1)
    recover(scene.app, 1)
    assert str(scene.last().meta["seconds"]) in {"7", "7.0"}
