"""Answers that users give in comments on the forge: one pass over all open questions (R9, R20).

Each answer is processed at least once and takes effect once: an event names the comment that it follows from, our reply
the one that it refuses. Only text by users with write access, checked on the forge, can be a command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from irontree.app import App, Origin
from irontree.domain import typed
from irontree.domain.commands import Command, Malformed, Unread, parse_command, unread_command
from irontree.domain.comments import is_marked, told_part
from irontree.domain.gates import APPROVES_RULES, Gate
from irontree.domain.issues import Comment
from irontree.domain.timestamps import moment_in_utc, utc_text
from irontree.errors import (
    FORGE_FAILED,
    AccessRefused,
    AnswerRefused,
    Busy,
    IrontreeError,
    RemoteFailed,
    RemoteUnavailable,
    in_words,
)
from irontree.services.answers.answers import Answer, answer_issue, answer_loop, between_steps, validate
from irontree.services.answers.lookout import Lookout
from irontree.services.delivery.comments import answer_marker, ask_for_approval, asked_at, asked_in_comments, post_once
from irontree.services.loops.loop import open_loops
from irontree.services.questions.listing import asked_about
from irontree.services.questions.questions import COMMENT, Question, counted_at, gate_at, so_far
from irontree.services.record import read_world
from irontree.services.views.history import rules_for_denied, rules_in_words

SKEW: Final = timedelta(hours=1)
"""How long before the question comments are read, because the forge's clock may differ from ours."""
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
WAIT_SECONDS: Final = 5.0
SETTLED_KEPT: Final = 200

CommentOutcome = Literal["taken", "counted", "refused", "later"]
"""`counted`: the answer counts, but its gate requires more approvers."""


@dataclass(frozen=True, slots=True)
class CommentResult:
    """The result for one comment; with `later` and no comment, why an issue could not be checked now."""

    issue_number: int
    outcome: CommentOutcome
    by: str = ""
    comment: str = ""
    said: str = ""
    loop_id: str | None = None
    """The loop that asked; None if the issue did."""
    not_before: datetime | None = None
    """When the forge may be asked again, if it said so."""
    failed: bool = False
    """Whether a user may have to act; False while another driver holds the lock."""
    ended_pass: bool = False
    """Whether the pass stopped here because the forge is unavailable or denies access."""


def look(app: App, lookout: Lookout | None = None) -> tuple[CommentResult, ...]:
    """Take the answers in comments under open questions; the forge is asked only if a question is open.

    *lookout* says which are due; without one, all are.

    The caller resumes the runs that waited for answers with the outcome `taken`. Errors that time can cure are not
    raised but returned as `later`; they end the pass if the forge is unavailable or denies access.
    """
    return tuple(_looks(app, lookout or Lookout()))


def _looks(app: App, lookout: Lookout) -> Iterator[CommentResult]:
    """Yield results one by one: answers that were taken stay in force if a later one fails."""
    questions = asked_in_comments(app)
    try:
        due = lookout.due(app, questions, min(map(_since, questions), default=""))
    except FORGE_FAILED as error:
        yield _failed(questions[0], error)
        return
    for asked in due:
        try:
            yield from _look_at(app, asked)
            lookout.looked(asked, app.clock.now())
        except Busy as error:
            yield CommentResult(asked.under, "later", said=error.message)
        except FORGE_FAILED as error:
            failed = _failed(asked, error)
            yield failed
            if failed.ended_pass:
                return


def _failed(asked: Question, error: IrontreeError) -> CommentResult:
    """The result for *error*, which ends the pass unless it concerns this issue alone."""
    is_of_this_issue = isinstance(error, RemoteFailed) and not isinstance(error, (RemoteUnavailable, AccessRefused))
    return CommentResult(
        asked.under,
        "later",
        said=in_words(error),
        not_before=getattr(error, "not_before", None),
        failed=True,
        ended_pass=not is_of_this_issue,
    )


