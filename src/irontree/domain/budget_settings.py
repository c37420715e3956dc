"""The section `budgets` of `.mino/config.yml` (protocol, Budgets)."""

from __future__ import annotations

from typing import cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, ValidationInfo, field_validator

from irontree.domain.budgets import Unit, measure
from irontree.domain.settings import Section


class LimitSettings(Section):
    """How much of each may be spent. Unset: as much as it takes."""

    money: str | float | None = Field(default=None, description="In US dollars, as agents report it: `2.50 USD`.")
    tokens: str | int | None = Field(default=None, description="Taken and given, together.")
    time: str | None = Field(default=None, description="Of the agents, while they work: `2h`, `1h 30m`.")

    @field_validator("money", "tokens", "time", mode="before")
    @classmethod
    def _an_amount(cls, value: object, info: ValidationInfo) -> object:
        if value is not None:
            measure(cast("Unit", info.field_name), value)
        return value


class BudgetSettings(Section):
    """What coding agents, reviewers and planners may take before a person is asked."""

    attempt: LimitSettings = Field(
        default=LimitSettings(), description="One attempt at an issue; stopped there if that can be seen."
    )
    issue: LimitSettings = Field(default=LimitSettings(), description="All attempts and reviews of an issue.")
    loop: LimitSettings = Field(default=LimitSettings(), description="All issues of a loop.")
    day: LimitSettings = Field(default=LimitSettings(), description="All of this repository in a day.")
    time_zone: str = Field(default="UTC", description="Where the day begins, such as `Europe/Vienna`.")

    @field_validator("time_zone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError("expected a time zone such as `Europe/Vienna` or `UTC`") from error
        return name
