"""Every exception this library raises on purpose, grouped by who must act.

::

    IrontreeError                      what happened, where, and what to do next
    ├── Refused                        the user asked for something the protocol does not allow now
    │   ├── RequirementsRefused        the requirement document has problems (all of them listed)
    │   ├── ApprovalRefused            the approval does not fit what would be done
    │   ├── AnswerRefused              wrong, stale, early or second answer to a question
    │   ├── NotEligible                this step is not legal for this issue now
    │   │   ├── NothingToDo            all that was named is done, or is not there
    │   │   └── NeedsBreakdown         the issue is composite, and has to be split first
    │   ├── BranchUndecided            somebody has to choose the branch of a workflow first
    │   ├── Busy                       somebody else holds the lock
    │   └── ConfigRefused              .mino/config.yml does not say what it must
    ├── EnvironmentRefused             the machine or the repository is not ready (git, disk, tools)
    │   ├── GitFailed                  a git command failed; carries its output
    │   ├── NotARepository             no git repository here, or one that cannot be used
    │   └── ServerUnavailable          the Prefect server cannot be reached or started
    ├── RemoteFailed                   a forge or git remote said no
    │   ├── RemoteUnavailable          it may work later: outage, rate limit, time-out
    │   ├── AccessRefused              repeating cannot cure it: token, rights, archived, issues off, repository gone
    │   └── PublicationRefused         repeating cannot cure it: protected, conflict, authentication
    ├── LogDamaged                     files under .mino contradict each other
    │   ├── SequenceConflict           another writer appended first
    │   └── IllegalTransition          an event does not fit the state before it
    └── Cancelled                      the person or the server asked us to stop

Protocol outcomes (blocked, retryable, pending) are values and events, never exceptions.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal


class IrontreeError(Exception):
    """Base class: *message* says what happened and where, *remedy* what to do next."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def in_words(error: IrontreeError) -> str:
    """What happened and what to do next, as one text."""
    return ". ".join(filter(None, (error.message.rstrip("."), error.remedy)))


class Refused(IrontreeError):
    """The request is understood and not allowed now; nothing was changed."""


class RequirementsRefused(Refused):
    """A requirement document has problems; *problems* holds one line per problem."""

    def __init__(self, problems: tuple[str, ...], *, remedy: str | None = None) -> None:
        super().__init__("\n".join(problems), remedy=remedy)
        self.problems = problems


class ApprovalRefused(Refused):
    """The revision approved is not the revision that would be executed."""


class AnswerRefused(Refused):
    """An answer does not fit the question that is open, or none is open."""


class NotEligible(Refused):
    """The step is not legal for the issue in its present state."""


class NothingToDo(NotEligible):
    """Of what was named, nothing is left to do."""


class NeedsBreakdown(NotEligible):
    """Issue *number* is composite: it has to be split before it can be worked on."""

    def __init__(self, message: str, *, number: int, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.number = number


class BranchUndecided(Refused):
    """Where a workflow is worked on is for a person to say; *choices* are what to say, each with what it means."""

    def __init__(self, message: str, *, choices: tuple[tuple[str, str], ...], remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.choices = choices


class Busy(Refused):
    """Another live process holds the driver lock or the loop lease."""


class ConfigRefused(Refused):
    """.mino/config.yml, a plan or the environment holds a value we cannot accept."""


class EnvironmentRefused(IrontreeError):
    """Something on this machine or in this repository has to be put right first."""


class GitFailed(EnvironmentRefused):
    """A git command ended with an error; *output* is what git said, *killed* whether a signal ended it."""

    def __init__(self, message: str, *, output: str = "", remedy: str | None = None, killed: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.output = output
        self.killed = killed


class NoSuchBranch(GitFailed):
    """There is no branch of that name, neither here nor on the remote."""


class NotARepository(EnvironmentRefused):
    """There is no usable git repository at the given place."""


class ServerUnavailable(EnvironmentRefused):
    """The Prefect server cannot be reached or started."""


class RemoteFailed(IrontreeError):
    """A forge or a git remote refused or failed."""


class RemoteUnavailable(RemoteFailed):
    """The remote may answer later (outage, rate limit, time-out); not before *not_before*, where it said when."""

    def __init__(self, message: str, *, remedy: str | None = None, not_before: datetime | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.not_before = not_before


AccessProblem = Literal["authentication", "permission", "archived", "issues-disabled", "not-found"]


class AccessRefused(RemoteFailed):
    """The forge denies access until a user changes what *reason* names."""

    def __init__(self, message: str, *, reason: AccessProblem, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason


class PublicationRefused(RemoteFailed):
    """The remote said no for good (protected branch, conflict, authentication)."""

    def __init__(self, message: str, *, reason: str, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason


class LogDamaged(IrontreeError):
    """Files under .mino contradict each other or the protocol."""


class SequenceConflict(LogDamaged):
    """The stream is no longer at the sequence the writer expected."""


class IllegalTransition(LogDamaged):
    """An event does not fit the state before it."""


class Cancelled(IrontreeError):
    """The person or the server asked for the work to stop."""


FORGE_FAILED: Final = (RemoteFailed, ConfigRefused, EnvironmentRefused)
"""Errors that only postpone an effect on the forge (R9): the configuration may be in the middle of an edit, or the
token may be missing. The effect is made next time; the work goes on."""
