"""From a document to an approved plan: what would be done, and a person's word for exactly that (phases 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.domain.events import TaskApproved
from irontree.domain.gates import require_typed
from irontree.domain.graph import Graph
from irontree.domain.loop import default_budget
from irontree.domain.plan import Approval, ExecutionPolicy, Plan, PlanNode, canonical_digest
from irontree.domain.spec import Requirements, read_requirements
from irontree.domain.state import Phase, TaskState
from irontree.errors import ApprovalRefused, EnvironmentRefused, LogDamaged, Refused, RemoteFailed, RequirementsRefused
from irontree.services.loops.choice import loop_over
from irontree.services.loops.loop import Loop, derive_loop_id, open_loops
from irontree.services.proposals.adoption import approval_name, issue_now
from irontree.services.proposals.permissions import permission_choice
from irontree.services.record.record import record, snapshot
from irontree.services.record.world import World, read_world
from irontree.services.work.staleness import diff_of, is_as_approved, is_changed


@dataclass(frozen=True, slots=True)
class ApprovalChoices:
    """What a person may want otherwise of tasks that have an issue already (ruling R7)."""

    reopen_done: bool = False
    """Tasks that are done and whose text changed since begin again; else they stay done."""
    keep_removed: bool = False
    """Open tasks that are no longer in the document stay in the plan; else they are cancelled."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Everything an approval is about. `spec_path` is relative to the repository; nothing is written yet."""

    requirements: Requirements
    policy: ExecutionPolicy
    spec_path: str
    budget: int
    approved: Plan | None = None
    """The plan in force with exactly this content: it is continued without asking (ruling R6).

    None too if its approval did not name Loop Mode, and a loop is wanted (ruling R17)."""
    earlier: Plan | None = None
    """The plan of this document that was approved last, whatever it says."""
    changed_done: tuple[str, ...] = ()
    """Keys of tasks that are done and whose text changed since."""
    grown: tuple[str, ...] = ()
    """Keys of composites that are done, and have a part now that is not: they begin again, and wait for it."""
    removed: tuple[PlanNode, ...] = ()
    """Open tasks of the earlier plan that are no longer in the document."""
    choices: ApprovalChoices = ApprovalChoices()
    intent: str = ""
    """The words as they were typed."""
    loop_id: str = ""
    """The loop that the approval starts, or that goes on."""
    open_loops: tuple[Loop, ...] = ()
    """The open loops that have any of these tasks: one of them goes on, or all are replaced."""

    @property
    def revision(self) -> str:
        """The Spec Revision: 8 hex over the document."""
        return self.requirements.revision

    @property
    def name(self) -> str:
        """What an approval names, `REVISION-SETTINGS`: the document, and the settings that are approved with it."""
        return f"{self.revision}-{self.policy.digest[:8]}"

    @property
    def stamp(self) -> str:
        """8 hex over what else was shown: the plan that is replaced, what becomes of tasks, which loops are open."""
        earlier = self.earlier.model_dump(mode="json") if self.earlier else None
        removed = [node.task_key for node in self.removed]
        loops = [[loop.id, *loop.keys] for loop in self.open_loops]
        return canonical_digest([earlier, self.changed_done, self.grown, removed, loops])[:8]

    @property
    def shown_name(self) -> str:
        """The name with the stamp, `REVISION-SETTINGS-STAMP`: what a form shows may be answered days later."""
        return f"{self.name}-{self.stamp}"

    @property
    def skipped(self) -> tuple[str, ...]:
        """Keys of tasks that were skipped in the loop that goes on: it goes on without them."""
        gone = next((loop.cancelled for loop in self.open_loops if loop.id == self.loop_id), frozenset())
        return tuple(node.task_key for node in planned(self) if node.task_key in gone)

    @property
    def what(self) -> str:
        """What is to be approved, in words."""
        return self.spec_path

    @property
    def approved_by(self) -> str:
        """Who approved exactly this before; empty if nobody has."""
        return self.approved.approved_by if self.approved else ""

    @property
    def approved_in_words(self) -> str:
        """That exactly this was approved before; empty if it was not."""
        without = (
            f", without what was skipped in loop {self.loop_id}: {', '.join(self.skipped)}" if self.skipped else ""
        )
        return f"Revision {self.revision} was approved by {self.approved_by}{without}" if self.approved else ""

    @property
    def settings_changed(self) -> bool:
        """Whether the settings are not those that were approved with this document last."""
        return self.earlier is not None and self.earlier.policy != self.policy

    def require_named(self, given: str) -> None:
        """Raise ApprovalRefused unless *given* (any case) names the document and the settings as they are now.

        A revision alone says nothing of the settings: it is enough for a document's first approval, and while they
        are what was approved with it last (ruling R6). A stamp behind both names all else that was shown.
        """
        self.require_document(given)
        revision, settings, stamp, *_ = (*given.lower().split("-"), "", "")
        if settings and settings != self.policy.digest[:8]:
            raise self.refused("the settings (commands, agent, workspace, budgets, ...) are not those that were shown")
        if stamp and stamp != self.stamp:
            raise self.refused(f"what approving {self.spec_path} would do changed while it was looked at")
        if not settings and self.settings_changed:
            raise self.refused(f"the settings changed since the last approval, and {revision} names the document alone")

    def require_document(self, given: str) -> None:
        """Raise ApprovalRefused unless *given* (any case) names this document, with whatever settings."""
        require_typed(given, self.name, enough=self.revision)
        revision = given.lower().partition("-")[0]
        if revision != self.revision:
            raise self.refused(f"revision {revision} was approved, but {self.spec_path} is revision {self.revision}")

    def require_clear(self) -> None:
        """Raise nothing: a document that leaves something open is refused when it is read."""

    def refused(self, found: str) -> ApprovalRefused:
        """Why an approval of this is not taken."""
        return ApprovalRefused(found, remedy=f"look at it again and approve what it is now: {self.name}")


