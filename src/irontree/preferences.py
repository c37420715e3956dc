"""`Preferences`: settings that change how we talk, and not what is executed."""

from __future__ import annotations

from dataclasses import dataclass, field

from irontree.domain.automation_settings import Automations
from irontree.domain.values import COMPOSITE_THRESHOLD, CloseOnDone, Mode


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the configuration says of it; none of this needs an approval."""

    close_on_done: CloseOnDone | None = None
    """None: bug -> manual, everything else -> auto (contract)."""
    composite_threshold: int = COMPOSITE_THRESHOLD
    """An issue with more open checkboxes is not adopted (ruling R16)."""
    reply: Mode = "auto"
    """Whether who wrote an issue gets a reply (protocol, Reply Dispatch)."""
    loop_budget: int | None = None
    """None: max(50, 10 * tasks) (ruling R17)."""
    tracker: str = ""
    """The address of the repository whose issues are written; empty where they are files."""
    api_url: str | None = None
    """The Prefect server that the configuration names."""
    automations: Automations = field(default_factory=Automations)
