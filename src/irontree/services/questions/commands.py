"""What to type: the command for every answer, and the next step when nothing is running."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from irontree.app import App
from irontree.domain import typed
from irontree.domain.budgets import EXAMPLES
from irontree.domain.decide import Halt, Step, decide, step_for
from irontree.domain.halt import BRANCH, Choice
from irontree.domain.state import Phase, TaskState
from irontree.services.loops.funds import read_funds
from irontree.services.loops.loop import Loop, loop_of, still_open
from irontree.services.questions.questions import Question, given_up, task_command
from irontree.services.record import World
from irontree.services.views.history import step_command
from irontree.services.views.overview import SERVING

_SHORT: Final[Mapping[str, Callable[[int | None], str]]] = {
    "accept": typed.accept,
    "send-back": typed.reject,
    "retry": typed.retry,
    "go-on": typed.retry,
    "skip": typed.skip,
}
"""The choices about an issue that have a verb of their own; `irontree answer` makes all others."""
DAMAGED: Final = "irontree checkup reconcile"
"""The command that comes before any answer if an issue's log has gaps."""


def answers_to(question: Question, program: str = "irontree") -> tuple[tuple[Choice, str], ...]:
    """Every choice that a command can make, with that command; none while the log is damaged."""
    if question.damaged:
        return ()
    open_to_all = (choice for choice in question.choices(question.special) if choice.name not in question.gated)
    return tuple((choice, called(_command(question, choice), program)) for choice in open_to_all)


def called(command: str, program: str) -> str:
    """The command, with *program* as the program's name."""
    return f"{program}{command.removeprefix('irontree')}"


def _command(question: Question, choice: Choice) -> str:
    revision = question.revision or "NAME"
    if question.rule is BRANCH:
        return task_command(question.document, "NAME" if choice.name == "other" else choice.name)
    if question.kind == "document":
        return f"{task_command(question.document, question.branch)} --approve {revision}"
    if choice.name == "stop":
        return typed.stop(question.loop_id)
    if question.kind == "issue" and choice.name in _SHORT:
        command = _SHORT[choice.name](question.issue_number)
        return f"{command} {typed.NOTE}" if choice.hints_note else command
    examples = {
        "amount": EXAMPLES[question.budget.unit] if question.budget else "",
        "count": "20",
        "revision": revision,
    }
    words = ":".join((choice.name, *(examples[need] for need in choice.needs)))
    return typed.answer(question.issue_number or question.loop_id, words)


def question_json(question: Question, program: str = "irontree") -> dict[str, Any]:
    """The question by its documented JSON keys."""
    return {
        "issue": question.issue_number,
        "document": question.document or None,
        "task_key": question.task_key,
        "title": question.title or None,
        "loop_id": question.loop_id,
        "reason": question.reason,
        "question": question.rule.title,
        "detail": question.detail,
        "not_before": question.not_before,
        "said": question.said or None,
        "look": called(question.look, program) if question.look else None,
        "answers": [
            {"choice": choice.name, "label": choice.label, "needs": list(choice.needs), "command": command}
            for choice, command in answers_to(question, program)
        ],
    }


# --- What to type next when nothing is running


def next_command(app: App, world: World, loops: Sequence[Loop]) -> str:
    """The command that continues the newest open loop, else a single step; empty if none is due. *loops* are all."""
    alive = still_open(loops)
    if alive:
        return _resume(app, alive[-1].id)
    keys, unpaid = _wanted(app, world, loops)
    decision = decide(world.scope(keys, overspent=unpaid))
    return "" if isinstance(decision, Halt) else _step(world, decision)


def next_command_about(app: App, world: World, loops: Sequence[Loop], state: TaskState) -> str:
    """The command for this issue's next step, else for the issue whose turn it is; empty if none is due.

    An issue in an open loop continues with that loop: by itself while the loop is active, else when it is resumed.
    Tasks that a user skipped or stopped, or that no agent may work on, are not offered.
    """
    loop_id = loop_of(still_open(loops), state.task_key)
    if loop_id:
        return "" if world.halt_of(state) else _resume(app, loop_id)
    keys, unpaid = _wanted(app, world, loops)
    wanted = state.task_key in keys and state.task_key not in unpaid
    step = step_for(world.scope((state.task_key,)), state) if wanted else None
    return _step(world, step) if step else next_command(app, world, loops)


def goes_on(app: App) -> bool:
    """Whether a loop continues here without a command: it is active, or its flows are served from a terminal."""
    return bool(app.lease.holder() or app.alive(SERVING).holder())


def _wanted(app: App, world: World, loops: Sequence[Loop]) -> tuple[list[str], Mapping[str, str]]:
    """The tasks that were not given up, and those of them that no agent may work on, with the reason.

    What is verified and published only has to be finalized, whoever gave its loop up.
    """
    dropped = given_up(loops, world)
    keys = [key for key, state in world.states.items() if key not in dropped or state.phase is Phase.VERIFIED]
    return keys, read_funds(app, world, loops).overspent(keys)


def _resume(app: App, loop_id: str) -> str:
    return "" if goes_on(app) else typed.resume(loop_id)


def _step(world: World, step: Step) -> str:
    return step_command(step, world.states[step.task_key].issue_number)
