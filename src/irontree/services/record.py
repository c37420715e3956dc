"""The record of a repository: one view of log and plans at one moment, and how events are written (R2, R9).

An event is durably in the log before it has any effect. Also defines the names of refs, transcripts and messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from irontree.app import App
from irontree.domain.decide import Scope
from irontree.domain.events import IssueEvent, Record
from irontree.domain.halt import HaltRule, halt_of
from irontree.domain.ids import attempt_folder, digest_of, filed_as
from irontree.domain.machine import Replay, carried_over, evolve
from irontree.domain.plan import Plan, PlanNode, PublishPolicy, canonical_json
from irontree.domain.spending import Spending
from irontree.domain.state import Phase, TaskState
from irontree.domain.task_types import TASK_TYPES, close_on_done
from irontree.domain.text import TRUNCATION_MARKER, one_line, without_closing
from irontree.domain.timestamps import stamp
from irontree.domain.values import CloseOnDone
from irontree.errors import AccessRefused, LogDamaged, NotEligible, RemoteFailed, RemoteUnavailable
from irontree.files import read_beneath
from irontree.ports import Problem

_RESULT_BYTES = 16 * 1024 * 1024
NOTHING_OVERSPENT: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class World:
    """States and nodes by task key. A node comes from the newest plan that lists it (R7)."""

    states: Mapping[str, TaskState]
    plans: Mapping[str, Plan]
    """The plan in force, by task key."""
    nodes: Mapping[str, PlanNode]
    """The nodes in `approved`, without dependencies on cancelled tasks (R7)."""
    children: Mapping[str, tuple[str, ...]]
    replays: Mapping[int, Replay]
    approved: Mapping[str, PlanNode]
    cancelled: frozenset[str] = frozenset()
    """Keys of unfinished tasks that the last approval of their document left out: no one works on them (R7)."""
    problems: tuple[Problem, ...] = ()
    spendings: Mapping[int, tuple[Spending, ...]] = field(default_factory=dict)
    """What agents spent, by issue number, according to the streams in force."""

    @property
    def known_issues(self) -> dict[int, str]:
        """The task keys that `#N` may stand for, by issue number."""
        return {state.issue_number: key for key, state in self.states.items()}

    @property
    def limited(self) -> bool:
        """Whether any spending by agents has a limit; if not, nothing is counted."""
        return any(plan.policy.budgets for plan in self.plans.values())

    def find(self, issue_number: int) -> TaskState | None:
        """The state of that issue; None if it has no readable events."""
        found = self.replays.get(issue_number)
        return found.state if found else None

    def state(self, issue_number: int) -> TaskState:
        """The state of that issue. Raises NotEligible if it has no readable events."""
        found = self.find(issue_number)
        if found is None:
            raise NotEligible(
                f"issue-{issue_number} is not known here: it has no readable events",
                remedy="`irontree status` lists the issues that are",
            )
        return found

    def node(self, state: TaskState) -> PlanNode:
        """The node approved for that issue. Raises NotEligible if no plan lists it."""
        return self.plan(state).node(state.task_key)

    def plan(self, state: TaskState) -> Plan:
        """The plan in force for that issue. Raises NotEligible if no plan lists it."""
        if state.task_key not in self.plans:
            raise NotEligible(
                f"issue-{state.issue_number} ({state.task_key}) is in no approved plan",
                remedy=state.way_to_plan,
            )
        return self.plans[state.task_key]

    def is_done(self, task_key: str) -> bool:
        """Whether that task has an issue that is done."""
        state = self.states.get(task_key)
        return state is not None and state.done

    def is_proven(self, task_key: str) -> bool:
        """Whether that task has completion evidence: it is done, or only has to be finalized."""
        state = self.states.get(task_key)
        return state is not None and state.phase in (Phase.VERIFIED, Phase.DONE)

    def halt_of(self, state: TaskState) -> HaltRule | None:
        """The rule that halts at this issue; None if it may continue or its task was cancelled."""
        return None if state.task_key in self.cancelled else halt_of(state)

    def require_wanted(self, state: TaskState) -> None:
        """Raise NotEligible for a task that was cancelled."""
        if state.task_key in self.cancelled:
            raise NotEligible(
                f"issue-{state.issue_number} was cancelled: {self.plan(state).spec_path} was approved without it",
                remedy="put it back into the document and approve that",
            )

    def landed(self, state: TaskState) -> str | None:
        """The commit of finished work that was pushed to its target; `None` of all other work.

        A request may be squashed when it is merged: its commit need not be there.
        """
        plan = self.plans.get(state.task_key)
        published = state.code_publication_state == "published" and state.phase in (Phase.VERIFIED, Phase.DONE)
        pushed = plan is not None and plan.policy.publish.pushes and not state.request
        return state.code_ref if published and pushed else None

    def publishes_to(self, state: TaskState, policy: PublishPolicy) -> bool:
        """Whether finished work of that task goes to the same branch of the same remote."""
        own = self.plans[state.task_key].policy.publish if state.task_key in self.plans else None
        return own is not None and (own.remote, own.target_branch) == (policy.remote, policy.target_branch)

    def scope(
        self, keys: Iterable[str], budget_left: int = 1, overspent: Mapping[str, str] = NOTHING_OVERSPENT
    ) -> Scope:
        """The input of `decide` for these tasks, without the cancelled ones."""
        wanted = tuple(key for key in keys if key not in self.cancelled)
        return Scope(self.nodes, self.states, wanted, self.children, budget_left, overspent, self._going_on(wanted))

    def _going_on(self, keys: Iterable[str]) -> frozenset[str]:
        """Those of *keys* whose plan lets others go on while they wait for a person (R17)."""
        plans = ((key, self.plans.get(key)) for key in keys)
        return frozenset(key for key, plan in plans if plan and plan.policy.on_halt == "go_on")


def read_world(app: App) -> World:
    """Replay every stream and read every plan; unreadable files become problems."""
    readings = app.replays.all()
    problems = tuple(problem for reading in readings.values() for problem in reading.problems)
    replays = {number: reading.replay for number, reading in readings.items()}
    plans, damaged = read_plans(app)
    world = _world(replays, plans, (*problems, *_lost(replays), *damaged))
    return replace(world, spendings={number: reading.spendings for number, reading in readings.items()})


def state_of(app: App, issue_number: int) -> TaskState | None:
    """The state of one issue, without reading the others; None if none of its events can be read."""
    return app.log.read(issue_number).replayed().state


def _lost(replays: Mapping[int, Replay]) -> tuple[Problem, ...]:
    """Issues whose first event cannot be read: they have no state that could show a problem."""
    return tuple(
        Problem(f".mino/events/issue-{number}", replay.problem or "its first event is missing: nothing is known of it")
        for number, replay in replays.items()
        if replay.state is None and (replay.problem or replay.missing)
    )


def approved_plan(app: App, state: TaskState) -> Plan | None:
    """The plan that the issue's stream began with, by its whole digest; by the label where the log has only that."""
    return app.plans.load(state.approved_digest or state.approved_revision)


