# ruff: noqa: RUF001  (mails in other alphabets)
"""What a comment holds besides its author's words: mails below, footnotes and math. No command is taken from there."""

from __future__ import annotations

import pytest

from irontree.domain.commands import Command, parse_command

HEADS = [
    "-----Original Message-----",
    "---------- Forwarded message ---------",
    "------------------ Original ------------------",
    "-------- Original-Nachricht --------",
    "-------- Ursprüngliche Nachricht --------",
    "-----Wiadomość oryginalna-----",
    "-----Исходное сообщение-----",
    "-------- Пересылаемое сообщение --------",
    "\\-----Eredeti üzenet-----",
    "——— 元のメッセージ ———",
    "**-----Original Message-----**",
    "Begin forwarded message:",
    "Inicio del mensaje reenviado:",
    "-- ",
    "From: Bob <b@example.org>\nSent: Monday, 3 January 2026 10:00\nTo: Alice\nSubject: Re: it",
    "**From:** Bob\n**Date:** Monday 10:00",
    "Date: 3 January 2026\nFrom: Bob",
    "From: Bob\n\nTo: Alice\n\nSubject: it",
    "Von: Bob\nGesendet: Montag\nAn: Alice\nBetreff: es",
    "________________________________\nFrom: Bob\nSent: Monday",
    "________________________________\n\nVon: Bob",
    "Fra: Bob <b@example.org>\nSendt: 3. januar 2026 10:00\nTil: Alice\nEmne: SV: det",
    "Od: Bob\nWysłano: 3 stycznia 2026 10:00\nDo: Alice\nTemat: RE: to",
    "Od: Bob\nOdesláno: pondělí 10:00\nKomu: Alice\nPředmět: RE: to",
    "От: Bob\nОтправлено: 3 января 2026 г. 10:00\nКому: Alice\nТема: RE: это",
    "差出人: Bob\n送信日時: 2026年1月3日 10:00\n宛先: Alice\n件名: RE: これ",
    "보낸 사람: Bob\n보낸 날짜: 2026년 1월 3일\n받는 사람: Alice\n제목: RE: 이것",
    "Gönderen: Bob <b@example.org>\nGönderildi: Pazartesi\nKime: Alice\nKonu: RE: bu",
    "Lähettäjä: Bob\nLähetetty: maanantai 3. tammikuuta 2026 10.00\nVastaanottaja: Alice\nAihe: VS: se",
    "Feladó: Bob\nKüldve: 2026. január 3. 10:00\nCímzett: Alice\nTárgy: RE: ez",
    "**Fra:** Bob b@example.org\n\n**Til:** Alice,\n  Carol\n\n**Emne:** det",
    "From: Bob <b@example.org> Sent: Monday, 3 January 2026 To: Alice Subject: Re: it",
    "**Fra:** Bob **Sendt:** 3. januar 2026 10:00 **Til:** Alice **Emne:** det",
]
WROTE = [
    "On Mon, 3 Jan 2026, Bob <b@example.org> wrote:",
    "On Mon, Jan 3, 2026 at 10:00 AM Bob\n<b@example.org> wrote:",
    "On Mon, Jan 3, 2026 at 10:00 AM Bob <b@example.org>\nwrote:",
    "On Mon, Jan 3, 2026 at 10:00 AM the one who\nlooks after it all wrote:",
    "*On 3 Jan 2026, at 10:00, Bob wrote:*",
    "On the 3rd of January the very honourable Bob of the house of Bobs wrote:",
    "Bob wrote:",
    "Bob van der Bob wrote:",
    "Alice wrote: Bob wrote:",
    "@bob wrote:",
    "[Bob](https://example.org/bob) wrote:",
    "Bob Wrote on 3 January:",
    "Bob <b@example.org> writes:",
    "Am 3. Januar 2026 um 10:00 schrieb Bob <b@example.org>:",
    "Am Montag schrieb Bob ‹\nb@example.org>:",
    "Am Montag um 10:00 schrieb Bob <\nb@example.org>:",
    "Bob <b@example.org> schrieb am Mo., 3. Jan.\n2026, 10:00:",
    "2026年1月3日(土) 10:00 Bob\n<b@example.org>:",
    "2026年1月3日(土) 10:00 Bob <b@example.org>:",
    "Am Montag schrieb Bob:",
    "Bob schrieb am 3. Januar:",
    "Le lun. 3 janv. 2026 à 10:00, Bob <b@example.org> a écrit\xa0:",
    "El lun, 3 ene 2026, Bob escribió:",
    "Op ma 3 jan. 2026 schreef Bob:",
    "2026-01-03 10:00 GMT+01:00 Bob <b@example.org>:",
    "Bob napisała:",
    "在 2026年1月3日 Bob 写道\uff1a",
]
MAILS = HEADS + WROTE
QUOTATION = "\n\n> a question\n\n/accept"
BELOW = ["\n/accept", "\n\n/accept", "\n\nYes.\n\n```\ncode\n```\n\n/accept\n", "\n\n```\n> a\n```\n\n/accept"]


