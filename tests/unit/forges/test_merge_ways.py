"""Which way of merging is asked for: one that the repository allows."""

from __future__ import annotations

import pytest

from irontree.forges.rest_values import gitea_merge_style, github_merge_method


@pytest.mark.parametrize(
    ("settings", "style"),
    [
        ({"allow_merge_commits": True, "allow_squash_merge": True}, "merge"),
        ({"allow_merge_commits": True, "allow_squash_merge": True, "default_merge_style": "squash"}, "squash"),
        ({"allow_rebase": True, "default_merge_style": "merge"}, "rebase"),
        ({}, "merge"),
    ],
)
def test_gitea_s_preferred_way_counts_where_it_is_allowed(settings: dict[str, object], style: str):
    assert gitea_merge_style(settings) == style


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({"allow_squash_merge": True, "allow_merge_commit": True}, "merge"),
        ({"allow_squash_merge": True, "allow_rebase_merge": True, "allow_merge_commit": False}, "squash"),
        ({}, "merge"),
    ],
)
def test_github_s_first_allowed_way_counts(settings: dict[str, object], method: str):
    assert github_merge_method(settings) == method