def is_approved_for(app: App, state: TaskState, plan: Plan) -> bool:
    """Whether the issue's stream began with exactly the text of *plan*."""
    if state.approved_digest:
        return state.approved_digest == digest_of(plan)
    known = approved_plan(app, state)
    return state.approved_revision == plan.spec_revision and (known is None or digest_of(known) == digest_of(plan))


def plan_file(app: App, plan: Plan) -> str:
    """Where the plan is on disk, for messages."""
    return f".mino/plans/{filed_as(plan, app.plans.load(plan.spec_revision))}.yml"


def read_plans(app: App) -> tuple[tuple[Plan, ...], tuple[Problem, ...]]:
    """Plans, oldest first, and the problems of those that cannot be read (R13: no exception stops `status`)."""
    plans: list[Plan] = []
    problems: list[Problem] = []
    for revision in app.plans.revisions():
        try:
            plan = app.plans.load(revision)
        except LogDamaged as error:
            problems.append(Problem(f".mino/plans/{revision}.yml", error.message))
            continue
        plans += [plan] if plan else []
    return tuple(plans), tuple(problems)


def _world(replays: Mapping[int, Replay], plans: Iterable[Plan], problems: tuple[Problem, ...]) -> World:
    plans = tuple(plans)
    in_force = {node.task_key: (plan, node) for plan in plans for node in plan.nodes}
    states = {found.state.task_key: found.state for found in replays.values() if found.state}
    removed = _removed(plans, in_force)
    cancelled = frozenset(removed - {key for key, state in states.items() if state.done})
    children: dict[str, list[str]] = {}
    for key, (_, node) in in_force.items():
        if node.parent and key not in removed:
            children.setdefault(node.parent, []).append(key)
    approved = {key: node for key, (_, node) in in_force.items()}
    return World(
        states=states,
        plans={key: plan for key, (plan, _) in in_force.items()},
        nodes={key: _freed(node, cancelled) for key, node in approved.items()},
        approved=approved,
        children={key: tuple(keys) for key, keys in children.items()},
        replays=replays,
        cancelled=cancelled,
        problems=problems,
    )


