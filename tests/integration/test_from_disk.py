"""Every halt, with every answer to it, from what is on disk: each step opens the repository anew.

That is what a new process would read: `open_app` makes all stores, locks and settings from the folder, and nothing of
an earlier step is handed on. The doubles that live on stand for what is not ours on the disk: git, the forge, the agent
and the checks. Programs of their own do the same at the end of this file.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.app import App, Origin
from irontree.bootstrap import open_app, set_up
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.decide import Halt
from irontree.domain.events import Record
from irontree.domain.halt import AGENT_BUDGET, RULES, Choice, HaltRule
from irontree.errors import AnswerRefused
from irontree.forges import ForgeSettings
from irontree.forges.memory import MemoryForge, Tracker
from irontree.ports import AgentResult, AgentTask
from irontree.repository.memory import MemoryRepository
from irontree.services.answers.answers import Answer, answer_issue, answer_loop
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import perform
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import next_decision
from irontree.services.proposals.sources import propose
from irontree.services.questions.questions import Question, gate_at, open_questions
from irontree.services.record import read_world
from irontree.store.codec import read_mapping, write_mapping
from tests.support.repositories import git
from tests.support.store import StillClock
from tests.support.world import MANUAL_TASK, ONE_TASK, has, writes_what_is_asked

CONFIG = """\
agent: {command: agent}
forge: {adapter: gitea, repository: ada/engine, url: "http://127.0.0.1:1"}
publish: {remote: origin, target_branch: main}
"""
GATES = """\
gates:
  acceptance: {approvers: 2}
  approval: {}
  failure:
    not_requester: true
  blocked: {approvers: 2, not_requester: true}
