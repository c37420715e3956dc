"""Times as the log has them."""

from __future__ import annotations

from datetime import datetime


def moment(text: object) -> datetime | None:
    """The time (ISO 8601 with a zone, as an event has it); None for what is no time, or names no zone."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else None
