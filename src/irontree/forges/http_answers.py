"""What a forge answers over HTTP, and whether to ask again: rules for every forge, without a network in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from irontree.errors import AccessRefused, RemoteFailed, RemoteUnavailable

TRIES: Final = 3
PATIENCE: Final = 60.0
"""Seconds that one call may wait in all; longer waits are left to the caller (`not_before`)."""
_SECONDARY: Final = timedelta(seconds=60)
"""How long to wait where the forge names no time."""
_EARLIEST: Final = timedelta(seconds=1)
_LATEST: Final = timedelta(days=1)
"""No forge is waited for longer, whatever it or a proxy says: then it is asked again."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer; header names in lower case, `data` is JSON, or the text where it was none."""

    status: int
    headers: Mapping[str, str]
    data: Any

    @property
    def ok(self) -> bool:
        """Whether the forge did what it was asked."""
        return self.status < 300  # noqa: PLR2004

    @property
    def message(self) -> str:
        """What the forge said, its findings too."""
        if not isinstance(self.data, Mapping):
            return " ".join(str(self.data or "").split())[:200]
        found = (_finding(item) for item in self.data.get("errors") or ())
        return "; ".join(filter(None, (str(self.data.get("message") or ""), *found)))

    @property
    def said(self) -> str:
        """The same, to follow our own words; empty if the forge said nothing."""
        return f": {self.message}" if self.message else ""


def data_of(body: str | bytes) -> Any:
    """What a body says: JSON, or the text itself where a proxy or a log answers; None where nothing is said.

    Bytes of JSON are UTF-8, whatever charset their header names (RFC 8259, 8.1).
    """
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body if isinstance(body, str) else body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The connection failed; whether the forge did it is not known."""

    message: str

    @property
    def untrusted(self) -> bool:
        """Whether it failed at a certificate, which no waiting mends."""
        return "CERTIFICATE_VERIFY_FAILED" in self.message


HttpOutcome = HttpAnswer | NoAnswer


def pause_before_next(outcome: HttpOutcome, verb: str, tries: int, waited: float, now: datetime) -> float | None:
    """Seconds to wait before repeating the request; `None` means do not repeat it.

    What the forge refused to look at can be repeated whatever it was; what may have happened only if it just reads.
    """
    if tries >= TRIES:
        return None
    if isinstance(outcome, HttpAnswer) and (moment := limited_until(outcome, now)):
        pause = (moment - now).total_seconds()
    elif verb == "GET" and _may_pass(outcome):
        pause = float(2 ** (tries - 1))
    else:
        return None
    return pause if waited + pause <= PATIENCE else None


def patiently(
    once: Callable[[], HttpOutcome], verb: str, now: Callable[[], datetime], sleep: Callable[[float], None]
) -> HttpOutcome:
    """What *once* comes to, asked again where that helps, with the pauses that it takes."""
    tries, waited = 1, 0.0
    while True:
        outcome = once()
        pause = pause_before_next(outcome, verb, tries, waited, now())
        if pause is None:
            return outcome
        sleep(pause)
        tries, waited = tries + 1, waited + pause


def limited_until(answer: HttpAnswer, now: datetime) -> datetime | None:
    """When the forge will listen again; None where it did not say that it was asked too often."""
    if answer.status not in {403, 429}:
        return None
    if moment := retry_after(answer, now):
        return moment
    reset = answer.headers.get("x-ratelimit-reset", "")
    if answer.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():
        latest = int((now + _LATEST).timestamp())
        return max(datetime.fromtimestamp(min(_number(reset), latest), UTC), now + _EARLIEST)
    return now + _SECONDARY if answer.status == 429 or "rate limit" in answer.message.lower() else None  # noqa: PLR2004


def retry_after(answer: HttpAnswer, now: datetime) -> datetime | None:
    """The moment that the header `Retry-After` names, in seconds or as a date, a day at most; None without one."""
    value = answer.headers.get("retry-after", "").strip()
    if value.isdecimal():
        return now + timedelta(seconds=min(_number(value), _LATEST.total_seconds()))
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return min(max(moment if moment.tzinfo else moment.replace(tzinfo=UTC), now), now + _LATEST)


def _number(digits: str) -> int:
    """What they say, or something that is larger than any time."""
    return int(digits[:18])


def outage(
    answer: HttpAnswer, now: datetime, where: str, *, remedy: str = "try again", passing: Collection[int] = ()
) -> RemoteUnavailable | None:
    """The error for an answer that time cures: asked too often, a server that fails, or a status in *passing*."""
    if moment := limited_until(answer, now):
        return RemoteUnavailable(
            f"{where} was asked too often{answer.said}; it listens again at {moment:%Y-%m-%d %H:%M:%S} UTC",
            remedy="wait until then",
            not_before=moment,
        )
    if answer.status >= 500 or answer.status in passing:  # noqa: PLR2004
        return RemoteUnavailable(
            f"{where} answers with {answer.status}{answer.said}", remedy=remedy, not_before=retry_after(answer, now)
        )
    return None


def no_answer(where: str, outcome: NoAnswer) -> RemoteFailed:
    """The error for a connection that failed; a certificate that is not trusted is no outage."""
    if outcome.untrusted:
        return RemoteFailed(
            f"the certificate of {where} is not one that is trusted here",
            remedy="name the file of your own authority: forge.ca_file in .mino/config.yml",
        )
    return RemoteUnavailable(
        f"no answer from {where}: {outcome.message}",
        remedy="check the network, and forge.url in .mino/config.yml; try again",
    )


@contextmanager
def refused_as(what: str) -> Iterator[None]:
    """Have a refusal say what was not done; what concerns more than that says so itself."""
    try:
        yield
    except (AccessRefused, RemoteUnavailable):
        raise
    except RemoteFailed as error:
        raise RemoteFailed(f"{what}: {error.message}", remedy=error.remedy) from error


def _may_pass(outcome: HttpOutcome) -> bool:
    return not outcome.untrusted if isinstance(outcome, NoAnswer) else outcome.status >= 500  # noqa: PLR2004


def _finding(item: object) -> str:
    """One entry of `errors`: text, or an object with a message or a field and a code."""
    if not isinstance(item, Mapping):
        return str(item)
    return str(item.get("message") or " ".join(str(item[key]) for key in ("field", "code") if key in item))
