"""Where proposals come from: a document, existing issues, an adopted issue. Each source reads a `Draft`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from irontree.app import App
from irontree.domain.adoption import Ineligible
from irontree.domain.commands import Issues, OpenIssues
from irontree.domain.documents import approved_text, read_document
from irontree.domain.graph import Graph
from irontree.domain.ids import digest_of
from irontree.domain.issues import Issue
from irontree.domain.loop import default_budget
from irontree.domain.plan import ExecutionPolicy, Plan, PlanNode, canonical_digest
from irontree.domain.spec import Requirements
from irontree.domain.state import ADOPTED, Phase, TaskState
from irontree.errors import NeedsBreakdown, NotEligible, NothingToDo, RequirementsRefused
from irontree.services.proposals.adoption import (
    adopted_plan,
    approval_digest,
    clash,
    issue_now,
    issue_to_divide,
    number_of,
    plan_for,
    read_adoptable,
    why_not,
)
from irontree.services.proposals.branch import follows_the_work, policy_on_branch
from irontree.services.proposals.proposal import (
    PLAIN,
    ApprovalChoices,
    Draft,
    DraftPlan,
    DraftTask,
    Excluded,
    Proposal,
    of_another_branch,
    propose_from,
)
from irontree.services.record import World, archive_path, is_approved_for, read_world
from irontree.services.views.overview import phase_words, waits_for
from irontree.services.work.preflight import changed_since_approval, existing_issue, is_changed


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """A document, by its path relative to the repository. Without *loop_mode*, an approval in either mode counts.

    *branch* is what somebody chose for a workflow file (`services/proposals/branch.py`).
    """

    spec_path: str
    loop_mode: bool = True
    text: str | None = None
    """Used if the file no longer exists."""
    branch: str = ""

    def read(self, app: App, world: World) -> Draft:
        """All tasks of the document in one plan.

        Raises RequirementsRefused with every problem of the document at once, if it cannot be read, or if a task key
        belongs to another document already (R8).
        """
        requirements = read_document(self._bytes(app), self.spec_path, known_issues=world.known_issues)
        return draft_of(app, world, requirements, loop_mode=self.loop_mode, branch=self.branch)

    def _bytes(self, app: App) -> bytes:
        document = app.repository.root / self.spec_path
        if self.text is not None and not document.is_file():
            return self.text.encode()
        try:
            return document.read_bytes()
        except OSError as error:
            raise RequirementsRefused((f"{self.spec_path}: {error.strerror}",)) from error


def draft_of(app: App, world: World, requirements: Requirements, *, loop_mode: bool, branch: str = "") -> Draft:
    """The draft of *requirements*: one plan of all their tasks, which replaces the document's earlier plan.

    Raises RequirementsRefused if a task key belongs to another document already (R8), and what `policy_on_branch` does.
    """
    spec_path = requirements.name
    there = None
    if requirements.divides:
        root, there = issue_to_divide(app, world, requirements.divides, spec_path)
        requirements = requirements.under(root)
    _refuse_foreign_keys(world, requirements, spec_path)
    known = newest_plan(app, spec_path)
    policy = policy_on_branch(app, requirements, known, branch)
    same = known and digest_of(known) == requirements.digest and known.policy == policy
    named = known and (known.loop_mode or not loop_mode) and not known.imported
    plan = _plan(app, requirements, policy).model_copy(update={"divides": there})
    return Draft(
        what=spec_path,
        digest=_document_digest(plan),
        says=f"{spec_path} is",
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
        switches=known is None and follows_the_work(requirements, policy.publish),
    )


def propose(
    app: App,
    document: Path,
    *,
    loop_mode: bool = True,
    choices: ApprovalChoices = PLAIN,
    intent: str = "",
    branch: str = "",
) -> Proposal:
    """Read *document* and return what approving it would do; writes nothing. *intent* is the text that was typed.

    *branch* is what somebody chose for a workflow file. Raises the errors of `DocumentSource.read`.
    """
    spec_path = _relative(app, document)
    return propose_from(app, DocumentSource(spec_path, loop_mode, branch=branch), intent or spec_path, choices)


def _document_digest(plan: Plan) -> str:
    nodes = [node.digest for node in plan.nodes]
    covered = [plan.spec_path, digest_of(plan), nodes, plan.policy.digest, plan.budget_max_transitions]
    return canonical_digest(covered)


def _plan(app: App, requirements: Requirements, policy: ExecutionPolicy) -> Plan:
    return Plan(
        spec_revision=requirements.revision,
        digest=requirements.digest,
        spec_path=requirements.name,
        source=requirements.source,
        nodes=requirements.nodes,
        policy=policy,
        budget_max_transitions=app.preferences().loop_budget or default_budget(len(requirements.nodes)),
    )


def _tasks(app: App, world: World, plan: Plan) -> Iterator[DraftTask]:
    graph = Graph.of(plan.nodes)
    for node in plan.nodes:
        state, there = world.states.get(node.task_key), existing_issue(plan, node)
        yield DraftTask(
            node,
            plan,
            status=str(phase_words(world, state)) if state else "there already" if there else "new",
            number=state.issue_number if state else there.issue_number if there else 0,
            due=state is None or (not state.done and is_changed(app, node, state)),
            depth=len(graph.ancestors(node.task_key)),
        )


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


def newest_plan(app: App, spec_path: str, besides: Plan | None = None) -> Plan | None:
    """The document's most recently approved plan, ignoring *besides* and what has its text; None if it has none."""
    plans = (app.plans.load(revision) for revision in reversed(app.plans.revisions()))
    of_document = (plan for plan in plans if plan and plan.spec_path == spec_path)
    return next((plan for plan in of_document if not besides or digest_of(plan) != digest_of(besides)), None)


