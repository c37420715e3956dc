"""What issue numbers and queries ask for, resolved once and frozen: the Resolved Plan (protocol, Intent Resolution)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from irontree.app import App
from irontree.domain.adoption import Ineligible
from irontree.domain.commands import Issues, OpenIssues
from irontree.domain.gates import require_typed
from irontree.domain.graph import Graph
from irontree.domain.loop import default_budget
from irontree.domain.plan import ExecutionPolicy, Plan, PlanNode, canonical_digest
from irontree.domain.state import ADOPTED, Phase, TaskState
from irontree.errors import ApprovalRefused, NeedsBreakdown, NotEligible, NothingToDo
from irontree.ports import Issue
from irontree.services.loops.choice import open_loop_over
from irontree.services.loops.loop import Loop, derive_loop_id
from irontree.services.proposals.adoption import (
    adopted_plan,
    archive_path,
    clash,
    plan_for,
    read_adoptable,
    require_answered,
    state_of,
    why_not,
)
from irontree.services.record.world import World, read_world
from irontree.services.views.overview import waits_for
from irontree.services.work.staleness import changed_since_approval

AdoptionStatus = Literal["published", "adopted", "re_adopted"]
DONE: Final = "it is done"


@dataclass(frozen=True, slots=True)
class Member:
    """One task of the Resolved Plan. `due`: its plan has to be written, and its issue taken in or approved."""

    number: int
    node: PlanNode
    plan: Plan
    status: AdoptionStatus
    due: bool = False
    archive: str = ""
    """Where the stream of a re-adopted issue goes."""
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
class ResolvedPlan:
    """Everything an approval of a set of issues is about, frozen (protocol, Intent Resolution)."""

    intent: str
    """The words as they were typed."""
    asked: Issues | OpenIssues
    """What they were read as."""
    members: tuple[Member, ...]
    excluded: tuple[Excluded, ...]
    policy: ExecutionPolicy
    """Today's settings: those that issues which are taken in are approved with."""
    budget: int
    loop_id: str = ""
    """The loop that the approval starts, or that goes on."""
    open_loop: Loop | None = None
    """An open loop over exactly these tasks, less those that are done: it goes on."""

    @property
    def query(self) -> str:
        """What was looked up."""
        return self.asked.query

    @property
    def nodes(self) -> tuple[PlanNode, ...]:
        """What the tasks say, in order."""
        return tuple(member.node for member in self.members)

    @property
    def keys(self) -> tuple[str, ...]:
        """The frozen set."""
        return tuple(member.node.task_key for member in self.members)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Keys of tasks that were skipped in the loop that goes on: it goes on without them."""
        return tuple(key for key in self.keys if self.open_loop and key in self.open_loop.cancelled)

    @property
    def due(self) -> tuple[Member, ...]:
        """What has to be approved; the others were approved before, and join as they are."""
        return tuple(member for member in self.members if member.due)

    @property
    def approved(self) -> bool:
        """Whether a person has approved exactly this, in Loop Mode (rulings R6, R17)."""
        return self.open_loop is not None and not self.due

    @property
    def name(self) -> str:
        """What an approval names, `SET-SETTINGS`: the exact tasks with their texts, and all their settings."""
        tasks = [[m.number, m.status, m.plan.spec_revision, m.node.digest] for m in self.members]
        settings = [self.policy.digest, self.budget, *(member.plan.policy.digest for member in self.members)]
        return f"{canonical_digest([self.query, *tasks])[:8]}-{canonical_digest(settings)[:8]}"

    @property
    def what(self) -> str:
        """What is to be approved, in words."""
        return self.query

    @property
    def approved_by(self) -> str:
        """Empty: each of the tasks was approved on its own."""
        return ""

    @property
    def approved_in_words(self) -> str:
        """That exactly this was approved before; empty if it was not."""
        without = f", in which these were skipped: {', '.join(self.skipped)}" if self.skipped else ""
        return f"All of {self.query} is approved, and in loop {self.loop_id}{without}" if self.approved else ""

    @property
    def stamp(self) -> str:
        """Which loop goes on, as it was shown, and without what. The name has all else."""
        return " ".join((self.open_loop.id, *self.skipped)) if self.open_loop else "new"

    def require_named(self, given: str) -> None:
        """Raise ApprovalRefused unless *given* (any case) names exactly this set with these settings."""
        require_typed(given, self.name)
        if given.lower() != self.name:
            raise self.refused(f"{given} was approved, but what {self.query} resolves to now is {self.name}")

    def require_clear(self) -> None:
        """Raise ApprovalRefused while an issue of the set leaves something open."""
        for member in self.due:
            require_answered(member.plan)

    def refused(self, found: str) -> ApprovalRefused:
        """Why an approval of this is not taken."""
        return ApprovalRefused(found, remedy=f"look at it again and approve what it is now: {self.name}")


def resolve(app: App, intent: Issues | OpenIssues, words: str) -> ResolvedPlan:
    """What *words*, read as *intent*, ask for now. Writes nothing.

    Issues that were named must all fit: raises NotEligible for the first that does not (batch abort). A query leaves
    out what does not fit, and says why. Raises NotEligible too where nothing is left to do, and NeedsBreakdown for a
    named issue that is composite.
    """
    world = read_world(app)
    issues = _named(app, intent) if isinstance(intent, Issues) else _found(app, intent)
    found = _assess(app, world, issues)
    if isinstance(intent, Issues):
        bad = next((each for each in found if isinstance(each, Excluded) and not each.finished), None)
        if bad:
            raise _aborted(world, found, bad)
    else:
        found = [_without_open_questions(each) for each in found]
    members = tuple(each for each in found if isinstance(each, Member))
    excluded = tuple(each for each in found if isinstance(each, Excluded))
    if not members:
        raise _nothing_to_do(intent, excluded)
    _refuse_cycles(members)
    loop = _open_loop(app, world, members)
    resolved = ResolvedPlan(
        intent=words,
        asked=intent,
        members=members,
        excluded=excluded,
        policy=next((member.plan.policy for member in members if member.due), members[0].plan.policy),
        budget=app.preferences().loop_budget or default_budget(len(members)),
        open_loop=loop,
    )
    return replace(resolved, loop_id=loop.id if loop else derive_loop_id(app, resolved.name))


def left_in(loop: Loop, world: World) -> frozenset[str]:
    """What the loop still has to do."""
    return frozenset(key for key in loop.keys if not world.is_done(key))


def _open_loop(app: App, world: World, members: Iterable[Member]) -> Loop | None:
    keys = {member.node.task_key for member in members}
    return open_loop_over(app, keys, besides=[key for key in world.states if world.is_done(key)])


def _named(app: App, intent: Issues) -> list[tuple[int, Issue | None]]:
    return [(number, app.forge().read_issue(number)) for number in intent.numbers]


def _found(app: App, intent: OpenIssues) -> list[tuple[int, Issue | None]]:
    found = app.forge().open_issues(ADOPTED)[: intent.limit]
    return [(issue.number, issue) for issue in found]


def _assess(app: App, world: World, issues: Iterable[tuple[int, Issue | None]]) -> list[Member | Excluded]:
    """What becomes of each; the parts of a published composite join it."""
    issues = list(issues)
    known = world.known_issues | _keys_to_be(app, world, issues)
    found: dict[int, Member | Excluded] = {}
    for number, issue in issues:
        for each in _one(app, world, number, issue, known):
            found.setdefault(each.number, each)
    return _without_clashes(list(found.values()))


def _keys_to_be(app: App, world: World, issues: Iterable[tuple[int, Issue | None]]) -> dict[int, str]:
    """The keys that new issues of the set will have: others of the set may depend on them."""
    new = [issue for number, issue in issues if issue and state_of(world, number) is None]
    earlier = {issue.number: plan.nodes[0].task_key for issue in new if (plan := adopted_plan(world, issue.number))}
    numbers = world.known_issues | {issue.number: f"issue-{issue.number}" for issue in new}
    keys = {issue.number: read_adoptable(app, issue, numbers).node.task_key for issue in new}
    return keys | earlier


def _one(app: App, world: World, number: int, issue: Issue | None, known: Mapping[int, str]) -> list[Member | Excluded]:
    state = state_of(world, number)
    plan = world.plans.get(state.task_key) if state else None
    if issue is None:
        return [Excluded(number, f"issue {number}", f"there is no issue #{number} here", "look at the number again")]
    if state and plan and plan.adoption is None:
        return _published(app, world, state, issue)
    return [_adopted(app, world, issue, state, known)]


def _published(app: App, world: World, state: TaskState, issue: Issue) -> list[Member | Excluded]:
    """A task that was made from a document joins as it is, if it still is what was approved."""
    plan, node = world.plan(state), world.node(state)
    reason, remedy = _why_not_as_it_is(app, world, state, issue)
    if reason:
        return [Excluded(state.issue_number, node.title, reason, remedy, finished=state.done)]
    parts = [world.states[key] for key in world.children.get(node.task_key, ()) if key in world.states]
    own: Member | Excluded = Member(state.issue_number, node, plan, "published", warnings=_waiting(world, state))
    return [own, *(found for part in parts if not part.done for found in _published_part(app, world, part))]


def _published_part(app: App, world: World, state: TaskState) -> list[Member | Excluded]:
    issue = app.forge().read_issue(state.issue_number)
    return _published(app, world, state, issue) if issue else []


def _why_not_as_it_is(app: App, world: World, state: TaskState, issue: Issue) -> tuple[str, str]:
    """Why a published task cannot join, and what to do about it; empty if it can."""
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
) -> Member | Excluded:
    problem = why_not(app, world, issue)
    if problem:
        return _left_out(issue, problem, finished=bool(state and state.done))
    plan = plan_for(app, world, issue, known)
    if problem := clash(app, world, plan):
        return _left_out(issue, problem)
    earlier = adopted_plan(world, issue.number)
    same_text = state is not None and state.approved_revision == plan.spec_revision
    if state and state.done and same_text:
        return Excluded(issue.number, issue.title, DONE, finished=True)
    if state and earlier and same_text and _is_in_force(earlier, plan, state):
        return Member(issue.number, earlier.nodes[0], earlier, "adopted", warnings=_waiting(world, state))
    archive = _archive(app, issue.number, state) if not same_text else ""
    status: AdoptionStatus = "re_adopted" if archive else "adopted"
    return Member(issue.number, plan.nodes[0], plan, status, due=True, archive=archive)


def _is_in_force(earlier: Plan, now: Plan, state: TaskState) -> bool:
    """Whether it was approved with these settings; comments that came since change nothing (R7: title and body)."""
    waits = state.phase in (Phase.ADOPTED, Phase.STALE)
    return earlier.approval is not None and earlier.policy == now.policy and not waits


def _archive(app: App, number: int, state: TaskState | None) -> str:
    """Where the stream before this one is, or goes to; empty if there is none."""
    if state:
        return archive_path(app.log.archive_name(number, state.approved_revision))
    archives = app.log.archives(number)  # taking it in anew was cut short between archiving and the first event
    return archive_path(archives[-1]) if archives else ""


def _left_out(issue: Issue, problem: Ineligible, *, finished: bool = False) -> Excluded:
    return Excluded(issue.number, issue.title, problem.reason, problem.remedy, finished, problem.composite)


def _waiting(world: World, state: TaskState) -> tuple[str, ...]:
    waiting = waits_for(world, state.task_key)
    return (f"#{state.issue_number} waits for {', '.join(waiting)}",) if waiting else ()


def _without_clashes(found: list[Member | Excluded]) -> list[Member | Excluded]:
    """Of two issues that would have one key, the second is left out (ruling R8)."""
    owners: dict[str, int] = {}
    return [_checked(each, owners) if isinstance(each, Member) else each for each in found]


def _checked(member: Member, owners: dict[str, int]) -> Member | Excluded:
    key = member.node.task_key
    owner = owners.setdefault(key, member.number)
    if owner == member.number:
        return member
    reason = f"#{member.number} has the same task key as #{owner}: {key}"
    return Excluded(member.number, member.node.title, reason, "give it another title, or a line `Key: another-key`")


def _without_open_questions(each: Member | Excluded) -> Member | Excluded:
    if isinstance(each, Excluded) or not (each.due and each.node.open_questions):
        return each
    return Excluded(each.number, each.node.title, "; ".join(each.node.open_questions), "answer in the issue")


def _aborted(world: World, found: list[Member | Excluded], bad: Excluded) -> NotEligible:
    """An issue that was named cannot be worked on, so none is (contract, batch abort)."""
    reason = bad.reason if len(found) == 1 else _batch_words(world, found, bad)
    if bad.composite:
        return NeedsBreakdown(reason, number=bad.number, remedy=bad.remedy)
    return NotEligible(reason, remedy=bad.remedy)


def _batch_words(world: World, found: list[Member | Excluded], bad: Excluded) -> str:
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


def _refuse_cycles(members: Iterable[Member]) -> None:
    nodes = [member.node.model_copy(update={"line": place}) for place, member in enumerate(members, start=1)]
    cycles = Graph.of(nodes).cycles
    if cycles:
        raise NotEligible(
            f"these wait for each other: {' -> '.join(cycles[0])}", remedy="remove one of their `Depends on:` lines"
        )
