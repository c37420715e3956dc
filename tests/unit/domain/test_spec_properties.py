"""Whatever a document holds, reading it is deterministic, its keys are stable, and nothing but a refusal is raised."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from irontree.domain.ids import normalize
from irontree.domain.requirements.markdown import _parser, plain
from irontree.domain.spec import Requirements, read_requirements
from irontree.errors import RequirementsRefused

WORDS = ["Login", "Form", "Mail", "Öl", "数据", "C++", "a, b", "x / y", "Fix `it`", "1", "!!!", "Very " * 14]
PIECES = [
    *("# T\n", "## A\n", "### B\n", "###### C\n", "#\n", "A\n===\n", "B\n---\n", "---\n", "...\n", "> ## Q\n"),
    *("- [ ] x\n", "  - [x] y\n", "* z\n", "1. n\n", "      - deep\n", "\t- tab\n", "\n", "\r\n", "\r", " ", "\\"),
    *("Type: bug\n", "Depends on: A, B\n", "Depends on:\n", "Key: k\n", "**Priority:** 3\n", "- Files: a, `b`\n"),
    *("## Notes\n", "### Acceptance criteria\n", "#### Verification\n", "Verification:\n", "- `$ a`\n", "$ b\n"),
    *("```\n", "~~~sh\n", "    code\n", "<!--", "-->\n", "<div>\n", "[a]: b\n", "[x](y)", "`", "``", "**", "__", "*"),
    *("(manual)", "(check: u)", "(check: )", "#12", "\x00", "\u202e", "\ufeff", "\u2028", "e\u0301", "שלום", "🌳", "|"),
]


@st.composite
def outlines(draw, size=8):
    """Titles with levels, as (level, title), whose paths all differ in plain words."""
    count = draw(st.integers(1, size))
    levels = [2, *draw(st.lists(st.integers(2, 5), min_size=count - 1, max_size=count - 1))]
    return [(level, f"Task {index} {draw(st.sampled_from(WORDS))}") for index, level in enumerate(levels)]


def document(headings):
    """The headings under a title, each with a criterion."""
    return "# Document\n\n" + "".join(f"{'#' * level} {title}\n\n- [ ] it works\n\n" for level, title in headings)


def read(text):
    return read_requirements(text.encode(), "SPEC.md")


def keys(text):
    return {node.title: node.task_key for node in read(text).nodes}


def subtrees(headings):
    """The outline cut into the top-level tasks with all that is below each."""
    cuts = [*(index for index, (level, _) in enumerate(headings) if level == 2), len(headings)]
    return [headings[start:end] for start, end in pairwise(cuts)]


@given(outlines())
def test_reading_twice_gives_the_same(headings):
    assert read(document(headings)) == read(document(headings))


@given(outlines(), st.sampled_from(["\n", "\r\n", "\r"]), st.integers(0, 3), st.sampled_from(["", " ", "\t "]))
def test_line_ends_and_white_space_change_neither_nodes_nor_revision(headings, end, blanks, trail):
    text = document(headings)
    other = end * blanks + text.replace("\n\n", "\n" * (2 + blanks)).replace("\n", trail + end) + end * blanks
    assert read(other).revision == read(text).revision
    assert read(other).source == read(text).source
    for node, same in zip(read(other).nodes, read(text).nodes, strict=True):
        assert node.digest == same.digest


@given(outlines(), outlines(4), st.data())
def test_a_key_stays_when_tasks_are_added(headings, more, data):
    before = keys(document(headings))
    new = [(level, f"New {title}") for level, title in more]
    place = data.draw(st.integers(0, len(subtrees(headings))))
    parts = subtrees(headings)
    after = keys(document([heading for part in (*parts[:place], new, *parts[place:]) for heading in part]))
    assert before.items() <= after.items()


@given(outlines(), st.data())
def test_a_key_stays_when_tasks_are_moved_among_their_siblings(headings, data):
    moved = data.draw(st.permutations(subtrees(headings)))
    assert keys(document([heading for part in moved for heading in part])) == keys(document(headings))


@given(outlines(), st.data())
def test_a_key_stays_when_other_tasks_are_removed(headings, data):
    parts = subtrees(headings)
    kept = data.draw(st.lists(st.sampled_from(parts), min_size=1, unique_by=lambda part: part[0][1]))
    assert keys(document([heading for part in kept for heading in part])).items() <= keys(document(headings)).items()


@given(outlines(), st.data())
def test_two_tasks_of_one_path_are_always_refused_with_both_lines(headings, data):
    heading, *_ = data.draw(st.sampled_from(subtrees(headings)))
    text = document([*headings, heading])
    first = 3 + 4 * headings.index(heading)
    with pytest.raises(RequirementsRefused) as refusal:
        read(text)
    last = 3 + 4 * len(headings)
    assert any(
        problem.startswith(f"SPEC.md:{last}: ") and f"at line {first}" in problem for problem in refusal.value.problems
    )


@given(outlines(), st.data())
def test_an_explicit_key_keeps_the_keys_of_a_retitled_task_and_its_parts(headings, data):
    place = data.draw(st.integers(0, len(headings) - 1))
    _, title = headings[place]
    before = [node.task_key for node in read(document(headings)).nodes]
    assume(max(len(key) for key in before) < 57)
    renamed = document(headings).replace(f"# {title}\n", f"# Renamed\n\nKey: {before[place]}\n", 1)
    assert [node.task_key for node in read(renamed).nodes] == before


@given(outlines(), st.data())
def test_every_dependency_on_an_earlier_task_is_understood_by_key_title_and_path(headings, data):
    nodes = read(document(headings)).nodes
    target = data.draw(st.sampled_from(nodes))
    path = [target.title]
    parent = next((node for node in nodes if node.task_key == target.parent), None)
    while parent:
        path.insert(0, parent.title)
        parent = next((node for node in nodes if node.task_key == parent.parent), None)
    for name in (target.task_key, target.title, " / ".join(path)):
        last = read(f"{document(headings)}## Last\n\nDepends on: {name}\n\n- [ ] x").nodes[-1]
        assert last.depends_on == (target.task_key,)


def read_or_refuse(data):
    """Anything but a value or a refusal escapes and fails the test."""
    try:
        found = read_requirements(data, "SPEC.md", known_issues={12: "elsewhere"})
    except RequirementsRefused:
        return None
    assert isinstance(found, Requirements)
    return found


@given(st.binary(max_size=200))
@example(b"\xef\xbb\xbf")
@example(b"\r")
def test_no_bytes_raise_anything_but_a_refusal(data):
    read_or_refuse(data)


@example("\ufeff\ufeff# T\n\n- [ ] x\n")
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@example("# A\n- [ ] x\n---\nb: c\n---")
@example("---\na: b\n---\n# A\n\n- [ ] x\n")
def test_no_markdown_raises_anything_but_a_refusal_and_what_is_read_reads_the_same_again(text):
    found = read_or_refuse(text.encode())
    if found:
        again = read(found.source) if "#12" not in found.source else read_or_refuse(found.source.encode())
        assert again.revision == found.revision
        assert [node.digest for node in again.nodes] == [node.digest for node in found.nodes]
        assert normalize(found.source) == found.source


@given(outlines(), st.text(max_size=30))
def test_hostile_text_in_a_task_never_changes_the_other_tasks(headings, text):
    """Unless it is Markdown for a heading, or hides one, the tasks are the same."""
    line = "x" + " ".join(text.split()).replace("`", "").replace("<", "")
    found = read_or_refuse(document(headings).replace("it works", line).encode())
    if found:
        assert {node.title: node.task_key for node in found.nodes} == keys(document(headings))


HOSTILE = {
    "5,000 headings": "".join(f"## T{i}\n- [ ] x\n" for i in range(5000)),
    "5,000 headings without criteria": "## T\n" * 5000,
    "a chain of 2,000": "".join(f"## T{i}\nDepends on: T{i - 1 if i else 'none'}\n- [ ] x\n" for i in range(2000)),
    "deep quotes": "# A\n" + "> " * 5000 + "- [ ] x",
    "deep lists": "# A\n" + "".join("  " * i + "- [ ] x\n" for i in range(200)),
    "one line of lists": "# A\n" + "- " * 5000 + "[ ] x",
    "open brackets": "# " + "[" * 50_000 + "\n- [ ] x",
    "open emphasis": "# A\n**Depends on:** " + "*" * 50_000 + "\n- [ ] x",
    "open code": "# A\n- [ ] " + "`$ " * 600 + "\n",
    "many marks": "# A\n- [ ] " + "(check: " * 200 + "\n",
    "many names": "# A\nDepends on: " + "a," * 900 + "\n- [ ] x",
    "many fields": "# A\n" + "Type: bug\n" * 2000 + "- [ ] x",
    "right to left": "# \u05d3\u05e3 \u0647\n- [ ] \u05e9\u05dc\u05d5\u05dd (manual)\n",
    "combining marks": "# A" + "\u0301" * 200 + "\n- [ ] x",
    "a private and an unassigned character": "# \ue000\U000e0080\n- [ ] x",
    "template syntax": "# {{ 7 * 7 }} {% raw %} ${HOME} $(id)\n- [ ] `{{ x }}`",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_documents_are_read_or_refused(text):
    read_or_refuse(text.encode())


@given(st.text(st.sampled_from("ab *_`<>[]()!&;\\#~-\n\t:/.1\"'\u00a0\u2028\x0c"), max_size=12))
def test_text_without_markup_is_what_the_parser_makes_of_it(text):
    """What needs no parser is not parsed; the parser would say the same."""
    tokens = _parser().parseInline(text, {})[0].children or []
    parts = (" " if token.type in ("softbreak", "hardbreak") else token.content for token in tokens)
    assert plain(text) == " ".join("".join(parts).split())
