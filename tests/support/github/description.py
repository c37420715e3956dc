"""The official description of GitHub's REST API, to which every request and answer of the double is held.

Without it (`make descriptions`) nothing is checked, and tests/unit/forges/test_github_double.py says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from openapi_schema_validator import OAS30ReadValidator, OAS30WriteValidator

from tests.support.descriptions import kept
from tests.support.github.state import Reply, Request

_ANYWHERE = {301, 307}
"""Redirects are described in the guide to the API, for every call."""


@cache
def official() -> Description | None:
    """The description; None if it was not fetched."""
    path = kept("github-openapi")
    return Description(json.loads(path.read_bytes())) if path else None


class Description:
    """Holds one exchange at a time to it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._validators: dict[tuple[Any, str], Any] = {}

    def complaints(self, template: str, request: Request, reply: Reply) -> Iterator[str]:
        """What is not as described in the request and in the answer."""
        if template == "/graphql":
            return
        operation = self._document["paths"].get(template, {}).get(request.verb.lower())
        if operation is None:
            yield f"{request.verb} {template} is not described"
            return
        yield from self._query(operation, request)
        yield from self._body(operation, request)
        yield from self._reply(operation, reply)

    def _query(self, operation: dict[str, Any], request: Request) -> Iterator[str]:
        known = {p["name"]: p for p in map(self._resolved, operation.get("parameters", ())) if p["in"] == "query"}
        for name, value in request.query.items():
            if name not in known:
                yield f"query parameter {name} is not described"
                continue
            schema = known[name]["schema"]
            typed = int(value) if schema.get("type") == "integer" else value
            yield from self._errors(OAS30WriteValidator, schema, typed, f"query parameter {name}")

    def _body(self, operation: dict[str, Any], request: Request) -> Iterator[str]:
        if request.body is None:
            if operation.get("requestBody", {}).get("required"):
                yield "the body is missing"
            return
        if "requestBody" not in operation:
            yield "a body where none is described"
            return
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        yield from self._errors(OAS30WriteValidator, schema, request.body, "request")
        yield from self._unknown(schema, request.body, "request")

    def _reply(self, operation: dict[str, Any], reply: Reply) -> Iterator[str]:
        described = operation["responses"].get(str(reply.status))
        if described is None:
            if reply.status < 400 and reply.status not in _ANYWHERE:
                yield f"status {reply.status} is not described"
            return
        content = self._resolved(described).get("content", {}).get("application/json")
        if content and reply.body is not None:
            yield from self._errors(OAS30ReadValidator, content["schema"], reply.body, "answer")
            yield from self._unknown(content["schema"], reply.body, "answer")

    def _errors(self, kind: Any, schema: dict[str, Any], value: Any, what: str) -> Iterator[str]:
        for error in self._validator(kind, json.dumps(schema)).iter_errors(value):
            if not _is_null_of_an_enum(error):
                yield f"{what} {error.json_path}: {error.message[:300]}"

    def _validator(self, kind: Any, schema: str) -> Any:
        """Of the schema with what it refers to and nothing else: the whole description takes seconds to go through."""
        if (kind, schema) not in self._validators:
            parts: dict[str, Any] = {}
            root = json.loads(schema)
            self._collect(root, parts)
            self._validators[kind, schema] = kind({**root, **parts})
        return self._validators[kind, schema]

    def _collect(self, value: Any, parts: dict[str, Any]) -> None:
        """Put every component that *value* refers to where its reference says."""
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                *path, name = reference.removeprefix("#/").split("/")
                place = parts
                for step in path:
                    place = place.setdefault(step, {})
                if name not in place:
                    place[name] = self._resolved(value)
                    self._collect(place[name], parts)
            for item in value.values():
                self._collect(item, parts)
        elif isinstance(value, list):
            for item in value:
                self._collect(item, parts)

    def _unknown(self, schema: dict[str, Any], value: Any, what: str) -> Iterator[str]:
        """Keys that no described object has: a validator lets them pass, and a double could make them up."""
        schema = self._resolved(schema)
        if isinstance(value, list):
            for item in value[:1]:
                yield from self._unknown(schema.get("items", {}), item, f"{what}[]")
        if not isinstance(value, dict):
            return
        known = self._properties(schema)
        if not known or "additionalProperties" in schema:
            return
        for key, item in value.items():
            if key not in known:
                yield f"{what}.{key} is not described"
            else:
                yield from self._unknown(known[key], item, f"{what}.{key}")

    def _properties(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Of an object, or of every alternative of it."""
        schema = self._resolved(schema)
        known = dict(schema.get("properties", {}))
        for word in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(word, ()):
                known |= self._properties(part)
        return known

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            found: Any = self._document
            for part in schema["$ref"].partition("#")[2].strip("/").split("/"):
                found = found[part.replace("~1", "/").replace("~0", "~")]
            schema = found
        return schema


def _is_null_of_an_enum(error: Any) -> bool:
    """GitHub means `nullable` to add null to an enumeration; OpenAPI 3.0.3 says that it does not."""
    return error.validator == "enum" and error.instance is None and error.schema.get("nullable")
