"""What a user gets: the wheel holds every file of the package, nothing generic, and works away from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import irontree

ROOT = Path(__file__).resolve().parents[2]
MAPPED = ("flows", "tasks", "blocks", "templates")


@dataclass(frozen=True)
class Built:
    """A copy of the checkout and what was built from it."""

    checkout: Path
    sdist: Path
    wheel_of_sdist: Path
    wheel: Path


def run(*words: str | Path, cwd: Path, **variables: str) -> str:
    """Standard output of a program that must succeed; its whole output is shown if it does not."""
    done = subprocess.run(words, cwd=cwd, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(checkout: Path, out: Path, *options: str) -> None:
    """No isolation: the build needs setuptools alone, and tests have no network."""
    run(sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", out, checkout, cwd=out.parent)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    place = tmp_path_factory.mktemp("dist")
    checkout = place / "checkout"
    compiled = shutil.ignore_patterns("__pycache__")
    unwanted = shutil.ignore_patterns(
        ".git", ".venv", ".*cache", ".hypothesis", "build", "dist", "demo", "__pycache__", "*.egg-info"
    )
    shutil.copytree(ROOT, checkout, ignore=lambda at, names: (unwanted if at == str(ROOT) else compiled)(at, names))
    build(checkout, place / "by-sdist")
    build(checkout, place / "direct", "--wheel")
    (sdist,) = (place / "by-sdist").glob("*.tar.gz")
    (wheel_of_sdist,) = (place / "by-sdist").glob("*.whl")
    (wheel,) = (place / "direct").glob("*.whl")
    return Built(checkout, sdist, wheel_of_sdist, wheel)


@pytest.fixture(scope="module")
def venv(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel; dependencies come from here, by a path that runs no editable install."""
    place = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
    library = place / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    pip = (sys.executable, "-m", "pip", "--python", place / "bin" / "python")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", built.wheel, cwd=place)
    (library / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return place


def source_names() -> set[str]:
    """Every file of the package by its installed name, data files included."""
    names = {f"irontree/{p.relative_to(ROOT / 'src' / 'irontree')}" for p in (ROOT / "src" / "irontree").rglob("*")}
    names |= {f"irontree/{p.relative_to(ROOT)}" for folder in MAPPED for p in (ROOT / folder).rglob("*")}
    return {name for name in names if "." in Path(name).name and "__pycache__" not in name}


def wheel_names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_package_and_nothing_else(built: Built):
    info = f"irontree-{irontree.__version__}.dist-info"
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}
    assert wheel_names(built.wheel) == source_names() | {f"{info}/{name}" for name in about}


def test_a_wheel_built_from_the_sdist_is_the_same(built: Built):
    assert wheel_names(built.wheel_of_sdist) == wheel_names(built.wheel)


def test_the_sdist_can_be_tested_and_deployed(built: Built):
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "CHANGELOG.md", "Makefile", "conftest.py", "requirements.lock", "tests/conftest.py", ".ci/run"}
    assert wanted <= names


def test_the_metadata_says_what_the_source_says(built: Built):
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    assert (metadata["Version"], metadata["License-Expression"]) == (irontree.__version__, "MIT")


def test_the_installed_package_is_complete_and_adds_no_generic_names(venv: Path, tmp_path: Path):
    code = """
        import importlib, importlib.util, irontree
        for name in ("flows", "tasks", "blocks", "templates"):
            print(importlib.import_module(f"irontree.{name}").__file__)
            assert importlib.util.find_spec(name) is None, name
    """
    shown = run(venv / "bin" / "python", "-c", "if True:" + code, cwd=tmp_path)
    assert len(shown.splitlines()) == len(MAPPED)
    assert all(line.startswith(str(venv)) for line in shown.splitlines()), shown


def test_the_command_runs_from_any_folder(venv: Path, tmp_path: Path):
    assert irontree.__version__ in run(venv / "bin" / "irontree", "--version", cwd=tmp_path)
    assert "usage" in run(venv / "bin" / "irontree", "--help", cwd=tmp_path).lower()


def entrypoints() -> list[str]:
    """The flows that prefect.yaml deploys, by module path."""
    found = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    return [deployment["entrypoint"] for deployment in found]


LOAD = """
import sys
from prefect.flows import Flow, load_flow_from_entrypoint
for entrypoint in sys.argv[1:]:
    assert isinstance(load_flow_from_entrypoint(entrypoint), Flow), entrypoint
"""


def test_deployed_entrypoints_are_module_paths_and_load_without_the_checkout(venv: Path, tmp_path: Path):
    """One identity per flow: the file loader would make a second module of the same file."""
    names = entrypoints()
    assert all(name.startswith("irontree.flows.") for name in names)
    run(venv / "bin" / "python", "-c", LOAD, *names, cwd=tmp_path)


def test_people_may_name_the_same_flows_by_file(venv: Path, built: Built):
    by_file = ["/".join(n.split(".")[1:-1]) + f".py:{n.split('.')[-1]}" for n in entrypoints()]
    run(venv / "bin" / "python", "-c", LOAD, *by_file, cwd=built.checkout)


def test_the_lock_file_fits_the_declared_ranges():
    """`make lock` was run after the last change of a dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    locked: dict[str, list[str]] = {}
    for line in lines:
        if "==" in line and not line.startswith(" "):
            name, _, version = line.split(";")[0].removesuffix("\\").strip().partition("==")
            locked.setdefault(canonicalize_name(name), []).append(version)
    wanted = [Requirement(text) for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]
    assert all(r.specifier.contains(version) for r in wanted for version in locked[canonicalize_name(r.name)])
