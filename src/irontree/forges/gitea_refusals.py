"""What it means for us when a Gitea server refuses: an exception that names who has to do what."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Final

from irontree.errors import AccessRefused, ConfigRefused, RemoteFailed, RemoteUnavailable
from irontree.forges.http_answers import Answer, limited_until, retry_after

SCOPES: Final = "write:issue, write:repository and read:user"
"""What a token has to be allowed; servers before 1.19 know no scopes."""
_TOKEN_REMEDY: Final = f"set GITEA_TOKEN (or FORGEJO_TOKEN) to a token with the scopes {SCOPES}"


def no_token(where: str) -> ConfigRefused:
    """Nobody gave us a token."""
    return ConfigRefused(f"there is no token for {where}", remedy=_TOKEN_REMEDY)


def no_repository(where: str) -> AccessRefused:
    """A repository that we may not see looks like one that is not there."""
    return AccessRefused(
        f"{where} is not there, or not for this token",
        reason="not-found",
        remedy="see forge.repository and forge.url in .mino/config.yml, and the collaborators of the repository",
    )


def no_issues(where: str) -> AccessRefused:
    """The repository is there, its issues are switched off."""
    return AccessRefused(f"{where} has no issues", reason="issues-disabled", remedy="enable them in its settings")


def refusal(answer: Answer, where: str, now: datetime) -> RemoteFailed:
    """The exception for an answer that is neither a success nor "not found"."""
    if moment := limited_until(answer, now):
        return RemoteUnavailable(
            f"{where} was asked too often; it listens again at {moment:%Y-%m-%d %H:%M:%S} UTC",
            remedy="wait until then",
            not_before=moment,
        )
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        # Servers in production keep the reason to themselves.
        return RemoteUnavailable(
            f"{where} answers with {answer.status}{_said(answer)}",
            remedy="try again; if it stays, see the log of the server",
            not_before=retry_after(answer, now),
        )
    return _final(answer, where)


def _final(answer: Answer, where: str) -> RemoteFailed:
    """Of what repeating cannot cure."""
    match answer.status:
        case HTTPStatus.UNAUTHORIZED:
            return AccessRefused(
                f"{where} does not accept the token{_said(answer)}", reason="authentication", remedy=_TOKEN_REMEDY
            )
        case HTTPStatus.FORBIDDEN:
            return AccessRefused(
                f"{where} does not allow it{_said(answer)}",
                reason="permission",
                remedy=f"give the account write access and the token the scopes {SCOPES}",
            )
        case HTTPStatus.LOCKED:
            return AccessRefused(f"{where} is archived", reason="archived", remedy="unarchive it in its settings")
        case status:
            return RemoteFailed(f"{where} answers with {status}{_said(answer)}")


def no_api(where: str) -> RemoteFailed:
    """A web page came where the API should be: a proxy's, or another server's."""
    return RemoteFailed(
        f"{where} answers with something that is not Gitea's API",
        remedy="forge.url in .mino/config.yml: the address of the server as a person opens it, with its sub-path",
    )


def _said(answer: Answer) -> str:
    return f": {answer.message}" if answer.message else ""
