"""Task Keys, normalised text, revisions and tokens depend on what they name and on nothing else (R8)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from irontree.domain.ids import (
    intent_hash,
    loop_id,
    normalize,
    normalized_lines,
    parse_issue,
    run_token,
    slugify,
    spec_digest,
    task_key,
)
from irontree.domain.plan import Criterion, PlanNode

TITLES = st.text(min_size=1, max_size=120)
PATHS = st.lists(TITLES, min_size=1, max_size=6).map(tuple)
WORDS = st.text(st.sampled_from("abcdefgh"), min_size=1, max_size=4)
WORD_PATHS = st.lists(WORDS, min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Add a Login Form", "add-a-login-form"),
        ("snake_case  and\ttabs", "snake-case-and-tabs"),
        ("read/write: it's done!", "readwrite-its-done"),
        ("--a -- b--", "a-b"),
        ("Übergröße für Zürich", "ubergrosse-fur-zurich"),
        ("Привет, мир", "privet-mir"),
        ("C++", "c"),
        ("!?", ""),
        ("", ""),
    ],
)
def test_a_slug_is_lower_case_ascii_words_joined_by_single_hyphens(text, slug):
    assert slugify(text) == slug


def test_composed_and_decomposed_letters_have_one_slug():
    assert slugify("e\u0301te\u0301") == slugify("\u00e9t\u00e9") == "ete"


@given(st.text())
def test_a_slug_of_a_slug_is_itself(text):
    assert slugify(slugify(text)) == slugify(text)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (("Auth",), "auth"),
        (("Auth", "Core"), "auth-core"),
        (("a" * 30, "b" * 33), "a" * 30 + "-" + "b" * 33),
    ],
)
def test_a_key_is_the_slugs_of_the_path_joined_by_hyphens(path, key):
    assert task_key(path) == key


def test_a_key_longer_than_64_is_cut_to_57_and_marked_with_6_hex_of_its_path():
    key = task_key(("a" * 40, "b" * 40))
    digest = hashlib.sha256(f'["{"a" * 40}","{"b" * 40}"]'.encode()).hexdigest()
    assert key == f"{'a' * 40}-{'b' * 16}-{digest[:6]}"


def test_a_cut_that_falls_on_a_hyphen_leaves_no_double_hyphen():
    assert re.fullmatch(r"a{56}-[0-9a-f]{6}", task_key(("a" * 56, "b" * 40)))


def test_a_title_without_a_slug_gets_hex_digits_of_its_path_and_no_hyphen_at_either_end():
    keys = {task_key(("!",)), task_key(("?",)), task_key(("Auth", "!")), task_key(("!", "Auth"))}
    assert len(keys) == 4
    assert all(re.fullmatch(r"(auth-)?[0-9a-f]{6}", key) for key in keys)


def test_an_empty_slug_never_makes_a_child_its_parents_namesake():
    assert task_key(("Auth", "!!!")) != task_key(("Auth",))


@given(PATHS)
def test_every_key_can_stand_in_a_file_name_an_option_and_an_event(path):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", task_key(path))
    assert len(task_key(path)) <= 64


@given(PATHS)
def test_a_key_is_the_same_each_time_and_for_each_unicode_form(path):
    decomposed = tuple(unicodedata.normalize("NFD", title) for title in path)
    assert task_key(path) == task_key(path) == task_key(decomposed)


@given(WORD_PATHS, WORD_PATHS)
def test_plain_paths_have_one_key_only_if_their_words_are_the_same(path, other):
    assert (task_key(path) == task_key(other)) == (path == other)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("a  \n\t\nb", "a\n\nb"),
        ("a\n\n\n\nb", "a\n\nb"),
        ("\n\n a\n\n", " a"),
        ("e\u0301", "\u00e9"),
        (" \n\r\n", ""),
    ],
)
def test_normal_text_has_one_form_of_line_ends_blanks_and_letters(text, normal):
    assert normalize(text) == normal


@given(st.text(st.sampled_from("ab \t\r\n\u0301\u00e9\u2028\x0c#-"), max_size=60) | st.text())
@example("a\r\r\n\nb")
def test_normalising_twice_is_normalising_once(text):
    assert normalize(normalize(text)) == normalize(text)


@given(st.text(st.sampled_from("ab \r\n"), max_size=60))
def test_normalised_lines_keep_the_numbers_of_the_text_they_came_from(text):
    original = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in normalized_lines(text):
        assert original[number - 1].rstrip() == line


NODE = PlanNode(task_key="a", title="A", depends_on=("b", "c"), line=3)
OTHER = PlanNode(task_key="b", title="B", line=1)


def test_the_revision_is_the_digest_that_the_contract_describes():
    text = (
        '# A\n---\n[{"depends_on":["b","c"],"executability":"executable","shape":"atomic","task_key":"a",'
        '"title":"\u00c4","type":"feature"}]'
    )
    node = NODE.model_copy(update={"title": "\u00c4", "depends_on": ("c", "b")})
    assert spec_digest("# A\r\n\n\n", [node]) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"task_key": "d"},
        {"title": "Z"},
        {"type": "bug"},
        {"shape": "composite"},
        {"executability": "container"},
        {"depends_on": ("b",)},
    ],
)
def test_the_revision_changes_with_each_field_that_identifies_a_node(change):
    assert spec_digest("x", [NODE.model_copy(update=change), OTHER]) != spec_digest("x", [NODE, OTHER])


@pytest.mark.parametrize(
    "change",
    [{"line": 99}, {"depends_on": ("c", "b")}, {"description": "text"}, {"criteria": (Criterion(text="c"),)}],
)
def test_the_revision_of_one_source_does_not_depend_on_order_and_place(change):
    """Descriptions and criteria are part of the source; they need not be hashed twice."""
    assert spec_digest("x", [OTHER, NODE.model_copy(update=change)]) == spec_digest("x", [NODE, OTHER])


def test_the_revision_changes_with_the_text_but_not_with_its_white_space():
    assert spec_digest("x\n\ny", [NODE]) == spec_digest("\r\nx \r\n\r\n\r\ny\r\n", [NODE])
    assert spec_digest("x y", [NODE]) != spec_digest("x\ny", [NODE])


@given(st.permutations([NODE, OTHER, PlanNode(task_key="c", title="C")]))
def test_the_revision_is_the_same_in_every_order_of_nodes(nodes):
    assert spec_digest("x", nodes) == spec_digest("x", sorted(nodes, key=lambda node: node.title))


def test_a_loop_id_holds_its_minute_in_utc():
    moment = datetime(2026, 4, 22, 14, 32, 59, tzinfo=UTC)
    assert loop_id(moment, "a3f8b2") == "2026-04-22-1432-a3f8b2"
    assert loop_id(moment.astimezone(timezone(timedelta(hours=-11))), "a3f8b2") == "2026-04-22-1432-a3f8b2"


def test_an_intent_is_hashed_in_its_normal_form():
    assert intent_hash("first 5\r\n") == hashlib.sha256(b"first 5").hexdigest()


def test_a_run_token_names_issue_revision_and_sequence():
    assert run_token(12, "1a2b3c4d", 7) == "12/1a2b3c4d/7"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("issue-12", 12), ("#12", 12), (" ISSUE-7 ", 7), ("issue-0", None), ("12", None), ("#", None)],
        *[("issue-1x", None), ("#\u0661\u0662", None), ("#1 #2", None)],
    ],
)
def test_an_issue_is_named_with_a_prefix_or_not_at_all(text, number):
    assert parse_issue(text) == number


@given(st.integers(min_value=1))
def test_an_issue_reference_can_be_read_back(number):
    assert parse_issue(f"issue-{number}") == number
