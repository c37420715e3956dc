"""The gate: a question of the log becomes the form of a suspended run, and the form a recorded answer.

See docs/rulings.md, Questions.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, Final, Literal, TypeVar
from uuid import UUID

from prefect import get_run_logger
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRunInput
from prefect.context import FlowRunContext
from prefect.flow_runs import asuspend_flow_run
from prefect.input import RunInput
from pydantic import Field, GetJsonSchemaHandler, ValidationError, create_model, model_validator
from pydantic_core import CoreSchema

from irontree.app import App
from irontree.domain.budgets import EXAMPLES, UNITS, Unit
from irontree.domain.halt import VALUES, Choice
from irontree.errors import in_words
from irontree.flows.runs.forms import APPROVER_OF, BOUND
from irontree.flows.runs.recovery import pages_of_issues
from irontree.flows.server.listening import serves_one_user
from irontree.services.answers.answers import NOT_TAKEN, Answer
from irontree.services.questions.listing import offered, revision_now
from irontree.services.questions.pages import parts_of, question_text
from irontree.services.questions.questions import Question
from irontree.services.record import read_world
from irontree.tasks.artifacts import show_tree, tell_asked, tell_story

AskedFor = Literal["attempts", "transitions", "branch"] | Unit
"""What a form asks for in addition to a decision, a name and a note."""

_FIELDS: Final[dict[AskedFor, tuple[str, Any, Any]]] = {
    "attempts": ("count", int, Field(1, ge=1, le=50, title="How many attempts, if you allow more")),
    "transitions": ("count", int, Field(10, ge=1, le=50, title="How many transitions, if you allow more")),
    "branch": ("branch", str, Field("", title="The name of the branch, if it is another one")),
    **{
        unit: (
            "amount",
            str,
            Field(
                "",
                pattern=r"^(\s*[0-9$][0-9.]* ?[A-Za-z0-9 ]*)?$",
                title="How much, if you allow more",
                description=f"With its unit: `{EXAMPLES[unit]}`.",
            ),
        )
        for unit in UNITS
    },
}
OUT_OF_DATE: Final = "This form is out of date: load the page again, and answer what it asks now"


def unbound(given: Mapping[str, Any]) -> dict[str, Any]:
    """The answer with question and revision in fields of their own, from the name of the approver's field."""
    values = dict(given)
    for name, approver in given.items():
        if found := BOUND.fullmatch(name):
            del values[name]
            return {"question": found["question"], "revision": found["revision"] or "", "approver": approver} | values
    return values


class AnswerForm(RunInput):
    """A form, bound to its question without a field for it: the key of the question is part of a field's name.

    Prefect's page sends every field by its name and shows the title alone. So a form that was left open in a browser
    is refused once the next question is open, rather than taken for an answer to that (R14), and an approval names
    what its form showed, without anybody typing it (R6).
    """

    bound_to: ClassVar[str] = ""
    """The name of the approver's field: `approver of KEY`, and ` at REVISION` where something is approved."""
    suggested: ClassVar[str] = ""
    """The approver's name that the form begins with."""

    approver: str = Field(pattern=r"\S", title="Your name, for the record")
    question: str = ""
    revision: str = Field("", pattern=f"^({VALUES['revision'].pattern})?$")
    """What is approved: what the form showed, or what a terminal names in its place."""

    @model_validator(mode="before")
    @classmethod
    def _unbind(cls, given: dict[str, Any]) -> dict[str, Any]:
        return unbound(given)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """What Prefect shows and validates by: the approver's field by its bound name, the other two unseen."""
        schema = handler.resolve_ref_schema(handler(core))
        fields = schema["properties"]
        approver = fields.pop("approver") | ({"default": cls.suggested} if cls.suggested else {})
        revision, note = fields.pop("revision"), fields.pop("note")
        del fields["question"]
        name = cls.bound_to or "approver"
        schema["properties"] = {**fields, name: approver, "note": note}
        schema["required"] = ["decision", name]
        schema["patternProperties"] = {"^revision$": revision}  # a page shows no such field
        if cls.bound_to:
            others = f"^(?!{APPROVER_OF})|^{re.escape(name)}$"
            # Of all that JSON schema can say, the expected value alone is a sentence for people.
            schema |= {"if": {"propertyNames": {"pattern": others}}, "else": {"const": OUT_OF_DATE}}
        return schema


def make_form(
    name: str,
    choices: Sequence[str],
    asked: Collection[AskedFor] = (),
    *,
    question: str | None = None,
    revision: str = "",
    approver: str = "",
) -> type[AnswerForm]:
    """Make the form: a decision among *choices*, the values it needs, the approver's name, and a note.

    It is bound to *question*, a question's key, and to the *revision* that it shows; *approver* is the suggested name.
    Prefect validates answers by JSON schema only and accepts an empty answer if every field has a default, so the
    decision is a required choice (never a yes/no, which a browser sends as "no" if left untouched). Field texts take
    room from the question above them, so there are labels and hardly any descriptions.
    """
    fields: dict[str, Any] = {"decision": (Literal[tuple(choices)], Field(title="Decision"))}
    fields |= {field: (kind, info) for field, kind, info in (_FIELDS[one] for one in asked)}
    fields["note"] = (str, Field("", title="Note, for the next attempt or the record"))
    form: type[AnswerForm] = create_model(name, __base__=AnswerForm, **fields)
    form.bound_to = f"{APPROVER_OF}{question}{f' at {revision}' if revision else ''}" if question else ""
    form.suggested = approver
    return form


