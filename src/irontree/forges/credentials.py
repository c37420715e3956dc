"""Where a credential for a forge comes from: the environment or the log-in of `gh`, never the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from irontree.errors import ConfigRefused

GITEA_TOKENS: Final = ("GITEA_TOKEN", "FORGEJO_TOKEN")
GITHUB_TOKENS: Final = ("GITHUB_TOKEN", "GH_TOKEN")
APP: Final = "GITHUB_APP_ID"
_REMEDY: Final = "set GITHUB_TOKEN, or `gh auth login`, or see docs/forges.md for a GitHub App"


@dataclass(frozen=True, slots=True)
class Token:
    """A personal token, or that of a workflow run."""

    value: str = field(repr=False)
    source: str
    """The name of where it was found, for messages."""

    def __post_init__(self) -> None:
        """Raises ConfigRefused for what no header can hold: whoever tried would show it in an error."""
        if not (self.value.isascii() and self.value.isprintable()) or " " in self.value:
            raise ConfigRefused(
                f"{self.source} is no token: it holds a space, a line end or another character that no token has",
                remedy="copy the token once more, and nothing else",
            )


@dataclass(frozen=True, slots=True)
class AppKey:
    """A GitHub App that is installed where the repository is."""

    app_id: str
    installation_id: int
    private_key: str = field(repr=False)
    source: str = APP


Credential = Token | AppKey


def find_gitea_token(environment: Mapping[str, str]) -> Token | None:
    """That of the first variable that has one; None without any. Raises ConfigRefused for what is no token."""
    return _first_token(environment, GITEA_TOKENS)


def find_credential(
    environment: Mapping[str, str], ask: Callable[[Sequence[str]], str | None], url: str
) -> Credential | None:
    """The first that is there: an App's key, a token of the environment, that of `gh`; None without any.

    Raises ConfigRefused for an App of which something is missing, and for what is no token.
    """
    if environment.get(APP):
        return _app(environment)
    if token := _first_token(environment, GITHUB_TOKENS):
        return token
    said = ask(["gh", "auth", "token", "--hostname", urlsplit(url).hostname or "github.com"])
    return Token(said, "gh auth token") if said else None


def require_credential(
    environment: Mapping[str, str], ask: Callable[[Sequence[str]], str | None], url: str
) -> Credential:
    """The same; raises ConfigRefused where nothing is found."""
    found = find_credential(environment, ask, url)
    if found is None:
        raise ConfigRefused(f"there is no credential for {url}", remedy=_REMEDY)
    return found


def _first_token(environment: Mapping[str, str], names: Sequence[str]) -> Token | None:
    found = ((name, environment.get(name, "").strip()) for name in names)
    return next((Token(value, name) for name, value in found if value), None)


def _app(environment: Mapping[str, str]) -> AppKey:
    key, path = environment.get("GITHUB_APP_PRIVATE_KEY", ""), environment.get("GITHUB_APP_PRIVATE_KEY_FILE", "")
    installation = environment.get("GITHUB_APP_INSTALLATION_ID", "").strip()
    if not installation.isdecimal():
        raise ConfigRefused(
            "GITHUB_APP_ID is set, but GITHUB_APP_INSTALLATION_ID is not a number",
            remedy="take it from the address of the installation: .../settings/installations/NUMBER",
        )
    return AppKey(environment[APP].strip(), int(installation), _one_key(key, path))


def _one_key(key: str, path: str) -> str:
    r"""The key itself; in one line of an environment file its line ends may be written as `\n`."""
    try:
        text = key.replace("\\n", "\n") or (Path(path).read_text(encoding="ascii") if path else "")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigRefused(f"GITHUB_APP_PRIVATE_KEY_FILE: cannot read {path}", remedy="name the .pem file") from error
    if "PRIVATE KEY-----" not in text:
        raise ConfigRefused(
            "GITHUB_APP_ID is set, but neither GITHUB_APP_PRIVATE_KEY nor GITHUB_APP_PRIVATE_KEY_FILE holds a key",
            remedy="download the App's private key (.pem) and name it",
        )
    return text