def _look_at(app: App, asked: Question) -> Iterator[CommentResult]:
    comments = app.forge().comments_since(asked.under, _since(asked))
    if any(_commands(app, asked.under, comments)):
        with between_steps(app, f"issue-{asked.under}, comments", wait_seconds=WAIT_SECONDS):
            yield from _settle(app, asked, comments)
    now = asked_at(app, asked.under)
    if now and now.key == asked.key:
        ask_for_approval(app, asked, comments)


def _since(asked: Question) -> str:
    return utc_text(_moment(asked.since) - SKEW)


def _commands(
    app: App, issue_number: int, comments: tuple[Comment, ...]
) -> Iterator[tuple[Comment, Command | Malformed]]:
    """Commands that are not settled yet; comments by this program quote commands but never give one."""
    settled = app.deliveries.load(issue_number).settled
    for comment in comments:
        is_new = comment.id not in settled and not (comment.ours and is_marked(comment.body))
        if is_new and (command := parse_command(comment.body) or unread_command(comment.body)):
            yield comment, command


def _settle(app: App, asked: Question, comments: tuple[Comment, ...]) -> Iterator[CommentResult]:
    """Settle the commands in order: once one of them is taken, its question is closed to the next."""
    for comment, command in [*_commands(app, asked.under, comments)]:
        if _is_recorded(app, asked.under, comment):
            _react(app, asked.under, comment, "taken")
            yield _looked(asked, "taken", comment)
        elif not _is_out_of_place(asked, comment, command, comments) and app.forge().may_write(comment.author):
            yield _answer(app, asked, comment, command, comments)
        ledger = app.deliveries.load(asked.under)
        settled = (*_still_seen(ledger.settled, comments), comment.id)
        app.deliveries.save(asked.under, replace(ledger, settled=settled))


def _is_out_of_place(
    asked: Question, comment: Comment, command: Command | Malformed, comments: tuple[Comment, ...]
) -> bool:
    """Whether what was not read was no answer to this question anyway: of that its author is told nothing."""
    return isinstance(command, Unread) and (comment.edited or _came_before(asked, comment, comments))


def _still_seen(settled: tuple[str, ...], comments: tuple[Comment, ...]) -> Iterator[str]:
    """Settled comments that the next listing may return, and the newest ones, because listings lag."""
    seen, newest = {comment.id for comment in comments}, set(settled[-SETTLED_KEPT:])
    return (known for known in settled if known in seen or known in newest)


def _answer(
    app: App, asked: Question, comment: Comment, command: Command | Malformed, comments: tuple[Comment, ...]
) -> CommentResult:
    try:
        _require_own_words(asked, comment, comments)
        outcome = _follow(app, asked, comment, command, comments)
    except AnswerRefused as error:
        _tell(app, asked.under, comment, command, error)
        return _looked(asked, "refused", comment, in_words(error))
    _react(app, asked.under, comment, outcome)
    return _looked(asked, outcome, comment)


def _react(app: App, issue_number: int, comment: Comment, outcome: CommentOutcome) -> None:
    """Show on the comment that it was taken, or counts; tried once, because nothing depends on it."""
    with suppress(*FORGE_FAILED):
        app.forge().react(issue_number, comment.id, "+1" if outcome == "taken" else "eyes")


def _follow(
    app: App, asked: Question, comment: Comment, command: Command | Malformed, comments: tuple[Comment, ...]
) -> CommentOutcome:
    """Have the answer validated and recorded, once as many users have given it as its gate requires."""
    if isinstance(command, Unread):
        raise AnswerRefused(command.reason, remedy="if it is yours, write it in a line of its own at the top")
    if isinstance(command, Malformed):
        raise AnswerRefused(command.reason)
    answer = _answer_of(asked, comment.author, command)
    said: tuple[Comment, ...] = (comment,)
    _require_open(app, asked)
    gate = gate_at(read_world(app), asked, command.choice)
    if command.choice.name == APPROVES_RULES:
        _require_shown_rules(app, asked, comments, gate)
    if gate:
        said = _counted(app, asked, gate, _voices(app, asked, command, comments))
        if not _counted(app, asked, gate, (comment,)):
            raise AnswerRefused(
                "you asked for this work, and its gate requires another approver", remedy="ask a colleague"
            )
        if len(said) < gate.approvers:
            validate(asked, answer)
            _count(app, asked, gate, comment, command, said, comments)
            return "counted"
    voters = tuple(one.author for one in said)
    _record(_on_behalf_of(app, comment, said), asked, replace(answer, by=", ".join(voters), voters=voters))
    return "taken"


