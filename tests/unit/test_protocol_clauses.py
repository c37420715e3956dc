"""The tables of clauses in docs/protocol.md: each row names the code that holds the clause and tests that exist."""

from __future__ import annotations

import re

from tests.support.clauses import COLUMNS, LINE, problems, rows_of, section_of

SECTION = section_of("protocol.md", "Clauses")
# The protocol's own headings; the contract's chapters follow.
PROTOCOL = """Concept and core loop|Phase 1: Document Intake|Phase 2: Publish|Phase 3: Readiness Gate|Execution Lock|
Phase 4: Execution|Phase 5: Validation|Verify Anchor|Verification Report|Promotion to Project Docs|
Phase 6: Acceptance Or Aggregation|Source Of Truth|External Events|Event Recording & Comment Policy|
Multi-Agent Git Hygiene|Adopting Existing Issues|Re-adoption|Stage Label Lifecycle|Brief Standardization|DAG Rules|
Required Capabilities|Execution Modes|Goal|Halt Conditions|Decision Function|Loop Budget|Loop Entity|Active Lease|
Invariants|Slim Comment Invariant|Comment Classes|Reply Dispatch"""
CONTRACT = "fields and enums|event file|loop events|brief|identity|configuration|intents of task|run|verify|checkup"
CASES = (
    *("1.2", "2.1", "2.2", "2.3", "2.4", "3.1", "3.2", "3.3", "4.1", "4.2", "4.3", "4.4", "5.1", "5.2", "5.3"),
    *("6.1", "6.2", "7.1", "7.2", "7.3", "9.1", "9.2", "9.3", "9.4", "9.5", "10.1"),
    *("11.1", "11.2", "11.3", "11.4", "11.5", "11.6", "11.7"),
)


def rows() -> list[tuple[str, ...]]:
    """The cells of every row of every table."""
    return rows_of(SECTION)


def test_every_chapter_has_its_table():
    wanted = [heading.strip() for heading in PROTOCOL.split("|")] + [
        f"Contract: {name}" for name in CONTRACT.split("|")
    ]
    assert re.findall(r"^### (.+)$", SECTION, re.MULTILINE) == [*wanted, "Contract: acceptance cases"]
    assert SECTION.count(f"| {' | '.join(COLUMNS)} |") == len(wanted) + 1


def test_every_acceptance_case_has_a_row_and_a_test_under_its_number():
    for case in CASES:
        proofs = [row[2] for row in rows() if row[0].startswith(f"TC-{case}:")]
        assert len(proofs) == 1, case
        assert f"::test_tc_{case.replace('.', '_')}_" in proofs[0], case


def test_no_clause_stands_twice_in_a_chapter():
    for chapter in SECTION.split("\n### ")[1:]:
        clauses = [line.split("|")[0].strip() for line in LINE.findall(chapter)]
        assert len(set(clauses)) == len(clauses), chapter.partition("\n")[0]


def test_a_clause_names_code_that_is_there_and_tests_that_are_there():
    wrong = {row[0]: found for row in rows() if (found := problems(row))}
    assert rows()
    assert wrong == {}