def _freed(node: PlanNode, cancelled: frozenset[str]) -> PlanNode:
    """The node without dependencies on cancelled tasks (R7), which a kept node may still name."""
    if cancelled.isdisjoint(node.depends_on):
        return node
    return node.model_copy(update={"depends_on": tuple(key for key in node.depends_on if key not in cancelled)})


def _removed(plans: Iterable[Plan], in_force: Mapping[str, tuple[Plan, PlanNode]]) -> set[str]:
    """Keys that their document's newest plan no longer lists."""
    newest = {plan.spec_path: plan for plan in plans}
    return {key for key, (plan, _) in in_force.items() if newest[plan.spec_path] is not plan}


# --- Writing an event: first durably to the log, then its effects (R2, R9)


META_BYTES: Final = 48 * 1024
"""Size as JSON, which is never shorter than the YAML in the file; the rest is for the keys of the contract."""
TEXT_KEPT, ITEMS_KEPT, ITEM_KEPT = 2_000, 50, 100


def record(
    app: App, state: TaskState, kind: type[IssueEvent], *, meta: dict[str, Any] | None = None, **values: Any
) -> TaskState:
    """Append an event of *kind* to the issue of *state*; returns the state after it.

    Keys that the contract leaves variable and that *values* does not set are taken from *state*. Raises
    IllegalTransition, before anything is written, if the event may not follow, and SequenceConflict if another process
    appended first. If *meta* is too large for an event file, its long texts and lists are cut.
    """
    meta = _fitting(meta or {})
    event = kind(**{**carried_over(state, kind), "sequence": state.sequence + 1, **values})
    evolve(state, Record(event, meta))
    written = app.log.append(event, expected_sequence=state.sequence, meta={**app.origin.meta(), **meta})
    return evolve(state, written)


def _fitting(meta: dict[str, Any]) -> dict[str, Any]:
    """An event file has at most 64 KiB (R1), and a long text must not stop the work."""
    fits = len(canonical_json(meta).encode(errors="replace")) <= META_BYTES
    return meta if fits else {key: _cut(value) for key, value in meta.items()}


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > TEXT_KEPT:
            return f"{value[:TEXT_KEPT]} {TRUNCATION_MARKER}"
        case list() if len(value) > ITEMS_KEPT:
            return [*(_cut_item(item) for item in value[:ITEMS_KEPT]), f"and {len(value) - ITEMS_KEPT} more"]
        case list():
            return [_cut_item(item) for item in value]
        case _:
            return value


def _cut_item(item: Any) -> Any:
    return f"{item[:ITEM_KEPT]} {TRUNCATION_MARKER}" if isinstance(item, str) and len(item) > ITEM_KEPT else item


def snapshot(state: TaskState) -> dict[str, Any]:
    """The common keys that put an issue back into *state* (task_approved, checkup_unblocked)."""
    return {
        "current_stage": state.current_stage,
        "next_stage": state.next_stage,
        "workflow_entry_state": state.workflow_entry_state,
        "code_publication_state": state.code_publication_state,
        "pass_fail_outcome": state.pass_fail_outcome,
        "completion_basis": state.completion_basis,
        "code_ref": state.code_ref,
    }