def _relative(app: App, document: Path) -> str:
    resolved, root = document.resolve(), app.repository.root.resolve()
    return str(resolved.relative_to(root)) if resolved.is_relative_to(root) else str(resolved)


def _refuse_foreign_keys(world: World, requirements: Requirements, spec_path: str) -> None:
    mine = requirements.divides
    others = (item for item in world.plans.items() if not (item[1].adoption and item[1].adoption.issue_number == mine))
    owners = {key: plan.spec_path for key, plan in others}
    of_steps = any(node.step for node in requirements.nodes)
    remedy = "Give the file another name." if of_steps else "Give it another title, or a `Key:` of its own."
    clashes = tuple(
        f"{spec_path}:{node.line or 1}: task key {node.task_key} belongs to {owners[node.task_key]} already. {remedy}"
        for node in requirements.nodes
        if owners.get(node.task_key, spec_path) != spec_path
    )
    if clashes:
        raise RequirementsRefused(clashes)


# --- Documents that differ from their committed version


def uncommitted_documents(app: App, keys: Iterable[str]) -> tuple[str, ...]:
    """Paths of these tasks' documents that differ from HEAD."""
    head, plans = app.repository.read_ref("HEAD"), read_world(app).plans
    if head is None:
        return ()
    paths = {plans[key].spec_path for key in keys if key in plans and not plans[key].adoption}
    own = {path for path in paths if not path.startswith(".mino/")}  # what members wrote is kept there, in no commit
    return tuple(path for path in sorted(own) if _differs(app, head, path))


def _differs(app: App, head: str, path: str) -> bool:
    file, committed = app.repository.root / path, app.repository.document_at(head, path)
    if not file.is_file() or committed is None:
        return file.is_file()
    here = file.read_text(encoding="utf-8", errors="replace")
    return approved_text(committed.text, path) != approved_text(here, path)


# --- Existing issues as a source (protocol, Intent Resolution)


DONE: Final = "it is done"


