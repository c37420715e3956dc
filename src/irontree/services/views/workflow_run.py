"""What `.hotl` shows of a workflow file that Iron Tree works off: a projection of the log (docs/hotl.md)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from irontree.app import App
from irontree.domain.plan import Plan
from irontree.domain.state import TaskState
from irontree.domain.timestamps import moment
from irontree.domain.workflow.checkout import REPORTS
from irontree.errors import EnvironmentRefused, LogDamaged
from irontree.services.loops.loop import Loop, newest_over_each, read_loop, read_loops
from irontree.services.record import World, read_world
from irontree.services.views.history import time_of
from irontree.services.views.report import newest_results

if TYPE_CHECKING:
    from irontree.domain.workflow.mirror import Mirrored


def show_runs(app: App, world: World, states: Iterable[TaskState]) -> None:
    """Write state and report of the runs that these issues are in. If that fails, it is told, and stops nothing."""
    found = (world.plans.get(state.task_key) for state in states)
    plans = {plan.spec_path: plan for plan in found if plan and any(node.step for node in plan.nodes)}
    for plan in plans.values():
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
    from irontree.domain.workflow.lint import interpret_linted  # noqa: PLC0415
    from irontree.domain.workflow.mirror import Worked, mirror  # noqa: PLC0415
    from irontree.domain.workflow.reading import read  # noqa: PLC0415
    from irontree.domain.workflow.run import DRIVEN, Place  # noqa: PLC0415

    root = next((node.task_key for node in plan.nodes if node.executability == "container"), "")
    begun = moment(time_of(app.log.read(world.states[root].issue_number).records[0])) if root in world.states else None
    if begun is None:
        return None
    loop = newest_over_each(read_loops(app)[0]).get(root)
    steps = [
        Worked(node, node.step, state, app.log.read(state.issue_number).records, newest_results(app, state), left_out)
        for node in plan.nodes
        if node.step and node.task_key not in plan.kept and (state := world.states.get(node.task_key))
        for left_out in (_is_left_out(world, loop, node.task_key),)
    ]
    top, path = str(app.repository.root), str(app.repository.root / plan.spec_path)
    branch = plan.policy.publish.target_branch
    place = Place(path, path, top, top, f"{top}/{REPORTS}", branch=branch, executor_mode=DRIVEN)
    workflow, _ = interpret_linted(read(plan.source))
    return mirror(workflow, place, begun, steps, (loop.id, loop.entity.status) if loop else ("", ""))


def _is_left_out(world: World, loop: Loop | None, key: str) -> bool:
    return key in world.cancelled or bool(loop and key in loop.cancelled)
