"""`run`: when an attempt may start, what stands in its way, and what becomes of it (protocol, phases 3 and 4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.agents.scripted import ScriptedAgent, idles
from irontree.app import App
from irontree.domain.attempt import Claim
from irontree.domain.events import RunInterrupted, RunStarted
from irontree.domain.plan import PublishPolicy, Shell
from irontree.domain.state import Phase
from irontree.errors import (
    AccessRefused,
    ConfigRefused,
    EnvironmentRefused,
    GitFailed,
    NotEligible,
    PublicationRefused,
    RemoteUnavailable,
)
from irontree.ports import AgentResult, Blocker
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.run import run
from irontree.services.record import record
from irontree.services.views.history import say_issue_event
from irontree.services.work.preflight import block
from tests.support.world import CLOSE, GREETING, ONE, ONE_TASK, PARTS, Scene, does, ends, writes_what_is_asked


@pytest.fixture
def ready(scene) -> Scene:
    scene.publish(ONE_TASK)
    return scene


def take(scene: Scene, key: str = GREETING):
    return run(scene.app, scene.number(key))


def last_meta(scene: Scene) -> dict:
    return dict(scene.last().meta)


# --- who may run ---------------------------------------------------------------------------------------


def test_an_attempt_becomes_one_commit_with_its_token(ready):
    state = take(ready)
    assert ready.events() == ["task_published", "run_started", "run_completed"]
    commit = ready.repository.commits[state.commit]
    assert commit.message.splitlines()[0] == "[run] #1: Greeting"
    assert f"Irontree-Run: {state.run_token}" in commit.message
    assert ready.repository.refs[f"refs/irontree/issue-1/{state.run_sequence}"] == state.commit
    assert ready.repository.remote["main"] != state.commit, "nothing is published before it is verified"


@pytest.mark.parametrize(
    ("subject", "first", "issue"),
    [
        ("{kind}: {title}", "feat: greeting", "For #1"),
        ("{title} (#{number})", "Greeting (#1)", ""),
        ("{key}", "", ""),
        ("{kind}({key}): {title}", "feat(greeting): greeting", "For #1"),
    ],
)
def test_a_commit_has_the_style_of_its_repository_with_the_criteria_below(scene, subject, first, issue):
    def configured() -> PublishPolicy:
        return PublishPolicy(remote="origin", target_branch="main", subject=subject)

    if not first:
        with pytest.raises(ValueError, match="title"):
            configured()
        return
    scene.policy = scene.policy.model_copy(update={"publish": configured()})
    scene.publish(ONE_TASK)
    state = take(scene)
    paragraphs = scene.repository.commits[state.commit].message.rstrip().split("\n\n")
    token = f"Irontree-Run: {state.run_token}"
    assert paragraphs == [first, "- it says hello", *([issue] if issue else []), token]


def test_an_issue_that_is_not_known_cannot_run(ready):
    with pytest.raises(NotEligible, match="issue-9 is not known here"):
        run(ready.app, 9)


def test_a_container_is_never_run(scene):
    scene.publish()
    with pytest.raises(NotEligible, match="container") as refused:
        take(scene, PARTS)
    assert refused.value.remedy == "run its children"


def test_a_task_waits_for_its_dependencies_and_says_what_to_run_first(scene):
    scene.publish()
    with pytest.raises(NotEligible, match=f"depends on {GREETING}, not done yet") as refused:
        take(scene, ONE)
    assert refused.value.remedy == "run issue-1 first"
    assert scene.events(ONE) == ["task_published"]


def test_a_dependency_that_is_itself_not_ready_is_named_by_its_lowest_number(scene):
    scene.publish()
    with pytest.raises(NotEligible) as refused:
        take(scene, CLOSE)
    assert refused.value.remedy == "run issue-3 first"


def test_an_issue_in_another_phase_does_not_run(ready):
    take(ready)
    with pytest.raises(NotEligible, match="committed, to be verified"):
        take(ready)


def test_another_tools_run_lock_is_respected_and_nothing_is_written(ready):
    ready.run_lock.other = "issue-1 (greeting), on builder-2"
    with pytest.raises(NotEligible, match="builder-2") as refused:
        take(ready)
    assert "run.lock" in refused.value.remedy
    assert ready.events() == ["task_published"]


def test_another_tools_old_run_lock_is_overridden_once_a_person_has_said_so(ready):
    ready.run_lock.other, ready.run_lock.is_old = "issue-1 (greeting), on builder-2", True
    blocked = take(ready)
    assert (blocked.phase, blocked.blocking_check) == (Phase.BLOCKED, "stale-run-lock")
    assert ready.run_lock.other
    answer_issue(ready.app, 1, Answer("go-on", "ada"))
    assert ready.run_lock.other is None
    assert take(ready).last_event == "run_completed"


def test_a_log_that_cannot_be_trusted_is_not_worked_on(ready):
    ready.log.files(1).files["0002-run-started.yml"] = b"torn"
    with pytest.raises(NotEligible, match="cannot be read") as refused:
        take(ready)
    assert "reconcile" in refused.value.remedy
    assert ready.agent.tasks == []


def test_the_run_lock_tells_who_works_and_is_gone_afterwards(ready):
    seen = []
    ready.agent = ScriptedAgent(lambda task: seen.append(ready.run_lock.held) or does(greet_txt="hello")(task))
    take(ready)
    assert seen == [(GREETING, 1)]
    assert ready.run_lock.held is None


# --- what stands in the way (phase 3) ------------------------------------------------------------------


def test_a_broken_runway_blocks_without_run_started(ready):
    ready.repository.blockers.append(Blocker("missing-identity", "nobody commits", "git config user.name"))
    state = take(ready)
    assert ready.events() == ["task_published", "checkup_preflight_blocked"]
    assert state.blocking_check == "missing-identity"
    assert last_meta(ready)["remedy"] == "git config user.name"
    assert state.attempt_count == 0


def test_the_first_of_several_blockers_is_recorded(ready):
    ready.repository.blockers += [Blocker("missing-identity", "nobody", "git config"), Blocker("other", "x", "y")]
    assert take(ready).blocking_check == "missing-identity"


def test_a_changed_task_asks_for_approval_before_it_runs(ready):
    """TC-5.1"""
    ready.write(ONE_TASK.replace("says hello", "says good day"))
    assert take(ready).last_event == "task_reapproval_required"
    assert ready.agent.tasks == []


def test_a_changed_configuration_asks_for_approval_before_anything_runs(ready):
    ready.policy = ready.policy.model_copy(update={"checks": (Shell(name="all", run="make all"),)})
    assert take(ready).last_event == "task_reapproval_required"


def test_a_configuration_that_cannot_be_read_is_a_change_of_it(ready):
    def broken(_):
        raise ConfigRefused("config.yml:3: no such key")

    app = replace(ready.app, policy=broken)
    assert run(app, 1).last_event == "task_reapproval_required"
    assert "config.yml:3" in last_meta(ready)["reason"]


def test_another_tasks_change_does_not_concern_this_one(scene):
    scene.publish()
    text = (scene.root / "SPEC.md").read_text()
    scene.write(text.replace("closed `$ has", "shut `$ has"))
    assert take(scene).last_event == "run_completed"


def test_a_missing_document_is_no_change(ready):
    (ready.root / "SPEC.md").unlink()
    assert take(ready).last_event == "run_completed"


def test_a_remote_that_does_not_answer_is_asked_again_and_then_blocks(ready):
    ready.repository.failures += [RemoteUnavailable("no route", remedy="look at the network")] * 3
    state = take(ready)
    assert ready.cancel.pauses == [1.0, 3.0]
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", "remote-unavailable")
    assert ready.events() == ["task_published", "checkup_preflight_blocked"]
    assert ready.run_lock.held is None


def test_who_is_kept_out_is_asked_and_no_timer_answers(ready):
    """Repeating cannot cure it (R12)."""
    ready.repository.failures += [AccessRefused("the token has expired", reason="authentication", remedy="renew it")]
    state = take(ready)
    assert (state.blocking_check, state.not_before) == ("remote-refused", None)
    assert ready.cancel.pauses == []


def test_a_remote_that_answers_the_second_time_is_no_obstacle(ready):
    ready.repository.failures += [RemoteUnavailable("no route")]
    assert take(ready).last_event == "run_completed"


def test_a_remote_that_refuses_us_blocks_with_its_reason(ready):
    ready.repository.failures += [PublicationRefused("who are you", reason="authentication", remedy="log in")]
    assert take(ready).blocking_check == "authentication"


# --- what becomes of an attempt (phase 4) --------------------------------------------------------------


def test_an_agent_that_cannot_be_started_blocks_and_the_attempt_is_given_back(ready):
    ready.agent = ScriptedAgent(ends("not_started", None, "claude: no such program"))
    state = take(ready)
    assert ready.events()[1:] == ["run_started", "run_interrupted", "checkup_preflight_blocked"]
    assert (state.blocking_check, state.attempt_count) == ("agent-not-started", 0)
    assert "no such program" in last_meta(ready)["reason"]


def test_an_agent_that_fails_without_a_change_costs_no_attempt(ready):
    ready.agent = ScriptedAgent(ends("exited", 1))
    state = take(ready)
    assert (state.last_event, state.attempt_count, state.free_streak) == ("run_interrupted", 0, 1)
    assert last_meta(ready)["reason"] == "the agent changed nothing and ended with exit code 1"


def test_what_a_program_said_last_is_told_with_its_end_and_where_a_person_is_asked(ready):
    """All that it takes to decide is in one place: not in a transcript that somebody has to find."""
    ready.agent = ScriptedAgent(ends("exited", 1, "Starting\nInvalid model: x\n"))
    for _ in range(4):
        take(ready)
    assert last_meta(ready)["reason"] == (
        "run interrupted 3 times in a row; the last time: "
        "the agent changed nothing and ended with exit code 1: Invalid model: x"
    )


def test_what_another_tool_gave_back_without_a_reason_is_told_without_one(ready):
    for _ in range(3):
        record(ready.app, ready.state(), RunStarted, attempt_count=1)
        record(ready.app, ready.state(), RunInterrupted, attempt_count=0)
    take(ready)
    assert last_meta(ready)["reason"] == "run interrupted 3 times in a row"


def test_an_agent_that_fails_with_a_change_is_judged_by_verify(ready):
    ready.agent = ScriptedAgent(ends("exited", 1, greet_txt="hello"))
    assert take(ready).last_event == "run_completed"


@pytest.mark.parametrize("ended", ["timeout", "stalled"])
def test_what_was_changed_before_the_time_was_up_is_judged_by_verify(ready, ended):
    ready.agent = ScriptedAgent(ends(ended, None, greet_txt="hel"))
    assert take(ready).last_event == "run_completed"
    assert ready.last().meta["agent"]["ended"] == ended


def test_an_agent_that_finds_nothing_to_do_completes_without_code(ready):
    ready.agent = ScriptedAgent(idles)
    state = take(ready)
    assert (state.last_event, state.code_ref) == ("run_completed", "not_applicable")


def test_a_later_attempt_that_fails_and_adds_nothing_is_given_back_too(scene):
    """What the earlier attempt left in the workspace is no work of this one."""
    from irontree.services.execution.verify import verify

    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(does(greet_txt="bye"), ends("exited", 1))
    take(scene)
    verify(scene.app, 1)
    state = take(scene)
    assert (state.last_event, state.attempt_count) == ("run_interrupted", 1)
    assert "changed nothing more" in last_meta(scene)["reason"]


def test_a_later_attempt_starts_from_the_earlier_tree_and_replaces_its_commit(scene):
    from irontree.services.execution.verify import verify

    scene.publish(ONE_TASK)
    scene.agent = ScriptedAgent(does(greet_txt="bye", more_txt="more"), does(greet_txt="hello"))
    first = take(scene).commit
    verify(scene.app, 1)
    second = take(scene).commit
    commits = scene.repository.commits
    assert commits[second].parents == commits[first].parents
    assert commits[second].files["more.txt"] == b"more"
    assert "bye" not in scene.agent.tasks[1].prompt
    assert "has greet.txt hello" in scene.agent.tasks[1].prompt, "the failed check is in the next prompt"


def test_a_refused_commit_gives_the_attempt_back_and_tells_the_next_one_why(ready):
    ready.repository.hook = lambda files: None if b"signed" in files["greet.txt"] else "no sign-off"
    ready.agent = ScriptedAgent(does(greet_txt="hello"), does(greet_txt="hello, signed"))
    state = take(ready)
    assert (state.last_event, state.attempt_count) == ("run_commit_failed", 0)
    assert last_meta(ready)["output"] == "no sign-off"
    assert take(ready).last_event == "run_completed"
    assert "no sign-off" in ready.agent.tasks[1].prompt


def test_what_was_refused_is_salvaged(ready):
    ready.repository.hook = lambda _: "no"
    take(ready)
    kept = ready.repository.refs["refs/irontree/salvage/issue-1/2"]
    assert ready.repository.commits[kept].files["greet.txt"] == b"hello, attempt 1\n"


def test_the_same_change_refused_twice_blocks_at_once(ready):
    """R12: what repeating cannot cure."""
    ready.repository.hook = lambda _: "no"
    take(ready)
    state = take(ready)
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", "commit-refused")
    assert ready.events().count("run_started") == 2


def test_a_person_who_cancels_costs_no_attempt(ready):
    ready.agent = ScriptedAgent(ends("cancelled", None, greet_txt="hel"))
    state = take(ready)
    assert (state.last_event, state.attempt_count) == ("run_interrupted", 0)
    assert ready.repository.refs["refs/irontree/salvage/issue-1/2"], "what there was is kept"


@pytest.mark.parametrize(
    ("step", "check"),
    [
        (ends("exited", 1), "run-interrupted"),
        (lambda task: does(greet_txt=f"hello {task.transcript.name}")(task), "commit-refused"),
    ],
)
def test_three_transitions_that_cost_nothing_are_followed_by_a_question(ready, step, check):
    """R12"""
    ready.repository.hook = lambda _: "no"
    ready.agent = ScriptedAgent(step)
    for _ in range(3):
        take(ready)
    state = take(ready)
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", check)
    assert "3 times in a row" in last_meta(ready)["reason"]
    assert ready.events().count("run_started") == 3


def with_a_workspace_that(ready: Scene, error: EnvironmentRefused) -> App:
    """An app whose workspace cannot be prepared."""

    class Broken:
        def __init__(self, workspace):
            self._workspace = workspace

        def prepare(self, base, **_):
            raise error

        def __getattr__(self, name):
            return getattr(self._workspace, name)

    class Unready:
        def workspace(self, name, policy):
            return Broken(ready.repository.workspace(name, policy))

        def __getattr__(self, name):
            return getattr(ready.repository, name)

    return replace(ready.app, repository=Unready())


def test_a_workspace_that_cannot_be_prepared_blocks_and_gives_the_attempt_back(ready):
    error = EnvironmentRefused("workspace.setup failed: npm ci", remedy="run it by hand")
    state = run(with_a_workspace_that(ready, error), 1)
    assert ready.events()[1:] == ["run_started", "run_interrupted", "checkup_preflight_blocked"]
    assert (state.blocking_check, state.attempt_count) == ("workspace-not-ready", 0)


def test_nobody_is_asked_about_a_git_that_something_killed_until_it_happens_again_and_again(ready):
    app = with_a_workspace_that(ready, GitFailed("git clone failed: a signal ended it", killed=True))
    assert [run(app, 1).last_event for _ in range(3)] == ["run_interrupted"] * 3
    assert ready.state().attempt_count == 0
    assert run(app, 1).blocking_check == "run-interrupted"


def test_the_agent_is_told_the_task_its_checks_and_the_attempt(ready):
    ready.agent = ScriptedAgent(writes_what_is_asked)
    take(ready)
    task = ready.agent.tasks[0]
    assert (task.issue_number, task.task_key, task.attempt) == (1, GREETING, 1)
    assert "it says hello" in task.prompt
    assert task.transcript.name == "attempt-0002"


def test_words_of_an_agent_are_one_line_where_lines_of_ours_are(ready):
    """Several would look like ours, whatever they say."""
    forged = "ok\n03:11:12  goal reached: everything in scope is done"
    asks = AgentResult("exited", 10, 1.0, "", claim=Claim(None, "", forged), failure="asks")
    ready.agent = ScriptedAgent(lambda _: asks)
    take(ready)
    assert ready.events()[-1] == "checkup_preflight_blocked"
    assert "\n" not in ready.last().told.why[0]
    block(ready.app, ready.state(), "workspace-not-ready", forged)
    assert "\n" not in say_issue_event(ready.last())
