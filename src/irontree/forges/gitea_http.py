"""JSON over HTTP with a Gitea server: the token, small waits, pages, and repositories that were renamed."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from irontree import __version__
from irontree.errors import RemoteFailed, RemoteUnavailable
from irontree.forges import ForgeSettings
from irontree.forges.gitea_refusals import Answer, no_api, no_issues, no_repository, no_token, refusal
from irontree.http_client import (
    HttpClient,
    HttpError,
    HttpResponse,
    Unreachable,
    UnusableAddress,
    is_distrust,
    open_client,
)

Query = Mapping[str, str | int]

TOKENS: Final = ("GITEA_TOKEN", "FORGEJO_TOKEN")
_PAGE: Final = 50
"""The most that a server gives as shipped; what is above its own maximum it cuts without a word."""
_PAUSES: Final = (1.0, 2.0)
"""Seconds before the second and the third try, where the server says nothing about it."""
_READINGS: Final = 3
"""So often is a list read that changes meanwhile."""
_PATIENCE: Final = 60.0
"""Seconds that one call waits in all; longer is for the caller, who has `not_before`."""
_REDIRECTS: Final = 3


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

    def read(self, path: str, query: Query | None = None) -> Answer:
        """GET *path* of the repository; an answer that says "not found" is one. Raises what `refusal` makes."""
        return self._call("GET", self._in_repository(path), query=query)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Change something; never sent twice unless the server said that it did nothing."""
        return self._call(method, self._in_repository(path), body=body)

    def read_all(self, path: str, query: Query | None = None, *, counted: bool = True) -> list[Any]:
        """Every entry of a list, in the order of the server. Raises RemoteUnavailable if it cannot be had whole.

        A list that changes while it is read is read again. *counted* is False where the server counts more than
        it shows.
        """
        for _ in range(_READINGS):
            entries, total = self._pages(path, query or {})
            if not counted or len({entry["id"] for entry in entries}) >= total:
                return entries
        raise RemoteUnavailable(f"the list of {path} in {self.web} breaks off, or changes faster than it can be read")

    def account(self) -> str:
        """The account that the token is of."""
        return str(self._call("GET", self._api("user")).body["login"])

    def explain_absence(self, *, of_issues: bool) -> None:
        """After a "not found": raise AccessRefused if it is the repository, or its issues, that is not there."""
        answer = self.read("")
        if answer.status == HTTPStatus.NOT_FOUND:
            raise no_repository(self.web)
        if of_issues and not answer.body["has_issues"]:
            raise no_issues(self.web)

    def _pages(self, path: str, query: Query) -> tuple[list[Any], int]:
        """What the pages hold, and how many entries there are by the server's own count."""
        entries: list[Any] = []
        page = 1
        while True:
            answer = self.read(path, {**query, "page": page, "limit": _PAGE})
            if answer.status == HTTPStatus.NOT_FOUND:
                self.explain_absence(of_issues=True)
                raise RemoteFailed(f"{self.web} has no list of {path}")
            total = int(answer.headers.get("x-total-count", 0))
            entries += answer.body
            if not answer.body or len(entries) >= total > 0:
                return entries, total
            page += 1

    def _call(
        self,
        method: str,
        url: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """One call with its small waits: what only reads is repeated, what writes only if the server did nothing."""
        left = _PATIENCE
        for pause in _PAUSES:
            try:
                return self._attempt(method, url, query, body)
            except RemoteUnavailable as error:
                wait = self._wait(error, pause)
                if wait > left or (method != "GET" and error.not_before is None):
                    raise
            left -= wait
            self._settings.sleep(wait)
        return self._attempt(method, url, query, body)

    def _wait(self, error: RemoteUnavailable, pause: float) -> float:
        """Seconds until the next try."""
        if error.not_before is None:
            return pause
        return (error.not_before - self._settings.clock.now()).total_seconds()

    def _attempt(self, method: str, url: str, query: Query | None, body: Mapping[str, Any] | None) -> Answer:
        """Ask once, along redirects: a repository that was renamed answers with its new address."""
        for _ in range(_REDIRECTS):
            response = self._request(method, url, query, body)
            if not response.has_redirect_location:
                return self._judged(response)
            url, query = self._followed(url, response.headers["location"]), None
        raise RemoteFailed(f"{self.web} sends us round in circles, at last to {url}")

    def _request(self, method: str, url: str, query: Query | None, body: Mapping[str, Any] | None) -> HttpResponse:
        try:
            return self._client.request(method, url, params=query, json=body)
        except Unreachable as error:
            if is_distrust(error):
                raise RemoteFailed(
                    f"the certificate of {self.web} is not one that we trust: {error}",
                    remedy="forge.ca_file in .mino/config.yml: the certificates of its authority",
                ) from error
            raise RemoteUnavailable(f"no answer from {self.web}: {str(error) or type(error).__name__}") from error
        except (HttpError, UnusableAddress) as error:
            raise RemoteFailed(
                f"cannot talk to {self.web}: {error}", remedy="see forge.url in .mino/config.yml"
            ) from error

    def _judged(self, response: HttpResponse) -> Answer:
        """Raises what `refusal` makes of it, unless it is a success or "not found"."""
        answer = Answer(response.status_code, _json(response), response.headers)
        if answer.status >= HTTPStatus.BAD_REQUEST and answer.status != HTTPStatus.NOT_FOUND:
            raise refusal(answer, self.web, self._settings.clock.now())
        if answer.status == HTTPStatus.OK and answer.body is None:
            raise no_api(self.web)
        return answer

    def _followed(self, url: str, location: str) -> str:
        """The next address, if our token may go there: the same host, and never from https down to http."""
        target = urljoin(url, location)
        here, there = urlsplit(url), urlsplit(target)
        if there.hostname != here.hostname or (here.scheme, there.scheme) == ("https", "http"):
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
        found = (self._settings.environment.get(name, "").strip() for name in TOKENS)
        if token := next(filter(None, found), None):
            return token
        raise no_token(self.web)

    def _api(self, path: str) -> str:
        return f"{self._settings.require_location().url}/api/v1/{path}"

    def _in_repository(self, path: str) -> str:
        return self._api(f"repos/{self._settings.require_location().repository}/{path}").rstrip("/")


def _json(response: HttpResponse) -> Any:
    try:
        return response.json()
    except ValueError:
        return None
