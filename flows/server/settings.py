"""The Prefect settings of our processes, complete: nothing on the machine chooses for us (rulings, Local mode)."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import platformdirs

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
OURS = ("PREFECT_", "IRONTREE__")
"""Prefixes of variables that are between us and Prefect, and no business of agents and checks."""

ADDRESS = "server.json"
"""The file in the state folder that says where the private server answers."""

PASSWORD = "PREFECT_SERVER_API_AUTH_STRING"
"""`user:password` of a private server that others can reach: the one setting of Prefect's that we take for it."""

CLIENT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_COLORS": "false",
    "PREFECT_LOGGING_LEVEL": "INFO",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # A step that is in the log is not called again; stored results would be a second truth beside it.
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    # Without it Prefect starts a hidden server of its own when ours cannot be reached.
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    # A worker's default of 10 s would be most of the time from an answer to the first thing that is done about it.
    "PREFECT_WORKER_QUERY_SECONDS": "1",
}
SERVER = {
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",  # the private server has no such protection: saves a request
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",  # one version by construction: saves another
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    # One coming run of each schedule, not a dozen: they crowd the pages of those that work or ask.
    "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_RUNS": "1",
    "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_SCHEDULED_TIME": "PT5M",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # Runs that ended 90 days ago go; by default only events do, and a server that always runs would grow for ever.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    # Batches: a task run costs the server 5 ms instead of 24 ms.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "100",
}


def state_folder() -> Path:
    """Where the private server of this user and this Prefect version lives; everything in it is disposable."""
    return platformdirs.user_state_path("irontree") / f"prefect-{version('prefect')}"


def left_addresses() -> Iterator[Path]:
    """Where servers of any version said that they answer; one that was killed leaves its file too. Makes nothing."""
    return platformdirs.user_state_path("irontree").glob(f"prefect-*/{ADDRESS}")


def chosen_api_url(environ: Mapping[str, str], config_value: str | None) -> str | None:
    """The address of the configured server: the real environment, else `prefect.api_url` of our config, else none."""
    return environ.get("PREFECT_API_URL") or config_value or None


def strip(environ: Mapping[str, str]) -> dict[str, str]:
    """*environ* without anything that is between us and Prefect: what agents and checks may start from."""
    return {name: value for name, value in environ.items() if not name.startswith(OURS)}


def local_environment(environ: Mapping[str, str], home: Path, api_url: str) -> dict[str, str]:
    """The whole environment of a process that belongs to the private server in *home*.

    No PREFECT_* of *environ* survives but for its PASSWORD; the rest does. Start such a process with *home* as its
    working folder: Prefect also reads `.env`, `prefect.toml` and `pyproject.toml` there.
    """
    address = api_url.removesuffix("/api")
    return (
        strip(environ)
        | CLIENT
        | SERVER
        | _places(environ, home, api_url)
        | password(environ)
        | {
            # By default any page in the user's browser may call the API, and answer our questions.
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"{address},{address.replace('127.0.0.1', 'localhost')}",
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home / 'prefect.db'}",
            # The default is a folder inside the installed package, which may be read-only.
            "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(home / "ui"),
        }
    )


def password(environ: Mapping[str, str]) -> dict[str, str]:
    """What a private server and its clients need where *environ* has a password for it."""
    given = environ.get(PASSWORD)
    return {PASSWORD: given, "PREFECT_API_AUTH_STRING": given} if given else {}


def configured_environment(environ: Mapping[str, str], home: Path, api_url: str) -> dict[str, str]:
    """The whole environment of a process that uses a configured server: *environ* counts, profiles do not."""
    return CLIENT | dict(environ) | _places(environ, home, api_url)


def _places(environ: Mapping[str, str], home: Path, api_url: str) -> dict[str, str]:
    direct = ",".join(dict.fromkeys([*_unproxied(environ), *LOOPBACK_NAMES]))
    return {
        "PREFECT_API_URL": api_url,
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILES_PATH": str(home / "profiles.toml"),
        "NO_PROXY": direct,
        "no_proxy": direct,
    }


def _unproxied(environ: Mapping[str, str]) -> list[str]:
    names = f"{environ.get('NO_PROXY', '')},{environ.get('no_proxy', '')}".split(",")
    return [name.strip() for name in names if name.strip()]


def adopt(environment: Mapping[str, str], home: Path) -> None:
    """Make *environment*'s settings this process's own and load Prefect with them, whatever the working folder holds.

    For processes that cannot be started with them (the command line); call it before anything imports Prefect.
    """
    if "prefect" in sys.modules:
        _refuse_others(environment)
        return
    home.mkdir(parents=True, exist_ok=True)
    for name in [name for name in os.environ if name.startswith(OURS)]:
        del os.environ[name]
    os.environ.update(environment)
    with contextlib.chdir(home):
        importlib.import_module("prefect.context")


def _refuse_others(environment: Mapping[str, str]) -> None:
    """Prefect would go on with the settings that it found, and start a hidden server of its own."""
    if any(os.environ.get(name) != value for name, value in environment.items() if name.startswith(OURS)):
        raise RuntimeError("Prefect was imported before its settings were adopted")
