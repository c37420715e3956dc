"""Events in the YAML blocks of a comment, as tools before 1.12 wrote them (protocol, Source Of Truth)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from irontree.errors import IrontreeError, LogDamaged
from irontree.ports import Stream
from irontree.store.streams import ISSUE_FORM, problem_of

if TYPE_CHECKING:
    from irontree.domain.events import IssueEvent, Record

_FENCED = re.compile(
    r"^(?P<fence>`{3,}|~{3,})ya?ml[ \t]*\r?\n(?P<yaml>.*?)^(?P=fence)[ \t]*\r?$", re.MULTILINE | re.DOTALL
)
_EVENT = re.compile(rf"^{ISSUE_FORM.block}:", re.MULTILINE)


def read_blocks(text: str, where: str, issue_number: int) -> Stream:
    """The events of the issue in *text*, in the order they stand there; blocks without an event are passed over."""
    records, problems = [], []
    for yaml in _event_blocks(text):
        try:
            records.append(_read(yaml, where, issue_number))
        except IrontreeError as error:
            problems.append(problem_of(where, error))
    highest = max((record.event.sequence for record in records), default=0)
    return Stream(tuple(records), tuple(problems), highest)


def _event_blocks(text: str) -> Iterator[str]:
    blocks = (found["yaml"] for found in _FENCED.finditer(text))
    return (yaml for yaml in blocks if _EVENT.search(yaml))


def _read(yaml: str, where: str, issue_number: int) -> Record[IssueEvent]:
    record = ISSUE_FORM.decode(yaml.encode(errors="surrogatepass"), where)
    if record.event.issue_number != issue_number:
        raise LogDamaged(f"{where}: speaks of issue {record.event.issue_number}")
    return record
