"""A verb that only lists creates nothing, wherever it is typed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.cli.main import FORMER
from tests.support.starts import Starter

LISTING = (
    [],
    ["help", "more"],
    ["help", "plumbing"],
    ["status"],
    ["status", "--loops"],
    ["status", "--loops", "2026-04-22-1432-a3f8b2"],
    *(["show", "1", *view] for view in ([], ["--events"], ["--report"], ["--why"], ["--diff"])),
    ["answer"],
    ["answer", "1"],
    ["inbox"],
    ["repos"],
    ["graph"],
    ["config"],
    ["config", "schema"],
    ["config", "get", "run.max_retry_count"],
    ["config", "explain"],
    ["doctor"],
    ["audit"],
    ["agents"],
    ["automations"],
    ["example"],
    ["completion", "bash"],
    ["completion", "--words", "issues"],
    ["ui", "--print"],
    ["resume"],
    ["stop"],
    ["accept", "1"],
    ["skip", "1"],
    ["checkup", "check"],
    ["task", "SPEC.md", "--plan"],
    *([verb, *(["1"] if now[0] == "show" else [])] for verb, now in FORMER.items() if now[0] != "move"),
)


def everything(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(place.rglob("*"))}


@pytest.fixture
def home(tmp_path) -> Path:
    """A user with no state, cache or settings yet."""
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def starter() -> Iterator[Starter]:
    """Starts commands that have loaded what they need, but for Prefect: as it is loaded it may write."""
    with Starter.ready(loaded=True) as starter:
        yield starter


@pytest.mark.parametrize("words", LISTING, ids=" ".join)
def test_where_nothing_is_set_up_a_look_creates_no_file_and_no_folder(bare_shell, starter, home, words):
    (bare_shell.root / "SPEC.md").write_text("# Texts\n\n## First\n\n- [ ] It is there (manual)\n")
    before = everything(bare_shell.root), everything(home)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PREFECT_"))}
    assert starter.start(words, bare_shell.root, kept | {"HOME": str(home)}).code in (0, 1)
    assert (everything(bare_shell.root), everything(home)) == before
