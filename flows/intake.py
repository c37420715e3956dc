"""`intake`: the approval of a document or of issues as a form, for those who have no terminal (protocol, phase 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from irontree.app import App
from irontree.domain.halt import RULE
from irontree.domain.intent import Issues, OpenIssues, resolve_intent
from irontree.errors import ApprovalRefused, Busy, in_words
from irontree.flows.gate.forms import make_form
from irontree.flows.gate.suspension import ask, forget_answer
from irontree.flows.lifecycle.ending import fails_if_refused
from irontree.flows.lifecycle.living import living
from irontree.flows.lifecycle.starting import start_loop
from irontree.flows.lifecycle.taking_up import wake_overtaken
from irontree.services.planning.approval import approval_text
from irontree.services.planning.approve import Choices, Proposal, propose, ways_to_approve, with_choices
from irontree.services.planning.authorise import authorise_issues
from irontree.services.planning.intake import authorise
from irontree.services.planning.resolve import ResolvedPlan, resolve
from irontree.tasks.stages import WAIT_FOR_DRIVER, open_here

APPROVE = "approve this revision and start the loop"
DECLINE = "do not approve"
_WORDS = {choice.name: choice.label.removeprefix("approve; ") for choice in RULE["reapproval_required"].choices}


Wanted = Proposal | ResolvedPlan


@flow(name="intake", flow_run_name="intake {document}", retries=0, persist_result=False)
@fails_if_refused
async def intake(repository: str, document: str) -> State[None]:
    """Show what *document* would become, and wait for a person's approval of it.

    It is a path relative to the repository, or names issues: `#12 #13`, `first 5`, `all open`. What was approved with
    exactly this content is continued without asking (ruling R6).
    """
    app = await asyncio.to_thread(open_here, repository, channel="form")
    async with living(app):
        wanted = await asyncio.to_thread(_wanted, app, document)
        if wanted.approved:
            return await asyncio.to_thread(_start, app, wanted, _approver(app, wanted))
        return await _ask(app, wanted)


async def _ask(app: App, wanted: Wanted) -> State[None]:
    """Have it approved or declined; what cannot be done as approved is asked again, with the reason.

    The approval is stored with the form until it is in the log: a run that is cut off before finds it again.
    """
    text = await asyncio.to_thread(approval_text, app, wanted, loop_mode=True, answer="answer in this form")
    ways = _ways(wanted)
    form = make_form("Intake", [*ways, DECLINE], ["revision"])
    # What is edited while the form is open makes it another question.
    key = f"intake-{wanted.name}"
    refusal = ""
    while True:
        given, asked = await ask(form, key=key, description=f"**Not taken:** {refusal}\n\n{text}" if refusal else text)
        values = given.model_dump()
        if values["decision"] == DECLINE:
            return Completed(name="Declined", message=f"revision {wanted.name} was not approved")
        try:
            return await asyncio.to_thread(_approve, app, wanted, values, ways[values["decision"]])
        except (ApprovalRefused, Busy) as error:
            refusal = in_words(error)
        await forget_answer(asked)


def _ways(wanted: Wanted) -> dict[str, Choices]:
    """The ways to approve it, by their words in the form; issues have one."""
    special = ways_to_approve(wanted) if isinstance(wanted, Proposal) else {}
    return {APPROVE: Choices()} | {f"{APPROVE}; {_WORDS[name]}": choices for name, choices in special.items()}


def _approve(app: App, wanted: Wanted, values: Mapping[str, Any], choices: Choices) -> State[None]:
    named = (wanted.revision, wanted.name) if isinstance(wanted, Proposal) else (wanted.name,)
    if values["revision"] not in named:
        raise ApprovalRefused(
            f"revision {values['revision']} is not shown here", remedy=f"type what you approve, `{named[0]}`"
        )
    chosen = with_choices(wanted, choices) if isinstance(wanted, Proposal) else wanted
    return _start(app, chosen, values["approver"])


def _start(app: App, wanted: Wanted, approver: str) -> State[None]:
    what = wanted.spec_path if isinstance(wanted, Proposal) else wanted.query
    with app.driver.hold(f"{what}, publish", wait_seconds=WAIT_FOR_DRIVER):
        if isinstance(wanted, Proposal):
            loop = authorise(app, wanted, wanted.revision, approver)
        else:
            loop = authorise_issues(app, wanted, approver)
    start_loop(app, loop.id)
    wake_overtaken(app)
    return Completed(name="Approved", message=f"loop {loop.id} drives {len(loop.keys)} tasks")


def _approver(app: App, wanted: Wanted) -> str:
    return wanted.approved.approved_by if isinstance(wanted, Proposal) and wanted.approved else app.origin.actor


def _wanted(app: App, document: str) -> Wanted:
    match resolve_intent(document, lambda path: _path(app, path).is_file()):
        case Issues() | OpenIssues() as intent:
            return resolve(app, intent, document)
        case _:
            return propose(app, _document(app, document))


def _document(app: App, document: str) -> Path:
    path = _path(app, document)
    if not (path.is_file() and path.is_relative_to(app.repository.root.resolve())):
        raise ApprovalRefused(f"{document} is not a file in {app.repository.root}", remedy="give a path inside it")
    return path


def _path(app: App, document: str) -> Path:
    return (app.repository.root / document).resolve()
