"""Who is asked by what is said in the forge: by derivation, so that order and repetition change nothing (T1)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.agent_requests import AskedAgent
from irontree.domain.agents import Member
from irontree.domain.issues import Comment, Issue
from irontree.domain.toolchain import asked_marker, due_mentions

APPROVED = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
TEAM = (
    Member(name="coder", command=("coder",), account="Coder-Bot[bot]"),
    Member(name="tester", command=("tester",), account="t_ester.bot"),
    Member(name="quant", command=("quant",)),
)
ISSUE = Issue(90, "Averages", "", "open", (), "ada", trusted=True, url="https://forge.example/issues/90")


def said(body: str, **changes) -> Comment:
    """A comment by a writer, after the approval."""
    return Comment("7", body, "ada", False, "2026-01-02T12:00:05Z", "https://c/7", True)._replace(**changes)


def due(*comments: Comment, known: Iterable[AskedAgent] = (), issue: Issue = ISSUE) -> tuple[AskedAgent, ...]:
    return due_mentions(issue, comments, TEAM, {each.key: each for each in known}, APPROVED)


def asked(*comments: Comment, **more) -> list[str]:
    """The members that these comments ask."""
    return [each.member for each in due(*comments, **more)]


def answer(to: AskedAgent, body: str, comment_id: str = "8", **changes) -> Comment:
    """Our comment that answers the request."""
    marked = f"[{to.member}] {body}\n\n{asked_marker(to.key)}"
    return said(marked, id=comment_id, author="irontree", ours=True, **changes)


def test_a_mention_says_who_asks_whom_what_and_where():
    [request] = due(said("@tester does this reproduce?"))
    assert request == AskedAgent(
        kind="mention",
        cause="C7",
        member="tester",
        issue_number=90,
        by="ada",
        text="@tester does this reproduce?",
        url="https://c/7",
        asked_at="2026-01-02T12:00:05Z",
    )
    assert request.key == "mention-C7-tester"


@pytest.mark.parametrize(
    "body",
    [
        "@tester",
        "@Tester, please",
        "see **@tester**: look",
        "ask (@tester).",
        "@T_ester.Bot...",
        "请@tester看一下",
        "- one\n- @tester the other",
        "## @tester",
        "| who |\n|---|\n| @tester |",
        "> somebody said\n\n@tester is that so?",
        "`@coder` is not, @tester is",
        "@tester @TESTER @t_ester.bot",
    ],
)
def test_a_member_is_named_by_name_or_account_in_words_of_the_author(body: str):
    assert asked(said(body)) == ["tester"]


def test_an_account_of_an_app_is_named_with_its_end():
    assert asked(said("@coder-bot[bot] go on")) == ["coder"]
    assert asked(said("@coder-bot go on")) == []


@pytest.mark.parametrize(
    "body",
    [
        "`@tester`",
        "``a @tester b``",
        "```\n@tester\n```",
        "~~~\n@tester",
        "    @tester",
        "> @tester",
        "> quoted\n@tester",
        "- > @tester",
        "1. - > @tester",
        "- one\n\n    > @tester",
        "<!-- @tester -->",
        "<!-- @tester",
        "<details>\n\n@tester\n\n</details>",
        "<b title='@tester'>x</b>",
        "write to a@tester or me+@tester",
        "@tester@example.org",
        "[@tester](https://forge.example/tester)",
        "![@tester](x.png)",
        "<https://forge.example/@tester>",
        "https://forge.example/@tester and www.example.org/?by=@tester",
        "@tester-two @testers @tester_x @tester.py",
        "@tester/docs @org/tester",
        "@@tester",
        "~~@tester~~",
        "On 2 May 2026 at 10:00, Bob <bob@example.org> wrote:\n\n@tester look",
        "@bob look",
        "tester",
    ],
)
def test_nobody_is_asked_in_code_quotations_markup_addresses_and_links(body: str):
    assert asked(said(body)) == []


def test_each_member_that_a_comment_names_is_asked_once():
    requests = due(said("@quant and @tester: @quant first"))
    assert [each.key for each in requests] == ["mention-C7-quant", "mention-C7-tester"]
    assert due(said("@quant and @tester"), known=requests) == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"trusted": False, "author": "mallory"},
        {"author": "coder-bot[bot]"},
        {"edited": True},
        {"created_at": "2026-01-02T11:59:59Z"},
        {"created_at": "yesterday"},
    ],
    ids=["an outsider", "an agent", "edited", "before the approval", "at no time"],
)
def test_what_no_writer_said_since_the_approval_asks_nobody(changes):
    assert asked(said("@tester look", **changes)) == []


def test_under_a_closed_issue_nobody_is_asked():
    assert asked(said("@tester look"), issue=ISSUE._replace(state="closed")) == []


@pytest.mark.parametrize("body", ["/accept @tester", "@tester\n\n/send-back no", "/send-back\n@tester"])
def test_a_command_is_no_mention(body: str):
    assert asked(said(body)) == []


def test_an_id_that_no_file_can_be_named_by_still_asks_once():
    first, again = due(said("@tester", id="../7")), due(said("@tester", id="../7"))
    assert first == again
    assert "/" not in first[0].key
    assert due(said("@tester", id="../8"))[0].key != first[0].key


def test_an_answer_asks_other_members_once_more_and_no_further():
    [first] = due(said("@tester look"))
    [second] = due(answer(first, "@coder @tester why?"), known=[first])
    assert (second.member, second.by, second.depth) == ("coder", "tester", 2)
    assert asked(answer(second, "@tester @quant no idea", "9"), known=[first, second]) == []


def test_what_our_program_says_besides_asks_nobody_and_what_a_person_says_under_our_account_does():
    [first] = due(said("@tester look"))
    note = "@coder look\n\n<!-- irontree:comment issue-90-3 -->"
    ours = said("@quant", author="irontree", ours=True)
    assert asked(ours._replace(body=note.replace("comment ", "comment:"))) == []
    assert asked(answer(first, "@coder look")) == []  # of a request that we know nothing of
    assert asked(answer(first, "@coder look", edited=True), known=[first]) == []
    assert asked(answer(first, "@coder"), known=[first], issue=ISSUE._replace(number=91)) == []
    twice = answer(first, "@coder")
    assert asked(twice._replace(body=f"{twice.body}\n{asked_marker('mention-C1-coder')}"), known=[first]) == []
    assert asked(ours) == ["quant"]


BODIES = st.lists(st.sampled_from(["@coder", "@tester", "@quant", "`@quant`", "text", "/accept", "\n\n"])).map(" ".join)
COMMENTS = st.lists(
    st.builds(
        said,
        BODIES,
        trusted=st.booleans(),
        edited=st.booleans(),
        author=st.sampled_from(["ada", "mallory", "coder-bot[bot]"]),
        created_at=st.integers(0, 59).map(lambda second: f"2026-01-02T{11 + second % 2}:30:{second:02}Z"),
    ),
    max_size=6,
).map(lambda those: [one._replace(id=str(index)) for index, one in enumerate(those)])


@given(COMMENTS, st.data())
def test_order_and_repetition_of_what_is_seen_change_nothing(comments: list[Comment], data: st.DataObject):
    """T1, and looks that see a part each find the same in the end."""
    whole = due(*comments)
    repeated = data.draw(st.permutations(comments + data.draw(st.lists(st.sampled_from(comments or [said("")])))))
    assert due(*repeated) == whole
    seen: list[AskedAgent] = []
    for at in range(len(repeated)):
        seen += due(*repeated[at : at + 2], known=seen)
    assert {each.key: each for each in seen} == {each.key: each for each in whole}
    assert due(*comments, known=whole) == ()


@given(st.lists(BODIES, min_size=1, max_size=4), BODIES)
def test_members_that_answer_each_other_come_to_an_end(answers: list[str], question: str):
    known: list[AskedAgent] = []
    thread = [said(question)]
    while new := due(*thread, known=known):
        known += new
        thread += [
            answer(request, answers[len(thread) % len(answers)], str(len(thread) + at + 10))
            for at, request in enumerate(new)
        ]
        assert len(known) <= len(TEAM) ** 2
    assert all(each.depth == 1 or each.member != each.by for each in known)


@pytest.mark.parametrize("piece", ["a", "@", "@a", "https", "<!--", "`@", "[@", "> ", "- "])
def test_the_longest_comments_are_read_at_once(piece: str):
    """Forges take some 65,000 characters."""
    assert asked(said((piece * 65_000)[:65_000])) == []
