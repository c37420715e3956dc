"""The table of clauses in docs/protocol.md: each names the code that holds it and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
HEADINGS = ("Clause", "Lives in", "Proved by", "Deviation, and why")
ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)


def rows() -> list[tuple[str, ...]]:
    """The cells of every row of every clause table."""
    section = TEXT.partition("\n## Clauses\n")[2].partition("\n## ")[0]
    cells = [tuple(cell.strip() for cell in row.replace(r"\|", "¦").split("|")) for row in ROW.findall(section)]
    return [row for row in cells if row != HEADINGS and not set("".join(row)) <= set("-: ")]


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_there_is_a_row_for_each_section_of_the_protocol():
    assert len(rows()) >= 80


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_a_clause_names_code_that_is_there_and_tests_that_are_there(row):
    assert len(row) == len(HEADINGS)
    assert all(row), "no cell is empty: a clause without deviation says `none`"
    _, lives_in, proofs, _ = row
    for path in re.findall(r"`([\w/.]+\.(?:py|j2|md))`", lives_in):
        assert (ROOT / path).exists(), path
    named = re.findall(r"`(tests/[\w/.]+\.py)::(\w+)`", proofs)
    assert named, "a test is named by its node id"
    for path, name in named:
        assert name in names_in(path), f"{path}::{name}"
