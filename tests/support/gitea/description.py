"""The official description of Gitea's API, as the judge of every request and response of the double.

The file is not part of the project: it is looked for at `TESTS_GITEA_SWAGGER`, then in `../shared/data`.
"""

from __future__ import annotations

import json
import os
import re
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft4Validator
from referencing import Registry
from referencing.jsonschema import DRAFT4

FILE = "gitea-swagger-1.24.json"
PLACES = (
    *filter(None, [os.environ.get("TESTS_GITEA_SWAGGER")]),
    str(Path(__file__).resolve().parents[3].parent / "shared" / "data" / FILE),
)
NOT_THERE = f"no {FILE}: nothing judges the double; name the file in TESTS_GITEA_SWAGGER"
# Answers that come before the operation itself (token, rights, archive, rename, form, load), or at its failure.
ANY_OPERATION = {301, 307, 401, 403, 404, 405, 422, 423, 429, 500, 502, 503, 504}

Json = Any


class Description:
    """Says what is wrong with a request or a response; nothing if all is well."""

    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text(encoding="utf-8"))
        self._base = document["basePath"]
        # `pulls/7/reviews` also fits `pulls/{base}/{head}`: what has fewer variables is meant
        exact_first = sorted(document["paths"].items(), key=lambda path: path[0].count("{"))
        self._paths = [(_pattern(template), operations) for template, operations in exact_first]
        self._responses = document["responses"]
        self._requests = _resolved(_strict(document, nullable=False))
        self._answers = _resolved(_strict(document, nullable=True))

    def request(self, method: str, path: str, query: dict[str, str], body: Json) -> list[str]:
        operation = self._operation(method, path)
        if operation is None:
            return [f"{method} {path} is not in the description"]
        parameters = operation.get("parameters", [])
        known = {p["name"]: p for p in parameters if p["in"] == "query"}
        problems = [f"query {name} is unknown" for name in query if name not in known]
        problems += [
            f"query {n}={v} is none of {e}" for n, v in query.items() if (e := _choices(known.get(n))) and v not in e
        ]
        problems += [
            f"query {n}={v} is no number" for n, v in query.items() if _is_number(known.get(n)) and not v.isdecimal()
        ]
        schema = next((p["schema"] for p in parameters if p["in"] == "body"), None)
        if schema is None:
            return [*problems, *(["a body where none is taken"] if body is not None else [])]
        return problems + self._judge(self._requests, schema, body)

    def response(self, method: str, path: str, status: int, body: Json) -> list[str]:
        operation = self._operation(method, path)
        if operation is None:
            return []
        declared = operation["responses"].get(str(status))
        if declared is None:
            return [] if status in ANY_OPERATION else [f"status {status} is not in the description"]
        response = self._responses[declared["$ref"].rsplit("/", 1)[1]] if "$ref" in declared else declared
        return self._judge(self._answers, response["schema"], body) if "schema" in response else []

    def _operation(self, method: str, path: str) -> Json:
        relative = path.removeprefix(self._base)
        matching = [operations for pattern, operations in self._paths if pattern.fullmatch(relative)]
        return next((found[method.lower()] for found in matching if method.lower() in found), None)

    @staticmethod
    def _judge(registry: Registry[Json], schema: Json, body: Json) -> list[str]:
        schema = json.loads(json.dumps(schema).replace("#/definitions/", "urn:gitea#/definitions/"))
        errors = Draft4Validator(schema, registry=registry).iter_errors(body)
        return [f"{'/'.join(map(str, error.absolute_path)) or 'body'}: {error.message[:200]}" for error in errors]


@cache
def official() -> Description | None:
    """The description, or None where the file is not at hand."""
    found = next((Path(place) for place in PLACES if Path(place).is_file()), None)
    return Description(found) if found else None


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)))


def _choices(parameter: Json) -> list[str]:
    return (parameter or {}).get("enum", [])


def _is_number(parameter: Json) -> bool:
    return (parameter or {}).get("type") == "integer"


def _resolved(document: Json) -> Registry[Json]:
    return Registry().with_resource("urn:gitea", DRAFT4.create_resource(document))


def _strict(document: Json, *, nullable: bool) -> Json:
    """The definitions with no field beyond the described ones; in answers, what Go keeps by pointer may be null."""
    definitions = deepcopy(document["definitions"])
    for definition in definitions.values():
        if "properties" not in definition:
            continue
        definition["additionalProperties"] = False
        if nullable:
            definition["properties"] = {name: _or_null(p) for name, p in definition["properties"].items()}
    return {"definitions": definitions}


def _or_null(schema: Json) -> Json:
    by_pointer = "$ref" in schema or schema.get("format") == "date-time" or schema.get("type") == "array"
    # The only plain text that Gitea keeps by pointer is the commit of a merge.
    by_pointer |= schema.get("x-go-name") == "MergedCommitID"
    return {"anyOf": [schema, {"type": "null"}]} if by_pointer else schema
