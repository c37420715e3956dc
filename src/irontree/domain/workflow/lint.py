"""What is wrong with a HOTL workflow file or design document, each mistake with its line (docs/hotl.md).

The messages are upstream's where upstream has one. Warnings fail nothing. The time grows with the length of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from irontree.domain.command_lines import is_trivial
from irontree.domain.requirements.markdown import Findings, SpecProblem
from irontree.domain.text import why_no_branch
from irontree.domain.workflow.reading import (
    FENCE,
    STEP_KEYS,
    Fields,
    Item,
    WrittenStep,
    WrittenWorkflow,
    meant,
    read,
    verify_items,
)
from irontree.domain.workflow.verify import KINDS, ArtifactCheck, BrowserCheck, ShellCheck, check_of, kind_of, unquoted
from irontree.domain.workflow.workflow import MODES, Workflow, first_word, interpret

Document = Literal["workflow", "design"]

_REQUIRED: Final = ("intent", "success_criteria", "risk_level")
_FRONT_KEYS: Final = (
    *_REQUIRED,
    *("auto_approve", "branch", "worktree", "progress", "report_detail", "dirty_worktree"),
)
_LATER_KEYS: Final = ("policy_profile", "max_total_attempts", "max_agents", "max_cost_usd", "max_elapsed_minutes")
_ONLY: Final = {"progress": "verbose", "report_detail": "full", "dirty_worktree": "allow"}
_ITEM_KEYS: Final = ("type", "command", "url", "check", "prompt", "path", "assert", "kind", "value")
_NEEDED: Final = {
    "shell": (),  # `interpret` says so: without a command it would pass
    "browser": (("url", "'url:' field"), ("check", "'check:' field")),
    "human-review": (("prompt", "'prompt:' field"),),
    "artifact": (("path", "'path:' field"), ("kind", "'assert.kind' field")),
}
"""The keys of each type of check, and what upstream calls a missing one."""
_SECURITY: Final = re.compile(
    r"(?<![a-z0-9])(?:(?:un|o)?auth(?:n|z|enticat\w*|ori[sz](?!ing\b)\w*)?|(?:de|en)?crypt(?:s|ed|ing|ion)?"
    r"|secrets?|passwords?|tokens?|billing|permissions?)(?![a-z0-9])",
    re.IGNORECASE,
)
_NEARLY_A_STEP: Final = re.compile(r"[-*+] ?\[.?\]\W*step\b", re.IGNORECASE)
_URL: Final = re.compile(r"https?://[^\s/]+", re.IGNORECASE)
_DESIGN: Final = re.compile(r"(?:^|/)docs/designs/[^/]*\.md$|-(?:design|plan)\.md$")
_WORKFLOW: Final = re.compile(r"(?:^|/)docs/plans/[^/]*-workflow\.md$|(?:^|/)hotl-workflow-[^/]*\.md$")


class Linted(NamedTuple):
    """What was found, errors first, each in the order of the lines."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]


def document_type(path: str) -> Document | None:
    """What a file is by its path; None for what is neither."""
    return "design" if _DESIGN.search(path) else "workflow" if _WORKFLOW.search(path) else None


def lint(text: str, document: Document) -> Linted:
    """Every mistake in the text of such a document."""
    if document == "design":
        return Linted(tuple(_design(text)), ())
    return lint_written(read(text))


def lint_written(written: WrittenWorkflow) -> Linted:
    """Every mistake in a workflow file that was read already."""
    _, found = interpret_linted(written)
    return Linted(*(tuple(map(_shown, sorted(problems))) for problems in (found.errors, found.warnings)))


def interpret_linted(written: WrittenWorkflow) -> tuple[Workflow, Findings]:
    """The typed values, and every mistake: with an error they count for nothing."""
    workflow, found = interpret(written)
    _check_front(written, found)
    _check_steps(written, found, high=first_word(written.front.value("risk_level")) == "high")
    if written.steps and not any(step.fields.first("verify") for step in written.steps):
        found.warn(written.front.line("success_criteria"), "Nothing proves success_criteria", "Give a step a 'verify:'")
    return workflow, found


def _shown(problem: SpecProblem) -> str:
    return f"{problem.what} (line {problem.line}){f'. {problem.remedy}' if problem.remedy else ''}"


