"""Re-derives the whole log from its files, without the cache, and reports what cannot be trusted (R10, R13)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from irontree.app import App
from irontree.domain.digests import ChainBreak, digest_chain
from irontree.domain.events import IssueEvent
from irontree.domain.ids import computed_digest, revision_in
from irontree.domain.loop import illegal_loop_events
from irontree.domain.plan import Plan
from irontree.domain.state import TaskState
from irontree.domain.values import NOT_APPLICABLE
from irontree.errors import LogDamaged, NotEligible
from irontree.ports import Problem, Stream
from irontree.services.execution.steps import already_published, gone_from_target
from irontree.services.loops.loop import read_loop
from irontree.services.record import World, plan_file, read_plans, read_world
from irontree.services.views.overview import damaged_requests

RESTORE = "repair the file, or move it away and restore it: irontree init --from-backup"
VOUCH = (
    "find out who wrote it; if the key was lost with your state folder, and you know that nobody else wrote here: "
    "`irontree audit --vouch`"
)
_SHAS = ("code_ref", "verify_anchor_sha")


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Something that is wrong: where, what, and what to do about it."""

    where: str
    what: str
    remedy: str = ""

    def line(self) -> str:
        """The finding in one line."""
        return f"{self.where}: {self.what}" + (f" -> {self.remedy}" if self.remedy else "")

    def as_json(self) -> dict[str, str | None]:
        """The finding for a program; without a remedy, that is null."""
        return {"where": self.where, "what": self.what, "remedy": self.remedy or None}


def audit(app: App) -> tuple[AuditFinding, ...]:
    """Every finding in plans, issues, archives and loops; if empty, the log proves itself. Writes nothing."""
    (plans, damaged), world = read_plans(app), read_world(app)
    streams = {f"issue-{number}": app.log.read(number) for number in app.log.streams()}
    archived = {f"archive/{name}": app.log.read_archived(name) for name in app.log.archives()}
    return tuple(
        chain(
            map(unreadable, damaged),
            _plan_findings(app, plans),
            lost_findings(app),
            (unreadable(problem) for stream in (streams | archived).values() for problem in stream.problems),
            (found for where, stream in (streams | archived).items() for found in stream_findings(where, stream)),
            (found for where, stream in streams.items() for found in _evidence_findings(app, where, stream, world)),
            _aggregate_findings(world),
            _commit_findings(app, streams | archived),
            published_findings(app, world),
            (found for loop_id in app.loops.ids() for found in loop_findings(app, loop_id)),
            request_findings(app),
        )
    )


def lost_findings(app: App) -> Iterator[AuditFinding]:
    """Backed-up files of the log that are gone: a stream that lost its last events shows it nowhere else."""
    if wrong := app.repository.backup_damage():
        yield AuditFinding("the log's backup", f"it cannot be read: {wrong}", "`irontree checkup repair` makes it anew")
    for path in app.repository.lost_files():
        yield AuditFinding(path, "it was in the log's backup and is gone", "irontree init --from-backup")


def stream_findings(where: str, stream: Stream) -> Iterator[AuditFinding]:
    """Missing sequences, events in places where they are not legal, events that were changed."""
    found = stream.replayed()
    if found.problem and not any(problem.newer for problem in stream.problems):  # else that file is reported already
        yield AuditFinding(where, found.problem, RESTORE)
    elif found.missing:
        named = ", ".join(map(str, found.missing))
        yield AuditFinding(
            where, f"sequence {named} is missing or unreadable", "`irontree checkup reconcile` records it"
        )
    yield from _changed(where, digest_chain(stream.records))


def _changed(where: str, breaks: Iterable[ChainBreak]) -> Iterator[AuditFinding]:
    for broken in breaks:
        if broken.kind == "mismatch":
            what = f"the event before sequence {broken.sequence} was changed after it was written"
            yield AuditFinding(where, what, RESTORE)


def published_findings(app: App, world: World) -> Iterator[AuditFinding]:
    """Work that waits for acceptance although it is published, or is no more on its target, as of the last fetch."""
    states = sorted(world.states.values(), key=lambda state: state.issue_number)
    for number, what, way_on in (*already_published(app, world, states), *gone_from_target(app, world, states)):
        yield AuditFinding(f"issue-{number}", what, way_on)


