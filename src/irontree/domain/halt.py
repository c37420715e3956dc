"""The seven halt conditions in order, and the legal answers to each (protocol, Halt Semantics).

The table is data: forms, terminal prompts and comment commands are made from it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, Literal, NamedTuple

from irontree.domain.state import Phase, TaskState
from irontree.domain.values import HaltReason

AskedOf = Literal["issue", "loop"]
Need = Literal["note", "count", "amount", "revision"]
Argument = Literal["count", "amount", "revision", "key"]
VALUES: Final[dict[Need, re.Pattern[str]]] = {
    "count": re.compile(r"[1-9]|[1-4]\d|50"),
    "revision": re.compile(r"[0-9a-f]{8,64}|[0-9a-f]{8}(-[0-9a-f]{8}){1,2}"),  # names of earlier versions: see `gates`
}
"""The patterns of required arguments, in lower case."""
_SHOWN: Final[dict[Argument, str]] = {"count": "N", "amount": "AMOUNT", "revision": "NAME", "key": "KEY"}


class Choice(NamedTuple):
    """One legal answer: its word on the command line, its label in a form, and what it needs."""

    name: str
    label: str
    needs: tuple[Need, ...] = ()
    loop_only: bool = False
    special: bool = False
    """Offered only where it makes a difference; as an answer it is always legal."""
    permits: bool = False
    """Whether it lets work go on or be published, which a gate may guard (`domain/gates.py`)."""
    spoken: str = ""
    """Its word in a comment, if other than its name."""
    verb: str = ""
    """Its word at a terminal, if other than its name: that of the command for it."""
    hints_note: bool = False
    """Whether its command is shown with a note, which may be left out."""
    in_comments: bool = True
    """Whether comments offer it; a comment that makes it all the same counts."""
    names_task: bool = False
    """Whether a comment has to name the task, because the choice undoes more than the comment's own issue."""

    @property
    def word(self) -> str:
        """The word after the slash in a comment."""
        return self.spoken or self.name

    @property
    def typed(self) -> str:
        """The word to type at a terminal."""
        return self.verb or self.name

    @property
    def argument(self) -> Argument | None:
        """The required argument after the word in a comment; a note may always follow."""
        if self.names_task:
            return "key"
        return next((need for need in self.needs if need != "note"), None)

    def usage(self, key: str = "KEY", revision: str | None = None) -> str:
        """How a comment makes this choice for the task *key*: `/retry N`, `/send-back NOTE`, `/approve` *revision*."""
        shown = key if self.names_task else _SHOWN[self.argument] if self.argument else ""
        if revision and self.argument == "revision":
            shown = revision
        return " ".join(filter(None, (f"/{self.word}", shown, "NOTE" if "note" in self.needs else "")))


def _send_back(label: str = "send back with a note") -> Choice:
    return Choice("send-back", label, ("note",), verb="reject")


def _go_on(label: str, *, hints_note: bool = False) -> Choice:
    """A way past a block of an issue."""
    return Choice("go-on", label, permits=True, spoken="continue", verb="retry", hints_note=hints_note)


def _special(name: str, label: str) -> Choice:
    """A way to approve a document that also decides about existing tasks (R7)."""
    return Choice(name, label, ("revision",), special=True, permits=True)


_ALLOW: Final = Choice("allow", "allow what the agent was denied, and try again", special=True, permits=True)
_SKIP: Final = Choice("skip", "skip this task and what depends on it", loop_only=True, names_task=True)
_STOP: Final = Choice("stop", "stop the whole loop", loop_only=True)


class HaltRule(NamedTuple):
    """A halt reason, the phases of an issue that cause it, who asks, and the choices."""

    reason: HaltReason
    title: str
    asked_of: AskedOf | None
    choices: tuple[Choice, ...]
    phases: frozenset[Phase] = frozenset()


