"""A whole task in the sandbox that nobody asked for: as approved, and blocked where it cannot be had."""

from __future__ import annotations

import os
import shutil

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.domain.decide import Finalize, Run, Verify
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import perform
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from tests.integration.crash.laboratory import lay_out
from tests.support.containers import bubblewrap_place
from tests.support.repositories import git

SPEC = "# Toy\n\n## Greeting\n\n- [ ] it is there `$ test -f greeting.txt`\n"
SECRET = "the text of the user's own file"


class Project:
    def __init__(self, folder, agent, sandbox=""):
        self.folder = folder
        self.root = lay_out(folder, agent, SPEC, sandbox=sandbox)

    def app(self, **variables):
        return open_app(self.root, origin=Origin("ada"), environment={**os.environ, **variables})

    def text(self, **variables):
        app = self.app(**variables)
        proposal = propose(app, self.root / "SPEC.md")
        return approval_text(app, proposal, loop_mode=True, answer="answer here")

    def authorise(self, **variables):
        app = self.app(**variables)
        with app.driver.hold("publish"):
            proposal = propose(app, self.root / "SPEC.md")
            approve(app, proposal, proposal.name, "ada")

    def run(self, *steps, **variables):
        for step in steps:
            perform(self.app(**variables), step)
        return read_world(self.app()).states["greeting"]


def without_bubblewrap(folder):
    """A PATH with git alone beside the shell."""
    programs = folder / "programs"
    programs.mkdir()
    for name in ("git", "sh", "env", "cat", "test"):
        (programs / name).symlink_to(shutil.which(name) or name)
    return str(programs)


def test_an_agent_does_its_task_and_reads_nothing_of_the_user(tmp_path):
    bubblewrap_place()
    (tmp_path / "private").write_text(SECRET)
    look = f"cat {tmp_path}/private {tmp_path}/project/SPEC.md {tmp_path}/project/.mino/config.yml > greeting.txt; true"
    project = Project(tmp_path, look)
    assert "All of it in bubblewrap, with network" in project.text()
    project.authorise()
    assert project.run(Run("greeting"), Verify("greeting"), Finalize("greeting")).phase.value == "done"
    assert git(tmp_path / "remote.git", "show", "main:greeting.txt") == ""


def test_where_nothing_confines_them_the_approval_says_so(tmp_path):
    project = Project(tmp_path, "true")
    assert "**Not confined**" in project.text(PATH=without_bubblewrap(tmp_path))


def test_a_sandbox_that_is_gone_blocks_and_is_not_done_without(tmp_path):
    bubblewrap_place()
    project = Project(tmp_path, "touch greeting.txt", sandbox="sandbox: bubblewrap\n")
    project.authorise()
    state = project.run(Run("greeting"), PATH=without_bubblewrap(tmp_path))
    assert (state.phase.value, state.last_event) == ("blocked", "checkup_preflight_blocked")
    record = list(project.app().log.read(1).records)[-1]
    assert record.event.blocking_check == "sandbox-missing"


@pytest.mark.parametrize("asked", ["", "sandbox: bubblewrap\n"])
def test_a_plan_that_was_approved_for_no_sandbox_is_asked_again(tmp_path, asked):
    bubblewrap_place()
    project = Project(tmp_path, "touch greeting.txt", sandbox="sandbox: none\n")
    project.authorise()
    config = project.root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace("sandbox: none\n", asked))
    assert project.run(Run("greeting")).last_event == "task_reapproval_required"
