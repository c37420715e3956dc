"""How runs are called: deployments, idempotency keys, tags and titles (protocol, Runs).

Imports nothing of Prefect: what is to be served is described before Prefect's settings are adopted.
"""

from __future__ import annotations

from irontree.app import App
from irontree.domain.decide import Aggregate, Finalize, Recover, Run, Step, Verify
from irontree.domain.state import TaskState


def deployment(flow: str, app: App) -> str:
    """The deployment of *flow* for this repository: two folders on one server do not take each other's runs."""
    return f"{flow}/{app.repository.id}"


def issue_key(app: App, state: TaskState) -> str:
    """One flow run per workspace, issue and revision, for life."""
    return f"{app.repository.id}:issue-{state.issue_number}:{state.approved_revision}"


def is_key_of_issue(key: str | None, app: App, state: TaskState) -> bool:
    """Whether *key* is that of a run of this issue, of whatever revision; one that was made by hand has none."""
    return key is not None and key.startswith(issue_key(app, state).removesuffix(state.approved_revision))


def is_key_of_another_revision(key: str | None, app: App, state: TaskState) -> bool:
    """Whether *key* is that of this issue's run, but before it was approved again."""
    return is_key_of_issue(key, app, state) and key != issue_key(app, state)


def loop_key(app: App, loop_id: str, sequence: int) -> str:
    """One flow run per stretch of a loop: *sequence* is the newest loop event when it is started."""
    return f"{app.repository.id}:loop-{loop_id}:{sequence}"


def tags(app: App, *more: str) -> list[str]:
    """Tags by which the UI filters; the name of the folder is for the eye."""
    return ["irontree", f"repository:{app.repository.id}", *more, f"folder:{app.repository.root.name}"]


def issue_tag(issue_number: int) -> str:
    """The tag of all runs of that issue, whatever its revision."""
    return f"issue:{issue_number}"


def step_title(step: Step, state: TaskState) -> str:
    """The row of a step on the run's page: `run: attempt 2 of 4`, `checkup: finalize`."""
    match step:
        case Run():
            return f"run: attempt {state.attempt_count + 1} of {state.total_attempts}"
        case Recover():
            return f"run: recover attempt {state.attempt_count} of {state.total_attempts}"
        case Verify():
            return f"verify: attempt {state.attempt_count} of {state.total_attempts}"
        case Finalize():
            return "checkup: finalize"
        case Aggregate():
            return "checkup: aggregate"