# --- Suspending a flow run until its question is answered


FormModel = TypeVar("FormModel", bound=AnswerForm)

ALL = 200
"""The most rows that Prefect gives at once; a question has at most three."""


async def ask(form: type[FormModel], *, key: str, description: str) -> tuple[FormModel, str]:
    """Return the answer stored under *key* and the key it has; without one, suspend this flow run and ask.

    The run ends here (`prefect.exceptions.Pause`) and starts again from its top when it is answered, so everything
    before this call must come out the same again. *key* (letters, digits, dashes) names one asking and comes from the
    log; *description* is Markdown. A run that was rescheduled undecided has used its key up: it asks under the next
    free one (`halt-12`, `halt-12-again-2`, ...), because Prefect lets every key suspend once and then says nothing.
    """
    stored, candidate = await _look_up(form, key)
    if stored:
        return stored, candidate
    logging.getLogger("prefect.flow_runs").addFilter(WAITING_IS_NO_ERROR)
    return await asuspend_flow_run(
        wait_for_input=form.with_initial_data(description=description), key=candidate
    ), candidate


async def given(form: type[FormModel], *, key: str) -> tuple[FormModel, str] | None:
    """Return what `ask` would return if this run has its answer, else `None`. Asks nothing."""
    stored, found_key = await _look_up(form, key)
    return (stored, found_key) if stored else None


async def _look_up(form: type[FormModel], key: str) -> tuple[FormModel | None, str]:
    """The stored answer and its key; without one, `None` and the first free key to ask under."""
    run_id = _run_id()
    async with get_client() as client:
        used = (await client.read_flow_run(run_id)).empirical_policy.pause_keys or set()
        rows = {row.key: row for row in await client.filter_flow_run_input(run_id, f"suspended-{key}", ALL, set())}
        for candidate in _keys(key):
            if stored := _stored(form, rows.get(f"suspended-{candidate}-response")):
                return stored, candidate
            await _forget_question(client, run_id, candidate, rows)
            if candidate not in used:
                return None, candidate
    raise AssertionError("there is always another key")


async def forget_answer(key: str) -> None:
    """Remove the answer stored under *key*, the one that `ask` returned: no replay may take it (again)."""
    async with get_client() as client:
        await client.delete_flow_run_input(_run_id(), f"suspended-{key}-response")


async def keep_parameters(**given: str) -> None:
    """Add to the parameters of this run, with which it starts again."""
    async with get_client() as client:
        before = (await client.read_flow_run(_run_id())).parameters
        await client.update_flow_run(_run_id(), parameters={**before, **given})


async def forget_answers_but_to(key: str | None) -> tuple[Mapping[str, Any], ...]:
    """Remove the answers stored in this run for questions other than *key*; returns them as given."""
    run_id = _run_id()
    async with get_client() as client:
        rows = await client.filter_flow_run_input(run_id, "suspended-", ALL, set())
        others = [row for row in rows if row.key.endswith("-response") and not _is_about(row, key)]
        for row in others:
            await client.delete_flow_run_input(run_id, row.key)
    return tuple(row.decoded_value for row in others)


def _is_about(row: FlowRunInput, key: str | None) -> bool:
    return key is not None and row.key.startswith(f"suspended-{key}-")


def _run_id() -> UUID:
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        raise RuntimeError("only a flow run can ask")
    return context.flow_run.id


def _keys(key: str) -> Iterator[str]:
    yield key
    yield from (f"{key}-again-{number}" for number in count(2))


def _stored(form: type[FormModel], row: FlowRunInput | None) -> FormModel | None:
    """The stored answer; also `None` if it belongs to another version's form, which the user did not see."""
    if row is None:
        return None
    try:
        return form.model_validate(row.decoded_value)
    except ValidationError:
        return None


async def _forget_question(client: PrefectClient, run_id: UUID, key: str, rows: Mapping[str, FlowRunInput]) -> None:
    """Remove what an unanswered question left (cancelled, retried, rescheduled): saving it again would fail."""
    for part in ("schema", "description"):
        if (name := f"suspended-{key}-{part}") in rows:
            await client.delete_flow_run_input(run_id, name)


class _WaitingIsNoError(logging.Filter):
    """Lowers to INFO the ERROR line that Prefect 3.8 logs when an async flow is suspended; sync flows log INFO."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass every record, that one as INFO."""
        if record.levelno == logging.ERROR and record.getMessage().startswith("Finished in state Suspended("):
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        return True


WAITING_IS_NO_ERROR = _WaitingIsNoError()


# --- From a question in the log to a form, and from the form to a recorded answer


RecordAnswer = Callable[[Answer], Awaitable[None]]


