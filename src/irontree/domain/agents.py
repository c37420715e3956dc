"""Agents as approved: the coding agent, reviewers, and the members of a team (R6, R18)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from irontree.domain.permissions import PermissionRule
from irontree.domain.places import Placed
from irontree.domain.task_types import TASK_TYPES, TaskType
from irontree.domain.values import is_default, is_empty

KNOWN_AGENTS: Final[Mapping[str, str]] = {
    **{name: name for name in ("claude", "codex", "gemini", "opencode", "copilot", "aider")},
    "mini-swe-agent": "mini",
}
"""Agents whose command line and output are known, and their programs, in the order that `init` prefers."""


class AgentSpec(Placed):
    """The coding agent as approved: the adapter's name, and what the program is told beside the prompt.

    `command` is the whole command line for the adapters `command` and `acp`; for a preset it is the program to call
    in place of its usual name. `model` and `arguments` are a preset's alone.
    """

    adapter: str = "command"
    command: tuple[str, ...] = ()
    model: str | None = Field(default=None, description="The model that a known agent works with. Unset: its own.")
    arguments: tuple[str, ...] = ()
    permissions: tuple[PermissionRule, ...] = Field(
        default=(),
        description="`{tool, match, allow}` for agents that ask for permission (`acp`): the first that fits counts. "
        "Without one, they may read and change files of their workspace, and nothing else.",
    )
    called: tuple[str, ...] = ()
    """All words with which a known agent is called, as they were shown at the approval (R6)."""
    wall_seconds: int = Field(default=3600, gt=0, description="Limit of one attempt.")
    stall_seconds: int = Field(default=600, gt=0, description="How long it may say nothing.")
    environment: tuple[str, ...] = ()

    @property
    def program(self) -> str | None:
        """The program that is started, by name or path; None if none is configured."""
        return self.command[0] if self.command else KNOWN_AGENTS.get(self.adapter)

    @property
    def line(self) -> str:
        """Its whole command line, as a shell would take it."""
        return shlex.join(self.called or self.command) or self.adapter

    @property
    def known_as(self) -> str:
        """What messages call it: that of all tasks has no name."""
        return "agent"


class ReviewerSpec(AgentSpec):
    """An agent that looks at what another one did, and the name it goes by (R18)."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,39}$", description="What it is called in reports: small letters, digits, `-`."
    )

    @property
    def known_as(self) -> str:
        """What messages call it."""
        return f"agent {self.name}"


Role = Literal["author", "reviewer"]


class Member(ReviewerSpec):
    """An agent of a team: who it is, and what it takes on."""

    display: str = Field(default="", description="What people call it. Unset: its name.")
    role: Role = Field(
        default="author",
        description="`author`: it works on tasks. `reviewer`: it looks at work, after those of `verify.reviewers`.",
    )
    capabilities: tuple[str, ...] = Field(default=(), description="What it is good at; its prompts say so.")
    kinds: tuple[TaskType, ...] = Field(
        default=(),
        description="The types of tasks that it takes on: the first author that takes one works on it, "
        "else `agent` does. Unset: all.",
    )
    account: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(\[bot\])?$", max_length=200)] | None = Field(
        default=None,
        description="Its account on the forge. Nothing that this account says approves, answers or commands anything.",
    )

    lead: bool = Field(default=False, exclude_if=is_empty, description="Whether it leads the team, as one member may.")
    discusses: bool = Field(
        default=True, exclude_if=is_default(True), description="Whether it is asked about new issues."
    )

    @property
    def called_by_people(self) -> str:
        """What people call it."""
        return self.display or self.name

    def takes(self, role: Role, task_type: str) -> bool:
        """Whether it takes on tasks of that type in that role."""
        return self.role == role and (not self.kinds or task_type in self.kinds)


def leaves_a_type(team: Iterable[Member]) -> bool:
    """Whether there is a type of task that no author of *team* takes, so that `agent` works on it."""
    authors = tuple(team)
    return any(not any(member.takes("author", each) for member in authors) for each in TASK_TYPES)
