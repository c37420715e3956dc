"""What the parts of the `gitea` forge share: the client, who we are, and whom to trust."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from irontree.errors import AccessRefused, RemoteFailed
from irontree.forges import ForgeSettings
from irontree.forges.gitea_http import GiteaClient, Query

_WRITERS: Final = {"write", "admin", "owner"}


class GiteaAccess:
    """Asks nothing before the first call: it needs neither a token nor a network to be made."""

    def __init__(self, settings: ForgeSettings) -> None:
        self._sleep = settings.sleep
        self._client = GiteaClient(settings)
        self._trusted: dict[str, bool] = {}

    @cached_property
    def _account(self) -> str:
        return self._client.account()

    def _trusts(self, login: str) -> bool:
        """Whether that is us or somebody with write access (R20); asked once for each."""
        return self._trusted[login] if login in self._trusted else self.may_write(login)

    def may_write(self, login: str) -> bool:
        """Whether that account is ours or has write access now."""
        self._trusted[login] = login == self._account or self._is_writer(login)
        return self._trusted[login]

    def _is_writer(self, login: str) -> bool:
        """Only an administrator of the repository may ask about others; the list of assignees is open to all."""
        try:
            answer = self._client.read(f"collaborators/{quote(login, safe='')}/permission")
        except AccessRefused as refused:
            if refused.reason != "permission":
                raise
            return login in {user["login"] for user in self._client.read("assignees").data}
        return answer.status == HTTPStatus.OK and answer.data["permission"] in _WRITERS

    def _look(self, path: str, query: Query | None = None) -> Any:
        """What is there; None if nothing is. Raises AccessRefused if the repository itself is not there."""
        answer = self._client.read(path, query)
        if answer.status == HTTPStatus.NOT_FOUND:
            self._client.explain_absence(of_issues=path.startswith("issues"))
            return None
        return answer.data

    def _find(self, path: str, what: str, query: Query | None = None) -> Any:
        """What must be there. Raises RemoteFailed that names *what* is not."""
        found = self._look(path, query)
        if found is None:
            raise self._missing(what)
        return found

    def _write(self, method: str, path: str, what: str, body: Mapping[str, Any] | None = None) -> Any:
        """Change *what* must be there."""
        answer = self._client.send(method, path, body)
        if answer.status == HTTPStatus.NOT_FOUND:
            self._client.explain_absence(of_issues=path.startswith("issues"))
            raise self._missing(what)
        return answer.data

    def _missing(self, what: str) -> RemoteFailed:
        return RemoteFailed(f"there is no {what} in {self._client.web}")
