"""Who we are on GitHub, and who may write: asked once, and remembered as long as the adapter lives."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from irontree.errors import RemoteFailed
from irontree.forges import ForgeSettings
from irontree.forges.github_client import GithubClient
from irontree.forges.github_values import GHOST, Json, author_of


class GithubAccount:
    """What the parts of the adapter share."""

    def __init__(self, settings: ForgeSettings) -> None:
        self._client = GithubClient(settings)
        self._writers: dict[str, bool] = {}

    @cached_property
    def _login(self) -> str:
        """Our account. An App and a workflow run are no users: REST has no name for them, GraphQL does."""
        answer = self._client.ask("GET", "/user")
        if answer.status == 403:  # noqa: PLR2004
            return str(self._client.query("query { viewer { login } }")["viewer"]["login"])
        return str(self._client.require(answer).data["login"])

    def _ours(self, data: Json) -> bool:
        return author_of(data).casefold() == self._login.casefold()

    def _trusts(self, data: Json) -> bool:
        """Whether the author is us or has write access (ruling R20).

        An association such as MEMBER proves no write access; only the owner's does.
        """
        return self._ours(data) or data.get("author_association") == "OWNER" or self._may_write(author_of(data))

    def may_write(self, login: str) -> bool:
        """Whether that account is ours or has write access now; an unchanged answer costs nothing (ETag)."""
        if login.casefold() == self._login.casefold():
            return True
        if login == GHOST:
            return False
        data = self._client.read(self._client.path("collaborators", login, "permission"), hidden=True)
        self._writers[login] = data is not None and data["permission"] in {"admin", "write"}
        return self._writers[login]

    def _may_write(self, login: str) -> bool:
        return self._writers[login] if login in self._writers else self.may_write(login)

    def _present(self, data: Any, what: str) -> Any:
        """The object. Raises RemoteFailed that names *what* is not there; AccessRefused if the repository is not."""
        if data is None:
            raise RemoteFailed(
                f"there is no {what} in {self._client.url}/{self._client.repository()['full_name']}",
                remedy="was it deleted or moved?",
            )
        return data
