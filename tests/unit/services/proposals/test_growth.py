"""Nothing in planning and publication takes the square of the number of tasks: lines of code that run are counted."""

from __future__ import annotations

from irontree.services.execution.publish import publish
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.sources import propose
from tests.support.approving import write_plan
from tests.support.lines import lines_run
from tests.support.world import Scene

FEW = 100
# Twice the tasks, twice the lines, and a little: what sorts and searches, keys that get longer. A square would be four.
MOST = 2.2


def document(size: int) -> str:
    tasks = (
        f"### Task {n}\n\n{f'Depends on: Task {n - 1}' if n else ''}\n\n- [ ] works `$ true`\n" for n in range(size)
    )
    return "\n".join(["# Many\n\n## Part\n", *tasks])


def planning(tmp_path, size: int) -> int:
    scene = Scene(tmp_path / f"r{size}", tmp_path / f"c{size}")
    path = scene.write(document(size))
    return lines_run(lambda: approval_text(scene.app, propose(scene.app, path), loop_mode=True, answer=""))


def publication(tmp_path, size: int) -> int:
    scene = Scene(tmp_path / f"r{size}", tmp_path / f"c{size}")
    proposal = propose(scene.app, scene.write(document(size)))
    plan = write_plan(scene.app, proposal, proposal.name, "ada")
    return lines_run(lambda: publish(scene.app, plan))


def test_planning_twice_the_tasks_takes_twice_the_work(tmp_path):
    assert planning(tmp_path, 2 * FEW) < MOST * planning(tmp_path, FEW)


def test_publishing_twice_the_tasks_takes_twice_the_work(tmp_path):
    assert publication(tmp_path, 2 * FEW) < MOST * publication(tmp_path, FEW)
