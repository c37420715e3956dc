"""`verify`: the outcomes A to E, and what stands in the way (protocol, phase 5)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent, idles
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.plan import ExecutionPolicy, Shell
from irontree.domain.state import Phase
from irontree.errors import Cancelled, GitFailed, NotEligible
from irontree.services.execution.checkup import Decider, unblock
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from tests.support.memory_project import commit_here
from tests.support.repositories import PLAIN
from tests.support.watching import Killed, Watched, dying
from tests.support.world import MANUAL_TASK, ONE_TASK, Scene, does, has

UNCOVERED = "# Toy\n\n## Greeting\n\n- [ ] it is lovely\n"


def committed(scene: Scene, text: str = ONE_TASK, **files: str) -> Scene:
    """A scene whose first issue has a commit that waits for its verification."""
    scene.agent = ScriptedAgent(does(**(files or {"greet_txt": "hello"})))
    scene.publish(text)
    run(scene.app, 1)
    return scene


def attempt(scene: Scene):
    run(scene.app, 1)
    return verify(scene.app, 1)


def retries(policy: ExecutionPolicy, number: int) -> ExecutionPolicy:
    return policy.model_copy(update={"max_retry_count": number})


# --- A: passed and published ---------------------------------------------------------------------------


def test_what_passes_is_published_at_exactly_the_checked_commit(scene):
    committed(scene)
    recorded = scene.last().event.code_ref
    state = verify(scene.app, 1)
    assert state.last_event == "verify_passed"
    assert scene.repository.remote["main"] == state.code_ref == state.anchor == state.commit == recorded
    assert scene.last().event.verify_anchor_sha == recorded
    assert (state.completion_basis, state.code_publication_state) == ("verified", "published")


def test_the_report_names_the_commit_and_the_command(scene):
    committed(scene)
    state = verify(scene.app, 1)
    assert state.report_path == ".mino/reports/issue-1/report.md"
    report = scene.projections.texts[scene.root / state.report_path]
    assert "has greet.txt hello" in report
    assert state.anchor in report


def test_only_a_committed_issue_is_verified(scene):
    scene.publish(ONE_TASK)
    with pytest.raises(NotEligible, match="nothing to verify"):
        verify(scene.app, 1)


def test_the_checks_see_the_commit_and_not_the_users_folder(scene):
    committed(scene)
    (scene.root / "greet.txt").write_text("nothing of the kind")
    assert verify(scene.app, 1).last_event == "verify_passed"


def test_checks_run_in_order_and_stop_at_the_first_failure(scene):
    checks = (Shell(name="a", run="has no.txt"), Shell(name="b", run="has greet.txt"))
    scene.policy = scene.policy.model_copy(update={"checks": checks})
    committed(scene)
    assert verify(scene.app, 1).last_event == "verify_failed_retryable"
    assert scene.checks.commands == ["has no.txt"]


# --- B and C: failed -----------------------------------------------------------------------------------


def test_a_failure_is_retryable_while_attempts_are_left_and_then_terminal(scene):
    """TC-2.1, TC-2.3"""
    scene.policy = retries(scene.policy, 2)
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    scene.publish(ONE_TASK)
    outcomes = [attempt(scene) for _ in range(3)]
    assert [state.last_event for state in outcomes] == [
        *("verify_failed_retryable", "verify_failed_retryable", "verify_failed_terminal")
    ]
    assert [state.attempt_count for state in outcomes] == [1, 2, 3]
    assert outcomes[-1].phase is Phase.TERMINAL
    with pytest.raises(NotEligible):
        run(scene.app, 1)


def test_nothing_is_published_of_what_failed(scene):
    before = scene.repository.remote["main"]
    committed(scene, greet_txt="bye")
    verify(scene.app, 1)
    assert scene.repository.remote["main"] == before


def test_a_failure_that_is_tried_again_writes_no_report(scene):
    """Its context goes into the brief and to the next attempt."""
    committed(scene, greet_txt="bye")
    assert verify(scene.app, 1).report_path is None
    assert not [path for path in scene.projections.texts if path.name == "report.md"]


def test_verifying_the_same_commit_again_runs_its_failed_checks_again(scene):
    """Somebody put the machine right; the stored failure must not speak for ever."""
    scene.policy = retries(scene.policy, 0)
    committed(scene)
    scene.checks = ScriptedCheckRunner(lambda *_: 1)
    assert verify(scene.app, 1).last_event == "verify_failed_terminal"
    unblock(scene.app, 1, "verify", Decider("ada"))
    scene.checks = ScriptedCheckRunner(has)
    assert verify(scene.app, 1).last_event == "verify_passed"


# --- D: a person decides -------------------------------------------------------------------------------


def test_a_manual_criterion_waits_for_a_person_and_says_why(scene):
    committed(scene, MANUAL_TASK)
    state = verify(scene.app, 1)
    assert (state.last_event, state.phase) == ("verify_pending_acceptance", Phase.PENDING)
    assert scene.last().meta["reasons"] == ["only a person can judge: it is friendly"]
    assert scene.repository.remote["main"] != state.commit


def test_without_any_command_a_person_decides(scene):
    """TC-3.2"""
    committed(scene, UNCOVERED)
    assert verify(scene.app, 1).last_event == "verify_pending_acceptance"
    assert scene.last().meta["reasons"][0] == "no check command is configured, listed or detected"


def test_checks_that_pass_without_a_change_prove_nothing(scene):
    (scene.root / "greet.txt").write_text("hello")
    commit_here(scene.repository, {"greet.txt": b"hello"})
    scene.repository.remote["main"] = scene.repository.refs["refs/heads/main"]
    scene.agent = ScriptedAgent(idles)
    scene.publish(ONE_TASK)
    state = attempt(scene)
    assert state.last_event == "verify_pending_acceptance"
    assert scene.last().meta["reasons"] == ["the agent changed nothing, and the checks pass without a change"]
    assert state.anchor == scene.repository.remote["main"]


def test_a_failure_goes_before_a_persons_judgement(scene):
    committed(scene, MANUAL_TASK, greet_txt="bye")
    assert verify(scene.app, 1).last_event == "verify_failed_retryable"


# --- stored results and what stands in the way ---------------------------------------------------------


def test_results_are_stored_before_anything_is_published(scene):
    """And the log names the commit when its checks run, and moves on only after the push."""
    committed(scene)
    checked, pushed = [], []

    def judge(command, workspace):
        checked.append((scene.last().event.event, scene.last().event.code_ref))
        return has(command, workspace)

    scene.checks = ScriptedCheckRunner(judge)
    scene.repository.before_push = lambda sha: pushed.append(
        (sha, scene.results.load(1, sha).failed, scene.events()[-1])
    )
    state = verify(scene.app, 1)
    assert checked == [("run_completed", state.anchor)]
    assert pushed == [(state.anchor, None, "run_completed")]
    assert scene.events()[-1] == "verify_passed"


def test_complete_results_of_the_same_commands_are_used_again(scene):
    committed(scene)
    scene.repository = Watched(scene.repository, ["publish"], dying("before"))
    with pytest.raises(Killed):
        verify(scene.app, 1)
    assert verify(scene.app, 1).last_event == "verify_passed"
    assert scene.checks.commands == ["has greet.txt hello"]


def test_a_failure_that_was_stored_before_a_crash_is_recorded_without_running_again(scene):
    committed(scene, greet_txt="bye")
    scene.log = Watched(scene.log, ["append"], dying("before"))
    with pytest.raises(Killed):
        verify(scene.app, 1)
    assert verify(scene.app, 1).last_event == "verify_failed_retryable"
    assert scene.checks.commands == ["has greet.txt hello"]


def test_stopping_a_check_records_nothing(scene):
    committed(scene)
    scene.cancel.stopped = True
    with pytest.raises(Cancelled):
        verify(scene.app, 1)
    assert scene.events()[-1] == "run_completed"
    assert scene.results.load(1, scene.state().commit) is None


def test_a_workspace_that_cannot_be_prepared_blocks_without_a_verdict(scene):
    committed(scene)
    workspace = scene.repository.workspace("verify", PLAIN)

    class Broken(type(workspace)):
        __slots__ = ()

        def prepare(self, base, **_):
            raise GitFailed("disk full", remedy="make room")

    scene.repository._workspaces["verify"] = Broken(scene.repository, workspace.path)
    state = verify(scene.app, 1)
    assert (state.last_event, state.blocking_check) == ("checkup_preflight_blocked", "workspace-not-ready")
    assert scene.last().meta["remedy"] == "make room"


def test_a_changed_approval_stops_verification_too(scene):
    committed(scene)
    scene.write(ONE_TASK.replace("says hello", "says good day"))
    assert verify(scene.app, 1).last_event == "task_reapproval_required"
    assert scene.checks.commands == []


def test_a_log_that_cannot_be_trusted_is_not_published_from(scene):
    committed(scene)
    before = scene.repository.remote["main"]
    scene.log.files(1).files["0004-verify-passed.yml"] = b"torn"
    with pytest.raises(NotEligible, match="cannot be read"):
        verify(scene.app, 1)
    assert scene.repository.remote["main"] == before


def test_signs_of_foreign_sources_are_in_the_report(scene):
    scene.checks = ScriptedCheckRunner(has, warnings=("PYTHONPATH leads to your checkout",))
    committed(scene)
    state = verify(scene.app, 1)
    assert "PYTHONPATH leads to your checkout" in scene.projections.texts[scene.root / state.report_path]


def test_what_the_verifying_person_says_stands_in_the_report(scene):
    committed(scene)
    state = verify(scene.app, 1, note="tried it by hand as well")
    assert "tried it by hand as well" in scene.projections.texts[scene.root / state.report_path]
