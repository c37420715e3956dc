"""From a question of the log to a form in Prefect, and from the form to a recorded answer (rulings, Questions)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from prefect import get_run_logger
from prefect.input import RunInput

from irontree.app import App
from irontree.domain.halt import Choice, Need
from irontree.errors import in_words
from irontree.flows.gate.forms import AskedFor, make_form
from irontree.flows.gate.suspension import ask, forget_answer, forget_answers_but_to, given
from irontree.flows.lifecycle.pages import pages_of_issues
from irontree.services.answers import NOT_TAKEN, Answer
from irontree.services.projections.forms import offered, question_text
from irontree.services.questions import Question
from irontree.services.world import read_world
from irontree.tasks.artifacts import show_tree, tell_story
from irontree.tasks.mirror import tell_asked

Record = Callable[[Answer], Awaitable[None]]


async def ask_until_taken(app: App, question: Question, record: Record) -> None:
    """Have a person's answer recorded; without one the run is suspended here, and starts again when it is answered.

    With one that *record* does not take (NOT_TAKEN) the question is asked again with the reason. Taken or not, an
    answer is forgotten: a later replay, in another state of the log, must not take it, nor call a taken one late.
    """
    refusal = ""
    while True:
        answer, key = await _answer(app, question, refusal)
        try:
            await record(answer)
        except NOT_TAKEN as error:
            refusal = in_words(error)
            get_run_logger().info("The answer of %s was not taken: %s", answer.by, refusal)
        else:
            refusal = ""
        await forget_answer(key)
        if not refusal:
            return


async def refuse_late_answers(question: Question | None) -> str:
    """Say of answers that are stored for another question than the open one that they were not taken; in the log too.

    Somebody submitted the form of this run, and somebody else answered elsewhere before the run had started again.
    """
    said = [
        f"The answer of {late.get('approver')} (“{late.get('decision')}”) was not taken: its question is open no more"
        for late in await forget_answers_but_to(question.key if question else None)
    ]
    for line in said:
        get_run_logger().warning(line)
    return ". ".join(said)


@dataclass(frozen=True, slots=True)
class Late:
    """An answer to a question that is asked no more: whether it was recorded, and if not, why, for a person."""

    taken: bool
    said: str = ""


async def take_late_answer(question: Question, record: Record) -> Late | None:
    """Have the answer recorded that was given before the question's loop ended; None if none was given.

    One that says nothing of the issue (skip, stop) is refused: that loop is over.
    """
    found = await given(form_for(question, question.rule.choices), key=question.key)
    if found is None:
        return None
    answer, key = answer_from(found[0]), found[1]
    try:
        await record(answer)
    except NOT_TAKEN as error:
        late = Late(False, f"The answer of {answer.by} was not taken: {in_words(error)}")
    else:
        late = Late(True)
    await forget_answer(key)
    return late


async def _answer(app: App, question: Question, refusal: str) -> tuple[Answer, str]:
    """The person's answer and the key of the form it was given in."""
    form = form_for(question, await asyncio.to_thread(lambda: offered(app, read_world(app), question)))
    if stored := await given(form, key=question.key):
        return answer_from(stored[0]), stored[1]
    text = await _text(app, question)
    tell_asked(app, question.rule.title, key=question.key, number=question.issue_number, loop_id=question.loop_id)
    if refusal:
        text = f"**The last answer was not taken:** {refusal}\n\n{text}"
    filled, key = await ask(form, key=question.key, description=text)
    return answer_from(filled), key


async def _text(app: App, question: Question) -> str:
    """What the form shows: it has little room, so it begins with where the same has more."""
    text = await asyncio.to_thread(question_text, app, question)
    if question.issue_number is not None:
        return with_page(await tell_story(app, question.issue_number, question=text), text)
    pages = await asyncio.to_thread(pages_of_issues, app, question.loop_id or "")
    return with_page(await show_tree(app, question.loop_id or "", pages), text, "The tree of tasks")


def with_page(page: str, text: str, words: str = "All of it on a page of its own") -> str:
    """The text of a form under the link to its page, if it has one; its title small: five lines can be seen."""
    small = re.sub(r"\A# ", "#### ", text)
    return f"[{words}]({page})\n\n{small}" if page else small


def form_for(question: Question, legal: tuple[Choice, ...]) -> type[RunInput]:
    """The form of this question: only legal choices, by their labels, and only the fields that they need."""
    needs = dict.fromkeys(need for choice in legal for need in choice.needs if need != "note")
    name = "".join(word.title() for word in question.rule.reason.split("_"))
    asked = [_asked(question, need) for need in needs]
    return make_form(name, [choice.label for choice in legal], asked, question=question.key)


def _asked(question: Question, need: Need) -> AskedFor:
    """What the form asks for: of an amount its unit, of a count what is counted."""
    if question.budget:
        return question.budget.unit
    if need == "revision":
        return need
    return "attempts" if question.issue_number is not None else "transitions"


def answer_from(filled: RunInput) -> Answer:
    """The answer that a filled form amounts to."""
    values = filled.model_dump()
    return Answer(
        choice=values["decision"],
        by=values["approver"],
        note=values.get("note", ""),
        count=values.get("count"),
        revision=values.get("revision") or None,
        amount=values.get("amount") or None,
        question=values["question"],
    )
