"""Any program as a coding agent: prompt on stdin and as a file, work in the current folder (see `program`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from irontree.agents.program import ProgramAgent, Way
from irontree.agents.reading import Reading
from irontree.domain.plan import AgentSpec
from irontree.errors import ConfigRefused
from irontree.processes import Children


class CommandAgent(ProgramAgent):
    """The port `CodingAgent` for a command line of which nothing is known."""

    def __init__(self, spec: AgentSpec, children: Children, environment: Mapping[str, str]) -> None:
        """Run the words of `spec.command`; *environment* is the caller's. Raises ConfigRefused if there are none."""
        if not spec.command:
            raise ConfigRefused("agent.command is empty", remedy="name a program in agent.command in .mino/config.yml")
        super().__init__(spec, children, environment, Way(spec.command, _read_nothing, str.rstrip))


def _read_nothing(_lines: Iterable[str], _now: datetime) -> Reading:
    """What an unknown program prints is for people."""
    return Reading()
