"""What a comment on a forge may hold (R10), and when an issue's author gets a reply (protocol, Reply Dispatch).

A rule's pattern finds the offence and its repair removes it: `comment_problems(slim(text))` is always empty.

The three-way decision of the protocol (Reply Dispatch): a document, a reply, or silence; document and reply are
independent of each other. Pure; in doubt both are "no". It goes by words, because no user is asked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from irontree.domain.events import ISSUE_EVENTS, IssueEvent
from irontree.domain.ids import slugify
from irontree.domain.loop import LOOP_EVENTS
from irontree.domain.plan import PlanNode
from irontree.domain.review import InvalidAnswer
from irontree.domain.task_types import TASK_TYPES
from irontree.domain.text import HIDDEN, LOGIN_IN_URL, SECRET, WITHOUT_LOGIN, inert, without_closing, without_secrets
from irontree.domain.values import ReplyMode

MAX_CHARACTERS: Final = 60_000
NOT_AS_WRITTEN: Final = "**(not as written)**"
"""Behind what a comment does not show to the letter; a comment with it offers no approval."""
"""Below the 65,536 that GitHub takes."""
MAX_TOLD: Final = 10_000
"""What evidence leaves of them to the rest of a comment."""

_MARKER = re.compile(r"^<!-- irontree:[\w:.-]+ -->$", re.MULTILINE)
_KEPT = re.compile(
    r"https?://[^\s<>()\[\]\"'`]+"
    r"|(?<![\w-])(?:[0-9a-f]{16}|revision [0-9a-f]{8}|commit [0-9a-f]{7})(?![\w-])"
)
"""Addresses, what an approval names (a person has to type that), and a commit that is called one."""
_PATH = r"[^\s`'\"()\[\]]"
# The files of the local forge are its pages: whoever reads a comment there has them.
_LOCAL_PAGE = r"\.mino/forge/(?:issues|pulls)/\d{4,9}\.md(?![\w/-])"
_EVENTS = "|".join(sorted((*ISSUE_EVENTS, *LOOP_EVENTS), key=len, reverse=True))
_FIELDS = "|".join(name.replace("_", "[ _]") for name in IssueEvent.model_fields if "_" in name)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern that is not allowed, its name for messages, and its replacement."""

    problem: str
    pattern: re.Pattern[str]
    repair: str | Callable[[re.Match[str]], str]
    kept_allowed: bool = False
    """Whether it may stand in an address or in the name of an approval."""


def _no_hex(found: re.Match[str]) -> str:
    """Keep a long number readable; a commit is linked to by the comment, or not named at all."""
    return f"{int(found[0]):,}" if found[0].isdecimal() else "(commit)"


def _no_local_path(found: re.Match[str]) -> str:
    """Keep the page of an issue or a request of the local forge, from the repository on."""
    page = re.search(_LOCAL_PAGE, found[0])
    return page[0] if page and not found[0][page.end() :].strip(".,:;") else "(a local file)"


_HIDES: Final = (
    _Rule("a secret", re.compile(SECRET), HIDDEN),
    _Rule("a login in an address", re.compile(LOGIN_IN_URL), WITHOUT_LOGIN),
)
_HTML: Final = _Rule("raw HTML", re.compile(r"<(?=[!/?a-z])", re.IGNORECASE), "&lt;")
_RULES: Final = (
    *_HIDES,
    _HTML,
    _Rule("a code fence", re.compile("`{3,}|~{3,}"), "'''"),
    _Rule("a dump of the event log", re.compile(r"^[ \t]*-{3,}", re.MULTILINE), "\N{EM DASH}"),
    _Rule(
        "a path under .mino",
        re.compile(rf"(?!(?<!{_PATH}){_LOCAL_PAGE}){_PATH}{{0,256}}(?<!\w)\.mino\b{_PATH}*"),
        _no_local_path,
    ),
    _Rule("a YAML block", re.compile(r"\biron_tree\s*:"), "iron tree"),
    _Rule("a machine field", re.compile(rf"\b({_FIELDS})\s*:", re.IGNORECASE), "\\1 \N{EN DASH}"),
    _Rule(
        "the name of an event",
        re.compile(rf"\b({_EVENTS})\b"),
        lambda found: found[0].replace("_", " "),
        kept_allowed=True,
    ),
    _Rule(
        "a bare commit SHA",
        re.compile(r"(?<![0-9a-z])(?=[a-f]*[0-9])[0-9a-f]{7,64}(?![0-9a-z])", re.IGNORECASE),
        _no_hex,
        kept_allowed=True,
    ),
)

