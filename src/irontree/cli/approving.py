"""Have a person's word for what would be done: from before, as an option, or here and now (protocol, the one gate)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from irontree.app import App
from irontree.cli.console import Console
from irontree.cli.context import Context
from irontree.cli.keyboard import forget_keys
from irontree.cli.text import printable
from irontree.errors import ApprovalRefused
from irontree.services.planning.approval import approval_text
from irontree.services.planning.approve import Proposal, require_revision
from irontree.services.planning.authorise import require_clear, require_named
from irontree.services.planning.resolve import ResolvedPlan

YES: Final = frozenset({"y", "yes"})
NO: Final = frozenset({"n", "no"})


def ask_for_approval(
    context: Context,
    app: App,
    wanted: Proposal | ResolvedPlan,
    *,
    loop_mode: bool,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Return once a person has approved exactly this; raises ApprovalRefused if nobody does.

    *meanwhile* is called once somebody is reading.
    """
    given = context.options.approve
    before = _approved_before(wanted)
    if before and given is None:
        context.console.write(f"{before}; going on with it.\n")
        return
    if given is not None:
        _require(wanted, given)
    answer = f"--approve {wanted.name}" if given else "yes"
    show_markdown(context.console, approval_text(app, wanted, loop_mode=loop_mode, answer=answer))
    if isinstance(wanted, ResolvedPlan):
        require_clear(wanted)
    if given is None:
        _ask(context.console, wanted, loop_mode=loop_mode, meanwhile=meanwhile)


def _approved_before(wanted: Proposal | ResolvedPlan) -> str:
    """Who approved exactly this before, in words; empty if nobody has."""
    if isinstance(wanted, ResolvedPlan):
        return f"All of {wanted.query} is approved, and in loop {wanted.loop_id}" if wanted.approved else ""
    return f"Revision {wanted.revision} was approved by {wanted.approved.approved_by}" if wanted.approved else ""


def _require(wanted: Proposal | ResolvedPlan, given: str) -> None:
    if isinstance(wanted, ResolvedPlan):
        require_named(wanted, given)
    else:
        require_revision(wanted, given)


def _ask(console: Console, wanted: Proposal | ResolvedPlan, *, loop_mode: bool, meanwhile: Callable[[], None]) -> None:
    if not sys.stdin.isatty():
        what = wanted.query if isinstance(wanted, ResolvedPlan) else f"revision {wanted.revision}"
        raise ApprovalRefused(
            f"{what} is not approved, and nobody is here to ask",
            remedy=f"look at the plan above, then add --approve {wanted.name}",
        )
    meanwhile()
    prompt = "Approve and start the loop? [yes/no] " if loop_mode else "Approve and publish? [yes/no] "
    if not _says_yes(console, prompt):
        raise ApprovalRefused("not approved; nothing was published")


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


def show_markdown(console: Console, text: str) -> None:
    """Drawn on a terminal, as it is elsewhere; other people's words in it do nothing to a terminal."""
    if not console.draws:
        console.write(f"{printable(text)}\n")
        return
    from rich.console import Console as RichConsole
    from rich.markdown import Markdown

    RichConsole(file=console.out).print(Markdown(printable(text)))
