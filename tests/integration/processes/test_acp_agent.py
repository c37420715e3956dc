"""Agents that speak the Agent Client Protocol: real ones, in processes of their own, with the SDK and without.

The SDK takes 0.6 s to import. So most tests speak to an agent that does without it; one test holds the two together.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from irontree.agents.registry import open_agent
from irontree.domain.agents import AgentSpec
from irontree.domain.attempt import Claim
from irontree.domain.budgets import Allowance
from irontree.domain.permissions import PermissionRule
from irontree.ports import AgentTask
from tests.support.processes import NEVER, Heard, children

SUPPORT = Path(__file__).parents[2] / "support"
PROGRAM, WITH_SDK = SUPPORT / "acp_agent.py", SUPPORT / "acp_sdk_agent.py"
MAY_TEST = PermissionRule(tool="execute", match="npm test*", allow=True)


@pytest.fixture
def task(tmp_path) -> AgentTask:
    (tmp_path / "workspace").mkdir()
    return AgentTask(7, "core-model", 2, "make it", tmp_path / "workspace", tmp_path / "reports" / "attempt-0002")


def attempt(task, *ways, program=PROGRAM, cancel=NEVER, heard=None, variables=None, **spec):
    command = (sys.executable, str(program), *ways)
    agent = open_agent(
        AgentSpec(adapter="acp", command=command, **spec), children(), {**os.environ, **(variables or {})}
    )
    return agent.attempt(task, cancel=cancel, progress=heard or Heard())


ALL_WAYS = (
    *("says=I look around.\n", "writes=made.txt", "says=Made it.", "costs=0.5"),
    *("asks-to-edit=app.py", "asks-to-edit=../escaped.py", "asks-to-run=npm test", "asks-to-run=rm -rf build"),
    *("asks-for-a-file=app.py", "asks-the-unknown=nobody/knows"),
)


@pytest.mark.parametrize(
    ("ways", "kind"),
    [
        (ALL_WAYS, "end_turn"),
        ((*ALL_WAYS, "hangs-until-cancelled"), "cancelled"),
        (("is-logged-out",), "error -32000"),
        (("fails=429",), "error 429"),
    ],
)
def test_with_the_protocols_sdk_between_us_all_is_the_same(task, ways, kind):
    """Its models take every message of either side, and leave nothing of the agent's out."""

    def once(program: Path):
        bell = threading.Event()
        heard = Heard(bell, "nobody/knows was refused")
        cancel = bell if "hangs-until-cancelled" in ways else NEVER
        result = attempt(task, *ways, program=program, permissions=(MAY_TEST,), cancel=cancel, heard=heard)
        return dataclasses.replace(result, seconds=0), heard.lines

    (result, lines), plain = once(WITH_SDK), once(PROGRAM)
    assert result.claim.kind == kind
    assert (result, lines) == plain


def test_it_works_with_its_own_hands_and_says_how_it_went(task):
    heard = Heard()
    result = attempt(task, "says=I look around.\n", "writes=made.txt", "says=Made it.", "costs=0.5", heard=heard)
    assert (task.workspace / "made.txt").read_text() == "make it"
    assert (result.ended, result.exit_code, result.failure) == ("exited", 0, None)
    assert result.claim == Claim(True, "end_turn", "Made it.")
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.cost_usd) == (20, 10, 0.5)
    assert result.session == "session-1"
    assert heard.lines == ["agent: Trial agent 1.2", "I look around.", "edit: Write made.txt", "Made it."]


def test_leave_is_given_by_the_rules_and_what_is_denied_is_recorded(task):
    ways = ("asks-to-edit=app.py", "asks-to-edit=../escaped.py", "asks-to-run=npm test", "asks-to-run=rm -rf build")
    result = attempt(task, *ways, permissions=(MAY_TEST,))
    assert (task.workspace / "app.py").read_text() == "edited with leave"
    assert not (task.workspace.parent / "escaped.py").exists()
    assert "ran npm test" in result.output_tail
    assert "Run rm -rf build: reject_once" in result.output_tail
    assert result.denied == (
        f"outside the workspace: edit {task.workspace.parent / 'escaped.py'}",
        "no rule allows: execute rm -rf build",
    )