def _require_shown_rules(app: App, asked: Question, comments: tuple[Comment, ...], gate: Gate | None) -> None:
    """Raise AnswerRefused unless our comment that asks shows, unedited, every rule that the answer approves (R6)."""
    shown = "\n".join(told_part(one.body) for one in comments if _asks(asked, one) and not one.edited)
    rules = rules_in_words(rules_for_denied(app.log.read(asked.under)))
    if not all(f"`{words}`" in shown for words in rules):
        there = f"`{typed.answer(asked.under, 'allow')}` approves what `irontree show issue-{asked.under}` shows, or "
        raise AnswerRefused(
            "the comment that asks does not show which rules this would approve",
            remedy=f"{'' if gate else there}add them to agent.permissions and approve that",
        )


def _require_open(app: App, asked: Question) -> None:
    """Raise AnswerRefused if an earlier comment, a form or a command has already answered the question."""
    now = asked_at(app, asked.under)
    if now is None or now.key != asked.key:
        what = "asks something else now" if now else "has no open question"
        raise AnswerRefused(
            f"issue-{asked.under} {what}: this one was answered already",
            remedy=f"`irontree show issue-{asked.under}` shows what happened",
        )


def _counted(app: App, asked: Question, gate: Gate, said: tuple[Comment, ...]) -> tuple[Comment, ...]:
    names = counted_at(app, read_world(app), asked, gate, tuple(one.author for one in said))
    return tuple(one for one in said if one.author in names)


def _voices(app: App, asked: Question, command: Command, comments: tuple[Comment, ...]) -> tuple[Comment, ...]:
    """Of each user with write access the newest comment, if it says the same as *command*; computed anew each time.

    Edited and deleted comments do not count, nor do those of users who lost write access. The forge keeps the votes;
    our log names the voters once they are enough.
    """
    newest: dict[str, tuple[Comment, Command]] = {}
    for comment in comments:
        found = None if comment.edited or _came_before(asked, comment, comments) else parse_command(comment.body)
        if isinstance(found, Command) and found.choice.permits:
            newest[comment.author.casefold()] = (comment, found)
    same = (comment for comment, found in newest.values() if _says(found) == _says(command))
    return tuple(comment for comment in same if app.forge().may_write(comment.author))


def _says(command: Command) -> tuple[str, str]:
    return command.choice.name, command.argument


def _count(
    app: App,
    asked: Question,
    gate: Gate,
    comment: Comment,
    command: Command,
    said: tuple[Comment, ...],
    comments: tuple[Comment, ...],
) -> None:
    """Tell and store who has voted, if that changed, for display; the count itself is computed anew each time.

    Who had voted, and whose comment was edited since, is named: nothing else tells them to vote again.
    """
    number, voters = asked.under, tuple(one.author for one in said)
    ledger = app.deliveries.load(number)
    if (ledger.voted_on, ledger.voters) == (asked.key, voters):
        return
    marker, words = answer_marker(number, comment.id), f"/{command.choice.word} {command.argument}".strip()
    voted = ledger.voters if ledger.voted_on == asked.key else ()
    edited = dict.fromkeys(one.author for one in comments if one.edited and one.author in {*voted} - {*voters})
    text = app.renderer.render(
        "comments/counted.md", marker=marker, command=words, so_far=so_far(gate, voters), edited=", ".join(edited)
    )
    post_once(app, number, text, marker)
    app.deliveries.save(number, replace(ledger, voted_on=asked.key, voters=voters))


def _require_own_words(asked: Question, comment: Comment, comments: tuple[Comment, ...]) -> None:
    """Raise AnswerRefused for an edited comment, which others may have changed, and for one older than the question."""
    if comment.edited:
        raise AnswerRefused("the comment was edited, possibly by someone else", remedy="say it in a new comment")
    if _came_before(asked, comment, comments):
        raise AnswerRefused("it was said before this was asked", remedy="say it again if you still mean it")


