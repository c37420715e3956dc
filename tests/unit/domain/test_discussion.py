"""Which members are asked about a new issue, and when: by derivation, so that order and repetition change nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.agent_requests import AskedAgent, again, answered, begun, failed, posted
from irontree.domain.agents import AgentSpec, Member
from irontree.domain.discussion import contributed, due_in_discussion, newest_round, next_round
from irontree.domain.issues import Comment, Issue
from irontree.domain.plan import ExecutionPolicy, PublishPolicy

APPROVED = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
LATER = "2026-01-02T12:00:05Z"
TEAM = (
    Member(name="quant", command=("x",), account="quant-bot", lead=True),
    Member(name="coder", command=("x",)),
    Member(name="scribe", command=("x",), discusses=False),
)
POLICY = ExecutionPolicy(
    agent=AgentSpec(command=("x",)), publish=PublishPolicy(target_branch="main"), team=TEAM, discussion="everybody"
)
ISSUE = Issue(100, "Averages", "Please.", "open", ("type/feat",), "ada", True, "https://f/100", created_at=LATER)
CALL = Comment("7", "/discuss", "ada", False, LATER, "https://f/100#7", trusted=True)
ANSWER = '{"position": "I can."}'


def due(issue: Issue = ISSUE, *comments: Comment, known: Iterable[AskedAgent] = (), policy=POLICY) -> AskedAgent | None:
    return due_in_discussion(issue, comments, policy, tuple(known), APPROVED)


def done(request: AskedAgent) -> AskedAgent:
    return posted(answered(begun(request), ANSWER), "https://f/100#8")


def key(request: AskedAgent | None) -> str | None:
    return request and request.key


def test_members_are_asked_in_order_each_once_the_one_before_has_ended():
    first = due()
    assert first == AskedAgent(
        kind="discussion",
        cause="I100",
        member="quant",
        issue_number=100,
        by="ada",
        text="",
        url="https://f/100",
        asked_at=LATER,
    )
    assert due(known=[first]) is None
    assert due(known=[begun(first)]) is None
    second = due(known=[done(first)])
    assert key(second) == key(due(known=[failed(begun(first), "no")])) == "discussion-I100-coder"
    assert second.state == "pending"
    assert due(known=[done(first), done(second)]) is None
    assert due(known=[again(failed(begun(first), "no"), LATER), done(second)]) is None


def test_the_lead_alone_is_asked_or_everybody_who_discusses_or_nobody():
    names = {
        discussion: [each.name for each in POLICY.model_copy(update={"discussion": discussion}).discussing]
        for discussion in ("everybody", "lead", None)
    }
    assert names == {"everybody": ["quant", "coder"], "lead": ["quant"], None: []}


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "closed"},
        {"labels": ("bug",)},
        {"labels": ()},
        {"assignees": ("ada",)},
        {"pull_request": True},
        {"trusted": False, "author": "mallory"},
        {"author": "Quant-Bot"},
        {"created_at": "2026-01-02T11:59:59Z"},
        {"created_at": ""},
    ],
)
def test_no_other_issue_is_talked_over(changes):
    assert due(ISSUE._replace(**changes)) is None


@pytest.mark.parametrize("changes", [{"trusted": False, "author": "mallory"}, {"created_at": "2026-01-01T00:00:00Z"}])
def test_an_outsider_s_or_an_older_issue_is_talked_over_once_a_writer_says_so(changes):
    asked = due(ISSUE._replace(**changes), CALL._replace(author="bob"))
    assert (key(asked), asked.by, asked.url) == ("discussion-I100-quant", "bob", CALL.url)


@pytest.mark.parametrize(
    "changes",
    [
        {"trusted": False, "author": "mallory"},
        {"author": "quant-bot"},
        {"edited": True},
        {"created_at": "2026-01-02T11:59:59Z"},
        {"body": "> /discuss"},
        {"body": "`/discuss`"},
        {"body": "/discuss this"},
        {"body": "/discussion"},
        {"body": "/discuss\n\n/accept"},
        {"body": "let us /discuss"},
        {"ours": True, "body": "/discuss\n\n<!-- irontree:asked:x -->"},
    ],
)
def test_nothing_else_begins_the_discussion_of_an_outsider_s_issue(changes):
    assert due(ISSUE._replace(trusted=False, author="mallory"), CALL._replace(**changes)) is None


def test_an_approval_that_is_given_again_ends_no_discussion_that_has_begun():
    first = due()
    assert key(due(ISSUE._replace(created_at="2026-01-01T00:00:00Z"), known=[done(first)])) == "discussion-I100-coder"


def test_a_later_round_asks_all_of_them_again_with_the_note():
    known = [done(due()), done(due(known=[done(due())]))]
    first = next_round(ISSUE, CALL, "risk limit first", POLICY, 2)
    assert (first.key, first.text, first.url) == ("discussion-I100r2-quant", "risk limit first", CALL.url)
    second = due(known=[*known, done(first)])
    assert (second.key, second.text, second.url) == ("discussion-I100r2-coder", "risk limit first", CALL.url)
    assert newest_round(100, [*known, first]) == (first,)


def test_what_came_of_it_is_in_the_order_of_the_team():
    first = due()
    second = due(known=[done(first)])
    found = contributed([failed(begun(second), "no"), done(first)], POLICY)
    assert [(each.member, each.said and each.said.position) for each in found] == [("quant", "I can."), ("coder", None)]


@given(st.data())
def test_however_often_and_in_whatever_order_it_is_looked_at_each_is_asked_once_and_it_ends(data: st.DataObject):
    known: dict[str, AskedAgent] = {}
    comments = [CALL, CALL._replace(body="hm"), CALL._replace(id="9", trusted=False, author="mallory")]
    for _ in range(20):
        seen = data.draw(st.permutations(comments))
        requests = data.draw(st.permutations([*known.values(), *known.values()]))
        if asked := due(ISSUE, *seen, known=requests):
            assert asked.key not in known
            known[asked.key] = asked
        for request in [each for each in known.values() if each.is_open]:
            known[request.key] = data.draw(st.sampled_from([request, done(request), failed(begun(request), "no")]))
    assert set(known) <= {"discussion-I100-quant", "discussion-I100-coder"}
