"""The tables of docs/hotl.md: clauses, upstream's defects and its 88 cases, each with a test that exists."""

from __future__ import annotations

import re

import pytest

from irontree.domain.workflow.lint import lint
from tests.support.clauses import COLUMNS, NODE_ID, node_ids_in, problems, rows_of, section_of

CLAUSES = section_of("hotl.md", "Clauses")
CASES = {"r01": 53, "i01": 11, "x01": 14, "s1": 7, "l1": 3}


def test_a_clause_names_code_that_is_there_and_tests_that_are_there():
    assert CLAUSES.count(f"| {' | '.join(COLUMNS)} |") == 5
    assert {row[0]: found for row in rows_of(CLAUSES) if (found := problems(row))} == {}
    assert len({row[0] for row in rows_of(CLAUSES)}) == len(rows_of(CLAUSES)) > 30


def test_the_example_on_the_page_is_without_mistakes():
    example = section_of("hotl.md", "Write a workflow file").partition("```markdown\n")[2].partition("```")[0]
    assert lint(example, "workflow").errors == ()


def test_every_defect_has_a_test_under_its_number():
    rows = [row for row in rows_of(section_of("hotl.md", "Where it differs")) if row[0]]
    assert [row[0] for row in rows] == [*(f"D{at}" for at in range(1, 16)), "E1", "E2", "E3"]
    for row in rows:
        ((path, name),) = NODE_ID.findall(row[3])
        assert name in node_ids_in(path)
        assert re.match(f"test_{row[0][0].lower()}0?{row[0][1:]}_", name)


@pytest.mark.parametrize(("first", "most"), CASES.items())
def test_every_case_of_upstream_has_a_test_under_its_number(first: str, most: int):
    group, rows = first[0], rows_of(section_of("hotl.md", "Cases of upstream"))
    (row,) = [row for row in rows if row[0] == f"`{first}` to `{group}{most}`"]
    found: set[int] = set()
    for name in node_ids_in(row[2].strip("`")):
        numbers = [int(each) for each in re.findall(rf"(?<=_){group}(\d+)(?=_)", name)]
        if numbers and name.startswith(f"test_{group}"):
            found |= {*numbers, *(range(numbers[0], numbers[-1]) if "_to_" in name else ())}
    missing = set(range(1, most + 1)) - found
    assert not missing
