"""What an agent that asks may do (R6): the rules that a person approved, and the answer to one request.

The first matching rule counts. Without one, an agent may read and change files of its workspace, and nothing else.
Paths outside the workspace are denied whatever the rules say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

from pydantic import Field, ValidationError

from irontree.domain.values import Value

Tool = Literal["read", "search", "edit", "move", "delete", "execute", "fetch", "think", "switch_mode", "other", "*"]


class PermissionRule(Value):
    """The answer to an agent that asks for permission to use a kind of tool (`*`: any).

    `match` is a glob on the command, address or path that is asked for, or on the agent's own title of it.
    """

    tool: Tool = "*"
    match: str = Field(default="*", min_length=1)
    allow: bool


IN_WORKSPACE: Final = frozenset({"read", "search", "edit", "move", "delete"})
HARMLESS: Final = frozenset({"search", "think"})
SHOWN_CHARACTERS: Final = 200
# Syntax that adds a command or another file: `npm test*` must not let `npm test; curl ... | sh` through.
_JOINS: Final = re.compile(r"[;&|`<>\n\r]|\$\(")
_GLOB: Final = re.compile(r"([*?[])")
_NO_RULE: Final = "no rule allows"
_CUT, _UNSHOWN = "…", "⏎"
_UNNAMED: Final = "something that it does not name"


class ToolRequest(NamedTuple):
    """An action that an agent asks to take, as it describes it; `title` is its own free text."""

    tool: str
    title: str = ""
    command: str | None = None
    address: str | None = None
    paths: tuple[str, ...] = ()
    """Relative to the workspace, `/` between the parts."""
    outside: tuple[str, ...] = ()
    """Paths that are not in the workspace."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The texts that a rule's `match` is compared with: the command, the address, or each path; else the title."""
        if self.command or self.tool == "execute":
            return (self.command or self.title,)
        return (self.address,) if self.address else self.paths or (self.title,)


def denials(rules: Sequence[PermissionRule], request: ToolRequest) -> tuple[str, ...]:
    """Why *request* is denied, one line per reason, to be kept and shown; empty if it is allowed."""
    if request.outside:
        return tuple(_words("outside the workspace", request, path) for path in request.outside)
    return tuple(_refusals(rules, request))


def missing_rule(denied: str) -> PermissionRule | None:
    """The rule that would allow exactly what *denied* describes, or `None` if none is missing."""
    found = re.fullmatch(rf"{_NO_RULE}: (\S+) (.+)", denied)
    if found is None or denied.endswith((_CUT, _UNNAMED)) or _UNSHOWN in denied:
        return None
    tool, subject = found.groups()
    try:
        return PermissionRule.model_validate({"tool": tool, "match": _literally(subject), "allow": True})
    except ValidationError:  # a kind of tool that no rule can name
        return None


def entry_of(rule: PermissionRule) -> str:
    """The rule as an entry of `agent.permissions`, as YAML."""
    match, allow = json.dumps(rule.match, ensure_ascii=False), json.dumps(rule.allow)
    return f"- {{tool: {rule.tool}, match: {match}, allow: {allow}}}"


def _refusals(rules: Sequence[PermissionRule], request: ToolRequest) -> Iterator[str]:
    for subject in request.subjects:
        rule = next((rule for rule in rules if _fits(rule, request, subject)), None)
        if rule is None and not _is_usual(request):
            yield _words(_NO_RULE, request, subject)
        elif rule is not None and not rule.allow:
            yield _words("a rule forbids", request, subject)


def _is_usual(request: ToolRequest) -> bool:
    """Whether the request is allowed without a rule: work on named files of the workspace."""
    if request.command or request.address:
        return False
    return request.tool in HARMLESS or (request.tool in IN_WORKSPACE and bool(request.paths))


def _fits(rule: PermissionRule, request: ToolRequest, subject: str) -> bool:
    if rule.tool not in {"*", request.tool}:
        return False
    if rule.match == "*":
        return True
    if rule.allow and (request.command or request.tool == "execute") and _JOINS.search(subject):
        return rule.match == _literally(subject)
    return fnmatchcase(subject, rule.match)


def _literally(text: str) -> str:
    """The glob that matches *text* alone."""
    return _GLOB.sub(r"[\1]", text)


def _words(reason: str, request: ToolRequest, subject: str) -> str:
    shown = "".join(sign if sign.isprintable() else _UNSHOWN for sign in subject) or _UNNAMED
    cut = shown if len(shown) <= SHOWN_CHARACTERS else shown[: SHOWN_CHARACTERS - 1] + _CUT
    return f"{reason}: {request.tool} {cut}"
