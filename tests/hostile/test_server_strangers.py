"""Another local user, and a web page in the user's browser, against the private server (decision 0024)."""

from __future__ import annotations

import json
import os
import stat
import time
import uuid
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from irontree.flows.server.connection import Address, ServerState
from irontree.flows.server.credentials import make_password, password, read_password
from irontree.flows.server.links import LINK_SECONDS, make_link
from irontree.flows.server.private import keep_or_forget

REFUSED = HTTPStatus.UNAUTHORIZED
EVIL = "http://evil.example"


@pytest.fixture(scope="module")
def address(state_folder, api_url) -> Address:
    found = ServerState(state_folder).address()
    assert found
    return found


@pytest.fixture(scope="module")
def base(api_url) -> str:
    return api_url.removesuffix("/api")


@pytest.fixture(scope="module")
def known(state_folder) -> tuple[str, str]:
    """The password, as the user's own programs send it."""
    user, _, secret = (read_password(state_folder) or "").partition(":")
    return user, secret


@pytest.fixture(scope="module")
def flow_id(api_url, known) -> str:
    made = httpx.post(f"{api_url}/flows/", json={"name": f"attacked-{uuid.uuid4().hex}"}, auth=known)
    assert made.status_code == HTTPStatus.CREATED
    return made.json()["id"]


@pytest.fixture
def link(state_folder, address, base):
    """A link of the user's terminal."""

    def make(path: str = "/runs", *, now: float | None = None, name: str = address.name) -> str:
        secret = read_password(state_folder) or ""
        return make_link(base, secret, name, path, now=time.time() if now is None else now)

    return make


def at(address: Address, url: str) -> tuple[str, dict[str, str]]:
    """*url*, asked at the server's own name, which no resolver of this machine need know."""
    parts = urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"http://127.0.0.1:{address.port}{parts.path}{query}", {"Host": f"{address.name}:{address.port}"}


@pytest.fixture
def signed_in(address, link):
    """What a browser of the user sends: its cookie, at the server's own name."""
    url, host = at(address, link())
    answer = httpx.get(url, headers=host)
    return {**host, "Cookie": answer.headers["set-cookie"].partition(";")[0]}


# --- another local user


def test_a_stranger_creates_no_run_and_reads_no_form_or_artifact(api_url, flow_id):
    """...nor what else the API has; that it lives is no secret."""
    asked = [
        httpx.post(f"{api_url}/flow_runs/", json={"flow_id": flow_id}),
        httpx.post(f"{api_url}/flow_runs/{uuid.uuid4()}/resume", json={"run_input": {"decision": "accept"}}),
        httpx.post(f"{api_url}/artifacts/filter", json={}),
        httpx.get(f"{api_url}/artifacts/{uuid.uuid4()}"),
        httpx.post(f"{api_url}/flow_runs/{uuid.uuid4()}/input/filter", json={"prefix": ""}),
        httpx.get(f"{api_url}/admin/settings"),
        httpx.get(f"{api_url}/version"),
        httpx.get(f"{api_url}/flows/x", auth=("irontree", "guessed")),
    ]
    assert {answer.status_code for answer in asked} == {REFUSED}
    assert httpx.get(f"{api_url}/health").status_code == HTTPStatus.OK


@pytest.mark.parametrize("path", ["/", "/ui-settings", "/runs", "/docs", "/openapi.json", "//api/health"])
def test_a_stranger_sees_no_page_but_the_one_that_says_what_to_do(base, address, path):
    answer = httpx.get(f"{base}{path}")
    assert answer.status_code == REFUSED
    assert "irontree ui" in answer.text
    assert address.name not in answer.text


@pytest.mark.parametrize("path", ["/events/in", "/events/out", "/logs/out"])
@pytest.mark.parametrize("secret", [None, "irontree:guessed"])
def test_a_stranger_hears_no_events_and_sends_none(api_url, path, secret):
    url = f"{api_url.replace('http', 'ws')}{path}"
    with connect(url, subprotocols=["prefect"], proxy=None) as stream:
        stream.send(json.dumps({"type": "auth", "token": secret}))
        with pytest.raises(ConnectionClosed):
            stream.recv()