# --- Front matter


def _check_front(written: WrittenWorkflow, found: Findings) -> None:
    if not written.begins:
        found.refuse(0, "Missing YAML frontmatter (file must start with ---)", "")
        return
    if not written.closed:
        found.refuse(0, f"The frontmatter has no closing {FENCE}", "End it with a line of three hyphens")
    for key in _REQUIRED:
        if not written.front.value(key):
            found.refuse(written.front.line(key), f"Frontmatter missing '{key}:' field", "")
    for key, only in _ONLY.items():
        value = first_word(written.front.value(key))
        if written.front.first(key) and value != only:
            found.refuse(written.front.line(key), f"{key} must be '{only}' if set (got: '{value}')", "")
    mode = first_word(written.front.value("worktree"))
    if written.front.first("worktree") and mode not in MODES:
        what = f"worktree must be true, false, or host if set (got: '{mode}')"
        found.refuse(written.front.line("worktree"), what, "")
    branch = written.front.value("branch")
    if written.front.first("branch") and (why := why_no_branch(branch)):
        found.refuse(written.front.line("branch"), f"branch must be the name of a branch (got: '{branch}'): {why}", "")
    _check_keys(written.front, (*_FRONT_KEYS, *_LATER_KEYS), "Frontmatter", found)


def _check_keys(fields: Fields, known: tuple[str, ...], where: str, found: Findings) -> None:
    """Misspelled, repeated and unknown keys."""
    seen: set[str] = set()
    for field in fields:
        close = meant(field.key, known)
        if field.key in seen:
            found.refuse(field.line, f"{where} has '{field.key}:' twice", "Only the first counts: remove one")
        elif field.key in _LATER_KEYS:
            found.warn(field.line, f"'{field.key}:' is a field of later HOTL versions", "It is not used here")
        elif field.key not in known and close:
            found.refuse(field.line, f"{where} has no field '{field.key}:'", f"Did you mean '{close}:'?")
        elif field.key not in known:
            found.warn(field.line, f"{where} has no field '{field.key}:'", "It is not used")
        seen.add(field.key)


# --- Steps


def _check_steps(written: WrittenWorkflow, found: Findings, *, high: bool) -> None:
    if not written.steps:
        what = "No steps found (expected either '### N. Step name' or '- [ ] **Step N: Step name**')"
        found.refuse(len(written.lines) - 1, what, "")
    headers = {step.line for step in written.steps}
    for number, line in enumerate(written.lines):
        if number not in headers and number not in written.hidden and _NEARLY_A_STEP.match(line):
            found.refuse(number, "This looks like a step, but is none", "Write '- [ ] **Step N: Step name**'")
    numbers = {step.number for step in written.steps}
    for number in sorted(set(range(1, len(numbers) + 1)) - numbers):
        found.refuse(written.steps[0].line, f"There is no step {number}", "Number the steps 1, 2, 3")
    for step in written.steps:
        _check_fields(step, found)
        _check_verify(step, found)
        if high and step.fields.value("gate").lower() != "human" and _SECURITY.search(_text_of(step)):
            what = f"Step '{step.name}' has security keywords with risk_level:high but missing 'gate: human'"
            found.refuse(step.line, what, "")


def _text_of(step: WrittenStep) -> str:
    """All that is written in a step."""
    fields = (f"{field.key} {field.value} {' '.join(line.text for line in field.block)}" for field in step.fields)
    return "\n".join((step.name, *fields, *(line.text for line in step.prose)))


def _check_fields(step: WrittenStep, found: Findings) -> None:
    name = f"Step '{step.name}'"
    for key in ("action", "loop"):
        if not step.fields.value(key):
            found.refuse(step.line, f"{name} missing '{key}:' field", "")
    loop = step.fields.value("loop").lower()
    if loop.startswith("until"):
        for key in ("verify", "max_iterations"):
            if not step.fields.first(key):
                found.refuse(step.line, f"{name} has loop:until but missing '{key}:' field", "")
    if loop and loop != "false" and not re.match(r"until\s+\S", loop):
        what = f"{name} loop must be false or 'until CONDITION' (got: '{step.fields.value('loop')}')"
        found.refuse(step.fields.line("loop"), what, "")
    _check_keys(step.fields, STEP_KEYS, name, found)


