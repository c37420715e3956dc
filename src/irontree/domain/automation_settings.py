"""`automations:` of `.mino/config.yml`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from irontree.domain.settings import BlockName, Section

Count = Annotated[int, Field(strict=True, ge=0)]


class Automations(Section):
    """What a Prefect server does by itself; it changes nothing that is executed, and needs no approval."""

    notify: tuple[BlockName, ...] = Field(
        default=(), description="Notification blocks, as `type/name`, that say when a person is asked."
    )
    start_label: str | None = Field(
        default=None, description="An open issue that gets this label is put up for approval."
    )
    reconcile: Annotated[bool, Field(strict=True)] = Field(
        default=True, description="Compare with the forge when `irontree.forge_changed` is emitted."
    )
    remind_hours: Count = Field(default=24, description="How often an open question is notified again; 0: never.")
    nightly: str | None = Field(
        default=None, description="What to go on with every night: a document, `#12 #13`, `first 5` or `all open`."
    )
    keep_transcripts_days: Count = Field(
        default=0, description="How long what agents said is kept once an issue is done; 0: for ever. Evidence stays."
    )