async def ask_until_taken(app: App, question: Question, record: RecordAnswer) -> None:
    """Record the user's answer; without one, suspend the run, which restarts when it is answered.

    If *record* does not take the answer (NOT_TAKEN), the question is asked again with the reason. In both cases the
    answer is removed: a later replay, with a changed log, must neither take it nor report it as late.
    """
    refusal = ""
    while True:
        answer, key = await _answer(app, question, refusal)
        refusal = await _recorded(answer, key, record)
        if not refusal:
            return
        get_run_logger().info("The answer of %s was not taken: %s", answer.by, refusal)


async def _recorded(answer: Answer, key: str, record: RecordAnswer) -> str:
    """Record the answer stored under *key*, and remove it from there; returns why it was not taken, if so."""
    try:
        await record(answer)
    except NOT_TAKEN as error:
        refusal = in_words(error)
    else:
        refusal = ""
    await forget_answer(key)
    return refusal


async def refuse_late_answers(question: Question | None) -> str:
    """Report, in the log too, that answers stored for questions other than the open one were not taken.

    This happens if the run's form is submitted and another user answers elsewhere before the run has restarted.
    """
    said = [
        f"The answer of {late.get('approver')} (“{late.get('decision')}”) was not taken: its question is open no more"
        for late in map(unbound, await forget_answers_but_to(question.key if question else None))
    ]
    for line in said:
        get_run_logger().warning(line)
    return ". ".join(said)


@dataclass(frozen=True, slots=True)
class Late:
    """An answer to a question that is no longer asked: whether it was recorded, and if not, why, in words."""

    taken: bool
    said: str = ""


async def take_late_answer(question: Question, record: RecordAnswer) -> Late | None:
    """Record the answer given before the question's loop ended; `None` if none was given.

    An answer about the loop and not the issue (skip, stop) is refused: that loop is over.
    """
    found = await given(form_for(question, question.rule.choices), key=question.key)
    if found is None:
        return None
    answer = answer_from(found[0])
    refusal = await _recorded(answer, found[1], record)
    return Late(not refusal, f"The answer of {answer.by} was not taken: {refusal}" if refusal else "")


async def _answer(app: App, question: Question, refusal: str) -> tuple[Answer, str]:
    """The user's answer and the key of the form in which it was given."""
    form = await asyncio.to_thread(_form_now, app, question)
    if stored := await given(form, key=question.key):
        return answer_from(stored[0]), stored[1]
    text = await _text(app, question)
    tell_asked(app, question.rule.title, key=question.key, number=question.issue_number, loop_id=question.loop_id)
    if refusal:
        text = f"**The last answer was not taken:** {refusal}\n\n{text}"
    filled, key = await ask(form, key=question.key, description=text)
    return answer_from(filled), key


def _form_now(app: App, question: Question) -> type[AnswerForm]:
    """The form as it is asked now, bound to what an approval would approve; made before the text that shows it.

    If that changes in between, the approval is refused, and the form shown again.
    """
    revision = revision_now(app, question) or ""
    return form_for(question, offered(app, read_world(app), question), revision=revision, approver=suggested_name(app))


def suggested_name(app: App) -> str:
    """Git's name for the user, where nobody else can reach the server; elsewhere nobody knows who will answer."""
    return (app.repository.user_name() or "") if serves_one_user(os.environ) else ""


async def _text(app: App, question: Question) -> str:
    """The form's text; as it has little room, it begins with a link to a page with more."""
    text = await asyncio.to_thread(question_text, app, question)
    lead = parts_of(text).lead
    if question.issue_number is not None:
        return with_page(await tell_story(app, question.issue_number, question=text), lead)
    pages = await asyncio.to_thread(pages_of_issues, app, question.loop_id or "")
    return with_page(await show_tree(app, question.loop_id or "", pages), lead, "The tree of tasks")


def with_page(page: str, text: str, words: str = "Open full page") -> str:
    """A form's text below the link to its page, if any, with a small title: only five lines are visible."""
    small = re.sub(r"\A# ", "#### ", text)
    return f"[{words}]({page})\n\n{small}" if page else small


def form_for(
    question: Question, legal: tuple[Choice, ...], *, revision: str = "", approver: str = ""
) -> type[AnswerForm]:
    """The form of this question: only legal choices, by label, and only the fields that they need."""
    needs = dict.fromkeys(need for choice in legal for need in choice.needs if need not in ("note", "revision"))
    name = "".join(word.title() for word in question.reason.split("_"))
    asked = [_asked(question) for _ in needs]
    labels = [choice.label for choice in legal]
    return make_form(name, labels, asked, question=question.key, revision=revision, approver=approver)


def _asked(question: Question) -> AskedFor:
    """What the form asks for: an amount with its unit, or a count with what is counted."""
    if question.budget:
        return question.budget.unit
    return "attempts" if question.issue_number is not None else "transitions"


def answer_from(filled: AnswerForm) -> Answer:
    """Convert a completed form to an answer."""
    values = filled.model_dump()
    return Answer(
        choice=values["decision"],
        by=values["approver"],
        note=values.get("note", ""),
        count=values.get("count"),
        revision=values.get("revision") or None,
        amount=values.get("amount") or None,
        question=values["question"] or None,
    )
