"""`intake`: the approval of a document or of issues as a form, for those who have no terminal (protocol, phase 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed

from irontree.app import App
from irontree.domain.gates import asks_for_branch, is_of_earlier_version, name_in_key
from irontree.domain.halt import APPROVAL, BRANCH, RULE
from irontree.domain.workflow.target import NAME
from irontree.errors import BranchUndecided, NotEligible, in_words
from irontree.flows.gate import (
    ask,
    forget_answer,
    forget_answers_but_to,
    keep_parameters,
    make_form,
    suggested_name,
    unbound,
    with_page,
)
from irontree.flows.runs import runs
from irontree.flows.runs.recovery import fails_if_refused, hold_liveness, start_loop, wake_overtaken
from irontree.services.answers.answers import between_steps
from irontree.services.answers.approve import approve, branch_key, question_key, wanted_for
from irontree.services.proposals.again import UNREADABLE
from irontree.services.proposals.approval import approval_text
from irontree.services.proposals.guard import require_unguarded
from irontree.services.proposals.proposal import Proposal, ways_to_approve
from irontree.services.questions.questions import FORM
from irontree.services.toolchain.assigned import ASSIGNMENT, approver_by_assignment
from irontree.tasks.artifacts import show_approval, tell_asked
from irontree.tasks.stages import WAIT_FOR_DRIVER, open_here

APPROVE: Final = APPROVAL.choices[0].label
DECLINE = "do not approve"
NAMES_ARE_LONGER: Final = (
    "this was asked by an earlier version, under a name that does not cover all that is approved. Look at it again, "
    "and approve it by its name of now."
)
CHANGED_SINCE: Final = "what would be approved has changed since the form showed it. Look at it as it is now."
MOVED_SINCE: Final = "the branch that you are on has changed since the form showed it. Look at it as it is now."
_WORDS = {choice.name: choice.label.removeprefix("approve; ") for choice in RULE["reapproval_required"].choices}


@flow(name="intake", flow_run_name="intake {document}", retries=0, persist_result=False)
@fails_if_refused
async def intake(repository: str, document: str, branch: str = "") -> State[None]:
    """Show what *document* would become, and wait for a person's approval of it.

    What was approved with exactly this content is continued without asking (R6).

    Args:
        repository: The folder of the repository.
        document: A path in the repository, or issues: `#12 #13`, `first 5`, `all open`.
        branch: Of a workflow file: `isolated`, `here`, or the name of a new branch. Unset: a form asks, if it is open.
    """
    app = await asyncio.to_thread(open_here, repository, channel=FORM)
    async with hold_liveness(app):
        if rest := await asyncio.to_thread(_nothing_to_ask, app, document):
            return rest
        found = await _on_chosen_branch(app, document, branch)
        return await _approved(app, document, *found) if found else _declined(document)


def _nothing_to_ask(app: App, document: str) -> State[None] | None:
    """The final state if there is nothing to ask: an earlier run asks the same, or a schedule has nothing to do."""
    context = FlowRunContext.get()
    own = context.flow_run if context else None
    if own is None or own.empirical_policy.pause_keys:
        return None
    with runs.connect() as client:
        mine = runs.suspended_runs(client, app.repository.id)
    if asking := next((run for run in mine if run.parameters.get("document") == document), None):
        return Completed(name="Asked already", message=f"{document} waits for approval at {runs.url_for(asking.id)} .")
    if not own.auto_scheduled:
        return None
    try:
        wanted_for(app, document)
    except NotEligible as error:
        return Completed(name="Nothing to do", message=in_words(error))
    except BranchUndecided:
        return None
    return None


# --- The branch of a workflow file, if neither the file nor the run's parameters say it


async def _on_chosen_branch(app: App, document: str, branch: str) -> tuple[Proposal, str] | None:
    """What would be approved, and the branch that somebody chose for it, if there is a choice; None if declined.

    The choice becomes a parameter of this run: what is asked next, and every list of what is asked, begins from it.
    """
    refusal = ""
    while isinstance(found := await asyncio.to_thread(_look, app, document, branch), BranchUndecided):
        if await forget_answers_but_to(branch_key(document, found)):
            refusal = refusal or MOVED_SINCE
        given, asked = await _ask_for_branch(app, document, found, refusal)
        if given["decision"] == DECLINE:
            return None
        word = next(word for word, what in found.choices if given["decision"] == _label(word, what))
        chosen = given["branch"].strip() if word == NAME else word
        refusal = await asyncio.to_thread(_why_not, app, document, chosen)
        if not refusal:
            await keep_parameters(branch=chosen)
            branch = chosen
        await forget_answer(asked)
    return found, branch


def _look(app: App, document: str, branch: str) -> Proposal | BranchUndecided:
    try:
        return wanted_for(app, document, branch)
    except BranchUndecided as undecided:
        return undecided


def _why_not(app: App, document: str, branch: str) -> str:
    """Why the work cannot go to that branch; empty if it can."""
    if not branch:
        return "another branch was chosen, and its name was left out"
    try:
        wanted_for(app, document, branch)
    except UNREADABLE as error:
        return in_words(error)
    return ""


def _label(word: str, what: str) -> str:
    return f"{word}: {what}"


async def _ask_for_branch(
    app: App, document: str, undecided: BranchUndecided, refusal: str
) -> tuple[dict[str, Any], str]:
    key, labels = branch_key(document, undecided), [_label(*each) for each in undecided.choices]
    form = make_form("Branch", [*labels, DECLINE], ["branch"], question=key, approver=suggested_name(app))
    tell_asked(app, BRANCH.title, key=key)
    text = app.renderer.render(
        "forms/branch.md", document=document, refusal=refusal, where=undecided.message.split("\n")[0]
    )
    given, asked = await ask(form, key=key, description=with_page("", text))
    return given.model_dump(), asked


# --- The approval


async def _approved(app: App, document: str, wanted: Proposal, branch: str) -> State[None]:
    """Ask for approval; what can no longer be done as approved is asked again in its new form, with the reason.

    The approval is stored with the form until it is in the log: a run that is interrupted before finds it again.
    """
    refusal = _asked_by_earlier_version()
    if not wanted.approved and not _has_asked():
        started, refusal = await asyncio.to_thread(start_if_assigned, app, wanted)
        if started:
            return started
    others = map(unbound, await forget_answers_but_to(question_key(wanted)))
    if any(not asks_for_branch(other.get("question", "")) for other in others) and not wanted.approved:
        refusal = refusal or CHANGED_SINCE
    while refusal or not wanted.approved:
        await asyncio.to_thread(require_unguarded, app, wanted)
        ways = _ways(wanted)
        given, asked = await _ask(app, wanted, list(ways), refusal)
        if given["decision"] == DECLINE:
            return _declined(document)
        try:
            if given["revision"]:  # of a program: a page sends none, its form is bound to what it shows
                wanted.require_named(given["revision"])
            return await asyncio.to_thread(_start, app, ways[given["decision"]], given["approver"])
        except UNREADABLE as error:
            refusal = in_words(error)
        await forget_answer(asked)
        with suppress(*UNREADABLE):  # otherwise the form keeps what it showed, with the reason
            wanted = await asyncio.to_thread(wanted_for, app, document, branch)
    return await asyncio.to_thread(_start, app, wanted, wanted.approved_by or app.origin.actor)


def _has_asked() -> bool:
    """Whether this run has asked before: whoever declines is not overruled."""
    context = FlowRunContext.get()
    return bool(context and context.flow_run and context.flow_run.empirical_policy.pause_keys)


def start_if_assigned(app: App, wanted: Proposal) -> tuple[State[None] | None, str]:
    """The final state if the assignment of the issue is its approval, else None, and why it could not be taken."""
    try:
        by = approver_by_assignment(app, wanted)
        assigned = replace(app, origin=app.origin._replace(channel=ASSIGNMENT))
        return (_start(assigned, wanted, by) if by else None), ""
    except UNREADABLE as error:
        return None, in_words(error)


def _declined(document: str) -> State[None]:
    return Completed(name="Declined", message=f"{document} was not approved")


def _asked_by_earlier_version() -> str:
    """Why this run asks again, if it asked under a name of eight digits and has not asked since; else empty."""
    context = FlowRunContext.get()
    own = context.flow_run if context else None
    asked = [key for key in (own.empirical_policy.pause_keys or () if own else ()) if name_in_key(key)]
    return NAMES_ARE_LONGER if asked and all(map(is_of_earlier_version, asked)) else ""


async def _ask(app: App, wanted: Proposal, ways: list[str], refusal: str) -> tuple[dict[str, Any], str]:
    text = await asyncio.to_thread(approval_text, app, wanted, loop_mode=True, answer="")
    form = make_form("Intake", [*ways, DECLINE], question=question_key(wanted), approver=suggested_name(app))
    tell_asked(app, "Your approval is needed", key=question_key(wanted))
    text = with_page(await show_approval(app, wanted.name, text), text)
    given, asked = await ask(
        form, key=question_key(wanted), description=f"**Not taken:** {refusal}\n\n{text}" if refusal else text
    )
    return given.model_dump(), asked


def _ways(wanted: Proposal) -> Mapping[str, Proposal]:
    """What the form can approve, by the wording of each choice."""
    special = ways_to_approve(wanted).items()
    return {APPROVE: wanted} | {
        f"{APPROVE}; {_WORDS[name]}": replace(wanted, choices=choices) for name, choices in special
    }


def _start(app: App, wanted: Proposal, approver: str) -> State[None]:
    with between_steps(app, f"{wanted.what}, publish", wait_seconds=WAIT_FOR_DRIVER):
        loop = approve(app, wanted, wanted.name, approver)
    start_loop(app, loop.id)
    wake_overtaken(app)
    return Completed(name="Approved", message=f"loop {loop.id} drives {len(loop.keys)} tasks")
