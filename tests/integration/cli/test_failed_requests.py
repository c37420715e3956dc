"""What a member of the team did not answer, from the listings to `irontree agents retry`."""

from __future__ import annotations

import pytest

from irontree.bootstrap import agent_requests_of, open_set_aside
from irontree.domain.agent_requests import failed
from irontree.repository.backup import LOG_REF
from tests.support.repositories import git
from tests.support.store import asked_agent

KEY = asked_agent().key


def test_what_failed_is_listed_with_the_command_that_has_it_asked_again(shell):
    store = agent_requests_of(open_set_aside(shell.root))
    store.save(failed(asked_agent(), "no usable answer in 3 rounds"))
    assert f"irontree agents retry {KEY}" in shell("status").out
    inbox = shell("inbox")
    assert f"agents retry {KEY}" in inbox.out
    assert "Nothing waits" not in inbox.out
    assert [one["key"] for one in shell("inbox", "--json").data["failed_requests"]] == [KEY]
    again = shell("agents", "retry", KEY)
    assert (again.code, "tester is asked again below #12" in again.out) == (0, True)
    assert store.load(KEY).model_copy(update={"not_before": ""}) == asked_agent()
    assert "agents retry" not in shell("status").out
    assert "state: pending" in git(shell.root, "show", f"{LOG_REF}:.mino/agent-requests/{KEY}.yml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((KEY,), "has not failed: it is pending"),
        (("mention-C9-nobody",), "there is no request mention-C9-nobody"),
        (("../../config",), "there is no request ../../config"),
        ((), "name the request"),
    ],
)
def test_only_what_failed_is_asked_again(shell, words, said):
    agent_requests_of(open_set_aside(shell.root)).save(asked_agent())
    refused = shell("agents", "retry", *words)
    assert refused.code != 0
    assert said in refused.err