def test_the_password_is_in_a_file_of_its_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        made = make_password(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "password").stat().st_mode) == 0o600
    assert make_password(tmp_path) == made != make_password(tmp_path / "other")


@pytest.mark.parametrize(("last", "kept"), [(None, True), (4280, True), (4281, False)])
def test_who_took_the_port_of_a_killed_server_learns_no_password_that_counts(tmp_path, last, kept):
    """Programs that were at work send it there until they give up."""
    made = make_password(tmp_path)
    keep_or_forget(tmp_path, last, 4280)
    assert (make_password(tmp_path) == made) is kept


def test_the_password_is_in_no_log_and_on_no_command_line(state_folder, address, known):
    program = psutil.Process(address.pid)
    shown = [*program.cmdline(), *program.environ().values(), *(log.read_text() for log in state_folder.glob("*.log"))]
    assert [text for text in shown if known[1] in text] == []


def test_the_users_own_password_is_taken_before_the_one_that_was_made(tmp_path):
    own = {"PREFECT_SERVER_API_AUTH_STRING": "team:chosen"}
    assert password(own, tmp_path)["PREFECT_API_AUTH_STRING"] == "team:chosen"
    assert password({}, tmp_path) == {}
    assert password({}, tmp_path) != password({"PREFECT_SERVER_API_AUTH_STRING": make_password(tmp_path)}, tmp_path)


# --- a web page in the user's browser


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://localhost:9"},
    ],
)
def test_a_page_of_another_site_writes_nothing_whatever_it_knows(api_url, flow_id, known, headers):
    answer = httpx.post(f"{api_url}/flow_runs/", json={"flow_id": flow_id}, headers=headers, auth=known)
    assert answer.status_code == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_page_may_send_unasked_is_not_read(api_url, flow_id, known, kind):
    body = json.dumps({"flow_id": flow_id})
    answer = httpx.post(f"{api_url}/flow_runs/", content=body, headers={"Content-Type": kind}, auth=known)
    assert answer.status_code == HTTPStatus.UNSUPPORTED_MEDIA_TYPE


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "irontree-0.localhost", "", "10.0.0.1"])
def test_a_name_that_was_made_to_lead_here_reads_nothing(api_url, known, host):
    answer = httpx.get(f"{api_url}/health", headers={"Host": f"{host}:80" if host else ""}, auth=known)
    assert answer.status_code in (HTTPStatus.MISDIRECTED_REQUEST, HTTPStatus.BAD_REQUEST)


def test_a_page_of_another_site_opens_no_websocket(api_url):
    url = f"{api_url.replace('http', 'ws')}/events/out"
    with pytest.raises(InvalidStatus), connect(url, subprotocols=["prefect"], origin=EVIL, proxy=None):
        pass


# --- links and cookies


def test_a_link_signs_in_once_and_for_that_browser_alone(address, link, api_url, known):
    url, host = at(address, link("/runs?tag=x"))
    answer = httpx.get(url, headers=host)
    assert (answer.status_code, answer.headers["location"]) == (HTTPStatus.SEE_OTHER, "/runs?tag=x")
    value, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} == set(attributes)
    assert httpx.get(url, headers=host).status_code == REFUSED
    mine, page = {**host, "Cookie": value}, f"http://127.0.0.1:{address.port}"
    assert httpx.get(f"{page}/api/admin/version", headers=mine).status_code == HTTPStatus.OK
    assert httpx.get(f"{page}/ui-settings", headers=mine).json()["auth"] is None
    assert "<div" in httpx.get(f"{page}/runs", headers={**mine, "Accept": "text/html"}).text


@pytest.mark.parametrize("name", ["irontree-0.localhost", ""])
def test_a_link_of_another_server_process_signs_nobody_in(address, link, name):
    url, host = at(address, link(name=name))
    assert httpx.get(url, headers=host).status_code == REFUSED


