"""What a suspended run asks, as other clients read it."""

from __future__ import annotations

import uuid

import pytest

from irontree.flows.gate import make_form
from irontree.flows.runs.forms import FormQuestion


@pytest.mark.parametrize("choices", [("accept", "send back", "skip"), ("stop",)])
def test_the_choices_of_a_question_are_those_of_its_form(choices):
    schema = make_form("Decide", choices).model_json_schema()
    assert FormQuestion(uuid.uuid4(), "halt-1", "", schema).choices == choices
