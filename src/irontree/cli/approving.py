"""Have a person's word for what would be done: from before, as an option, or here and now (protocol, the one gate)."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from irontree.app import App
from irontree.cli.console import Console
from irontree.cli.context import Context
from irontree.cli.exit_codes import OK
from irontree.cli.keyboard import forget_keys
from irontree.cli.markdown import show_markdown
from irontree.cli.text import one_line, printable
from irontree.domain.plan import PlanNode
from irontree.errors import ApprovalRefused
from irontree.services.planning.approval import Wanted, approval_text

YES: Final = frozenset({"y", "yes"})
NO: Final = frozenset({"n", "no"})
WAIT_SECONDS: Final = 10
"""How long what was approved waits for another process to let go of the driver lock."""


def ask_for_approval(
    context: Context,
    app: App,
    wanted: Wanted,
    *,
    loop_mode: bool,
    meanwhile: Callable[[], None] = lambda: None,
    command: str = "",
) -> None:
    """Return once a person has approved exactly this; raises ApprovalRefused if nobody does.

    *meanwhile* is called once somebody is reading. *command* approves it without a terminal, where that needs more
    than `--approve` in addition to what was typed.
    """
    given = context.options.approve
    if wanted.approved and given is None:
        context.console.write(f"{wanted.approved_in_words}; going on with it.\n")
        return
    if given is not None:
        wanted.require_named(given)
    asked_here = given is None and sys.stdin.isatty()
    text = approval_text(app, wanted, loop_mode=loop_mode, answer="yes" if asked_here else "")
    show_markdown(context.console, text)
    wanted.require_clear()
    if given is None:
        if not asked_here:
            raise ApprovalRefused(
                f"{wanted.what} is not approved, and nobody is here to ask",
                remedy=f"look at the plan above, then {command or f'add --approve {wanted.name}'}",
            )
        meanwhile()
        _ask(context.console, loop_mode=loop_mode)


def _ask(console: Console, *, loop_mode: bool) -> None:
    prompt = "Approve and start the loop? [yes/no] " if loop_mode else "Approve and publish? [yes/no] "
    if not _says_yes(console, prompt):
        raise ApprovalRefused("not approved; nothing was published")


def show_plan(context: Context, app: App, wanted: Wanted, data: Mapping[str, object]) -> int:
    """Show what would be approved, and how; *data* is its machine form. The exit code."""
    if context.options.json:
        context.console.dump(data)
        return OK
    answer = f"irontree task {shlex.quote(wanted.intent)} --approve {wanted.name}"
    show_markdown(context.console, approval_text(app, wanted, loop_mode=True, answer=answer))
    return OK


def show_published(context: Context, tasks: Iterable[tuple[int, str, PlanNode]]) -> int:
    """Show the tasks of a stepwise approval, each with its number and what became of it; the exit code."""
    ready = []
    for number, status, node in tasks:
        context.console.write(f"#{number}  {status:10} {one_line(node.title)}\n")
        if not node.depends_on and node.executability == "executable":
            ready.append(number)
    if ready:
        context.console.write(f"Next: irontree run issue-{min(ready)}\n")
    return OK


def _says_yes(console: Console, prompt: str) -> bool:
    """Ask until it is yes or no; the end of the input (Ctrl-D) is no. What was typed before does not count."""
    while True:
        forget_keys(sys.stdin)
        try:
            typed = input(prompt).strip()
        except EOFError:
            return False
        if typed.lower() in YES | NO:
            return typed.lower() in YES
        console.write(f"“{printable(typed)}” is neither yes nor no.\n")
