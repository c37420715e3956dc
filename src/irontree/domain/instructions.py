"""How agents are told to go about their work, and the form of their report: a file of steps by action and type.

The format is that of the unified toolchain's templates (§4): `issue_assigned: {bug: {steps: […], output_template: …}}`
by type of task, and other actions without a type. Its placeholders are in braces: the program fills those in `OURS`,
the agent says the others in a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn

from irontree.domain.task_types import TASK_TYPES
from irontree.domain.text import DECEPTIVE, nearest
from irontree.domain.values import Value
from irontree.errors import ConfigRefused

Language = Literal["en", "zh"]
ASSIGNED: Final = "issue_assigned"
TOLD: Final = (ASSIGNED, "ci_failure", "review_result")
"""The actions that an attempt is for: a task, or what its request came back with."""
UNTOLD: Final = (
    *("issue_discussion", "review_request", "review_updated", "review_comment", "mention", "deploy_failure"),
    *("infrastructure_failure", "review_merged", "issue_closed"),
)
"""Actions of the format for which nobody is told any steps here."""
OURS: Final = ("issue_number", "title", "brief", "branch", "pr_number", "files", "ci_status")
"""What the program knows. All else in a report is said by the agent."""
SAID: Final = (
    *("design_doc", "root_cause", "fix_approach", "doc_path", "scope", "test_result", "test_file", "problem", "fix"),
    *("verification", "cause_type", "action"),
)
CAUSE: Final = "cause_type"
"""Whether the code or the infrastructure is at fault, where CI failed."""
REPORT_MARK: Final = "[Action Report]"
NOT_SAID: Final = "(not said)"
DEFAULT: Final = "default"
_KEYS: Final = ("hint", "steps", "output_template")
_PLACEHOLDER: Final = re.compile(r"\{([^{}\s]*)\}")
_KINDS: Final = {"feat": "feature"} | {name: name for name in (*TASK_TYPES, DEFAULT)}
_OF_THE_PROGRAM: Final = re.compile(
    r"\bgit\s+(?:push|pull|fetch|checkout|switch|branch|commit|merge|add)\b|\b(?:pull|merge) request\b|\bPRs?\b|\bCI\b"
    r"|\bcomment\b|推送|分支|提交代码|评论|汇报",
    re.IGNORECASE,
)
Where = Callable[[Sequence[str | int]], str]
"""The file and line of a place in it, for messages."""


class Instructions(Value):
    """What an agent is told of one action: a line, the steps, and the form of its report."""

    action: str
    kind: str = ""
    """The type of task, or `default`; empty for an action without types."""
    hint: str = ""
    steps: tuple[str, ...]
    report: str = ""

    @property
    def said_by_agent(self) -> tuple[str, ...]:
        """What the report needs the agent to say, by name, in order."""
        return tuple(dict.fromkeys(name for name in _PLACEHOLDER.findall(self.report) if name not in OURS))

    @property
    def steps_of_the_program(self) -> tuple[str, ...]:
        """The steps that the program takes, whatever they say: an agent has no remote, and no token."""
        return tuple(step for step in self.steps if _OF_THE_PROGRAM.search(step))


def instructions_for(known: Sequence[Instructions], action: str, task_type: str) -> Instructions | None:
    """What is told of *action* for a task of that type; None if nothing is."""
    mine = [each for each in known if each.action == action]
    by_kind = {each.kind: each for each in mine}
    return by_kind.get(task_type) or by_kind.get(DEFAULT) or by_kind.get("")


def filled(text: str, values: Mapping[str, str]) -> str:
    """*text* with its placeholders filled in; what nobody said is named so.

    A line that needs something of `OURS` that there is not, such as a request, is left out.
    """
    lines = (line for line in text.split("\n") if _is_known(line, values))
    return "\n".join(_PLACEHOLDER.sub(lambda found: values.get(found[1]) or NOT_SAID, line) for line in lines)


def _is_known(line: str, values: Mapping[str, str]) -> bool:
    return all(values.get(name) for name in _PLACEHOLDER.findall(line) if name in OURS)


def is_report(text: str) -> bool:
    """Whether a comment is somebody's report: its first line that is not blank begins with the mark, in any case."""
    return text.lstrip().casefold().startswith(REPORT_MARK.casefold())


def read_instructions(document: Mapping[str, Any], where: Where) -> tuple[Instructions, ...]:
    """The instructions in *document*. Raises ConfigRefused with the place of everything that is wrong."""
    found: list[Instructions] = []
    for action, section in document.items():
        _known(action, (*TOLD, *UNTOLD), "action", where([action]))
        if action == ASSIGNED:
            for kind, entry in _mapping(section, where([action])).items():
                place = [action, kind]
                _known(kind, _KINDS, "type of task", where(place))
                found.append(_entry(entry, action, _KINDS[kind], place, where))
        else:
            found.append(_entry(section, action, "", [action], where))
    return tuple(found)


def untold(known: Sequence[Instructions]) -> Iterator[str]:
    """What the author of the file should know: steps that nobody is told, or that the program takes."""
    for each in known:
        name = f"{each.action}.{each.kind}" if each.kind else each.action
        if each.action in UNTOLD:
            yield f"{name}: no agent is told these steps"
        else:
            yield from (f"{name}: the program does this, not the agent: {step}" for step in each.steps_of_the_program)


def _entry(entry: object, action: str, kind: str, place: Sequence[str | int], where: Where) -> Instructions:
    given = _mapping(entry, where(place))
    for key in given:
        _known(key, _KEYS, "key", where([*place, key]))
    steps = given.get("steps")
    if not isinstance(steps, list) or not steps or not all(isinstance(step, str) and step.strip() for step in steps):
        _refuse(f"{where(place)}: `steps` has to be a list of at least one step", "say what to do, one step a line")
    texts = {"hint": given.get("hint") or "", "output_template": given.get("output_template") or ""}
    for key, text in texts.items():
        if not isinstance(text, str):
            _refuse(f"{where([*place, key])}: `{key}` has to be text", "put it into quotes")
    for number, text in enumerate(steps):
        _check_text(text, where([*place, "steps", number]))
    for key, text in texts.items():
        _check_text(text, where([*place, key] if key in given else place))
    hint, report = texts["hint"].strip(), texts["output_template"].strip()
    return Instructions(action=action, kind=kind, hint=hint, steps=tuple(steps), report=report)


def _check_text(text: str, place: str) -> None:
    for name in _PLACEHOLDER.findall(text):
        _known(name, (*OURS, *SAID), "placeholder", place)
    if hidden := re.search(DECEPTIVE, text):
        _refuse(f"{place}: the invisible character U+{ord(hidden[0][0]):04X}", "remove it")


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(f"{place}: expected keys below it", "docs/how-to/team-of-agents.md shows the format")
    return value


def _known(name: object, names: Collection[str], what: str, place: str) -> None:
    if name not in names:
        guess = nearest(str(name), names)
        meant = f"; did you mean `{guess}`?" if guess else ""
        _refuse(f"{place}: unknown {what} `{name}`{meant}", f"one of: {', '.join(names)}")


def _refuse(problem: str, remedy: str) -> NoReturn:
    raise ConfigRefused(problem, remedy=remedy)
