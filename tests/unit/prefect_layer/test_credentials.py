"""Credentials as blocks: what they turn into, and that nothing shows them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from irontree.blocks import GiteaCredentials, GitHubCredentials, IrontreeRepository
from irontree.forges.credentials import AppKey, Token, find_credential, find_gitea_token

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\n"


def found_with(block: GitHubCredentials, **environment: str):
    return find_credential({**environment, **block.variables()}, lambda _: None, "https://github.com")


def test_a_token_of_a_block_comes_before_what_the_worker_has():
    block = GitHubCredentials(token="of-the-block")
    environment = {"GITHUB_TOKEN": "other", "GITHUB_APP_ID": "7", "GH_TOKEN": "third"}
    assert found_with(block, **environment) == Token("of-the-block", "GITHUB_TOKEN")


def test_an_app_of_a_block_is_an_app():
    block = GitHubCredentials(app_id="7", private_key=KEY, installation_id=42)
    assert found_with(block, GITHUB_TOKEN="other") == AppKey("7", 42, KEY)


def test_a_token_for_gitea_is_found_under_the_name_that_the_forge_looks_for():
    variables = GiteaCredentials(token="of-the-block").variables()
    found = find_gitea_token({"FORGEJO_TOKEN": "other", **variables})
    assert found
    assert variables[found.source] == "of-the-block"


@pytest.mark.parametrize("kind", [GitHubCredentials, GiteaCredentials])
def test_no_text_shows_a_secret(kind):
    repository = IrontreeRepository(path="/srv/engine", credentials=kind(token="very-secret"))
    assert type(repository.credentials) is kind
    assert "very-secret" not in f"{repository!r} {repository.model_dump_json()}"


@pytest.mark.parametrize(
    "fields",
    [{}, {"app_id": "7"}, {"app_id": "7", "private_key": KEY}, {"token": "x", "app_id": "7"}],
)
def test_half_a_credential_is_refused(fields):
    with pytest.raises(ValidationError):
        GitHubCredentials(**fields)
