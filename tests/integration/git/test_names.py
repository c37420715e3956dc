"""What the settings take for the name of a branch is what git takes for one."""

from __future__ import annotations

import subprocess

import pytest

from irontree.domain.text import is_ref_name

NAMES = (
    "main", "feature/x", "release-1.0", "a.b", "a-", "@a", "ünï", "HEADS", "x.locked", "a@b", "{x}",
    "--x", "-x", "", "HEAD", "@", ".", "..", ".a", "a/.b", "a.", "a/", "/a", "a//b", "a..b", "a@{b", "a b", "a~", "a^1",
    "a:b", "a?", "a*", "a[b", "a\\b", "a.lock", "a.lock/b", "a\x07", "a\x7f", "a\n", "refs/heads/x", "a/./b", "a/-b",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_refused_exactly_where_git_refuses_it(name):
    said = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True, check=False)
    assert is_ref_name(name) is (said.returncode == 0)