def loop_findings(app: App, loop_id: str) -> Iterator[AuditFinding]:
    """The same for a loop's events, even if none is left, and for its file if that cannot be read."""
    stream, where = app.loops.read(loop_id), f"loop {loop_id}"
    illegal = illegal_loop_events(record.event for record in stream.records)
    found = (*map(unreadable, stream.problems), *(AuditFinding(where, what, RESTORE) for what in illegal))
    yield from found or _untrusted(app, loop_id)
    yield from _changed(where, digest_chain(stream.records))
    try:
        app.loops.read_entity(loop_id)
    except LogDamaged as error:
        yield AuditFinding(where, error.message, error.remedy or "")


def request_findings(app: App) -> Iterator[AuditFinding]:
    """Requests to agents, and the standing approval of them, that cannot be believed."""
    for error in damaged_requests(app):
        yield AuditFinding("requests to agents", error.message, error.remedy or "")


def _untrusted(app: App, loop_id: str) -> Iterator[AuditFinding]:
    """Why the loop cannot continue although its remaining events are sound."""
    try:
        damage = read_loop(app, loop_id).damage
    except NotEligible:  # neither event nor file: the file is reported as unreadable
        return
    if damage:
        yield AuditFinding(f"loop {loop_id}", damage.message, damage.remedy or "")


def unreadable(problem: Problem) -> AuditFinding:
    """A file that cannot be used. One by a newer version is not damaged, and its problem already says what to do."""
    return AuditFinding(problem.path, problem.what, "" if problem.newer else RESTORE)


def _plan_findings(app: App, plans: Iterable[Plan]) -> Iterator[AuditFinding]:
    for plan in plans:
        found = computed_digest(plan)
        if revision_in(found) != plan.spec_revision or (plan.digest and plan.digest != found):
            what = f"its content has revision {revision_in(found)}, digest {found}: it is not what was approved"
            yield AuditFinding(plan_file(app, plan), what, RESTORE)


def _evidence_findings(app: App, where: str, stream: Stream, world: World) -> Iterator[AuditFinding]:
    """An issue without a plan, and `done` without the results that support it."""
    state = stream.replayed().state
    if state is None:
        return
    if state.task_key not in world.plans:
        yield AuditFinding(where, f"{state.task_key} is in no approved plan", state.way_to_plan)
    if state.done and state.completion_basis == "verified":
        yield from _results_findings(app, where, state)


def _aggregate_findings(world: World) -> Iterator[AuditFinding]:
    """Parents completed by their children although one of those is not done."""
    for state in world.states.values():
        if state.done and state.completion_basis == "aggregated":
            open_ones = [key for key in world.children.get(state.task_key, ()) if not world.is_done(key)]
            if open_ones:
                what = f"it is done by its children, but {', '.join(open_ones)} is not"
                yield AuditFinding(
                    f"issue-{state.issue_number}", what, "finish what is open, or find out why it was reopened"
                )


def _results_findings(app: App, where: str, state: TaskState) -> Iterator[AuditFinding]:
    remedy = "`irontree verify` cannot repeat it: keep what .mino/reports held elsewhere"
    try:
        report = app.results.load(state.issue_number, state.anchor or "")
    except LogDamaged as error:
        yield AuditFinding(where, error.message, VOUCH)
        return
    if report is None:
        yield AuditFinding(where, f"it is done, but the check results at {state.anchor} are gone", remedy)
    elif report.failed:
        yield AuditFinding(where, f"it is done, but {report.failed.name} failed at {state.anchor}", remedy)


def _commit_findings(app: App, streams: Mapping[str, Stream]) -> Iterator[AuditFinding]:
    """Commits that events name but git lacks, or would remove in its next garbage collection."""
    named = [(where, r.event, sha) for where, s in streams.items() for r in s.records for sha in _shas(r.event)]
    shas = tuple(dict.fromkeys(sha for _, _, sha in named))
    lacking = app.repository.lacking(shas)
    loose = app.repository.unreferenced(tuple(sha for sha in shas if sha not in lacking))
    for where, event, sha in named:
        place = f"{where}, sequence {event.sequence} ({event.event})"
        if sha in lacking:
            yield AuditFinding(place, f"commit {sha} is not in this repository", "fetch it from a clone that has it")
        elif sha in loose:
            yield AuditFinding(place, f"commit {sha} is reachable from no ref", f"git branch keep-{sha[:8]} {sha}")


def _shas(event: IssueEvent) -> Iterable[str]:
    found = (getattr(event, name, None) for name in _SHAS)
    return dict.fromkeys(sha for sha in found if sha not in (None, NOT_APPLICABLE))
