"""A program that does to a new database what Prefect's server does at its first start; its settings name the database.

Where the database is a copy of this one, the server need not migrate it, nor register block types for 0.85 s.
"""

from __future__ import annotations

import asyncio

from prefect.plugins import load_prefect_collections
from prefect.server.database import provide_database_interface
from prefect.server.models.block_registration import run_block_auto_registration


async def _fill() -> None:
    database = provide_database_interface()
    await database.create_db()
    load_prefect_collections()  # they may bring block types of their own
    async with await database.session() as session:
        await run_block_auto_registration(session=session)


if __name__ == "__main__":
    asyncio.run(_fill())
