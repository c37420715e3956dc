"""The double of GitHub is held to the official description; here that check itself is checked."""

from __future__ import annotations

import pytest

from tests.support.descriptions import required
from tests.support.github.description import Description, official
from tests.support.github.routes import ROUTES
from tests.support.github.state import Reply, Request

LABELS = "/repos/{owner}/{repo}/labels"


@pytest.fixture
def description() -> Description:
    required("github-openapi")
    found = official()
    assert found
    return found


def complaints(description: Description, body: object, reply: Reply, **query: str) -> list[str]:
    request = Request("POST", "/repos/ada/engine/labels", query, {}, body)
    return list(description.complaints(LABELS, request, reply))


LABEL = {
    "id": 1,
    "node_id": "L_1",
    "url": "https://api.github.com/repos/ada/engine/labels/bug",
    "name": "bug",
    "description": None,
    "color": "ededed",
    "default": False,
}


def test_what_is_as_described_passes(description: Description):
    assert complaints(description, {"name": "bug", "color": "ededed"}, Reply(201, LABEL)) == []


@pytest.mark.parametrize(
    ("body", "reply", "query", "complaint"),
    [
        ({"color": "ededed"}, Reply(201, LABEL), {}, "'name' is a required property"),
        ({"name": 7}, Reply(201, LABEL), {}, "is not of type 'string'"),
        ({"name": "bug", "colour": "ededed"}, Reply(201, LABEL), {}, "request.colour is not described"),
        ({"name": "bug"}, Reply(201, {**LABEL, "id": "1"}), {}, "answer $.id"),
        ({"name": "bug"}, Reply(201, {**LABEL, "colour": "x"}), {}, "answer.colour is not described"),
        ({"name": "bug"}, Reply(299, LABEL), {}, "status 299 is not described"),
        ({"name": "bug"}, Reply(201, LABEL), {"force": "1"}, "query parameter force is not described"),
    ],
)
def test_what_is_not_as_described_is_named(description: Description, body, reply, query, complaint):
    assert [found for found in complaints(description, body, reply, **query) if complaint in found]


def test_every_route_of_the_double_is_a_described_one(description: Description):
    """GraphQL is not in the description of REST."""
    request = [(verb, template) for verb, _, template, _ in ROUTES if template != "/graphql"]
    found = [
        complaint
        for verb, template in request
        for complaint in description.complaints(template, Request(verb, "", {}, {}, None), Reply(599))
        if complaint.endswith(f"{template} is not described")
    ]
    assert found == []
