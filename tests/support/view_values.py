"""Values that many views hold, each with the same text wherever people or programs write."""

from __future__ import annotations

from dataclasses import replace

from irontree.domain.agents import AgentSpec, Member
from irontree.domain.checks import CheckResult, Coverage
from irontree.domain.plan import (
    Criterion,
    DetectionRow,
    ExecutionPolicy,
    Plan,
    PlanNode,
    PublishPolicy,
    Shell,
    WorkspacePolicy,
)
from irontree.domain.protection import LineCount
from irontree.domain.state import Phase, TaskState
from irontree.domain.workflow.step import StepSpec
from irontree.services.views.history import FailureView
from irontree.services.views.report import Evidence
from tests.support.hostile_texts import NOW, SHA


def member(text: str) -> Member:
    shown = {"display": text, "capabilities": (text, text), "environment": (text,)}
    return Member(name="coder", command=(text,), kinds=("docs",), **shown)


def policy(text: str) -> ExecutionPolicy:
    check = Shell(name=text or "x", run=text or "x")
    return ExecutionPolicy(
        agent=AgentSpec(command=(text, "--print")),
        checks=(check,),
        detection=(DetectionRow(files=("package.json",), commands=(check, check)),),
        workspace=WorkspacePolicy(setup=(text,)),
        team=(member(text), member(text).model_copy(update={"role": "reviewer", "kinds": (), "account": text})),
        publish=PublishPolicy(remote="origin", target_branch="main"),
    )


def node(text: str) -> PlanNode:
    return PlanNode(
        task_key="auth-login",
        title=text or "x",
        depends_on=("auth-core", "setup"),
        target_files=(text, "src/login.py"),
        description=text,
        criteria=(
            Criterion(text=text or "x", manual=True),
            Criterion(text=text or "x", check="unit"),
            Criterion(text=text or "x", command=text or "x"),
        ),
        verification=(text, "pytest tests/login"),
    )


def step(text: str) -> PlanNode:
    spec = StepSpec(number=2, condition=text, gate="human")
    return node(text).model_copy(update={"step": spec, "max_retry_count": 4})


def coverage(text: str) -> tuple[Coverage, ...]:
    return tuple(Coverage(criterion, by) for criterion, by in zip(node(text).criteria, (None, text, "x"), strict=True))


def results(text: str) -> tuple[CheckResult, ...]:
    passed = CheckResult(
        name=text, command=text, ended="exited", exit_code=0, seconds=1.25, output=text, output_digest="x"
    )
    failed = passed.model_copy(update={"exit_code": 1})
    return passed, failed, passed.model_copy(update={"ended": "not_started", "exit_code": None})


def shown(text: str) -> Evidence:
    return Evidence(SHA, (LineCount(text, 1, 0), LineCount(text, None, None)) * 30, text, 3, results(text))


def failure(text: str) -> FailureView:
    return FailureView(text, SHA, 1, 4, text, NOW, text, note=text)


STATUS = TaskState(
    task_key="auth-login",
    issue_number=7,
    spec_revision="1a2b3c4d",
    approved_revision="1a2b3c4d",
    sequence=2,
    last_event="run_completed",
    phase=Phase.COMMITTED,
    current_stage="run",
    next_stage="verify",
    workflow_entry_state="ready_to_start",
    approval_state="approved",
    attempt_count=1,
    max_retry_count=3,
    code_publication_state="local_only",
)


CHILD = replace(STATUS, task_key="auth-core", issue_number=4, completion_basis="verified", code_ref=SHA)


def plan(text: str) -> Plan:
    return Plan(
        spec_revision="1a2b3c4d",
        spec_path=text,
        source=text,
        nodes=(node(text),),
        policy=policy(text),
        budget_max_transitions=50,
    )


def outsiders(text: str) -> PlanNode:
    return node(text).model_copy(update={"outsider": text or "x"})