_BADGES = "\N{CROSS MARK}\N{NO ENTRY SIGN}\N{DOUBLE VERTICAL BAR}\N{WARNING SIGN}"
_HEADING = re.compile(rf"[{_BADGES}]\ufe0f? .*#\d+.*")
_OTHER_BADGES = (
    "\N{WHITE HEAVY CHECK MARK}\N{HEAVY CHECK MARK}\N{HEAVY MULTIPLICATION X}\N{HOURGLASS}"
    "\N{HOURGLASS WITH FLOWING SAND}"
    "\N{LARGE GREEN CIRCLE}\N{LARGE RED CIRCLE}\N{LARGE YELLOW CIRCLE}"
)
_STATUS_EMOJI = re.compile(rf"[{_BADGES}{_OTHER_BADGES}]\ufe0f?")
_LINE = re.compile(
    r"(?P<label>Reason|Action|On a terminal): \S.*|(?P<link>Commit|Docs|Report): https?://\S+|- `/[^`]+`: \S.*"
)


def comment_problems(text: str) -> tuple[str, ...]:
    """What forbids posting the text as a comment of ours, in words; empty if it may be posted.

    The hidden marker line is exempt; event names and SHAs are inside a URL, and hex in the name of an approval.
    """
    visible = _MARKER.sub("", text)
    outside = _KEPT.sub(" ", visible)
    found = [rule.problem for rule in _RULES if rule.pattern.search(outside if rule.kept_allowed else visible)]
    if len(text) > MAX_CHARACTERS:
        found.append(f"more than {MAX_CHARACTERS:,} characters")
    return tuple(found)