@pytest.mark.parametrize("way", ["asks-for-a-file=app.py", "asks-the-unknown=nobody/knows"])
def test_what_is_not_offered_is_refused_at_once(task, way):
    result = attempt(task, way)
    assert result.claim.ok
    assert "was refused: -32601" in result.output_tail


@pytest.mark.parametrize(
    ("ways", "kind", "failure"),
    [
        (("ends=refusal",), "refusal", "refused"),
        (("ends=max_tokens",), "max_tokens", "limit_reached"),
        (("ends=max_turn_requests",), "max_turn_requests", "limit_reached"),
        (("is-logged-out",), "error -32000", "not_authenticated"),
        (("fails=401",), "error 401", "not_authenticated"),
        (("fails=429",), "error 429", "rate_limited"),
        (("fails=500",), "error 500", "unreachable"),
        (("speaks-version-2",), "error", None),
        (("says=Retrying...\nError: no access (HTTP 401)",), "end_turn", "not_authenticated"),
        (("dies=0",), "no answer", None),
    ],
)
def test_an_end_that_is_none_of_work_is_no_success_and_says_why(task, ways, kind, failure):
    result = attempt(task, *ways)
    assert (result.ended, result.claim.ok, result.claim.kind, result.failure) == ("exited", False, kind, failure)


def test_an_error_that_it_tells_of_after_work_is_its_own_affair(task):
    assert attempt(task, "writes=made.txt", "says=Error: 401 was in the log, and is mended").claim.ok


def test_one_that_is_not_logged_in_says_by_what_it_can_be(task):
    assert "logged in by: API key" in attempt(task, "is-logged-out").claim.words


def test_nonsense_on_stdout_and_noise_on_stderr_disturb_nothing(task):
    result = attempt(
        task, "prints=welcome!", 'prints={"jsonrpc": 7}', "prints=[[[", "complains=a warning", "says=Done."
    )
    assert result.claim == Claim(True, "end_turn", "Done.")
    assert {"welcome!", "a warning"} <= set((task.transcript / "output.log").read_text().splitlines())


def test_one_that_is_stopped_is_asked_to_cancel_first(task):
    bell = threading.Event()
    result = attempt(
        task, "writes=made.txt", "says=ready\n", "hangs-until-cancelled", cancel=bell, heard=Heard(bell, "ready")
    )
    assert (result.ended, result.claim.kind) == ("cancelled", "cancelled")
    assert (task.workspace / "made.txt").exists()


@pytest.mark.parametrize("end", ["hangs", "stays"])
def test_one_that_ignores_everything_is_killed_with_all_it_started(task, witness, end):
    ways = ("ignores-signals", f"starts-a-child={witness.hold}; trap '' TERM; sleep 1000", end)
    result = attempt(task, *ways, stall_seconds=3)
    assert result.ended == ("stalled" if end == "hangs" else "exited")
    assert witness.says_all_are_gone()


def test_noise_on_stderr_is_no_sign_of_life(task):
    assert attempt(
        task, "starts-a-child=while :; do echo busy >&2; sleep 0.2; done", "hangs", stall_seconds=3
    ).ended == ("stalled")


def test_a_secret_that_it_says_is_not_kept_or_shown(task):
    heard = Heard()
    result = attempt(task, "says-variable=KEY", variables={"KEY": "sk-123456789"}, environment=("KEY",), heard=heard)
    kept = "".join(path.read_text() for path in task.transcript.iterdir())
    shown = f"{kept}{result}{heard.lines}"
    assert "my key is ***" in shown
    assert "sk-123456789" not in shown


def test_the_transcript_holds_prompt_output_and_outcome(task):
    attempt(task, "says=Done.")
    assert {path.name for path in task.transcript.iterdir()} == {"prompt.md", "output.log", "result.json"}
    kept = json.loads((task.transcript / "result.json").read_text())
    assert (kept["ended"], kept["claim"]["kind"], kept["session"]) == ("exited", "end_turn", "session-1")


def test_it_is_stopped_once_it_says_that_it_has_cost_what_it_may(task):
    limited = dataclasses.replace(task, allowance=Allowance(money=400_000))
    result = attempt(limited, "writes=made.txt", "costs=0.5", "hangs", wall_seconds=60)
    assert (result.ended, result.usage.cost_usd) == ("over_budget", 0.5)
    assert (task.workspace / "made.txt").is_file(), "what it did by then is kept"
