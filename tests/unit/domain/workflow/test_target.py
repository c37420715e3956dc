"""Which branch a workflow is worked on by Iron Tree: every row of the table, and every sentence (docs/hotl.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from irontree.domain.workflow.checkout import Checkout
from irontree.domain.workflow.target import WorkflowTarget, choose_target, why_it_stays
from irontree.errors import BranchUndecided, Refused
from tests.support.hotl import parsed

HEAD = "c0ffee" + "0" * 34
FILE = "/p/r/hotl-workflow-a.md"
MAIN = Checkout("/p/r", "/p/r", HEAD, "main", branches={"main", "there"})
FEATURE = replace(MAIN, branch="feature/x", branches={"main", "there", "feature/x"})
DETACHED = replace(MAIN, branch="")
ISOLATED = WorkflowTarget("hotl/a", HEAD)


def target(checkout: Checkout, choice: str = "", **front: str) -> WorkflowTarget:
    said = "".join(f"\n{key}: {value}" for key, value in front.items())
    return choose_target(parsed(f"risk_level: low{said}"), FILE, checkout, choice)


@pytest.mark.parametrize(
    ("checkout", "front", "choice", "expected"),
    [
        (MAIN, {}, "", ISOLATED),
        (MAIN, {}, "isolated", ISOLATED),
        (MAIN, {}, "mine", WorkflowTarget("mine", HEAD)),
        (DETACHED, {}, "", ISOLATED),
        (replace(MAIN, branch="master"), {}, "", ISOLATED),
        (MAIN, {"worktree": "true"}, "", ISOLATED),
        (FEATURE, {"worktree": "true"}, "", ISOLATED),
        (FEATURE, {"worktree": "true"}, "isolated", ISOLATED),
        (FEATURE, {"worktree": "true", "branch": "mine"}, "", WorkflowTarget("mine", HEAD)),
        (FEATURE, {"branch": "mine"}, "mine", WorkflowTarget("mine", HEAD)),
        (MAIN, {"worktree": "false"}, "", WorkflowTarget("hotl/a", HEAD)),
        (MAIN, {"worktree": "false", "branch": "mine"}, "", WorkflowTarget("mine", HEAD)),
        (MAIN, {"worktree": "false"}, "mine", WorkflowTarget("mine", HEAD)),
        (FEATURE, {"worktree": "false", "branch": "feature/x"}, "", WorkflowTarget("feature/x")),
        (FEATURE, {"worktree": "host"}, "", WorkflowTarget("feature/x")),
        (FEATURE, {"worktree": "host", "branch": "feature/x"}, "here", WorkflowTarget("feature/x")),
        (FEATURE, {}, "isolated", ISOLATED),
        (FEATURE, {}, "here", WorkflowTarget("feature/x")),
        (FEATURE, {}, "mine", WorkflowTarget("mine", HEAD)),
        (replace(FEATURE, linked=True), {}, "here", WorkflowTarget("feature/x")),
    ],
)
def test_every_row_of_the_table(checkout: Checkout, front: dict[str, str], choice: str, expected: WorkflowTarget):
    assert target(checkout, choice, **front) == expected


@pytest.mark.parametrize(
    ("checkout", "front", "choice", "said"),
    [
        (MAIN, {"worktree": "host"}, "", "protected branch 'main'"),
        (MAIN, {}, "here", "^'here' is main, and no workflow is worked on directly there"),
        (DETACHED, {}, "here", "^'here' is the branch that you are on, and HEAD is detached"),
        (FEATURE, {"branch": "mine"}, "here", "^'here' is feature/x, and the workflow file says branch: mine"),
        (MAIN, {}, "@", "'@' cannot be the name of a branch: git reads it as the commit that is checked out"),
        (MAIN, {}, "refs/heads/x", "git would put it below refs/heads/ once more"),
        (MAIN, {}, "C0ffee" + "0" * 34, "git would read it as a commit"),
        (FEATURE, {"worktree": "host", "branch": "mine"}, "", "Current branch is 'feature/x'"),
        (FEATURE, {"worktree": "true", "branch": "feature/x"}, "", "already checked out"),
        (FEATURE, {}, "feature/x", "already checked out"),
        (MAIN, {"branch": "there"}, "", "Branch already exists: there"),
        (MAIN, {"worktree": "false", "branch": "there"}, "", "Branch already exists: there"),
        (MAIN, {}, "there", "Branch already exists: there"),
        (MAIN, {"branch": "there/below"}, "", "there is 'there'"),
        (replace(MAIN, branches={"hotl/a/b"}), {}, "", "there is 'hotl/a/b'"),
        (replace(MAIN, taken={"hotl-a"}), {}, "", "Worktree path already exists"),
        (MAIN, {"worktree": "true"}, "here", r"decides that already \(worktree: true\)"),
        (MAIN, {"worktree": "false"}, "isolated", "decides that already"),
        (MAIN, {"branch": "mine"}, "other", r"decides that already \(branch: mine\)"),
        (MAIN, {}, "no..name", "cannot be the name of a branch"),
        (MAIN, {"worktree": "maybe"}, "", "Invalid worktree mode 'maybe'"),
        (Checkout("/p/r"), {}, "", "in no git repository"),
        (replace(MAIN, head=""), {}, "", "has no commit yet"),
    ],
)
def test_what_stops_it(checkout: Checkout, front: dict[str, str], choice: str, said: str):
    with pytest.raises(Refused, match=said):
        target(checkout, choice, **front)


@pytest.mark.parametrize("linked", [False, True])
def test_on_a_feature_branch_that_the_file_does_not_speak_of_somebody_chooses(linked: bool):
    with pytest.raises(BranchUndecided) as asked:
        target(replace(FEATURE, linked=linked))
    assert [name for name, _ in asked.value.choices] == ["isolated", "here", "NAME"]
    assert "hotl/a, made from feature/x (recommended)" in asked.value.message
    assert "--branch isolated, --branch here or --branch NAME" in str(asked.value.remedy)


def test_changes_in_no_commit_stop_it_with_their_paths_and_the_three_choices():
    with pytest.raises(Refused) as refused:
        target(replace(MAIN, dirty=("b.txt", "app.py", "hotl-workflow-a.md", ".hotl/state/a.json")))
    said = refused.value.message.splitlines()
    assert said[0] == "These changes are in no commit, so the work would lack them:"
    assert said[1:3] == ["app.py", "b.txt"]
    assert len(said) == 6
    assert "Nothing is stashed for you" in refused.value.message
    assert target(replace(MAIN, dirty=("app.py",)), dirty_worktree="allow") == ISOLATED


def test_nobody_is_asked_to_choose_who_would_be_refused_for_changes_whatever_the_choice():
    with pytest.raises(Refused, match=r"^These changes are in no commit"):
        target(replace(FEATURE, dirty=("app.py",)))


def test_the_file_itself_is_no_such_change_wherever_it_is():
    file = "/p/r/notes/hotl-workflow-a.md"
    dirty = replace(MAIN, dirty=("notes/hotl-workflow-a.md",))
    assert choose_target(parsed(), file, dirty) == ISOLATED


@pytest.mark.parametrize(
    ("checkout", "said"),
    [
        (MAIN, ""),
        (replace(MAIN, dirty=("hotl-workflow-a.md",)), ""),
        (replace(MAIN, dirty=("app.py",)), "there are changes in no commit: app.py"),
        (replace(MAIN, head="d" * 40), "it is at dddddddddddd, and the work starts from c0ffee000000"),
    ],
)
def test_a_checkout_goes_along_if_it_is_clean_and_where_it_was(checkout: Checkout, said: str):
    assert why_it_stays(checkout, HEAD) == said
