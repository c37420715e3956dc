"""The report of an issue, printed."""

from __future__ import annotations


def test_the_report_of_an_issue_is_printed_as_it_is_on_disk(shell):
    shell("run", "1")
    shell("verify", "1")
    path = shell.root / ".mino/reports/issue-1/report.md"
    assert shell("show", "1", "--report").out.rstrip() == path.read_text().rstrip()
    assert shell("show", "first-text", "--report", "--json").data == {
        "issue": 1,
        "path": ".mino/reports/issue-1/report.md",
        "text": path.read_text(),
    }
    path.unlink()
    lost = shell("show", "1", "--report")
    assert (lost.code, "the report of issue-1 is gone" in lost.err) == (1, True)
    shell("checkup", "reconcile")
    assert shell("show", "1", "--report").out.rstrip() == path.read_text().rstrip()


def test_an_issue_without_a_report_says_when_there_will_be_one(shell):
    refused = shell("show", "2", "--report")
    assert refused.code == 1
    assert "issue-2 has no report: one is written when its checks pass" in refused.err
    assert "irontree show issue-2" in refused.err
