"""Whether two failures of a check are the same: what differs between equal runs is ignored, the rest compared.

Equal fingerprints mean that an attempt came to exactly what the one before came to; see
docs/decisions/0012-same-failure.md. In doubt two failures differ: that costs an attempt, not a person's time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from irontree.domain.plan import canonical_digest

if TYPE_CHECKING:
    from irontree.domain.results import CheckResult

EXCERPT_LINES: Final = 8
EXCERPT_CHARACTERS: Final = 160
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TELLING: Final = re.compile(
    r"\b(?:[a-z]*(?:error|exception|fail(?:ed|ure|ures|s)?)|assert\w*|panic\w*|fatal|traceback|undefined|unresolved|"
    r"undeclared|missing|cannot|can't|not found|no such|not ok|expected|unexpected|refused|denied|invalid|timed? ?out|"
    r"segmentation fault|killed)\b|^E\s|[\u2717\u2718\u2715\u00d7]",
    re.IGNORECASE,
)
_TEMPORARY: Final = (
    r"(?:/private)?(?:/var/folders/[^/\s]+/[^/\s]+/T|/(?:var/)?tmp|[a-z]:[\\/](?:[^\\/\s]+[\\/])*te?mp)"
    r"[\\/][^\\/\s:'\"]+(?:[\\/](?:pytest-\d+|tmp[^\\/\s:'\"]*))*"
)
# In this order: a later pattern must not find what an earlier one has put in place of its own.
_CHANGING: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
        (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<id>"),
        (_TEMPORARY, "<temporary>"),
        (r"\b0x[0-9a-f]+\b", "<address>"),
        (r"\b(localhost|(?:\d{1,3}\.){3}\d{1,3}|\[::1?\]):\d+\b", r"\1:<port>"),
        (r"\b(pid|process|thread|port|seed|gw)([ =:#]*)\d+\b", r"\1\2<number>"),
        (r"\b\d+(?:\.\d+)?\s*(?:ns|µs|us|ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b", "<duration>"),
        (r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b", "<sha>"),
        (r"\bline \d+\b", "line <line>"),
        (r"(\.\w+)(?::\d+(?::\d+)?\b|\(\d+(?:,\d+)?\))", r"\1:<line>"),
        (r"\[\s*\d+(?:%|/\d+)\s*\]|\b\d+(?:\.\d+)?%", ""),
        (r"([=\-_*#.~^])\1{2,}", r"\1\1\1"),
    )
)


def fingerprint(failed: CheckResult) -> str:
    """16 hex over what failed and how: check, command, end, exit code, and the lines that tell why.

    Times, durations, addresses, temporary paths, ids, commits, line numbers and the order of lines count for nothing;
    of a check that did not end by itself neither does its output, which was cut off anywhere.
    """
    output = failed.output if failed.ended == "exited" else ""
    return fingerprint_of((failed.name, failed.command, failed.ended, failed.exit_code), output)


def fingerprint_of(facts: Sequence[str | int | None], output: str) -> str:
    """The same for a failure that is no result of a check of ours, such as one of CI."""
    return canonical_digest([*facts, sorted(map(normalised, telling_lines(output)))])[:16]


def telling_lines(output: str) -> tuple[str, ...]:
    """The lines that name what failed, as they were printed; all lines where none seems to."""
    lines = tuple(line for raw in output.split("\n") if (line := _plain(raw)))
    return tuple(line for line in lines if _TELLING.search(line)) or lines


def excerpt(failed: CheckResult) -> str:
    """The last telling lines, few and short enough to stand beside those of another attempt."""
    lines = [line[:EXCERPT_CHARACTERS] for line in telling_lines(failed.output)[-EXCERPT_LINES:]]
    return "\n".join(lines) or failed.complaint


def normalised(line: str) -> str:
    """The line with what changes from run to run replaced by the name of its kind."""
    for pattern, instead in _CHANGING:
        line = pattern.sub(instead, line)
    return " ".join(line.split())


def _plain(raw: str) -> str:
    """What is left to read of a line on a terminal: the text behind its last carriage return, without colours."""
    return _ESCAPES.sub("", raw).rstrip("\r").rpartition("\r")[2].strip()
