"""The gate: a flow run is suspended until a person has answered its question, and goes on with it.

See docs/rulings.md, Questions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRunInput
from prefect.context import FlowRunContext
from prefect.flow_runs import asuspend_flow_run
from prefect.input import RunInput
from pydantic import ValidationError

Form = TypeVar("Form", bound=RunInput)

ALL = 200
"""The most rows that Prefect gives at once; a question has at most three."""


async def ask(form: type[Form], *, key: str, description: str) -> tuple[Form, str]:
    """Return the answer stored under *key* and the key it has; without one, suspend this flow run and ask.

    The run ends here (`prefect.exceptions.Pause`) and starts again from its top when it is answered, so everything
    before this call must come out the same again. *key* (letters, digits, dashes) names one asking and comes from the
    log; *description* is Markdown. A run that was rescheduled undecided has used its key up: it asks under the next
    free one (`halt-12`, `halt-12-again-2`, ...), because Prefect lets every key suspend once and then says nothing.
    """
    stored, candidate = await _look_up(form, key)
    if stored:
        return stored, candidate
    logging.getLogger("prefect.flow_runs").addFilter(WAITING_IS_NO_ERROR)
    return await asuspend_flow_run(
        wait_for_input=form.with_initial_data(description=description), key=candidate
    ), candidate


async def given(form: type[Form], *, key: str) -> tuple[Form, str] | None:
    """Return what `ask` would return if this run was answered; None if it was not. Asks nothing."""
    stored, found_key = await _look_up(form, key)
    return (stored, found_key) if stored else None


async def _look_up(form: type[Form], key: str) -> tuple[Form | None, str]:
    """The stored answer and its key; else the first key that is free to ask under."""
    run_id = _run_id()
    async with get_client() as client:
        used = (await client.read_flow_run(run_id)).empirical_policy.pause_keys or set()
        rows = {row.key: row for row in await client.filter_flow_run_input(run_id, f"suspended-{key}", ALL, set())}
        for candidate in _keys(key):
            if stored := _stored(form, rows.get(f"suspended-{candidate}-response")):
                return stored, candidate
            await _forget_question(client, run_id, candidate, rows)
            if candidate not in used:
                return None, candidate
    raise AssertionError("there is always another key")


async def forget_answer(key: str) -> None:
    """Remove the answer stored under *key*, the one that `ask` returned: no replay may take it (again)."""
    async with get_client() as client:
        await client.delete_flow_run_input(_run_id(), f"suspended-{key}-response")


async def forget_answers_but_to(key: str | None) -> tuple[Mapping[str, Any], ...]:
    """Remove what is stored in this run as an answer to another question than *key*; those answers, as given."""
    run_id = _run_id()
    async with get_client() as client:
        rows = await client.filter_flow_run_input(run_id, "suspended-", ALL, set())
        others = [row for row in rows if row.key.endswith("-response") and not _is_about(row, key)]
        for row in others:
            await client.delete_flow_run_input(run_id, row.key)
    return tuple(row.decoded_value for row in others)


def _is_about(row: FlowRunInput, key: str | None) -> bool:
    return key is not None and row.key.startswith(f"suspended-{key}-")


def _run_id() -> UUID:
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        raise RuntimeError("only a flow run can ask")
    return context.flow_run.id


def _keys(key: str) -> Iterator[str]:
    yield key
    yield from (f"{key}-again-{number}" for number in count(2))


def _stored(form: type[Form], row: FlowRunInput | None) -> Form | None:
    """The stored answer; None also for one to a form of an earlier version, which the person did not see."""
    if row is None:
        return None
    try:
        return form.model_validate(row.decoded_value)
    except ValidationError:
        return None


async def _forget_question(client: PrefectClient, run_id: UUID, key: str, rows: Mapping[str, FlowRunInput]) -> None:
    """Remove what an asking without an answer left (cancelled, retried, rescheduled): saving it again would fail."""
    for part in ("schema", "description"):
        if (name := f"suspended-{key}-{part}") in rows:
            await client.delete_flow_run_input(run_id, name)


class _WaitingIsNoError(logging.Filter):
    """Prefect 3.8 ends every suspended async flow with an ERROR line, and sync ones with the same line as INFO."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, that one as INFO."""
        if record.levelno == logging.ERROR and record.getMessage().startswith("Finished in state Suspended("):
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        return True


WAITING_IS_NO_ERROR = _WaitingIsNoError()
