"""What a user approves: plans drafted from a source, and the name by which they are approved (R6, R7, R17)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

from irontree.app import App
from irontree.domain.agents import AgentSpec
from irontree.domain.gates import name_of, names
from irontree.domain.graph import Graph
from irontree.domain.plan import Approval, ExecutionPolicy, Plan, PlanNode, canonical_digest
from irontree.errors import ApprovalRefused
from irontree.services.loops.choice import loop_over
from irontree.services.loops.loop import Loop, derive_loop_id, open_loops
from irontree.services.record import World, read_world


@dataclass(frozen=True, slots=True)
class DraftTask:
    """One task as shown, with the plan that it would have; *due* if it begins, or begins again, under that plan."""

    node: PlanNode
    plan: Plan
    status: str
    number: int = 0
    """Its issue number; 0 if the issue does not exist yet."""
    due: bool = False
    archive: str = ""
    """Where the stream of a re-adopted issue is archived."""
    depth: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Excluded:
    """An issue that was requested but is left out; *finished* if nothing is left to do on it."""

    number: int
    title: str
    reason: str
    remedy: str = ""
    finished: bool = False
    composite: bool = False


def of_another_branch(task: DraftTask, shown: ExecutionPolicy) -> Iterator[str]:
    """A warning for a task that was approved before with another branch than is shown; all else is today's (R6)."""
    own = task.plan.policy
    if own == shown:
        return
    where = f"{own.publish.target_branch} of {own.publish.remote or 'this repository'}"
    yield f"#{task.number} goes on as it was approved with {task.plan.spec_path}: its code goes to {where}"


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """A plan that is not approved yet, and the one that it would replace."""

    plan: Plan
    earlier: Plan | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """What a source says now, and what happens to its tasks that were approved before. Nothing is written yet."""

    what: str
    """What is to be approved, for display: the path of a document, or the query."""
    digest: str
    """64 hex over the tasks, their texts, and all settings that are approved with them."""
    says: str
    """The phrase before the name in the refusal of another one: `SPEC.md is`."""
    tasks: tuple[DraftTask, ...]
    plans: tuple[DraftPlan, ...]
    """The plans to write; tasks that were approved before and join unchanged have none."""
    policy: ExecutionPolicy
    """Today's settings."""
    budget: int
    whole: bool = False
    """Whether one plan holds all tasks: tasks removed from it are cancelled, and it replaces loops over other tasks.

    Otherwise each task has its own plan.
    """
    look: str = "look at it again and approve what it is now:"
    """How to see the present content; the name follows."""
    excluded: tuple[Excluded, ...] = ()
    warnings: tuple[str, ...] = ()
    approved: Plan | None = None
    """The plan in force with this content, which needs no new approval (R6); in Loop Mode if that is wanted (R17)."""
    changed_done: tuple[str, ...] = ()
    """Keys of tasks that are done but whose text has changed since."""
    grown: tuple[str, ...] = ()
    """Keys of composites that are done but now have an unfinished part: they begin again and wait for it."""
    removed: tuple[PlanNode, ...] = ()
    """Unfinished tasks of the earlier plan that are no longer in the source."""
    switches: bool = False
    """Whether the user's checkout is to be on the branch that the work goes to (`worktree: false`)."""

    @property
    def nodes(self) -> tuple[PlanNode, ...]:
        """The tasks' nodes, in order."""
        return tuple(task.node for task in self.tasks)


class Source(Protocol):
    """Where tasks come from. It is read again before anything is written, and compared with what was shown."""

    def read(self, app: App, world: World) -> Draft:
        """What it says now, compared with *world*; writes nothing. Raises Refused if it cannot be approved as it is."""


# --- What is approved


@dataclass(frozen=True, slots=True)
class ApprovalChoices:
    """Options for tasks that already have an issue (R7)."""

    reopen_done: bool = False
    """Restart tasks that are done but whose text has changed; otherwise they stay done."""
    keep_removed: bool = False
    """Keep unfinished tasks that are no longer in the document; otherwise they are cancelled."""


