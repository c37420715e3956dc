"""What is said of a file or folder that a step was to make."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.checks import artifact
from irontree.checks.artifact import judge_artifact
from irontree.domain.workflow.verify import ArtifactCheck, Outcome


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        (("folder", "exists", None), Outcome("pass", "artifact exists: folder")),
        (("none", "exists", None), Outcome("fail", stderr="artifact missing: none")),
        (("folder/a.txt", "contains", "two\nlines"), Outcome("pass", "artifact contains expected text: folder/a.txt")),
        (
            ("folder/a.txt", "contains", "three"),
            Outcome("fail", stderr="artifact missing expected text in folder/a.txt"),
        ),
        (("folder", "contains", "x"), Outcome("fail", stderr="artifact missing: folder")),
        (("folder", "matches-glob", "*.txt"), Outcome("pass", "artifact matches glob: folder/*.txt")),
        (("folder", "matches-glob", "*.TXT"), Outcome("fail", stderr="no artifact matches *.TXT in folder")),
        (("folder", "matches-glob", "deep"), Outcome("fail", stderr="no artifact matches deep in folder")),
        (("folder", "matches-glob", "link"), Outcome("fail", stderr="no artifact matches link in folder")),
        (("none", "matches-glob", "*"), Outcome("fail", stderr="artifact directory missing: none")),
        (("", "exists", None), Outcome("block", reason="artifact verify missing path")),
        (("folder", "smells", None), Outcome("block", reason="unsupported artifact assert kind: smells")),
        (("../x", "exists", None), Outcome("block", reason="artifact path is outside the execution root: ../x")),
        (("out", "exists", None), Outcome("block", reason="artifact path is outside the execution root: out")),
        (("loop", "exists", None), Outcome("block", reason="artifact path is outside the execution root: loop")),
        (("a\0b", "exists", None), Outcome("block", reason="artifact path is outside the execution root: a\0b")),
    ],
)
def test_what_an_artifact_comes_to(tmp_path: Path, check: tuple[str, str, str | None], outcome: Outcome):
    root = tmp_path / "root"
    (root / "folder" / "deep").mkdir(parents=True)
    (root / "folder" / "a.txt").write_text("one two\nlines\n")
    (root / "folder" / "link").symlink_to("a.txt")
    (root / "out").symlink_to(tmp_path)
    (root / "loop").symlink_to("loop")
    assert judge_artifact(ArtifactCheck(*check), root) == outcome


def test_a_text_is_found_across_the_pieces_that_are_read(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"x" * (artifact._CHUNK - 2) + b"found it")
    assert judge_artifact(ArtifactCheck("a", "contains", "found"), tmp_path).end == "pass"
