"""Checks that would test the user's checkout instead of the workspace are noticed (R4)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from irontree.checks.shell import foreign_sources


@dataclass
class Places:
    workspace: Path
    checkout: Path
    python: Path

    @property
    def site(self) -> Path:
        return self.python / "lib" / "python3.12" / "site-packages"

    def signs(self, **variables: str) -> tuple[str, ...]:
        return foreign_sources(self.workspace, self.checkout, {"PATH": str(self.python / "bin"), **variables})


@pytest.fixture
def places(tmp_path) -> Places:
    made = Places(tmp_path / "workspace", tmp_path / "my checkout", tmp_path / "python")
    made.site.mkdir(parents=True)
    (made.python / "bin").mkdir()
    (made.python / "bin" / "python3").write_text("#!/bin/sh\n")
    (made.python / "bin" / "python3").chmod(0o755)
    made.checkout.mkdir()
    made.workspace.mkdir()
    return made


def install(site: Path, target: Path, *, editable: bool = True, name: str = "demo") -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "direct_url.json").write_text(json.dumps({"url": target.as_uri(), "dir_info": {"editable": editable}}))


def test_an_ordinary_python_is_no_sign(places):
    install(places.site, places.checkout, editable=False)
    (places.site / "distutils-precedence.pth").write_text("import os; ...\n")
    assert places.signs() == ()


@pytest.mark.parametrize("part", [".", "src"])
def test_an_editable_install_of_the_checkout_is_a_sign(places, part):
    install(places.site, places.checkout / part)
    (sign,) = places.signs()
    assert sign.startswith("demo is installed from your checkout")
    assert str(places.site) in sign


def test_an_editable_install_of_something_else_is_none(places, tmp_path):
    install(places.site, tmp_path / "another project")
    install(places.site, places.workspace, name="own")
    assert places.signs() == ()


def test_a_path_file_into_the_checkout_is_a_sign(places):
    (places.site / "old-style.pth").write_text(f"# comment\n{places.checkout / 'src'}\n")
    (sign,) = places.signs()
    assert "old-style.pth" in sign


def test_a_virtual_environment_in_the_workspace_is_looked_at_too(places):
    install(places.workspace / ".venv" / "lib" / "python3.11" / "site-packages", places.checkout)
    assert len(places.signs()) == 1


@pytest.mark.parametrize("name", ["PYTHONPATH", "NODE_PATH"])
def test_a_search_path_into_the_checkout_is_a_sign(places, name, tmp_path):
    (sign,) = places.signs(**{name: f"{tmp_path}/lib:{places.checkout}/src"})
    assert sign.startswith(f"{name} leads to your checkout")


def test_a_link_to_the_checkout_is_seen_through(places, tmp_path):
    (tmp_path / "alias").symlink_to(places.checkout)
    assert len(places.signs(PYTHONPATH=str(tmp_path / "alias" / "src"))) == 1


def test_rubbish_in_a_record_is_no_sign_and_no_error(places):
    for number, text in enumerate(["", "[]", "{}", '{"url": 3, "dir_info": {"editable": true}}', '{"dir_info": null}']):
        info = places.site / f"odd{number}-1.0.dist-info"
        info.mkdir()
        (info / "direct_url.json").write_text(text)
    assert places.signs() == ()


def test_without_a_python_there_is_nothing_to_see(places):
    assert places.signs(PATH="/nowhere") == ()
