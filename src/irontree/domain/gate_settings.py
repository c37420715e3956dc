"""The section `gates` of `.mino/config.yml` (R20)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator, model_validator

from irontree.domain.gates import Gate, Gates
from irontree.domain.settings import Section
from irontree.errors import ConfigRefused


class GateSetting(Section, Gate):
    """Who has to say, in comments on the issue, that work goes on."""


class GateSettings(Section):
    """Decisions that only comments of people with write access make; `acceptance: {approvers: 2}`."""

    acceptance: GateSetting | None = Field(default=None, description="Of work that waits for a person's acceptance.")
    approval: GateSetting | None = Field(default=None, description="Of an issue whose text or settings changed.")
    failure: GateSetting | None = Field(default=None, description="To try again after the last attempt failed.")
    blocked: GateSetting | None = Field(default=None, description="To go on after something was in the way.")

    @model_validator(mode="before")
    @classmethod
    def _normalised(cls, data: object) -> object:
        """As it is: who names a gate wants it."""
        return data

    @field_validator("*", mode="before")
    @classmethod
    def _says_something(cls, gate: object) -> object:
        if gate is None:
            raise ValueError("nothing stands behind it: write `{}` for this gate, or leave the key out")
        return gate


def approved_gates(settings: Mapping[str, Any], *, known: bool) -> Gates | None:
    """What is approved of them (ruling R6); *known* is whether the forge knows who writes. Raises ConfigRefused."""
    gates = Gates(**settings)
    if gates.named and not known:
        raise ConfigRefused(
            f"gates.{gates.named[0][0]}: nobody logs in to files, so nobody knows who wrote a comment",
            remedy="set forge.adapter to github or gitea (Forgejo too), or leave the gates out",
        )
    return gates if gates.named else None
