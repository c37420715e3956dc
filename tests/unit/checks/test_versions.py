"""Which tools are asked for their version, and by which words."""

from __future__ import annotations

import shutil
import sys

import pytest

from irontree.checks.shell import read_versions, tools_called

OK = ("git",)


def everywhere(_tool):
    return True


@pytest.mark.parametrize(
    ("command", "tools"),
    [
        ("pytest -q", ("pytest", "python3")),
        ("npm ci && npm test", ("npm", "node")),
        ("cd web; pnpm build || true", ("pnpm", "node")),
        ("CI=1 NODE_ENV=test node run.js", ("node",)),
        (".venv/bin/python -m pytest", ("python",)),
        ("cargo clippy -- -D warnings", ("cargo", "rustc")),
        ("(make test)", ("make", "python3")),
        ("! grep -q x y", ()),
        ("./deploy.sh", ()),
        ("echo npm", ()),
    ],
)
def test_well_known_tools_at_the_beginning_of_a_command_are_called(command, tools):
    assert tools_called([command]) == tools


def test_a_tool_is_named_once():
    assert tools_called(["git status", "pytest", "pytest -x"]) == ("git", "pytest", "python3")


def test_only_words_that_do_nothing_else_are_run():
    """An unknown program may do anything with `--version`; it is never asked."""
    asked: list[tuple[str, ...]] = []

    def ask(words):
        asked.append(words)
        return "tool 1.2.3 (abc)"

    tools = tools_called(["./deploy --now", "git push", "go test ./...", "rm -rf x"])
    read_versions(tools, everywhere, ask)
    assert set(asked) <= {("git", "--version"), ("go", "version")}


def test_a_version_is_the_number_in_what_the_tool_says():
    found = read_versions(OK, everywhere, lambda _: "git version 2.47.3 (Apple Git-154)\n")
    assert found["git"] == "2.47.3"
    assert found["system"]


@pytest.mark.parametrize("said", ["", "no idea"])
def test_a_tool_that_says_none_is_left_out(said):
    assert read_versions(OK, everywhere, lambda _: said).keys() == {"system"}


def test_what_is_not_there_is_not_asked():
    assert read_versions(OK, lambda _: False, lambda _: "1.0").keys() == {"system"}


@pytest.mark.skipif(not shutil.which("python3"), reason="needs python3 on PATH")
def test_python_is_named_by_its_name():
    assert read_versions(("python3",), everywhere, lambda _: f"Python {sys.version.split()[0]}")["python"]
