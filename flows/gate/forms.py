"""Forms for questions, made from the domain's table of choices (rulings, Questions)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

from prefect.input import RunInput
from pydantic import Field, create_model

from irontree.domain.budgets import EXAMPLES, UNITS, Unit

AskedFor = Literal["attempts", "transitions", "revision"] | Unit
"""What a form asks for besides a decision, a name and a note."""

_FIELDS: Final[dict[AskedFor, tuple[str, Any, Any]]] = {
    "attempts": ("count", int, Field(1, ge=1, le=50, title="How many attempts, if you allow more")),
    "transitions": ("count", int, Field(10, ge=1, le=50, title="How many transitions, if you allow more")),
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
    "revision": (
        "revision",
        str,
        Field(
            "", pattern="^([0-9a-f]{8}(-[0-9a-f]{8}){0,2})?$", title="Revision, typed as it is named above, to approve"
        ),
    ),
}


def make_form(
    name: str, choices: Sequence[str], asked: Collection[AskedFor] = (), *, question: str | None = None
) -> type[RunInput]:
    """The form with *choices* as its decision, what that decision needs, who decides, and a note.

    *question* is the key of what is asked, a constant of the form: one that is still open in some browser while the
    next question is open already is refused, and not taken for an answer to that (R14).

    Prefect checks answers by JSON schema alone and takes an empty answer if every field has a default: so the
    decision is a required choice (never a yes/no, which a browser sends as "no" when nobody touched it). Each line of
    a field is one less of the question above it, so there are labels and hardly a description.
    """
    fields: dict[str, Any] = {"decision": (Literal[tuple(choices)], Field(title="Decision"))}
    fields |= {field: (kind, info) for field, kind, info in (_FIELDS[one] for one in asked)}
    fields["approver"] = (str, Field(pattern=r"\S", title="Your name, for the record"))
    fields["note"] = (str, Field("", title="Note, for the next attempt or the record"))
    if question:
        fields["question"] = (Literal[question], Field(question, title="Question"))
    form: type[RunInput] = create_model(name, __base__=RunInput, **fields)
    return form
