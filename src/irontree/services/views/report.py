"""The verification report and the brief of an issue, rendered from plan and log, never read back (protocol)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from irontree.app import App
from irontree.domain.checks import NOTHING_CITED, CheckReport, CheckResult, Coverage, checks_for, coverage
from irontree.domain.comments import is_substantive
from irontree.domain.events import IssueEvent, Record, Reported, VerifyFailedRetryable
from irontree.domain.external import BY_CHECK
from irontree.domain.meta import AgentMeta, Meta
from irontree.domain.plan import Plan, PlanNode
from irontree.domain.protection import LineCount
from irontree.domain.state import Phase, TaskState
from irontree.domain.text import counted
from irontree.domain.values import NOT_APPLICABLE, short_sha
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.ports import Projection, Stream
from irontree.services.loops.funds import read_funds
from irontree.services.record import World, closing_policy, read_world
from irontree.services.views.history import (
    denied_lines,
    failure_of,
    last_of,
    newest_document,
    place_of_issue,
    publication_failure_of,
    results_at,
    time_of,
)
from irontree.services.views.overview import title_of

NOT_PROMOTED: Final = (
    "only work that was verified and published by it leaves notes; what a person accepts is left as it is"
)
_OUTCOME: Final = {
    "verify_passed": "passed and published",
    "verify_failed_terminal": "failed; all attempts are used up",
    "verify_pending_acceptance": "waiting for a person's acceptance",
}
_ODD_ENDS: Final = "[\r\x0b\x0c\x85\u2028\u2029]"


def _change(state: TaskState) -> tuple[str, str] | None:
    """What the target has of the task's commit, and that commit; None if there is none.

    Between them is all that is to be published, also of earlier attempts and of what others pushed to its branch.
    """
    base = state.began_from
    return (base, state.commit) if state.has_code and base and state.commit else None


def changed_files(app: App, state: TaskState) -> tuple[str, ...]:
    """The files that are changed where the task's commit is published; empty if there is no commit."""
    change = _change(state)
    return app.repository.changed_files(*change) if change else ()


def own_diff(app: App, state: TaskState) -> str:
    """The diff that publishing the task's commit brings, first what defines its checks; empty where there is none."""
    return _diff(app, state, newest_results(app, state))


def _diff(app: App, state: TaskState, report: CheckReport | None) -> str:
    change = _change(state)
    return app.repository.diff(*change, first=report.protected if report else ()) if change else ""


def _changed_by_attempt(app: App, state: TaskState) -> tuple[str, ...]:
    if not (state.has_code and state.base_sha and state.commit):
        return ()
    return app.repository.changed_files(state.base_sha, state.commit)


DIFF_LINES: Final = 200
DIFF_CHARACTERS: Final = 20_000


class Evidence(NamedTuple):
    """What a person decides on (R14): a commit, what it changes, and what the checks said of it."""

    anchor: str | None
    files: tuple[LineCount, ...]
    diff: str
    """The first lines of the diff."""
    left_out: int
    """How many more lines there are."""
    results: tuple[CheckResult, ...]

    @property
    def without_diff(self) -> Evidence:
        """The same, without the change itself."""
        return self._replace(diff="", left_out=0)


def evidence_of(app: App, state: TaskState) -> Evidence:
    """The evidence on the newest commit, cut so that a form and a comment can show it. Raises GitFailed."""
    report = newest_results(app, state)
    lines = _prefixed_lines(_diff(app, state, report))
    shown = _first_of(lines)
    return Evidence(
        anchor=state.anchor,
        files=_counts(app, state, report),
        diff="\n".join(lines[:shown]),
        left_out=len(lines) - shown,
        results=report.results if report else (),
    )


def _counts(app: App, state: TaskState, report: CheckReport | None) -> tuple[LineCount, ...]:
    """What publishing the task's commit changes, first what defines its checks."""
    change, protected = _change(state), report.protected if report else ()
    counts = app.repository.line_counts(*change) if change else ()
    return tuple(sorted(counts, key=lambda count: count.path not in protected))


def _first_of(lines: list[str]) -> int:
    """How many of the lines are shown."""
    ends = itertools.accumulate(len(line) + 1 for line in lines)
    return min(DIFF_LINES, sum(1 for end in ends if end <= DIFF_CHARACTERS))


def _prefixed_lines(diff: str) -> list[str]:
    """The lines of a diff, each with its prefix: what only some programs take for a line end begins none."""
    lines = (line.removesuffix("\r") for line in diff.rstrip("\n").split("\n"))
    return [re.sub(_ODD_ENDS, "\N{SYMBOL FOR NEWLINE}", line) for line in lines] if diff else []


