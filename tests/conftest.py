"""The same small world for every test: empty home, no caller's settings, no network but loopback."""

from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

import certifi
import hypothesis
import pytest

from tests.support.soak import SOAK

# Names by which the caller's shell, hooks, CI or desktop would reach into a test.
FOREIGN = ("GIT_", "PREFECT_", "IRONTREE_", "XDG_", "GITHUB_", "GH_", "GITEA_", "FORGEJO_")
# Without stored bytecode each program of ours that a test starts compiles 180 modules first: 0.15 s.
FOREIGN_NAMES = (
    "PYTHONDONTWRITEBYTECODE",
    # With those of the make that runs the tests, one that a test runs says that it may not start jobs.
    *("MAKEFLAGS", "MFLAGS", "MAKELEVEL"),
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "EDITOR", "PAGER"),
)
# No sample hooks to copy and remove a thousand times, no program started after each commit to look for garbage.
GIT_CONFIG = """\
[user]
\tname = Test Author
\temail = author@example.com
[init]
\tdefaultBranch = main
\ttemplateDir =
[commit]
\tgpgSign = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[receive]
\tautogc = false
[core]
\tfsync = none
"""
HOME = pytest.StashKey[Path]()
WAITING = "tests/prefect/"
LONGEST = ("tests/integration/cli/", "tests/integration/crash/", "tests/unit/model/", "tests/unit/test_")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module (and with it Prefect) is imported: Prefect reads its settings at import."""
    home = Path(tempfile.mkdtemp(prefix="irontree-tests-"))
    config.stash[HOME] = home
    _make_home(home)
    time.tzset()
    _use_hypothesis_without_a_clock()
    _hear_interrupts()
    sys.addaudithook(_refuse_the_network)


def _hear_interrupts() -> None:
    """A shell that starts the tests in the background has them ignore Ctrl-C, and every program that they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    shutil.rmtree(config.stash[HOME], ignore_errors=True)


def pytest_collection() -> None:
    """Nothing that is imported or collected is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was imported and collected, a million objects, stays to the end: no later collection need look at it."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: a file of flows, which mostly wait, beside one that works, and so on."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:  # not by where a test is defined: one file may take in the tests of another
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    waiting = [name for name in files if name.startswith(WAITING)]
    working = sorted(files.keys() - waiting, key=lambda name: (not name.startswith(LONGEST), name))
    items[:] = [item for name in chain(*zip_longest(waiting, working)) if name for item in files[name]]


def _use_hypothesis_without_a_clock() -> None:
    """A slow machine fails no test; what failed is reproduced from the printed blob, not from a local database.

    The same examples each time: whoever runs the tests wants to know of his change. `make soak` looks for new ones.
    """
    common = hypothesis.settings(
        deadline=None, database=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.register_profile("ci", common, derandomize=True, max_examples=50)
    hypothesis.settings.register_profile("soak", common, derandomize=False, max_examples=1000)
    hypothesis.settings.load_profile("soak" if SOAK else "ci")


def _make_home(home: Path) -> None:
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name in FOREIGN_NAMES:
            del os.environ[name]
    (home / ".gitconfig").write_text(GIT_CONFIG)
    authority = home / "authority.pem"
    authority.write_text(_first_certificate())
    os.environ |= {
        "HOME": str(home),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        # Each client of Prefect first reads all authorities that the machine trusts, for plain HTTP too: 20 to 30 ms.
        "SSL_CERT_FILE": str(authority),
        # A time zone nobody lives in by default: code that takes local time for UTC shows itself.
        "TZ": "Pacific/Chatham",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        # Programs that a test starts are not under the audit hook; a proxy that nobody serves stops them.
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost,::1"),
    }


def _first_certificate() -> str:
    end = "-----END CERTIFICATE-----\n"
    first, _, _ = certifi.contents().partition(end)
    return first + end


def _refuse_the_network(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect" and isinstance(address := arguments[1], tuple) and not _is_loopback(str(address[0])):
        message = f"a test may not reach beyond this machine: {address[0]}"
        raise PermissionError(message)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in {"localhost", socket.gethostname()}


@pytest.fixture
def home_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for homes. A sandbox takes none below /dev, where CI may keep its temporary files."""
    if not tmp_path.is_relative_to("/dev"):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)