@pytest.mark.parametrize("mail", MAILS)
@pytest.mark.parametrize("below", BELOW)
def test_below_in_a_mail_nothing_commands(mail: str, below: str):
    assert parse_command(f"{mail}{below}") is None
    assert parse_command(f"Thanks!\n\n{mail}{below}") is None
    assert parse_command(f"Thanks!\r\n\r\n{mail}{below}".replace("\n", "\r\n")) is None


@pytest.mark.parametrize("mail", HEADS)
def test_below_the_head_of_a_mail_a_quotation_changes_nothing(mail: str):
    assert parse_command(f"{mail}{QUOTATION}") is None


@pytest.mark.parametrize("wrote", [*WROTE, "What the other one who looks after the house wrote:"])
@pytest.mark.parametrize("quotation", [QUOTATION, "\n> a question\n>\n> and more\n\nI agree.\n\n/accept"])
def test_where_the_words_of_others_are_marked_they_end_with_the_marks(wrote: str, quotation: str):
    assert isinstance(parse_command(f"{wrote}{quotation}"), Command)
    assert parse_command(f"{wrote}\n\n> a question\n/accept") is None


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
        "I wrote:",
        "As Alice writes:",
        "The tests that Bob wrote:",
        "We agreed on it in 2026.\nI wrote:",
        "Wie Alice schrieb:",
        "________________________________",
        "________________________________\n\nIt is good.",
        "From: v1.2\nDate: Monday",
        "From: v1.25\nDate: Monday",
        "Note: ran at 10:30\nResult: good",
        "Status: good\nOwner: me\nNext: the rest",
        "\ufeffGood.",
        "I wrote down what 2026 brings:",
        "See what Bob wrote: it is good.",
        "This is all of what the other one who looks after it wrote:\n\nnothing",
        "From: 3\nTo: 5",
        "From: the start\n\nIt took long.\n\nDate: today",
        "--\n\nMe",
        "___",
        "---",
        "---\nResults\n---",
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
        "[^1]: one\n\xa0\n{}",
        "\\[\n{}\n\\]",
        "\\[ x\n\n{}\n\n\\]",
        "\\[\n\n{}",
        "a ~span\n{}\nends~ here",
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
        "$$ is the pid",
        "\\[x\\] done",
        "\\[ ] to do",
        "it is in ~/x and takes\n~5 minutes",
        "~all~ of ~it~",
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


@pytest.mark.parametrize(
    "above",
    [
        "> [a]: http://example.org",
        "> [a]: http://example.org\nmore",
        "> [a]: http://example.org\n\xa0",
        "- [^1]: x",
        "1. [^1]: x",
        "2) [a]: http://example.org",
        "\xa0> quoted",
        "» quoted",
    ],
)
def test_directly_below_a_quotation_or_list_nothing_commands(above: str):
    assert parse_command(f"{above}\n/accept") is None
    assert isinstance(parse_command(f"{above.rstrip()}\n\n/accept"), Command)


@pytest.mark.parametrize(
    "before",
    [
        "put <name> there",
        "a Vec<T> of Option<Box<U>>",
        "<name>",
        "<p>",
        "<p>\n\nGood.",
        "a <T> and </T>",
    ],
)
def test_what_is_no_element_of_a_page_takes_nothing_in(before: str):
    assert isinstance(parse_command(f"{before}\n\n/accept"), Command)


def test_a_mark_of_byte_order_is_no_part_of_the_command():
    assert isinstance(parse_command("\ufeff/accept"), Command)


@pytest.mark.parametrize("tag", ["details", "g-emoji", 'p title="x"', "script", "DIV"])
def test_what_may_be_an_element_takes_in_what_follows(tag: str):
    assert parse_command(f"a <{tag}>\n\n/accept") is None
