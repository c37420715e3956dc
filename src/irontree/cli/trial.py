"""Trying the configured checks from a terminal: before an approval, and for `irontree doctor --run` (decision 27)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from irontree.app import App
from irontree.cli.console import Console, says_yes
from irontree.cli.output import Cell, OutputBlock, TextLines
from irontree.domain.checks import CheckResult, configured_checks, excerpt, trouble_without_work
from irontree.domain.plan import ExecutionPolicy
from irontree.domain.text import printable
from irontree.errors import EnvironmentRefused, RemoteFailed, in_words
from irontree.services.answers.answers import between_steps
from irontree.services.execution.steps import settle_leftovers
from irontree.services.execution.trial import top_level, try_checks

WAIT_SECONDS: Final = 10
"""How long a command waits for another process to release the driver lock."""


def offer_trial(console: Console, app: App, policy: ExecutionPolicy) -> None:
    """Offer to run set-up and checks once, before the user approves; they run only after a yes or Enter."""
    commands = [*policy.workspace.setup]
    commands += [check.run for check in configured_checks(policy, top_level(app.repository.root))]
    if not commands:
        return
    console.write("\nThese commands can be tried once before you decide, without any change of the code:\n")
    for command in commands:
        console.write(f"  {printable(command)}\n")
    if says_yes(console, "Try these commands now? [Y/n] ", unless_told="yes"):
        _show(console, app, policy)


def _show(console: Console, app: App, policy: ExecutionPolicy) -> None:
    try:
        results = try_now(app, policy)
    except (EnvironmentRefused, RemoteFailed) as error:
        console.write(f"They could not be tried. {in_words(error)}\n\n")
        return
    for block in blocks(results):
        console.show(dict, (block,))
    if any(map(trouble_without_work, results)):
        console.write("If you approve anyway, you are asked about that before any agent works.\n")
    console.write("\n")


def try_now(app: App, policy: ExecutionPolicy) -> tuple[CheckResult, ...]:
    """The results at the tip of the target, run now. Raises Busy, EnvironmentRefused, RemoteFailed."""
    with between_steps(app, "try the checks", wait_seconds=WAIT_SECONDS):
        settle_leftovers(app)
        return try_checks(app, policy, app.repository.base(policy.publish), anew=True).results


def blocks(results: Sequence[CheckResult]) -> Iterator[OutputBlock]:
    """How each came out, and of one that failed the decisive lines of what it printed."""
    for result in results:
        trouble = trouble_without_work(result)
        yield TextLines((Cell(trouble, "bad") if trouble else Cell(f"`{result.command}` passes", "good"),))
        if not result.passed:
            yield TextLines(tuple(Cell(f"  {printable(line)}", "faint") for line in excerpt(result).splitlines()))
