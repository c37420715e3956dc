"""The system's clock, as the port `Clock`."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """Reads the time of the machine."""

    def now(self) -> datetime:
        """The present moment, UTC."""
        return datetime.now(UTC)
