"""A real Gitea on loopback, as `tools/build_gitea.py` built it: started with SQLite in a folder of its own."""

from __future__ import annotations

import getpass
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

VERSIONS = ("1.24.6", "1.25.4")
"""Pinned here alone; `GITEA=one` takes the last."""
BUILDS = Path(__file__).resolve().parents[3] / "build" / "gitea"
SECONDS = 60
PAGE = 7
"""The most entries of an answer: few, so that every list has pages."""
SUB_PATH = "/forge"
ALL_SCOPES = "all"

Json = Any


def program_of(version: str) -> Path:
    """The program, as `tools/build_gitea.py` leaves it."""
    return BUILDS / version / "gitea"


def source_link(version: str) -> Path:
    """A link to its source, whose templates, options and public files the program reads."""
    return BUILDS / version / "source"


@dataclass
class RealGitea:
    """One server. `boss` administers it; accounts have tokens with the scopes that they were given."""

    program: Path
    source: Path
    folder: Path
    port: int
    version: str
    tokens: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """As a person opens it: Gitea takes requests with and without the sub-path of ROOT_URL."""
        return f"http://127.0.0.1:{self.port}{SUB_PATH}"

    def configure(self) -> None:
        conf = self.folder / "conf" / "app.ini"
        conf.parent.mkdir(parents=True)
        data = self.folder / "data"
        conf.write_text(
            f"APP_NAME = tests\nRUN_USER = {getpass.getuser()}\nRUN_MODE = prod\nWORK_PATH = {self.folder}\n"
            f"[server]\nPROTOCOL = http\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = {self.port}\nROOT_URL = {self.url}/\n"
            f"USE_SUB_URL_PATH = true\nLOCAL_ROOT_URL = {self.url}/\n"
            f"STATIC_ROOT_PATH = {self.source}\nAPP_DATA_PATH = {data}\nDISABLE_SSH = true\nOFFLINE_MODE = true\n"
            f"[database]\nDB_TYPE = sqlite3\nPATH = {data}/gitea.db\n"
            f"[repository]\nROOT = {data}/repositories\n"
            f"[security]\nINSTALL_LOCK = true\nSECRET_KEY = {secrets.token_hex(16)}\n"
            f"INTERNAL_TOKEN = {secrets.token_hex(32)}\nPASSWORD_HASH_ALGO = pbkdf2_v2\n"
            f"[api]\nMAX_RESPONSE_ITEMS = {PAGE}\nDEFAULT_PAGING_NUM = {PAGE}\n"
            f"[log]\nMODE = file\nLEVEL = warn\nROOT_PATH = {self.folder}/log\n"
            "[webhook]\nALLOWED_HOST_LIST = loopback\n"
            "[mailer]\nENABLED = false\n[indexer]\nISSUE_INDEXER_TYPE = db\n[cron]\nENABLED = false\n"
            "[session]\nPROVIDER = memory\n[oauth2]\nENABLED = false\n[actions]\nENABLED = false\n"
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [self.program, "web", "--config", self.folder / "conf" / "app.ini"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
        )
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            try:
                urlopen(f"{self.url}/api/v1/version", timeout=5).close()
            except (URLError, OSError):
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"Gitea does not answer at {self.url}; see {self.folder}/log")

    def stop(self, *, kill: bool = False) -> None:
        """End it; *kill* gives it no time to put anything in order."""
        if self._process:
            (self._process.kill if kill else self._process.terminate)()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop(kill=True)
        self.start()

    def command(self, *arguments: str) -> str:
        """Gitea's own command line; what it prints."""
        done = subprocess.run(
            [self.program, "--config", self.folder / "conf" / "app.ini", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=self._environment(),
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def account(
        self,
        login: str,
        scopes: str = ALL_SCOPES,
        *,
        admin: bool = False,
        restricted: bool = False,
        bot: bool = False,
    ) -> str:
        """Make an account; a token of it."""
        named = ("--username", login, "--email", f"{login}@example.org")
        kind = ("--user-type", "bot") if bot else ("--password", "pass-word-1", "--must-change-password=false")
        more = [*(["--admin"] if admin else []), *(["--restricted"] if restricted else [])]
        self.command("admin", "user", "create", *named, *kind, *more)
        if bot:  # which is asked for a new password all the same, that it cannot have
            self.command("admin", "user", "must-change-password", "--unset", login)
        self.tokens[login] = self.token(login, scopes)
        return self.tokens[login]

    def token(self, login: str, scopes: str) -> str:
        name = f"t{secrets.token_hex(4)}"
        made = ("admin", "user", "generate-access-token", "--username", login, "--token-name", name)
        return self.command(*made, "--scopes", scopes, "--raw").strip().splitlines()[-1]

    def ask(self, method: str, path: str, by: str = "boss", **body: Json) -> Json:
        """What the API answers *by*; raises AssertionError for a refusal."""
        status, answer = self.answer(method, path, by, body or None)
        assert status < HTTPStatus.BAD_REQUEST, (method, path, status, answer)
        return answer

    def answer(self, method: str, path: str, by: str, body: Mapping[str, Json] | None = None) -> tuple[int, Json]:
        """Status and body of any answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.tokens[by]}", "Content-Type": "application/json"}
        try:
            with urlopen(Request(f"{self.url}/api/v1/{path}", data, headers, method=method), timeout=30) as response:
                return response.status, _json(response.read())
        except HTTPError as error:
            return error.code, _json(error.read())

    def _environment(self) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().startswith(("GIT_", "GITEA", "HTTP", "ALL_P"))
        }
        return kept | {
            "HOME": str(home),
            "GITEA_WORK_DIR": str(self.folder),
            "GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT": "true",
        }


def _json(text: bytes) -> Json:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode(errors="replace")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def real_gitea(version: str, folder: Path) -> Iterator[RealGitea]:
    """A server of that version until the block ends."""
    server = RealGitea(program_of(version), source_link(version), folder, free_port(), version)
    server.configure()
    try:
        server.start()
        server.account("boss", admin=True)
        yield server
    finally:
        server.stop()
