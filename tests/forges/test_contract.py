"""The contract suite of the `Forge` port against a real Gitea."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

from tests.contract import (
    test_forge,
    test_forge_commands,
    test_forge_publication,
    test_forge_pull_requests,
    test_forge_team,
)

OF_A_CLOCK_THAT_STANDS_STILL = {
    "test_times_are_utc",
    "test_comments_since_a_moment_are_those_of_then_and_later",
    "test_where_somebody_commented_is_seen_of_all_issues_at_once",
}


def suite(module: ModuleType) -> dict[str, Any]:
    """Its tests and fixtures, without those that need a network that fails on demand."""
    kept = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return {
        name: value
        for name, value in kept.items()
        if name not in OF_A_CLOCK_THAT_STANDS_STILL
        and not (name.startswith("test_") and "fallible" in inspect.signature(value).parameters)
    }


for each in (test_forge, test_forge_commands, test_forge_publication, test_forge_pull_requests, test_forge_team):
    globals().update(suite(each))
del each
