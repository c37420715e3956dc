"""Put the tables of docs/ that are made from the code in place, between `<!-- table: NAME -->` and `<!-- end -->`.

tests/unit/test_docs.py compares them.
"""

from __future__ import annotations

import re
import shlex
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path

from irontree.agents.presets import PRESETS
from irontree.domain.events import CATEGORY, ISSUE_EVENTS, IssueEvent, kebab
from irontree.domain.halt import CONCERN_ALL, CONCERN_ONE_ISSUE, RULES, HaltRule
from irontree.domain.loop import LOOP_EVENTS, LoopEvent
from irontree.domain.machine import _PHASE_AFTER, LEGAL
from irontree.domain.state import _BY_STAGE, ADOPTED, COLORS, NEEDS_BREAKDOWN, PENDING, Phase
from irontree.services.questions.commands import answers_to
from irontree.services.questions.questions import Question

DOCS = Path(__file__).resolve().parents[1] / "docs"
MARKED = re.compile(r"(?<=<!-- table: )(?P<name>[a-z-]+)(?P<open> -->\n)(?P<body>.*?)(?=<!-- end -->)", re.DOTALL)

Row = tuple[str, ...]


def table(heading: Row, rows: Iterable[Row]) -> str:
    """Markdown of a table."""
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(values: Iterable[str]) -> str:
    """Words in the code's own spelling; a bar would end the cell."""
    return ", ".join(f"`{value}`" for value in values)


def said(model: type) -> str:
    """The first line of its docstring, without the citation at its end."""
    first = (model.__doc__ or "").splitlines()[0].rstrip(".")
    return re.sub(r" \([^()]*\)$", "", first)


def allowed(model: type, name: str) -> str:
    """What a key may hold in this event; `varies` where the event leaves it open."""
    found = _literals(model.model_fields[name].annotation)
    if found == _literals(IssueEvent.model_fields[name].annotation):
        return "a commit, `not_applicable`" if model.model_fields[name].is_required() and not found else "varies"
    return code(found) if found else "a commit, `not_applicable`"


def _literals(annotation: object) -> list[str]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is type(None):
        return ["null"]
    if origin is typing.Literal:
        return [str(value) for value in arguments]
    if origin in (types.UnionType, typing.Union):
        parts = [_literals(argument) for argument in arguments]
        return [value for part in parts for value in part] if all(parts) else []
    return []


def extra_keys(model: type, base: type) -> str:
    """The keys of this event behind the common ones."""
    return code(name for name in model.model_fields if name not in base.model_fields) or "none"


def events() -> str:
    """Every event of an issue: file, category, meaning."""
    rows = (
        (code([name]), code([f"{kebab(name)}.yml"]), CATEGORY[name], said(model))
        for name, model in ISSUE_EVENTS.items()
    )
    return table(("Event", "File, behind `{sequence:04d}-`", "Category", "It says"), rows)


STATE_KEYS = ("current_stage", "next_stage", "workflow_entry_state", "approval_state", "code_publication_state")
RESULT_KEYS = ("pass_fail_outcome", "completion_basis", "code_ref")
SHORT = {
    "workflow_entry_state": "entry",
    "approval_state": "approval",
    "code_publication_state": "publication",
    "pass_fail_outcome": "outcome",
    "completion_basis": "basis",
}


def event_values() -> str:
    """What the contract fixes of the common keys, by event."""
    keys = (*STATE_KEYS, *RESULT_KEYS)
    heading = ("Event", *(SHORT.get(key, key) for key in keys), "Extra keys")
    rows = (
        (code([name]), *(allowed(model, key) for key in keys), extra_keys(model, IssueEvent))
        for name, model in ISSUE_EVENTS.items()
    )
    return table(heading, rows)


def loop_events() -> str:
    """Every event of a loop."""
    rows = (
        (code([name]), CATEGORY[name], extra_keys(model, LoopEvent), said(model)) for name, model in LOOP_EVENTS.items()
    )
    return table(("Event", "Category", "Extra keys", "It says"), rows)


DETOURS = {
    "approval": "task_reapproval_required",
    "block": "checkup_preflight_blocked",
    "closed": "checkup_reconcile_external_close_detected",
    "gap": "checkup_reconcile_sequence_gap_detected",
}


def phases() -> str:
    """Which event may follow in which phase; the detours in columns of their own."""
    known = list(ISSUE_EVENTS)
    rows = (
        (
            f"`{phase.name}`: {phase.value}" if phase else "(an empty stream)",
            code(sorted(names - set(DETOURS.values()), key=known.index)) or "none",
            *("yes" if event in names else "no" for event in DETOURS.values()),
        )
        for phase, names in LEGAL.items()
    )
    return table(("Phase", "Events that may follow", *DETOURS), rows)


