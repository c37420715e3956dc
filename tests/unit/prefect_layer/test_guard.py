"""The layer before Prefect at servers that are no default ones: with a password of the user's own, a proxy, or open."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus

import httpx
import pytest

from irontree.flows.server.guard import Guard, Names, Receive, Scope, Send, names_of
from irontree.flows.server.links import LINK_SECONDS, Links, make_link
from irontree.flows.server.listening import EVERYWHERE

OWN = "irontree-a.localhost"
PASSWORD = "ada:secret"


async def prefect(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers everything."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"prefect"})


def guard(*, password: str | None = PASSWORD, asks: bool = False, names: Names | None = None) -> Guard:
    return Guard(prefect, names or names_of(OWN, "127.0.0.1", (), EVERYWHERE), password, Links("k", OWN), asks=asks)


def status(app: Guard, method: str, url: str, **headers: str) -> int:
    async def ask() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
            return (await client.request(method, url, headers=headers)).status_code

    return asyncio.run(ask())


def test_a_server_with_a_password_of_the_users_own_shows_the_pages_that_ask_for_it():
    """People elsewhere know it, and have no terminal here; the API behind is Prefect's to refuse."""
    assert status(guard(asks=True), "GET", "http://127.0.0.1:4280/runs") == HTTPStatus.OK
    assert status(guard(), "GET", "http://127.0.0.1:4280/runs") == HTTPStatus.UNAUTHORIZED


def test_a_server_that_is_open_to_everyone_is_not_open_to_pages_of_other_sites():
    app = guard(password=None)
    assert status(app, "GET", "http://127.0.0.1:4280/runs") == HTTPStatus.OK
    assert status(app, "POST", "http://127.0.0.1:4280/api/flow_runs/") == HTTPStatus.OK
    foreign = status(app, "POST", "http://127.0.0.1:4280/api/flow_runs/", Origin="http://evil.example")
    assert foreign == HTTPStatus.FORBIDDEN
    assert status(app, "GET", "http://evil.example:4280/runs") == HTTPStatus.MISDIRECTED_REQUEST
    assert status(app, "POST", "http://127.0.0.1:4280/irontree/sign-out") == HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize("origin", ["http://[", "null", "http://127.0.0.1:4281", "127.0.0.1:4280"])
def test_what_is_no_origin_of_ours_is_refused_whatever_it_is(origin):
    app = guard(password=None)
    assert status(app, "POST", "http://127.0.0.1:4280/api/flow_runs/", Origin=origin) == HTTPStatus.FORBIDDEN


def test_a_link_leads_to_a_page_of_any_name():
    link = make_link("http://127.0.0.1:4280", "k", OWN, "/runs/€?q=%20a", now=time.time())
    own = link.replace("127.0.0.1", OWN)
    assert status(guard(), "GET", own) == HTTPStatus.SEE_OTHER


def test_a_page_behind_a_proxy_writes_if_the_proxy_passes_its_name_on():
    app = guard(password=None, names=names_of(OWN, "127.0.0.1", ["Prefect.example"], EVERYWHERE))
    for host, expected in (("prefect.example", HTTPStatus.OK), ("127.0.0.1:4280", HTTPStatus.FORBIDDEN)):
        found = status(app, "POST", f"http://{host}/api/flow_runs/", Origin="https://prefect.example")
        assert found == expected


@pytest.mark.parametrize(
    ("host", "names", "asked", "known"),
    [
        ("127.0.0.1", (), "127.0.0.1", True),
        ("127.0.0.1", (), "localhost", True),
        ("127.0.0.1", (), "::1", True),
        ("127.0.0.1", (), OWN, True),
        ("127.0.0.1", (), "192.0.2.1", False),
        ("192.0.2.1", (), "192.0.2.1", True),
        ("192.0.2.1", (), "192.0.2.2", False),
        ("0.0.0.0", (), "192.0.2.1", True),
        ("::", (), "2001:db8::1", True),
        ("0.0.0.0", (), "evil.example", False),
        ("0.0.0.0", ("prefect.example",), "prefect.example", True),
    ],
)
def test_the_names_of_a_server_are_those_of_where_it_listens_and_those_that_were_given(host, names, asked, known):
    """At all addresses of the machine every address is one: no foreign page is at an address of this machine."""
    assert names_of(OWN, host, names, EVERYWHERE).hold(asked) is known


def test_the_five_minutes_of_a_link_are_those_of_the_servers_clock():
    clock = [1000.0]
    links = Links("k", OWN, now=lambda: clock[0])
    tokens = [make_link("", "k", OWN, "/", now=1000.0).partition("token=")[2].partition("&")[0] for _ in range(2)]
    clock[0] += LINK_SECONDS
    assert [links.redeem(tokens[0]), links.redeem(tokens[0])] == [True, False]
    clock[0] += 1
    assert not links.redeem(tokens[1])
