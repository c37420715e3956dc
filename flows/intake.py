"""`intake`: a document's approval as a form, for those who do not approve on a terminal (protocol, phases 1 and 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from irontree.app import App
from irontree.errors import ApprovalRefused, Busy, in_words
from irontree.flows.gate.forms import make_form
from irontree.flows.gate.suspension import ask, forget_answer
from irontree.flows.lifecycle.ending import fails_if_refused
from irontree.flows.lifecycle.living import living
from irontree.flows.lifecycle.starting import start_loop
from irontree.flows.lifecycle.taking_up import wake_overtaken
from irontree.services.approve import Choices, Proposal, propose, ways_to_approve
from irontree.services.forms import approval_text
from irontree.services.intake import authorise
from irontree.tasks.stages import WAIT_FOR_DRIVER, open_here

APPROVE = "approve this revision and start the loop"
DECLINE = "do not approve"


@flow(name="intake", flow_run_name="intake {document}", retries=0, persist_result=False)
@fails_if_refused
async def intake(repository: str, document: str) -> State[None]:
    """Show what *document* (relative to the repository) would become, and wait for a person's approval of it.

    A plan that was approved with exactly this content is continued without asking (ruling R6).
    """
    app = await asyncio.to_thread(open_here, repository, channel="form")
    async with living(app):
        proposal = await asyncio.to_thread(propose, app, _document(app, document))
        if proposal.approved:
            return await asyncio.to_thread(_start, app, proposal, proposal.approved.approval.by)
        return await _ask(app, proposal)


async def _ask(app: App, proposal: Proposal) -> State[None]:
    """Have the document approved or declined; what cannot be done as approved is asked again, with the reason.

    The approval is stored with the form until it is in the log: a run that is cut off before finds it again.
    """
    text = await asyncio.to_thread(approval_text, app, proposal, loop_mode=True, answer="answer in this form")
    ways = {APPROVE: Choices()}
    ways |= {f"{APPROVE}; {words}": choices for words, choices in ways_to_approve(proposal).items()}
    form = make_form("Intake", [*ways, DECLINE], ["revision"])
    # A configuration that is edited while the form is open makes it another question.
    key = f"intake-{proposal.revision}-{proposal.policy.digest[:8]}"
    refusal = ""
    while True:
        given, asked = await ask(form, key=key, description=f"**Not taken:** {refusal}\n\n{text}" if refusal else text)
        values = given.model_dump()
        if values["decision"] == DECLINE:
            return Completed(name="Declined", message=f"revision {proposal.revision} was not approved")
        try:
            return await asyncio.to_thread(_approve, app, proposal, values, ways[values["decision"]])
        except (ApprovalRefused, Busy) as error:
            refusal = in_words(error)
        await forget_answer(asked)


def _approve(app: App, proposal: Proposal, values: Mapping[str, Any], choices: Choices) -> State[None]:
    if values["revision"] not in (proposal.revision, proposal.name):
        raise ApprovalRefused(
            f"revision {values['revision']} is not shown here", remedy=f"type what you approve, `{proposal.revision}`"
        )
    return _start(app, replace(proposal, choices=choices), values["approver"])


def _start(app: App, proposal: Proposal, approver: str) -> State[None]:
    with app.driver.hold(f"{proposal.spec_path}, publish", wait_seconds=WAIT_FOR_DRIVER):
        loop = authorise(app, proposal, proposal.revision, approver)
    start_loop(app, loop.id)
    wake_overtaken(app)
    return Completed(name="Approved", message=f"loop {loop.id} drives {len(loop.keys)} tasks")


def _document(app: App, document: str) -> Path:
    path = (app.repository.root / document).resolve()
    if not (path.is_file() and path.is_relative_to(app.repository.root.resolve())):
        raise ApprovalRefused(f"{document} is not a file in {app.repository.root}", remedy="give a path inside it")
    return path
