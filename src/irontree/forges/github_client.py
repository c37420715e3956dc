"""HTTP with GitHub through PyGithub's requester: authentication, pages, retries, and errors that say what to do.

The only module that imports `github` (and `jwt`, which signs for a GitHub App). Of PyGithub this uses what is hard to
get right (tokens of an App that expire, pacing of writes, addresses of Enterprise Server) and not its objects: an
attribute of those may be a request. Its own repetition is off, since it repeats POST, and redirects are never left
to it, since it drops the query and takes 307 for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import github
import jwt
from github.Requester import Requester

from irontree import __version__
from irontree.errors import AccessRefused, ConfigRefused, RemoteFailed, RemoteUnavailable
from irontree.forges import ForgeSettings
from irontree.forges.credentials import AppKey, Credential, require_credential
from irontree.forges.http_answers import (
    HttpAnswer,
    HttpOutcome,
    NoAnswer,
    data_of,
    limited_until,
    no_answer,
    outage,
    patiently,
)

_PASSING: Final = frozenset({301, 307, 308, 408})
"""A repository that is renamed meanwhile is there under its new name later."""
_RIGHTS = "the token needs write access to the repository's issues, pull requests and commit statuses (docs/forges.md)"


def refusal(answer: HttpAnswer, now: datetime, where: str) -> RemoteFailed:
    """The error to raise for an answer that is no good one; *where* is the repository's address."""
    if found := outage(answer, now, where, passing=_PASSING):
        return found
    if answer.ok:
        return RemoteUnavailable(
            f"{where} answered with something that is not GitHub's: {answer.message}",
            remedy="a proxy or a log-in page may stand between; check forge.url and the network",
        )
    return _final(answer, where)


def _final(answer: HttpAnswer, where: str) -> RemoteFailed:
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


# --- HTTP with GitHub through PyGithub's requester


PER_PAGE: Final = 100
_API_VERSION: Final = "2022-11-28"
_KNOWN_ANSWERS: Final = 64
_BELIEVED: Final = timedelta(minutes=1)
"""How long a repository is taken to have the name it had: PyGithub follows a redirect and drops the query."""
_NEXT: Final = 'rel="next"'