_EVIDENCE: Final = re.compile(r"\n### (?:What is to be accepted|What failed)\n")
"""The line below which a status comment shows what a person decides on (R10)."""
_FENCED: Final = re.compile(r"^(`{3,})\w*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_FOLDED: Final = re.compile(r"^(?:</?details>|<summary>[^<>]*</summary>)$", re.MULTILINE)


def told_part(text: str) -> str:
    """A status comment without its evidence, which holds words of agents and of programs."""
    return _EVIDENCE.split(text, maxsplit=1)[0]


def status_problems(text: str) -> tuple[str, ...]:
    """As `comment_problems`, of a status comment: heading, `Reason:`, `Action:`, answers, links; then its evidence."""
    told = told_part(text)
    heading, *lines = [line for line in _MARKER.sub("", told).splitlines() if line.strip()] or [""]
    matches = [_LINE.fullmatch(line) for line in lines]
    labels = [label for match in matches if match and (label := match["label"] or match["link"])]
    problems = [*comment_problems(told), *_evidence_problems(text[len(told) :])]
    if not _HEADING.fullmatch(heading):
        problems.append("no heading that names the issue")
    if not all(matches) or len(set(labels)) < len(labels) or "Action" not in labels:
        problems.append("more or less than Reason, Action and links")
    return tuple(problems)


def _evidence_problems(text: str) -> Iterator[str]:
    """What forbids showing that evidence: names, commits and a diff are its contents, so less does."""
    visible = _MARKER.sub("", text)
    yield from (rule.problem for rule in _HIDES if rule.pattern.search(visible))
    if _HTML.pattern.search(_FOLDED.sub("", _FENCED.sub("", visible))) or "<!--" in visible:
        yield _HTML.problem
    if len(text) > MAX_CHARACTERS - MAX_TOLD:
        yield f"more than {MAX_CHARACTERS - MAX_TOLD:,} characters of evidence"


def reply_problems(text: str) -> tuple[str, ...]:
    """As `comment_problems`; a reply is prose without a status badge (protocol, Comment Classes)."""
    return (*comment_problems(text), *(("a status badge",) if _STATUS_EMOJI.search(text) else ()))


def shows_all(text: str) -> bool:
    """Whether the comment that offers an approval shows what it approves whole and as written."""
    return len(text) <= MAX_CHARACTERS and NOT_AS_WRITTEN not in text


def is_marked(text: str) -> bool:
    """Whether the text has a hidden marker of ours on a line of its own."""
    return _MARKER.search(text) is not None


def marked_problems(text: str) -> tuple[str, ...]:
    """Problems of a comment as it is on the forge, by the class that its first line shows.

    A text without our marker is not one of our comments, whoever wrote it, and has no problems.
    """
    if not is_marked(text):
        return ()
    return status_problems(text) if text.lstrip()[:1] in set(_BADGES) else reply_problems(text)


def plain(text: str) -> str:
    """As `foreign`, and without status badges: for a reply."""
    return _STATUS_EMOJI.sub("", foreign(_STATUS_EMOJI.sub("", text)))


MOST_SAID: Final = 8_000
"""Characters of what a member of the team says in one comment."""
_OUR_COMMENT: Final = re.compile(r"<!--\s*irontree:[^>]{0,200}-->")


def read_said(content: bytes, secrets: Collection[str], called: Collection[str]) -> str | InvalidAnswer:
    """What a member of the team says, fit for a comment; or why it cannot be said. *called* may be mentioned."""
    try:
        text = content.decode("utf-8").strip()
    except UnicodeDecodeError:
        return InvalidAnswer(("the answer is not UTF-8 text",))
    if len(text) > MOST_SAID:
        return InvalidAnswer((f"the answer has {len(text):,} characters: {MOST_SAID:,} are the most",))
    said = spoken(without_secrets(without_markers(text), secrets), called).strip()
    return said or InvalidAnswer(("the answer is empty: nothing is left of it that can be shown",))


def without_markers(text: str) -> str:
    """The text without what looks like a hidden line of ours, and without characters that nobody sees."""
    return _OUR_COMMENT.sub("", "".join(char for char in text if _is_seen(char)))


def spoken(text: str, called: Collection[str] = ()) -> str:
    """An agent's words for a comment: as `slim`, without status badges; they mention *called* alone, and close nothing.

    Accounts are called as they are written there, in any case.
    """
    said = without_closing(slim(_STATUS_EMOJI.sub("", text)))
    names = "|".join(map(re.escape, filter(None, called)))
    if not names:
        return said
    return re.sub(rf"(?i)(?<![\w`/.@-])@\N{{ZERO WIDTH SPACE}}(?=(?:{names})(?![\w-]|[./]\w))", "@", said)


def foreign(text: str) -> str:
    """Make text of agents and strangers fit for a comment: as `slim`, and without an effect on the forge."""
    # An address that is none any more does not protect what is in it.
    return _all_repaired(inert(_fit(text), tick="'", forge=True))


def slim(text: str) -> str:
    """Make text fit for a comment: nothing hidden, no machine terms, no mentions. Links and references work."""
    return re.sub(r"@(?=\w)", "@\N{ZERO WIDTH SPACE}", _fit(text))


def _fit(text: str) -> str:
    return _all_repaired("".join(char for char in text if _is_seen(char)))


def _is_seen(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs"}


def _all_repaired(text: str) -> str:
    repaired = _repaired(text)
    while repaired != text:  # one repair can expose what another one repairs
        text, repaired = repaired, _repaired(repaired)
    return text


def _repaired(text: str) -> str:
    for rule in _RULES:
        text = _outside_kept(rule, text) if rule.kept_allowed else rule.pattern.sub(rule.repair, text)
    return text


def _outside_kept(rule: _Rule, text: str) -> str:
    pieces, end = [], 0
    for kept in _KEPT.finditer(text):
        pieces += [rule.pattern.sub(rule.repair, text[end : kept.start()]), kept[0]]
        end = kept.end()
    return "".join([*pieces, rule.pattern.sub(rule.repair, text[end:])])


# --- Whether to reply to an issue's author


REPLYING: Final = frozenset({"verify_passed", "verify_pending_acceptance", "checkup_done"})
"""Outcomes A and D, and finalization: the events that may note a reply."""
CLOSE_COMMANDS: Final = {"github": "gh issue close {number} --reason completed"}
"""By the forge's name; a user of any other forge closes the issue in their own way."""
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
class ReplyDecision:
    """Yes or no, and the reason for users."""

    yes: bool
    why: str


@dataclass(frozen=True, slots=True)
class Opportunity:
    """A moment at which a reply may be posted."""

    note: str = ""
    """What the verifier or the accepting user wrote there."""
    promoted: bool = False
    """Whether notes of this verification are in the project's documents."""
    written_by_a_person: bool = False
    """Whether the issue was adopted, so that its author is not this program."""
    reports: bool = False
    """Whether the work ends in a report of its kind."""
    replied: bool = False
    unanswered: bool = False
    """Whether it is done, and the last word on the issue is a question, a failure, or that of its author."""


def dispatch_reply(mode: ReplyMode, at: Opportunity) -> ReplyDecision:
    """Whether to post a reply at this opportunity (protocol, Reply Dispatch; `comment.reply`)."""
    if mode == "never":
        return ReplyDecision(False, "comment.reply is never")
    if at.replied:
        return ReplyDecision(False, "there is a reply about this attempt already")
    if mode == "always":
        return ReplyDecision(True, "comment.reply is always")
    if at.reports:
        return ReplyDecision(True, "the steps of this type of task end in a report")
    if at.unanswered:
        return ReplyDecision(True, "the issue would end without a word that it is done")
    if is_actionable(at.note):
        return ReplyDecision(True, "the note asks the reader to do something")
    if at.promoted and at.written_by_a_person:
        return ReplyDecision(True, "the author will want to know the new document")
    return ReplyDecision(False, "there is nothing that its author would have to know")


def is_actionable(note: str) -> bool:
    """Whether a note tells its reader to do something: a sentence with such a verb first, "please", "you must".

    English and Chinese; what was merely observed ("looks good, I ran the tests") is not actionable.
    """
    return bool(_ACTIONABLE.search(note))


def replied_in_window(events: Sequence[IssueEvent], sequence: int) -> bool:
    """Whether an event before *sequence* has a reply, since the last attempt began or a person decided.

    By the log of the issue alone, so that Loop Mode and single commands decide alike.
    """
    for event in reversed([event for event in events if event.sequence < sequence]):
        if getattr(event, "reply_posted", None):
            return True
        if event.event in _OPENS_WINDOW:
            return False
    return False


def decide_promotion(
    mode: ReplyMode, node: PlanNode, setup: Collection[str], changed_files: Collection[str]
) -> ReplyDecision:
    """Whether verified, published work leaves notes in the project's documents (Promotion Heuristic).

    `auto` goes by the task's type, the words of its title and description, the commands that make a checkout ready
    (*setup*), and the names of the changed files; all of them must be in favour.
    """
    if mode != "auto":
        return ReplyDecision(mode == "always", f"report.promotion is {mode}")
    if not TASK_TYPES[node.type].promotes:
        return ReplyDecision(False, f"a task of type {node.type} leaves no notes")
    if _INTERNAL.search(node.title):
        return ReplyDecision(False, "it reads like a fix, internal work or an experiment, of no use beyond its issue")
    if not _TOPIC.search(f"{node.title}\n{node.description}"):
        return ReplyDecision(False, "it is not about setting up, configuring or integrating something")
    if not setup and not any(map(_is_settings, changed_files)):
        return ReplyDecision(False, "it needed no set-up and changed no settings")
    if len(" ".join(node.description.split())) < _SUBSTANTIAL:
        return ReplyDecision(False, "there is too little to say")
    return ReplyDecision(True, "it says how something is set up or integrated, which others will look for")


def document_name(title: str, issue_number: int) -> str:
    """`{slug}.md`: the kebab-case title, at most 60 characters; the issue's number where nothing is left of it."""
    slug = slugify(title)[:MAX_SLUG].strip("-")
    return f"{slug or f'issue-{issue_number}'}.md"


def short_title(title: str) -> str:
    """The title for a commit's subject: one line, at most 50 characters."""
    line = " ".join(title.split())
    return line if len(line) <= _SHORT_TITLE else f"{line[: _SHORT_TITLE - 1].rstrip()}\N{HORIZONTAL ELLIPSIS}"


def is_substantive(*, checks: int, to_judge: Collection[str], note: str) -> bool:
    """Whether there is anything to report: a check that ran, a criterion for a person to judge, or a note."""
    return bool(checks or to_judge or note.strip())


def _is_settings(path: str) -> bool:
    name = path.lower().rpartition("/")[2]
    return name in _SETTINGS_NAMES or name.endswith(_SETTINGS_ENDINGS)
