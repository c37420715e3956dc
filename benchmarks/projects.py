"""Repositories that Iron Tree works on here: one task each time, an agent that writes one file, `true` as its check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.sandbox import git, new_repository
from irontree.app import App, Origin
from irontree.bootstrap import open_app, set_up
from irontree.domain.decide import Halt
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import perform
from irontree.services.loops.choice import next_decision
from irontree.services.proposals.sources import propose

AGENT = 'echo done > "$IRONTREE_TASK_KEY.txt"'
CHECK = "true"
_CONFIG = f"""\
agent:
  command: [sh, -c, '{AGENT}']
publish:
  remote: origin
  target_branch: main
"""
_TASK = """\

## {title}

Write one file.

- [ ] The file is there `$ {check}`
"""
_JUDGED = "- [ ] It is pretty (manual)\n"


def lay_out(folder: Path, name: str, settings: str = "") -> App:
    """A new repository with its remote, set up for Iron Tree, with more *settings* in YAML."""
    root = new_repository(folder, name)
    set_up(root)
    (root / ".mino" / "config.yml").write_text(_CONFIG + settings, encoding="utf-8")
    return open_app(root, origin=Origin("benchmark"))


def publish_task(app: App, title: str) -> str:
    """Approve and publish a document with one task; the id of the loop over it. The log ends at task_published."""
    return publish(app, title, (title,))


def publish(app: App, name: str, titles: Sequence[str], *, judged: bool = False) -> str:
    """The same for a document of that name with these tasks; a person has to accept them if they are *judged*."""
    document = write_document(app, name, titles, judged=judged)
    proposal = propose(app, document)
    with app.driver.hold("publish"):
        return approve(app, proposal, proposal.name, "benchmark").id


def write_document(app: App, name: str, titles: Sequence[str], *, judged: bool = False) -> Path:
    """A document of that name with these tasks, committed and pushed; see `publish`."""
    root = app.repository.root
    document = root / f"{name}.md"
    tasks = (_TASK.format(title=title, check=CHECK) + (_JUDGED if judged else "") for title in titles)
    document.write_text("# Work\n" + "".join(tasks), encoding="utf-8")
    git(root, "add", document.name)
    git(root, "commit", "--quiet", f"--message=Ask for {name}")
    git(root, "push", "--quiet", "origin", "main")
    return document


def drive(app: App, loop_id: str) -> None:
    """Take the loop to its end in this process, without Prefect, and back the log up.

    Raises RuntimeError if it stops before all is done: what failed early has a fine time.
    """
    while not isinstance(decision := next_decision(app, loop_id), Halt):
        perform(app, decision, loop_id)
    app.repository.back_up()
    if decision.reason != "goal_reached":
        raise RuntimeError(f"loop {loop_id} in {app.repository.root} stopped: {decision}")
