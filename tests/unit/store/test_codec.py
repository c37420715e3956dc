"""The YAML form: what is refused on reading, and that what is written reads the same everywhere."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import pytest
import ruamel.yaml
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from irontree.errors import LogDamaged
from irontree.store.codec import MAX_DEPTH, read_mapping, write_mapping

# Everything that some reader takes for something else than text, or for structure.
HOSTILE = [
    *(
        "",
        " ",
        "null",
        "Null",
        "~",
        "true",
        "False",
        "yes",
        "No",
        "on",
        "off",
        "y",
        "N",
        "0",
        "-1",
        "+1",
        "0o17",
        "0x1f",
    ),
    *("00123456", "12345e67", "1e3", "1_000", "1:30", "2026-04-22", "2026-04-22T14:32:11Z", ".inf", ".nan", "=", "<<"),
    *("- a", "? a", ": a", "a: b", "a #b", "#a", "&a", "*a", "!a", "!!str a", "|", ">", "%a", "@a", "`a", "'a'", '"a"'),
    *(
        "[a]",
        "{a}",
        ",",
        "---",
        "...",
        "\\",
        "\\n",
        "a\\",
        "C:\\new",
        "/",
        "a ",
        " a",
        "\ta",
        "a\t",
        "a:",
        "key: [",
        "-",
    ),
    *(
        "\n",
        "\n\n",
        "a\n",
        "a\n\n",
        "a\nb",
        "\na",
        " a\nb",
        "\ta\nb",
        "\n a\n",
        "a\n ",
        "a\n\t\n",
        "a\n \n",
        "a \n b\n",
    ),
    *(
        "a\r\nb",
        "\r",
        "a\x85b\nc",
        "a\u2028b\nc",
        "\ufeffa\nb",
        "\x00",
        "\x07\n",
        "\x7f\n",
        "\x9f",
        "\ufffe",
        "\uffff\n",
    ),
    *(
        "\U0001f600\nb",
        "\U0001ffff",
        "naïve\n日本語",
        "--- a\n--- b\n",
        "```yaml\na: 1\n```\n",
        "a\n" * 3 + " " * 9 + "b",
    ),
]
text = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=40),
    st.text(alphabet=" \t\n\r-:#'\"\\[]{}|>&*!%@`,?0123456789eE._x\x85\u2028ab", max_size=40),
)
scalar = st.one_of(
    text, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False, width=64)
)
value = st.recursive(
    scalar,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(text, inner, max_size=4)),
    max_leaves=12,
)
mapping = st.dictionaries(text, value, max_size=6)


def as_text(found: Any) -> Any:
    """What the reader makes of a value: structure and None stay, every other scalar is text."""
    match found:
        case dict():
            return {key: as_text(item) for key, item in found.items()}
        case list():
            return [as_text(item) for item in found]
        case bool():
            return str(found).lower()
        case float():
            return found
        case None | str():
            return found
        case _:
            return str(found)


def floats_as(expected: Any, found: Any) -> Any:
    """*found* with those texts as numbers that are floats in *expected*."""
    match expected:
        case dict():
            return {key: floats_as(expected[key], item) for key, item in found.items()}
        case list():
            return [floats_as(one, item) for one, item in zip(expected, found, strict=True)]
        case float():
            return float(found)
        case _:
            return found


@given(mapping)
@example({item: item for item in HOSTILE})
@example({"a": [[["x\ny\n"]], {"b": ["\n c\n", {}, []]}]})
def test_what_is_written_is_read_back_equal(content):
    found = read_mapping(write_mapping(content), "a.yml", limit=10**9)
    assert floats_as(content, found) == as_text(content)


@given(mapping)
@example({item: item for item in HOSTILE})
def test_other_readers_get_the_very_same_values(content):
    written = write_mapping(content)
    assert yaml.load(written, Loader=yaml.CSafeLoader) == content
    assert yaml.load(written, Loader=yaml.SafeLoader) == content
    assert ruamel.yaml.YAML(typ="safe", pure=True).load(io.StringIO(written)) == content


@given(mapping)
def test_the_same_mapping_is_always_written_alike(content):
    assert write_mapping(content) == write_mapping(dict(content))


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ({"key": "plain_word-2"}, "key: plain_word-2\n"),
        ({"revision": "00123456"}, 'revision: "00123456"\n'),
        ({"revision": "12345e67"}, 'revision: "12345e67"\n'),
        ({"answer": "no", "letter": "y"}, 'answer: "no"\nletter: "y"\n'),
        ({"y": 1}, '"y": 1\n'),
        ({"count": 3, "share": 0.5, "big": 1e22}, "count: 3\nshare: 0.5\nbig: 1.0e+22\n"),
        ({"on": True, "off": None}, '"on": true\n"off": null\n'),
        ({"items": [1, {"a": "b", "c": ["d"]}]}, "items:\n  - 1\n  - a: b\n    c:\n      - d\n"),
        ({"empty": {}, "none": [], "text": ""}, 'empty: {}\nnone: []\ntext: ""\n'),
        ({"text": "one\n  two\n"}, "text: |\n  one\n    two\n"),
        ({"text": "one\r\ntwo"}, 'text: "one\\r\\ntwo"\n'),
        ({}, "{}\n"),
    ],
)
def test_the_form_is_the_one_that_people_expect(content, written):
    assert write_mapping(content) == written


@pytest.mark.parametrize(("number", "written"), [(math.inf, ".inf"), (-math.inf, "-.inf"), (math.nan, ".nan")])
def test_numbers_that_are_none_have_their_yaml_names(number, written):
    assert write_mapping({"a": number}) == f"a: {written}\n"


def test_what_has_no_form_is_refused_on_writing():
    with pytest.raises(TypeError, match="set"):
        write_mapping({"a": {1, 2}})
    with pytest.raises(ValueError, match="surrogate"):
        write_mapping({"a": "\ud800"})


@pytest.mark.parametrize("written", ["null", "~", "", "Null", "NULL"])
def test_plain_nothing_is_none(written):
    assert read_mapping(f"a: {written}\nb: 1\n", "a.yml") == {"a": None, "b": "1"}


@pytest.mark.parametrize("written", ['"null"', "'null'", '"~"', "'NULL'"])
def test_quoted_nothing_is_text(written):
    assert read_mapping(f"a: {written}\n", "a.yml") == {"a": written[1:-1]}


def test_unquoted_scalars_stay_the_text_they_are():
    source = "a: 00123456\nb: 12345e67\nc: no\nd: 1:30\ne: 2026-04-22\nf: 0x1f\ng: [1, true]\n"
    expected = {"a": "00123456", "b": "12345e67", "c": "no", "d": "1:30", "e": "2026-04-22", "f": "0x1f"}
    assert read_mapping(source, "a.yml") == expected | {"g": ["1", "true"]}


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("a: 1\nb: &x 2\n", "line 2: anchors"),
        ("a: &x [1]\nb: *x\n", "line 1: anchors"),
        ("a: 1\nb: *x\n", "line 2: aliases"),
        ("a: !!str 1\n", "line 1: anchors and tags"),
        ("a: !!python/object:os.system {}\n", "line 1: anchors and tags"),
        ("a: ! [1]\n", "line 1: anchors and tags"),
        ("!!map\na: 1\n", "line 1: anchors and tags"),
        ("a: 1\nb: 2\na: 3\n", "line 3: duplicate key 'a'"),
        ("a: {b: 1, b: 2}\n", "duplicate key 'b'"),
        ("? [a]\n: 1\n", "a key must be plain text"),
        ("&x a: 1\n", "a key must be plain text"),
        ("- 1\n", "line 1: expected a mapping"),
        ("just text\n", "line 1: expected a mapping"),
        ("", "expected a mapping"),
        ("# nothing\n", "expected a mapping"),
        ("a: 1\n---\nb: 2\n", "line 2: more than one document"),
        ("a: [1\n", "a.yml, line"),
        ("a: 'x\n", "a.yml, line"),
        ("a: b: c\n", "a.yml, line 1"),
        ("a:\n\t- b\n", "a.yml, line 2"),
        ("a: \x07\n", "not readable as YAML text"),
        (b"a: \xff\n", "not readable as YAML text"),
        ("a: \ud800\n", "not readable as YAML text"),
        ("a: " + "[" * (MAX_DEPTH + 1), "nested too deeply"),
        ("a: " + "[" * 20_000, "a.yml, line 1"),
        ("a: " + "x" * 65_536, "larger than 65536 bytes"),
    ],
)
def test_what_the_protocol_has_no_use_for_is_refused_by_name_and_line(source, what):
    with pytest.raises(LogDamaged, match=re.escape(what)) as caught:
        read_mapping(source, "a.yml")
    assert caught.value.message.startswith("a.yml")


def test_the_limit_can_be_raised_for_larger_files():
    content = {"a": "x" * 70_000}
    assert read_mapping(write_mapping(content), "a.yml", limit=80_000) == content


@given(st.one_of(st.binary(max_size=60), st.text(alphabet="ab:-[]{}&*!|>'\"# \n\t?,%@`", max_size=60).map(str.encode)))
def test_any_bytes_are_a_mapping_or_a_refusal(data):
    try:
        found = read_mapping(data, "a.yml")
    except LogDamaged as refusal:
        refused = refusal.message
    else:
        assert read_mapping(write_mapping(found), "a.yml") == found
        refused = "a.yml"
    assert refused.startswith("a.yml")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_older_fenced_form_is_read(newline):
    source = "Published this task.\n\n```yaml\niron_tree:\n  sequence: 1\n```\n\nThank you.\n".replace("\n", newline)
    assert read_mapping(source, "a.yml") == {"iron_tree": {"sequence": "1"}}


def test_a_fenced_error_is_reported_on_the_line_of_the_file():
    with pytest.raises(LogDamaged, match="line 5: duplicate key 'a'"):
        read_mapping("Some prose.\n\n```yml\na: 1\na: 2\n```\n", "a.yml")


def test_two_fenced_blocks_are_refused():
    block = "```yaml\na: 1\n```\n"
    with pytest.raises(LogDamaged, match="2 fenced YAML blocks"):
        read_mapping(block + block, "a.yml")


def test_a_fence_inside_a_text_is_no_fence():
    content = {"source": "# Title\n\n```yaml\na: 1\n```\n", "b": "1"}
    assert read_mapping(write_mapping(content), "a.yml") == content