# --- Where transcripts and archives are kept


def transcript_folder(app: App, state: TaskState) -> Path:
    """The transcript folder of this attempt."""
    return reports(app) / attempt_folder(state.issue_number, state.renewed_from, state.run_sequence)


def review_folder(app: App, state: TaskState, reviewer: str) -> Path:
    """The folder of a review that begins now, with a subfolder per round; the UTC time makes its name unique."""
    reviews = attempt_folder(state.issue_number, state.renewed_from, state.run_sequence, "reviews")
    return reports(app) / reviews / f"{reviewer}-{stamp(app.clock.now())}"


def reports(app: App) -> Path:
    """The folder of all reports and transcripts, with a subfolder for each issue."""
    return app.repository.root / ".mino" / "reports"


RESULT_FILE: Final = "result.json"


def plans_folder(app: App) -> Path:
    """The folder of all planning transcripts, each in a subfolder named after its start (UTC)."""
    return reports(app) / "plans"


def planning_folder(app: App) -> Path:
    """The transcript folder of a planning that begins now."""
    return plans_folder(app) / stamp(app.clock.now())


def requests_folder(app: App) -> Path:
    """The folder of the transcripts of all requests to agents, each in a subfolder named after its key."""
    return reports(app) / "agent-requests"


def request_folder(app: App, key: str) -> Path:
    """The transcript folder of an asking that begins now."""
    return requests_folder(app) / key / stamp(app.clock.now())


def result_in(folder: Path) -> Mapping[str, Any]:
    """The agent's result as its adapter stored it there; empty if there is none, or if it cannot be read."""
    try:
        found = json.loads(read_beneath(folder, RESULT_FILE, _RESULT_BYTES) or b"")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def archive_path(name: str) -> str:
    """The folder of the archive *name*, as shown to users (contract, `archive_path`)."""
    return f".mino/archive/{name}"


# --- Closing an issue that is done (protocol, Close On Done)


def closing_policy(app: App, node: PlanNode | None) -> CloseOnDone:
    """`issue.close_on_done`, or its default for the task's type. Raises ConfigRefused if it cannot be read."""
    return close_on_done(app.preferences().close_on_done, node.type if node else None)


def is_closed_by_us(app: App, world: World, state: TaskState) -> bool:
    """Whether the issue is done and this program closes it."""
    return state.done and closing_policy(app, world.nodes.get(state.task_key)) == "auto"


def closed_by_users(app: App, world: World, task_keys: Collection[str]) -> tuple[int, ...]:
    """The numbers of the issues among these tasks that are done and that a user closes, ascending."""
    states = (state for key, state in world.states.items() if key in task_keys and state.done)
    return tuple(sorted(state.issue_number for state in states if not is_closed_by_us(app, world, state)))


def close_where_due(app: App, world: World, state: TaskState) -> None:
    """Close the issue if it is done and not left to a user to close; one that is gone needs no closing."""
    if not is_closed_by_us(app, world, state):
        return
    try:
        app.forge().edit_issue(state.issue_number, state="closed")
    except RemoteFailed as error:
        may_pass = isinstance(error, (RemoteUnavailable, AccessRefused))
        if may_pass or app.forge().read_issue(state.issue_number) is not None:
            raise


# --- Names of refs, and trailers that identify our commits (protocol, Files on disk; R9)


_MENTION = re.compile(r"(?<![\w`])@(?=\w)")

BRIEF_CHARACTERS = 40
RUN_TRAILER = "Irontree-Run"
MERGE_TRAILER = "Irontree-Merge"
DOCS_TRAILER = "Irontree-Docs"


def attempt_name(state: TaskState) -> str:
    """The attempt's permanent name: its run_started's sequence, in a renewed stream after the archive's name."""
    return f"{state.renewed_from}/{state.run_sequence}" if state.renewed_from else str(state.run_sequence)


def commit_ref(state: TaskState) -> str:
    """The ref of the commit made by this attempt."""
    return f"refs/irontree/issue-{state.issue_number}/{attempt_name(state)}"


