"""Task Keys, Spec Revisions, loop ids and tokens, derived from what they name (phase 1; R8)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal

from anyascii import anyascii

from irontree.domain.plan import Plan, PlanNode, canonical_json

MAX_KEY: Final = 64
_HASH_LENGTH: Final = 6
_STEM_LENGTH: Final = MAX_KEY - _HASH_LENGTH - 1
_REVISION_LENGTH: Final = 8
_ISSUE: Final = re.compile(r"(?:issue-|#)([1-9][0-9]*)", re.IGNORECASE | re.ASCII)


def slugify(text: str) -> str:
    """Lower-case ASCII words joined by single hyphens; empty if *text* has no such words.

    Non-ASCII letters are transliterated; white space and underscores become hyphens, all else is deleted.
    """
    ascii_text = anyascii(unicodedata.normalize("NFC", text)).lower()
    hyphenated = re.sub(r"[\s_]+", "-", ascii_text)
    kept = re.sub(r"[^a-z0-9-]", "", hyphenated)
    return re.sub(r"-+", "-", kept).strip("-")


def task_key(path: tuple[str, ...]) -> str:
    """The Task Key of the node with this path of titles, outermost first (R8).

    It depends on the path alone. If a title has no slug or the key would be longer than 64 characters,
    it is cut to 57 and gets 6 hex of the path's SHA-256.
    """
    slugs = [slugify(title) for title in path]
    key = "-".join(slug for slug in slugs if slug)
    if all(slugs) and len(key) <= MAX_KEY:
        return key
    titles = [" ".join(unicodedata.normalize("NFC", title).split()) for title in path]
    digest = _sha256(canonical_json(titles))[:_HASH_LENGTH]
    return f"{key[:_STEM_LENGTH].rstrip('-')}-{digest}".lstrip("-")


def normalize(text: str) -> str:
    """The text that identity is computed from (R8).

    NFC; CRLF and lone CR are line ends; no white space at the end of a line; no two blank lines in a row, none
    at either end.
    """
    return "\n".join(line for _, line in normalized_lines(text))


def normalized_lines(text: str) -> list[tuple[int, str]]:
    """The lines of `normalize(text)`, each with its number (from 1) in *text*."""
    unified = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
    kept: list[tuple[int, str]] = []
    for number, line in enumerate(unified.split("\n"), start=1):
        stripped = line.rstrip()
        if stripped or (kept and kept[-1][1]):
            kept.append((number, stripped))
    if kept and not kept[-1][1]:
        kept.pop()
    return kept


def spec_digest(source: str, nodes: Iterable[PlanNode], divided: PlanNode | None = None) -> str:
    """64 hex over the normalised document and its nodes, in order of their keys (R8).

    The text of an issue that the document has *divided* is not in the document.
    """
    identities = [_identity(node) for node in sorted(nodes, key=lambda node: node.task_key)]
    text = f"{normalize(source)}\n---\n{canonical_json(identities)}"
    return _sha256(f"{text}\n---\n{divided.text}" if divided else text)


def adopted_digest(title: str, body: str) -> str:
    """64 hex over title and body of an adopted issue, which has no document (protocol)."""
    return _sha256(adopted_source(title, body))


def revision_in(digest: str) -> str:
    """The Spec Revision: the first 8 hex of a text's digest. It is a label; different texts can have the same (R8)."""
    return digest[:_REVISION_LENGTH]


def adopted_source(title: str, body: str) -> str:
    """The text of an adopted issue as its identity is computed from it."""
    return f"{normalize(title)}\n---\n{normalize(body)}"


def computed_digest(plan: Plan) -> str:
    """The digest of the plan's own content; kept tasks are in no document any more."""
    if plan.adoption:
        return _sha256(plan.source)
    nodes = [node for node in plan.nodes if node.task_key not in plan.kept]
    return spec_digest(plan.source, nodes, next(iter(plan.nodes), None) if plan.divides else None)


def digest_of(plan: Plan) -> str:
    """The digest of the text that was approved; plans of earlier versions do not hold it."""
    return plan.digest or computed_digest(plan)


def filed_as(plan: Plan, first: Plan | None) -> str:
    """The name of a plan's file, if *first* is the plan that is filed under its revision."""
    other_text = first is not None and digest_of(first) != digest_of(plan)
    return digest_of(plan) if plan.digest and other_text else plan.spec_revision


def intent_hash(intent: str) -> str:
    """SHA-256 (64 hex) of the normalised request (`loop_started`)."""
    return _sha256(normalize(intent))


def loop_id(moment: datetime, token_hex: str) -> str:
    """`2026-04-22-1432-a3f8b2`, in UTC; *moment* is timezone-aware, *token_hex* is 6 hex digits."""
    return f"{moment.astimezone(UTC):%Y-%m-%d-%H%M}-{token_hex}"


def run_token(issue_number: int, revision: str, sequence: int) -> str:
    """`12/1a2b3c4d/7`: the attempt that began with that `run_started`; the trailer of its commit (R11)."""
    return f"{issue_number}/{revision}/{sequence}"


def attempt_folder(
    issue_number: int, renewed_from: str, run_sequence: int, of: Literal["attempt", "reviews"] = "attempt"
) -> str:
    """The folder below the reports with what the attempt's agent said, keyed by the sequence of its run_started.

    What its reviewers said is beside it: nothing that one agent has to do with is in the folder of another.
    """
    return "/".join(filter(None, (f"issue-{issue_number}", renewed_from, f"{of}-{run_sequence:04d}")))


def parse_issue(text: str) -> int | None:
    """12 for `issue-12` or `#12`; `None` if *text* names no issue."""
    match = _ISSUE.fullmatch(text.strip())
    return int(match[1]) if match else None


def typed_issue(text: str) -> int | None:
    """The same as typed on a command line, where `12` alone is enough."""
    return parse_issue(text) or parse_issue(f"#{text.strip()}")


def _identity(node: PlanNode) -> dict[str, object]:
    identity = node.model_dump(include={"task_key", "title", "type", "shape", "executability"})
    return identity | {"depends_on": sorted(node.depends_on)}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
