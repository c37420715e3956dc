"""What a person approves: plans drafted from some source, with the name by which they are approved (R6, R7, R17)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from irontree.app import App
from irontree.domain.gates import require_typed
from irontree.domain.graph import Graph
from irontree.domain.plan import Approval, ExecutionPolicy, Plan, PlanNode, canonical_digest
from irontree.errors import ApprovalRefused
from irontree.services.loops.choice import loop_over
from irontree.services.loops.loop import Loop, derive_loop_id, open_loops
from irontree.services.record import World, read_world


@dataclass(frozen=True, slots=True)
class DraftTask:
    """One task as it is shown, with the plan that it would have; *due* if it begins, or begins again, with that."""

    node: PlanNode
    plan: Plan
    status: str
    number: int = 0
    """Of its issue; 0 if that is to be made."""
    due: bool = False
    archive: str = ""
    """Where the stream of a re-adopted issue goes."""
    depth: int = 0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Excluded:
    """An issue that was asked for and is left out; *finished* if there is nothing left to do on it."""

    number: int
    title: str
    reason: str
    remedy: str = ""
    finished: bool = False
    composite: bool = False


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """A plan that is not approved yet, and the one that it would replace."""

    plan: Plan
    earlier: Plan | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """What a source says now, and what becomes of what was approved of it before. Nothing of it is written yet."""

    what: str
    """What is to be approved, in words: the path of a document, or what was looked up."""
    name: str
    """What an approval names, `CONTENT-SETTINGS`: 8 hex over the tasks, 8 over the settings approved with them."""
    says: str
    """The words before its name or revision where another was approved: `SPEC.md is revision`."""
    tasks: tuple[DraftTask, ...]
    plans: tuple[DraftPlan, ...]
    """What has to be written; of tasks that were approved before and join as they are there is none."""
    policy: ExecutionPolicy
    """Today's settings."""
    budget: int
    whole: bool = False
    """One plan of all tasks: what it no longer has is cancelled, and it replaces loops over other tasks of it.

    Else each task has a plan of its own, and the name says all that was shown.
    """
    look: str = "look at it again and approve what it is now:"
    """How to see what it is now, before its name."""
    excluded: tuple[Excluded, ...] = ()
    warnings: tuple[str, ...] = ()
    approved: Plan | None = None
    """The plan in force with exactly this content: it is continued without asking (R6).

    None too if its approval did not name Loop Mode, and a loop is wanted (R17)."""
    changed_done: tuple[str, ...] = ()
    """Keys of tasks that are done and whose text changed since."""
    grown: tuple[str, ...] = ()
    """Keys of composites that are done, and have a part now that is not: they begin again, and wait for it."""
    removed: tuple[PlanNode, ...] = ()
    """Open tasks of the earlier plan that it no longer has."""

    @property
    def nodes(self) -> tuple[PlanNode, ...]:
        """What the tasks say, in order."""
        return tuple(task.node for task in self.tasks)


class Source(Protocol):
    """Where tasks come from. It is read again before anything is written: is it still what was shown?"""

    def read(self, app: App, world: World) -> Draft:
        """What it says now, beside *world*; writes nothing. Raises Refused for what cannot be approved as it is."""


# --- What is approved


@dataclass(frozen=True, slots=True)
class ApprovalChoices:
    """What a person may want otherwise of tasks that have an issue already (R7)."""

    reopen_done: bool = False
    """Tasks that are done and whose text changed since begin again; else they stay done."""
    keep_removed: bool = False
    """Open tasks that are no longer in the document stay in the plan; else they are cancelled."""


PLAIN: Final = ApprovalChoices()


