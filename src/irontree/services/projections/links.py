"""Addresses of an issue and of what belongs to it, for people; empty where a forge shows none or cannot be had."""

from __future__ import annotations

from dataclasses import dataclass

from irontree.app import App
from irontree.errors import IrontreeError
from irontree.ports import Forge


@dataclass(frozen=True, slots=True)
class Links:
    """Of one repository; without a forge that can be had every address is empty: what is shown does without."""

    forge: Forge | None

    def to_issue(self, number: int) -> str:
        """The page of the issue."""
        return (self.forge.issue_url(number) if self.forge else None) or ""

    def to_commit(self, sha: str | None) -> str:
        """The page of a commit that is published."""
        return (self.forge.commit_url(sha) if self.forge else None) or ""


def links_for(app: App) -> Links:
    """The links of this repository; nobody is asked."""
    try:
        return Links(app.forge())
    except IrontreeError:
        return Links(None)