def salvage_ref(state: TaskState) -> str:
    """The ref that keeps the work of an interrupted attempt."""
    return f"refs/irontree/salvage/issue-{state.issue_number}/{attempt_name(state)}"


def merge_ref(state: TaskState, tip: str) -> str:
    """The ref of this attempt's merge with a target that moved to *tip*: one merge per tip."""
    return f"refs/irontree/issue-{state.issue_number}/{attempt_name(state)}-merge-{tip[:12]}"


def merged_ref(state: TaskState) -> str:
    """The ref of the commit by which users merged this attempt."""
    return f"refs/irontree/issue-{state.issue_number}/{attempt_name(state)}-merged"


def docs_ref(state: TaskState, anchor: str) -> str:
    """The ref of the commit with notes on top of *anchor*: one for each checked commit."""
    return f"refs/irontree/issue-{state.issue_number}/{attempt_name(state)}-docs-{anchor[:12]}"


def docs_trailer(state: TaskState) -> str:
    """The trailer that identifies that commit and distinguishes it from the attempt's own commit and from a merge."""
    return f"{DOCS_TRAILER}: {state.run_token}/docs"


def request_branch(plan: Plan, state: TaskState, node: PlanNode) -> str:
    """The branch on which a task's commits are proposed, `{type}/{N}-{brief}` (R5).

    A renewed stream gets another branch, because that of the earlier one may have been merged.
    """
    again = f"-{state.approved_revision}" if state.renewed_from else ""
    brief = node.task_key[:BRIEF_CHARACTERS].strip("-")
    prefix = TASK_TYPES[node.type].branch_prefix(type_labels=plan.policy.publish.type_labels)
    return f"{prefix}/{state.issue_number}-{brief}{again}"


_SUBJECT: Final = "[run] #{number}: {title}"
_KIND_OF_MERGE: Final = "chore"
"""Its word in Conventional Commits: the task's own commit has the task's."""


def run_message(state: TaskState, node: PlanNode, subject: str | None = None) -> str:
    """The commit message of an attempt, with its token: as the contract has it, or as *subject* says, with criteria.

    Behind the kind of Conventional Commits a title begins with a small letter, unless that is a name.
    """
    first = _first_line(state, node, subject or _SUBJECT, TASK_TYPES[node.type].kind, summary(one_line(node.title)))
    criteria = ["\n".join(f"- {summary(one_line(each.text))}" for each in node.criteria)] if subject else []
    body = [*filter(None, criteria), *_issue_line(state, subject)]
    return "\n\n".join((first, *body, f"{RUN_TRAILER}: {state.run_token}\n"))


def _first_line(state: TaskState, node: PlanNode, subject: str, kind: str, title: str) -> str:
    if "{kind}" in subject and title[1:2].islower():
        title = title[0].lower() + title[1:]
    return subject.format(title=title, kind=kind, number=state.issue_number, key=node.task_key)


def _issue_line(state: TaskState, subject: str | None) -> list[str]:
    """The line that refers to the issue, where *subject* does not."""
    return [f"For #{state.issue_number}"] if subject and "{number}" not in subject else []


def summary(title: str) -> str:
    """A title that closes and opens no issue when its commit is pushed, and notifies nobody (contract, commit message).

    Only evidence closes one. References stay: they do no more than refer.
    """
    return _MENTION.sub("@\N{ZERO WIDTH SPACE}", without_closing(title))


def merge_message(state: TaskState, node: PlanNode, publish: PublishPolicy) -> str:
    """The commit message of a merge with the moved target: ours, or in the style that `publish.subject` says."""
    merge = f"Merge {publish.target_branch} into"
    first = f"{merge} #{state.issue_number}"
    if publish.subject:
        title = f"{merge} \N{LEFT DOUBLE QUOTATION MARK}{summary(one_line(node.title))}\N{RIGHT DOUBLE QUOTATION MARK}"
        first = _first_line(state, node, publish.subject, _KIND_OF_MERGE, title)
    return "\n\n".join((first, *_issue_line(state, publish.subject), f"{MERGE_TRAILER}: {state.run_token}\n"))
