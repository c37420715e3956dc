"""The tables of docs/toolchain.md: each clause names the code that holds it and tests that exist."""

from __future__ import annotations

from tests.support.clauses import COLUMNS, problems, rows_of, section_of

CLAUSES = section_of("toolchain.md", "Clauses")


def test_a_clause_names_code_that_is_there_and_tests_that_are_there():
    assert CLAUSES.count(f"| {' | '.join(COLUMNS)} |") == CLAUSES.count("### ") == 4
    assert {row[0]: found for row in rows_of(CLAUSES) if (found := problems(row))} == {}
    assert len({row[0] for row in rows_of(CLAUSES)}) == len(rows_of(CLAUSES)) > 45
