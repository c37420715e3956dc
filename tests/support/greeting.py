"""A real project of one task whose document is approved, and its way through: what the tests of requests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.domain.decide import Run, Verify
from irontree.services.answers.approve import approve
from irontree.services.execution.steps import catch_up, perform
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from tests.integration.crash.laboratory import lay_out

KEY = "greeting"
SPEC = """\
# Toy

## Greeting

- [ ] it says hello `$ grep -q hello greet.txt`
"""


def laid_out(place: Path, monkeypatch: pytest.MonkeyPatch, mode: str, settings: str = "") -> Path:
    """The project, whose agent says hello once more with each attempt; workspaces are in *place* too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    root = lay_out(place, "echo hello, attempt $IRONTREE_ATTEMPT >> greet.txt", SPEC, settings)
    config = root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace("publish:\n", f"publish:\n  mode: {mode}\n"))
    return root


def approved(root: Path) -> App:
    """Opened, with its document as it is now approved and published."""
    app = open_app(root, origin=Origin("ada", "command"))
    proposal = propose(app, root / "SPEC.md")
    approve(app, proposal, proposal.name, "ada")
    return app


def work(app: App) -> None:
    """One attempt, and its verification."""
    perform(app, Run(KEY))
    perform(app, Verify(KEY))


def look(app: App) -> str:
    """Take in what happened outside; the last event then."""
    with app.driver.hold("look"):
        catch_up(app)
    return read_world(app).states[KEY].last_event
