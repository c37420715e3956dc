"""One address in front of several servers: `balancer.py HOST:PORT SERVER...`, each also as HOST:PORT."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass


@dataclass
class Balancer:
    """Takes turns; the servers are HOST:PORT."""

    servers: Sequence[str]
    turn: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join this connection with one to a server, until either side ends it."""
        self.turn += 1
        for number in range(len(self.servers)):
            host, port = self.servers[(self.turn + number) % len(self.servers)].split(":")
            with suppress(OSError):
                there = await asyncio.open_connection(host, int(port))
                await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))
                return
        writer.close()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write what is read until there is no more, then close."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def main(front: str, *servers: str) -> None:
    host, port = front.split(":")
    await (await asyncio.start_server(Balancer(servers).serve, host, int(port))).serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
