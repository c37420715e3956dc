"""Tables of clauses in docs/: what a row must name, read from the page."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("Clause", "Lives in", "Proved by", "Deviation, and why")
LINE = re.compile(r"^\|(.+)\|$", re.MULTILINE)
CODE = re.compile(r"`([\w/.-]+)`")
NODE_ID = re.compile(r"`(tests/[\w/.-]+\.py)::((?:Test\w+::)?test_\w+)`")


@cache
def section_of(page: str, heading: str) -> str:
    """The text below a heading of the second level of a page in docs/."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@cache
def rows_of(section: str) -> list[tuple[str, ...]]:
    """The cells of every row of every table."""
    cells = [tuple(cell.strip() for cell in line.replace(r"\|", "¦").split("|")) for line in LINE.findall(section)]
    return [row for row in cells if row != COLUMNS and not set("".join(row)) <= set("-: ")]


@cache
def node_ids_in(path: str) -> frozenset[str]:
    """What pytest calls the tests of that file, behind the file's name."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    methods = [f"{known.name}::{name}" for known in classes for name in functions(known.body)]
    return frozenset([*functions(tree.body), *methods])


def functions(body: list[ast.stmt]) -> list[str]:
    return [node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def problems(row: tuple[str, ...]) -> list[str]:
    """What is wrong with a row: cells, paths or node ids that are not there."""
    if len(row) != len(COLUMNS) or not all(row):
        return ["no cell is missing or empty: a clause without deviation says `none`"]
    _, lives_in, proofs, _ = row
    paths, named = CODE.findall(lives_in), NODE_ID.findall(proofs)
    return [
        *([] if paths else ["code is named by its path"]),
        *(f"{path} is not there" for path in paths if not (ROOT / path).is_file()),
        *([] if len(named) == proofs.count("`") / 2 > 0 else ["a test is named by its node id"]),
        *(f"{path}::{name} is not there" for path, name in named if name not in node_ids_in(path)),
    ]
