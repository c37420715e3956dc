"""The open questions of a repository, and who may answer them: the same for form, terminal, command and comment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from irontree.app import App
from irontree.domain.decide import TIMER, Halt, decide, waiting
from irontree.domain.gates import APPROVES_RULES, GATE_OF, Gate, judge
from irontree.domain.halt import AGENT_BUDGET, APPROVAL, BRANCH, RULE, Choice, HaltRule, choices, rule_about
from irontree.domain.spending import Budget
from irontree.domain.state import TaskState
from irontree.domain.text import shell_path, shell_word
from irontree.domain.values import HaltReason
from irontree.errors import AnswerRefused
from irontree.services.loops import loop
from irontree.services.loops.choice import scope_of
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import Loop, loop_of, newest_over_each, skipped, still_open
from irontree.services.record import World, read_world

QuestionKind = Literal["issue", "loop", "document"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question to the user: from an issue, from a loop, or about a document that is not approved yet.

    `key` stays the same as long as the log does (rulings, Questions). The fields after `newer` are for display: the
    issue's log alone does not hold them, and they are filled in where the question is shown.
    """

    rule: HaltRule
    key: str
    issue_number: int | None = None
    task_key: str | None = None
    sequence: int = 0
    loop_id: str | None = None
    document: str = ""
    """What a form outside the log asks to approve: a path, or the names of issues."""
    branch: str = ""
    """The branch that was chosen for it in that form."""
    detail: str = ""
    not_before: str | None = None
    """When a timer answers it, unless a user does so first (ISO 8601)."""
    budget: Budget | None = None
    """The budget that is used up, if the question is whether agents may spend more."""
    damaged: bool = False
    """Whether the issue's log has gaps, which have to be repaired before any answer."""
    newer: bool = False
    """Whether a newer version wrote the event in question: no command helps, and none is shown."""
    title: str = ""
    revision: str | None = None
    """What an approval has to name."""
    said: str = ""
    """The recorded reason and remedy, if there are any."""
    look: str = ""
    """The command that shows what would be approved and what changed; empty if nothing is to be approved."""
    gated: frozenset[str] = frozenset()
    """The choices that only comments on the issue make (`domain/gates.py`); no command or form takes them."""
    special: tuple[str, ...] = ()
    """Special choices that make a difference here and have a command."""
    since: str | None = None
    """When it was asked (ISO 8601)."""
    under: int = 0
    """The issue on which a comment answers it."""
    markers: tuple[str, ...] = ()
    """The markers that our comment asking it may have."""
    root: Path | None = None
    repository_id: str = ""
    issue_url: str | None = None
    form_url: str | None = None

    @property
    def kind(self) -> QuestionKind:
        """What asks: an issue, a loop or a document."""
        if self.document:
            return "document"
        return "loop" if self.issue_number is None else "issue"

    @property
    def reason(self) -> HaltReason:
        """The halt reason."""
        return self.rule.reason

    @property
    def number(self) -> int:
        """The number of the issue that asks; 0 if no issue does."""
        return self.issue_number or 0

    @property
    def about(self) -> str:
        """What asks, for display: `#12 Print a summary`, `SPEC.md`, or the loop."""
        if self.document:
            return self.document
        return f"#{self.issue_number} {self.title}" if self.issue_number is not None else f"loop {self.loop_id}"

    @property
    def words(self) -> str:
        """The title of its form, with the detail if there is one."""
        return f"{self.rule.title}: {self.detail}" if self.detail else self.rule.title

    @property
    def timer(self) -> str | None:
        """When a timer answers it; None if no answer can be recorded."""
        return None if self.damaged else self.not_before

    @property
    def repository(self) -> str:
        """The name of the repository where it is asked, for display."""
        return self.root.name if self.root else ""

    @property
    def identity(self) -> tuple[str, str, str | None, str, str | None]:
        """What distinguishes it from every other question, including an earlier one about the same issue."""
        return (self.repository_id, self.key, self.loop_id, self.document, self.since)

    def choices(self, special: Collection[str] = ()) -> tuple[Choice, ...]:
        """The choices that are legal now; special ones only if *special* names them."""
        return choices(self.rule, in_loop=self.loop_id is not None, special=special)

    def typed(self, name: str) -> str:
        """The word to type at a terminal for the choice of this name."""
        return next((choice.typed for choice in self.rule.choices if choice.name == name), name)

    def usages(self, wanted: Callable[[Choice], bool] = lambda _: True) -> tuple[str, ...]:
        """The comment commands to offer as answers to it, of the *wanted* choices."""
        return tuple(self.usage(choice) for choice in self.choices() if choice.in_comments and wanted(choice))

    def usage(self, choice: Choice) -> str:
        """The comment command that makes the choice."""
        return choice.usage(self.task_key or "KEY", self.revision)


