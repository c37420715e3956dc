"""Whether a program is at work in a folder, also where another user's process does not show that."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from irontree.processes.family import is_at_work

HERE = Path("/srv/project")


class Running:
    def __init__(self, cwd, *words, name="git"):
        self._cwd, self._words, self._name = cwd, words, name

    def name(self):
        return self._name

    def cmdline(self):
        return ["git", *self._words]

    def cwd(self):
        if isinstance(self._cwd, Exception):
            raise self._cwd
        return self._cwd


@pytest.mark.parametrize(
    ("process", "hidden_works", "found"),
    [
        (Running("/srv/project/src", "commit"), False, True),
        (Running("/srv/project/src", "commit", name="git-commit"), False, True),
        (Running("/srv/other", "commit"), True, False),
        (Running("/srv/project", "commit", name="gitk"), True, False),
        (Running("/srv/project", "cat-file", "--batch"), True, False),
        (Running(psutil.AccessDenied(1), "commit"), True, True),
        (Running(psutil.AccessDenied(1), "commit"), False, False),
        (Running(psutil.AccessDenied(1), "cat-file", "--batch"), True, False),
        (Running(psutil.AccessDenied(1), "commit", name="bash"), True, False),
        (Running(psutil.NoSuchProcess(1), "commit"), True, False),
    ],
)
def test_a_program_is_at_work_in_a_folder(process, hidden_works, found):
    assert (
        is_at_work("git", [HERE], lambda line: "cat-file" in line, hidden_works=hidden_works, among=[process]) == found
    )
