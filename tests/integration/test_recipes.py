"""What `init` proposes for each kind of project makes a fresh checkout ready: tried from end to end, without a network.

Each project has its dependency in the repository, or none; the tools are those of the machine.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tarfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app
from irontree.cli.main import main
from irontree.config_file import write_config
from irontree.processes.running import capture
from tests.support.repositories import git
from tests.support.soak import in_soak

SPEC = "# Work\n\n## First text\n\n- [ ] It is there (check: tests)\n"
AGENT = '#!/bin/sh\ncat > /dev/null\necho "$IRONTREE_ATTEMPT" >> DONE.txt\n'
# A build backend of its own: the usual ones would have to be downloaded.
BACKEND = """\
import pathlib, zipfile

def _wheel(folder, lines):
    name = "app-1-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for path, text in lines.items():
            wheel.writestr(path, text)
        wheel.writestr("app-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: app\\nVersion: 1\\n")
        wheel.writestr("app-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("app-1.dist-info/RECORD", "")
    return name

def build_editable(folder, settings=None, metadata=None):
    return _wheel(folder, {"app.pth": str(pathlib.Path("src").resolve()) + "\\n"})

def build_wheel(folder, settings=None, metadata=None):
    return _wheel(folder, {"app/__init__.py": pathlib.Path("src/app/__init__.py").read_text()})
"""
PYPROJECT = """\
[project]
name = "app"
version = "1"
requires-python = ">=3.8"

[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
UNITTEST = """\
import os
import unittest

import app


class Place(unittest.TestCase):
    def test_it_is_the_workspace_that_is_tested(self):
        self.assertTrue(app.__file__.startswith(os.environ["IRONTREE_WORKSPACE"]), app.__file__)
"""
PYTHON = {
    "pyproject.toml": PYPROJECT,
    "backend.py": BACKEND,
    "src/app/__init__.py": "",
    "tests/test_app.py": UNITTEST,
}
UV_LOCK = """\
version = 1
requires-python = ">=3.8"

[[package]]
name = "app"
version = "1"
source = { editable = "." }
"""
PACKAGE = {
    "name": "app",
    "version": "1.0.0",
    "private": True,
    "scripts": {"test": "node test.js"},
    "dependencies": {"tiny": "file:tiny-1.0.0.tgz"},
}
NODE = {
    "package.json": json.dumps(PACKAGE),
    "test.js": 'if (require("tiny") !== 1) process.exit(1);\n',
    ".gitignore": "node_modules\n",
    ".npmrc": "audit=false\nfund=false\noffline=true\n",
}
BERRY = NODE | {
    ".yarnrc.yml": "nodeLinker: node-modules\nenableTelemetry: false\n",
    ".gitignore": "node_modules\n.yarn\n",
}
CARGO = {
    "Cargo.toml": '[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n\n'
    '[dependencies]\ntiny = { path = "tiny" }\n',
    "src/lib.rs": "#[test]\nfn one() {\n    assert_eq!(tiny::one(), 1);\n}\n",
    "tiny/Cargo.toml": '[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n',
    "tiny/src/lib.rs": "pub fn one() -> u8 {\n    1\n}\n",
    ".gitignore": "target\n",
}
GO = {
    "go.mod": "module example.org/app\n\ngo 1.20\n\nrequire example.org/tiny v1.0.0\n\n"
    "replace example.org/tiny => ./tiny\n",
    "app.go": 'package app\n\nimport "example.org/tiny"\n\nfunc One() int { return tiny.One() }\n',
    "app_test.go": 'package app\n\nimport "testing"\n\n'
    "func TestOne(t *testing.T) {\n\tif One() != 1 {\n\t\tt.Fatal()\n\t}\n}\n",
    "tiny/go.mod": "module example.org/tiny\n\ngo 1.20\n",
    "tiny/tiny.go": "package tiny\n\nfunc One() int { return 1 }\n",
}


@dataclass(frozen=True)
class Recipe:
    """A project, the tool it needs, the set-up that `init` must propose, and what of it is kept in a cache."""

    tool: str
    files: dict[str, str]
    setup: str
    kept: str | None
    lock: tuple[str, ...] = ()
    """Makes the lock file, if it is not among the files."""


RECIPES = {
    "pip": Recipe(
        "python3", PYTHON | {".gitignore": "__pycache__\n"}, ".venv/bin/python -m pip install --quiet -e .", ".venv"
    ),
    "uv": Recipe("uv", PYTHON | {"uv.lock": UV_LOCK, ".gitignore": "__pycache__\n"}, "uv sync", ".venv"),
    "npm": Recipe("npm", NODE, "npm ci", "node_modules", ("npm", "install", "--package-lock-only")),
    "pnpm": Recipe(
        *("pnpm", NODE, "pnpm install --frozen-lockfile", "node_modules"), ("pnpm", "install", "--lockfile-only")
    ),
    "yarn 1": Recipe("yarn", NODE, "yarn install --frozen-lockfile", "node_modules", ("yarn", "install")),
    "yarn 2 and later": Recipe("yarn", BERRY, "yarn install --immutable", "node_modules", ("yarn", "install")),
    "cargo": Recipe("cargo", CARGO, "cargo fetch --quiet --locked", None, ("cargo", "generate-lockfile", "--offline")),
    "go": Recipe("go", GO, "go mod download", None),
}


@pytest.fixture
def tools(monkeypatch, tmp_path):
    """Tools keep what they need for themselves in the home folder, which is another one in tests."""
    cargo = shutil.which("cargo")
    real_home = Path(cargo).parents[2] if cargo and Path(cargo).parent.name == "bin" else None
    if real_home and (real_home / ".rustup").is_dir():
        monkeypatch.setenv("RUSTUP_HOME", str(real_home / ".rustup"))
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "cargo"))
    monkeypatch.setenv("GOPATH", str(tmp_path / "go"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def tiny_package(folder: Path) -> None:
    with tarfile.open(folder / "tiny-1.0.0.tgz", "w:gz") as package:
        for name, text in {
            "package.json": '{"name": "tiny", "version": "1.0.0"}',
            "index.js": "module.exports = 1;\n",
        }.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            package.addfile(member, io.BytesIO(text.encode()))


def lay_out(folder: Path, recipe: Recipe) -> None:
    for name, text in (recipe.files | {"SPEC.md": SPEC}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if "package.json" in recipe.files:
        tiny_package(folder)
    git(folder, "init", "--quiet")
    if recipe.lock:
        run_tool(folder, recipe.lock)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "a project")


def run_tool(folder: Path, words: tuple[str, ...]) -> None:
    done = capture(words, cwd=folder, environment=os.environ, seconds=120)
    assert done.exit_code == 0, done.stdout + done.stderr


def is_yarn_1() -> bool:
    return capture(("yarn", "--version"), cwd=Path.cwd(), environment=os.environ, seconds=60).stdout.startswith(b"1.")


def irontree(folder: Path, *words: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main(["-C", str(folder), *words])
    assert code == 0, out.getvalue()
    return out.getvalue()


# Go builds its standard library first, which takes as long as all the others.
@pytest.mark.parametrize("name", [pytest.param(name, marks=[in_soak] * (name == "go")) for name in RECIPES])
def test_the_proposed_set_up_makes_a_private_workspace_in_which_the_checks_pass(name, tmp_path, tools):
    recipe, folder = RECIPES[name], tmp_path / "project"
    if shutil.which(recipe.tool) is None or (recipe.tool == "yarn" and is_yarn_1() is not (name == "yarn 1")):
        pytest.skip(f"{name} is not on this machine: its recipe was not tried")
    folder.mkdir()
    lay_out(folder, recipe)
    (tmp_path / "agent").write_text(AGENT)
    (tmp_path / "agent").chmod(0o755)

    said = json.loads(irontree(folder, "init", "--json"))
    settings = {setting["key"]: setting["value"] for setting in said["settings"]}
    assert settings["workspace.setup"][-1] == recipe.setup
    assert not any("git does not ignore" in point for point in said["open"])
    write_config(folder / ".mino/config.yml", {"agent.command": [str(tmp_path / "agent")]})
    git(folder, "add", ".mino")
    git(folder, "commit", "--quiet", "--message", "settings")

    revision = json.loads(irontree(folder, "task", "SPEC.md", "--plan", "--json"))["name"]
    irontree(folder, "task", "SPEC.md", "--stepwise", "--approve", revision)
    irontree(folder, "run", "issue-1")
    app = open_app(folder, origin=Origin("x"))
    workspace = app.repository.workspace("verify", app.policy(None).workspace)
    irontree(folder, "verify", "issue-1")

    assert app.checks().foreign_sources(workspace.path, folder) == ()
    assert git(folder, "show", "--name-only", "--format=", "HEAD") == "DONE.txt"
    if recipe.kept:
        assert settings["workspace.cache"] == [recipe.kept]
        (workspace.path / recipe.kept / "left").touch()
        tip = git(folder, "rev-parse", "HEAD")
        workspace.prepare(tip, published=tip)
        assert (workspace.path / recipe.kept).is_dir()
        assert not (workspace.path / recipe.kept / "left").exists()
        assert git(workspace.path, "status", "--porcelain") == ""
