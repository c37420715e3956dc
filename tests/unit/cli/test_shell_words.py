"""A command that is shown names the same file when it is copied into a shell, whatever the file is called."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from irontree.domain.text import one_line, shell_path, shell_word, shown_name

NAMES = st.binary(min_size=1, max_size=30).map(lambda name: name.replace(b"\0", b"\n")) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]) | st.sampled_from("\u202e\u200b '\\\n\t$`\x1b"),
    min_size=1,
    max_size=30,
).map(str.encode)
ODD = [
    "a\nb.md",
    "SPEC\udcff.md",
    "a  b",
    " a ",
    "it's",
    "\u202efdp.md",
    "\\n",
    "🌲",
    "a\tb\x1b[2J",
    "7\x017",
    "$HOME `x`",
]


@settings(max_examples=10)
@example([os.fsencode(name) for name in ODD])
@given(st.lists(NAMES, min_size=1, max_size=200))
def test_a_shell_reads_the_same_bytes(names: list[bytes]):
    shown = " ".join(shell_word(os.fsdecode(name)) for name in names)
    read = subprocess.run(["bash"], input=f"printf '%s\\0' {shown}".encode(), capture_output=True, check=True)
    assert read.stdout.split(b"\0")[:-1] == names


@given(NAMES)
def test_nothing_that_shows_it_changes_it(name: bytes):
    word = shell_word(os.fsdecode(name))
    assert f"x{one_line(f'x {word} x')}".removeprefix("x") == f"x {word} x"
    assert word.isprintable()


@pytest.mark.parametrize(
    ("path", "word"),
    [("SPEC.md", "SPEC.md"), ("my spec.md", "'my spec.md'"), ("-x.md", "./-x.md"), ("a\udcff.md", r"$'a\377.md'")],
)
def test_a_path_is_one_word_and_no_option(path: str, word: str):
    assert shell_path(path) == word


@pytest.mark.parametrize(("name", "shown"), [("my spec.md", "my spec.md"), ("a\udcff.md", r"$'a\377.md'")])
def test_a_name_in_a_sentence_passes_for_no_other(name: str, shown: str):
    assert shown_name(name) == shown