@dataclass(frozen=True, slots=True)
class IssueSource:
    """Issues given by number or found by a query; each is a task with a plan of its own."""

    asked: Issues | OpenIssues

    def read(self, app: App, world: World) -> Draft:
        """The tasks of these issues, and what is left out and why.

        Named issues must all be eligible: raises NotEligible for the first that is not (batch abort), or NeedsBreakdown
        if that one is composite. A query leaves out what is not eligible. Raises NothingToDo if no task remains, and
        NotEligible for tasks that wait for each other.
        """
        asked = self.asked
        found = _assess(app, world, _named(app, asked) if isinstance(asked, Issues) else _found(app, asked))
        if isinstance(asked, Issues):
            bad = next((each for each in found if isinstance(each, Excluded) and not each.finished), None)
            if bad:
                raise _aborted(world, found, bad)
        else:
            found = [_without_open_questions(each) for each in found]
        tasks = tuple(each for each in found if isinstance(each, DraftTask))
        excluded = tuple(each for each in found if isinstance(each, Excluded))
        if not tasks:
            raise _nothing_to_do(asked, excluded)
        _refuse_cycles(tasks)
        policy = next((task.plan.policy for task in tasks if task.due), tasks[0].plan.policy)
        budget = app.preferences().loop_budget or default_budget(len(tasks))
        return Draft(
            what=asked.query,
            digest=_digest(asked.query, tasks, policy, budget),
            says=f"what {asked.query} resolves to is",
            tasks=tasks,
            plans=tuple(DraftPlan(task.plan, world.plans.get(task.node.task_key)) for task in tasks if task.due),
            policy=policy,
            budget=budget,
            excluded=excluded,
            warnings=tuple(line for task in tasks for line in (*task.warnings, *of_another_branch(task, policy))),
        )


@dataclass(frozen=True, slots=True)
class AdoptedSource:
    """The adopted issue of *plan*, with its text as it is now: what its form asks to approve again."""

    plan: Plan

    def read(self, app: App, world: World) -> Draft:
        """Its text and today's settings. Raises ApprovalRefused if it cannot be approved."""
        now, number = issue_now(app, world, self.plan), number_of(self.plan)
        return Draft(
            what=now.spec_path,
            digest=approval_digest(now),
            says=f"#{number} is",
            tasks=(DraftTask(now.nodes[0], now, "adopted", number, due=True),),
            plans=(DraftPlan(now, self.plan),),
            policy=now.policy,
            budget=now.budget_max_transitions,
            look=f"look at it again: `irontree task '#{number}' --plan`, then approve",
        )


def resolve(app: App, asked: Issues | OpenIssues, words: str) -> Proposal:
    """What approving *asked*, read from *words*, would do; writes nothing. Also raises the errors of `Source.read`.

    A single issue that members of the team have talked over is divided as they claim, unless somebody adopted it.
    """
    match asked:
        case Issues((number,)) if (draft := drafted(app, number)) and not adopted_plan(read_world(app), number):
            return propose_from(app, draft, words)
    return propose_from(app, IssueSource(asked), words)


def drafted(app: App, issue_number: int) -> DocumentSource | None:
    """The document that divides the issue by what members of the team claim; None if there is none."""
    text = app.agent_requests.draft(issue_number)
    return DocumentSource(app.agent_requests.draft_path(issue_number), text=text) if text else None


def _digest(query: str, tasks: Sequence[DraftTask], policy: ExecutionPolicy, budget: int) -> str:
    """Over the exact tasks with their texts and all their settings; a single issue has its own name."""
    if len(tasks) == 1 and tasks[0].plan.adoption:
        return approval_digest(tasks[0].plan)
    texts = [[task.number, task.status, digest_of(task.plan), task.node.digest] for task in tasks]
    settings = [policy.digest, budget, *(task.plan.policy.digest for task in tasks)]
    return canonical_digest([query, texts, settings])


def _named(app: App, intent: Issues) -> list[tuple[int, Issue | None]]:
    return [(number, app.forge().read_issue(number)) for number in intent.numbers]


def _found(app: App, intent: OpenIssues) -> list[tuple[int, Issue | None]]:
    found = app.forge().open_issues(ADOPTED)[: intent.limit]
    return [(issue.number, issue) for issue in found]


