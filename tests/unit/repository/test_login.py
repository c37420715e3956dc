"""Which addresses are reached under another name, and what git's helper is told."""

from __future__ import annotations

import pytest

from irontree.processes.handing import ask
from irontree.repository.login import reaching

SETTINGS = (
    ("remote.origin.url", "https://ada:token@forge.example/a.git"),
    ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
    ("remote.origin.proxy", "http://proxy.example"),
    ("remote.other.fetch", "+refs/heads/*:refs/remotes/other/*"),
)


@pytest.mark.parametrize(
    "url",
    [
        "https://forge.example/a.git",
        "ssh://git@forge.example/a.git",
        "git@forge.example:a.git",
        "/srv/a.git",
        "../a.git",
    ],
)
def test_an_address_without_a_login_is_reached_as_it_is(url: str):
    with reaching("origin", [url], [url], SETTINGS, {"GITHUB_TOKEN": "token"}) as reached:
        assert (reached.words, reached.name) == ((), "origin")


@pytest.mark.parametrize(
    ("password", "said"),
    [
        ("x" * 300, "x" * 300),  # a JSON web token
        ("s'e\"c<r>e*t`@", "s'e\"c<r>e*t`@"),
        ("se%20cret", "se cret"),
    ],
)
@pytest.mark.parametrize("scheme", ["HTTPS", "other"])
def test_a_login_is_hidden_whatever_it_is_made_of(scheme: str, password: str, said: str):
    url = f"{scheme}://ada:{password}@forge.example/a.git"
    with reaching("origin", [url], [url], (), {}) as reached:
        helper = next(word for word in reached.words if word.endswith("socket"))
        answer = ask(helper.split()[-1], f"protocol={scheme}\nhost=forge.example\n\n".encode())
    assert not [word for word in reached.words if password in word]
    assert answer.decode() == f"username=ada\npassword={said}\n"


@pytest.mark.parametrize(
    ("proxy", "shown", "asked"),
    [
        (
            "http://ada:token@proxy.example:3128",
            "http://ada@proxy.example:3128",
            "protocol=http\nhost=proxy.example:3128",
        ),
        ("ada:token@proxy.example", "http://ada@proxy.example", "protocol=http\nhost=proxy.example"),
        ("socks5://ada:token@proxy.example", "socks5://ada@proxy.example", "protocol=socks5\nhost=proxy.example"),
    ],
)
def test_the_login_of_a_proxy_is_hidden_but_for_the_name_without_which_git_asks_no_helper(
    proxy: str, shown: str, asked: str
):
    url = "https://ada:token@forge.example/a.git"
    with reaching("origin", [url], [url], (("remote.origin.proxy", proxy),), {}) as reached:
        helper = next(word for word in reached.words if word.endswith("socket"))
        answer = ask(helper.split()[-1], f"{asked}\n\n".encode())
    assert f"remote.origin-without-login.proxy={shown}" in reached.words
    assert not [word for word in reached.words if "token" in word]
    assert answer == b"username=ada\npassword=token\n"


def test_the_other_name_has_the_settings_of_the_remote_without_its_addresses():
    url = "https://ada:token@forge.example/a.git"
    with reaching("origin", [url], [url], SETTINGS, {}) as reached:
        words = set(reached.words)
    assert reached.name == "origin-without-login"
    assert "remote.origin-without-login.fetch=+refs/heads/*:refs/remotes/origin/*" in words
    assert "remote.origin-without-login.proxy=http://proxy.example" in words
    assert "remote.origin-without-login.url=https://forge.example/a.git" in words
    assert not [word for word in words if "token" in word or "other" in word]


@pytest.mark.parametrize(
    ("url", "asked", "answer"),
    [
        ("https://ada:to%2Fken@forge.example/a", "https://forge.example", "username=ada\npassword=to/ken\n"),
        ("https://secret-token@forge.example/a", "https://forge.example", "username=secret-token\n"),
        ("https://ada:token@forge.example/a", "https://evil.example", ""),
        ("https://ada:token@forge.example/a", "http://forge.example", ""),
        ("https://ada:token@forge.example:444/a", "https://forge.example", ""),
        ("https://github.com/a/b", "https://github.com", "username=x-access-token\npassword=env-token\n"),
        ("https://ada:token@github.com/a/b", "https://github.com", "username=ada\npassword=token\n"),
    ],
)
def test_the_helper_gives_the_login_to_its_own_place_alone(url: str, asked: str, answer: str):
    protocol, _, host = asked.partition("://")
    with reaching("origin", [url], [url], (), {"GH_TOKEN": "env-token"}) as reached:
        helper = next(word for word in reached.words if word.endswith("socket"))
        said = ask(helper.split()[-1], f"protocol={protocol}\nhost={host}\n\n".encode())
    assert said.decode() == answer


def test_after_a_name_in_the_address_come_the_users_helpers_and_then_the_token_of_the_environment():
    url = "https://me@github.com/a/b"
    with reaching("origin", [url], [url], (("credential.helper", "store"),), {"GH_TOKEN": "env-token"}) as reached:
        values = [word.partition("helper=")[2] for word in reached.words if word.startswith("credential.")]
        answers = [ask(value.split()[-1], b"protocol=https\nhost=github.com\n\n") for value in (values[1], values[3])]
    assert (values[0], values[2]) == ("", "store")
    assert answers == [b"username=me\n", b"username=x-access-token\npassword=env-token\n"]