def newest_results(app: App, state: TaskState) -> CheckReport | None:
    """The check results at the newest commit, or of what was completed; None if they are of an older commit."""
    about_it = state.anchor == state.commit or not state.has_code or state.completion_basis is not None
    return results_at(app, state.issue_number, state.anchor) if about_it else None


_CONTEXT_LINES: Final = 6


def context_of_failure(app: App, record: Record[IssueEvent]) -> tuple[str, ...]:
    """What the next attempt will be told: the failed command and the end of its output."""
    event = record.event
    if not isinstance(event, VerifyFailedRetryable) or record.told.note:
        return ()
    report = results_at(app, event.issue_number, event.verify_anchor_sha)
    if report is None or report.failed is None:
        return ()
    last = [line for line in report.failed.output.splitlines() if line.strip()][-_CONTEXT_LINES:]
    return (report.failed.check.shown, *last)


_CHANNELS: Final = {
    "command": " on the command line",
    "comment": " by comment",
    "form": " in Prefect",
    "merge": " by merging the request",
}


def done_by(app: App, world: World, state: TaskState) -> str:
    """What a finished issue is done by, in one line: who accepted it and how, which commit is where, the checks."""
    accepted = last_of(app.log.read(state.issue_number), "checkup_accept_recorded")
    by = str(state.completion_basis)
    if accepted and by == "accepted":
        by = f"accepted by {accepted.told.by or 'a person'}{_CHANNELS.get(accepted.told.channel, '')}"
    plan, report = world.plans.get(state.task_key), newest_results(app, state)
    branch = f" on {plan.policy.publish.target_branch}" if plan else ""
    where = (
        f"published as commit {short_sha(state.code_ref)}{branch}"
        if state.code_publication_state == "published"
        else ""
    )
    return ", ".join(filter(None, (by, where, _checks_in_words(report) if report else "")))


def _checks_in_words(report: CheckReport) -> str:
    passed, every = sum(result.passed for result in report.results), len(report.results)
    if not every:
        return "no check ran"
    of = "" if passed == every else f" of {every}"
    return f"{passed}{of} {'check' if every == 1 else 'checks'} passed"


def criteria_of(app: App, state: TaskState, plan: Plan, node: PlanNode) -> tuple[Coverage, ...]:
    """What covers each criterion now, including evidence that reviewers cited at the newest commit (R18)."""
    report = newest_results(app, state)
    return coverage(node, plan.policy, report.cited if report else NOTHING_CITED)


def check_defining(app: App, state: TaskState) -> tuple[str, ...]:
    """A warning if the task changed what defines its checks (R18)."""
    report = newest_results(app, state)
    if report is None or not report.protected:
        return ()
    asked = last_of(app.log.read(state.issue_number), *_OUTCOME)
    return () if asked and report.protected_words in asked.told.reasons else (report.protected_words,)


def warnings_of(app: App, stream: Stream) -> tuple[str, ...]:
    """The warnings of the last verification or acceptance, and those that are reported only once."""
    verified = last_of(stream, *_OUTCOME, "checkup_accept_recorded")
    said = verified.told.warnings if verified else ()
    return (*said, *app.deliveries.load(stream.records[-1].event.issue_number).warnings)


def report_path(app: App, report: CheckReport, to_judge: tuple[str, ...], note: str) -> str | None:
    """The path of this verification's report, as its event names it; None if there is nothing to report."""
    if not is_substantive(checks=len(report.results), to_judge=to_judge, note=note):
        return None
    return app.projections.path("report", report.issue_number)


def reported(stream: Stream, state: TaskState) -> Record[IssueEvent] | None:
    """The newest verification, if it left a report (not outcomes B and E) and no other attempt has begun since."""
    record = last_of(stream, *_OUTCOME)
    if record is None or not isinstance(record.event, Reported) or record.event.sequence < state.run_sequence:
        return None
    return record if record.event.report_path else None


