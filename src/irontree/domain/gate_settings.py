"""The section `gates` of `.mino/config.yml` (protocol, R20)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from irontree.domain.gates import Gates
from irontree.domain.settings import Section
from irontree.errors import ConfigRefused


class OneGate(Section):
    """Who has to say, in comments on the issue, that work goes on."""

    approvers: int = Field(default=1, strict=True, ge=1, le=20, description="So many people have to say the same.")
    not_requester: bool = Field(
        default=False, strict=True, description="Whether who asked for the work does not count."
    )


class GateSettings(Section):
    """Decisions that only comments of people with write access make; `acceptance: {approvers: 2}`."""

    acceptance: OneGate | None = Field(default=None, description="Of work that waits for a person's acceptance.")
    approval: OneGate | None = Field(default=None, description="Of an issue whose text or settings changed.")
    failure: OneGate | None = Field(default=None, description="To try again after the last attempt failed.")
    blocked: OneGate | None = Field(default=None, description="To go on after something was in the way.")


def approved_gates(settings: Mapping[str, Any], *, known: bool) -> Gates | None:
    """What is approved of them (ruling R6); *known* is whether the forge knows who writes. Raises ConfigRefused."""
    gates = Gates(**settings)
    if gates.named and not known:
        raise ConfigRefused(
            f"gates.{gates.named[0][0]}: nobody logs in to files, so nobody knows who wrote a comment",
            remedy="set forge.adapter to github or gitea, or leave the gates out",
        )
    return gates if gates.named else None
