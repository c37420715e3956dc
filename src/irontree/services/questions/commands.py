"""What to type next: the exact command for every answer and every step, from the same table as the forms."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from irontree.domain.halt import AGENT_BUDGET, APPROVAL, RULE, Choice, HaltRule, choices

_ISSUE_ANSWERS: Final[Mapping[tuple[str, str], str]] = {
    ("pending_acceptance", "accept"): "irontree checkup accept issue-{number}",
    ("pending_acceptance", "send-back"): "irontree checkup reject issue-{number} 'NOTE'",
    ("fail_terminal", "retry"): "irontree checkup unblock issue-{number} --retry 1",
    ("fail_terminal", "verify"): "irontree checkup unblock issue-{number} --verify",
    ("blocked", "go-on"): "irontree checkup unblock issue-{number}",
    **{
        (reason, "allow"): "irontree checkup unblock issue-{number} --allow"
        for reason in ("fail_terminal", "pending_acceptance", "blocked")
    },
    ("reapproval_required", "approve"): "irontree checkup unblock issue-{number} --approve {revision}",
}
_LOOP_ANSWERS: Final[Mapping[tuple[str, str], str]] = {
    ("protocol_gap", "go-on"): "irontree task resume {loop_id} --answer loop=go-on",
    ("loop_budget_exhausted", "extend"): "irontree task resume {loop_id} --answer {extend}",
}
_APPROVAL: Final = "irontree task {document} --approve {revision}"
_ANY_ANSWERS: Final[Mapping[str, str]] = {
    "skip": "irontree task resume {loop_id} skip {task_key}",
    "stop": "irontree task resume {loop_id} cancel",
}
DAMAGED: Final = "irontree checkup reconcile"
"""What comes before any answer where the log of an issue has holes."""


def program_for(root: Path) -> str:
    """How to call this program here for the repository at *root*: `irontree`, with `-C` from outside it."""
    program = this_program()
    return program if Path.cwd().is_relative_to(root) else f"{program} -C {shlex.quote(str(root))}"


def this_program() -> str:
    """As it was called where no `irontree` is on the PATH: what is shown can be pasted (`make demo` in a clone)."""
    called = sys.argv[0]
    return shlex.quote(called) if called.endswith("/irontree") and not shutil.which("irontree") else "irontree"


@dataclass(frozen=True, slots=True)
class ListedQuestion:
    """An open question, as a listing shows it: of an issue, of a loop, or of a `document` that is not approved yet."""

    reason: str
    number: int | None = None
    task_key: str = ""
    title: str = ""
    loop_id: str | None = None
    revision: str | None = None
    detail: str = ""
    said: str = ""
    """What stands in the way and what to do about it, where that was recorded."""
    damaged: bool = False
    look: str = ""
    """The command that shows what would be approved, and what changed; empty where nothing is to be approved."""
    not_before: str | None = None
    """When a timer answers it (ISO 8601), unless a person is faster."""
    gated: bool = False
    """Whether only comments on the issue let its work go on (`domain/gates.py`): no command does."""
    newer: bool = False
    """A newer version wrote what stands in the way: no command helps, and none is named."""
    amount: str = ""
    """What may be allowed more of, as an example: `5 USD`; empty where no budget of the agents is spent."""
    special: tuple[str, ...] = ()
    """Special choices that make a difference here, and have a command."""
    document: str = ""
    """What a form outside of the log asks the approval of: a path, or the names of issues."""

    @property
    def about(self) -> str:
        """What asks: `#12 Print a summary`, `SPEC.md`, or the loop."""
        if self.document:
            return self.document
        return f"#{self.number} {self.title}" if self.number is not None else f"loop {self.loop_id}"

    @property
    def what(self) -> str:
        """The question's title, in the words of its form."""
        return self._rule.title

    @property
    def _rule(self) -> HaltRule:
        if self.document:
            return APPROVAL
        return AGENT_BUDGET if self.amount else RULE[self.reason]

    @property
    def answers(self) -> tuple[tuple[Choice, str], ...]:
        """Every choice that a command may make, with that command; none while the log is damaged."""
        if self.damaged:
            return ()
        legal = choices(self._rule, in_loop=self.loop_id is not None, special=self.special)
        return tuple((choice, self._command(choice)) for choice in legal if not (self.gated and choice.permits))

    def as_json(self) -> dict[str, Any]:
        """The documented keys."""
        return {
            "issue": self.number,
            "document": self.document or None,
            "task_key": self.task_key or None,
            "title": self.title or None,
            "loop_id": self.loop_id,
            "reason": self.reason,
            "question": self.what,
            "detail": self.detail,
            "not_before": self.not_before,
            "said": self.said or None,
            "look": self.look or None,
            "answers": [
                {"choice": choice.name, "label": choice.label, "needs": list(choice.needs), "command": command}
                for choice, command in self.answers
            ],
        }

    def _command(self, choice: Choice) -> str:
        if self.document:
            return _APPROVAL.format(document=shlex.quote(self.document), revision=self.revision)
        known = _ISSUE_ANSWERS if self.number is not None else _LOOP_ANSWERS
        form = known.get((self.reason, choice.name)) or _ANY_ANSWERS[choice.name]
        return form.format(
            number=self.number,
            loop_id=self.loop_id,
            task_key=shlex.quote(self.task_key),
            revision=self.revision or "REVISION",
            extend=shlex.quote(f"loop=extend:{self.amount or '20'}"),
        )
