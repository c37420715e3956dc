"""Approvals that forms ask for and the log does not have yet, read from the Prefect server (R6).

Read over HTTP, without importing Prefect, because read-only verbs use it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from irontree.domain.gates import asks_for_branch, name_in_key
from irontree.domain.timestamps import moment, utc_text
from irontree.errors import ConfigRefused, ServerUnavailable
from irontree.flows.server.connection import LOOPBACK_NAMES, ui_url
from irontree.http_client import HttpError, UnusableAddress, open_client
from irontree.services.questions.questions import Question, question_about_approval, question_about_branch
from irontree.services.views.history import NEEDS_YOU, page_of_run

PATIENCE_SECONDS: Final = 2.0
_CA_FILE: Final = "PREFECT_API_SSL_CERT_FILE"


def asked_approvals(repository_id: str, environment: Mapping[str, str]) -> tuple[Question, ...]:
    """Approvals that suspended `intake` runs of the repository ask for, on the server that *environment* names.

    Raises ServerUnavailable if it does not answer in time, or its answer is not as expected.
    """
    chosen = {
        "flows": {"name": {"any_": ["intake"]}},
        "deployments": {"tags": {"all_": [f"repository:{repository_id}"]}},
        "flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}},
    }
    ui, runs = ui_url(environment), _post(environment, "/flow_runs/filter", chosen)
    return tuple(replace(asked, repository_id=repository_id) for asked in _approvals(runs, ui))


def anything_waits(environment: Mapping[str, str]) -> bool:
    """Whether any run of ours on that server waits for a person. Raises ServerUnavailable as above."""
    waiting = {"tags": {"all_": ["irontree"]}, "state": {"type": {"any_": ["PAUSED"]}}}
    return bool(_post(environment, "/flow_runs/filter", {"flow_runs": waiting, "limit": 1}))


def page_needs_you(environment: Mapping[str, str]) -> str:
    """The page with every open question of that server; empty before any was asked. Raises ServerUnavailable."""
    found = _post(environment, "/artifacts/latest/filter", {"artifacts": {"key": {"any_": [NEEDS_YOU]}}})
    return f"{ui_url(environment)}/artifacts/artifact/{found[0]['latest_id']}" if found else ""


def asks_nobody(environment: Mapping[str, str]) -> bool:
    """Whether the server that *environment* names lets in who shows no credentials; False if it does not answer."""
    bare = {name: value for name, value in environment.items() if name in {"PREFECT_API_URL", _CA_FILE}}
    try:
        _post(bare, "/flow_runs/filter", {"limit": 1})
    except ServerUnavailable:
        return False
    return True


def _post(environment: Mapping[str, str], path: str, body: Mapping[str, Any]) -> list[Any]:
    url = environment["PREFECT_API_URL"].rstrip("/")
    address, ca_file = urlsplit(url), environment.get(_CA_FILE)
    try:
        with open_client(
            credentials(environment),
            seconds=PATIENCE_SECONDS,
            https=address.scheme == "https",
            ca_file=Path(ca_file) if ca_file else None,
            direct=address.hostname in LOOPBACK_NAMES,
        ) as client:
            return _listed(client.post(url + path, json=body).raise_for_status().json())
    except (HttpError, UnusableAddress, ConfigRefused, ValueError, TypeError) as error:
        raise ServerUnavailable(
            f"the Prefect server at {url} does not say which approvals it asks for: {error!r}",
            remedy="see whether it runs: `irontree doctor`",
        ) from error


def _listed(answer: Any) -> list[Any]:
    """The answer's list; anything else may be listening at that address."""
    if not isinstance(answer, list):
        raise TypeError(f"not a list of runs: {answer!r:.100}")
    return answer


def credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """The header by which the server of *environment* knows its user."""
    if key := environment.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {key}"}
    if given := environment.get("PREFECT_API_AUTH_STRING"):
        return {"Authorization": f"Basic {base64.b64encode(given.encode()).decode()}"}
    return {}


def _approvals(runs: list[Any], ui: str) -> Iterator[Question]:
    for run in runs:
        if asked := _asked(run.get("state") or {}, run.get("parameters", {})):
            yield replace(asked, form_url=page_of_run(ui, run["id"]))


def _asked(state: Mapping[str, Any], given: Mapping[str, Any]) -> Question | None:
    """What a run in this state, with these parameters, asks: an approval, or the branch that comes before it."""
    document, key = str(given.get("document") or ""), str((state.get("state_details") or {}).get("pause_key"))
    began = moment(state.get("timestamp"))
    since, name = utc_text(began) if began else None, name_in_key(key)
    if document and asks_for_branch(key):
        return question_about_branch(document, key, since)
    if document and name:
        return question_about_approval(document, key, name, since, str(given.get("branch") or ""))
    return None