def test_a_link_is_good_for_five_minutes(address, link):
    old, host = at(address, link(now=time.time() - LINK_SECONDS - 2))
    young, _ = at(address, link(now=time.time() - LINK_SECONDS + 30))
    assert httpx.get(old, headers=host).status_code == REFUSED
    assert httpx.get(young, headers=host).status_code == HTTPStatus.SEE_OTHER


def test_a_link_whose_time_was_changed_is_none(address, link):
    url, host = at(address, link())
    (token,) = parse_qs(urlsplit(url).query)["token"]
    later = str(int(token.partition(".")[0]) + 1)
    assert httpx.get(url.replace(token.partition(".")[0], later), headers=host).status_code == REFUSED


@pytest.mark.parametrize("to", ["http://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_a_link_leads_to_this_server_alone(address, link, to):
    url, host = at(address, link(to))
    assert httpx.get(url, headers=host).headers["location"] == "/"


def test_a_cookie_counts_at_the_servers_own_name_alone(signed_in, base, address):
    """At 127.0.0.1 and localhost, servers of others would be sent it: cookies know no ports."""
    for name in ("127.0.0.1", "localhost"):
        headers = {**signed_in, "Host": f"{name}:{address.port}"}
        assert httpx.get(f"{base}/api/admin/version", headers=headers).status_code == REFUSED
    assert httpx.get(f"{base}/api/admin/version", headers=signed_in).status_code == HTTPStatus.OK


def test_a_cookie_of_another_server_signs_nobody_in(signed_in, base):
    other = {**signed_in, "Cookie": "irontree=stolen; irontree="}
    assert httpx.get(f"{base}/api/admin/version", headers=other).status_code == REFUSED


def test_the_cookie_of_the_user_writes_for_no_other_site(signed_in, api_url, flow_id, address):
    def post(**headers: str) -> int:
        return httpx.post(
            f"{api_url}/flow_runs/", json={"flow_id": flow_id}, headers={**signed_in, **headers}
        ).status_code

    own = f"http://{address.name}:{address.port}"
    assert post(Origin=own) == HTTPStatus.CREATED
    assert post(Origin=f"http://{address.name}:9") == HTTPStatus.FORBIDDEN
    assert post(Origin=EVIL) == HTTPStatus.FORBIDDEN
    assert post(**{"Sec-Fetch-Site": "same-site"}) == HTTPStatus.FORBIDDEN


def test_the_servers_own_name_is_told_to_those_who_have_a_link(base, address, link):
    assert address.name in httpx.get(link()).text
    assert address.name not in httpx.get(f"{base}/irontree/sign-in", params={"token": "1.2.3", "to": "/"}).text


def test_signing_out_ends_every_cookie_and_takes_the_password(signed_in, base, known):
    assert httpx.post(f"{base}/irontree/sign-out").status_code == REFUSED
    assert httpx.get(f"{base}/api/admin/version", headers=signed_in).status_code == HTTPStatus.OK
    assert httpx.post(f"{base}/irontree/sign-out", auth=known).status_code == HTTPStatus.NO_CONTENT
    assert httpx.get(f"{base}/api/admin/version", headers=signed_in).status_code == REFUSED


def test_no_other_site_shows_our_pages_in_a_frame_or_learns_our_name(signed_in, base):
    headers = httpx.get(f"{base}/runs", headers=signed_in).headers
    assert (headers["x-frame-options"], headers["referrer-policy"]) == ("DENY", "same-origin")


def test_nothing_in_the_servers_folder_can_be_opened_by_other_users(state_folder, api_url):
    """Its database, log, password and locks, whatever the umask, and the folder itself."""
    found = [state_folder, *(path for path in state_folder.rglob("*") if not path.is_symlink())]
    assert state_folder / "prefect.db" in found
    assert [path for path in found if path.lstat().st_mode & 0o077] == []
