"""What members of the team say about an issue, and the requirement document that their claims come to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError

from irontree.domain.comments import MOST_SAID, spoken, without_markers
from irontree.domain.ids import task_key
from irontree.domain.requirements.outline import kind_of
from irontree.domain.review import InvalidAnswer, misfits
from irontree.domain.spec import read_requirements
from irontree.domain.task_types import FEATURE, TASK_TYPES, TaskType
from irontree.domain.text import one_line, without_secrets
from irontree.domain.values import Value
from irontree.errors import RequirementsRefused

_KINDS: Final = {word: each.name for each in TASK_TYPES.values() for word in (*each.words, each.type_label)}
_TITLE: Final = r"[^\W_][^\n`<>@#|*\[\]\\]{0,99}"
"""Plain words: neither Markdown nor a mention."""
_COMMAND: Final = re.compile(r"`+\$[^`]*`+\s*$")

Title = Annotated[str, Field(pattern=rf"^{_TITLE}$")]
Line = Annotated[str, Field(pattern=r"^[^\n]*\S[^\n]*$", max_length=500)]
Prose = Annotated[str, Field(max_length=4_000)]
Few = Field(default=(), max_length=12)


class Claim(Value):
    """A part of the issue that a member would take on."""

    title: Title
    kind: Annotated[TaskType, BeforeValidator(lambda said: _KINDS.get(str(said).casefold(), said))] = FEATURE.name
    task: Prose = ""
    criteria: tuple[Line, ...] = Field(min_length=1, max_length=12)
    depends: tuple[Annotated[str, Field(pattern=rf"^(#[1-9]\d{{0,9}}|{_TITLE})$")], ...] = Few
    """Titles of other parts, of whoever claims them, and issues."""

    @property
    def key(self) -> str:
        """By which two claims are the same part."""
        return task_key((self.title,))


class Contribution(Value):
    """What a member says about an issue."""

    position: Annotated[str, Field(pattern=r"\S", max_length=4_000)]
    advice: Prose = ""
    claims: tuple[Claim, ...] = Few
    risks: tuple[Line, ...] = Few


def read_contribution(content: bytes, secrets: Collection[str]) -> str | InvalidAnswer:
    """A member's answer in its kept form: JSON of a `Contribution`, nothing hidden in it; or why it cannot be used."""
    try:
        raw = Contribution.model_validate_json(content)
        said = Contribution.model_validate(_cleaned(raw.model_dump(), secrets))
    except ValidationError as error:
        return InvalidAnswer(misfits(error))
    problems = [*_problems_of(said.claims)]
    if len(prose(said)) > MOST_SAID:
        problems.append(f"it is longer than {MOST_SAID:,} characters in all")
    return InvalidAnswer(tuple(problems)) if problems else said.model_dump_json()


def contribution_of(answer: str) -> Contribution:
    """The contribution, of an answer as it is kept."""
    return Contribution.model_validate_json(answer)


def _cleaned(said: object, secrets: Collection[str]) -> object:
    match said:
        case str():
            return without_secrets(without_markers(said), secrets)
        case tuple() | list():
            return tuple(_cleaned(each, secrets) for each in said)
        case dict():
            return {key: _cleaned(value, secrets) for key, value in said.items()}
        case _:
            return said


def _problems(claim: Claim, name: str) -> Iterator[str]:
    """Why it cannot be a task of a document as it is: read as one, and named by another one."""
    probe = Claim(title="Another part of it", criteria=("it is there",), depends=(claim.title,))
    if probe.key == claim.key or kind_of(claim.title):
        yield f"{name}: “{claim.title}” cannot be a title, because it has a meaning of its own"
        return
    text = document(1, "Title", (claim.model_copy(update={"depends": ()}), probe))
    wanted = [(claim.title, claim.kind, (), len(claim.criteria)), (probe.title, probe.kind, (claim.key,), 1)]
    try:
        nodes = read_requirements(text.encode(), name).nodes
    except RequirementsRefused as error:
        yield from error.problems
        return
    if [(node.title, node.type, node.depends_on, len(node.criteria)) for node in nodes] != wanted:
        yield f"{name}: it does not read as one task with {len(claim.criteria)} criteria: use plain words"


class RoundReview(Value):
    """What the lead says once all parts of an issue are done: do they go together, cover the goal, what comes next?"""

    goal: Annotated[str, Field(pattern=r"\S", max_length=4_000)]
    coverage: Annotated[str, Field(pattern=r"\S", max_length=4_000)]
    next: Prose = ""
    verdict: Literal["covered", "next_round", "unclear"]
    claims: tuple[Claim, ...] = Few
    """The parts of the next round."""


