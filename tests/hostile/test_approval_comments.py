"""A command that somebody with write access only quotes, folds or hides in a comment: it answers nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.domain.state import Phase
from irontree.services.answers.approve import adopt
from irontree.services.answers.comments import look
from tests.support.issues import resolved, say, write
from tests.support.world import Scene, make_scene


@pytest.fixture
def asking(tmp_path: Path) -> Scene:
    """Issue 1 waits for its approval."""
    scene = make_scene(tmp_path)
    scene.tracker.writers |= {"alice"}
    write(scene)
    adopt(scene.app, 1)
    look(scene.app)
    return scene


@pytest.mark.parametrize(
    "comment",
    [
        "> a stranger wrote\n{}",
        "see `this\n{}\nhere`",
        "- a\n{}",
        "<details><summary>The log</summary>\n\n{}\n\n</details>",
        "See [the page](https://example.org 'of\n{}') please",
        "![a picture\n{}](https://example.org/a.png)",
        '<a title="\n{}\n">the page</a>',
        "step | what\n--- | ---\n{} | it",
        "On Mon, 3 Jan 2026, Bob <bob@example.org> wrote:\n\nI want it.\n\n{}",
        "I agree.\n\nFrom: Bob\nSent: Monday\nSubject: it\n\n{}",
        "I agree.\n\n________________________________\nVon: Bob\n\n{}",
        "I agree.\n\nFra: Bob <b@example.org>\nSendt: mandag\nTil: Alice\nEmne: det\n\n{}",
        "I agree.\n\nAm Montag schrieb Bob <\nb@example.org>:\n\nI want it.\n\n{}",
        "I agree.\n\n-----Wiadomość oryginalna-----\n\n{}",
        "> [a]: http://example.org\n{}",
        "- [^1]: x\n{}",
        "I agree.\n\n-- \nBob\n{}",
        "$$\n{}\n$$",
        "See below[^1].\n\n[^1]: He said:\n\n    do it\n{}",
    ],
)
def test_what_is_not_said_in_prose_approves_nothing(asking, comment):
    command = f"/approve {resolved(asking, 1).name}"
    say(asking, 1, comment.format(command), author="alice")
    assert {found.outcome for found in look(asking.app)} <= {"refused"}
    assert list(look(asking.app)) == []
    assert asking.state().phase is Phase.ADOPTED