def _assess(app: App, world: World, issues: Iterable[tuple[int, Issue | None]]) -> list[DraftTask | Excluded]:
    """Each issue as a task or an exclusion; the unfinished parts of a published composite are added."""
    issues = list(issues)
    known = world.known_issues | _keys_to_be(app, world, issues)
    found: dict[int, DraftTask | Excluded] = {}
    for number, issue in issues:
        for each in _one(app, world, number, issue, known):
            found.setdefault(each.number, each)
    return _without_clashes(list(found.values()))


def _keys_to_be(app: App, world: World, issues: Iterable[tuple[int, Issue | None]]) -> dict[int, str]:
    """The keys that new issues of the set will have, because others of the set may depend on them."""
    issues = tuple(issues)
    if len(issues) < 2:  # noqa: PLR2004
        return {}
    new = [issue for number, issue in issues if issue and world.find(number) is None]
    earlier = {issue.number: plan.nodes[0].task_key for issue in new if (plan := adopted_plan(world, issue.number))}
    numbers = world.known_issues | {issue.number: f"issue-{issue.number}" for issue in new}
    policy = app.policy(None)
    keys = {issue.number: read_adoptable(app, policy, issue, numbers).node.task_key for issue in new}
    return keys | earlier


def _one(
    app: App, world: World, number: int, issue: Issue | None, known: Mapping[int, str]
) -> list[DraftTask | Excluded]:
    state = world.find(number)
    plan = world.plans.get(state.task_key) if state else None
    if issue is None:
        return [Excluded(number, f"issue {number}", f"there is no issue #{number} here", "check the number")]
    if state and plan and plan.adoption is None:
        return _published(app, world, state, issue)
    return [_adopted(app, world, issue, state, known)]


def _published(app: App, world: World, state: TaskState, issue: Issue) -> list[DraftTask | Excluded]:
    """A task published from a document joins unchanged, if it is still as approved."""
    plan, node = world.plan(state), world.node(state)
    reason, remedy = _why_not_as_it_is(app, world, state, issue)
    if reason:
        return [Excluded(state.issue_number, node.title, reason, remedy, finished=state.done)]
    parts = [world.states[key] for key in world.children.get(node.task_key, ()) if key in world.states]
    own = DraftTask(node, plan, "published", state.issue_number, warnings=_waiting(world, state))
    return [own, *(found for part in parts if not part.done for found in _published_part(app, world, part))]


def _published_part(app: App, world: World, state: TaskState) -> list[DraftTask | Excluded]:
    issue = app.forge().read_issue(state.issue_number)
    return _published(app, world, state, issue) if issue else []


def _why_not_as_it_is(app: App, world: World, state: TaskState, issue: Issue) -> tuple[str, str]:
    """Why a published task cannot join, and the remedy; empty if it can."""
    document = world.plan(state).spec_path
    if state.problem:
        return state.problem, state.way_out
    if state.done:
        return DONE, ""
    if state.task_key in world.cancelled:
        return f"it was cancelled: {document} was approved without it", "put it back into the document, approve that"
    if issue.state == "closed":
        return "it is closed, but not done by evidence", "`irontree checkup reconcile` asks what that means"
    changed = changed_since_approval(app, world, state)
    return (changed, f"approve {document} again: `irontree task {document}`") if changed else ("", "")


def _adopted(
    app: App, world: World, issue: Issue, state: TaskState | None, known: Mapping[int, str]
) -> DraftTask | Excluded:
    problem = why_not(app, world, issue)
    if problem:
        return _left_out(issue, problem, finished=bool(state and state.done))
    plan = plan_for(app, world, issue, known)
    if problem := clash(app, world, plan):
        return _left_out(issue, problem)
    earlier = adopted_plan(world, issue.number)
    same_text = state is not None and is_approved_for(app, state, plan)
    if state and state.done and same_text:
        return Excluded(issue.number, issue.title, DONE, finished=True)
    if state and earlier and same_text and _is_in_force(earlier, plan, state):
        return DraftTask(earlier.nodes[0], earlier, "adopted", issue.number, warnings=_waiting(world, state))
    archive = _archive(app, issue.number, state) if not same_text else ""
    status = "re_adopted" if archive else "adopted"
    return DraftTask(plan.nodes[0], plan, status, issue.number, due=True, archive=archive)


