"""What `.hotl` shows of a workflow file that Iron Tree works off: a projection of the log (docs/hotl.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from irontree.app import App
from irontree.domain.checks import CheckReport
from irontree.domain.events import IssueEvent, Record, verified_at
from irontree.domain.plan import Plan
from irontree.domain.state import TaskState
from irontree.domain.timestamps import moment
from irontree.domain.workflow.checkout import REPORTS
from irontree.errors import EnvironmentRefused, LogDamaged
from irontree.services.loops.loop import Loop, newest_over_each, read_loop, read_loops
from irontree.services.record import World, read_world
from irontree.services.views.history import results_at, time_of
from irontree.services.views.report import newest_results

if TYPE_CHECKING:
    from irontree.domain.workflow.mirror import Mirrored
    from irontree.domain.workflow.workflow import Workflow


def show_runs(app: App, world: World, states: Iterable[TaskState]) -> None:
    """Write state and report of the runs that these issues are in. If that fails, it is told, and stops nothing."""
    for plan in _workflows(world, (state.task_key for state in states)):
        shown = _mirrored(app, world, plan)
        try:
            if shown:
                app.workflow_runs().show(shown.run, shown.log)
                _tick(app, plan, shown)
        except (EnvironmentRefused, LogDamaged) as error:
            app.progress.note(f"warning: the run of {plan.spec_path} in .hotl is not up to date: {error.message}")


def show_runs_of(app: App, loop_id: str) -> None:
    """The same for all issues of a loop, once it was stopped."""
    world = read_world(app)
    keys = read_loop(app, loop_id).entity.task_keys
    show_runs(app, world, [world.states[key] for key in keys if key in world.states])


def step_lists(app: App, world: World, keys: Iterable[str]) -> Iterator[str]:
    """The steps of each workflow file among these tasks that has `progress: verbose`, and where each stands."""
    from irontree.domain.workflow.report import step_list  # noqa: PLC0415  (see _mirrored)

    for plan in _workflows(world, keys):
        if _interpreted(plan).verbose and (shown := _mirrored(app, world, plan)):
            yield f"{plan.spec_path}:\n{step_list(shown.run).rstrip()}"


def _workflows(world: World, keys: Iterable[str]) -> Collection[Plan]:
    found = map(world.plans.get, keys)
    return {plan.spec_path: plan for plan in found if plan and any(node.step for node in plan.nodes)}.values()


def _tick(app: App, plan: Plan, shown: Mirrored) -> None:
    """Keep the boxes of the author's file as the log has it, unless the run was given up."""
    from irontree.domain.workflow.compile import with_boxes  # noqa: PLC0415  (see _mirrored)

    if shown.run.status == "abandoned" or plan.spec_path.startswith("/"):
        return
    done = [step.number for step in shown.run.steps if step.status == "done"]
    for number in app.workflow_runs().tick(plan.spec_path, partial(with_boxes, source=plan.source, done=done)):
        app.progress.note(f"the box of step {number} in {plan.spec_path} was ticked by hand: it is not done")


def _mirrored(app: App, world: World, plan: Plan) -> Mirrored | None:
    """The run of *plan* as the log has it; None before its root is published."""
    # Few plans are of workflow files: what reads them is loaded with the first.
    from irontree.domain.workflow.mirror import Worked, mirror  # noqa: PLC0415
    from irontree.domain.workflow.run import DRIVEN, Place  # noqa: PLC0415

    root = next((node.task_key for node in plan.nodes if node.executability == "container"), "")
    begun = moment(time_of(app.log.read(world.states[root].issue_number).records[0])) if root in world.states else None
    if begun is None:
        return None
    loop = newest_over_each(read_loops(app)[0]).get(root)
    steps = [
        Worked(
            *(node, node.step, state, records, newest_results(app, state), _checked(app, records)),
            skipped=_is_left_out(world, loop, node.task_key),
        )
        for node in plan.nodes
        if node.step and node.task_key not in plan.kept and (state := world.states.get(node.task_key))
        for records in (app.log.read(state.issue_number).records,)
    ]
    top, path = str(app.repository.root), str(app.repository.root / plan.spec_path)
    branch = plan.policy.publish.target_branch
    place = Place(path, path, top, top, f"{top}/{REPORTS}", branch=branch, executor_mode=DRIVEN)
    return mirror(_interpreted(plan), place, begun, steps, (loop.id, loop.entity.status) if loop else ("", ""))


def _interpreted(plan: Plan) -> Workflow:
    from irontree.domain.workflow.lint import interpret_linted  # noqa: PLC0415
    from irontree.domain.workflow.reading import read  # noqa: PLC0415

    return interpret_linted(read(plan.source))[0]


def _checked(app: App, records: Iterable[Record[IssueEvent]]) -> dict[str, CheckReport]:
    """What the checks came to at each commit that they looked at, as far as it is kept."""
    anchors = {anchor: record.event.issue_number for record in records if (anchor := verified_at(record.event))}
    found = ((anchor, results_at(app, number, anchor)) for anchor, number in anchors.items())
    return {anchor: report for anchor, report in found if report}


def _is_left_out(world: World, loop: Loop | None, key: str) -> bool:
    return key in world.cancelled or bool(loop and key in loop.cancelled)