RULES: Final[tuple[HaltRule, ...]] = (
    HaltRule("goal_reached", "The goal is reached", None, ()),
    HaltRule(
        "fail_terminal",
        "All attempts failed",
        "issue",
        (
            Choice("retry", "allow more attempts", ("count",), permits=True),
            Choice("verify", "verify the same commit again", permits=True),
            _ALLOW,
            _SKIP,
            _STOP,
        ),
        frozenset({Phase.TERMINAL}),
    ),
    HaltRule(
        "pending_acceptance",
        "Your acceptance is needed",
        "issue",
        (
            Choice("accept", "accept this commit", permits=True),
            _send_back(),
            _ALLOW,
            _SKIP,
            _STOP,
        ),
        frozenset({Phase.PENDING}),
    ),
    HaltRule(
        "reapproval_required",
        "Your approval is needed",
        "issue",
        (
            Choice("approve", "approve this revision", ("revision",), permits=True),
            _special("approve-keep", "approve; keep what was removed"),
            _special("approve-reopen", "approve; begin again what is done and changed"),
            _special("approve-keep-reopen", "approve; keep what was removed, begin again what is done and changed"),
            _SKIP,
            _STOP,
        ),
        frozenset({Phase.STALE, Phase.ADOPTED}),
    ),
    HaltRule(
        "blocked",
        "Something is in the way",
        "issue",
        (_go_on("it is put right, go on"), _ALLOW, _SKIP, _STOP),
        frozenset({Phase.BLOCKED}),
    ),
    HaltRule(
        "protocol_gap",
        "There is work left that nothing can start",
        "loop",
        (Choice("go-on", "reviewed, go on", permits=True, spoken="continue"), _STOP),
    ),
    HaltRule(
        "loop_budget_exhausted",
        "The loop has used its transitions",
        "loop",
        (Choice("extend", "allow more transitions", ("count",), permits=True), _STOP),
    ),
)
AGENT_BUDGET: Final = HaltRule(
    "loop_budget_exhausted",
    "The budget of the agents is spent",
    "loop",
    (Choice("extend", "allow more to be spent", ("amount",), permits=True), _STOP),
)
"""The same halt if money, tokens or time are used up instead of transitions (protocol, Budgets)."""
APPROVAL: Final = HaltRule(
    "reapproval_required",
    "Your approval is needed",
    None,
    (Choice("approve", "approve this revision and start the loop", ("revision",), permits=True),),
)
"""Not a halt: the approval of a document or of issues before anything is in the log (R6)."""
BRANCH: Final = HaltRule(
    "reapproval_required",
    "The branch of the work is for you to choose",
    None,
    (
        Choice("isolated", "work on a new branch hotl/SLUG, and go on to the approval"),
        Choice("here", "work on the branch that you are on, and go on to the approval"),
        Choice("other", "work on a new branch of another name, and go on to the approval"),
    ),
)
"""The same for where a workflow file is worked on, which comes before its approval (docs/hotl.md)."""
RULE: Final[dict[str, HaltRule]] = {rule.reason: rule for rule in RULES}
_BY_PHASE: Final[dict[Phase, HaltRule]] = {phase: rule for rule in RULES for phase in rule.phases}


def halt_of(state: TaskState) -> HaltRule | None:
    """The rule that halts at this issue, or `None` if it may go on. A damaged log blocks like an event (R13)."""
    return RULE["blocked"] if state.problem else _BY_PHASE.get(state.phase)


