"""What would keep the program waiting or busy without end: it stops nobody's work, and ends in words or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from irontree.checks.shell import foreign_sources
from irontree.domain.requirements.markdown import lines_said
from irontree.domain.secrets import added_secrets
from irontree.domain.text import without_secrets
from tests.support.soak import SOAK

LONG, SECONDS = (300_000, 40) if SOAK else (102_000, 10)
"""To read all of it again at each place would take minutes at either length; both make an even number of `$$`."""
pytestmark = pytest.mark.timeout(SECONDS)


def repeated(text: str) -> str:
    return text * (LONG // len(text))


@pytest.mark.parametrize(
    "begun",
    [
        "-eyJ",
        "\\neyJ",
        "%20eyJ",
        "\\u0020",
        "[0m",
        "https://a:b@",
        "\x1b[",
        "\x1b[1;",
        "\x1b[0meyJ",
        "\\e[",
        "\x1b(",
        "=3D",
    ],
)
def test_a_line_that_may_begin_a_secret_everywhere_is_read_once(begun):
    line = repeated(begun)
    assert len(without_secrets(line)) <= len(line)
    assert list(added_secrets("a.env", "", line)) == []


@pytest.mark.parametrize("begun", ["<div \n\n", '<div x="\n\n<b>\n\n'])
def test_a_comment_of_tags_without_an_end_is_read_once(begun):
    assert not any(lines_said(f"{repeated(begun)}\n\n/approve", "/"))


@pytest.mark.parametrize(
    "begun",
    [
        "To: x\n",
        "wrote on ",
        "wrote ",
        "schrieb ",
        "on 于",
        "- message ",
        "<a@",
        "$$ ",
        "$$\n",
        "`$$",
        "[^1]: x\n\n    ",
        "a: ",
        "a: b\n",
        "-- a ",
        "on 2026 <\n",
        "<a@b>:\n",
        "Bob wrote:\n> x\n\n",
        "~a ",
        "~a\nb~\n",
        "\\[\n\n",
        "> x\n",
        "<T> ",
    ],
)
def test_a_comment_that_may_be_a_mail_everywhere_is_read_once(begun):
    assert not any(lines_said(f"x\n{repeated(begun)}:\n\n{repeated('-')}\n$$\n\n/approve", "/"))


@pytest.mark.parametrize("name", ["evil.pth", "evil.dist-info/direct_url.json"])
@pytest.mark.parametrize("what", ["pipe", "link", "nested", "no path"])
def test_what_a_check_left_among_its_packages_is_not_waited_for(tmp_path: Path, name, what):
    """After the checks, the program looks there for installs from the user's checkout."""
    path = tmp_path / "workspace" / ".venv" / "lib" / "python3.11" / "site-packages" / name
    path.parent.mkdir(parents=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to("/dev/zero")
    elif what == "nested":
        path.write_text("[" * 60_000)
    else:
        circle = tmp_path / "circle"
        circle.symlink_to(circle)
        path.write_text(f"/a\0b\n{circle}\n")
    assert foreign_sources(tmp_path / "workspace", tmp_path / "checkout", {"PATH": ""}) == ()
