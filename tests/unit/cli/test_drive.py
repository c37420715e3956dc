"""What a terminal says before a loop is followed, and at its end."""

from __future__ import annotations

import io

import pytest

from irontree.cli.console import Console
from irontree.cli.drive import Drive
from irontree.errors import ServerUnavailable
from tests.support.world import ONE_TASK, Scene, make_scene


class NoServer:
    """A server that does not come up."""

    private = None

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
