"""The sample project shows what the product does: its document, its prepared work and its answers fit together."""

from __future__ import annotations

import pytest

from irontree.cli.demo import ANSWERS, SHOT_AT
from irontree.demo import layout as sample
from irontree.domain.claims import contribution_of, read_contribution, read_round
from irontree.domain.graph import Graph
from irontree.domain.halt import RULE, choices

DOCUMENT = sample.REQUIREMENTS.tree()
GRAPH = Graph.of(DOCUMENT.nodes)
EXECUTABLE = [node for node in DOCUMENT.nodes if node.executability == "executable"]


def prepared(document: sample.Sample, key: str) -> list[str]:
    return sorted(file.name for file in document.data("patches", key).iterdir())


def test_the_document_needs_no_remark():
    assert DOCUMENT.warnings == ()


def test_the_tree_has_seven_nodes_and_a_composite_with_parts():
    assert len(DOCUMENT.nodes) == 7
    assert len(GRAPH.children("share-the-costs")) == 3
    assert [node.shape for node in DOCUMENT.nodes].count("composite") == 1


def test_the_dependencies_hold_a_diamond():
    top = "count-in-whole-cents"
    split, names, balances = GRAPH.children("share-the-costs")
    assert GRAPH.nodes[split].depends_on == GRAPH.nodes[names].depends_on == (top,)
    assert set(GRAPH.nodes[balances].depends_on) == {split, names}


def test_exactly_one_criterion_is_left_to_a_person():
    manual = [node.task_key for node in EXECUTABLE for criterion in node.criteria if criterion.manual]
    assert manual == ["print-a-summary"]


def test_every_other_criterion_is_covered_by_the_configured_check_or_by_a_command():
    named = {c.check for node in EXECUTABLE for c in node.criteria if not c.manual and not c.command}
    assert named == {sample.CHECK["name"]}


def test_every_executable_task_has_its_first_attempt_prepared_and_no_other_folder_exists():
    folders = {folder.name for folder in sample.REQUIREMENTS.data("patches").iterdir()}
    assert folders == {node.task_key for node in EXECUTABLE}
    assert all({"1.patch", "1.say"} <= set(prepared(sample.REQUIREMENTS, key)) for key in folders)


def test_only_the_failing_task_and_the_judged_one_have_a_second_attempt():
    seconds = {node.task_key for node in EXECUTABLE if "2.patch" in prepared(sample.REQUIREMENTS, node.task_key)}
    assert seconds == {"share-the-costs-split-an-expense", "print-a-summary"}


def test_a_third_attempt_at_the_judged_task_changes_nothing():
    """A person may send it back more often than the demo has work prepared for."""
    assert sample.REQUIREMENTS.data("patches", "print-a-summary", "3.patch").read_bytes() == b""


@pytest.mark.parametrize("answer", ANSWERS[sample.REQUIREMENTS])
def test_the_answers_are_legal_choices_for_the_issue_that_asks(answer):
    issue, _, rest = answer.partition("=")
    choice, _, note = rest.partition(":")
    assert issue == f"issue-{1 + GRAPH.order.index('print-a-summary')}"
    legal = choices(RULE["pending_acceptance"], in_loop=True)
    assert choice in {each.typed for each in legal}, "as the prompt shows them"
    assert note


def test_the_document_reads_the_same_each_time():
    assert sample.REQUIREMENTS.tree() == DOCUMENT


def test_the_history_is_a_mailbox_with_its_oldest_commit_first():
    subjects = [line for line in sample.history().decode().splitlines() if line.startswith("Subject: ")]
    assert subjects[0] == "Subject: [PATCH] Say what Fairshare is for"
    assert len(subjects) == 4


# --- the workflow file -------------------------------------------------------------------------------------


def test_the_workflow_has_a_step_for_each_way_in_which_steps_end():
    """One passes, one is repeated, one is seen in a browser, one waits at a gate (docs/hotl.md)."""
    steps = [node.step for node in sample.WORKFLOW.tree().nodes if node.step]
    assert [bool(step.condition) for step in steps] == [False, True, False, False]
    assert [bool(step.browsed) for step in steps] == [False, False, True, False]
    assert [step.gate for step in steps] == [None, None, None, "human"]


def test_the_workflows_work_is_prepared_and_its_answers_are_for_the_steps_that_ask():
    nodes = [node for node in sample.WORKFLOW.tree().nodes if node.step]
    counts = {
        node.task_key: sum(name.endswith(".patch") for name in prepared(sample.WORKFLOW, node.task_key))
        for node in nodes
    }
    assert list(counts.values()) == [1, 3, 1, 2]
    asking = [f"issue-{number}" for number, node in enumerate(nodes, start=2) if node.criteria]
    assert list(dict.fromkeys(answer.partition("=")[0] for answer in ANSWERS[sample.WORKFLOW])) == asking
    assert set(SHOT_AT) == {sample.REQUIREMENTS, sample.WORKFLOW, sample.TOOLCHAIN}
    assert SHOT_AT[sample.WORKFLOW] in counts


def test_what_the_team_says_is_an_answer_and_its_claims_are_the_tasks_that_are_prepared():
    members = {str(each["name"]): each for each in sample.TEAM}
    claimed: dict[str, str] = {}
    for name in members:
        answer = sample.TOOLCHAIN.data("patches", name, "discussion", "1.answer").read_bytes()
        said = read_contribution(answer, ())
        assert isinstance(said, str)
        claimed |= {claim.key: claim.kind for claim in contribution_of(said).claims}
    (lead,) = [name for name, each in members.items() if each.get("lead")]
    review = sample.TOOLCHAIN.data("patches", lead, "split-an-expense-fairly", "1.answer").read_bytes()
    assert read_round(review, ()).verdict == "covered"
    for key, kind in claimed.items():
        (author,) = [name for name, each in members.items() if kind in each["kinds"]]
        assert sample.TOOLCHAIN.data("patches", author, key, "1.patch").is_file()
    assert SHOT_AT[sample.TOOLCHAIN] in claimed
