"""The sample project shows what the product does: its document, its prepared work and its answers fit together."""

from __future__ import annotations

import pytest

from irontree.cli.demo import ANSWERS
from irontree.demo import layout as sample
from irontree.domain.graph import Graph
from irontree.domain.halt import RULE, choices

DOCUMENT = sample.requirements()
GRAPH = Graph.of(DOCUMENT.nodes)
EXECUTABLE = [node for node in DOCUMENT.nodes if node.executability == "executable"]


def prepared(key: str) -> list[str]:
    return sorted(file.name for file in sample.data("patches").joinpath(key).iterdir())


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
    folders = {folder.name for folder in sample.data("patches").iterdir()}
    assert folders == {node.task_key for node in EXECUTABLE}
    assert all({"1.patch", "1.say"} <= set(prepared(key)) for key in folders)


def test_only_the_failing_task_and_the_judged_one_have_a_second_attempt():
    seconds = {node.task_key for node in EXECUTABLE if "2.patch" in prepared(node.task_key)}
    assert seconds == {"share-the-costs-split-an-expense", "print-a-summary"}


def test_a_third_attempt_at_the_judged_task_changes_nothing():
    """A person may send it back more often than the demo has work prepared for."""
    assert sample.data("patches").joinpath("print-a-summary", "3.patch").read_bytes() == b""


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_answers_are_legal_choices_for_the_issue_that_asks(answer):
    issue, _, rest = answer.partition("=")
    choice, _, note = rest.partition(":")
    assert issue == f"issue-{1 + GRAPH.order.index('print-a-summary')}"
    legal = choices(RULE["pending_acceptance"], in_loop=True)
    assert choice in {each.typed for each in legal}, "as the prompt shows them"
    assert note


def test_the_document_reads_the_same_each_time():
    assert sample.requirements() == DOCUMENT


def test_the_history_is_a_mailbox_with_its_oldest_commit_first():
    subjects = [line for line in sample.history().decode().splitlines() if line.startswith("Subject: ")]
    assert subjects[0] == "Subject: [PATCH] Say what Fairshare is for"
    assert len(subjects) == 4
