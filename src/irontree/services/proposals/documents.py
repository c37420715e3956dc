"""Requirement documents as a source: what they say now, and what became of what was approved of them (phases 1, 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from irontree.app import App
from irontree.domain.graph import Graph
from irontree.domain.loop import default_budget
from irontree.domain.plan import ExecutionPolicy, Plan, PlanNode
from irontree.domain.spec import Requirements, read_requirements
from irontree.errors import RequirementsRefused
from irontree.services.proposals.proposal import (
    PLAIN,
    ApprovalChoices,
    Draft,
    DraftPlan,
    DraftTask,
    Proposal,
    propose_from,
)
from irontree.services.record.world import World, read_world
from irontree.services.views.overview import phase_words
from irontree.services.work.staleness import is_changed

# --- A document as it is now, and the tasks of it that have an issue already


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """A document by its path relative to the repository; without *loop_mode* any approval of it is one for this."""

    spec_path: str
    loop_mode: bool = True
    text: str | None = None
    """What counts where the file is not there any more."""

    def read(self, app: App) -> Draft:
        """All tasks of the document in one plan.

        Raises RequirementsRefused with every problem of the document at once, when it cannot be read, and when a task
        key belongs to another document already (ruling R8).
        """
        world = read_world(app)
        requirements = read_requirements(self._bytes(app), self.spec_path, known_issues=world.known_issues)
        return draft_of(app, world, requirements, loop_mode=self.loop_mode)

    def _bytes(self, app: App) -> bytes:
        document = app.repository.root / self.spec_path
        if self.text is not None and not document.is_file():
            return self.text.encode()
        try:
            return document.read_bytes()
        except OSError as error:
            raise RequirementsRefused((f"{self.spec_path}: {error.strerror}",)) from error


def draft_of(app: App, world: World, requirements: Requirements, *, loop_mode: bool) -> Draft:
    """What any text comes to that reads as *requirements*: one plan of all its tasks, in the place of the one before.

    Raises RequirementsRefused when a task key belongs to another document already (ruling R8).
    """
    spec_path = requirements.name
    _refuse_foreign_keys(world, requirements, spec_path)
    known = _in_force(app, spec_path)
    policy = app.policy(known.policy.publish if known else None)
    same = known and known.spec_revision == requirements.revision and known.policy == policy
    named = known and (known.loop_mode or not loop_mode)
    plan = _plan(app, requirements, policy)
    return Draft(
        what=spec_path,
        name=f"{requirements.revision}-{policy.digest[:8]}",
        says=f"{spec_path} is revision",
        tasks=tuple(_tasks(app, world, plan)),
        plans=(DraftPlan(plan, known),),
        policy=policy,
        budget=plan.budget_max_transitions,
        whole=True,
        warnings=tuple(str(warning) for warning in requirements.warnings),
        approved=known if same and named else None,
        changed_done=_changed_done(app, world, requirements),
        grown=_grown(world, requirements),
        removed=_removed(world, known, requirements),
    )


def propose(
    app: App, document: Path, *, loop_mode: bool = True, choices: ApprovalChoices = PLAIN, intent: str = ""
) -> Proposal:
    """Read *document* and say what approving it would mean; writes nothing. *intent* are the words that were typed.

    Raises RequirementsRefused as reading the source does.
    """
    spec_path = _relative(app, document)
    return propose_from(app, DocumentSource(spec_path, loop_mode), intent or spec_path, choices)


def _plan(app: App, requirements: Requirements, policy: ExecutionPolicy) -> Plan:
    return Plan(
        spec_revision=requirements.revision,
        spec_path=requirements.name,
        source=requirements.source,
        nodes=requirements.nodes,
        policy=policy,
        budget_max_transitions=app.preferences().loop_budget or default_budget(len(requirements.nodes)),
    )


def _tasks(app: App, world: World, plan: Plan) -> Iterator[DraftTask]:
    by_key = {node.task_key: node for node in plan.nodes}
    for node in plan.nodes:
        state = world.states.get(node.task_key)
        yield DraftTask(
            node,
            plan,
            status=str(phase_words(world, state)) if state else "new",
            number=state.issue_number if state else 0,
            due=state is None or (not state.done and is_changed(app, node, state)),
            depth=_depth(node, by_key),
        )


def _depth(node: PlanNode, by_key: dict[str, PlanNode]) -> int:
    depth = 0
    while node.parent in by_key:
        depth, node = depth + 1, by_key[node.parent]
    return depth


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


def _in_force(app: App, spec_path: str) -> Plan | None:
    """The plan of that document that was approved last; an earlier one counts for nothing any more."""
    plans = (app.plans.load(revision) for revision in reversed(app.plans.revisions()))
    return next((plan for plan in plans if plan and plan.spec_path == spec_path), None)


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
