"""A task whose agent, set-up and checks run in containers, as its plan was approved (R6)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.domain.decide import Finalize, Run, Verify
from irontree.processes.family import SHELL
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import perform
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from tests.integration.crash.laboratory import lay_out
from tests.support.containers import ABSENT, IMAGE, fake_place
from tests.support.repositories import git, hook

SPEC = "# Toy\n\n## Greeting\n\n- [ ] it is there `$ test -f greeting.txt`\n"
AGENT = "git log -1 --format=%s > greeting.txt"
SETTINGS = "container:\n  image: {image}\n  network: false\nworkspace:\n  setup: ['{setup}']\n"


class Contained:
    """The project, and the engine that its programs run in."""

    def __init__(self, folder: Path, setup: str = "touch ready") -> None:
        (folder / "engine").mkdir()
        self.place = fake_place(folder / "engine")
        self.root = lay_out(folder, AGENT, SPEC, SETTINGS.format(image=IMAGE, setup=setup), sandbox="")

    def read_only(self) -> list[set[str]]:
        """The folders that each container could read and not write, in order."""
        lines = (self.root.parent / "engine" / "calls.jsonl").read_text().splitlines()
        calls = [words for line in lines if (words := json.loads(line)["words"])[0] == "run"]
        return [{word.split(",")[1] for word in words if word.endswith(",readonly")} for words in calls]

    @property
    def app(self):
        return open_app(self.root, origin=Origin("ada"), environment=self.place.environment)

    @property
    def proposal(self):
        return propose(self.app, self.root / "SPEC.md")

    def authorise(self) -> None:
        with self.app.driver.hold("publish"):
            approve(self.app, self.proposal, self.proposal.name, "ada")

    def state(self):
        return read_world(self.app).states["greeting"]

    def commands(self) -> list[list[str]]:
        """What was run in containers, in order: the words behind the image."""
        lines = (self.root.parent / "engine" / "calls.jsonl").read_text().splitlines()
        calls = (json.loads(line)["words"] for line in lines)
        return [words[words.index(IMAGE) + 1 :] for words in calls if words[0] == "run"]


@pytest.fixture
def contained(tmp_path):
    return Contained(tmp_path)


def test_agent_setup_and_checks_run_in_containers_and_the_task_is_done(contained):
    contained.authorise()
    for step in (Run("greeting"), Verify("greeting"), Finalize("greeting")):
        perform(contained.app, step)
    assert contained.state().phase.value == "done"
    setup, check = [SHELL, "-c", "touch ready"], [SHELL, "-c", "test -f greeting.txt"]
    assert contained.commands() == [setup, ["sh", "-c", AGENT], setup, check]


def test_the_approval_shows_the_image_by_its_digest(contained):
    text = approval_text(contained.app, contained.proposal, loop_mode=True, answer="answer here")
    assert f"All of it in containers of the image `{IMAGE}` (docker), without network" in text


def test_an_image_that_is_not_here_is_pointed_out_at_the_approval_and_blocks_before_any_attempt(contained):
    config = contained.root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace(IMAGE, ABSENT))
    text = approval_text(contained.app, contained.proposal, loop_mode=True, answer="answer here")
    assert f"the image {ABSENT} is not on this machine" in text
    contained.authorise()
    perform(contained.app, Run("greeting"))
    [event] = [record.event for record in contained.app.log.read(1).records][-1:]
    assert (event.event, event.blocking_check) == ("checkup_preflight_blocked", "container-image")


def test_another_image_than_the_approved_one_has_to_be_approved_again(contained):
    contained.authorise()
    config = contained.root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace(IMAGE, f"sha256:{'2' * 64}"))
    perform(contained.app, Run("greeting"))
    assert contained.state().last_event == "task_reapproval_required"


def test_no_program_decides_what_the_next_one_may_read(tmp_path):
    """The set-up writes the list of what git borrows from, in the workspace that the agent gets."""
    contained = Contained(tmp_path, setup="echo /etc >> .git/objects/info/alternates")
    contained.authorise()
    perform(contained.app, Run("greeting"))
    [history] = contained.app.repository.stores()
    assert not history.is_relative_to(contained.root), "what it borrows is not the user's"
    assert contained.read_only() == [{f"source={history}"}] * 2


def test_the_user_s_hooks_run_there_and_our_git_does_not(tmp_path):
    """They may call what the agent wrote."""
    contained = Contained(tmp_path)
    hook(contained.root / ".git" / "hooks", "commit-msg", 'echo "Checked-by: hook" >> "$1"')
    contained.authorise()
    perform(contained.app, Run("greeting"))
    given = [words for words in contained.commands() if "commit" in words]
    assert [words[0] for words in given] == ["git"]
    assert not [words for words in contained.commands() if "commit-tree" in words]
    assert "Checked-by: hook" in git(contained.root, "log", "-1", "--format=%B", str(contained.state().commit))
