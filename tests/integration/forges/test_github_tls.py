"""A GitHub of one's own, with a certificate of one's own authority."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from irontree.errors import RemoteFailed, RemoteUnavailable
from irontree.forges import Location
from irontree.forges.github import GithubForge
from tests.support.certificates import own_authority
from tests.support.github.server import GithubServer, serve
from tests.support.github.stage import github_settings
from tests.support.github.state import Hub


@pytest.fixture
def authority(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """What the server speaks TLS with, and the file of who vouches for it."""
    return own_authority(tmp_path)


@pytest.fixture
def server(authority: tuple[ssl.SSLContext, Path]) -> Iterator[GithubServer]:
    with serve(Hub()) as running:
        running.socket = authority[0].wrap_socket(running.socket, server_side=True)
        running.url = running.url.replace("http:", "https:")
        yield running


def forge(tmp_path: Path, server: GithubServer, ca_file: Path | None) -> GithubForge:
    location = Location(server.url, "ada/engine", ca_file)
    return GithubForge(replace(github_settings(tmp_path, server, "irontree"), location=location))


def test_a_certificate_of_an_unknown_authority_is_refused_with_the_setting_that_names_one(tmp_path, server):
    with pytest.raises(RemoteFailed, match="certificate") as refused:
        forge(tmp_path, server, None).about()
    assert "forge.ca_file" in str(refused.value.remedy)
    assert not isinstance(refused.value, RemoteUnavailable), "waiting cures nothing"


def test_the_authority_that_is_named_is_trusted(tmp_path, server, authority):
    assert forge(tmp_path, server, authority[1]).about().full_name == "ada/engine"