def write_report(app: App, state: TaskState, plan: Plan, node: PlanNode) -> None:
    """Render the report of the newest verification from log and stored results, with what is known by now.

    Once another attempt has begun, the existing report stays.
    """
    stream = app.log.read(state.issue_number)
    record = reported(stream, state)
    if record is None or not isinstance(record.event, Reported):
        return
    repeated = (state.repeated_failure,) if state.repeated_failure else ()
    if report := results_at(app, state.issue_number, record.event.verify_anchor_sha):
        text = app.renderer.render(
            "reports/report.md",
            number=state.issue_number,
            title=node.title,
            anchor=report.anchor,
            outcome=_outcome(stream, record),
            date=time_of(record),
            environment=report.versions,
            confined=plan.policy.place.confined,
            results=report.results,
            coverage=coverage(node, plan.policy, report.cited),
            findings=(*_said(record), *repeated, *check_defining(app, state), *denied_lines(stream)),
            claimed=claimed(last_of(stream, "run_completed")),
            observed=observed(last_of(stream, "run_completed"), _changed_by_attempt(app, state), report),
            warnings=(*warnings_of(app, stream), *report.warnings, *app.deliveries.load(state.issue_number).failures),
            budgets=read_funds(app, read_world(app)).of_issue(state) if plan.policy.budgets else (),
            recipe=plan.policy.workspace.setup,
            promoted_doc=record.event.promoted_doc,
            rationale=record.told.promotion or NOT_PROMOTED,
            note=record.told.verifier_note,
        )
        _write(app, "report", state.issue_number, text)


def claimed(completed: Record[IssueEvent] | None) -> str:
    """What the agent said about its attempt, in one line: a claim."""
    told = completed.told if completed else Meta()
    ok = {True: "done", False: "not done", None: ""}[told.agent.success]
    kind = told.agent.claims if ok else ""
    return ": ".join(filter(None, (f"{ok} ({kind})" if kind else ok, told.summary)))


def observed(completed: Record[IssueEvent] | None, files: tuple[str, ...], report: CheckReport) -> str:
    """What was observed of the same attempt: how it ended, what changed, and what the checks say."""
    agent = completed.told.agent if completed else AgentMeta()
    code = f" with code {agent.exit_code}" if agent.exit_code else ""
    end = f"{agent.ended or 'cut off, its commit was found'}{code}"
    passed = sum(result.passed for result in report.results)
    what = f"{counted(len(files), 'file')} changed" if files else "nothing changed"
    spent = _spent(agent)
    return "; ".join((f"it {end}", what, f"{passed} of {len(report.results)} checks pass", *spent))


def _spent(agent: AgentMeta) -> tuple[str, ...]:
    """Tokens and money, as far as the agent reports them."""
    given = {"input": agent.input_tokens, "output": agent.output_tokens}
    tokens = " and ".join(f"{number} {which}" for which, number in given.items() if number is not None)
    cost = f"{agent.cost_usd} USD" if agent.cost_usd is not None else ""
    return tuple(filter(None, (f"{tokens} tokens" if tokens else "", cost)))


def _said(record: Record[IssueEvent]) -> tuple[str, ...]:
    """Why automation could not decide, or why a user sent the work back."""
    told = record.told
    return (*told.reasons, *((f"sent back by {told.by or 'a person'}: {told.note}",) if told.note else ()))


def _outcome(stream: Stream, record: Record[IssueEvent]) -> str:
    """The outcome for display, including a later acceptance."""
    accepted = last_of(stream, "checkup_accept_recorded")
    if accepted and accepted.event.sequence > record.event.sequence:
        return f"accepted by {accepted.told.by or 'a person'}"
    return _OUTCOME[record.event.event]


# --- The brief of an issue: one page rendered from plan and log (contract)


_Part = dict[str, object] | None
"""A part of the brief, by the names in its template; None while there is nothing to show."""
_EVIDENCE = ("verify_passed", "checkup_accept_recorded", "checkup_aggregate_recorded")


def write_projections(app: App, world: World, state: TaskState) -> None:
    """Render this issue's files for users under `.mino/` again: the report first, then the brief that names it."""
    plan = world.plans.get(state.task_key)
    if plan is not None:
        write_report(app, state, plan, world.nodes[state.task_key])
    write_brief(app, world, state)


def write_brief(app: App, world: World, state: TaskState) -> None:
    """Render and write `.mino/briefs/issue-{N}.md`; an issue that no plan lists has none."""
    plan = world.plans.get(state.task_key)
    if plan is not None:
        _write(app, "brief", state.issue_number, brief_text(app, world, state, plan))


def _write(app: App, what: Projection, issue_number: int, text: str) -> None:
    """Write the file. If that fails, it is told and stops nothing: the log has it all, and the step was taken."""
    try:
        app.projections.write(what, issue_number, text)
    except EnvironmentRefused as error:
        app.progress.note(f"warning: the {what} of #{issue_number} is not up to date: {error.message}")


