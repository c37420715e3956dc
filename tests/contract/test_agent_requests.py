"""What every AgentRequests keeps, on disk and in memory."""

from __future__ import annotations

import pytest

from irontree.domain.agent_requests import answered, begun, posted
from irontree.store.agent_requests import FileAgentRequests
from irontree.store.layout import create
from irontree.store.memory import MemoryAgentRequests
from tests.support.store import asked_agent, plan, standing


@pytest.fixture(params=["disk", "memory"])
def requests(request, tmp_path):
    if request.param == "memory":
        return MemoryAgentRequests()
    create(tmp_path)
    return FileAgentRequests(tmp_path, tmp_path / "state" / "key")


def test_where_nothing_was_asked_there_is_nothing(requests):
    assert (requests.keys(), requests.load(asked_agent().key), requests.standing()) == ((), None, None)


@pytest.mark.parametrize("key", ["approval", "../approval", "../../config", "mention-C3-../../x", "mention-C3-a\n", ""])
def test_no_other_name_is_a_key(requests, key):
    requests.approve(standing())
    assert requests.load(key) is None
    assert requests.keys() == ()


def test_each_request_is_loaded_as_it_was_saved_last(requests):
    first, other = asked_agent(), asked_agent(member="coder", text="null", depth=2)
    for request in (first, other, begun(first)):
        requests.save(request)
    assert requests.keys() == ("mention-C3-coder", "mention-C3-tester")
    assert (requests.load(first.key), requests.load(other.key)) == (begun(first), other)


def test_an_answer_is_kept_to_the_letter(requests):
    answer = "null\r\n```yaml\na: &b 1\n```\n---\n  indented\t \u2028 <!-- x -->\n"
    done = posted(answered(begun(asked_agent()), answer), "https://forge.example/i/12#4")
    requests.save(done)
    assert requests.load(done.key) == done


def test_the_newest_standing_approval_counts(requests):
    for policy in (plan().policy, plan().policy.model_copy(update={"max_retry_count": 1})):
        requests.approve(standing(policy))
        assert requests.standing() == standing(policy)


def test_a_draft_is_replaced_by_that_of_a_later_round_and_an_empty_one_is_none(requests):
    assert requests.draft(100) is None
    for text in ("# One\n", "# Two \u2028 \n"):
        requests.save_draft(100, text)
        assert (requests.draft(100), requests.draft(10), requests.keys()) == (text, None, ())
    requests.save_draft(100, "")
    assert requests.draft(100) is None
    assert requests.draft_path(100) == ".mino/drafts/issue-100.md"


def test_vouching_counts_the_requests(requests):
    requests.approve(standing())
    requests.save(asked_agent())
    requests.save(begun(asked_agent()))
    assert requests.vouch() == 1
    assert requests.load(asked_agent().key) == begun(asked_agent())
