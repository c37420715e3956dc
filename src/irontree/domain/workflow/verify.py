"""How a step is checked: the types of `verify`, as the file writes them and as `.hotl/state` keeps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from irontree.domain.workflow.reading import Item

REVIEW_REQUIRED: Final = "human review required"
"""What every reason begins with that waits for a person."""
NO_BROWSER: Final = "unsupported verify type: browser: there is no browser tooling here"
KINDS: Final = ("exists", "contains", "matches-glob")
"""What an artifact can be asserted to do."""
KEPT_BYTES: Final = 4096
"""Of each stream of a check's output, in the state."""


class ShellCheck(NamedTuple):
    """A command: it passes with exit code 0. Without a command there is nothing to check, and the step passes."""

    command: str


class BrowserCheck(NamedTuple):
    """What a page must show; a person looks where there is no tooling for it."""

    url: str
    check: str


class HumanReview(NamedTuple):
    """What a person must look at; always asked, whatever `auto_approve` says."""

    prompt: str


class ArtifactCheck(NamedTuple):
    """That a file or folder is there, and what is in it."""

    path: str
    kind: str
    value: str | None

    @property
    def fault(self) -> str:
        """Why it cannot be judged at all; empty if it can."""
        if not self.path:
            return "artifact verify missing path"
        if self.kind not in KINDS:
            return f"unsupported artifact assert kind: {self.kind}"
        if self.kind != "exists" and not self.value:
            return f"artifact assert kind {self.kind} requires value"
        if self.kind == "matches-glob" and "/" in (self.value or ""):
            return "artifact assert kind matches-glob expects a filename glob; put the directory in path"
        return ""


class UnknownCheck(NamedTuple):
    """A type that this version does not know: never passed."""

    type: str


OneCheck: TypeAlias = ShellCheck | BrowserCheck | HumanReview | ArtifactCheck | UnknownCheck


class CheckList(NamedTuple):
    """Several checks, all of which must pass."""

    checks: tuple[OneCheck, ...]


Verify: TypeAlias = OneCheck | CheckList


def checks_of(verify: Verify) -> tuple[OneCheck, ...]:
    """The checks of a list, or the one that there is."""
    return verify.checks if isinstance(verify, CheckList) else (verify,)


NOTHING: Final = ShellCheck("")
"""The check of a step without `verify`."""


class Outcome(NamedTuple):
    """What checks came to: `block` with a *reason* is for a person, who has to decide or to put something right.

    The output is that of the checks that ran; of a list, *each* says which passed, and None of what did not run.
    """

    end: Literal["pass", "fail", "block"]
    stdout: str = ""
    stderr: str = ""
    reason: str = ""
    each: tuple[bool | None, ...] = ()


def judge(verify: Verify, run: Callable[[ShellCheck | ArtifactCheck], Outcome]) -> Outcome:
    """Run what a machine checks, in the written order to the first that does not pass; people are asked last.

    So no check is left out because a person has agreed to what comes before it.
    """
    checks = checks_of(verify)
    if not checks:
        return Outcome("block", reason="unsupported verify type: multi without checks")
    ran: list[Outcome | None] = []
    for check in checks:
        if isinstance(check, HumanReview | BrowserCheck):
            ran.append(None)
            continue
        if isinstance(check, UnknownCheck):
            return _joined("block", ran, f"unsupported verify type: {check.type}")
        if check == NOTHING:
            return Outcome("pass") if check is verify else _joined("block", ran, "shell verify missing command")
        found = run(check)
        ran.append(found)
        if found.end != "pass":
            return _joined(found.end, ran, found.reason)
    asked = [_asked(check) for check in checks if isinstance(check, HumanReview | BrowserCheck)]
    if asked:
        return _joined("block", ran, ": ".join(filter(None, (REVIEW_REQUIRED, "; ".join(filter(None, asked))))))
    return _joined("pass", ran)


def _asked(check: HumanReview | BrowserCheck) -> str:
    return check.prompt if isinstance(check, HumanReview) else f"{check.check} at {check.url} ({NO_BROWSER})"


