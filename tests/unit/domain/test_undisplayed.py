"""What a page of Markdown does not display is found: who approves a text has seen that page alone."""

from __future__ import annotations

import pytest

from irontree.domain.requirements.markdown import undisplayed


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ('a\n\n[x]: http://e.example "unseen"\n', ['[x]: http://e.example "unseen"']),
        ("[x]: http://a\n[x]: http://b", ["[x]: http://a", "[x]: http://b"]),
        ("a <!-- b\nc --> d", ["<!-- b\nc -->"]),
        ("<!-- never closed\n\nb", ["<!-- never closed\n\nb"]),
        ("<p hidden>a</p>", ["<p hidden>"]),
        ("<script>a\n</script>", ["<script>a\n</script>"]),
        ("![a [b] c](http://e.example/i.png 'd')", ["![a [b] c", "(http://e.example/i.png 'd')"]),
        ('[a](<x y> "b\nc")', ["<x y>", '(<x y> "b\nc")']),
        ("<details><summary>a</summary>b</details> [a](b) <http://e.example> 1 < 2", []),
    ],
)
def test_what_is_not_displayed_is_found(text: str, hidden: list[str]):
    assert [*undisplayed(text)] == hidden


@pytest.mark.parametrize("piece", ["![", "](", "](a ", "<!--", "<a ", '](a "', "<script>"])
def test_a_hostile_text_is_gone_through_once(piece: str):
    assert undisplayed(piece * 20_000) is not None