WAYS: Final = {
    "approve-keep": ApprovalChoices(keep_removed=True),
    "approve-reopen": ApprovalChoices(reopen_done=True),
    "approve-keep-reopen": ApprovalChoices(reopen_done=True, keep_removed=True),
}
"""What a form offers besides the plain approval (ruling R7), by the name of the answer (`domain/halt.py`)."""


def ways_to_approve(proposal: Proposal) -> dict[str, ApprovalChoices]:
    """Those of `WAYS` that make a difference here."""
    keep, reopen = bool(proposal.removed), bool(proposal.changed_done)
    return {name: way for name, way in WAYS.items() if way.keep_removed <= keep and way.reopen_done <= reopen}


def with_choices(proposal: Proposal, choices: ApprovalChoices) -> Proposal:
    """The same, approved in this way: what was approved before in another way is not this."""
    return replace(proposal, choices=choices, approved=proposal.approved if choices == ApprovalChoices() else None)


def propose(
    app: App, document: Path, *, loop_mode: bool = True, choices: ApprovalChoices = ApprovalChoices(), intent: str = ""
) -> Proposal:
    """Read *document* and say what approving it would mean; writes nothing. *intent* are the words that were typed.

    Raises RequirementsRefused with every problem of the document at once, when it cannot be read, and when a task
    key belongs to another document already (ruling R8).
    """
    spec_path = _relative(app, document)
    proposal = _proposal(app, spec_path, _read(document, spec_path), choices, loop_mode=loop_mode)
    loop = loop_over(app, [node.task_key for node in planned(proposal)], begins_again=bool(reopened(proposal)))
    loop_id = loop.id if loop else derive_loop_id(app, proposal.name)
    return replace(proposal, intent=intent or spec_path, loop_id=loop_id)


def propose_again(app: App, plan: Plan) -> Proposal:
    """What approving again would mean, for the document as it is now; where it is not, for the text in the plan.

    Raises RequirementsRefused as `propose` does.
    """
    document = app.repository.root / plan.spec_path
    text = _read(document, plan.spec_path) if document.is_file() else plan.source.encode()
    return _proposal(app, plan.spec_path, text, ApprovalChoices(), loop_mode=plan.loop_mode)


def _read(document: Path, spec_path: str) -> bytes:
    try:
        return document.read_bytes()
    except OSError as error:
        raise RequirementsRefused((f"{spec_path}: {error.strerror}",)) from error


