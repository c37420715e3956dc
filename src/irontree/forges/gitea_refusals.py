"""What it means for us when a Gitea server refuses: an exception that names who has to do what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from irontree.errors import AccessRefused, ConfigRefused, RemoteFailed, RemoteUnavailable

SCOPES: Final = "write:issue, write:repository and read:user"
"""What a token has to be allowed; servers before 1.19 know no scopes."""
_NO_TOKEN_REMEDY: Final = f"set GITEA_TOKEN (or FORGEJO_TOKEN) to a token with the scopes {SCOPES}"
_DID_NOTHING: Final = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
"""Who answers so and names a time has not begun with it."""
_LATER: Final = {
    *_DID_NOTHING,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.GATEWAY_TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API: `body` is what its JSON says, None without any."""

    status: int
    body: Any
    headers: Mapping[str, str]
    """Their names in small letters."""

    @property
    def message(self) -> str:
        """What the server says about it; servers in production keep the reason of a failure to themselves."""
        said = self.body.get("message") if isinstance(self.body, dict) else None
        return f": {said}" if said else ""

    def retry_after(self, now: datetime) -> datetime | None:
        """When the server wants to be asked again; None if it does not say."""
        said = self.headers.get("retry-after", "").strip()
        if said.isdecimal():
            return now + timedelta(seconds=int(said))
        try:
            return parsedate_to_datetime(said).astimezone(UTC)
        except ValueError:
            return None


def no_token(where: str) -> ConfigRefused:
    """Nobody gave us a token."""
    return ConfigRefused(f"there is no token for {where}", remedy=_NO_TOKEN_REMEDY)


def no_repository(where: str) -> AccessRefused:
    """A repository that we may not see looks like one that is not there."""
    return AccessRefused(
        f"{where} is not there, or the token's account may not see it",
        reason="not-found",
        remedy="see forge.repository and forge.url in .mino/config.yml, and the collaborators of the repository",
    )


def no_issues(where: str) -> AccessRefused:
    """The repository is there, its issues are switched off."""
    return AccessRefused(
        f"issues are switched off in {where}", reason="issues-disabled", remedy="switch them on in its settings"
    )


def refusal(answer: Answer, where: str, now: datetime) -> RemoteFailed:
    """The exception for an answer that is neither a success nor "not found"."""
    match answer.status:
        case HTTPStatus.UNAUTHORIZED:
            return AccessRefused(
                f"{where} does not take our token{answer.message}", reason="authentication", remedy=_NO_TOKEN_REMEDY
            )
        case HTTPStatus.FORBIDDEN:
            return AccessRefused(
                f"the token's account may not do this in {where}{answer.message}",
                reason="permission",
                remedy=f"give the account write access and the token the scopes {SCOPES}",
            )
        case HTTPStatus.LOCKED:
            return AccessRefused(
                f"{where} is archived", reason="archived", remedy="take it out of the archive in its settings"
            )
        case status if status in _LATER:
            return RemoteUnavailable(
                f"{where} answers with {status} {_phrase(status)}{answer.message}",
                not_before=answer.retry_after(now) if status in _DID_NOTHING else None,
            )
        case status:
            return RemoteFailed(f"{where} answers with {status} {_phrase(status)}{answer.message}")


def no_api(where: str) -> RemoteFailed:
    """A web page came where the API should be: a proxy's, or another server's."""
    return RemoteFailed(
        f"{where} answers with something that is not Gitea's API",
        remedy="forge.url in .mino/config.yml: the address of the server as a person opens it, with its sub-path",
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "(no standard status)"