PLAIN: Final = ApprovalChoices()
NEW: Final = "new"
"""The stamp of an approval that replaces no plan and continues no loop."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Everything that an approval covers, frozen. Nothing is written yet."""

    source: Source
    draft: Draft
    choices: ApprovalChoices = PLAIN
    intent: str = ""
    """The text as it was typed."""
    loop_id: str = ""
    """The loop that the approval starts or continues."""
    open_loops: tuple[Loop, ...] = ()
    """The open loops that have any of these tasks."""

    @property
    def what(self) -> str:
        """What is to be approved, for display."""
        return self.draft.what

    @property
    def digest(self) -> str:
        """64 hex over everything that an approval covers; for a document, also over what it replaces (R6)."""
        return canonical_digest([self.draft.digest, self.stamp]) if self.draft.whole else self.draft.digest

    @property
    def name(self) -> str:
        """What an approval names, on every surface and in every way to give it: the beginning of the digest."""
        return name_of(self.digest)

    @property
    def revision(self) -> str:
        """The Spec Revision of a document: the label of its text in events and issues."""
        return self.draft.plans[0].plan.spec_revision if self.draft.whole else ""

    @property
    def earlier(self) -> Plan | None:
        """The document's most recently approved plan, whatever its content; None for issues."""
        return self.draft.plans[0].earlier if self.draft.whole else None

    @property
    def approved_plan(self) -> Plan | None:
        """The plan in force with exactly this content; None if other choices are made now."""
        return self.draft.approved if self.choices == PLAIN else None

    @property
    def kept(self) -> tuple[PlanNode, ...]:
        """The removed tasks that stay in the plan, because a user keeps them now or kept them before.

        A container stays with a part of it alone: without any it could never be done.
        """
        before = self.earlier.kept if self.earlier else ()
        stay = tuple(n for n in self.draft.removed if self.choices.keep_removed or n.task_key in before)
        if not stay:  # this is asked often, and of large documents
            return ()
        nodes = (*self.draft.nodes, *stay)
        graph = Graph.of(nodes)
        full = {outer for n in nodes if n.executability != "container" for outer in graph.ancestors(n.task_key)}
        return tuple(n for n in stay if n.executability != "container" or n.task_key in full)

    @property
    def nodes(self) -> tuple[PlanNode, ...]:
        """The tasks that an approval puts into force."""
        return self.approved_plan.nodes if self.approved_plan else (*self.draft.nodes, *self.kept)

    @property
    def keys(self) -> tuple[str, ...]:
        """The frozen set of task keys."""
        return tuple(node.task_key for node in self.nodes)

    @property
    def reopened(self) -> tuple[str, ...]:
        """The finished tasks that begin again: changed ones, and composites with a part that is new or begins again."""
        graph = Graph.of(self.draft.nodes)
        changed = self.draft.changed_done if self.choices.reopen_done else ()
        again = {*self.draft.grown, *(outer for key in changed for outer in (key, *graph.ancestors(key)))}
        return tuple(key for key in graph.nodes if key in again)

    @property
    def due(self) -> tuple[DraftTask, ...]:
        """The tasks that begin, or begin again; the others continue unchanged."""
        return tuple(task for task in self.draft.tasks if task.due)

    @property
    def open_loop(self) -> Loop | None:
        """The open loop that continues; None if a new one starts."""
        return next((loop for loop in self.open_loops if loop.id == self.loop_id), None)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Keys of tasks that were skipped in the loop that continues; they stay skipped."""
        gone = self.open_loop.cancelled if self.open_loop else frozenset()
        return tuple(key for key in self.keys if key in gone)

    @property
    def todo(self) -> tuple[tuple[PlanNode, ExecutionPolicy], ...]:
        """The tasks that are not skipped, each with the settings that it is approved with."""
        policies = {task.node.task_key: task.plan.policy for task in self.draft.tasks}
        skipped = frozenset(self.skipped)
        left = (node for node in self.nodes if node.task_key not in skipped)
        return tuple((node, policies.get(node.task_key, self.draft.policy)) for node in left)

    @property
    def to_run(self) -> tuple[tuple[PlanNode, ExecutionPolicy], ...]:
        """Those of them that agents work on: all but containers."""
        return tuple((node, policy) for node, policy in self.todo if node.executability == "executable")

    @property
    def authors(self) -> tuple[AgentSpec, ...]:
        """The agents that would work on these tasks."""
        return tuple(dict.fromkeys(policy.author_of(node) for node, policy in self.to_run))

    @property
    def stamp(self) -> str:
        """Everything else that was shown: the plan that is replaced, what happens to its tasks, which loops are open.

        For a document a digest; for issues the loop that continues and its skipped tasks. `new` if there is none.
        """
        if not self.draft.whole:
            return " ".join((self.open_loop.id, *self.skipped)) if self.open_loop else NEW
        if self.earlier is None and not self.open_loops:
            return NEW
        draft = self.draft
        earlier = self.earlier.model_dump(mode="json") if self.earlier else None
        removed = [node.task_key for node in draft.removed]
        loops = [[loop.id, *loop.keys] for loop in self.open_loops]
        return canonical_digest([earlier, draft.changed_done, draft.grown, removed, loops])

    @property
    def approved(self) -> bool:
        """Whether exactly this was approved before, in Loop Mode if that is wanted (R6, R17)."""
        return bool(self.approved_plan) if self.draft.whole else self.open_loop is not None and not self.due

    @property
    def approved_by(self) -> str:
        """Who approved exactly this before; empty if no one did, or if each task was approved on its own."""
        return self.approved_plan.approved_by if self.approved_plan else ""

    @property
    def approved_in_words(self) -> str:
        """The message that exactly this was approved before; empty if it was not."""
        if not self.approved:
            return ""
        skipped = ", ".join(self.skipped)
        if self.draft.whole:
            without = f", without what was skipped in loop {self.loop_id}: {skipped}" if skipped else ""
            return f"{self.what}, revision {self.revision}, was approved by {self.approved_by}{without}"
        without = f", in which these were skipped: {skipped}" if skipped else ""
        return f"All of {self.what} is approved, and in loop {self.loop_id}{without}"

    def require_named(self, given: str) -> None:
        """Raise ApprovalRefused unless *given* (case-insensitive) names everything that an approval covers now.

        It may be given days after it was shown (R6).
        """
        if not names(given, self.digest):
            raise self._refused_as_other(given)

    def require_as_shown(self, shown: Proposal) -> None:
        """Raise ApprovalRefused unless approving does what *shown*, read earlier from the same source, said."""
        if self.draft.digest != shown.draft.digest:
            raise self._refused_as_other(shown.name)
        if self.stamp != shown.stamp and self.draft.whole:
            raise self.refused(f"what approving {self.what} would do changed while it was looked at")
        if self.stamp != shown.stamp:
            raise self.refused(f"the loop of {self.what} changed while it was looked at")

    def require_clear(self) -> None:
        """Raise ApprovalRefused if a task has open questions (protocol, Brief Standardization).

        A document with open questions is refused when it is read.
        """
        for task in self.due:
            if task.node.open_questions:
                raise ApprovalRefused(
                    "; ".join(task.node.open_questions),
                    remedy="answer in the issue: edit it, or add a comment with the criteria",
                )

    def _refused_as_other(self, name: str) -> ApprovalRefused:
        return self.refused(
            f"{name} was approved, but {self.draft.says} {self.name} now: its text, its settings (commands, agent, "
            "workspace, budgets, ...) or what it replaces is not what was shown"
        )

    def refused(self, found: str) -> ApprovalRefused:
        """The error for an approval that does not match this proposal."""
        return ApprovalRefused(found, remedy=f"{self.draft.look} {self.name}")


WAYS: Final = {
    "approve-keep": ApprovalChoices(keep_removed=True),
    "approve-reopen": ApprovalChoices(reopen_done=True),
    "approve-keep-reopen": ApprovalChoices(reopen_done=True, keep_removed=True),
}
"""A form's alternatives to the plain approval (R7), by the name of the answer (`domain/halt.py`)."""