SECRET_IN_COMMIT: Final = "secret-in-commit"
SECRET_FOUND: Final = RULE["blocked"]._replace(
    choices=(
        _go_on("publish it: what was found is no secret, or may be public"),
        _send_back(),
        _SKIP,
        _STOP,
    )
)
"""The same halt if what the work adds looks like a secret."""
AGENT_ASKS: Final = "agent-asks"
AGENT_ASKED: Final = RULE["blocked"]._replace(
    choices=(
        _send_back("answer the agent: the next attempt is given your note"),
        _go_on("try again without an answer"),
        _ALLOW,
        _SKIP,
        _STOP,
    )
)
"""The same halt if the agent changed nothing and left words instead, or says that it needs an answer."""
RED_BEFORE: Final = "checks-red-before"
RED_FOUND: Final = RULE["blocked"]._replace(
    choices=(
        _go_on("it is put right: try these commands again"),
        Choice("accept", "accept it as it was before: the work has to make it pass", permits=True),
        _SKIP,
        _STOP,
    )
)
"""The same halt if a configured check fails without any work, or proves nothing."""
SAME_FAILURE: Final = "same-failure"
FAILED_ALIKE: Final = RULE["blocked"]._replace(
    choices=(_go_on("try again; a note tells the next attempt what to change", hints_note=True), _ALLOW, _SKIP, _STOP)
)
"""The same halt if several attempts failed in the same way."""
INFRASTRUCTURE_AT_FAULT: Final = "infrastructure"
"""CI failed, and the agent that was to mend it says that no change of the code can."""
_OF_CHECK: Final = {
    SECRET_IN_COMMIT: SECRET_FOUND,
    AGENT_ASKS: AGENT_ASKED,
    RED_BEFORE: RED_FOUND,
    SAME_FAILURE: FAILED_ALIKE,
}


def rule_about(state: TaskState, rule: HaltRule) -> HaltRule:
    """The rule as it is asked about this issue.

    Where work is proposed, the merge of its request accepts it (R15). Without a change, no commit is accepted. What is
    sent back after the last attempt has somebody asked for more. What looks like a secret is sent back, or published by
    somebody who knows that. An agent that asks gets an answer.
    """
    if rule.reason == "blocked" and not state.problem:
        return _OF_CHECK.get(state.blocking_check or "", rule)._replace(title=block_title(state.blocking_check))
    if rule.reason != "pending_acceptance":
        return rule
    if not state.may_retry:
        used_up = "send back with a note; no attempt is left, so you are asked next whether to allow more"
        rule = _relabelled(rule, "send-back", used_up)
    if state.is_proposed:
        merge = f"merge the request #{state.request}, or look now whether it is merged"
        return _relabelled(rule, "accept", merge, in_comments=False)
    return rule if state.has_code else _relabelled(rule, "accept", "accept it without a change")


def _relabelled(rule: HaltRule, name: str, label: str, *, in_comments: bool = True) -> HaltRule:
    asked = (
        choice._replace(label=label, in_comments=in_comments) if choice.name == name else choice
        for choice in rule.choices
    )
    return rule._replace(choices=tuple(asked))


