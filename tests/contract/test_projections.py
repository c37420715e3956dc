"""What every Projections keeps: the text last written, under the contract's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.store.documents import FileProjections
from irontree.store.layout import create
from irontree.store.memory import MemoryProjections


class OnDisk:
    def __init__(self, root: Path) -> None:
        create(root)
        self._root = root
        self.projections = FileProjections(root)

    def text(self, written: Path) -> tuple[str, str]:
        return written.relative_to(self._root).as_posix(), written.read_bytes().decode()


class InMemory:
    def __init__(self, root: Path) -> None:
        self.projections = MemoryProjections()

    def text(self, written: Path) -> tuple[str, str]:
        return written.as_posix(), self.projections.texts[written]


@pytest.fixture(params=[OnDisk, InMemory])
def subject(request, tmp_path):
    return request.param(tmp_path)


def test_a_brief_stands_under_its_issue_s_number(subject):
    written = subject.projections.write("brief", 12, "# Issue\r\nnaïve\n")
    assert subject.text(written) == (".mino/briefs/issue-12.md", "# Issue\r\nnaïve\n")


def test_a_report_stands_in_its_issue_s_folder(subject):
    written = subject.projections.write("report", 12, "# Report\n")
    assert subject.text(written) == (".mino/reports/issue-12/report.md", "# Report\n")
    assert subject.projections.path("report", 12) == ".mino/reports/issue-12/report.md"


def test_a_later_text_takes_the_place_of_the_earlier(subject):
    subject.projections.write("brief", 12, "long and earlier\n")
    assert subject.text(subject.projections.write("brief", 12, "later\n"))[1] == "later\n"


def test_a_brief_is_read_back_as_it_was_written_and_none_is_none(subject):
    assert subject.projections.read("brief", 12) is None
    subject.projections.write("brief", 12, "# Issue\nnaïve\n")
    assert subject.projections.read("brief", 12) == "# Issue\nnaïve\n"


def test_a_report_is_read_back_too(subject):
    assert subject.projections.read("report", 12) is None
    subject.projections.write("report", 12, "# Report\nnaïve\n")
    assert (subject.projections.read("report", 12), subject.projections.read("report", 1)) == (
        "# Report\nnaïve\n",
        None,
    )
