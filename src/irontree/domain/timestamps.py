"""Times as text: ISO 8601, as the log, the files and the forges have them. Read and written here alone."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(moment: datetime) -> str:
    """In UTC with seconds, as every time under .mino/ is written: `2026-04-22T14:32:11Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parsed(text: object) -> datetime:
    """The time, in UTC where no zone is named; raises ValueError for what is no time."""
    found = datetime.fromisoformat(str(text))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def moment_in_utc(text: object) -> datetime | None:
    """The same; None for what is no time."""
    try:
        return parsed(text)
    except ValueError:
        return None


def moment(text: object) -> datetime | None:
    """The time, as an event has it; None for what is no time, or names no zone."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else None