def _asks(asked: Question, comment: Comment) -> bool:
    """Whether this is our comment that asks the question."""
    return comment.ours and any(marker in comment.body for marker in asked.markers)


def _came_before(asked: Question, comment: Comment, among: tuple[Comment, ...]) -> bool:
    """Whether it was posted before the question: by the forge's order if our comment is listed, else by its time."""
    asking = [at for at, known in enumerate(among) if _asks(asked, known)]
    if asking:
        return among.index(comment) < asking[0]
    return _moment(comment.created_at) <= _moment(asked.since)


def _moment(text: object) -> datetime:
    """Parse an ISO 8601 time, in UTC if it names no zone; text that is no time counts as long ago."""
    return moment_in_utc(text) or LONG_AGO


def _record(app: App, asked: Question, answer: Answer) -> None:
    if asked.issue_number is None:
        answer_loop(app, asked.loop_id or "", answer)
    else:
        answer_issue(app, asked.issue_number, answer, asked.loop_id)


def _answer_of(question: Question, by: str, command: Command) -> Answer:
    """The answer that *command* gives to *question*. Raises AnswerRefused if it names another task."""
    kind, argument = command.choice.argument, command.argument
    if kind == "key" and argument != question.task_key:
        raise AnswerRefused(f"{argument} is not the task that asks here", remedy=f"it is {question.task_key}")
    is_count = kind == "count" and argument.isdecimal()
    return Answer(
        command.choice.name,
        by,
        note=command.note,
        count=int(argument) if is_count else None,
        amount=argument if kind == "count" and not is_count else None,
        revision=argument if kind == "revision" else None,
        question=question.key,
    )


def _on_behalf_of(app: App, comment: Comment, said: tuple[Comment, ...]) -> App:
    together = tuple(f"{one.author} {one.url}" for one in said) if len(said) > 1 else ()
    origin = Origin(comment.author, COMMENT, comment=comment.url, commented_at=comment.created_at, approvers=together)
    return replace(app, origin=origin)


def _is_recorded(app: App, issue_number: int, comment: Comment) -> bool:
    """Whether an event names this comment: a crash may have come between the event and the ledger."""
    issue = (record.told for record in app.log.read(issue_number).records)
    loops = (record.told for loop_id in app.loops.ids() for record in app.loops.read(loop_id).records)
    named = ((told.comment, *(approver.partition(" ")[2] for approver in told.approvers)) for told in (*issue, *loops))
    return any(comment.url in urls for urls in named)


def _tell(app: App, issue_number: int, comment: Comment, command: Command | Malformed, error: AnswerRefused) -> None:
    """Reply once to the comment: why its answer was refused, and which answers would be taken."""
    marker, now = answer_marker(issue_number, comment.id), _named(app, asked_at(app, issue_number))
    text = app.renderer.render(
        "comments/not-taken.md",
        marker=marker,
        command=_command_of(comment, command),
        reason=error.message,
        remedy=error.remedy or "",
        answers=now.usages() if now else (),
    )
    post_once(app, issue_number, text, marker)


def _command_of(comment: Comment, command: Command | Malformed) -> str:
    if isinstance(command, Unread):
        return command.word
    return f"/{command.choice.word}" if isinstance(command, Command) else comment.body.strip()


def _named(app: App, question: Question | None) -> Question | None:
    """The question with the name that an approval has to give, as far as it can be read now."""
    if question is None or question.reason != "reapproval_required":
        return question
    world = read_world(app)
    listed = asked_about(app, world, open_loops(app), world.state(question.under))
    return replace(question, revision=listed.revision) if listed else question


def _looked(asked: Question, outcome: CommentOutcome, comment: Comment, said: str = "") -> CommentResult:
    of_loop = asked.loop_id if asked.issue_number is None else None
    return CommentResult(asked.under, outcome, comment.author, comment.url, said, of_loop)
