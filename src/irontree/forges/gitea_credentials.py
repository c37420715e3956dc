"""Where a token for Gitea or Forgejo comes from: the environment, never the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TOKENS: Final = ("GITEA_TOKEN", "FORGEJO_TOKEN")


def token_variable(environment: Mapping[str, str]) -> str | None:
    """The first variable that has a token; None without one."""
    return next((name for name in TOKENS if environment.get(name, "").strip()), None)