def _check_verify(step: WrittenStep, found: Findings) -> None:
    field = step.fields.first("verify")
    if field is None:
        what = f"Step '{step.name}' has no 'verify:'"
        found.warn(step.line, what, "It passes without a check")
        return
    items = verify_items(field)
    for item in (items,) if isinstance(items, Item) else items or ():
        if field.value:
            _check_command(step, item, found)
        else:
            _check_item(step, item, found)


def _check_command(step: WrittenStep, item: Item, found: Findings) -> None:
    command = item.fields.written("command")
    if command and is_trivial(command):
        found.warn(item.line, f"Step '{step.name}' verify cannot fail: {command}", "It proves nothing")


def _check_item(step: WrittenStep, item: Item, found: Findings) -> None:
    name, kind = f"Step '{step.name}'", kind_of(item)
    if not item.fields.written("type") and item.fields.written("command"):
        found.refuse(item.line, f"{name} has structured verify block but missing 'type:' field", "")
    if kind not in _NEEDED:
        expected = "expected: shell, browser, human-review, artifact"
        found.refuse(item.line, f"{name} has invalid verify type '{kind}' ({expected})", "")
    for key, what in _NEEDED.get(kind, ()):
        if not unquoted(item.fields.written(key)):
            found.refuse(item.line, f"{name} verify type:{kind} missing {what}", "")
    _check_keys(item.fields, _ITEM_KEYS, f"{name} verify", found)
    if item.fields.written("assert"):
        found.refuse(
            item.fields.line("assert"), f"{name} assert has a value", "Write kind: and value: on lines of their own"
        )
    for line in item.strays:
        found.refuse(line.at, f"{name} verify has a line that is no field: {line.text.strip()}", "")
    match check_of(item):
        case ShellCheck():
            _check_command(step, item, found)
        case BrowserCheck(url=url) if url and not _URL.match(url):
            found.refuse(item.line, f"{name} url must begin with http:// or https:// (got: '{url}')", "")
        case ArtifactCheck() as check:
            _check_artifact(name, check, item, found)
        case _:
            pass


def _check_artifact(name: str, check: ArtifactCheck, item: Item, found: Findings) -> None:
    parts = check.path.split("/")
    if check.path.startswith(("/", "~")) or ".." in parts:
        what = f"{name} artifact path is outside the execution root: {check.path}"
        found.refuse(item.fields.line("path"), what, "Name it from the root of the repository")
    if not check.path or not check.kind:
        return
    if check.kind not in KINDS:
        what = f"{name} has invalid assert kind '{check.kind}' (expected: {', '.join(KINDS)})"
        found.refuse(item.line, what, "")
    elif check.fault:
        found.refuse(item.line, f"{name} {check.fault}", "")


# --- Design documents


_SECTIONS: Final = (
    (
        *("Intent Contract", r"intent contract|## intent"),
        *(("intent:", "intent:"), ("constraints:", "constraints:"), ("success_criteria:", "success_criteria:")),
        *(("risk_level:", "risk_level:"),),
    ),
    ("Verification Contract", r"verification contract|## verification", ("", r"verify|check|confirm|run test")),
    (
        *("Governance Contract", r"governance contract|## governance"),
        *(("approval_gates", r"approval_gates|approval gates"), ("rollback", "rollback:")),
    ),
)
"""Each section, how it is found, and its fields: as they are called, and how they are found."""


def _design(text: str) -> Iterator[str]:
    for section, heading, *fields in _SECTIONS:
        if not re.search(str(heading), text, re.IGNORECASE):
            yield f"Missing {section} section"
            continue
        for name, pattern in fields:
            if not re.search(pattern, text, re.IGNORECASE):
                shown = f"missing '{name}' field" if name else "has no verify steps"
                yield f"{section} {shown}"
    risk = re.search(r"risk_level:[ \t]*([^\n]*)", text, re.IGNORECASE)
    value = first_word(risk[1].replace("`", "")) if risk else ""
    if risk and value not in ("low", "medium", "high"):
        yield f"risk_level must be low, medium, or high (got: '{value}')"