def _proposal(app: App, spec_path: str, text: bytes, choices: ApprovalChoices, *, loop_mode: bool) -> Proposal:
    world = read_world(app)
    requirements = read_requirements(text, spec_path, known_issues=world.known_issues)
    _refuse_foreign_keys(world, requirements, spec_path)
    known = _in_force(app, spec_path)
    policy = app.policy(known.policy.publish if known else None)
    same = known and known.spec_revision == requirements.revision and known.policy == policy
    named = known and (known.loop_mode or not loop_mode)
    removed = _removed(world, known, requirements)
    return Proposal(
        requirements,
        policy,
        spec_path,
        budget=app.preferences().loop_budget or default_budget(len(requirements.nodes)),
        approved=known if same and named and choices == ApprovalChoices() else None,
        earlier=known,
        changed_done=_changed_done(app, world, requirements),
        grown=_grown(world, requirements),
        removed=removed,
        choices=choices,
        open_loops=_open_loops(app, (*requirements.nodes, *removed)),
    )


def _open_loops(app: App, nodes: Iterable[PlanNode]) -> tuple[Loop, ...]:
    keys = {node.task_key for node in nodes}
    return tuple(loop for loop in open_loops(app) if keys & set(loop.keys))


def _changed_done(app: App, world: World, requirements: Requirements) -> tuple[str, ...]:
    states = ((node, world.states.get(node.task_key)) for node in requirements.nodes)
    return tuple(node.task_key for node, state in states if state and state.done and is_changed(app, node, state))


def _grown(world: World, requirements: Requirements) -> tuple[str, ...]:
    graph = Graph.of(requirements.nodes)
    unfinished = (key for key in graph.nodes if not world.is_done(key))
    waiting = {outer for key in unfinished for outer in graph.ancestors(key)}
    return tuple(key for key in graph.nodes if key in waiting and world.is_done(key))


def _removed(world: World, known: Plan | None, requirements: Requirements) -> tuple[PlanNode, ...]:
    now = {node.task_key for node in requirements.nodes}
    gone = [node for node in known.nodes if node.task_key not in now] if known else []
    return tuple(node for node in gone if not (state := world.states.get(node.task_key)) or not state.done)


def kept(proposal: Proposal) -> tuple[PlanNode, ...]:
    """The removed tasks that stay in the plan: those that a person keeps now, or kept before."""
    before = proposal.earlier.kept if proposal.earlier else ()
    return tuple(n for n in proposal.removed if proposal.choices.keep_removed or n.task_key in before)


def planned(proposal: Proposal) -> tuple[PlanNode, ...]:
    """The tasks that an approval puts into the plan."""
    return proposal.approved.nodes if proposal.approved else (*proposal.requirements.nodes, *kept(proposal))


def _in_force(app: App, spec_path: str) -> Plan | None:
    """The plan of that document that was approved last; an earlier one counts for nothing any more."""
    plans = (app.plans.load(revision) for revision in reversed(app.plans.revisions()))
    return next((plan for plan in plans if plan and plan.spec_path == spec_path), None)


def approve(app: App, proposal: Proposal, revision: str, by: str, *, loop_mode: bool = True) -> Plan:
    """Write the approved plan durably, before anything else happens; raises ApprovalRefused for another revision.

    *proposal* is what was shown; words of a person who saw it at another time go through `require_named` first.
    A plan with exactly this content is returned as it is: it was approved before.
    """
    proposal.require_document(revision)
    if proposal.approved:
        return proposal.approved
    plan = Plan(
        spec_revision=proposal.revision,
        spec_path=proposal.spec_path,
        source=proposal.requirements.source,
        nodes=planned(proposal),
        kept=tuple(node.task_key for node in kept(proposal)),
        reopened=reopened(proposal),
        policy=proposal.policy,
        loop_mode=loop_mode,
        budget_max_transitions=proposal.budget,
        # To the microsecond: of two plans for one task the later approval counts.
        approval=Approval(by=by, at=app.clock.now().isoformat(), channel=app.origin.channel),
    )
    app.plans.save(plan)
    return plan


def reopened(proposal: Proposal) -> tuple[str, ...]:
    """The tasks that begin again, and the composites that they, and what is new, are part of: those wait for them."""
    graph = Graph.of(proposal.requirements.nodes)
    changed = proposal.changed_done if proposal.choices.reopen_done else ()
    again = {*proposal.grown, *(outer for key in changed for outer in (key, *graph.ancestors(key)))}
    return tuple(key for key in graph.nodes if key in again)


def what_changed(plan: Plan, proposal: Proposal) -> str:
    """The approved document and settings against those of now, as one unified diff (ruling R7)."""
    return diff_of(plan, proposal.requirements.source, proposal.policy)


