"""Gates: decisions that need several approvers, or others than the requester; approvals in forms (R6, R20).

Gates are approved with the plan (R6): neither an agent's commit nor a later edit loosens one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

from pydantic import Field

from irontree.domain.values import HaltReason, Value
from irontree.errors import ApprovalRefused

GateKind = Literal["acceptance", "approval", "failure", "blocked"]
GATE_OF: Final[Mapping[HaltReason, GateKind]] = {
    "pending_acceptance": "acceptance",
    "reapproval_required": "approval",
    "fail_terminal": "failure",
    "blocked": "blocked",
}
"""The gate of each halt; a loop's own questions have none."""
APPROVES_RULES: Final = "allow"
"""The choice that changes what was approved, whatever the halt asks."""


class Gate(Value):
    """Who has to say that work goes on. Sending back, skipping and stopping stay open to all: they let nothing pass."""

    approvers: int = Field(default=1, ge=1, le=20, description="So many people have to say the same.")
    not_requester: bool = Field(default=False, description="Whether who asked for the work does not count.")

    @property
    def words(self) -> str:
        """What it asks for: the subject of a sentence."""
        people = "somebody" if self.approvers == 1 else f"{self.approvers} people"
        return f"{people} with write access{' who did not ask for the work' if self.not_requester else ''}"

    @property
    def decide(self) -> str:
        """The same with its verb: `2 people with write access decide`."""
        return f"{self.words} decide{'s' if self.approvers == 1 else ''}"

    def and_also(self, other: Gate) -> Gate:
        """What passes both: as many people as either asks for, and nobody whom either leaves out."""
        return Gate(
            approvers=max(self.approvers, other.approvers), not_requester=self.not_requester or other.not_requester
        )

    def counted(self, voters: Iterable[str], requesters: Collection[str] = ()) -> tuple[str, ...]:
        """The accounts that count, each once, in their order; forges tell no case apart."""
        asked = {name.casefold() for name in requesters} if self.not_requester else set()
        people: dict[str, str] = {}
        for name in voters:
            people.setdefault(name.casefold(), name)
        return tuple(name for folded, name in people.items() if folded not in asked)


class Gates(Value):
    """The gates of a repository by their kind; None: anybody who may answer decides alone, anywhere."""

    acceptance: Gate | None = None
    approval: Gate | None = None
    failure: Gate | None = None
    blocked: Gate | None = None

    def of(self, reason: HaltReason) -> Gate | None:
        """The gate of that halt."""
        kind = GATE_OF.get(reason)
        return getattr(self, kind) if kind else None

    def of_choice(self, reason: HaltReason, choice: str) -> Gate | None:
        """What that answer to that halt has to pass: to allow what was denied also approves other settings."""
        own, approval = self.of(reason), self.approval if choice == APPROVES_RULES else None
        return own.and_also(approval) if own and approval else own or approval

    @property
    def named(self) -> tuple[tuple[GateKind, Gate], ...]:
        """Those that are set."""
        found = ((kind, getattr(self, kind)) for kind in GATE_OF.values())
        return tuple((kind, gate) for kind, gate in found if gate)


Verdict = Literal["passed", "unidentified", "too_few"]


def judge(
    gate: Gate | None, people: Collection[str] = (), requesters: Collection[str] = (), *, by_timer: bool = False
) -> Verdict:
    """Whether an answer or an approval passes *gate*: the one rule for every way to give it (R20).

    *people* are the accounts that gave it and that the forge verified, which it does of comments alone: a form, a
    terminal, a command and an automation know nobody (`unidentified`). A timer passes every gate, because a block that
    only has to wait ends by itself.
    """
    if gate is None or by_timer:
        return "passed"
    if not people:
        return "unidentified"
    return "passed" if len(gate.counted(people, requesters)) >= gate.approvers else "too_few"


# --- Approvals in forms, before anything is in the log


NAME_DIGITS: Final = 16
NAME: Final = re.compile(rf"[0-9a-f]{{{NAME_DIGITS},64}}")
"""What names an approval: the first 16 hex digits of a digest over all that it covers, or more of them (R6)."""
_EARLIER: Final = r"[0-9a-f]{8}-[0-9a-f]{8}(?:-[0-9a-f]{8})?"
_BRANCH: Final = "branch-"
_KEY: Final = re.compile(rf"intake-([0-9a-f]{{{NAME_DIGITS}}}|{_EARLIER})")


def name_of(digest: str) -> str:
    """What an approval of everything in *digest* (64 hex) is called, wherever it is shown."""
    return digest[:NAME_DIGITS]


def names(given: str, digest: str) -> bool:
    """Whether *given*, in any case, names the approval *digest*; raises ApprovalRefused if it is too short, or no name.

    More digits than a name has are compared too.
    """
    given, name = given.strip().lower(), name_of(digest)
    if not given:
        raise ApprovalRefused("what is approved was not named", remedy=f"look at it, and type its name: {name}")
    if re.fullmatch(_EARLIER, given):
        raise ApprovalRefused(
            "that is a name as earlier versions gave it, and other texts can be made that have it too",
            remedy=f"look at it again, and type its name of now: {name}",
        )
    if len(given) < NAME_DIGITS and digest.startswith(given):
        raise ApprovalRefused(
            f"that is only the beginning of {name}, and other texts can be made that begin with it too",
            remedy=f"look at it, and type its whole name: {name}",
        )
    if not NAME.fullmatch(given):
        raise ApprovalRefused(
            f"that does not name an approval: a name has {NAME_DIGITS} digits, because other texts can be made that "
            "share fewer",
            remedy=f"look at it, and type its name: {name}",
        )
    return digest.startswith(given)


def key_of_approval(digest: str, loop: str = "") -> str:
    """The key of the question whether *digest* is approved; *loop* stands for the loop that would continue."""
    return "-".join(filter(None, ("intake", digest, loop)))


def name_in_key(key: str) -> str | None:
    """The name that an approval has to give, from the question's key; `None` if it asks for no approval."""
    found = _KEY.match(key)
    return found[1] if found else None


def key_of_branch(digest: str) -> str:
    """The key of the question which branch a workflow file is worked on; *digest* covers what is asked."""
    return f"{_BRANCH}{name_of(digest)}"


def asks_for_branch(key: str) -> bool:
    """Whether a question with that key asks for a branch, before there is anything to approve."""
    return key.startswith(_BRANCH)


def is_of_earlier_version(key: str) -> bool:
    """Whether a question with that key asked for an approval under a name that is too short by now."""
    return re.match(f"intake-{_EARLIER}", key) is not None
