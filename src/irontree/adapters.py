"""The adapters of an App, made from its configuration on first use: forge, agents, checks, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from irontree.agents.registry import as_called, open_agent
from irontree.app import Preferences, SystemClock
from irontree.checks.shell import ShellCheckRunner
from irontree.config import Config
from irontree.config_file import add_permissions, load_instructions
from irontree.domain.agents import AgentSpec
from irontree.domain.command_lines import unshown
from irontree.domain.permissions import PermissionRule
from irontree.domain.plan import ExecutionPolicy, PublishPolicy
from irontree.domain.settings import SHOWN_IN_FULL, default_remote
from irontree.errors import ConfigRefused, EnvironmentRefused
from irontree.forges import ForgeSettings, Location, connect, location_of
from irontree.ports import CheckRunner, CodingAgent, Forge, Places
from irontree.processes.children import ChildProcesses
from irontree.processes.containers import without_credentials
from irontree.processes.running import capture
from irontree.repository import GitRepository
from irontree.store.codec import read_mapping, write_mapping
from irontree.store.layout import Layout
from irontree.store.streams import ISSUE_FORM, stream_folders

_QUESTION_SECONDS = 20.0
"""Time limit: a program that knows a token answers at once; otherwise it would prompt."""


@dataclass(frozen=True)
class Adapters:
    """Everything that an App makes from one configuration, on first use."""

    config: Config
    repository: GitRepository
    layout: Layout
    children: ChildProcesses
    environment: Mapping[str, str] = field(repr=False)
    """The caller's environment; no text shows its secrets."""
    places: Places

    @cached_property
    def forge(self) -> Forge:
        """The configured forge. Raises ConfigRefused."""
        settings = ForgeSettings(
            folder=self.layout.state / "forge",
            account=self.repository.user_name() or "irontree",
            taken=lambda: stream_folders(ISSUE_FORM, self.layout.state),
            clock=SystemClock(),
            read_mapping=read_mapping,
            write_mapping=write_mapping,
            branches=self.repository,
            default_branch=lambda: self.repository.default_target(default_remote(self.repository.remotes())) or "",
            location=self._location,
            environment=self.environment,
            agents=frozenset(member.account.casefold() for member in self.config.team if member.account),
            ask_program=lambda argv: ask_program(argv, self.repository.root, self.environment),
        )
        return connect(self.config.forge.adapter, settings)

    @cached_property
    def checks(self) -> CheckRunner:
        """The runner of checks."""
        return ShellCheckRunner(self.children.lending(self.repository.stores), self.environment)

    @cached_property
    def preferences(self) -> Preferences:
        """The settings that need no approval."""
        config, location = self.config, self._location
        return Preferences(
            tracker=f"{location.url}/{location.repository}" if location else "",
            close_on_done=config.issue.close_on_done or ("auto" if config.has_toolchain else None),
            type_labels=config.has_toolchain,
            rounds=config.toolchain.rounds,
            composite_threshold=config.issue.composite_threshold,
            keeps_current=config.issue.keep_current,
            reply=config.comment.reply,
            loop_budget=config.loop.max_transitions,
            api_url=config.prefect.api_url,
            automations=config.automations,
            approves_by_assignment=config.toolchain.approve == "assignment",
        )

    def agent(self, spec: AgentSpec) -> CodingAgent:
        """The agent that *spec* describes. Raises ConfigRefused for an unknown adapter."""
        return open_agent(spec, self.children.lending(self.repository.stores), self.environment)

    def allow(self, rules: Sequence[PermissionRule]) -> None:
        """Add rules to the configuration. Raises ConfigRefused, EnvironmentRefused."""
        add_permissions(self.layout.config, rules)

    def policy(self, approved: PublishPolicy | None) -> ExecutionPolicy:
        """The current configuration of everything that is subject to approval (R6).

        A remote and a target branch that it does not name are the *approved* ones: checking out another branch in
        mid-work is not a change. A branch of a plan's own stays, whatever the file names. Raises ConfigRefused, and
        EnvironmentRefused on a detached HEAD if no branch was approved.
        """
        config, repository = self.config, self.repository
        remote = approved.remote if approved else default_remote(repository.remotes())
        branch = config.publish.target_branch or (approved.target_branch if approved else repository.current_branch())
        if branch is None:
            raise EnvironmentRefused(
                f"{repository.root} is on no branch, so there is none to publish to",
                remedy="`git switch` to a branch, or set publish.target_branch in .mino/config.yml",
            )
        policy = config.policy(remote, branch, self.places.best)
        called = {
            "agent": as_called(policy.agent),
            "reviewers": tuple(map(as_called, policy.reviewers)),
            "team": tuple(map(as_called, policy.team)),
        }
        told = load_instructions(config.toolchain, repository.root)
        policy = policy.model_copy(update={**called, "publish": policy.publish.where(approved), "instructions": told})
        for agent in (policy.agent, *policy.reviewers, *policy.team):
            _require_shown(agent)
        return policy

    @property
    def _location(self) -> Location | None:
        """The repository's place on the web, from the configuration and the remote; local files have none."""
        config, repository = self.config, self.repository
        if config.forge.adapter == "local":
            return None
        remote = config.publish.remote or default_remote(repository.remotes())
        address = repository.remote_url(remote) if remote else None
        ca_file = config.forge.ca_file
        return location_of(
            address, config.forge.url, config.forge.repository, repository.root / ca_file if ca_file else None
        )


def _require_shown(agent: AgentSpec) -> None:
    """Raise ConfigRefused if an approval would not show all of its command line, which several keys make up (R6)."""
    if found := unshown(agent.line):
        what, remedy = found
        raise ConfigRefused(
            f".mino/config.yml: the command line of the {agent.known_as} has {what}. {remedy}", remedy=SHOWN_IN_FULL
        )


def ask_program(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str | None:
    """The output of a read-only program; `None` if it is missing, fails or takes too long."""
    try:
        done = capture(argv, cwd=folder, environment=without_credentials(environment), seconds=_QUESTION_SECONDS)
    except EnvironmentRefused:
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.exit_code == 0 else None