class GithubClient:
    """Asks, waits a little where that helps, and raises what `irontree.ports.Forge` says."""

    def __init__(self, settings: ForgeSettings) -> None:
        self._settings = settings
        self._location = settings.require_location()
        self._known: dict[str, tuple[str, HttpAnswer]] = {}
        self.scopes = ""
        """Those of a classic token, as the last answer told them; empty for others, which have permissions instead."""
        self._resolved: tuple[datetime, dict[str, Any]] | None = None

    @property
    def url(self) -> str:
        """The forge's address for people."""
        return self._location.url

    @property
    def configured_name(self) -> str:
        """`owner/name` as the configuration or the remote has it."""
        return self._location.repository

    def repository(self, *, fresh: bool = False) -> dict[str, Any]:
        """The repository as it is now, or was less than a minute ago.

        A redirect from an old name is followed here and nowhere else: all other calls use the name it has now.
        """
        now = self._now()
        if fresh or self._resolved is None or now - self._resolved[0] > _BELIEVED:
            owner, _, name = self.configured_name.partition("/")
            found = self.require(self._ask_again(f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}")).data
            self._resolved = (now, found)
        return self._resolved[1]

    def path(self, *parts: str | int) -> str:
        """A path below the repository's."""
        below = "".join(f"/{quote(str(part), safe='')}" for part in parts)
        return f"/repos/{self.repository()['full_name']}{below}"

    def read(self, path: str, *, hidden: bool = False) -> Any:
        """One object; None if there is none, or, with *hidden*, if it is not for us.

        An unchanged one is not sent again and counts for no limit (ETag).
        """
        answer = self._ask_again(path)
        if answer.status == 404 or (answer.status == 410 and "disabled" not in answer.message):  # noqa: PLR2004
            return None
        if hidden and answer.status == 403 and not limited_until(answer, self._now()):  # noqa: PLR2004
            return None
        return self.require(answer).data

    def pages_again(self, path: str, **parameters: str | int) -> Iterator[Any]:
        """As `pages`, for repeated polling: a first page that did not change is not sent again (ETag)."""
        query = {"per_page": PER_PAGE, **parameters}
        first = self.require(self._ask_again(f"{path}?{urlencode(query)}"))
        yield from first.data
        yield from self._pages(path, None, _next_query(first.headers.get("link", "")))

    def pages(
        self, path: str, key: str | None = None, *, absent: Collection[int] = (), **parameters: str | int
    ) -> Iterator[Any]:
        """All items of a listing (below *key*), page by page to the end; a page that fails raises.

        None where the answer is one of the statuses *absent*.
        """
        return self._pages(path, key, {"per_page": PER_PAGE, **parameters}, absent)

    def _ask_again(self, address: str) -> HttpAnswer:
        """The answer to a GET, the known one where it did not change."""
        tag, known = self._known.get(address, ("", None))
        answer = self.ask("GET", address, headers={"If-None-Match": tag} if tag else None)
        if known and answer.status == 304:  # noqa: PLR2004
            return known
        if answer.ok and answer.headers.get("etag"):
            self._known[address] = (answer.headers["etag"], answer)
            for old in list(self._known)[:-_KNOWN_ANSWERS]:
                del self._known[old]
        return answer

    def _pages(
        self, path: str, key: str | None, query: dict[str, Any] | None, absent: Collection[int] = ()
    ) -> Iterator[Any]:
        while query is not None:
            answer = self.ask("GET", path, query)
            if answer.status in absent:
                return
            self.require(answer)
            yield from answer.data[key] if key else answer.data
            query = _next_query(answer.headers.get("link", ""))

    def write(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Change something; never sent twice unless the forge refused to look at it."""
        return self.require(self.ask(verb, path, body=body)).data

    def query(self, text: str, **variables: Any) -> Any:
        """What GraphQL answers; for what REST has no words for. Raises RemoteFailed with its findings."""
        answer = self.require(
            self.ask("POST", self._requester.graphql_url, body={"query": text, "variables": variables})
        )
        if answer.data.get("errors"):
            raise RemoteFailed(f"{self.url} says: {answer.message}")
        return answer.data["data"]

    def text(self, path: str) -> str:
        """A plain text that the forge says the place of, such as a log; empty if it cannot be had."""
        answer = self.ask("GET", path)
        return self._text_at(answer.headers.get("location", "")) if answer.status == 302 else ""  # noqa: PLR2004

    def _text_at(self, address: str) -> str:
        """What is kept there, of github.com at another company: PyGithub does not go there, and our token may not."""
        from irontree.http_client import HttpError, UnusableAddress, open_client  # noqa: PLC0415  (only red checks)

        location = self._location
        https = address.startswith("https:")
        with open_client({}, seconds=self._settings.answer_within, https=https, ca_file=location.ca_file) as client:
            try:
                answer = client.get(address, follow_redirects=True)
            except (HttpError, UnusableAddress):
                return ""
        return answer.content.decode("utf-8-sig", "replace") if answer.is_success else ""

    def require(self, answer: HttpAnswer) -> HttpAnswer:
        """The answer, if it is a good one; else the error that it means."""
        if answer.ok and not isinstance(answer.data, str):
            return answer
        raise refusal(answer, self._now(), f"{self.url}/{self.configured_name}")

    def ask(
        self,
        verb: str,
        path: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpAnswer:
        """The answer, whatever its status, after waiting where waiting helps. Raises RemoteUnavailable without one."""

        def send() -> tuple[int, dict[str, Any], str]:
            given, sent = dict(parameters or {}), dict(headers or {})
            return self._requester.requestJson(verb, path, given, sent, body)

        outcome = patiently(lambda: _outcome_of(send), verb, self._now, self._settings.sleep)
        if isinstance(outcome, NoAnswer):
            raise no_answer(self.url, outcome)
        self.scopes = outcome.headers.get("x-oauth-scopes", "")
        return outcome

    @cached_property
    def _requester(self) -> Requester:
        """PyGithub's, made when it is first needed."""
        location, settings = self._location, self._settings
        if location.ca_file and not location.ca_file.is_file():
            raise ConfigRefused(f"forge.ca_file: there is no file {location.ca_file}", remedy="name a PEM file")
        credential = require_credential(settings.environment, settings.ask_program, location.url)
        return github.Github(
            auth=_auth(credential),
            base_url=api_url(location.url),
            timeout=settings.answer_within,
            user_agent=f"irontree/{__version__}",
            verify=str(location.ca_file) if location.ca_file else True,
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=settings.write_interval,
            api_version=_API_VERSION,
        ).requester

    def _now(self) -> datetime:
        return self._settings.clock.now()


def _outcome_of(send: Callable[[], tuple[int, dict[str, Any], str]]) -> HttpOutcome:
    """One request. What `requests` raises is an OSError; GithubException comes from fetching an App's token."""
    try:
        status, received, text = send()
    except OSError as error:
        return NoAnswer(_reason(error))
    except github.GithubException as error:
        return HttpAnswer(error.status, {k.lower(): v for k, v in (error.headers or {}).items()}, error.data)
    except RuntimeError as error:
        raise RemoteFailed(str(error), remedy="set forge.url to the address that it redirects to") from error
    except jwt.PyJWTError as error:
        raise ConfigRefused("the private key of the GitHub App cannot be used", remedy="download it again") from error
    return HttpAnswer(status, received, data_of(text))


def api_url(url: str) -> str:
    """Where the API of the GitHub at *url* is: github.com, *.ghe.com, or an Enterprise Server."""
    parts = urlsplit(url)
    if parts.hostname in {"github.com", "www.github.com"}:
        return "https://api.github.com"
    if (parts.hostname or "").endswith(".ghe.com"):
        return f"https://api.{parts.hostname}"
    return f"{url}/api/v3"


def _auth(credential: Credential) -> github.Auth.Auth:
    if isinstance(credential, AppKey):
        app = github.Auth.AppAuth(credential.app_id, credential.private_key)
        return app.get_installation_auth(credential.installation_id)
    return github.Auth.Token(credential.value)


def _next_query(link: str) -> dict[str, Any] | None:
    """The query of the next page as the header `Link` has it, be that a number or a cursor; None on the last page."""
    for part in link.split(","):
        address, _, relation = part.partition(";")
        if _NEXT in relation:
            return dict(parse_qsl(urlsplit(address.strip(" <>")).query))
    return None


def _reason(error: OSError) -> str:
    """What the innermost error says, without the connection it is about: that is named already."""
    inner: BaseException = error
    while inner.args and isinstance(cause := getattr(inner, "reason", inner.args[0]), BaseException):
        inner = cause
    return " ".join(str(inner).split()).rpartition("): ")[2][-300:]
