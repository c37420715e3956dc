"""What a terminal says before a loop is followed, and at its end."""

from __future__ import annotations

import io

import pytest

from irontree.cli.console import Console
from irontree.cli.drive import Drive, final_lines
from irontree.cli.parser import OK, REFUSED
from irontree.errors import ServerUnavailable
from irontree.ports import Blocker
from irontree.services.execution.publish import publish
from irontree.services.execution.run import run
from irontree.services.proposals.sources import propose
from tests.support.approving import write_plan
from tests.support.memory_project import push_from_elsewhere
from tests.support.world import ONE_TASK, Scene, make_scene


class NoServer:
    """A server that does not come up."""

    private = None

    def start(self, app):
        pass

    def environment(self):
        raise ServerUnavailable("no server")


@pytest.fixture
def scene(tmp_path) -> Scene:
    return make_scene(tmp_path)


def test_who_starts_or_resumes_a_loop_is_told_what_is_not_part_of_it(scene):
    """Decision 0021."""
    loop, told = scene.start(ONE_TASK), io.StringIO()
    (scene.root / "mine.txt").write_text("half")
    with pytest.raises(ServerUnavailable):
        Drive(scene.app, NoServer(), Console(told, told)).drive(loop.id)
    assert told.getvalue().startswith("Not part of this work: changes in no commit: mine.txt. Work starts from commit")


OTHER = "# Other\n\n## Farewell\n\n- [ ] it says goodbye (manual)\n\n## Wave\n\n- [ ] it waves `$ has greet.txt`\n"


@pytest.fixture
def done(scene):
    """A loop that is done, beside issues of another document."""
    (scene.root / "OTHER.md").write_text(OTHER)
    other = propose(scene.app, scene.root / "OTHER.md")
    publish(scene.app, write_plan(scene.app, other, other.name, "ada"))
    loop = scene.start(ONE_TASK)
    scene.drive(loop)
    return loop


def test_a_loop_ends_with_its_own_issues(scene, done):
    (line,) = final_lines(scene.app, done.id)
    assert line.startswith("✓ #3 Greeting  done")


def test_others_that_wait_for_a_person_are_one_line(scene, done):
    scene.repository.blockers.append(Blocker("missing-identity", "nobody commits", "git config user.name"))
    run(scene.app, 1)
    assert list(final_lines(scene.app, done.id))[1:] == ["Outside this loop, #1 waits for you: irontree status"]
    run(scene.app, 2)
    assert list(final_lines(scene.app, done.id))[1:] == ["Outside this loop, #1, #2 wait for you: irontree status"]


@pytest.mark.parametrize(("status", "code"), [("completed", OK), ("halted", REFUSED)])
def test_a_checkout_that_stayed_behind_is_told_at_the_end(scene, done, status, code):
    push_from_elsewhere(scene.repository, {"README.md": b"theirs"})
    (scene.root / "README.md").write_text("mine")
    told = io.StringIO()
    assert Drive(scene.app, NoServer(), Console(told, told))._ending(done.id, status) == code
    assert "Your own main is 1 commit behind origin/main and cannot follow: README.md: git pull\n" in told.getvalue()
