"""What a refusal of GitHub means for the person who must act."""

from __future__ import annotations

from datetime import datetime

from irontree.errors import AccessRefused, RemoteFailed, RemoteUnavailable
from irontree.forges.http_answers import Answer, limited_until, retry_after

_RIGHTS = "the token needs write access to the repository's issues, pull requests and commit statuses (docs/forges.md)"


def refusal(answer: Answer, now: datetime, where: str) -> RemoteFailed:
    """The error to raise for an answer that is no good one; *where* is the repository's address."""
    if moment := limited_until(answer, now):
        return RemoteUnavailable(
            f"{where} was asked too often ({answer.message}); it listens again at {moment:%Y-%m-%d %H:%M:%S} UTC",
            remedy="wait until then",
            not_before=moment,
        )
    if answer.ok:
        return RemoteUnavailable(
            f"{where} answered with something that is not GitHub's: {answer.message}",
            remedy="a proxy or a log-in page may stand between; check forge.url and the network",
        )
    if answer.status >= 500 or answer.status in {301, 307, 308, 408}:  # noqa: PLR2004
        return RemoteUnavailable(
            f"{where} answered {answer.status}: {answer.message}",
            remedy="try again",
            not_before=retry_after(answer, now),
        )
    return _final(answer, where)


def _final(answer: Answer, where: str) -> RemoteFailed:
    said = answer.message
    match answer.status:
        case 401:
            return AccessRefused(
                f"{where} does not accept the token: {said}",
                reason="authentication",
                remedy="it is wrong, expired or revoked: set GITHUB_TOKEN anew, or `gh auth login`",
            )
        case 403 if "archived" in said.lower():
            return AccessRefused(
                f"{where} is archived: {said}", reason="archived", remedy="unarchive it in its settings"
            )
        case 403:
            return AccessRefused(f"{where} does not allow it: {said}", reason="permission", remedy=_RIGHTS)
        case 404:
            return AccessRefused(
                f"{where} is not there, or not for this token",
                reason="not-found",
                remedy=f"was it renamed or deleted? See forge.repository and the git remote; {_RIGHTS}",
            )
        case 410:
            return AccessRefused(
                f"{where} has no issues: {said}", reason="issues-disabled", remedy="enable issues in its settings"
            )
        case _:
            return RemoteFailed(f"{where} refused it ({answer.status}): {said}")
