"""Everything that is known about one agent program, as a value; and LiteLLM's errors, which several print."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from irontree.agents.reading import AgentReading, JsonRecord, UsageCount, record_in, says_nothing
from irontree.domain.agents import KNOWN_AGENTS
from irontree.domain.attempt import FailureClass

SANDBOX: Final = "{sandbox}"


@dataclass(frozen=True, slots=True)
class LoginCheck:
    """The words behind the program that ask it for its log-in, and what of its answer says that there is none.

    `elsewhere` says, of the home and more words of the command line, whether it may work with another service.
    """

    words: tuple[str, ...]
    denies: Callable[[str], bool]
    elsewhere: Callable[[Path, Sequence[str]], bool] = lambda _home, _arguments: False


@dataclass(frozen=True, slots=True)
class SandboxCheck:
    """The words behind the program that run something in its own sandbox, and signs in its output that this works."""

    words: tuple[str, ...]
    works: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preset:
    """How a known program is called, and how what it prints is understood.

    `command` has the placeholders of the adapter `command`; the prompt comes on stdin. Every program is given the
    narrowest permission with which it can edit files unattended.
    """

    name: str
    command: tuple[str, ...]
    """The words behind the program."""
    model: tuple[str, ...]
    """What names the model; `{model}` is filled in."""
    read: Callable[[Iterable[str], datetime], AgentReading]
    """What the lines of its output say; the time is now."""
    tell: Callable[[str], str | None]
    """One line of its output in words for people; None for one that is only for programs."""
    variables: tuple[str, ...]
    """Names of variables by which people give it a key or an address."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables that are set for it: no self-update, no telemetry."""
    signed_in: tuple[str, ...] = ()
    """Files below HOME of which one is there after a log-in; empty if that cannot be told."""
    first: tuple[str, ...] = ()
    """Words before the program, for one that cannot read its prompt from stdin."""
    last: tuple[str, ...] = ()
    """Words that have to stand behind all others."""
    add: UsageCount = says_nothing
    """What it has taken by now, by one more line of output; only for programs that tell while they work."""
    exits: Mapping[int, FailureClass] = field(default_factory=dict)
    """What an exit code says of the service where no line does."""
    log_in: str = ""
    """How to get access."""
    reads: tuple[str, ...] = ()
    """What it needs below HOME in our sandbox, read-only: settings, never a cache."""
    writes: tuple[str, ...] = ()
    """The same, and it may change them: log-ins that it renews."""
    own_sandbox: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Words in place of `{sandbox}`: for its own sandbox where ours is not, and to turn it off where ours is on."""
    sandbox_check: SandboxCheck | None = None
    """How to ask it whether its own sandbox works; None if its records say so, or it has none."""
    status: LoginCheck | None = None
    """How to ask it whether it is logged in; None if it cannot say, or only slowly."""

    @property
    def program(self) -> str:
        """The name under which it is on PATH."""
        return KNOWN_AGENTS[self.name]

    def signed_in_here(self, environment: Mapping[str, str], names: Collection[str]) -> bool | None:
        """Whether it has a key under one of the *names* that it may see, or a log-in; None if that cannot be told."""
        if any(environment.get(name) for name in self.variables if name in names):
            return True
        home = Path(environment.get("HOME", "~")).expanduser()
        return any((home / place).exists() for place in self.signed_in) if self.signed_in else None

    def words(
        self, program: tuple[str, ...], model: str | None, arguments: tuple[str, ...], *, confined: bool = False
    ) -> tuple[str, ...]:
        """The command line; *program* replaces the usual name, *confined* says whether our sandbox is on."""
        command = tuple(
            each for word in self.command for each in (self.own_sandbox[confined] if word == SANDBOX else (word,))
        )
        chosen = tuple(word.replace("{model}", model) for word in self.model) if model else ()
        called = program or (self.program,)
        return (*self.first, *called, *command, *chosen, *arguments, *self.last)


def plain(line: str) -> str | None:
    """Tell the line as it is."""
    return line.strip() or None


def telling(
    tell: Callable[[JsonRecord], str | None], otherwise: Callable[[str], str | None] = plain
) -> Callable[[str], str | None]:
    """What tells a line: *tell* if it is a record, *otherwise* if it is for people already."""

    def told(line: str) -> str | None:
        record = record_in(line)
        return otherwise(line) if record is None else tell(record)

    return told


ASKS: Final = 10
"""The exit code by which a program of your own says that it needs an answer (docs/agents.md)."""
UNKNOWN: Final = Preset(
    name="command",
    command=(),
    model=(),
    read=lambda _lines, _now: AgentReading(),
    tell=str.rstrip,
    variables=(),
    exits={ASKS: "asks"},
)
"""The preset of an unknown program, whose output is for people."""


# --- Errors of LiteLLM, which the Python agents print as `litellm.RateLimitError: ...`


ERROR: Final = re.compile(r"\blitellm\.(?:exceptions\.)?(?P<name>\w+(?:Error|Timeout)|Timeout)\b:? ?(?P<words>.*)")
_FAILURES: Final[dict[str, FailureClass]] = {
    "APIConnectionError": "unreachable",
    "APIError": "unreachable",
    "AuthenticationError": "not_authenticated",
    "BudgetExceededError": "limit_reached",
    "ContentPolicyViolationError": "refused",
    "ContextWindowExceededError": "limit_reached",
    "InternalServerError": "unreachable",
    "PermissionDeniedError": "not_authenticated",
    "RateLimitError": "rate_limited",
    "ServiceUnavailableError": "unreachable",
    "Timeout": "unreachable",
}


def failure_named(name: str) -> FailureClass | None:
    """The class of the exception with that name."""
    return _FAILURES.get(name)
