"""From a question of the log to a form in Prefect, and from the form to an answer (design, section 6)."""

from __future__ import annotations

import asyncio

from prefect.input import RunInput

from irontree.app import App
from irontree.domain.halt import Choice, choices
from irontree.flows.forms import NEEDS, make_form
from irontree.flows.gate import ask
from irontree.services.answers import Answer
from irontree.services.forms import question_text
from irontree.services.steps import Question


async def ask_person(app: App, question: Question, asking: int = 1, refusal: str = "") -> Answer:
    """The person's answer; without one the run is suspended here and starts again when it is answered.

    *asking* counts from 1: each refused answer, with its *refusal*, leads to the next.
    """
    legal = choices(question.rule, in_loop=question.loop_id is not None)
    text = await asyncio.to_thread(question_text, app, question)
    if refusal:
        text = f"**The last answer was not taken:** {refusal}\n\n{text}"
    key = question.key if asking == 1 else f"{question.key}-asked-{asking}"
    given, _ = await ask(form_for(question, legal), key=key, description=text)
    return answer_from(given, question)


def form_for(question: Question, legal: tuple[Choice, ...]) -> type[RunInput]:
    """The form of this question: only legal choices, by their labels, and only the fields that they need."""
    needs = [need for need in NEEDS if any(need in choice.needs for choice in legal)]
    name = "".join(word.title() for word in question.rule.reason.split("_"))
    return make_form(name, [choice.label for choice in legal], needs)


def answer_from(given: RunInput, question: Question) -> Answer:
    """The answer that a filled form amounts to."""
    values = given.model_dump()
    return Answer(
        choice=values["decision"],
        by=values["approver"],
        note=values.get("note", ""),
        count=values.get("count"),
        revision=values.get("revision") or None,
        question=question.key,
    )
