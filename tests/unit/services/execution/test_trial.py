"""The configured checks are tried before any work: what is red then is no attempt's fault (decision 27)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.plan import Shell
from irontree.domain.state import Phase
from irontree.errors import EnvironmentRefused
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.run import run
from irontree.services.execution.steps import next_step
from irontree.services.execution.trial import try_checks
from irontree.services.execution.verify import verify
from irontree.services.questions.pages import question_text
from tests.support.world import GREETING, ONE_TASK, Scene, does, has

TESTS, LINT = Shell(name="tests", run="make test"), Shell(name="lint", run="make lint")
TWO_TASKS = """\
# Toy

## Greeting

- [ ] it says hello `$ has greet.txt hello`

## Close

Depends on: Greeting

- [ ] closed `$ has close.txt`
"""


class Judge:
    """Exit codes by command; everything else as in the other tests."""

    def __init__(self, **codes: int | None) -> None:
        self.codes = codes

    def __call__(self, command: str, workspace) -> int | None:
        name = command.removeprefix("make ")
        return self.codes.get(name, 0) if command.startswith("make ") or command == "true" else has(command, workspace)


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def tried(scene, judge) -> Scene:
    """A scene whose plan has its checks tried first."""
    scene.policy = scene.policy.model_copy(update={"checks": (TESTS, LINT), "preflight": True})
    scene.checks = ScriptedCheckRunner(judge)
    return scene


def asked(scene: Scene, key: str = GREETING) -> tuple[str, ...]:
    assert (scene.state(key).phase, scene.state(key).blocking_check) == (Phase.BLOCKED, "checks-red-before")
    return tuple(scene.last(key).meta["reasons"])


def answer(scene: Scene, choice: str, number: int = 1) -> None:
    answer_issue(scene.app, number, Answer(choice, "ada"))


def test_checks_that_work_ask_nothing_and_run_once_before_the_first_attempt(tried):
    tried.publish(TWO_TASKS)
    assert run(tried.app, 1).last_event == "run_completed"
    assert tried.checks.commands == ["make test", "make lint"]
    verify(tried.app, 1)
    tried.checks.commands.clear()
    assert run(tried.app, 2).last_event == "run_completed" if tried.state(GREETING).done else True
    assert tried.checks.commands == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "`make test` fails without any change: tests"),
        (126, "`make test` cannot be run here (exit code 126): tests"),
        (127, "`make test` cannot be run here (exit code 127): tests"),
        (None, "`make test` does not end in time, without any change"),
    ],
)
def test_what_does_not_work_is_asked_about_before_any_agent_with_what_it_printed(tried, judge, code, words):
    judge.codes["test"] = code
    tried.publish(ONE_TASK)
    state = run(tried.app, 1)
    assert words in asked(tried)[0]
    assert (state.attempt_count, tried.agent.tasks) == (0, [])
    assert tried.checks.commands == ["make test", "make lint"], "each is tried, whatever the others do"
    text = question_text(tried.app, next_step(tried.app, 1))
    assert "$ make test" in text
    assert "accept it as it was before" in text


def test_a_command_that_passes_whatever_happens_is_asked_about(tried):
    tried.policy = tried.policy.model_copy(update={"checks": (Shell(name="tests", run="true"),)})
    tried.publish(ONE_TASK)
    run(tried.app, 1)
    assert asked(tried) == ("`true` passes whatever happens: it proves nothing",)


def test_what_was_put_right_is_tried_again_and_what_was_not_is_asked_again(tried, judge):
    judge.codes["lint"] = 127
    tried.publish(ONE_TASK)
    run(tried.app, 1)
    answer(tried, "go-on")
    run(tried.app, 1)
    assert len(asked(tried)) == 1
    judge.codes["lint"] = 0
    answer(tried, "go-on")
    assert run(tried.app, 1).last_event == "run_completed"


def test_what_is_accepted_as_it_was_is_asked_about_once_for_all_tasks_and_is_then_the_works_to_mend(tried, judge):
    judge.codes["test"] = 1
    tried.publish(TWO_TASKS)
    run(tried.app, 1)
    answer(tried, "accept")
    assert run(tried.app, 1).last_event == "run_completed"
    state = verify(tried.app, 1)
    assert (state.last_event, state.attempt_count) == ("verify_failed_retryable", 1)
    judge.codes["test"] = 0
    run(tried.app, 1)
    assert verify(tried.app, 1).last_event == "verify_passed"


def test_another_way_to_fail_than_the_accepted_one_is_asked_about(tried, judge):
    judge.codes["test"] = 1
    tried.publish(ONE_TASK)
    run(tried.app, 1)
    answer(tried, "accept")
    run(tried.app, 1)
    judge.codes["test"] = 127
    verify(tried.app, 1)
    assert "exit code 127" in asked(tried)[0]


def test_a_check_that_breaks_during_work_and_fails_without_it_too_costs_no_attempt(tried, judge):
    """Somebody pushed what is red, or a program is gone."""
    tried.publish(ONE_TASK)
    run(tried.app, 1)
    judge.codes["lint"] = 127
    left = tried.state().total_attempts - tried.state().attempt_count
    verify(tried.app, 1)
    assert "`make lint` cannot be run here" in asked(tried)[0]
    judge.codes["lint"] = 0
    answer(tried, "go-on")
    assert verify(tried.app, 1).last_event == "verify_passed"
    assert tried.state().total_attempts - tried.state().attempt_count == left


def test_a_failure_that_the_work_brings_is_the_attempts(tried, judge):
    tried.checks = ScriptedCheckRunner(lambda command, at: int(command == "make test" and (at / "greet.txt").exists()))
    tried.publish(ONE_TASK)
    run(tried.app, 1)
    assert verify(tried.app, 1).last_event == "verify_failed_retryable"


def test_a_command_that_the_task_brings_itself_may_be_red_before(tried):
    tried.agent = ScriptedAgent(does(greet_txt="hallo"))
    tried.publish(ONE_TASK)
    assert run(tried.app, 1).last_event == "run_completed"
    assert verify(tried.app, 1).last_event == "verify_failed_retryable"


def test_set_up_that_fails_is_asked_about_before_any_attempt(tried):
    workspace = tried.repository.workspace("verify", tried.policy.workspace)

    class Broken(type(workspace)):
        __slots__ = ()

        def prepare(self, base, **_):
            raise EnvironmentRefused("`npm ci` failed", remedy="look")

    tried.repository._workspaces["verify"] = Broken(tried.repository, workspace.path)
    tried.publish(ONE_TASK)
    state = run(tried.app, 1)
    assert (state.blocking_check, state.attempt_count) == ("workspace-not-ready", 0)
    assert tried.last().meta["remedy"] == "look"
    assert "run_started" not in tried.events()


def test_results_count_for_the_same_settings_alone(tried):
    tip = tried.repository.base(tried.policy.publish)
    for policy in (tried.policy, tried.policy, tried.policy.model_copy(update={"check_seconds": 99})):
        try_checks(tried.app, policy, tip)
    assert tried.checks.commands == ["make test", "make lint"] * 2


def test_unless_it_is_configured_nothing_is_tried(scene):
    scene.policy = scene.policy.model_copy(update={"checks": (TESTS,)})
    scene.checks = ScriptedCheckRunner(Judge(test=1))
    scene.publish(ONE_TASK)
    assert run(scene.app, 1).last_event == "run_completed"
    assert scene.checks.commands == []