CONCERN_ONE_ISSUE: Final = {
    "agent-asks": "The agent asks for an answer",
    INFRASTRUCTURE_AT_FAULT: "The infrastructure is at fault",
    "cancelled": "The work was cancelled",
    "closed-outside": "The issue was closed before its work was done",
    "content-refused": "The remote refuses the content",
    "deleted-outside": "The issue is gone",
    "goal-unclear": "It is unclear whether the goal is reached",
    "merge-conflict": "The change conflicts with what is on the branch now",
    "merged-elsewhere": "The pull request was merged into another branch",
    "merged-meanwhile": "The pull request was merged though its work was not ready",
    "merged-by-agent": "An agent merged the pull request",
    "merged-without-it": "The pull request was merged without the verified work",
    "next-round": "The lead proposes further parts",
    "no-round-review": "The lead gave no usable review of the parts",
    "reopened-outside": "The issue was opened again after its work was done",
    "request-branch-left": "The branch of a merged pull request is in the way",
    "request-branch-moved": "Somebody else changed the branch of the pull request",
    "request-closed": "The pull request was closed without being merged",
    "rounds-used": "The lead proposes further parts, and no round is left",
    "same-failure": "Several attempts failed in the same way",
    "secret-in-commit": "What was added looks like a secret",
}
"""Blocking checks about one issue's own work, from which `loop.on_halt: go_on` lets other issues go on (R17).

Each with its title: what a person reads first.
"""
CONCERN_ALL: Final = {
    "agent-not-authenticated": "The agent has no access to its service",
    "agent-not-started": "The agent's program cannot be started",
    "agent-sandbox": "The agent's own sandbox does not work here",
    "agent-unreachable": "The agent cannot reach its service",
    "authentication": "The remote asks for a login that nobody can give here",
    "branch-appeared": "Somebody else has made the branch of this work",
    "branch-name-taken": "Another branch takes the name of this one",
    "budget-unreadable": "What the agent spends cannot be measured",
    "checks-red-before": "The checks do not work without any change",
    "checkout-half-moved": "The update of the checkout was cut off",
    "checkout-not-clean": "Changes in the checkout are in the way",
    "commit-refused": "The commit is refused",
    "configuration": "The configuration names something that is not there",
    "container-engine": "The container engine does not answer",
    "container-image": "The container image is not on the machine",
    "dependency-gone": "Work that this depends on was taken back",
    "forge-access": "The account has no write access",
    "forge-archived": "The repository is archived",
    "forge-empty": "The repository has no commit yet",
    "forge-issues": "The repository has no issues",
    "forge-protected": "The branch is protected",
    "forge-pull-requests": "The repository takes no pull requests",
    "forge-token": "The token lacks a right",
    "hook-declined": "A hook refuses the push",
    "hooks-missing": "The hooks would be missing in the workspace",
    "lfs-missing": "Git LFS is not set up",
    "missing-identity": "It is not known who commits",
    "no-commits": "The repository has no commit yet",
    "no-review": "A reviewer gives no answer that can be used",
    "no-write-access": "The remote takes no push from this account",
    "partial-clone": "Parts of the repository are missing",
    "protected-branch": "The branch is protected",
    "publication-refused": "The work cannot be published",
    "rate-limited": "The agent's service has a limit, and it is reached",
    "remote-checked-out": "The remote has the branch checked out",
    "remote-missing": "The remote is not known",
    "remote-not-found": "The remote is not there",
    "remote-refused": "The forge says no",
    "remote-unavailable": "The remote does not answer",
    "request-refused": "The forge does not take the pull request",
    "run-interrupted": "Several attempts were cut off",
    "sandbox-missing": "The approved sandbox does not work here",
    "sequence-gap": "Events are missing in the log",
    "shallow-repository": "The history of the repository is not complete",
    "stale-loop-lease": "Another tool left its loop behind",
    "stale-run-lock": "Another tool left its lock behind",
    "submodules": "The submodules would be missing in the workspace",
    "target-branch-missing": "The target branch is not there",
    "target-broken": "The checks fail on the target branch without this change too",
    "target-gone": "The target branch was deleted",
    "target-rewritten": "The target branch was rewritten",
    "workspace-not-ready": "The workspace could not be made ready",
}
"""The other blocking checks, with their titles. The next issue would meet the same, or the log says too little."""


def block_title(check: str | None) -> str:
    """The title of a block, also of a check that a newer version wrote."""
    return (CONCERN_ONE_ISSUE | CONCERN_ALL).get(check or "", RULE["blocked"].title)


def concerns_one_issue(state: TaskState) -> bool:
    """Whether what halts at this issue is about its own work alone; what is unknown concerns all."""
    if state.problem:
        return False
    if state.phase is Phase.BLOCKED:
        return state.blocking_check in CONCERN_ONE_ISSUE
    return state.phase in (Phase.TERMINAL, Phase.PENDING)


def halt_title(reason: str) -> str:
    """The title of a halt reason, or the words of one that a newer version wrote."""
    return RULE[reason].title if reason in RULE else reason.replace("_", " ")


def choice_called(word: str, among: Iterable[Choice]) -> Choice | None:
    """The choice of this name, else the one whose verb this is; None if there is neither."""
    found = tuple(among)
    named = (choice for choice in found if choice.name == word)
    return next(named, next((choice for choice in found if choice.typed == word), None))


def choices(rule: HaltRule, *, in_loop: bool, special: Collection[str] = ()) -> tuple[Choice, ...]:
    """The choices that are legal now: skip and stop need a loop, *special* ones have to be named."""
    legal = (choice for choice in rule.choices if in_loop or not choice.loop_only)
    return tuple(choice for choice in legal if not choice.special or choice.name in special)
