"""Forms for questions, made from the domain's table of choices (design §6)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from prefect.input import RunInput
from pydantic import Field, create_model

Need = Literal["count", "amount", "revision"]

NEEDS: dict[Need, tuple[Any, Any]] = {
    "count": (int, Field(1, ge=1, le=50, title="How many", description="Attempts, or transitions of the loop.")),
    "amount": (
        str,
        Field(
            "",
            pattern=r"^(\s*[0-9$][0-9.]* ?[A-Za-z0-9 ]*)?$",
            title="How much more",
            description="With its unit, whichever is used up: `5 USD`, `200000 tokens`, `2h`.",
        ),
    ),
    "revision": (
        str,
        Field(
            "",
            pattern="^([0-9a-f]{8}(-[0-9a-f]{8}){0,2})?$",
            title="Revision",
            description="To approve, type the revision that is named above.",
        ),
    ),
}


def make_form(
    name: str, choices: Sequence[str], needs: Collection[Need] = (), *, question: str | None = None
) -> type[RunInput]:
    """The form with *choices* as its decision, who decides, a note, and what else *needs* asks for.

    *question* is the key of what is asked, a constant of the form: one that is still open in some browser while the
    next question is open already is refused, and not taken for an answer to that (ruling R14).

    Prefect checks answers by JSON schema alone and takes an empty answer if every field has a default: so the
    decision is a required choice (never a yes/no, which a browser sends as "no" when nobody touched it).
    """
    fields: dict[str, Any] = {
        "decision": (Literal[tuple(choices)], Field(title="Decision")),
        "approver": (str, Field(pattern=r"\S", title="Your name", description="Goes into the record of the decision.")),
        "note": (str, Field("", title="Note", description="For the next attempt, or for the record.")),
    }
    fields |= {need: NEEDS[need] for need in NEEDS if need in needs}
    if question:
        about = Field(question, title="Question", description="Which one this answers. Leave it as it is.")
        fields["question"] = (Literal[question], about)
    form: type[RunInput] = create_model(name, __base__=RunInput, **fields)
    return form