def question_about(state: TaskState, rule: HaltRule, loop_id: str | None = None) -> Question:
    """The question that this issue's newest event raises."""
    later = f", tried again after {state.not_before}" if state.not_before else ""
    return Question(
        rule=rule_about(state, rule),
        key=f"issue-{state.issue_number}-{state.sequence}-{rule.reason.replace('_', '-')}",
        issue_number=state.issue_number,
        task_key=state.task_key,
        sequence=state.sequence,
        loop_id=loop_id,
        detail=state.problem or (f"{state.blocking_check}{later}" if state.blocking_check else ""),
        not_before=state.not_before,
        damaged=state.problem is not None,
        newer=state.newer,
    )


def question_about_branch(document: str, key: str, since: str | None) -> Question:
    """The question of a form outside the log which branch the workflow file *document* is worked on."""
    return Question(
        rule=BRANCH,
        key=key,
        document=document,
        said="where a command chooses and approves it, its form closes by itself; to decline, use the form",
        since=since,
    )


def question_about_approval(document: str, key: str, name: str, since: str | None, branch: str = "") -> Question:
    """The question of a form outside the log (R6): whether to approve *name*, the present content of *document*.

    *branch* is what was chosen for a workflow file before.
    """
    return Question(
        rule=APPROVAL,
        key=key,
        document=document,
        branch=branch,
        revision=name,
        look=f"{task_command(document, branch)} --plan",
        said="where a command approves it, its form closes by itself; to decline, use the form",
        since=since,
    )


def task_command(document: str, branch: str = "") -> str:
    """The command that works on *document*, on that *branch* if one was chosen."""
    return f"irontree task {shell_path(document)}{f' --branch {shell_word(branch)}' if branch else ''}"


def question_of_loop(app: App, loop_id: str) -> Question | None:
    """The question that a halted loop itself asks (budget, protocol gap); None if it asks none."""
    return question_of(app, loop.read_loop(app, loop_id))


def question_of(app: App, found: loop.Loop) -> Question | None:
    """The same for a loop already read; None if its log cannot be trusted, because no answer could be recorded."""
    entity = found.entity
    if found.damage or entity.status != "halted" or entity.halt_reason not in RULE:
        return None
    rule = RULE[entity.halt_reason]
    if rule.asked_of != "loop":
        return None
    if rule.reason == "loop_budget_exhausted" and found.budget_left > 0:
        return _question_of_budget(app, found)
    key = f"loop-{found.id}-{found.sequence}-{rule.reason.replace('_', '-')}"
    detail = app.loops.read(found.id).records[-1].told.detail
    return Question(rule=rule, key=key, sequence=found.sequence, loop_id=found.id, detail=detail)


def _question_of_budget(app: App, found: loop.Loop) -> Question | None:
    """The question of a loop whose agents may spend no more; None once more was allowed or a new day has begun."""
    world = read_world(app)
    funds = read_funds(app, world)
    decision = decide(scope_of(found, world, funds))
    if not isinstance(decision, Halt) or decision.reason != "loop_budget_exhausted":
        return None
    over, *others = funds.stopping(found.keys, decision.detail)
    beside = "".join(f"; used up too, and asked about next: {budget.words}" for budget in others)
    key = f"loop-{found.id}-{found.sequence}-loop-budget-exhausted"
    return Question(
        rule=AGENT_BUDGET,
        key=key,
        sequence=found.sequence,
        loop_id=found.id,
        detail=f"{decision.detail}{beside}",
        not_before=over.until or None,
        budget=over,
    )


# --- Gates: decisions by users whom the forge identifies


FORM: Final = "form"
"""The channel of Prefect's forms."""
COMMENT: Final = "comment"
"""The channel of answers in comments."""


def gate_at(world: World, question: Question, choice: Choice | None = None) -> Gate | None:
    """The gate of the plan in force (R6); None where anyone who may answer decides, and for a loop's own question.

    With *choice*, everything that this answer has to pass; an answer that lets nothing continue passes.
    """
    key = question.task_key or ""
    plan = world.plans.get(key) if question.issue_number is not None else None
    gates = plan.policy.gates_of(world.nodes[key]) if plan else None
    if gates is None or (choice and not choice.permits):
        return None
    return gates.of_choice(question.reason, choice.name) if choice else gates.of(question.reason)


def requesters(app: App, world: World, state: TaskState) -> frozenset[str]:
    """Who asked for the work: the issue's author, and the approvers of its plan, as far as these are logins.

    Raises RemoteFailed if the forge cannot be read.
    """
    issue, plan = app.forge().read_issue(state.issue_number), world.plans.get(state.task_key)
    names = (issue.author if issue else "", *(plan.approved_by.split(", ") if plan else ()))
    return frozenset(name for name in names if name)