def require_as_shown(app: App, proposal: Proposal) -> None:
    """Raise ApprovalRefused unless approving does now what *proposal* showed. The caller holds the driver lock.

    While somebody looked at it others may have approved, finished a task, or ended a loop. Raises as `propose` does.
    """
    now = propose(app, app.repository.root / proposal.spec_path)
    now.require_named(proposal.name)
    if now.stamp != proposal.stamp:
        raise now.refused(f"what approving {now.spec_path} would do changed while it was looked at")


def approve_reverted(app: App) -> tuple[int, ...]:
    """Let tasks go on whose text and configuration are what was approved again; the issues it did so for (R7)."""
    return release_approved(app, by="irontree", channel="reverted")


def release_approved(app: App, by: str, channel: str | None = None) -> tuple[int, ...]:
    """Let every task go on that waits for an approval it has by now; the issues it did so for.

    Not one whose own text was approved anew: it begins a fresh stream, and if that was cut short it is asked again.
    """
    world = read_world(app)
    states = [s for s in world.states.values() if not s.problem and s.task_key in world.plans.keys() - world.cancelled]
    adopted = [state for state in states if state.phase is Phase.ADOPTED and _has_approval(world, state)]
    for state in adopted:
        approval = world.plan(state).approval
        go_on(app, state, approval.by if approval else by, approval.channel if approval else channel)
    back = [state for state in states if state.phase is Phase.STALE and is_as_approved(app, world, state)]
    for state in back:
        go_on(app, state, by, channel)
    return tuple(state.issue_number for state in (*adopted, *back))


def _has_approval(world: World, state: TaskState) -> bool:
    plan = world.plan(state)
    return plan.approval is not None and plan.spec_revision == state.approved_revision


def go_on(app: App, state: TaskState, by: str, channel: str | None = None) -> TaskState:
    """Record the approval that this task waited for; it is again what it was before."""
    restored = snapshot(state.before or state)
    return record(app, state, TaskApproved, **restored, by=by, channel=channel or app.origin.channel)


def _relative(app: App, document: Path) -> str:
    resolved, root = document.resolve(), app.repository.root.resolve()
    return str(resolved.relative_to(root)) if resolved.is_relative_to(root) else str(resolved)


def _refuse_foreign_keys(world: World, requirements: Requirements, spec_path: str) -> None:
    owners = {key: plan.spec_path for key, plan in world.plans.items()}
    clashes = tuple(
        f"{spec_path}:{node.line or 1}: task key {node.task_key} belongs to {owners[node.task_key]} already. "
        "Give it another title, or a `Key:` of its own."
        for node in requirements.nodes
        if owners.get(node.task_key, spec_path) != spec_path
    )
    if clashes:
        raise RequirementsRefused(clashes)


# --- Requirement documents as they lie in the user's folder, against what is committed


def uncommitted_documents(app: App, keys: Iterable[str]) -> tuple[str, ...]:
    """Paths of the documents of these tasks that are in no commit as they are: work on others has to wait for that."""
    head, plans = app.repository.read_ref("HEAD"), read_world(app).plans
    if head is None:
        return ()
    paths = {plans[key].spec_path for key in keys if key in plans and not plans[key].adoption}
    return tuple(path for path in sorted(paths) if _differs(app, head, path))


def _differs(app: App, head: str, path: str) -> bool:
    file, committed = app.repository.root / path, app.repository.document_at(head, path)
    return file.is_file() and (
        committed is None or committed.text != file.read_text(encoding="utf-8", errors="replace")
    )


# --- A person's word for a document puts it into force, whole, and safe to repeat after a crash at any point (R7, R


UNREADABLE: Final = (Refused, EnvironmentRefused, RemoteFailed, LogDamaged)
"""What keeps anybody from saying what would be approved now: document, settings, forge or plans cannot be read."""


def special_choices(app: App, reason: str, task_key: str | None) -> tuple[str, ...]:
    """The special answers (`domain/halt.py`) that make a difference to the question about this task now."""
    world = read_world(app)
    plan = world.plans.get(task_key or "")
    if plan is None:
        return ()
    if reason != "reapproval_required":
        state = world.states.get(task_key or "")
        return permission_choice(app, world, state) if state else ()
    if plan.adoption:
        return ()
    try:
        return tuple(ways_to_approve(propose_again(app, plan)))
    except UNREADABLE:  # the form says what is wrong with the document
        return ()


def name_to_approve(app: App, plan: Plan) -> str:
    """What approving again names, as the document or the adopted issue and the settings are now."""
    return approval_name(issue_now(app, plan)) if plan.adoption else propose_again(app, plan).shown_name