def ways_to_approve(proposal: Proposal) -> dict[str, ApprovalChoices]:
    """The entries of `WAYS` that make a difference here."""
    keep, reopen = bool(proposal.draft.removed), bool(proposal.draft.changed_done)
    return {name: way for name, way in WAYS.items() if way.keep_removed <= keep and way.reopen_done <= reopen}


# --- From a source to a proposal, and to approved plans


def propose_from(
    app: App, source: Source, intent: str, choices: ApprovalChoices = PLAIN, *, again: bool = False
) -> Proposal:
    """What approving *source* would do now; writes nothing. *intent* is the text that was typed.

    With *again* no loop is chosen: a task that asks for reapproval has one. Also raises the errors of `Source.read`.
    """
    world = read_world(app)
    proposal = Proposal(source, source.read(app, world), choices, intent)
    keys = {node.task_key for node in (*proposal.draft.nodes, *proposal.draft.removed)}
    proposal = replace(proposal, open_loops=tuple(loop for loop in open_loops(app) if keys & set(loop.keys)))
    if again:
        return proposal
    loop = _loop_over(app, world, proposal)
    return replace(proposal, loop_id=loop.id if loop else derive_loop_id(app, proposal.digest))


def _loop_over(app: App, world: World, proposal: Proposal) -> Loop | None:
    """The loop over exactly these tasks. For issues, finished tasks are ignored, and completed loops do not count."""
    if proposal.draft.whole:
        return loop_over(app, world, proposal.keys, begins_again=bool(proposal.reopened))
    done = [key for key in world.states if world.is_done(key)]
    return loop_over(app, world, proposal.keys, besides=done)


def approved_plans(app: App, proposal: Proposal, by: str, *, loop_mode: bool) -> tuple[Plan, ...]:
    """The approved plans; if a plan with this content is approved already, that one unchanged.

    Raises ApprovalRefused if a task has open questions.
    """
    if proposal.approved_plan:
        return (proposal.approved_plan,)
    proposal.require_clear()
    return tuple(
        drafted.plan.model_copy(update={**_chosen(proposal), "loop_mode": loop_mode, "approval": _approval(app, by)})
        for drafted in proposal.draft.plans
    )


def _chosen(proposal: Proposal) -> dict[str, object]:
    """The choices made for existing tasks, as fields of the plan (R7)."""
    if not proposal.draft.whole:
        return {}
    kept = tuple(node.task_key for node in proposal.kept)
    return {"nodes": proposal.nodes, "kept": kept, "reopened": proposal.reopened}


def _approval(app: App, by: str) -> Approval:
    """The approval, to the microsecond: of two plans for one task the later approval counts."""
    return Approval(by=by, at=app.clock.now().isoformat(), channel=app.origin.channel)
