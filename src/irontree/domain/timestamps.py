"""Times as ISO 8601 text, as in the log, the files and the forges; read and written only here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_STAMP: Final = "%Y%m%dT%H%M%SZ"


def utc_text(moment: datetime) -> str:
    """Format in UTC with seconds, as every time under .mino/: `2026-04-22T14:32:11Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parsed(text: object) -> datetime:
    """Parse a time, in UTC if it names no zone; raises ValueError if it is invalid."""
    found = datetime.fromisoformat(str(text))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def moment_in_utc(text: object) -> datetime | None:
    """Parse a time, in UTC if it names no zone; `None` if it is invalid."""
    try:
        return parsed(text)
    except ValueError:
        return None


def moment(text: object) -> datetime | None:
    """Parse a time of an event; `None` if it is invalid or names no zone."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else None


def stamp(moment: datetime) -> str:
    """Format in UTC for the name of a folder: `20260422T143211Z`."""
    return moment.astimezone(UTC).strftime(_STAMP)


def stamped(name: str) -> str | None:
    """The time (ISO 8601) that such a name stands for; None if it stands for none."""
    try:
        return datetime.strptime(name, _STAMP).replace(tzinfo=UTC).isoformat()
    except ValueError:
        return None
