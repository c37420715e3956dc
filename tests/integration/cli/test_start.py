"""What a command loads that is started anew: bar (d) of the benchmarks rests on it."""

from __future__ import annotations

import os

import pytest

from tests.support.soak import in_soak

HEAVY = {"acp", "git", "github", "httpx", "jinja2", "markdown_it", "prefect", "rich", "sqlalchemy"}


@pytest.mark.parametrize("words", [["--help"], ["status"], ["status", "--loops"], ["show", "1"]])
def test_who_only_looks_loads_no_heavy_library(shell, starter, words):
    """Where nothing speaks of a Prefect server."""
    shell("run", "1")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    started = starter.start(words, shell.root, plain)
    assert started.code == 0
    assert started.modules & HEAVY == set()


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["audit"],
        ["config"],
        ["show", "1", "--report"],
        *(
            pytest.param(words, marks=in_soak)
            for words in (
                ["--help"],
                ["--version"],
                ["example"],
                ["show", "1"],
                ["show", "1", "--events"],
                ["show", "1", "--why"],
                ["graph"],
                ["status", "--loops"],
            )
        ),
    ],
)
def test_looking_imports_nothing_heavy(shell, starter, words):
    """GitPython is for those that look into the repository: for commits, or for its remotes."""
    shell("run", "1")
    shell("verify", "1")
    spared = {"git"} if words[0] in {"audit", "config"} else set()
    started = starter.start(words, shell.root)
    assert started.code == 0
    assert started.modules & ({"prefect", "jinja2", "rich", "markdown_it", "git"} - spared) == set()


@pytest.mark.parametrize("words", [["run", "1"], ["checkup", "pre-flight", "1"], ["checkup", "reconcile"]])
def test_steps_never_import_prefect(shell, starter, words):
    started = starter.start(words, shell.root)
    assert started.code == 0
    assert "prefect" not in started.modules
