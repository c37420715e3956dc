"""A clock that stands still and short ways to legal events, for every test that touches a log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from irontree.domain.agent_requests import AskedAgent, StandingApproval
from irontree.domain.agents import AgentSpec
from irontree.domain.checks import CheckReport, CheckResult
from irontree.domain.events import IssueEvent, RunStarted, TaskPublished, VerifyPassed
from irontree.domain.loop import LoopEntity, LoopHalted, LoopStarted
from irontree.domain.plan import Approval, Criterion, ExecutionPolicy, Plan, PlanNode, PublishPolicy

SHA = "00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee"
LOOP_ID = "2026-04-22-1432-a3f8b2"
NOON = datetime(2026, 4, 22, 12, 0, tzinfo=UTC)


class StillClock:
    """Says the same moment until it is told another."""

    def __init__(self, moment: datetime = NOON) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def advance(self, **span: float) -> None:
        self.moment += timedelta(**span)


def published(issue_number: int = 12, **changes: Any) -> TaskPublished:
    return TaskPublished(**_common(issue_number, 1, next_stage="run", workflow_entry_state="ready_to_start") | changes)


def started(issue_number: int = 12, sequence: int = 2, **changes: Any) -> RunStarted:
    return RunStarted(**_common(issue_number, sequence, attempt_count=1) | changes)


def passed(issue_number: int = 12, sequence: int = 2, **changes: Any) -> VerifyPassed:
    published_at = {"code_publication_state": "published", "code_ref": SHA, "verify_anchor_sha": SHA}
    return VerifyPassed(**_common(issue_number, sequence, attempt_count=1) | published_at | changes)


def _common(issue_number: int, sequence: int, **values: Any) -> dict[str, Any]:
    identity = {"task_key": "auth-core", "spec_revision": "00123456", "approved_revision": "12345e67"}
    counters = {"issue_number": issue_number, "sequence": sequence, "attempt_count": 0, "max_retry_count": 3}
    return identity | counters | values


def history(length: int, issue_number: int = 12) -> list[IssueEvent]:
    """Events with sequences 1 to *length*; contiguous, though no real issue would go that way."""
    return [published(issue_number), *(started(issue_number, sequence) for sequence in range(2, length + 1))]


def loop_started(**changes: Any) -> LoopStarted:
    values = {
        "loop_id": LOOP_ID,
        "sequence": 1,
        "goal_kind": "set_done",
        "task_keys": ("auth-core", "auth-ui"),
        "budget_max_transitions": 50,
        "intent_hash": "0123456789abcdef",
    }
    return LoopStarted(**values | changes)


def loop_halted(**changes: Any) -> LoopHalted:
    values = {"loop_id": LOOP_ID, "sequence": 2, "halt_reason": "blocked", "transitions_used": 3}
    return LoopHalted(**values | changes)


def entity(**changes: Any) -> LoopEntity:
    values = {
        "loop_id": LOOP_ID,
        "created_at": "2026-04-22T14:32:11Z",
        "goal_kind": "set_done",
        "intent": "the first ten issues",
        "resolved_query": "first 10",
        "task_keys": ("auth-core", "auth-ui"),
        "budget_max_transitions": 50,
    }
    return LoopEntity(**values | changes)


def plan(**changes: Any) -> Plan:
    node = PlanNode(
        task_key="auth-core",
        title="Auth: the core",
        criteria=(Criterion(text="tokens expire", check="tests"), Criterion(text="it looks right", manual=True)),
        description="Ends in white space, has a tab\tand a colon: so\n\n  and an indented line  \n",
        line=3,
    )
    values = {
        "spec_revision": "00123456",
        "spec_path": "docs/SPEC.md",
        "source": "# Auth\n\n- [ ] tokens expire\n",
        "nodes": (node,),
        "policy": ExecutionPolicy(
            agent=AgentSpec(command=("agent", "-p", "")), publish=PublishPolicy(target_branch="main")
        ),
        "budget_max_transitions": 50,
        "approval": Approval(by="ada", at="2026-04-22T14:32:11Z", channel="terminal"),
    }
    return Plan(**values | changes)


def check_report(**changes) -> CheckReport:
    """Results of issue 12 at SHA, with *changes*: one passed, one was cut off."""
    passed = CheckResult(
        name="tests",
        command="pytest -q",
        ended="exited",
        exit_code=0,
        seconds=1.25,
        output="....\n4 passed\n",
        output_digest="0" * 64,
    )
    cut_off = CheckResult(
        name="lint",
        command="make lint",
        ended="timeout",
        exit_code=None,
        seconds=1e22,
        output="\x1b[31mred\x1b[0m\r\nnull\n  ",
        output_digest="1" * 64,
    )
    values = {
        "issue_number": 12,
        "anchor": SHA,
        "commands_digest": "2" * 64,
        "results": (passed, cut_off),
        "versions": {"python": "3.11"},
        "warnings": ("no: lint",),
    }
    return CheckReport(**values | changes)


def asked_agent(**changes: Any) -> AskedAgent:
    """What ada asks the tester in comment 3 under issue 12, with *changes*."""
    values = {
        "kind": "mention",
        "cause": "C3",
        "member": "tester",
        "issue_number": 12,
        "by": "ada",
        "text": "@tester does this reproduce?\n",
        "url": "https://forge.example/i/12#3",
        "asked_at": "2026-04-22T14:32:11Z",
    }
    return AskedAgent(**values | changes)


def standing(policy: ExecutionPolicy | None = None, **more: bool) -> StandingApproval:
    """The standing approval of *policy*, by ada, and of what else it says."""
    approval = Approval(by="ada", at="2026-04-22T14:32:11Z", channel="terminal")
    return StandingApproval(policy=policy or plan().policy, approval=approval, **more)
