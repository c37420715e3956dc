"""Whether to reply to who wrote an issue, and whether notes are worth a place in the project's documents.

The three-way decision of the protocol (Reply Dispatch): a document, a reply, or silence; document and reply are
independent of each other. Pure; in doubt both say no. Words are looked at because there is nobody to ask.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from irontree.domain.ids import slugify

if TYPE_CHECKING:
    from irontree.domain.events import IssueEvent
    from irontree.domain.plan import PlanNode
    from irontree.domain.values import CloseOnDone, Mode

REPLYING: Final = frozenset({"verify_passed", "verify_pending_acceptance", "checkup_done"})
"""Outcomes A and D, and finalization: the events that may note a reply."""
CLOSE_COMMANDS: Final = {"github": "gh issue close {number} --reason completed"}
"""By the forge's name; where there is none a person closes the issue in their own way."""
MAX_SLUG: Final = 60
_SHORT_TITLE: Final = 50
_SUBSTANTIAL: Final = 120

_OPENS_WINDOW: Final = frozenset({"run_started", "task_approved", "checkup_unblocked", "checkup_accept_recorded"})
_VERBS = (
    "add|adjust|change|configure|disable|enable|export|install|migrate|move|pin|re-?run|rebuild|regenerate|reload|"
    "remove|rename|replace|restart|rotate|run|set|switch|update|upgrade"
)
_ACTIONABLE: Final = re.compile(
    rf"(?:^|[.;:!?\n]\s*|^\s*(?:[-*+]|\d+[.)])\s+)(?:then |first |now )?(?:{_VERBS})\b"
    r"|\bplease\b|\byou(?:'ll)? (?:can|need|must|should|have to|may|will)\b|\bmake sure\b|\bremember to\b"
    r"|请|需要你|需要您|您需要|你需要|必须|记得",
    re.IGNORECASE | re.MULTILINE,
)
_TOPIC: Final = re.compile(
    r"\b(?:integrat\w*|configur\w*|set-?\s?up|install\w*|deploy\w*|compatib\w*|provider|webhooks?|oauth2?|oidc|saml|sso|"
    r"docker\w*|kubernetes|helm|terraform|ci/?cd|environment variables?|connect(?:or|ion)|adapter|plugins?|sdk)\b"
    r"|集成|配置|安装|部署|兼容|接入|对接",
    re.IGNORECASE,
)
_INTERNAL: Final = re.compile(
    r"\b(?:refactor\w*|clean\s?-?up|renam\w*|restructur\w*|internal\w*|chore|reformat\w*|dead code|bug|fix(?:es|ed)?|"
    r"regression|spike|experiment\w*|prototype|draft|wip|proof of concept|poc|try out|explor\w*)\b"
    r"|重构|清理|实验|试验|原型|修复",
    re.IGNORECASE,
)
_SETTINGS_ENDINGS: Final = (".toml", ".ini", ".cfg", ".conf", ".yml", ".yaml", ".tf", ".properties", ".env")
_SETTINGS_NAMES: Final = frozenset(
    {"dockerfile", "makefile", "package.json", ".env.example", "procfile", "jenkinsfile"}
)


@dataclass(frozen=True, slots=True)
class Decision:
    """Yes or no, and why, for people."""

    yes: bool
    why: str


@dataclass(frozen=True, slots=True)
class Opportunity:
    """A moment at which a reply may be posted."""

    note: str = ""
    """What a person said there: the verifier, or who accepted."""
    promoted: bool = False
    """Whether notes of this verification are in the project's documents."""
    written_by_a_person: bool = False
    """Whether somebody other than this program wrote the issue: it was adopted."""
    replied: bool = False


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a verification came to know that may be of use beyond its issue."""

    node: PlanNode
    setup: tuple[str, ...] = ()
    """The commands that make a checkout ready."""
    changed_files: tuple[str, ...] = ()


def dispatch_reply(mode: Mode, at: Opportunity) -> Decision:
    """Whether to post a reply at this opportunity (protocol, Reply Dispatch; `comment.reply`)."""
    if mode == "never":
        return Decision(False, "comment.reply is never")
    if at.replied:
        return Decision(False, "there is a reply about this attempt already")
    if mode == "always":
        return Decision(True, "comment.reply is always")
    if is_actionable(at.note):
        return Decision(True, "the note asks the reader to do something")
    if at.promoted and at.written_by_a_person:
        return Decision(True, "the author will want to know the new document")
    return Decision(False, "there is nothing that its author would have to know")


def is_actionable(note: str) -> bool:
    """Whether a note tells its reader to do something: a sentence that begins with such a verb, please, you must.

    English and Chinese; what was merely observed ("looks good, I ran the tests") is not actionable.
    """
    return bool(_ACTIONABLE.search(note))


def replied_in_window(events: Sequence[IssueEvent], sequence: int) -> bool:
    """Whether an event before *sequence* has a reply, since the last attempt or a person's decision began.

    By the log of the issue alone, so that Loop Mode and single commands decide alike.
    """
    for event in reversed([event for event in events if event.sequence < sequence]):
        if getattr(event, "reply_posted", None):
            return True
        if event.event in _OPENS_WINDOW:
            return False
    return False


def decide_promotion(mode: Mode, known: Knowledge) -> Decision:
    """Whether verified, published work leaves notes in the project's documents (Promotion Heuristic).

    `auto` looks at the task's type, the words of its title and description, the set-up commands, and the names of
    the changed files; all signs must be for it.
    """
    if mode != "auto":
        return Decision(mode == "always", f"report.promotion is {mode}")
    node = known.node
    if node.type == "bug" or _INTERNAL.search(node.title):
        return Decision(False, "it reads like a fix, internal work or an experiment, of no use beyond its issue")
    if not _TOPIC.search(f"{node.title}\n{node.description}"):
        return Decision(False, "it is not about setting up, configuring or integrating something")
    if not known.setup and not any(map(_is_settings, known.changed_files)):
        return Decision(False, "it needed no set-up and changed no settings")
    if len(" ".join(node.description.split())) < _SUBSTANTIAL:
        return Decision(False, "there is too little to say")
    return Decision(True, "it says how something is set up or integrated, which others will look for")


def document_name(title: str, issue_number: int) -> str:
    """`{slug}.md`: the kebab-case title, at most 60 characters; the issue's number where nothing is left of it."""
    slug = slugify(title)[:MAX_SLUG].strip("-")
    return f"{slug or f'issue-{issue_number}'}.md"


def close_on_done(configured: CloseOnDone | None, node: PlanNode | None) -> CloseOnDone:
    """Who closes an issue that is done: as configured; unset, a person closes a bug, all else is closed (contract)."""
    return configured or ("manual" if node and node.type == "bug" else "auto")


def short_title(title: str) -> str:
    """The title for a commit's subject: one line, at most 50 characters."""
    line = " ".join(title.split())
    return line if len(line) <= _SHORT_TITLE else f"{line[: _SHORT_TITLE - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def is_substantive(*, checks: int, to_judge: Collection[str], note: str) -> bool:
    """Whether there is anything to report: a check that ran, something for a person to judge, or a note."""
    return bool(checks or to_judge or note.strip())


def _is_settings(path: str) -> bool:
    name = path.lower().rpartition("/")[2]
    return name in _SETTINGS_NAMES or name.endswith(_SETTINGS_ENDINGS)
