"""Documents that people would write keep their tree, their keys and their revision for good."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from irontree.domain.graph import Graph
from irontree.domain.spec import read_requirements

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "requirements"
EXAMPLE = ROOT / "templates" / "example" / "requirements.md.j2"
MANUAL = ROOT / "docs" / "requirement-format.md"


def read(path):
    return read_requirements(path.read_bytes(), path.name, known_issues={41: "house-style"})


def projected(found):
    nodes = [node.model_dump(mode="json", exclude_defaults=True) for node in found.nodes]
    return {
        "title": found.title,
        "introduction": found.introduction,
        "revision": found.revision,
        "warnings": [warning.describe(found.name) for warning in found.warnings],
        "nodes": nodes,
    }


@pytest.mark.parametrize("path", sorted(DATA.glob("*.md")), ids=lambda path: path.stem)
def test_a_document_is_read_as_it_was_when_it_was_first_approved(path):
    """Another key or revision for an old text would orphan its issues: change these files only for a new ruling."""
    assert projected(read(path)) == json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


def test_the_example_that_is_printed_is_the_one_in_the_manual():
    shown = re.search(r"^````markdown\n(# .*?)^````$", MANUAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown
    assert shown[1] == EXAMPLE.read_text(encoding="utf-8")


def test_the_example_is_complete_and_warns_of_nothing():
    found = read(EXAMPLE)
    assert not found.warnings
    assert {node.type for node in found.nodes} == {"feature", "bug"}
    assert {node.shape for node in found.nodes} == {"atomic", "composite"}
    assert Graph.of(found.nodes).order[0] == "notes-on-disk"


def test_the_example_is_a_template_without_values():
    assert not re.search(r"\{[{%#]", EXAMPLE.read_text(encoding="utf-8"))


def test_the_other_pieces_of_the_manual_are_what_it_says():
    """Each fenced piece of Markdown in it is put under a heading and read."""
    pieces = re.findall(r"^(`{3,4})markdown\n(.*?)^\1$", MANUAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (fields,), (checks,) = ([text for _, text in pieces if start in text[:20]] for start in ("Type: bug", "### Verif"))
    tasks = "## Login\n- [ ] x\n## Logout\n- [ ] x\n"
    node = read_requirements(f"# T\n{tasks}## A\n{fields}\n\n- [ ] x\n{checks}".encode(), "SPEC.md").nodes[-1]
    assert (node.type, node.priority, node.depends_on) == ("bug", 1, ("login", "logout"))
    assert node.verification == ("make test", "make lint")