def brief_text(app: App, world: World, state: TaskState, plan: Plan) -> str:
    """The brief, as Markdown; what has not happened yet is None or empty, and appears as a placeholder."""
    node, stream = world.nodes[state.task_key], app.log.read(state.issue_number)
    rule = world.halt_of(state)
    forge, url = place_of_issue(app, state.issue_number)
    return app.renderer.render(
        "briefs/brief.md",
        number=state.issue_number,
        forge=forge,
        url=url,
        node=node,
        status=state,
        spec_path=plan.spec_path,
        published_at=time_of(stream.records[0]),
        parent=_locator(world, node.parent),
        commands=tuple(check.does for check in checks_for(node, plan.policy, present=())),
        coverage=criteria_of(app, state, plan, node),
        children=tuple(
            (title_of(world, key), world.states[key])
            for key in world.children.get(state.task_key, ())
            if key in world.states
        ),
        halt_reason=rule.reason if rule else None,
        manual_close=_manual_close(app, world, state, stream),
        acceptance=_acceptance(stream, state),
        failure=publication_failure_of(stream) or failure_of(app, stream, state),
        external=_external(app, stream, state),
        execution=_execution(app, stream, state, plan, node),
        report_path=state.report_path,
        docs_path=newest_document(stream),
        evidence=_evidence(app, stream, state),
        outcome=state.pass_fail_outcome,
        warnings=tuple(_warnings(app, stream, state, node)),
    )


def _locator(world: World, task_key: str | None) -> str | None:
    state = world.states.get(task_key) if task_key else None
    return f"#{state.issue_number}" if state else task_key


def _manual_close(app: App, world: World, state: TaskState, stream: Stream) -> str | None:
    """The instruction to close the issue, unless a reply has given it (contract, Close On Done)."""
    done = last_of(stream, "checkup_done")
    if done and getattr(done.event, "reply_posted", None):
        return None
    try:
        if not state.done or closing_policy(app, world.nodes.get(state.task_key)) == "auto":
            return None
    except ConfigRefused:  # it is being edited; the next brief has the instruction
        return None
    return f"close issue #{state.issue_number} once you have looked at it"


def _acceptance(stream: Stream, state: TaskState) -> _Part:
    record = last_of(stream, "verify_pending_acceptance")
    if record is None or state.anchor is None:
        return None
    accepted = last_of(stream, "checkup_accept_recorded")
    reasons, note = record.told.reasons, accepted.told.note if accepted else ""
    return {"reasons": reasons, "anchor": state.anchor, "recorded_at": time_of(record), "accept_note": note}


def _external(app: App, stream: Stream, state: TaskState) -> _Part:
    """The change on the forge that stops the work, or else changes there that are not repaired yet."""
    found = BY_CHECK.get(state.blocking_check or "")
    if found and state.phase is Phase.BLOCKED:
        return {"event": found.name, "detected_at": time_of(stream.records[-1]), "action": found.remedy}
    noticed = app.deliveries.load(state.issue_number).noticed
    if not noticed:
        return None
    return {
        "event": "; ".join(noticed),
        "detected_at": "the last reconciliation",
        "action": "`irontree checkup repair`",
    }


def _warnings(app: App, stream: Stream, state: TaskState, node: PlanNode) -> Iterator[str]:
    """Open questions of the issue, problems of its newest verification, and effects that were not delivered."""
    yield from node.open_questions
    yield from (*warnings_of(app, stream), *app.deliveries.load(state.issue_number).failures)
    yield from check_defining(app, state)


def _execution(app: App, stream: Stream, state: TaskState, plan: Plan, node: PlanNode) -> _Part:
    started, completed = last_of(stream, "run_started"), last_of(stream, "run_completed")
    if started is None or completed is None:
        return None
    return {
        "attempt": completed.event.attempt_count,
        "attempts": state.total_attempts,
        "started_at": time_of(started),
        "completed_at": time_of(completed),
        "commit": state.commit if state.has_code else None,
        "files_changed": changed_files(app, state),
        "commands_run": (*plan.policy.workspace.setup, *_agent_command(plan, node)),
        "notes": _said_by_agent(completed),
    }


def _agent_command(plan: Plan, node: PlanNode) -> tuple[str, ...]:
    """The command that changed the code; what the agent itself ran is in its transcript."""
    agent = plan.policy.author_of(node)
    return (agent.line,) if agent.program else ()


def _said_by_agent(completed: Record[IssueEvent]) -> str:
    """The agent's last message: a claim, not a fact."""
    summary = completed.told.summary
    return f"the agent says: {summary}" if summary else ""


def _evidence(app: App, stream: Stream, state: TaskState) -> _Part:
    record = last_of(stream, *_EVIDENCE)
    if record is None or state.completion_basis is None:
        return None
    report = results_at(app, state.issue_number, state.anchor)
    return {
        "basis": state.completion_basis,
        "recorded_at": time_of(record),
        "code_ref": state.code_ref or NOT_APPLICABLE,
        "anchor": state.anchor,
        "results": report.results if report else (),
        "reviewer": record.told.by or None,
        "notes": record.told.note,
    }
