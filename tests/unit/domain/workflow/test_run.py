"""What any sequence of commands makes of a run, and where its workflow is worked on."""

from __future__ import annotations

import json
import posixpath
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from irontree.domain.workflow import run as model
from irontree.domain.workflow.checkout import Checkout, ExecutionRoot
from irontree.domain.workflow.report import report, summary
from irontree.domain.workflow.root import choose_root, not_ours
from irontree.domain.workflow.run import Run, run_as_json, run_from_json
from irontree.domain.workflow.verify import CheckList, HumanReview, OneCheck, Outcome, ShellCheck, UnknownCheck, judge
from irontree.errors import Refused
from tests.support.hotl import parsed

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STEPS = (
    "loop: until ok\nmax_iterations: 2\nverify: pytest",
    "loop: false\nverify:\n  - type: human-review\n    prompt: ok?\n  - type: shell\n    command: pytest\ngate: human",
    "loop: false\ngate: human",
)
PLACE = model.Place("/r/hotl-workflow-a.md", "/r/hotl-workflow-a.md", "/r", "/r", "/r/.hotl/reports")


def begun(front: str) -> Run:
    return model.begin(parsed(front, *STEPS), PLACE, NOW)


def verify(run: Run, number: int, at: datetime, passes: bool) -> model.Change:
    step = model.to_verify(run, number)
    return model.verified(run, step, judge(step.checks, lambda _: Outcome("pass" if passes else "fail", "out")), at)


COMMANDS = {
    "start": model.start,
    "pass": lambda run, number, at: verify(run, number, at, True),
    "fail": lambda run, number, at: verify(run, number, at, False),
    "retry": model.retry,
    "block": lambda run, number, at: model.block(run, number, "why", at),
    "approve": lambda run, number, at: model.decide(run, number, "approved", "human", at),
    "auto": lambda run, number, at: model.decide(run, number, "approved", "auto", at),
    "reject": lambda run, number, at: model.decide(run, number, "rejected", "human", at),
    "finalize": lambda run, _, at: model.finalize(run, at),
}
FRONTS = ("risk_level: low\nauto_approve: true", "risk_level: high\nauto_approve: true", "risk_level: medium")


@settings(max_examples=100)
@given(st.sampled_from(FRONTS), st.lists(st.tuples(st.sampled_from([*COMMANDS]), st.integers(0, 4)), max_size=30))
def test_any_sequence_of_commands_keeps_the_promises(front: str, commands: list[tuple[str, int]]):
    run, text = begun(front), ""
    for seconds, (name, number) in enumerate(commands):
        try:
            change = COMMANDS[name](run, number, NOW + timedelta(seconds=seconds))
        except Refused:
            continue
        before, run = run, change.run
        text = report(run, text, change.log)
        promises(before, run)
        assert text.endswith("\n".join(change.log) + "\n")
        assert run_from_json(json.loads(json.dumps(run_as_json(run)))) == run


def promises(before: Run, run: Run) -> None:
    for was, step in zip(before.steps, run.steps, strict=True):
        assert 0 <= step.attempts <= step.max_iterations
        assert was.attempts <= step.attempts <= was.attempts + 1
        assert (step.block_reason is not None) == (step.status == "blocked")
        if step.status == "done" and step.number < 3:  # the third has no check
            assert step.verify["passed"] is True
        if step.status == "done" and step.number == 2:  # a review is never left out, and never by the rule
            assert step.gate_result is not None
        if step.gate_mode == "auto":
            assert run.approves_itself
    if run.status == "completed":
        assert run.completed_at
        assert all(step.status == "done" and step.gate_result != "rejected" for step in run.steps)
        assert run.approves_itself or all(step.gate_result == "approved" for step in run.steps if step.gate)
    if run.status in ("running", "paused"):
        assert run.completed_at is None
    found = summary(run)
    assert found["completed_steps"] == sum(step["status"] == "done" for step in found["steps"])


@pytest.mark.parametrize(
    ("checks", "reason"),
    [
        ((), "unsupported verify type: multi without checks"),
        ((ShellCheck(""),), "shell verify missing command"),
        ((ShellCheck("x"), UnknownCheck("oracle")), "unsupported verify type: oracle"),
        ((HumanReview(""), ShellCheck("x")), "human review required"),
        ((HumanReview("a"), HumanReview("b")), "human review required: a; b"),
    ],
)
def test_a_list_that_a_machine_cannot_judge_is_for_a_person(checks: tuple[OneCheck, ...], reason: str):
    found = judge(CheckList(checks), lambda _: Outcome("pass"))
    assert (found.end, found.reason) == ("block", reason)


@pytest.mark.parametrize(
    ("worktree", "branch", "here", "linked", "expected"),
    [
        ("", "", "main", False, ("hotl/a", "worktree")),
        ("", "", "feature/x", False, ("hotl/a", "worktree")),
        ("", "", "feature/x", True, ("feature/x", None)),
        ("", "", "", True, ("hotl/a", "worktree")),
        ("host", "", "main", False, "protected branch 'main'"),
        ("host", "", "master", True, "protected branch 'master'"),
        ("host", "", "", False, "on a named branch"),
        ("true", "", "feature/x", True, ("hotl/a", "worktree")),
        ("true", "feature/x", "feature/x", False, "already checked out"),
        ("", "feature/x", "feature/x", False, "already checked out"),
        ("true", "feat/add-auth", "main", False, ("feat/add-auth", "worktree")),
        ("false", "", "main", False, ("hotl/a", "branch")),
        ("false", "feature/x", "feature/x", False, ("feature/x", None)),
        ("false", "there", "main", False, "Branch already exists: there."),
        ("true", "there", "main", False, "Branch already exists: there."),
        ("host", "", "feature/x", False, ("feature/x", None)),
        ("host", "feature/x", "feature/x", False, ("feature/x", None)),
        ("host", "feature/y", "feature/x", False, "Current branch is 'feature/x'"),
        ("maybe", "", "main", False, "Invalid worktree mode 'maybe'."),
    ],
)
def test_every_row_of_the_tables_of_execution_roots(
    worktree: str, branch: str, here: str, linked: bool, expected: str | tuple[str, str | None]
):
    front = "".join(f"\n{key}: {value}" for key, value in (("worktree", worktree), ("branch", branch)) if value)
    checkout = Checkout("/p/r", "/p/r", "c0ffee", here, linked, {"main", "there"})

    def choose() -> ExecutionRoot:
        return choose_root(parsed(f"risk_level: low{front}"), "/p/r/plans/hotl-workflow-a.md", checkout)

    if isinstance(expected, str):
        with pytest.raises(Refused, match=expected):
            choose()
        return
    found = choose()
    assert (found.branch, found.makes) == expected
    root = posixpath.join("/p/.hotl-worktrees/r", found.branch.replace("/", "-"))
    assert found.execution_root == (root if found.makes == "worktree" else "/p/r")
    assert found.workflow_path == f"{found.execution_root}/plans/hotl-workflow-a.md"


def test_what_is_hotls_own_is_not_dirty():
    ours = ("hotl-workflow-a.md", "docs/plans/a-workflow.md", "docs/designs/a.md", ".hotl", ".hotl/state/a.json")
    theirs = ("src/hotl-workflow-a.md", "docs/plans/a.md", "docs/designs/b/a.md", "app.txt")
    assert not_ours((*ours, *theirs)) == tuple(sorted(theirs))