"""
DENIED = ("no rule allows: execute make",)


@dataclass
class OnDisk:
    """A repository at *root*; `app` is opened anew each time."""

    root: Path
    agent: ScriptedAgent
    repository: MemoryRepository
    tracker: Tracker

    @property
    def app(self) -> App:
        settings = ForgeSettings(self.root / "forge", "us", StillClock(), read_mapping, write_mapping)
        return replace(
            open_app(self.root, origin=Origin("ada", "command")),
            repository=self.repository,
            forge=lambda: MemoryForge(settings, self.tracker),
            agent=lambda _: self.agent,
            checks=lambda: ScriptedCheckRunner(has),
            which=lambda program: program,
        )

    def configure(self, text: str) -> None:
        with (self.root / ".mino" / "config.yml").open("a") as config:
            config.write(text)

    def write(self, text: str) -> Path:
        (self.root / "SPEC.md").write_text(text)
        return self.root / "SPEC.md"

    def start(self, text: str) -> str:
        """Approve the document; the id of its loop."""
        path = self.write(text)
        revision = propose(self.app, path).name
        return approve(self.app, propose(self.app, path), revision, "ada").id

    def drive(self, loop_id: str) -> Halt:
        """One step after the other, to the next halt."""
        if reason := loops.read_loop(self.app, loop_id).entity.halt_reason:
            return Halt(reason)
        while not isinstance(decision := next_decision(self.app, loop_id), Halt):
            loops.resume(self.app, loop_id)
            perform(self.app, decision, loop_id)
        loops.halt(self.app, loop_id, decision)
        return decision

    def question(self) -> Question:
        app = self.app
        (asked,) = open_questions(app, read_world(app), loops.read_loops(app)[0])
        return asked

    def answer(self, asked: Question, given: Answer) -> None:
        app = self.app
        with app.driver.hold("answer"):
            if asked.issue_number is None:
                answer_loop(app, asked.loop_id, given)
            else:
                answer_issue(app, asked.issue_number, given, asked.loop_id)

    def newest(self, loop_id: str) -> tuple[Record[Any], Record[Any]]:
        """The newest event of the issue, and of the loop."""
        app = self.app
        return app.log.read(1).records[-1], app.loops.read(loop_id).records[-1]


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("template") / "project"
    root.mkdir()
    git(root, "init", "--quiet")
    return root


def new_disk(template: Path, folder: Path) -> OnDisk:
    root = folder / "project"
    shutil.copytree(template, root)
    (root / "README.md").write_text("toy\n")
    set_up(root)
    (root / ".mino" / "config.yml").write_text(CONFIG)
    return OnDisk(root, ScriptedAgent(writes_what_is_asked), MemoryRepository(root, folder / "cache"), Tracker())


@pytest.fixture(scope="module")
def halted(template, tmp_path_factory) -> Callable[..., tuple[OnDisk, str]]:
    """A repository that halted, and its loop; it is brought there once, and kept for each of the answers."""
    reached: dict[tuple[str, str, str], tuple[OnDisk, str]] = {}

    def again(kind: str, rule: HaltRule, gates: str) -> tuple[OnDisk, str]:
        key = kind, rule.reason, gates
        if key not in reached:
            disk = new_disk(template, tmp_path_factory.mktemp("halted"))
            disk.configure(gates)
            loop_id = WAYS[kind, rule.reason](disk)
            assert disk.drive(loop_id).reason == rule.reason
            shutil.copytree(disk.root / ".mino", disk.root.parent / "kept")
            reached[key] = disk, loop_id
        disk, loop_id = reached[key]
        shutil.rmtree(disk.root / ".mino")
        shutil.copytree(disk.root.parent / "kept", disk.root / ".mino")
        return replace(disk, repository=deepcopy(disk.repository), tracker=deepcopy(disk.tracker)), loop_id

    return again


# --- the way to each halt


def _denied(task: AgentTask, *, wrong: bool = False) -> AgentResult:
    if wrong:
        (task.workspace / "greet.txt").write_text("bye\n")
    else:
        writes_what_is_asked(task)
    return AgentResult("exited", 0, 3600.0, "", denied=DENIED)


def fails(disk: OnDisk) -> str:
    disk.configure("run: {max_retry_count: 0}\n")
    disk.agent = ScriptedAgent(partial(_denied, wrong=True))
    return disk.start(ONE_TASK)


def waits_for_acceptance(disk: OnDisk) -> str:
    disk.agent = ScriptedAgent(_denied)
    return disk.start(MANUAL_TASK)


def changes(disk: OnDisk) -> str:
    loop_id = disk.start(ONE_TASK)
    disk.write(ONE_TASK.replace("it says hello", "it always says hello"))
    return loop_id


def is_in_the_way(disk: OnDisk) -> str:
    """After a denied attempt that failed, the agent has no access."""
    disk.agent = ScriptedAgent(partial(_denied, wrong=True))
    loop_id = disk.start(ONE_TASK)
    for _ in ("run", "verify"):
        loops.resume(disk.app, loop_id)
        perform(disk.app, next_decision(disk.app, loop_id), loop_id)
    disk.agent.access_denied = "nobody is logged in"
    return loop_id


def is_stuck(disk: OnDisk) -> str:
    """What this halt guards against has no known way to it."""
    loop_id = disk.start(ONE_TASK)
    loops.halt(disk.app, loop_id, Halt("protocol_gap", detail="stuck"))
    return loop_id


def uses_its_transitions(disk: OnDisk) -> str:
    disk.configure("loop: {max_transitions: 1}\n")
    return disk.start(ONE_TASK)


def uses_its_budget(disk: OnDisk) -> str:
    disk.configure("budgets: {loop: {time: 1h}}\n")
    disk.agent = ScriptedAgent(partial(_denied, wrong=True))
    return disk.start(ONE_TASK)


WAYS: dict[tuple[str, str], Callable[[OnDisk], str]] = {
    ("issue", "fail_terminal"): fails,
    ("issue", "pending_acceptance"): waits_for_acceptance,
    ("issue", "reapproval_required"): changes,
    ("issue", "blocked"): is_in_the_way,
    ("loop", "protocol_gap"): is_stuck,
    ("loop", "loop_budget_exhausted"): uses_its_transitions,
    ("budget", "loop_budget_exhausted"): uses_its_budget,
}
# What becomes of each answer: the newest event of the issue, or else of the loop.
BECOMES = {
    ("fail_terminal", "retry"): "checkup_unblocked",
    ("fail_terminal", "verify"): "checkup_unblocked",
    ("pending_acceptance", "accept"): "checkup_accept_recorded",
    ("pending_acceptance", "send-back"): "verify_failed_retryable",
    **{("reapproval_required", f"approve{way}"): "task_published" for way in ("", "-keep", "-reopen", "-keep-reopen")},
    ("blocked", "go-on"): "checkup_unblocked",
    ("fail_terminal", "allow"): "checkup_unblocked",
    ("pending_acceptance", "allow"): "verify_failed_retryable",
    ("blocked", "allow"): "checkup_unblocked",
    ("protocol_gap", "go-on"): "loop_resumed",
    ("loop_budget_exhausted", "extend"): "loop_resumed",
}


def asked() -> list[tuple[str, HaltRule, Choice]]:
    """Each choice of each rule: a new one without a way to it, or without what becomes of it, fails here."""
    kinds = [(str(rule.asked_of), rule) for rule in RULES if rule.asked_of] + [("budget", AGENT_BUDGET)]
    return [(kind, rule, choice) for kind, rule in kinds for choice in rule.choices]


def an_answer(disk: OnDisk, choice: Choice, **more: Any) -> Answer:
    known: dict[str, Callable[[], object]] = {
        "note": lambda: "look again",
        "count": lambda: 2,
        "amount": lambda: "1h",
        "revision": lambda: propose(disk.app, disk.root / "SPEC.md").name,
    }
    needs: dict[str, Any] = {need: known[need]() for need in choice.needs}
    return Answer(choice.name, "ada", **needs, **more)


@pytest.mark.parametrize(
    ("kind", "rule", "choice", "gates"),
    [
        pytest.param(kind, rule, choice, gates, id=f"{kind}-{rule.reason}-{choice.name}{'-gated' if gates else ''}")
        for kind, rule, choice in asked()
        for gates in (("", GATES) if kind == "issue" else ("",))
    ],
)
def test_each_answer_to_each_halt_is_taken_from_what_is_on_disk(halted, kind, rule, choice, gates):
    disk, loop_id = halted(kind, rule, gates)
    question = disk.question()
    assert (question.reason, question.loop_id) == (rule.reason, loop_id)
    gate = gate_at(read_world(disk.app), question, choice)
    assert bool(gate) == bool(gates and choice.permits and kind == "issue")
    if gate:
        with pytest.raises(AnswerRefused, match="counts only comments on the issue"):
            disk.answer(question, an_answer(disk, choice))
    disk.answer(disk.question(), an_answer(disk, choice, voters=("bob", "carol") if gate else ()))
    of_issue, of_loop = disk.newest(loop_id)
    expected = "loop_cancelled" if choice.name in {"skip", "stop"} else BECOMES[rule.reason, choice.name]
    assert expected == (of_loop if expected.startswith("loop_") else of_issue).event.event


def test_a_program_of_its_own_reads_a_plan_with_gates(template, tmp_path):
    """Approved by one process, shown and refused by two others."""
    disk = new_disk(template, tmp_path)
    disk.configure(GATES)
    disk.drive(waits_for_acceptance(disk))
    command = [sys.executable, "-m", "irontree", "-C", str(disk.root)]
    shown = subprocess.run([*command, "status"], capture_output=True, text=True, check=False)
    assert (shown.returncode, "Greeting" in shown.stdout) == (0, True), shown.stderr
    refused = subprocess.run([*command, "checkup", "accept", "1"], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "2 people with write access decide there" in refused.stderr