def _joined(end: Literal["pass", "fail", "block"], ran: Sequence[Outcome | None], reason: str = "") -> Outcome:
    """All outputs, one below the other, and which passed."""
    stdout, stderr = ("\n".join(filter(None, (one(each).rstrip("\n") for each in ran if each))) for one in _STREAMS)
    return Outcome(end, stdout, stderr, reason, tuple(each and _PASSED[each.end] for each in ran))


_STREAMS: Final[tuple[Callable[[Outcome], str], ...]] = (attrgetter("stdout"), attrgetter("stderr"))
_PASSED: Final = {"pass": True, "fail": False, "block": None}


def shown(check: OneCheck) -> str:
    """A check that a machine makes, in words."""
    match check:
        case ShellCheck(command):
            return f"$ {command}"
        case ArtifactCheck(path):
            return f"artifact {path}"
        case _:
            return ""


# --- As it is written


def written_verify(items: tuple[Item, ...] | Item | None) -> Verify:
    """The checks that these items say; one that says nothing has no command."""
    if items is None:
        return NOTHING
    if isinstance(items, Item):
        return check_of(items)
    return CheckList(tuple(map(check_of, items)))


def check_of(item: Item) -> OneCheck:
    """The check that an item says; without a type it is a command, whose quotes are its own."""
    written = item.fields.written
    return _made(kind_of(item), lambda key: written(key) if key == "command" else unquoted(written(key)))


def _made(kind: str, value: Callable[[str], str]) -> OneCheck:
    """The check of that type with the values of its keys."""
    match kind:
        case "shell":
            return ShellCheck(value("command"))
        case "browser":
            return BrowserCheck(value("url"), value("check"))
        case "human-review":
            return HumanReview(value("prompt"))
        case "artifact":
            return ArtifactCheck(value("path"), value("kind"), value("value") or None)
        case other:
            return UnknownCheck(other)


def kind_of(item: Item) -> str:
    """The type of its check."""
    return unquoted(item.fields.written("type")) or "shell"


def unquoted(value: str) -> str:
    """A value without quotes around it."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


# --- As `.hotl/state` keeps it


def as_json(verify: Verify) -> dict[str, Any]:
    """The object under `verify` in the state, its keys in upstream's order, nothing run yet."""
    return _said(verify) | {"passed": None, "stdout": None, "stderr": None}


def _said(verify: Verify) -> dict[str, Any]:
    match verify:
        case ShellCheck(command):
            return {"type": "shell", "command": command}
        case BrowserCheck(url, check):
            return {"type": "browser", "command": f"browser: {url} - {check}", "url": url, "check": check}
        case HumanReview(prompt):
            return {"type": "human-review", "command": None, "prompt": prompt}
        case ArtifactCheck(path, kind, value):
            return {"type": "artifact", "command": None, "path": path, "assert": {"kind": kind, "value": value}}
        case UnknownCheck(name):
            return {"type": name, "command": None}
        case CheckList(checks):
            return {"type": "multi", "command": None, "checks": [as_json(check) for check in checks]}


def from_json(kept: Mapping[str, Any]) -> Verify:
    """The checks in the state, which people may have edited: what is missing counts as empty."""
    if kept.get("type") == "multi":
        checks = kept.get("checks")
        items = [each for each in checks if isinstance(each, Mapping)] if isinstance(checks, list) else []
        return CheckList(tuple(map(_one_from_json, items)))
    return _one_from_json(kept)


def _one_from_json(kept: Mapping[str, Any]) -> OneCheck:
    asserted = kept.get("assert")
    values = {**kept, **asserted} if isinstance(asserted, Mapping) else kept
    return _made(_text(kept, "type") or "shell", lambda key: _text(values, key))


def _text(kept: Mapping[str, Any], key: str) -> str:
    value = kept.get(key)
    return "" if value is None else str(value)


def kept_output(text: str) -> str:
    """The first bytes of a stream without the line ends behind them, and one line end, as upstream keeps it."""
    return cut_output(text) + "\n"


def cut_output(text: str) -> str:
    """The first bytes of a stream without the line ends behind them."""
    return text.replace("\0", "").encode("utf-8", "replace")[:KEPT_BYTES].decode("utf-8", "replace").rstrip("\n")
