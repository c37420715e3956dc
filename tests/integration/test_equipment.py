"""What the configuration asks for, as an App has it that is kept for months (`irontree serve`)."""

from __future__ import annotations

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app, set_up
from irontree.errors import ConfigRefused
from tests.support.repositories import git

GITHUB = "forge: {adapter: github, repository: acme/tool, url: https://github.com}\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    git(tmp_path, "init", "--quiet", "project")
    set_up(tmp_path / "project")
    return tmp_path / "project"


def test_an_app_follows_the_configuration_and_makes_nothing_anew_while_that_stays(root):
    app, config = open_app(root, origin=Origin("Test Author")), root / ".mino" / "config.yml"
    before, preferences = app.forge(), app.preferences()
    assert (before.name, preferences.automations.nightly) == ("local", None)
    config.write_text("automations: {nightly: all open}\n")
    assert app.preferences().automations.nightly == "all open"
    assert app.forge() is app.forge()
    config.write_text(GITHUB)
    assert app.preferences().tracker == "https://github.com/acme/tool"
    config.unlink()
    assert (app.forge().name, app.preferences()) == ("local", preferences)


def test_a_configuration_that_is_wrong_by_now_is_refused_until_it_is_right(root):
    app, config = open_app(root, origin=Origin("Test Author")), root / ".mino" / "config.yml"
    app.preferences()
    config.write_text("automations: {nightlyy: all open}\n")
    with pytest.raises(ConfigRefused, match="nightlyy"):
        app.preferences()
    config.write_text("automations: {nightly: all open}\n")
    assert app.preferences().automations.nightly == "all open"
