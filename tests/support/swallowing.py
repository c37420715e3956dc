"""A proxy that swallows what goes to some paths of a server, as proxies do that know no websockets."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.support.balancer import pass_on


class Swallowing:
    """Passes on what goes to *host* and *port*, but answers nothing below *path*.

    With *after_upgrade* it lets a websocket be opened, and swallows what comes after that.
    """

    def __init__(self, host: str, port: int, path: str, after_upgrade: bool) -> None:
        self._there = (host, port)
        self._path = path.encode()
        self._after_upgrade = after_upgrade
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """End all connections."""
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # what was closed is let go of

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._answer(reader, writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        swallows = head.split()[1].startswith(self._path)
        if swallows and not self._after_upgrade:
            await asyncio.Event().wait()
        back, there = await asyncio.open_connection(*self._there)
        try:
            there.write(head)
            if swallows:
                writer.write(await back.readuntil(b"\r\n\r\n"))
                await asyncio.Event().wait()
            await asyncio.gather(pass_on(reader, there), pass_on(back, writer))
        finally:
            there.close()
