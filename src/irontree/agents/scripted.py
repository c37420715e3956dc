"""The shipped double of `CodingAgent`: attempts are functions that a test writes."""

from __future__ import annotations

from collections.abc import Callable

from irontree.ports import AgentResult, AgentTask, Cancellation, Progress

ScriptedStep = Callable[[AgentTask], AgentResult | None]


class ScriptedAgent:
    """Takes one step per attempt, the last one again when there are no more; *tasks* is what it was asked to do.

    A step edits `task.workspace` and returns None for an ordinary end, or the result to report.
    """

    def __init__(self, *steps: ScriptedStep) -> None:
        self._steps = steps
        self.tasks: list[AgentTask] = []
        self.access_denied: str | None = None

    def no_access(self) -> str | None:
        """What a test put there."""
        return self.access_denied

    def attempt(self, task: AgentTask, *, cancel: Cancellation, progress: Progress) -> AgentResult:
        """Take the next step, unless asked to stop."""
        if cancel.is_set():
            return AgentResult("cancelled", None, 0.0, "")
        self.tasks.append(task)
        progress.note(f"scripted attempt {task.attempt} of {task.task_key}")
        step = self._steps[min(len(self.tasks), len(self._steps)) - 1]
        return step(task) or AgentResult("exited", 0, 0.0, "")


def writes(path: str, text: str) -> ScriptedStep:
    """A step that writes one file of the workspace."""

    def step(task: AgentTask) -> None:
        target = task.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    return step


def idles(_: AgentTask) -> None:
    """Change nothing: a step."""
