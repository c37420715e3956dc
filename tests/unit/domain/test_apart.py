"""What a comment holds besides its author's words: mails below, footnotes and math. No command is taken from there."""

from __future__ import annotations

import pytest

from irontree.domain.commands import Command, parse_command

MAILS = [
    "-----Original Message-----",
    "---------- Forwarded message ---------",
    "------------------ Original ------------------",
    "-------- Original-Nachricht --------",
    "-------- Ursprüngliche Nachricht --------",
    "Begin forwarded message:",
    "________________________________",
    "-- ",
    "On Mon, 3 Jan 2026, Bob <b@example.org> wrote:",
    "On Mon, Jan 3, 2026 at 10:00 AM Bob\n<b@example.org> wrote:",
    "On Mon, Jan 3, 2026 at 10:00 AM Bob <b@example.org>\nwrote:",
    "*On 3 Jan 2026, at 10:00, Bob wrote:*",
    "On the 3rd of January the very honourable Bob of the house of Bobs wrote:",
    "Bob wrote:",
    "Alice wrote: Bob wrote:",
    "@bob wrote:",
    "[Bob](https://example.org/bob) wrote:",
    "Bob Wrote on 3 January:",
    "Bob <b@example.org> writes:",
    "Am 3. Januar 2026 um 10:00 schrieb Bob <b@example.org>:",
    "Am Montag schrieb Bob:",
    "Bob schrieb am 3. Januar:",
    "Le lun. 3 janv. 2026 à 10:00, Bob <b@example.org> a écrit\xa0:",
    "El lun, 3 ene 2026, Bob escribió:",
    "Op ma 3 jan. 2026 schreef Bob:",
    "2026-01-03 10:00 GMT+01:00 Bob <b@example.org>:",
    "在 2026年1月3日 Bob 写道\uff1a",
    "From: Bob <b@example.org>\nSent: Monday, 3 January 2026 10:00\nTo: Alice\nSubject: Re: it",
    "**From:** Bob\n**Date:** Monday",
    "Date: Monday\nFrom: Bob",
    "From: Bob\n\nTo: Alice\n\nSubject: it",
    "Von: Bob\nGesendet: Montag\nAn: Alice\nBetreff: es",
    "What the other one who looks after the house of the two of us wrote:\n\n> a question",
]
BELOW = ["\n/accept", "\n\n/accept", "\n\n> a question\n\n/accept", "\n\nYes.\n\n```\ncode\n```\n\n/accept\n"]


@pytest.mark.parametrize("mail", MAILS)
@pytest.mark.parametrize("below", BELOW)
def test_below_in_a_mail_nothing_commands(mail: str, below: str):
    assert parse_command(f"{mail}{below}") is None
    assert parse_command(f"Thanks!\n\n{mail}{below}") is None
    assert parse_command(f"Thanks!\r\n\r\n{mail}{below}".replace("\n", "\r\n")) is None


@pytest.mark.parametrize("mail", MAILS)
def test_above_a_mail_a_command_is_one_whatever_the_mail_says(mail: str):
    found = parse_command(f"/accept\n\n{mail}\n\nplease say\n\n/stop")
    assert isinstance(found, Command)
    assert found.choice.name == "accept"


@pytest.mark.parametrize(
    "before",
    [
        "> Bob wrote:\n> a question",
        "```\nFrom: Bob\nDate: Monday\n-- \nBob wrote:\n```",
        "- ```\n  x\n  ```\n\nand `Bob wrote:`",
        "I wrote a test:",
        "I wrote down what 2026 brings:",
        "See what Bob wrote: it is good.",
        "This is all of what the other one who looks after it wrote:\n\nnothing",
        "From: 3\nTo: 5",
        "From: the start\n\nIt took long.\n\nDate: today",
        "--\n\nMe",
        "___",
        "---",
        "--- Results ---",
        "mail bob@example.org:",
    ],
)
def test_what_only_resembles_a_mail_hides_no_command(before: str):
    assert isinstance(parse_command(f"{before}\n\n/accept"), Command)


@pytest.mark.parametrize(
    "text",
    [
        "$$\n{}\n$$",
        "$$\nx\n\n{}\n\n$$",
        "$$ x\n{}",
        "  $$\n\n{}",
        "so $$\n{}\n$$ holds",
        "so $$x$$ and $$\n{}\n$$",
        "$$\nx\n$$ and $$\n{}\n$$",
        "$$x$$ $$\n\n{}",
        "[^1]: one\n{}",
        "[^1]: one\n\n    two\n{}",
        "[^1]: one\n\n\ttwo\n{}",
        "[^1]: one\n\n    two\n\n    three\n{}",
        "[^1]: one\n\n    two\n\n    {}",
        "Look[^1].\n\n[^1]: one\n[^2]: two\n\n    more\n{}",
    ],
)
def test_math_and_footnotes_are_no_prose(text: str):
    assert parse_command(text.format("/accept")) is None


@pytest.mark.parametrize(
    "before",
    [
        "$$\nx\n$$",
        "$$x$$",
        "it costs $$ and more",
        "`echo $$`",
        "```sh\necho $$\n$$\n```",
        "[^1]: one",
        "[^1]: one\n\n    two",
        "[^1]: one\n\n    two\n\nthree",
        "[^1]: one\n\n```\ncode\n```",
        "```\n[^1]: one\n\n    two\n```",
    ],
)
def test_a_command_behind_them_is_one(before: str):
    assert isinstance(parse_command(f"{before}\n\n/accept"), Command)