@dataclass(frozen=True, slots=True)
class Proposal:
    """Everything an approval is about, frozen. Nothing is written yet."""

    source: Source
    draft: Draft
    choices: ApprovalChoices = PLAIN
    intent: str = ""
    """The words as they were typed."""
    loop_id: str = ""
    """The loop that the approval starts, or that goes on."""
    open_loops: tuple[Loop, ...] = ()
    """The open loops that have any of these tasks."""

    @property
    def what(self) -> str:
        """What is to be approved, in words."""
        return self.draft.what

    @property
    def name(self) -> str:
        """What an approval names: the tasks, and the settings that are approved with them."""
        return self.draft.name

    @property
    def revision(self) -> str:
        """What names the tasks; of a whole the Spec Revision, which says nothing of the settings."""
        return self.name.partition("-")[0] if self.draft.whole else self.name

    @property
    def earlier(self) -> Plan | None:
        """The plan of the whole that was approved last, whatever it says."""
        return self.draft.plans[0].earlier if self.draft.whole else None

    @property
    def approved_plan(self) -> Plan | None:
        """The plan in force with exactly this content; what was approved in another way is not this."""
        return self.draft.approved if self.choices == PLAIN else None

    @property
    def kept(self) -> tuple[PlanNode, ...]:
        """The removed tasks that stay in the plan: those that a person keeps now, or kept before."""
        before = self.earlier.kept if self.earlier else ()
        return tuple(n for n in self.draft.removed if self.choices.keep_removed or n.task_key in before)

    @property
    def nodes(self) -> tuple[PlanNode, ...]:
        """The tasks that an approval puts into force."""
        return self.approved_plan.nodes if self.approved_plan else (*self.draft.nodes, *self.kept)

    @property
    def keys(self) -> tuple[str, ...]:
        """The frozen set."""
        return tuple(node.task_key for node in self.nodes)

    @property
    def reopened(self) -> tuple[str, ...]:
        """The tasks that begin again, and the composites that they, and what is new, are part of."""
        graph = Graph.of(self.draft.nodes)
        changed = self.draft.changed_done if self.choices.reopen_done else ()
        again = {*self.draft.grown, *(outer for key in changed for outer in (key, *graph.ancestors(key)))}
        return tuple(key for key in graph.nodes if key in again)

    @property
    def due(self) -> tuple[DraftTask, ...]:
        """What begins, or begins again; the others go on as they are."""
        return tuple(task for task in self.draft.tasks if task.due)

    @property
    def open_loop(self) -> Loop | None:
        """The open loop that goes on."""
        return next((loop for loop in self.open_loops if loop.id == self.loop_id), None)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Keys of tasks that were skipped in the loop that goes on: it goes on without them."""
        gone = self.open_loop.cancelled if self.open_loop else frozenset()
        return tuple(key for key in self.keys if key in gone)

    @property
    def todo(self) -> tuple[tuple[PlanNode, ExecutionPolicy], ...]:
        """The tasks of the loop, each with the settings that it is approved with."""
        policies = {task.node.task_key: task.plan.policy for task in self.draft.tasks}
        left = (node for node in self.nodes if node.task_key not in self.skipped)
        return tuple((node, policies.get(node.task_key, self.draft.policy)) for node in left)

    @property
    def stamp(self) -> str:
        """What else was shown: the plan that is replaced, what becomes of tasks, which loops are open.

        Of a whole 8 hex over that; else the loop that goes on, and without what.
        """
        if not self.draft.whole:
            return " ".join((self.open_loop.id, *self.skipped)) if self.open_loop else "new"
        draft = self.draft
        earlier = self.earlier.model_dump(mode="json") if self.earlier else None
        removed = [node.task_key for node in draft.removed]
        loops = [[loop.id, *loop.keys] for loop in self.open_loops]
        return canonical_digest([earlier, draft.changed_done, draft.grown, removed, loops])[:8]

    @property
    def shown_name(self) -> str:
        """What a form of an issue shows may be answered days later: the name, of a whole with the stamp."""
        return f"{self.name}-{self.stamp}" if self.draft.whole else self.name

    @property
    def approved(self) -> bool:
        """Whether a person has approved exactly this, in Loop Mode if that is wanted (R6, R17)."""
        return bool(self.approved_plan) if self.draft.whole else self.open_loop is not None and not self.due

    @property
    def approved_by(self) -> str:
        """Who approved exactly this before; empty if it was not, or each of the tasks was approved on its own."""
        return self.approved_plan.approved_by if self.approved_plan else ""

    @property
    def approved_in_words(self) -> str:
        """That exactly this was approved before; empty if it was not."""
        if not self.approved:
            return ""
        skipped = ", ".join(self.skipped)
        if self.draft.whole:
            without = f", without what was skipped in loop {self.loop_id}: {skipped}" if skipped else ""
            return f"Revision {self.revision} was approved by {self.approved_by}{without}"
        without = f", in which these were skipped: {skipped}" if skipped else ""
        return f"All of {self.what} is approved, and in loop {self.loop_id}{without}"

    def require_named(self, given: str) -> None:
        """Raise ApprovalRefused unless *given* (any case) names the tasks and the settings as they are now.

        A document's revision alone says nothing of the settings: it is enough for its first approval, and while they
        are what was approved with it last (R6). A stamp behind both names all else that was shown.
        """
        self.require_tasks(given)
        _, settings, stamp, *_ = (*given.lower().split("-"), "", "")
        if settings and settings != self.name.partition("-")[2]:
            raise self.refused("the settings (commands, agent, workspace, budgets, ...) are not those that were shown")
        if stamp and stamp != self.stamp:
            raise self.refused(f"what approving {self.what} would do changed while it was looked at")
        if not settings and self.earlier and self.earlier.policy != self.draft.policy:
            raise self.refused(
                f"the settings changed since the last approval, and {self.revision} names the document alone"
            )

    def require_tasks(self, given: str) -> None:
        """Raise ApprovalRefused unless *given* (any case) names these tasks, of a document with whatever settings."""
        require_typed(given, self.name, enough=self.revision)
        named = given.lower().partition("-")[0] if self.draft.whole else given
        if named.lower() != self.revision:
            words = f"revision {named}" if self.draft.whole else named
            raise self.refused(f"{words} was approved, but {self.draft.says} {self.revision}")

    def require_as_shown(self, shown: Proposal) -> None:
        """Raise ApprovalRefused unless approving does what *shown* said, from the same source earlier."""
        self.require_named(shown.name)
        if self.stamp != shown.stamp and self.draft.whole:
            raise self.refused(f"what approving {self.what} would do changed while it was looked at")
        if self.stamp != shown.stamp:
            raise self.refused(f"the loop of {self.what} changed while it was looked at")

    def require_clear(self) -> None:
        """Raise ApprovalRefused while a task leaves something open (protocol, Brief Standardization).

        A document that does is refused when it is read.
        """
        for task in self.due:
            if task.node.open_questions:
                raise ApprovalRefused(
                    "; ".join(task.node.open_questions),
                    remedy="answer in the issue: edit it, or add a comment with the criteria",
                )

    def refused(self, found: str) -> ApprovalRefused:
        """Why an approval of this is not taken."""
        return ApprovalRefused(found, remedy=f"{self.draft.look} {self.name}")


WAYS: Final = {
    "approve-keep": ApprovalChoices(keep_removed=True),
    "approve-reopen": ApprovalChoices(reopen_done=True),
    "approve-keep-reopen": ApprovalChoices(reopen_done=True, keep_removed=True),
}
"""What a form offers besides the plain approval (R7), by the name of the answer (`domain/halt.py`)."""


def ways_to_approve(proposal: Proposal) -> dict[str, ApprovalChoices]:
    """Those of `WAYS` that make a difference here."""
    keep, reopen = bool(proposal.draft.removed), bool(proposal.draft.changed_done)
    return {name: way for name, way in WAYS.items() if way.keep_removed <= keep and way.reopen_done <= reopen}


# --- From a source to a proposal, and to approved plans


def propose_from(
    app: App, source: Source, intent: str, choices: ApprovalChoices = PLAIN, *, again: bool = False
) -> Proposal:
    """What approving *source* would mean now; writes nothing. *intent* are the words that were typed.

    A task that asks for its approval *again* has its loop. Raises as reading the source does.
    """
    world = read_world(app)
    proposal = Proposal(source, source.read(app, world), choices, intent)
    keys = {node.task_key for node in (*proposal.draft.nodes, *proposal.draft.removed)}
    proposal = replace(proposal, open_loops=tuple(loop for loop in open_loops(app) if keys & set(loop.keys)))
    if again:
        return proposal
    loop = _loop_over(app, world, proposal)
    return replace(proposal, loop_id=loop.id if loop else derive_loop_id(app, proposal.name))


def _loop_over(app: App, world: World, proposal: Proposal) -> Loop | None:
    """The loop over exactly these tasks; each of a set that is done counts no more, nor does a set that is."""
    if proposal.draft.whole:
        return loop_over(app, world, proposal.keys, begins_again=bool(proposal.reopened))
    done = [key for key in world.states if world.is_done(key)]
    return loop_over(app, world, proposal.keys, begins_again=True, besides=done)


def approved_plans(app: App, proposal: Proposal, by: str, *, loop_mode: bool) -> tuple[Plan, ...]:
    """The plans with a person's word for them; what was approved before is returned as it is.

    Raises ApprovalRefused while a task leaves something open.
    """
    if proposal.approved_plan:
        return (proposal.approved_plan,)
    proposal.require_clear()
    return tuple(
        drafted.plan.model_copy(update={**_chosen(proposal), "loop_mode": loop_mode, "approval": _approval(app, by)})
        for drafted in proposal.draft.plans
    )


def _chosen(proposal: Proposal) -> dict[str, object]:
    """The choices made for existing tasks (R7)."""
    if not proposal.draft.whole:
        return {}
    kept = tuple(node.task_key for node in proposal.kept)
    return {"nodes": proposal.nodes, "kept": kept, "reopened": proposal.reopened}


def _approval(app: App, by: str) -> Approval:
    """To the microsecond: of two plans for one task the later approval counts."""
    return Approval(by=by, at=app.clock.now().isoformat(), channel=app.origin.channel)