def require_gate(
    app: App, question: Question, choice: Choice, voters: tuple[str, ...], revision: str | None = None
) -> None:
    """Raise AnswerRefused unless enough users give this answer; *voters* are accounts verified by the forge.

    *revision* is what an approval names, for the message.
    """
    world = read_world(app)
    gate = gate_at(world, question, choice)
    if gate is None:
        return
    asked = _uncounted(app, world, question, gate) if voters else frozenset()
    verdict = judge(gate, voters, asked, by_timer=app.origin.channel == TIMER)
    if verdict == "unidentified":
        raise AnswerRefused(
            f"the gate “{_name_of(question, choice)}” counts only comments on the issue: {gate.decide} there, "
            "and this form or command does not know who you are",
            remedy=f"comment `{choice.usage(question.task_key or 'KEY', revision)}` on issue #{question.number}",
        )
    if verdict == "too_few":
        counted = gate.counted(voters, asked)
        raise AnswerRefused(f"{len(counted)} of {gate.approvers} have agreed so far: {', '.join(counted) or 'none'}")


def _name_of(question: Question, choice: Choice) -> str:
    return "approval" if choice.name == APPROVES_RULES else GATE_OF[question.reason]


def counted_at(app: App, world: World, question: Question, gate: Gate, voters: tuple[str, ...]) -> tuple[str, ...]:
    """Those of *voters* whose answer counts."""
    return gate.counted(voters, _uncounted(app, world, question, gate))


def _uncounted(app: App, world: World, question: Question, gate: Gate) -> frozenset[str]:
    """Whose answer does not count, whatever it is; the forge is read only if the gate leaves somebody out."""
    return requesters(app, world, world.state(question.number)) if gate.not_requester else frozenset()


def gated(world: World, question: Question) -> frozenset[str]:
    """The choices, special ones included, that a gate takes only from comments."""
    return frozenset(choice.name for choice in question.rule.choices if gate_at(world, question, choice))


def gate_words(app: App, world: World, question: Question) -> str:
    """Who decides, where, who has answered so far, and how many are missing; empty without a gate."""
    gate = gate_at(world, question)
    if gate is None:
        return ""
    permitting = (choice for choice in question.rule.choices if choice.permits and not choice.special)
    commands = ", ".join(f"`{choice.usage(question.task_key or 'KEY', question.revision)}`" for choice in permitting)
    ledger = app.deliveries.load(question.number)
    said = ledger.voters if ledger.voted_on == question.key else ()
    words = f"only comments on the issue count for {commands}: {gate.decide}"
    return f"{words}; {so_far(gate, said)}" if said or gate.approvers > 1 else words


def so_far(gate: Gate, said: Sequence[str]) -> str:
    """Who has said so at the gate, and how many are missing: `1 of 2 so far: alice; 1 more is needed`."""
    missing = gate.approvers - len(said)
    who = f"{len(said)} of {gate.approvers} so far: {', '.join(said) or 'nobody'}"
    return f"{who}; {missing} more {'is' if missing == 1 else 'are'} needed" if missing > 0 else who


# --- All open questions of a repository


def given_up(loops: Sequence[Loop], world: World) -> frozenset[str]:
    """Tasks that were skipped, or whose newest loop was stopped: a user gave them up, and they wait for no one."""
    stopped = (key for key, loop in newest_over_each(loops).items() if loop.entity.status == "cancelled")
    return skipped(loops, world) | frozenset(stopped)


def open_questions(app: App, world: World, loops: Sequence[Loop]) -> Iterator[Question]:
    """The questions of issues, lowest number first, then those of loops; *loops* are all, including ended ones."""
    alive, dropped = still_open(loops), given_up(loops, world)
    yield from (question for question in questions_of_issues(world, alive) if question.task_key not in dropped)
    yield from filter(None, (question_of(app, loop) for loop in alive))


def questions_of_issues(world: World, loops: Sequence[Loop] = ()) -> Iterator[Question]:
    """The question of every issue that waits for a user, lowest number first; *loops* are the open ones."""
    for state in sorted(world.states.values(), key=lambda state: state.issue_number):
        if rule := world.halt_of(state):
            yield question_about(state, rule, loop_of(loops, state.task_key))


def questions_beside(world: World, found: Loop) -> tuple[Question, ...]:
    """The questions of this loop's issues that let its other work go on, in the order of the halts (R17)."""
    states = waiting(world.scope(found.keys)) if found.is_open else ()
    return tuple(question_about(state, rule, found.id) for state in states if (rule := world.halt_of(state)))


def oldest_first(found: Iterable[Question]) -> tuple[Question, ...]:
    """The questions in the order in which they were asked."""
    return tuple(sorted(found, key=lambda one: (one.since or "", one.repository, one.number)))
