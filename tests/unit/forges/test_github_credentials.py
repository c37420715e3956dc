"""Where a credential for GitHub comes from, in which order, and that no text shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from irontree.errors import ConfigRefused
from irontree.forges.credentials import (
    GITEA_TOKENS,
    GITHUB_TOKENS,
    AppKey,
    Credential,
    Token,
    find_credential,
    find_gitea_token,
    require_credential,
)
from irontree.forges.github_client import api_url

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\n"
APP = {"GITHUB_APP_ID": "7", "GITHUB_APP_INSTALLATION_ID": "42", "GITHUB_APP_PRIVATE_KEY": KEY}
GITHUB = "https://github.com"


def nobody(_: Sequence[str]) -> None:
    """There is no `gh`."""


def found(environment: Mapping[str, str]) -> Credential | None:
    return find_credential(environment, nobody, GITHUB)


def test_the_environment_comes_before_gh_and_an_app_before_a_token():
    tokens = {"GITHUB_TOKEN": "first", "GH_TOKEN": "second"}
    assert found({**APP, **tokens}) == AppKey("7", 42, KEY)
    assert found(tokens) == Token("first", "GITHUB_TOKEN")
    assert found({"GITHUB_TOKEN": " ", "GH_TOKEN": "second\n"}) == Token("second", "GH_TOKEN")
    assert find_credential({}, lambda _: "third", GITHUB) == Token("third", "gh auth token")
    assert found({}) is None


def test_gh_is_asked_for_the_host_that_is_meant():
    asked: list[Sequence[str]] = []
    assert find_credential({}, asked.append, "https://git.example.org:8443/forge") is None
    assert asked == [["gh", "auth", "token", "--hostname", "git.example.org"]]


def test_without_any_it_says_what_to_do():
    with pytest.raises(ConfigRefused) as refused:
        require_credential({}, nobody, GITHUB)
    assert "GITHUB_TOKEN" in str(refused.value.remedy)
    assert "gh auth login" in str(refused.value.remedy)


def test_a_key_may_be_in_a_file_or_in_one_line(tmp_path):
    path = tmp_path / "app.pem"
    path.write_text(KEY)
    without = {name: value for name, value in APP.items() if name != "GITHUB_APP_PRIVATE_KEY"}
    assert found({**without, "GITHUB_APP_PRIVATE_KEY_FILE": str(path)}) == AppKey("7", 42, KEY)
    assert found({**without, "GITHUB_APP_PRIVATE_KEY": KEY.replace("\n", "\\n")}) == AppKey("7", 42, KEY)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"GITHUB_APP_INSTALLATION_ID": ""}, "GITHUB_APP_INSTALLATION_ID"),
        ({"GITHUB_APP_INSTALLATION_ID": "ada"}, "GITHUB_APP_INSTALLATION_ID"),
        ({"GITHUB_APP_PRIVATE_KEY": ""}, "GITHUB_APP_PRIVATE_KEY"),
        ({"GITHUB_APP_PRIVATE_KEY": "not a key"}, "GITHUB_APP_PRIVATE_KEY"),
        ({"GITHUB_APP_PRIVATE_KEY": "", "GITHUB_APP_PRIVATE_KEY_FILE": "never/there.pem"}, "never/there.pem"),
    ],
)
def test_half_an_app_is_refused_with_what_is_missing(change, said):
    """A token that is also there must not be taken for it in silence."""
    with pytest.raises(ConfigRefused, match=said):
        found({**APP, **change, "GITHUB_TOKEN": "other"})


@pytest.mark.parametrize("value", ["secret\nuser", "secret user", "to\u2019ken", "tok\xe9n", "to\x00ken", "to\x7fken"])
@pytest.mark.parametrize("source", [*GITHUB_TOKENS, *GITEA_TOKENS, "gh auth token"])
def test_what_is_no_token_is_refused_by_the_name_of_where_it_is_from(value: str, source: str):
    """No header can hold it, and the error that says so would show it."""
    find = find_gitea_token if source in GITEA_TOKENS else lambda where: find_credential(where, lambda _: value, GITHUB)
    with pytest.raises(ConfigRefused, match=source) as refused:
        find({source: value})
    assert value not in f"{refused.value} {refused.value.remedy} {refused.value!r}"


def test_either_variable_has_the_token_of_gitea():
    assert find_gitea_token({"GITEA_TOKEN": " ", "FORGEJO_TOKEN": "second\n"}) == Token("second", "FORGEJO_TOKEN")
    assert find_gitea_token({}) is None


def test_no_text_shows_a_credential():
    for credential in (Token("very-secret", "GH_TOKEN"), AppKey("7", 42, "very-secret")):
        assert "very-secret" not in f"{credential!r} {credential}"


@pytest.mark.parametrize(
    ("url", "api"),
    [
        ("https://github.com", "https://api.github.com"),
        ("https://www.github.com", "https://api.github.com"),
        ("https://acme.ghe.com", "https://api.acme.ghe.com"),
        ("https://git.example.org", "https://git.example.org/api/v3"),
        ("https://git.example.org:8443", "https://git.example.org:8443/api/v3"),
    ],
)
def test_the_api_is_where_that_kind_of_github_has_it(url, api):
    assert api_url(url) == api
