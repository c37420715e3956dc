"""The configured checks at a commit without any work of ours: what is red there is no attempt's fault.

See docs/decisions/0027-checks-tried-first.md.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.domain.checks import (
    CANNOT_RUN,
    CheckReport,
    CheckResult,
    configured_checks,
    excerpt,
    fingerprint,
    trouble_without_work,
)
from irontree.domain.halt import RED_BEFORE
from irontree.domain.plan import ExecutionPolicy, canonical_digest
from irontree.domain.state import TaskState
from irontree.domain.text import few
from irontree.errors import Cancelled, EnvironmentRefused, LogDamaged
from irontree.services.record import World, read_world
from irontree.services.views.history import results_at
from irontree.services.work.preflight import block

NO_ISSUE: Final = 0
"""The number under which results that belong to no issue are stored."""
_DECIDING: Final = {"checks", "detection", "check_seconds", "workspace", "place"}
MEND_OR_ACCEPT: Final = (
    "mend it, or correct verify.commands in .mino/config.yml (that is approved again), and have it tried again; or "
    "accept it as it is: then the work has to make it pass"
)


def try_checks(app: App, policy: ExecutionPolicy, sha: str, *, anew: bool = False) -> CheckReport:
    """Every configured check once at *sha*, in the place where it will run; the stored results if they still count.

    The caller holds the driver lock. Raises EnvironmentRefused if set-up fails, Cancelled if asked to stop.
    """
    digest = canonical_digest([policy.model_dump(include=_DECIDING), platform.platform()])
    stored = None if anew else _stored(app, sha)
    if stored and stored.commands_digest == digest:
        return stored
    workspace = app.repository.workspace("verify", policy.workspace)
    workspace.prepare(sha, published=sha, cancel=app.cancel)
    checks, results = app.checks().within(policy.place), list[CheckResult]()
    for command in configured_checks(policy, top_level(workspace.path)):
        app.progress.note(command.shown)
        results.append(
            checks.run(
                command,
                workspace=workspace.path,
                seconds=policy.check_seconds,
                variables={},
                cancel=app.cancel,
                progress=app.progress,
            )
        )
        if results[-1].ended == "cancelled":
            raise Cancelled("trying the checks was stopped")
        workspace.put_back()
    report = CheckReport(issue_number=NO_ISSUE, anchor=sha, commands_digest=digest, results=tuple(results))
    app.results.save(report)
    return report


def _stored(app: App, sha: str) -> CheckReport | None:
    """Those that can be shown to be ours."""
    try:
        return app.results.load(NO_ISSUE, sha)
    except LogDamaged:
        return None


def stop_before_first_attempt(app: App, world: World, state: TaskState, base: str) -> TaskState | None:
    """Ask, before any agent works on an approved plan, about checks that do not work as they are; None if all do."""
    plan = world.plan(state)
    begun = (world.states[node.task_key].runs_started for node in plan.nodes if node.task_key in world.states)
    if not plan.policy.preflight or any(begun) or not plan.node(state.task_key).is_checked_as_configured:
        return None
    try:
        found = _unaccepted(app, world, try_checks(app, plan.policy, base))
        if found and state.last_event == "checkup_unblocked":  # somebody may have put it right
            found = _unaccepted(app, world, try_checks(app, plan.policy, base, anew=True))
    except EnvironmentRefused as error:
        return block(app, state, "workspace-not-ready", error.message, remedy=error.remedy or "")
    return _asked(app, state, found) if found else None


def stop_if_red_without_work(
    app: App, state: TaskState, policy: ExecutionPolicy, failed: CheckResult
) -> TaskState | None:
    """Ask about a configured check that fails in the same way without the work: no attempt can be blamed for it."""
    detected = (check for row in policy.detection for check in row.commands)
    if not policy.preflight or failed.name not in {check.name for check in (*policy.checks, *detected)}:
        return None
    world = read_world(app)
    if not _is_red_without(app, world, state, policy, failed):
        return None
    return None if _mark(failed) in _accepted(app, world) else _asked(app, state, (failed,))


def _is_red_without(app: App, world: World, state: TaskState, policy: ExecutionPolicy, failed: CheckResult) -> bool:
    base, cannot_run = state.began_from, failed.exit_code in CANNOT_RUN
    if not cannot_run and any(
        base == each.code_ref and results_at(app, each.issue_number, base) for each in _done(world)
    ):
        return False  # the checks passed there, or it would not have been published
    same_name = (each for each in try_checks(app, policy, base, anew=cannot_run).results if each.name == failed.name)
    before = next(same_name, None)
    return before is not None and not before.passed and _mark(before) == _mark(failed)


def _done(world: World) -> Iterator[TaskState]:
    return (state for state in world.states.values() if state.done)


def _asked(app: App, state: TaskState, found: tuple[CheckResult, ...]) -> TaskState:
    words = [trouble_without_work(result) for result in found]
    output = "\n\n".join(f"$ {result.command}\n{excerpt(result)}" for result in found if not result.passed)
    more = {"reasons": words, "output": output, "red_before": [_mark(result) for result in found]}
    return block(app, state, RED_BEFORE, few(words), remedy=MEND_OR_ACCEPT, more=more)


def _unaccepted(app: App, world: World, report: CheckReport) -> tuple[CheckResult, ...]:
    found = tuple(result for result in report.results if trouble_without_work(result))
    accepted = _accepted(app, world) if found else frozenset()
    return tuple(result for result in found if _mark(result) not in accepted)


def _accepted(app: App, world: World) -> frozenset[str]:
    """What people accepted as it was before, about whichever issue they were asked."""
    logs = (app.log.read(number).records for number in world.replays)
    return frozenset(
        mark
        for records in logs
        for record in records
        if record.event.event == "checkup_unblocked"
        for mark in record.told.red_before
    )


def _mark(result: CheckResult) -> str:
    """By what a way to fail is known again; of what always passes, its command."""
    return result.command if result.passed else fingerprint(result)


def top_level(workspace: Path) -> frozenset[str]:
    """The names at the top level of the workspace, by which checks are detected."""
    return frozenset(entry.name for entry in workspace.iterdir())