def _is_in_force(earlier: Plan, now: Plan, state: TaskState) -> bool:
    """Whether it was approved with these settings; comments posted since change nothing (R7: title and body)."""
    waits = state.phase in (Phase.ADOPTED, Phase.STALE)
    approved = earlier.approval is not None and not earlier.imported
    return approved and earlier.policy == now.policy and not waits


def _archive(app: App, number: int, state: TaskState | None) -> str:
    """Where the present stream will be archived, or the last one was; empty if there is neither."""
    if state:
        return archive_path(app.log.archive_name(number, state.approved_revision))
    archives = app.log.archives(number)  # a crash came between archiving and the first event
    return archive_path(archives[-1]) if archives else ""


def _left_out(issue: Issue, problem: Ineligible, *, finished: bool = False) -> Excluded:
    return Excluded(issue.number, issue.title, problem.reason, problem.remedy, finished, problem.composite)


def _waiting(world: World, state: TaskState) -> tuple[str, ...]:
    waiting = waits_for(world, state.task_key)
    return (f"#{state.issue_number} waits for {', '.join(waiting)}",) if waiting else ()


def _without_clashes(found: list[DraftTask | Excluded]) -> list[DraftTask | Excluded]:
    """Leave out the second of two issues that would have the same key (R8)."""
    owners: dict[str, int] = {}
    return [_checked(each, owners) if isinstance(each, DraftTask) else each for each in found]


def _checked(task: DraftTask, owners: dict[str, int]) -> DraftTask | Excluded:
    key = task.node.task_key
    owner = owners.setdefault(key, task.number)
    if owner == task.number:
        return task
    reason = f"#{task.number} has the same task key as #{owner}: {key}"
    return Excluded(task.number, task.node.title, reason, "give it another title, or a line `Key: another-key`")


def _without_open_questions(each: DraftTask | Excluded) -> DraftTask | Excluded:
    if isinstance(each, Excluded) or not (each.due and each.node.open_questions):
        return each
    return Excluded(each.number, each.node.title, "; ".join(each.node.open_questions), "answer in the issue")


def _aborted(world: World, found: list[DraftTask | Excluded], bad: Excluded) -> NotEligible:
    """The error for a named issue that is not eligible: then none of them is worked on (contract, batch abort)."""
    reason = bad.reason if len(found) == 1 else _batch_words(world, found, bad)
    if bad.composite:
        return NeedsBreakdown(reason, number=bad.number, remedy=bad.remedy)
    return NotEligible(reason, remedy=bad.remedy)


def _batch_words(world: World, found: list[DraftTask | Excluded], bad: Excluded) -> str:
    numbers = [each.number for each in found if adopted_plan(world, each.number)]
    names = f": {', '.join(f'#{number}' for number in numbers)}" if numbers else ""
    reason = f"Batch adopt aborted at #{bad.number}: {bad.reason.rstrip('.')}."
    return f"{reason} {len(numbers)} issue(s) already adopted{names}"


def _nothing_to_do(intent: Issues | OpenIssues, excluded: tuple[Excluded, ...]) -> NothingToDo:
    if excluded:
        reasons = "; ".join(f"#{each.number}: {each.reason.rstrip('.')}" for each in excluded)
        remedies = dict.fromkeys(each.remedy for each in excluded if each.remedy)
        return NothingToDo(
            f"nothing can be done here. {reasons}",
            remedy="; ".join(remedies) or "`irontree status` shows where each issue is",
        )
    return NothingToDo(
        f"there are no {intent.query}", remedy="adopt some: `irontree task adopt issue-N`, or name them: '#12 #13'"
    )


def _refuse_cycles(tasks: Iterable[DraftTask]) -> None:
    nodes = [task.node.model_copy(update={"line": place}) for place, task in enumerate(tasks, start=1)]
    cycles = Graph.of(nodes).cycles
    if cycles:
        raise NotEligible(
            f"these wait for each other: {' -> '.join(cycles[0])}", remedy="remove one of their `Depends on:` lines"
        )
