"""A run that was scheduled is looked for at once."""

from __future__ import annotations

import asyncio
import stat

from prefect.runner import Runner

from irontree.flows.serve.serving import _look
from irontree.flows.serve.waking import look_when_woken
from irontree.flows.server.programs import WAKE, wake


def test_whoever_is_woken_looks_at_once_and_again_for_what_comes_while_he_looks(tmp_path):
    pipe, looks = tmp_path / "wake", []

    async def look() -> None:
        looks.append(len(looks))
        if len(looks) == 1:
            wake({WAKE: str(pipe)})
        else:
            raise TimeoutError

    async def serve() -> None:
        waiting = asyncio.create_task(look_when_woken(pipe, look))
        await asyncio.sleep(0)
        assert looks == []
        wake({WAKE: str(pipe)})
        try:
            await asyncio.wait_for(waiting, 60)
        except TimeoutError:
            assert waiting.done()

    asyncio.run(serve())
    assert looks == [0, 1]
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o600


def test_nobody_who_could_be_woken_is_no_error(tmp_path):
    wake({})
    wake({WAKE: str(tmp_path / "gone")})


def test_a_runner_that_has_not_started_is_not_asked_to_look():
    asyncio.run(_look(Runner()))
