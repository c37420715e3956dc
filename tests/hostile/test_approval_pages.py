"""Text of agents and strangers on a page: it is shown, and nothing of it is fetched, linked, called or closed."""

from __future__ import annotations

import io
import re
from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from irontree.cli.console import Console, show_markdown
from irontree.domain.comments import foreign, plain
from irontree.domain.text import inert, piped, unmarked
from irontree.rendering import JinjaRenderer
from irontree.services.record import summary
from tests.support.views import TEMPLATES, case

RENDERER = JinjaRenderer()
PAGES = sorted(name for name in TEMPLATES if not name.startswith("prompts/") and name != "issues/body.md")
"""Prompts are no pages; the text of an issue of ours is what somebody approved."""
ATTACKS = {
    "image": "![x](https://evil.example/x.png)",
    "image by reference": "![x][evil]\n\n[evil]: https://evil.example/x.png",
    "link": "[x](https://evil.example)",
    "link that runs": "[x](javascript:evil.example)",
    "link behind a backslash": "\\[x](https://evil.example) \\\\[x](https://evil.example)",
    "link in brackets": "[[x](https://evil.example)](https://evil.example)",
    "link between backticks": "` [x](https://evil.example)",
    "link behind an escaped backtick": "\\`[x](https://evil.example)`",
    "link behind backticks of another length": "`` a ` [x](https://evil.example) `",
    "definition": "[x]: https://evil.example",
    "short reference": "[evil]\n\n[evil]: https://evil.example",
    "address": "https://evil.example HTTP://evil.example ftp://evil.example",
    "address without a scheme": "www.evil.example/x",
    "address in angles": "<https://evil.example> <me@evil.example>",
    "mail": "me@evil.example mailto:me@evil.example",
    "tag": "<img src=https://evil.example/x.png><a href='https://evil.example'>x</a>",
    "tag over lines": "<a\nhref='https://evil.example'>x</a>",
    "mention": "@evil @evil/team cc:@evil",
    "issue": "#666 GH-666 gh-666 evil/repo#666 !666",
    "closing": "fixes #666, closes: evil/repo#666, resolved GH-666 and reopens #666",
    "closing by address": "fixes https://evil.example/o/r/issues/666",
    "wiki": "[[evil]] [[x|https://evil.example]]",
    "entities": "&#91;x&#93;(https://evil.example) &lt;img src=x&gt;",
}
ON_PAGE = re.compile(r"://evil|(?<![^\W_])www\.evil|\w@evil", re.IGNORECASE)
"""What any page makes a link of, where it stands in its text."""
ON_FORGE = re.compile(
    r"://evil|(?<![^\W_])www\.evil|@evil|(?<![\w&])[#!]666|(?<![^\W_])GH-666|evil/repo#666|\[\[", re.IGNORECASE
)
"""What a forge makes a link, a message or a closed issue of."""
REFERENCES = ("mention", "issue", "closing")
"""The attacks that are none but on a forge."""
MARK = "\N{ZERO WIDTH SPACE}"


@cache
def parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def is_posted(template: str) -> bool:
    return template.startswith(("comments/", "issues/"))


def effects(markdown: str, *, forge: bool) -> list[str]:
    """What of *markdown* would do more than be read."""
    live = ON_FORGE if forge else ON_PAGE
    found = []
    for token in parser().parse(markdown):
        if token.type == "html_block":
            found.append(token.content)
        for child in token.children or ():
            address = str(child.attrs.get("href") or child.attrs.get("src") or "")
            if child.type == "html_inline" or "evil" in address:
                found.append(child.content or address)
            if child.type == "text":
                found += live.findall(child.content)
    return [one for one in found if one not in ("<details>\n<summary>The change</summary>\n", "</details>\n")]


@pytest.mark.parametrize("template", PAGES)
def test_no_value_of_a_template_has_an_effect(template):
    seen = partial(effects, forge=is_posted(template))
    shown = {name: seen(RENDERER.render(template, **case(template, text))) for name, text in ATTACKS.items()}
    ordinary = seen(RENDERER.render(template, **case(template, "x")))
    assert {name: found for name, found in shown.items() if found != ordinary} == {}


@pytest.mark.parametrize("template", [name for name in PAGES if not is_posted(name)])
@pytest.mark.parametrize("attack", REFERENCES)
def test_what_does_nothing_on_a_page_is_shown_there_as_it_was_written(template, attack):
    assert MARK not in RENDERER.render(template, **case(template, ATTACKS[attack]))


@pytest.mark.parametrize("draws", [True, False])
@pytest.mark.parametrize("attack", sorted(ATTACKS))
def test_a_terminal_shows_the_text_without_our_marks_and_the_address_of_an_image(draws, attack):
    page, out = RENDERER.render("forms/intake.md", **case("forms/intake.md", ATTACKS[attack])), io.StringIO()
    show_markdown(Console(out, io.StringIO(), draws=draws), page)
    assert MARK not in out.getvalue()
    assert "evil.example" in out.getvalue() or attack in (*REFERENCES, "wiki", "short reference")


PIECES = st.lists(
    st.sampled_from(
        [
            *"`[]()<>!:\\|*_ \n",
            "``",
            "```",
            "](",
            "![",
            "https://evil.example",
            "www.evil.example",
            "_www.evil.example_",
            "www\\.evil.example",
            "https:\\//evil.example",
            "https:/\\/evil.example",
            "@evil",
            "x\\@evil",
            "#666",
            "GH\\-666",
            "x",
        ]
    ),
    max_size=14,
).map("".join)


@given(PIECES, PIECES)
def test_two_inert_texts_in_one_paragraph_are_inert_together(one, other):
    """What the first leaves open must not free what the second holds."""
    for forge in (True, False):
        first, second = (inert(" ".join(text.split()), forge=forge) for text in (one, other))
        assert effects(f"- {first} and {second}: done", forge=forge) == []


@given(PIECES)
def test_a_text_of_lines_is_inert_in_a_quotation(text):
    for forge in (True, False):
        quoted = "\n".join(f"> {line}" for line in inert(text, forge=forge).split("\n"))
        assert effects(quoted, forge=forge) == []


@given(PIECES)
def test_nothing_is_taken_from_what_is_shown(text):
    line = " ".join(text.split())
    for forge in (True, False):
        assert unmarked(inert(line, forge=forge)).replace("&lt;", "<").replace("&grave;", "`") == line


def test_behind_a_pipe_an_image_in_a_name_stays_text_and_commands_are_as_they_are():
    name, command = inert("![x](http://a.example/x.png) and [y](http://a.example)"), "`[ a ] || ! ![ b ]`"
    text = piped(f"- {name}: {command}")
    assert text == rf"- !\[x](http://a.example/x.png) and [y](http://a.example): {command}"
    assert "<img" not in MarkdownIt().render(text)


@given(PIECES)
def test_what_is_posted_is_inert_as_well(text):
    for shown in (foreign, plain):
        assert effects(shown(" ".join(text.split())), forge=True) == []


@pytest.mark.parametrize("text", ["fixes #1", "Closes: GH-1", "resolve o/r#1", "reopens #1", "fix https://x.example/1"])
def test_a_title_closes_nothing_in_a_commit_message(text):
    assert re.search(r"(?i)(fix|close|resolve|reopen)s?:?\s+(\S*#|GH-|https?:)", summary(text)) is None


def test_a_title_calls_nobody_in_a_commit_message():
    assert "@team" not in summary("ask @team")