def read_round(content: bytes, secrets: Collection[str]) -> RoundReview | InvalidAnswer:
    """The lead's answer, with nothing hidden in it; or why it cannot be used."""
    try:
        raw = RoundReview.model_validate_json(content)
        said = RoundReview.model_validate(_cleaned(raw.model_dump(), secrets))
    except ValidationError as error:
        return InvalidAnswer(misfits(error))
    problems = [*_problems_of(said.claims)]
    if said.verdict == "next_round" and not said.claims:
        problems.append("claims: a next round needs at least one part")
    return InvalidAnswer(tuple(problems)) if problems else said


def _problems_of(claims: Iterable[Claim]) -> Iterator[str]:
    for number, claim in enumerate(claims, 1):
        yield from _problems(claim, f"claim {number}")


def round_prose(said: RoundReview) -> str:
    """The same in words for a comment."""
    claims = "\n".join(f"- **{claim.title}** ({claim.kind}){_told(claim)}" for claim in said.claims)
    parts = (said.goal, said.coverage, said.next, f"Next:\n\n{claims}" if claims else "")
    return spoken("\n\n".join(filter(None, parts))).strip()


def grown(source: str, claims: Sequence[Claim]) -> str:
    """The requirement document *source* with these claims as further tasks."""
    titles = {claim.key: claim.title for claim in claims}
    return "\n\n".join((source.rstrip(), *(_section(claim, titles) for claim in claims))) + "\n"


# --- In a comment


def prose(said: Contribution) -> str:
    """The contribution in words for a comment, in which it commands, mentions and closes nothing."""
    claims = "\n".join(f"- **{claim.title}** ({claim.kind}){_told(claim)}" for claim in said.claims)
    risks = "\n".join(f"- {risk}" for risk in said.risks)
    parts = (
        said.position,
        said.advice,
        f"Takes on:\n\n{claims}" if claims else "",
        f"Risks:\n\n{risks}" if risks else "",
    )
    return spoken("\n\n".join(filter(None, parts))).strip()


def _told(claim: Claim) -> str:
    after = f" After: {', '.join(claim.depends)}." if claim.depends else ""
    task = " ".join(filter(None, (one_line(claim.task), "It is done when:")))
    return f": {task} {'; '.join(claim.criteria)}.{after}"


# --- As a document


class Contributed(NamedTuple):
    """Whose contribution it is; None if the member failed to give one."""

    member: str
    said: Contribution | None


class Breakdown(NamedTuple):
    """What a discussion ends in."""

    text: str
    """A requirement document that divides the issue; without claims it has no tasks, and cannot be approved."""
    claimed: tuple[tuple[str, str], ...]
    """Title and member of each part, in order."""
    repeated: tuple[tuple[str, str], ...]
    """What was claimed again, and by whom: the first counts."""
    absent: tuple[str, ...]
    """Members that failed to answer."""


def breakdown(issue_number: int, title: str, contributed: Iterable[Contributed]) -> Breakdown:
    """All claims as the parts of the issue. What depends on something unknown, or on itself, still says so."""
    contributed = tuple(contributed)
    claimed = [(claim, member) for member, said in contributed for claim in (said.claims if said else ())]
    first = {each[0].key: each for each in reversed(claimed)}
    parts = [each for each in claimed if first[each[0].key] is each]
    return Breakdown(
        document(issue_number, title, [claim for claim, _ in parts]),
        tuple((claim.title, member) for claim, member in parts),
        tuple((each[0].title, each[1]) for each in claimed if first[each[0].key] is not each),
        tuple(member for member, said in contributed if said is None),
    )


def document(issue_number: int, title: str, claims: Sequence[Claim]) -> str:
    """The requirement document of these claims."""
    titles = {claim.key: claim.title for claim in claims}
    heading = re.sub(r"[^\w .,:;()/&+'-]+", " ", one_line(title)).strip()
    named = heading if heading and not kind_of(heading) else f"Issue {issue_number}"
    return (
        "\n\n".join((f"# {named}", f"Parent: #{issue_number}", *(_section(claim, titles) for claim in claims))) + "\n"
    )


def _section(claim: Claim, titles: dict[str, str]) -> str:
    depends = (each if each.startswith("#") else titles.get(task_key((each,)), each) for each in claim.depends)
    fields = [f"Type: {claim.kind}", *([f"Depends on: {', '.join(depends)}"] if claim.depends else [])]
    task = "\n".join(f"> {line}".rstrip() for line in _plainly(claim.task).strip().splitlines())
    criteria = "\n".join(f"- [ ] {_criterion(each)}" for each in claim.criteria)
    return "\n\n".join(filter(None, (f"## {claim.title}", "\n".join(fields), task, criteria)))


def _criterion(said: str) -> str:
    """Without an effect on the forge; its command, which a person approves, to the letter."""
    command = _COMMAND.search(said)
    at = command.start() if command else len(said)
    return f"{_plainly(said[:at])}{said[at:]}".strip()


def _plainly(said: str) -> str:
    return spoken(said).replace("@\N{ZERO WIDTH SPACE}", "@ ")  # a document has nothing that nobody sees
