"""What git calls a remote, and where that is on the web."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.forges import Location, location_of


@pytest.mark.parametrize(
    ("remote", "url", "repository"),
    [
        ("https://github.com/ada/engine.git", "https://github.com", "ada/engine"),
        ("https://github.com/ada/engine/", "https://github.com", "ada/engine"),
        ("https://user:secret@github.com/ada/engine", "https://github.com", "ada/engine"),
        ("git@github.com:ada/engine.git", "https://github.com", "ada/engine"),
        ("github.com:ada/engine", "https://github.com", "ada/engine"),
        ("ssh://git@github.com/ada/engine.git", "https://github.com", "ada/engine"),
        ("ssh://git@ssh.github.com:443/ada/engine.git", "https://github.com", "ada/engine"),
        ("ssh://git@git.example.org:2222/ada/engine.git", "https://git.example.org", "ada/engine"),
        ("https://git.example.org:3000/ada/my.engine.git", "https://git.example.org:3000", "ada/my.engine"),
        ("https://example.org/forge/ada/engine.git", "https://example.org/forge", "ada/engine"),
        ("http://127.0.0.1:3000/ada/engine", "http://127.0.0.1:3000", "ada/engine"),
    ],
)
def test_the_remote_names_the_forge_and_the_repository(remote: str, url: str, repository: str):
    assert location_of(remote, None, None, None) == Location(url, repository)


@pytest.mark.parametrize(
    "remote",
    [
        "/srv/engine.git",
        "../engine",
        "file:///srv/ada/engine.git",
        "https://x.org/one",
        "https://[bad/ada/engine",
        "",
        None,
    ],
)
def test_a_remote_that_is_on_no_forge_names_none(remote: str | None):
    assert location_of(remote, None, None, None) is None


def test_what_is_configured_comes_first():
    assert location_of("git@alias:ada/engine.git", "https://git.example.org/forge/", "b/other", Path("ca.pem")) == (
        Location("https://git.example.org/forge", "b/other", Path("ca.pem"))
    )


def test_an_address_alone_takes_the_repository_from_the_remote():
    """An SSH host may be an alias that only `~/.ssh/config` knows."""
    assert location_of("work:ada/engine", "https://github.com", None, None) == Location(
        "https://github.com", "ada/engine"
    )


def test_the_place_of_a_remote_without_a_forge_is_named_by_both_keys():
    assert location_of("/srv/engine.git", "https://github.com", "ada/engine", None) == (
        Location("https://github.com", "ada/engine")
    )
    assert location_of("/srv/engine.git", "https://github.com", None, None) is None
