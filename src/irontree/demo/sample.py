"""Fairshare, a small real project: its history, its requirement document, and the work prepared for each task.

All of it is package data: `data/history` are its first commits as mails, `data/patches/TASK_KEY/ATTEMPT.patch` is
what the replay agent applies, each on top of what the tasks before it published.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from irontree.domain.spec import Requirements, read_requirements

PROJECT: Final = "fairshare"
DOCUMENT: Final = "requirements.md"
CHECK: Final = {"name": "tests", "run": "python3 -m unittest -q"}

ANSWERS: Final = (
    "issue-6=send-back:Begin with the total, line the amounts up, and say in words who owes and who gets money back",
    "issue-6=accept:Now everybody can read it",
)
"""Answers for the one question that the sample asks: what a terminal or a form would be given, in their order."""


def requirements() -> Requirements:
    """The sample's requirement document, read; the same tree, keys and revision wherever it is laid out."""
    return read_requirements(data("requirements.md").read_bytes(), DOCUMENT)


def history() -> bytes:
    """The project's commits but the last, oldest first, as a mailbox for `git am`."""
    mails = sorted(data("history").iterdir(), key=lambda mail: mail.name)
    return b"".join(mail.read_bytes() for mail in mails)


def data(name: str) -> Traversable:
    """A file or folder of the package's data."""
    return files("irontree.demo").joinpath("data", name)
