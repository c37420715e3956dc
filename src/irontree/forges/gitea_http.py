"""JSON over HTTP with a Gitea server: the token, short waits, pages, renamed repositories, refusals."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from irontree import __version__
from irontree.errors import AccessRefused, ConfigRefused, RemoteFailed, RemoteUnavailable
from irontree.forges import ForgeSettings
from irontree.forges.credentials import find_gitea_token
from irontree.forges.http_answers import HttpAnswer, HttpOutcome, NoAnswer, data_of, no_answer, outage, patiently
from irontree.http_client import HttpClient, HttpError, Unreachable, UnusableAddress, open_client

SCOPES: Final = "write:issue, write:repository, read:user and, in an organization, read:organization"
"""What a token has to be allowed; servers before 1.19 know no scopes."""
_TOKEN_REMEDY: Final = f"set GITEA_TOKEN (or FORGEJO_TOKEN) to a token with the scopes {SCOPES}"


def refusal(answer: HttpAnswer, where: str, now: datetime) -> RemoteFailed:
    """The exception for an answer that is neither a success nor "not found"."""
    # Servers in production keep the reason to themselves.
    remedy = "try again; if it stays, see the log of the server"
    return outage(answer, now, where, remedy=remedy) or _final(answer, where)


def _final(answer: HttpAnswer, where: str) -> RemoteFailed:
    """Of what repeating cannot cure."""
    match answer.status:
        case HTTPStatus.UNAUTHORIZED:
            return AccessRefused(
                f"{where} does not accept the token{answer.said}", reason="authentication", remedy=_TOKEN_REMEDY
            )
        case HTTPStatus.FORBIDDEN:
            return AccessRefused(
                f"{where} does not allow it{answer.said}",
                reason="permission",
                remedy=f"give the account write access and the token the scopes {SCOPES}",
            )
        case HTTPStatus.LOCKED:
            return AccessRefused(f"{where} is archived", reason="archived", remedy="unarchive it in its settings")
        case HTTPStatus.METHOD_NOT_ALLOWED if "try again later" in answer.message:
            return RemoteUnavailable(f"{where} is still finding out whether it can be merged", remedy="try again")
        case status:
            return RemoteFailed(f"{where} answers with {status}{answer.said}")


def no_api(where: str) -> RemoteFailed:
    """A web page came where the API should be: a proxy's, or another server's."""
    return RemoteFailed(
        f"{where} answers with something that is not Gitea's API",
        remedy="forge.url in .mino/config.yml: the address of the server as a person opens it, with its sub-path",
    )


# --- JSON over HTTP with a Gitea server


Query = Mapping[str, str | int]
JsonBody = Mapping[str, Any]

_PAGE: Final = 50
"""The most that a server gives as shipped; what is above its own maximum it cuts without a word."""
_READINGS: Final = 3
"""How often a list that changes meanwhile is read."""
_REDIRECTS: Final = 3
_ADDRESS: Final = "see forge.url in .mino/config.yml"


class GiteaClient:
    """Talks to one server about one repository; opens no connection before the first call."""

    def __init__(self, settings: ForgeSettings) -> None:
        self._settings = settings
        self._open: HttpClient | None = None

    @property
    def web(self) -> str:
        """The repository's address for people. Raises ConfigRefused where none is known."""
        location = self._settings.require_location()
        return f"{location.url}/{location.repository}"

    def read(self, path: str, query: Query | None = None, *, passing: Collection[int] = ()) -> HttpAnswer:
        """GET *path* of the repository; "not found" is an answer, as are the statuses in *passing*.

        Raises what `refusal` makes of others.
        """
        return self._call("GET", self._in_repository(path), query, passing=passing)

    def read_of_server(self, path: str) -> HttpAnswer:
        """GET *path* of the server; otherwise like `read`."""
        return self._call("GET", self._api(path))

    def send(self, method: str, path: str, body: JsonBody | None = None) -> HttpAnswer:
        """Change something; never sent twice unless the server said that it did nothing."""
        return self._call(method, self._in_repository(path), body=body)

    def read_all(self, path: str, query: Query | None = None, *, counted: bool = True) -> list[Any]:
        """Every entry of a list, in the order of the server. Raises RemoteUnavailable if it cannot be had whole.

        A list that changes while it is read is read again. *counted* is False where the server counts more than
        it shows.
        """
        for _ in range(_READINGS):
            entries, total = self._pages(path, query or {})
            shown = {entry["id"]: entry for entry in entries if entry}
            # One that the server cannot show, a pull request of a broken fork for example, is null.
            if not counted or len(shown) + entries.count(None) >= total:
                return [*shown.values()]
        raise self._broken_off(path)

    def read_at_once(self, path: str, query: Query | None = None) -> list[Any] | None:
        """A list without pages; None if there is none. Raises RemoteUnavailable if it ends before its count."""
        for _ in range(_READINGS):
            answer = self.read(path, query)
            if answer.status == HTTPStatus.NOT_FOUND:
                return None
            total, entries = answer.headers.get("x-total-count", ""), answer.data or []
            if not total.isdecimal() or len(entries) >= int(total):
                return entries
        raise self._broken_off(path)

    def account(self) -> str:
        """The account that the token is of."""
        return str(self._call("GET", self._api("user")).data["login"])

    def explain_absence(self, *, of_issues: bool) -> None:
        """After a "not found": raise AccessRefused if it is the repository, or its issues, that is not there."""
        answer = self.read("")
        if answer.status == HTTPStatus.NOT_FOUND:
            raise AccessRefused(  # one that we may not see looks like one that is not there
                f"{self.web} is not there, or not for this token",
                reason="not-found",
                remedy="see forge.repository and forge.url in .mino/config.yml, "
                "and the collaborators of the repository",
            )
        if of_issues and not answer.data["has_issues"]:
            raise AccessRefused(
                f"{self.web} has no issues", reason="issues-disabled", remedy="enable them in its settings"
            )

    def _broken_off(self, path: str) -> RemoteUnavailable:
        return RemoteUnavailable(
            f"the list of {path} in {self.web} breaks off, or changes faster than it can be read", remedy="try again"
        )

    def _pages(self, path: str, query: Query) -> tuple[list[Any], int]:
        """What the pages hold, and how many entries there are by the server's own count."""
        entries: list[Any] = []
        page = 1
        while True:
            answer = self.read(path, {**query, "page": page, "limit": _PAGE})
            if answer.status == HTTPStatus.NOT_FOUND:
                self.explain_absence(of_issues=True)
                raise RemoteFailed(f"{self.web} has no list of {path}")
            total = answer.headers.get("x-total-count", "")
            if not total.isdecimal():  # without it an empty list looks like a broken one
                raise no_api(self.web)
            entries += answer.data or ()
            if not answer.data or len(entries) >= int(total):
                return entries, int(total)
            page += 1

    def _call(
        self,
        verb: str,
        url: str,
        query: Query | None = None,
        body: JsonBody | None = None,
        *,
        passing: Collection[int] = (),
    ) -> HttpAnswer:
        """Ask, with small waits where they help. Raises what `refusal` makes, unless it is "not found"."""
        now, sleep = self._settings.clock.now, self._settings.sleep
        return self._judged(patiently(lambda: self._once(verb, url, query, body), verb, now, sleep), passing)

    def _once(self, verb: str, url: str, query: Query | None, body: JsonBody | None) -> HttpOutcome:
        """Ask along redirects: a repository that was renamed answers with its new address."""
        for _ in range(_REDIRECTS):
            try:
                response = self._client.request(verb, url, params=query, json=body)
            except Unreachable as error:
                return NoAnswer(str(error) or type(error).__name__)
            except (HttpError, UnusableAddress) as error:
                raise RemoteFailed(f"cannot talk to {self.web}: {error}", remedy=_ADDRESS) from error
            if not response.has_redirect_location:
                return HttpAnswer(response.status_code, response.headers, data_of(response.content))
            url, query = self._followed(url, response.headers["location"]), None
        raise RemoteFailed(f"{self.web} sends us round in circles, at last to {url}", remedy=_ADDRESS)

    def _judged(self, outcome: HttpOutcome, passing: Collection[int]) -> HttpAnswer:
        if isinstance(outcome, NoAnswer):
            raise no_answer(self.web, outcome)
        if not outcome.ok and outcome.status not in {HTTPStatus.NOT_FOUND, *passing}:
            raise refusal(outcome, self.web, self._settings.clock.now())
        if isinstance(outcome.data, str):
            raise no_api(self.web)
        return outcome

    def _followed(self, url: str, location: str) -> str:
        """The next address; our token goes to the server that the configuration names, and to no other."""
        target = urljoin(url, location)
        here, there = urlsplit(url), urlsplit(target)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise RemoteFailed(
                f"{self.web} sends us to {there.scheme}://{there.netloc}",
                remedy="if that is right, put it into forge.url in .mino/config.yml",
            )
        return target

    @property
    def _client(self) -> HttpClient:
        if self._open is None:
            location = self._settings.require_location()
            headers = {"Authorization": f"token {self._token()}", "User-Agent": f"irontree/{__version__}"}
            self._open = open_client(
                headers,
                seconds=self._settings.answer_within,
                https=location.url.startswith("https:"),
                ca_file=location.ca_file,
            )
            weakref.finalize(self, self._open.close)
        return self._open

    def _token(self) -> str:
        found = find_gitea_token(self._settings.environment)
        if found is None:
            raise ConfigRefused(f"there is no token for {self.web}", remedy=_TOKEN_REMEDY)
        return found.value

    def _api(self, path: str) -> str:
        return f"{self._settings.require_location().url}/api/v1/{path}"

    def _in_repository(self, path: str) -> str:
        return self._api(f"repos/{self._settings.require_location().repository}/{path}").rstrip("/")
