"""The forms of suspended runs from outside: what they ask, and how a terminal, a comment or a test answers them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import OrchestrationResult, SetStateStatus
from prefect.exceptions import PrefectHTTPStatusError

from irontree.errors import AnswerRefused

APPROVER_OF: Final = "approver of "
BOUND: Final = re.compile(rf"{APPROVER_OF}(?P<question>\S+)(?: at (?P<revision>\S+))?")
"""The name of the field that binds a form to its question and, where something is approved, to what it shows."""
NOT_ASKED_YET: Final = "Run input schema not found."
"""Prefect sets a run's state some 50 ms before it stores the form."""
FORM_PATIENCE: Final = 5.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class FormQuestion:
    """What a suspended run asks: Markdown, and the JSON schema of the answer."""

    run_id: UUID
    key: str
    description: str
    schema: Mapping[str, Any]

    @property
    def choices(self) -> tuple[str, ...]:
        """The decisions to choose from."""
        decision = self.schema["properties"]["decision"]
        return tuple(decision.get("enum") or [decision["const"]])

    @property
    def revision(self) -> str:
        """What the form shows to be approved; empty if that is nothing."""
        bound = BOUND.fullmatch(_bound(self.schema["properties"]))
        return (bound and bound["revision"]) or ""


def open_question(client: SyncPrefectClient, run_id: UUID) -> FormQuestion | None:
    """The run's open question; `None` if it is not suspended.

    Also `None` until the whole form is stored (the state comes first, then the schema, then the text); if the
    process died before that, `runs.reschedule` makes it ask again.
    """
    if (key := _open_key(client.read_flow_run(run_id))) is None:
        return None
    rows = {row.key: row for row in client.filter_flow_run_input(run_id, f"suspended-{key}-", 200, set())}
    schema, description = (rows.get(f"suspended-{key}-{part}") for part in ("schema", "description"))
    if schema is None or description is None:
        return None
    return FormQuestion(run_id, key, description.decoded_value, schema.decoded_value)


def answer_form(client: SyncPrefectClient, run_id: UUID, payload: Mapping[str, Any], *, key: str) -> None:
    """Answer the question *key* of the run as its browser form does; the first valid answer counts.

    Its field `approver` is named as the open form does. Raises AnswerRefused, with the server's reason, when that
    question is not open (any more) or the answer does not fit its form; the run then waits on.
    """
    deadline = time.monotonic() + FORM_PATIENCE
    while (reason := _resume(client, run_id, payload, key)) == NOT_ASKED_YET and time.monotonic() < deadline:
        time.sleep(0.05)
    if reason:
        raise AnswerRefused(
            f"The answer was not taken: {reason.removeprefix('Reason: ')}",
            remedy="`irontree status` shows what is asked.",
        )


def _resume(client: SyncPrefectClient, run_id: UUID, payload: Mapping[str, Any], key: str) -> str | None:
    """Try once; returns the reason of a refusal."""
    if _open_key(client.read_flow_run(run_id)) != key:
        return "this question is not open any more"
    try:
        result: OrchestrationResult[Any] = client.resume_flow_run(run_id, _filled_in(client, run_id, key, payload))
    except PrefectHTTPStatusError as error:
        if error.response.status_code != HTTPStatus.CONFLICT:
            raise
        return "it was answered already"
    if result.status is SetStateStatus.ACCEPT:
        return None
    return str(getattr(result.details, "reason", None) or result.status.value)


def _filled_in(client: SyncPrefectClient, run_id: UUID, key: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The answer, with the approver under the name that binds the form *key* to its question."""
    stored = client.filter_flow_run_input(run_id, f"suspended-{key}-schema", 1, set())
    fields = stored[0].decoded_value["properties"] if stored else ()
    return {_bound(fields) if name == "approver" else name: value for name, value in payload.items()}


def _bound(fields: Iterable[str]) -> str:
    return next((name for name in fields if name.startswith(APPROVER_OF)), "approver")


def _open_key(run: FlowRun) -> str | None:
    if run.state is None or not run.state.is_paused():
        return None
    return run.state.state_details.pause_key
