"""The branch of a workflow, as a person at a terminal chooses it, and whether that terminal is in the checkout."""

from __future__ import annotations

import io

import pytest

from irontree.cli.console import Console
from irontree.cli.task import ask_for_branch, is_in_checkout
from irontree.errors import BranchUndecided

UNDECIDED = BranchUndecided("you are on feature/x", choices=(("isolated", "a new one"), ("here", "this one")))


@pytest.mark.parametrize(("typed", "chosen"), [("", "isolated"), ("here", "here"), (" mine ", "mine")])
def test_what_is_typed_is_chosen_and_enter_alone_is_what_is_recommended(typed, chosen):
    out, prompts = io.StringIO(), []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return typed

    assert ask_for_branch(Console(out, io.StringIO()), UNDECIDED, read) == chosen
    assert (out.getvalue(), prompts) == ("you are on feature/x\n", ["Branch? [isolated] "])


def test_the_end_of_input_chooses_nothing():
    def read(_: str) -> str:
        raise EOFError

    with pytest.raises(BranchUndecided):
        ask_for_branch(Console(io.StringIO(), io.StringIO()), UNDECIDED, read)


def test_a_terminal_in_another_worktree_or_repository_is_not_in_the_checkout(tmp_path):
    root = tmp_path / "project"
    for place in (root / ".git", root / "src", root / "vendor" / "other" / ".git"):
        place.mkdir(parents=True)
    (root / "linked").mkdir()
    (root / "linked" / ".git").write_text("gitdir: elsewhere")
    assert is_in_checkout(root, root)
    assert is_in_checkout(root / "src", root)
    assert not is_in_checkout(root / "linked", root)
    assert not is_in_checkout(root / "vendor" / "other", root)
    assert not is_in_checkout(tmp_path, root)
