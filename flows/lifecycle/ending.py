"""How a flow run ends when something refuses to go on: calmly, with what to do in its message (rulings, Errors)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from irontree.errors import Cancelled, IrontreeError, in_words

Parameters = ParamSpec("Parameters")
Body = Callable[Parameters, Awaitable[State[None]]]


def waits_if_refused(body: Body[Parameters]) -> Body[Parameters]:
    """End the run as `Waiting` when an issue or a loop cannot go on now; it is taken up again by what the log says."""
    return _ends_if_refused(body, lambda message: Completed(name="Waiting", message=message))


def fails_if_refused(body: Body[Parameters]) -> Body[Parameters]:
    """End the run as `Failed`, without a traceback, when what it was asked to do cannot be done."""
    return _ends_if_refused(body, lambda message: Failed(message=message))


def _ends_if_refused(body: Body[Parameters], end: Callable[[str], State[None]]) -> Body[Parameters]:
    @wraps(body)
    async def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> State[None]:
        try:
            return await body(*args, **kwargs)
        except Cancelled:
            raise
        except IrontreeError as error:
            return end(in_words(error))

    return run
