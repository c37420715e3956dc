"""A remote over HTTP that wants a login: git finds what it would find without us (docs/decisions/0018-tokens.md)."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from irontree.errors import RemoteFailed
from tests.support.repositories import git


class Forge(ThreadingHTTPServer):
    """Refuses everybody, and keeps the logins that it was shown: as a forge, and as a proxy."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Refusing)
        self.seen, self.proxied = list[str](), list[str]()

    def url(self, login: str) -> str:
        return f"http://{login}@127.0.0.1:{self.server_port}/project.git"


class _Refusing(BaseHTTPRequestHandler):
    server: Forge

    def do_GET(self) -> None:
        for header, logins in (("Authorization", self.server.seen), ("Proxy-Authorization", self.server.proxied)):
            if said := self.headers[header]:
                logins.append(base64.b64decode(said.removeprefix("Basic ")).decode())
        asks_proxy = self.path.startswith("http") and not self.headers["Proxy-Authorization"]
        self.send_response(407 if asks_proxy else 401)
        self.send_header("Proxy-Authenticate" if asks_proxy else "WWW-Authenticate", "Basic")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def login_shown(project, forge: Forge, url: str, **settings: str) -> str:
    """What a fetch from *url* by us logs in with, which is what one by the user does."""
    git(project.root, "remote", "set-url", "origin", url)
    for name, value in settings.items():
        git(project.root, "config", "--add", name, value)
    git(project.root, "fetch", "origin", check=False)
    by_user = forge.seen[-1]
    forge.seen.clear()
    forge.proxied.clear()
    with pytest.raises(RemoteFailed):
        project.repository.base(project.target)
    assert forge.seen[-1:] == [by_user]
    return by_user


def keeping(password: str) -> str:
    """A helper that keeps the password of one user, as git's own stores do."""
    return f'!f() {{ test "$1" = get && grep -q username=org && echo password={password}; }}; f'


def test_a_name_in_the_address_leaves_the_password_to_the_users_helper(project, forge):
    shown = login_shown(project, forge, forge.url("org"), **{"credential.helper": keeping("kept")})
    assert shown == "org:kept"


def test_helpers_that_a_user_takes_back_for_a_host_are_not_asked_and_the_name_is_still_known(project, forge):
    """As `gh auth setup-git` writes it: an empty helper first."""
    git(project.root, "config", "credential.helper", keeping("old"))
    here = f"credential.http://127.0.0.1:{forge.server_port}.helper"
    git(project.root, "config", here, "")
    shown = login_shown(project, forge, forge.url("org"), **{here: keeping("new")})
    assert shown == "org:new"


def test_a_helper_that_a_user_has_for_one_name_is_asked_for_that_name(project, forge):
    git(project.root, "config", f"credential.http://eve@127.0.0.1:{forge.server_port}.helper", keeping("hers"))
    theirs = f"credential.http://org@127.0.0.1:{forge.server_port}.helper"
    assert login_shown(project, forge, forge.url("org"), **{theirs: keeping("his")}) == "org:his"


def test_an_empty_password_is_one(project, forge):
    shown = login_shown(project, forge, forge.url("tok:"), **{"credential.helper": keeping("kept")})
    assert shown == "tok:"


def test_a_proxy_that_wants_a_login_gets_it_although_no_command_line_shows_it(project, forge):
    git(project.root, "config", "remote.origin.proxy", f"http://ann:proxy-secret@127.0.0.1:{forge.server_port}")
    assert login_shown(project, forge, "http://ada:secret@forge.invalid/project.git") == "ada:secret"
    assert forge.proxied[-1] == "ann:proxy-secret"
