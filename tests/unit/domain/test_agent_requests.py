"""Requests to agents: no answer is lost, nobody is asked anew after one, and a person may ask again what failed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.agent_requests import (
    KEY,
    MOST_STARTS,
    AskedAgent,
    again,
    answered,
    begun,
    failed,
    given_back,
    is_due,
    left_unposted,
    posted,
    used,
)
from irontree.domain.attempt import Usage
from irontree.errors import IllegalTransition, IrontreeError, NotEligible
from tests.support.store import asked_agent
from tests.support.values import values_of

NOW = "2026-04-22T15:00:00Z"
TRANSITIONS = {
    "begun": begun,
    "given back": lambda request: given_back(request, "no service", "2026-04-22T15:00:00Z"),
    "answered": lambda request: answered(request, "yes"),
    "posted": lambda request: posted(request, "https://forge.example/c/1"),
    "left": lambda request: left_unposted(request, "the issue was closed"),
    "failed": lambda request: failed(request, "no answer"),
    "again": lambda request: again(request, NOW),
    "used": lambda request: used(request, 1.5, Usage(1, None, 0.5)),
}


def history_of(names: list[str]) -> list[tuple[str, AskedAgent, AskedAgent]]:
    """What is allowed of these transitions: each with the request before and after it."""
    found, request = [], asked_agent()
    for name in names:
        try:
            after = TRANSITIONS[name](request)
        except (IllegalTransition, NotEligible):
            continue
        found.append((name, request, after))
        request = after
    return found


@given(st.lists(st.sampled_from(list(TRANSITIONS)), max_size=40))
def test_an_answer_is_never_lost_nor_asked_for_anew(names):
    for name, before, after in history_of(names):
        if before.answer is not None:
            assert after.answer == before.answer
            assert name in {"posted", "left", "used", "given back"}
        assert after.key == before.key
        assert after.model_copy(update=dict.fromkeys(())) == AskedAgent.model_validate(after.model_dump())


@given(st.lists(st.sampled_from(list(TRANSITIONS)), max_size=40))
def test_what_is_done_stays_done_and_only_a_person_goes_back_from_failed(names):
    for name, before, after in history_of(names):
        if before.state == "done":
            assert name == "used"
        if before.state == "failed":
            assert name in {"again", "used"}
            assert (after.state, after.starts, after.reason) in {("pending", 0, ""), ("failed", *_told(before))}


def _told(request: AskedAgent) -> tuple[int, str]:
    return request.starts, request.reason


def test_a_request_whose_process_dies_too_often_has_failed():
    request = asked_agent()
    for start in range(1, MOST_STARTS + 1):
        request = begun(request)
        assert (request.state, request.starts) == ("working", start)
    assert begun(request).state == "failed"
    assert "died 3 times" in begun(request).reason
    assert begun(again(begun(request), NOW)).starts == 1


def test_an_agent_that_could_not_work_has_cost_no_start():
    request = asked_agent()
    for _ in range(2 * MOST_STARTS):
        assert begun(request).starts == 1
        request = given_back(request, "its service has a limit", NOW)
    assert (request.state, request.starts, request.reason) == ("pending", 0, "its service has a limit")


@pytest.mark.parametrize(("now", "due"), [("2026-04-22T14:59:59Z", False), ("2026-04-22T15:00:00Z", True)])
def test_who_gave_a_request_back_is_not_asked_before_that_time(now, due):
    request = given_back(begun(asked_agent()), "a limit", "2026-04-22T15:00:00Z")
    assert is_due(request, now) is due
    assert is_due(asked_agent(), now)
    assert not is_due(failed(asked_agent(), "no"), now)
    assert begun(request).not_before == ""


@given(values_of(AskedAgent))
def test_every_key_is_a_plain_name(request):
    assert KEY.fullmatch(request.key)
    assert not {"/", "\\", "\0", "\n"} & {*request.key}
    assert len(request.key.encode()) < 200


def test_what_cannot_follow_says_so():
    with pytest.raises(NotEligible, match="has not failed: it is pending"):
        again(asked_agent(), NOW)
    with pytest.raises(IrontreeError, match="is done"):
        begun(posted(asked_agent(), "https://forge.example/c/1"))
    with pytest.raises(IrontreeError, match="nobody is asked again"):
        begun(answered(begun(asked_agent()), "yes"))


def test_usage_adds_up_and_stays_unknown_once_it_is():
    once = used(asked_agent(), 1.25, Usage(10, 20, 0.5))
    assert (once.seconds, once.usage) == (1.25, Usage(10, 20, 0.5))
    assert used(once, 1, Usage(1, None, 0.5)).usage == Usage(11, None, 1.0)