SPECIAL = {
    "task_published": "`CONTAINER` for a composite, else `READY`",
    "task_approved": "as before the hold; `READY` for an adopted issue",
    "checkup_unblocked": "`resume`: as before the hold; `verify`: `COMMITTED`; `retry`: `READY`",
}


def phase_after() -> str:
    """The phase that an event leads to."""
    rows = ((code([name]), SPECIAL.get(name) or code([Phase(_PHASE_AFTER[name]).name])) for name in ISSUE_EVENTS)
    return table(("After", "the issue is"), rows)


def halts() -> str:
    """The halt reasons in their order."""
    rows = (
        (str(number), code([rule.reason]), rule.title, rule.asked_of or "nobody", _choices(rule))
        for number, rule in enumerate(RULES, start=1)
    )
    return table(("", "Reason", "Question", "Asked by the run of", "Choices"), rows)


def go_on() -> str:
    """What `loop.on_halt: go_on` makes of each blocking check."""
    rows = (("goes on", code(sorted(CONCERN_ONE_ISSUE))), ("stops", code(sorted(CONCERN_ALL))))
    return table(("Other work", "At an issue that is blocked by"), rows)


def _choices(rule: HaltRule) -> str:
    words = (
        f"`{choice.name}` ({choice.label}{''.join(f'; needs a {need}' for need in choice.needs)})"
        for choice in rule.choices
    )
    return ", ".join(words) or "none"


def answers() -> str:
    """How each choice is given: as an option, and as a command."""
    rows = []
    for rule in RULES:
        if rule.asked_of is None:
            continue
        number = 7 if rule.asked_of == "issue" else None
        asked = Question(rule, "KEY", issue_number=number, task_key="TASK_KEY", loop_id="LOOP_ID", revision="NAME")
        for choice, command in answers_to(asked):
            spoken = code([choice.usage("TASK_KEY")])
            rows.append((rule.title, choice.label, _option(choice, number), code([command]), spoken))
    return table(("Question", "Answer", "Beforehand, `--answer …`", "Command", "Comment"), rows)


_EXAMPLES = {"count": "2", "revision": "NAME", "note": "NOTE"}


def _option(choice: object, number: int | None) -> str:
    needs = choice.needs  # type: ignore[attr-defined]
    target = "loop" if number is None else f"issue-{number}"
    rest = "".join(f":{_EXAMPLES[need]}" for need in needs)
    return code([shlex.quote(f"{target}={choice.typed}{rest}")])  # type: ignore[attr-defined]


def labels() -> str:
    """The labels, and what sets them."""
    stages = {label: [stage for stage, named in _BY_STAGE.items() if named == label] for label in COLORS}
    rows = ((code([label]), f"#{color}", _set_when(label, stages[label])) for label, color in COLORS.items())
    return table(("Label", "Colour", "Set while"), rows)


def _set_when(label: str, stages: list[str]) -> str:
    return _BESIDE.get(label) or f"`current_stage` is {' or '.join(f'`{stage}`' for stage in stages)}"


_BESIDE = {
    PENDING: "the issue waits for acceptance, beside its stage label",
    ADOPTED: "the issue was adopted; stays for good, beside its stage label",
    NEEDS_BREAKDOWN: "the issue was not adopted because it is composite, until it is",
}


def agents() -> str:
    """Coding agents that `init` knows."""
    rows = (
        (code([name]), code([shlex.join(preset.words((), None, ()))]), code(preset.variables), preset.log_in)
        for name, preset in PRESETS.items()
    )
    heading = ("`agent.adapter`", "What is called", "`agent.environment`, as far as set", "To get access")
    return table(heading, rows)


TABLES: dict[str, Callable[[], str]] = {
    "events": events,
    "event-values": event_values,
    "loop-events": loop_events,
    "phases": phases,
    "phase-after": phase_after,
    "halts": halts,
    "go-on": go_on,
    "answers": answers,
    "labels": labels,
    "agents": agents,
}


def renewed(text: str) -> str:
    """The document with all its tables as the code has them now."""
    return MARKED.sub(lambda match: f"{match['name']}{match['open']}\n{TABLES[match['name']]()}\n", text)


def main() -> None:
    """Write all tables of docs/ anew."""
    for path in sorted(DOCS.rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        if (after := renewed(before)) != before:
            path.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
