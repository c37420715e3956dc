"""Comments that command: what is one, what is none, and what is one that cannot be followed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from irontree.domain.commands import CHOICES, Command, Malformed, parse_command
from irontree.domain.halt import RULES

ARGUMENT = {"count": "2", "revision": "0a1b2c3d", "key": "parts-part-one", None: ""}
WORDS = sorted(CHOICES)
NOTES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=60).filter(
    lambda text: "/" not in text and "<" not in text
)


def spoken(word: str, note: str = "because") -> str:
    return " ".join(filter(None, (f"/{word}", ARGUMENT[CHOICES[word].argument], note)))


def test_every_choice_of_the_table_has_a_word_of_its_own():
    """Where two halts share a word, it is the same choice for a person."""
    for rule in RULES:
        assert len({choice.word for choice in rule.choices}) == len(rule.choices)
    assert {choice.name for choice in CHOICES.values()} == {c.name for rule in RULES for c in rule.choices}


@pytest.mark.parametrize("word", WORDS)
def test_every_word_is_understood_as_its_usage_says(word: str):
    usage = CHOICES[word].usage("parts-part-one").replace("NAME", "0a1b2c3d").replace(" N", " 2")
    found = parse_command(usage)
    assert isinstance(found, Command)
    assert (found.choice.word, found.argument) == (word, ARGUMENT[CHOICES[word].argument])


ATTACKS = [
    "- {}",
    "1. {}",
    "- a\n  {}",
    "- a\n{}",
    "- a\n\n  {}",
    "> quoted\n{}",
    "> quoted\n   {}",
    "> - quoted\n{}",
    "a `span\n{}\nends` here",
    "a ``span\n{}``",
    "a *span\n{}\nends* here",
    "a **span\n{}** here",
    "_span\n{}_ here",
    "a ~~span\n{}~~ here",
    "a [text\n{}](https://example.org) here",
    "a [text\n{}][x] here\n\n[x]: https://example.org",
    "an ![alternative\n{}](https://example.org/a.png) text",
    'a [link](https://example.org "title\n{}\n") here',
    'an ![image](https://example.org/a.png "title\n{}") here',
    '[x]: https://example.org "title\n{}\n"',
    "[x]: https://example.org '\n{}\n'",
    "[^1]: a footnote\n{}",
    "<details>\n\n{}\n\n</details>",
    "<details><summary>more</summary>\n\n{}\n",
    "<details\n\n>\n\n{}",
    '<div title="\n\n{}\n\n">',
    "<div hidden>\n\n{}\n\n</div>",
    '<div\ntitle="{}\n">',
    'a <b title="\n{}\n">tag</b>',
    "a <del>\n{}\n</del>",
    "a <!-- \n{}\n--> comment",
    "<?php\n{}\n?>",
    "<![CDATA[\n{}\n]]>",
    "a | b\n--- | ---\n{} | c",
    "{}\n===",
    "{}\n---",
    "# {}",
]


@pytest.mark.parametrize(
    ("text", "name", "argument", "note"),
    [
        ("/accept", "accept", "", ""),
        ("/Accept looks good", "accept", "", "looks good"),
        ("  /ACCEPT", "accept", "", ""),
        ("It is *good*.\n/stop", "stop", "", ""),
        ("<br>\n\n/accept", "accept", "", ""),
        ("<details>\n\nlong\n\n</details>\n\n/accept", "accept", "", ""),
        ("| a |\n|---|\n| b |\n\n/accept", "accept", "", ""),
        ("[x]: /url\n\n/accept", "accept", "", ""),
        (f"/send-back {'long ' * 900}", "send-back", "", ("long " * 900).strip()),
        ("Thanks!\r\n\r\n/send-back: say it\r\nin green\r\n", "send-back", "", "say it\nin green"),
        ("/retry 3 take more time", "retry", "3", "take more time"),
        ("/extend 20", "extend", "20", ""),
        ("/extend 5 USD for the weekend", "extend", "5 usd", "for the weekend"),
        ("/extend 1h 30m", "extend", "1h 30m", ""),
        ("/approve `ABCDEF12`", "approve", "abcdef12", ""),
        ("/continue.", "go-on", "", ""),
        ("> it asked\n\n/skip parts-part-one it is not worth it", "skip", "parts-part-one", "it is not worth it"),
        ("/send-back\n```\nFAILED\n```", "send-back", "", "```\nFAILED\n```"),
    ],
)
def test_a_command_is_a_line_of_its_own_and_the_rest_is_its_note(text: str, name: str, argument: str, note: str):
    found = parse_command(text)
    assert isinstance(found, Command)
    assert (found.choice.name, found.argument, found.note) == (name, argument, note)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would /accept this",
        "/etc/passwd",
        "/accept/foo",
        "/acceptance",
        "/accept_it",
        "/assign me",
        "//accept",
        "/ accept",
        "`/accept`",
        "* `/accept`",
        "\\/accept",
        "**/accept**",
        "[x]:\n/accept",
    ],
)
def test_other_words_are_none_of_ours(text: str):
    assert parse_command(text) is None


@pytest.mark.parametrize(
    "wrap",
    [
        "> {}",
        "- > {}",
        "    {}",
        "\t{}",
        "```\n{}\n```",
        "~~~ sh\n{}",
        "- ```\n  {}\n  ```",
        "<!--\n{}\n-->",
        "so <!-- {} --> it is",
        "so <!-- \n{}",
        "so <!-- \n{}\n --> it is",
        "<pre>\n{}\n</pre>",
        *ATTACKS,
    ],
)
def test_code_quotes_and_what_is_hidden_say_nothing(wrap: str):
    assert [word for word in WORDS if parse_command(wrap.format(spoken(word)))] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/retry", "number from 1 to 50"),
        ("/retry many", "number from 1 to 50"),
        ("/retry 51", "number from 1 to 50"),
        ("/extend -1", "number from 1 to 50"),
        ("/extend 1e9 USD", "or an amount with its unit such as `5 USD`"),
        ("/approve", "needs a revision"),
        ("/approve it", "needs a revision"),
        ("/send-back", "needs a note"),
        ("/skip", "has to name the task"),
        ("/accept\n/send-back no", "a comment is one answer"),
        ("/accept\n\n/accept", "a comment is one answer"),
    ],
)
def test_a_command_that_cannot_be_followed_says_why(text: str, said: str):
    found = parse_command(text)
    assert isinstance(found, Malformed)
    assert said in found.reason


@given(st.text(st.sampled_from("/accept\n >`-<!x1"), max_size=60))
def test_any_text_is_a_command_or_none_and_a_command_is_in_the_text(text: str):
    found = parse_command(text)
    assert found is None or "/accept" in text


@given(st.sampled_from(WORDS), NOTES)
def test_notes_come_back_as_they_were_written_but_for_white_space(word: str, note: str):
    found = parse_command(spoken(word, f"x{note}x"))
    assert isinstance(found, Command)
    assert found.note.split() == f"x{note}x".split()


INNER = st.text(st.sampled_from("ab *_`[]()<>!|~#\"'\n"), max_size=12)


@given(
    st.sampled_from(WORDS),
    INNER,
    INNER,
    st.sampled_from(["> {}", "- {}", "<details>\n\n{}\n\n</details>", "[x]: /u '{}'", "![{}](u)", "[a](u '{}')"]),
)
def test_a_command_inside_of_anything_is_taken_only_if_a_page_would_show_it_as_prose(word, before, after, wrap):
    """What our parser makes of the text is the judge: the line is in a paragraph that is in nothing else."""
    command = spoken(word)
    text = wrap.format(f"{before}\n{command}\n{after}")
    if parse_command(text) is not None:
        tokens = MarkdownIt("commonmark").enable("table").parse(text)
        tops = [inner for outer, inner in pairwise(tokens) if outer.type == "paragraph_open" and outer.level == 0]
        prose = "".join(
            "\n" if child.type in ("softbreak", "hardbreak") else child.content
            for inline in tops
            for child in [*(inline.children or ()), Token("softbreak", "", 0)]
            if child.level == 0 and child.type in ("text", "softbreak", "hardbreak")
        )
        assert any(line.strip().startswith(command.split()[0]) for line in prose.split("\n"))


@given(st.sampled_from(WORDS), st.lists(NOTES, max_size=4))
def test_a_quoted_command_is_nobodys_whatever_stands_around_it(word: str, around: list[str]):
    said = [line.replace("`", "").replace("~", "") for line in around]
    assert parse_command("\n".join([*said, f"> {spoken(word)}", *said])) is None


@pytest.mark.parametrize(
    ("text", "argument", "note"),
    [
        ("/extend 20", "20", ""),
        ("/extend 20 more of them", "20", "more of them"),
        ("/extend 5 USD for today", "5 usd", "for today"),
        ("/extend 2h", "2h", ""),
        ("/extend 200000 tokens", "200000 tokens", ""),
    ],
)
def test_what_is_extended_is_a_number_or_an_amount_with_its_unit(text: str, argument: str, note: str):
    found = parse_command(text)
    assert isinstance(found, Command)
    assert (found.argument, found.note) == (argument, note)
