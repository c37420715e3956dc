"""Values for the templates of prompts that show no task; `views` has the others."""

from __future__ import annotations

from irontree.services.execution.rounds import Observation, PartDone
from irontree.services.toolchain.asking import Said
from tests.support.view_values import member


def plan_prompt(text: str) -> dict[str, object]:
    return {"text": text, "example": text, "checks": ("tests",), "answer_file": "/tmp/plans/1", "problems": (text,)}


def mention_prompt(text: str) -> dict[str, object]:
    return {
        "number": 7,
        "title": text,
        "outsider": False,
        "member": member(text),
        "by": text,
        "question": text,
        "body": text,
        "said": (Said("ada", text, outsider=False), Said(text, text, outsider=True)),
        "quotes": (Said(text, text, outsider=True),),
        "kinds": ("feature", "bug"),
        "most": "8,000",
        "longest": 6_000,
        "answer_file": "/tmp/answer.md",
        "problems": (text, text),
    }


def round_prompt(text: str) -> dict[str, object]:
    return {
        "number": 7,
        "title": text,
        "body": text,
        "outsider": "",
        "member": member(text),
        "parts": (PartDone(8, text, text, "0123456789ab"),),
        "observations": (Observation(text, text),),
        "kinds": ("feature", "bug"),
        "longest": 6_000,
        "answer_file": "/tmp/answer.json",
        "problems": (text,),
    }
