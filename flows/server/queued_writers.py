"""The private server's SQLite, with its writers in a queue. Imports Prefect: only the server's own process uses it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from prefect.server.database.configurations import AioSqliteConfiguration
from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction


class QueuedWriters(AioSqliteConfiguration):
    """Takes the write lock when a transaction begins, so that writers wait for each other.

    Prefect 3.8 begins most transactions without it. Two that read first and then write cannot both go on: SQLite
    fails the second at once, the server answers 503, and its clients try again only seconds later; a person who
    presses Resume in the browser sees an error (github.com/PrefectHQ/prefect/issues/10188).
    """

    @asynccontextmanager
    async def begin_transaction(
        self,
        session: AsyncSession,
        with_for_update: bool = False,  # noqa: ARG002, FBT001, FBT002  (Prefect's signature)
    ) -> AsyncGenerator[AsyncSessionTransaction, None]:
        """Begin with the write lock, whatever the transaction is for."""
        async with super().begin_transaction(session, with_for_update=True) as transaction:
            yield transaction
