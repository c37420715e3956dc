"""Times in files that people write: they name a zone of their own, or none, or no time at all."""

from __future__ import annotations

import pytest

from irontree.forges import ForgeSettings
from irontree.forges.local import LocalForge
from irontree.store.codec import read_mapping, write_mapping
from tests.support.world import TickingClock


@pytest.mark.parametrize(
    ("written", "is_new"),
    [
        ("2026-01-02T11:30:00+02:00", False),
        ("2026-01-02T09:30:00-05:00", True),
        ("2026-01-02T12:30:00", True),
        ("2026-01-02T11:30:00", False),
        ("this morning", True),
    ],
)
def test_a_comment_is_new_by_the_moment_that_it_means(tmp_path, written, is_new):
    forge = LocalForge(ForgeSettings(tmp_path, "us", TickingClock(), read_mapping, write_mapping))
    number = forge.create_issue("Title", "").number
    forge.post_comment(number, "/accept")
    file = tmp_path / "issues" / "0001" / "comments" / "0001.md"
    file.write_text(f'---\ncreated_at: "{written}"\n---\n\n/accept\n')
    assert bool(forge.comments_since(number, "2026-01-02T12:00:00Z")) == is_new
