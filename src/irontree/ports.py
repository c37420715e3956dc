"""What the services need from the world: small Protocols, and the values that cross them.

Adapters implement these; `bootstrap` wires them; every port has a contract suite in tests/contract that all its
adapters pass. Foreign exceptions are mapped to `irontree.errors` inside the adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
)
from urllib.parse import quote

from pydantic import ConfigDict, Field, with_config

from irontree.domain.agent_requests import AskedAgent, StandingApproval
from irontree.domain.attempt import AttemptEnd, Claim, FailureClass, Usage
from irontree.domain.budgets import Allowance
from irontree.domain.checks import CheckReport, CheckResult
from irontree.domain.events import E, IssueEvent, Record
from irontree.domain.issues import Comment, Issue
from irontree.domain.loop import LoopEntity, LoopEvent
from irontree.domain.machine import Replay, replay
from irontree.domain.places import PlaceSpec, SandboxKind
from irontree.domain.plan import Plan, PublishPolicy, Shell, WorkspacePolicy
from irontree.domain.protection import LineCount
from irontree.domain.spending import Spending
from irontree.domain.workflow.checkout import Checkout as UserCheckout
from irontree.domain.workflow.step import Artifact, Browser, Command

if TYPE_CHECKING:
    from irontree.domain.workflow.compile import Ticked
    from irontree.domain.workflow.run import Run


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """The present moment, timezone-aware, UTC."""


class Cancellation(Protocol):
    """A request to stop; `threading.Event` implements it."""

    def is_set(self) -> bool:
        """True once a stop was asked for."""

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep at most *timeout* seconds; True at once when a stop is asked for."""


class Progress(Protocol):
    """Progress output of a step: to a terminal, a Prefect log, or nowhere."""

    def note(self, text: str) -> None:
        """Show one line to a watching user."""


class Renderer(Protocol):
    """Turns a template and typed values into text."""

    def render(self, template: str, **values: object) -> str:
        """Render `templates/{template}.j2`; an undefined name is an error."""


# --- Locks, their holders, and child processes (R3)


class Holder(NamedTuple):
    """Who holds a lock: shown to people, never used to decide liveness (R3)."""

    what: str
    """For example `issue-12, run` or a loop id."""
    since: str
    pid: int
    """0 if the holder wrote no process id."""
    host: str

    @property
    def about(self) -> str:
        """Which process, where, since when, in words; also for a holder without a name."""
        if not self.pid:
            return "it left no name; `fuser` tells who has the file open"
        return f"process {self.pid} on {self.host}, since {self.since}"


class Lock(Protocol):
    """A kernel-held exclusive lock: the driver lock of a repository, or a loop's lease."""

    def hold(self, what: str, *, wait_seconds: float = 0) -> AbstractContextManager[None]:
        """Hold the lock for the block; raises Busy (naming the holder) if it is not free within *wait_seconds*."""

    def holder(self) -> Holder | None:
        """Who holds it now; None when it is free."""


class LeftLease(NamedTuple):
    """An abandoned lease: its loop, if that can be read, and a description."""

    loop_id: str | None
    words: str


class Lease(Lock, Protocol):
    """The lease of the active loop; beside it `active.lock` for people and other tools (protocol, Active Lease; R3)."""

    def foreign(self) -> str | None:
        """The active loop of another tool or host that is believed to live, in words."""

    def stale(self) -> LeftLease | None:
        """A lease left by another tool or host: to be taken over once an operator confirms that."""

    def left(self) -> LeftLease | None:
        """A lease left by one of our own processes, which the kernel says is gone: needs no confirmation."""

    def remove_left(self) -> None:
        """Remove a lease that `left` names; one that is held again by then stays."""

    def override(self) -> None:
        """Remove a stale one of another tool or host; any other stays."""


class RunLock(Protocol):
    """The contract's `.mino/run.lock`: information for people and other tools; liveness is the driver lock's (R3)."""

    def write(self, task_key: str, issue_number: int) -> None:
        """Write that this issue is being worked on."""

    def remove(self) -> None:
        """Remove the file if we wrote it; no error if there is none, or another tool's."""

    def stale(self) -> str | None:
        """Its writer, in words, if another tool or host wrote it too long ago: to be overridden once confirmed."""

    def override(self) -> None:
        """Remove a stale one of another tool or host; any other stays."""

    def foreign(self) -> str | None:
        """Its holder, in words, if another tool or host wrote it less than the stale threshold ago."""


class Children(Protocol):
    """The processes that an earlier driver of this repository left behind (R3)."""

    def kill_leftovers(self) -> int:
        """Kill those recorded that are still the same process; returns how many."""

    def left_behind(self) -> tuple[str, ...]:
        """The commands of those recorded, living or not, until `kill_leftovers`: they ran when their driver died."""


# --- Files under `.mino/`: the log, what is derived from it, and what was delivered


class Problem(NamedTuple):
    """A file of the log that cannot be used, described for the operator who must repair it."""

    path: str
    what: str
    newer: bool = False
    """A newer version wrote it: nothing is wrong with the file, and nothing is missing (S3)."""


class Ordered(Protocol):
    """A sortable value."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether it comes before *other*."""


N = TypeVar("N", bound=Ordered)
"""A stream's name within its kind: an issue's number, a loop's id."""


@dataclass(frozen=True)  # with slots too, `Stream()` cannot be called (Python 3.11)
class EventStream(Generic[E]):
    """The events of one stream in sequence order, and what could not be read."""

    records: tuple[Record[E], ...] = ()
    problems: tuple[Problem, ...] = ()
    highest_sequence: int = 0
    """The highest sequence among the stream's file names, readable or not: what `append` expects."""

    @property
    def last_sequence(self) -> int:
        """The highest sequence with a readable event; 0 for an empty stream."""
        return self.records[-1].event.sequence if self.records else 0

    def replayed(self: EventStream[IssueEvent]) -> Replay:
        """The replayed state. Events by a newer version are not a gap, but nothing may follow before the upgrade."""
        found = replay(self.records, highest_sequence=self.highest_sequence)
        newer = next((problem for problem in self.problems if problem.newer), None)
        if newer is None:
            return found
        state = replace(found.state, problem=newer.what, newer=True) if found.state else None
        return Replay(state, problem=newer.what)


Stream: TypeAlias = EventStream[IssueEvent]


class EventLog(Protocol[N, E]):
    """The append-only log of one kind of stream (R1, R2, R13)."""

    def streams(self) -> tuple[N, ...]:
        """Names of the streams that there are, ascending."""

    def read(self, name: N) -> EventStream[E]:
        """All events of the stream; unreadable files become problems, never exceptions."""

    def append(self, event: E, *, expected_sequence: int, meta: Mapping[str, Any] | None = None) -> Record[E]:
        """Write *event* durably as `expected_sequence + 1`.

        `expected_sequence` is the highest sequence among the stream's file names, readable or not (0: none);
        `event.sequence` must be one more. Adds `meta.time` and `meta.previous` (digest chain, R10).
        Raises SequenceConflict when another writer was faster.
        """

    def read_text(self, text: str, where: str, name: N) -> EventStream[E]:
        """The events of the stream in the YAML blocks of *text*, a comment at *where*, in any order (older tools)."""

    def restore(self, name: N, records: Sequence[Record[E]]) -> None:
        """Write the events of a stream that has none here, each under its own sequence: all of them or none.

        Raises SequenceConflict if it has any by now.
        """

    def archive(self, name: N, revision: str) -> Path:
        """Move the stream away by one atomic rename; returns where to. It can then begin again (R7)."""

    def archive_name(self, name: N, revision: str) -> str:
        """The name of the folder that `archive` would move the stream to: the first that is free."""

    def archives(self, name: N | None = None) -> tuple[str, ...]:
        """Names of the folders that earlier streams of that name, or of any, were moved to, oldest first."""

    def read_archived(self, archive: str) -> EventStream[E]:
        """All events of a stream that was moved away, by the name that `archives` gives."""

    def record_reply(self, name: N, sequence: int, url: str) -> None:
        """Set `reply_posted` of that event from null to *url*, once (R10)."""


IssueLog: TypeAlias = EventLog[int, IssueEvent]


class Reading(NamedTuple):
    """A stream's replayed state, what it cost, and the files that could not be read."""

    replay: Replay
    problems: tuple[Problem, ...] = ()
    spendings: tuple[Spending, ...] = ()
    """The agents' spending on it, by the events that can be read."""


class Replays(Protocol):
    """The replayed state of every stream."""

    def all(self) -> Mapping[int, Reading]:
        """Every stream, by issue number, as the log is now."""


class LoopLog(EventLog[str, LoopEvent], Protocol):
    """Loop events and the entity file derived from them (`.mino/loops/`)."""

    def ids(self) -> tuple[str, ...]:
        """Ids of loops with events or an entity, oldest first."""

    def read_entity(self, loop_id: str) -> LoopEntity | None:
        """`.mino/loops/{loop_id}.yml`; None if it is not there. Events win over it (R17)."""

    def write_entity(self, entity: LoopEntity) -> None:
        """Write the entity durably (`budget_used` must survive the next action's crash, R12)."""

    def change_entity(self, loop_id: str, change: Callable[[LoopEntity], LoopEntity]) -> LoopEntity:
        """Read, change and write the entity durably under the append lock; KeyError if there is none."""


class PlanStore(Protocol):
    """The plans in `.mino/plans/`, by the text that was approved (R6)."""

    def revisions(self) -> tuple[str, ...]:
        """What plans in force are filed under, revisions or digests, oldest approval first."""

    def load(self, revision: str) -> Plan | None:
        """The plan in force for that digest (64 hex), or the first one for that revision (8 hex); any case."""

    def save(self, plan: Plan) -> None:
        """Write the plan durably. An earlier one of the same text is kept as `{revision}.{n}.yml`."""


class ResultStore(Protocol):
    """`.mino/reports/issue-{N}/{anchor}.yml`: check results, durable before publication."""

    def load(self, issue_number: int, anchor: str) -> CheckReport | None:
        """The stored results at that commit; None if there are none."""

    def save(self, report: CheckReport) -> None:
        """Write the results durably."""

    def vouch(self) -> int:
        """Take all that is there for ours, because the user says so; how many there are."""


Projection: TypeAlias = Literal["brief", "report"]
"""A text for users about one issue: the brief, and the report of the checks."""


class Projections(Protocol):
    """Text rendered from log and plan; never read back as truth, not fsynced."""

    def write(self, what: Projection, issue_number: int, text: str) -> Path:
        """Write it, replacing an earlier one; returns where it is."""

    def read(self, what: Projection, issue_number: int) -> str | None:
        """The current text, or `None`."""

    def path(self, what: Projection, issue_number: int) -> str:
        """Its path from the repository's root (POSIX), existing or not."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class EffectLedger:
    """Effects made on the forge for an issue, so that none is repeated and none that failed is lost (R9).

    For each kind of effect, up to which event or for what it was made; then what failed, and what was seen there.
    The file has these keys in this order, and older versions refuse others: docs/decisions/0015-kernel.md.
    """

    sequence: Annotated[int, Field(ge=0)] = 0
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """What failed once and is not tried again: a reply (protocol, Reply Dispatch)."""
    replied: Annotated[int, Field(ge=0)] = 0
    """The newest event for which a reply was decided; never decided again."""
    closed: bool = False
    """Whether the issue was seen closed after it was done: if it is open then, a person opened it again."""
    text: str = ""
    """Digest of title and body when they were last exactly ours; empty if not compared yet."""
    noticed: tuple[str, ...] = ()
    """Outside changes not put right yet, in words."""
    halt_told: str = ""
    """The marker of the newest loop halt commented here; empty if there was none."""
    ready: str = ""
    """The request, and the attempt (`2 3`), that was made ready to merge; empty if none was."""
    withdrawn: str = ""
    """The abandoned work whose requests are closed (`rev-1234abcd 12`); empty if there is none."""
    settled: tuple[str, ...] = ()
    """Ids of the newest command comments that are settled (taken, refused, or ineligible): not examined again."""
    voted_on: str = ""
    """The key of the question that a gate holds open; empty if there is none."""
    voters: tuple[str, ...] = ()
    """Those who approved going on, as last counted on the forge."""
    shown: str = ""
    """Digest of what the issue's text says between our markers; empty if it is as it was published."""
    people_asked: str = ""
    """The request whose reviewers were asked and that was assigned; `2 reviewers` before it is assigned."""
    approval_seen: str = ""
    """Digest of the issue, its new comments and the settings when a comment last asked for its approval."""
    posting: str = ""
    """The marker of the first comment that a delivery was about to post; empty once that delivery is complete."""
    approval_asked_at: str = ""
    """When that was, UTC; empty if it was never."""


class Upkeep(Protocol):
    """Clean-up of crash leftovers under `.mino/`, and of caches."""

    def remove_leftovers(self) -> int:
        """Remove half-written files and scratch folders whose makers are gone; returns how many."""

    def drop_caches(self) -> None:
        """Drop everything derived from the log that only saves time."""


class Deliveries(Protocol):
    """`.mino/deliveries/issue-{N}`."""

    def load(self, issue_number: int) -> EffectLedger:
        """The ledger; at 0 for an issue never delivered."""

    def save(self, issue_number: int, ledger: EffectLedger) -> None:
        """Store the ledger."""


class AgentRequests(Protocol):
    """`.mino/agent-requests/`: what members of the team are asked, and the standing approval of asking them.

    Both are sealed like check results: what somebody else wrote raises LogDamaged.
    """

    def keys(self) -> tuple[str, ...]:
        """The keys of all requests, sorted."""

    def load(self, key: str) -> AskedAgent | None:
        """The request; None if there is none. Raises LogDamaged."""

    def save(self, request: AskedAgent) -> None:
        """Write the request durably, in place of what it was before."""

    def vouch(self) -> int:
        """Take all requests that are there for ours, because the user says so; how many. Not the standing approval."""

    def draft(self, issue_number: int) -> str | None:
        """The document that divides that issue by what members claim; None if there is none.

        It has no seal: a person approves it as it is then.
        """

    def save_draft(self, issue_number: int, text: str) -> None:
        """Write that document durably, in place of an earlier one; an empty one is none."""

    def draft_path(self, issue_number: int) -> str:
        """Where it is, as `.mino/…`."""

    def standing(self) -> StandingApproval | None:
        """The standing approval; None if nobody gave one. Raises LogDamaged."""

    def approve(self, standing: StandingApproval) -> None:
        """Write the standing approval durably, in place of an earlier one."""


# --- Requests to merge a branch


ReviewVerdict = Literal["approved", "changes_requested", "commented", "dismissed"]
Opinion = Literal["approved", "changes_requested", "commented"]
"""What a review that is handed in can say."""
CheckState = Literal["pending", "success", "failure"]


class PullRequest(NamedTuple):
    """A pull request; it shares the numbers of the issues, and comments and labels with them."""

    number: int
    title: str
    body: str
    state: Literal["open", "closed"]
    merged: bool
    draft: bool
    head_branch: str
    head_sha: str
    base_branch: str
    merge_sha: str | None
    """The commit that brought it into the base branch; None before that."""
    merged_by: str | None
    """The account that merged it; None before that, or where the forge does not know."""
    url: str
    requested_reviewers: tuple[str, ...] = ()
    """The accounts that are asked to review it; on other forges than GitHub also those who have."""


class Remark(NamedTuple):
    """A review's comment on a line; `path` and `line` are None where the forge shows none."""

    author: str
    trusted: bool
    body: str
    path: str | None
    line: int | None


class Review(NamedTuple):
    """A review that was handed in; `trusted` if its author is us or has write access (R20)."""

    id: str
    author: str
    trusted: bool
    verdict: ReviewVerdict
    body: str
    commit: str
    """The SHA that was reviewed; empty where the forge does not say."""
    remarks: tuple[Remark, ...] = ()


class CommitCheck(NamedTuple):
    """What CI says about a commit, by the name of the check."""

    name: str
    state: CheckState
    summary: str
    excerpt: str = ""
    """The tail of its log or its annotations, some 4 KB at most; empty if the forge shows none."""


class RepositoryFacts(NamedTuple):
    """Our account on the forge, and its permissions."""

    full_name: str
    """`owner/name`, as the forge has it now: a renamed repository shows its new name."""
    url: str
    default_branch: str
    account: str
    can_write: bool
    archived: bool = False
    has_issues: bool = True
    has_pull_requests: bool = True
    keeps_merged_branches: bool = False
    """Whether the branch of a merged request stays; False where the forge does not say."""
    empty: bool = False
    """Whether it has no commit yet."""
    lacking_scopes: tuple[str, ...] = ()
    """What the token is not allowed, though the account may be; by the forge's own names."""
    hides_writers: str = ""
    """Why the forge does not show us everybody who may write, if it does not: nobody hidden is heard (R20)."""


class IssueChanges(TypedDict, total=False):
    """Changes to an issue; fields not given stay."""

    title: str
    body: str
    state: Literal["open", "closed"]


class PullRequestChanges(IssueChanges, total=False):
    """Changes to a pull request; fields not given stay."""

    draft: bool


class PullRequests(Protocol):
    """Pull requests of one repository, whose branches have to be pushed before."""

    def create_pull_request(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a request to merge branch *head* into *base*. Raises RemoteFailed if there is one open already."""

    def read_pull_request(self, number: int) -> PullRequest | None:
        """The pull request; None if there is none, or the number is an issue's."""

    def find_pull_requests(self, head: str) -> tuple[PullRequest, ...]:
        """Those of branch *head* of our own repository, in any state, lowest number first; call before creating one."""

    def open_pull_requests(self) -> tuple[PullRequest, ...]:
        """Those that are open, drafts and those of forks too, lowest number first."""

    def edit_pull_request(self, number: int, **changes: Unpack[PullRequestChanges]) -> PullRequest:
        """Change what is given, leave the rest."""

    def reviews(self, number: int) -> tuple[Review, ...]:
        """The submitted reviews, oldest first, each with its remarks."""

    def request_reviews(self, number: int, reviewers: Sequence[str]) -> None:
        """Ask accounts, and teams named `org/team`, to review a pull request; our own account is left out.

        Raises RemoteFailed for one that cannot review.
        """

    def submit_review(self, number: int, opinion: Opinion, body: str, commit: str) -> Review:
        """Hand in our review of that commit; never sent twice (see `create_issue`).

        Of our own request it is a commenting one: forges refuse the others. A commenting one needs a body.
        """

    def merge_pull_request(self, number: int, head_sha: str) -> None:
        """Merge it in a way that the repository allows.

        Raises RemoteFailed unless *head_sha* is its head, and where it cannot be merged.
        """


class Checks(Protocol):
    """Commit statuses: those of CI, and ours."""

    def commit_checks(self, sha: str) -> tuple[CommitCheck, ...]:
        """Statuses and check runs, ordered by name.

        One that ran again is what it came to last; of several with one name the worst counts.
        """

    def set_commit_status(self, sha: str, *, name: str, state: CheckState, description: str) -> None:
        """Set the commit's status under *name*; the newest counts. A description is cut to the forge's limit."""


class About(Protocol):
    """Facts about the repository on the forge, and permissions."""

    def may_write(self, login: str) -> bool:
        """Whether that account is ours or has write access now (R20); never cached."""

    def may_push(self, branch: str) -> bool:
        """Whether our account may push to that branch, as far as the forge tells: protection may forbid it."""

    def about(self) -> RepositoryFacts:
        """Query the forge. Raises AccessRefused if it denies access, RemoteUnavailable if it does not answer."""


# --- The forge: GitHub, Gitea/Forgejo, or plain files


class Label(NamedTuple):
    """A label of the forge; `color` is 6 hex digits."""

    name: str
    color: str
    description: str = ""


class ChangedIssue(NamedTuple):
    """An issue in a list of those that changed, and when it last did (UTC, by the forge's clock)."""

    issue: Issue
    at: str


class Assigned(NamedTuple):
    """Who assigned somebody to an issue, and when (UTC, by the forge's clock)."""

    by: str
    at: str


class IssueTracker(Protocol):
    """Issues of one repository."""

    def create_issue(self, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Create an open issue.

        Never sent twice: if no answer comes, it is RemoteUnavailable, and the issue may be there (`find_issues`).
        """

    def read_issue(self, number: int) -> Issue | None:
        """The issue; None if there is none."""

    def read_text(self, number: int) -> str | None:
        """The text of an issue alone, as `read_issue` has it; None if there is none. Nobody is asked who wrote it."""

    def find_issues(self, *markers: str) -> tuple[Issue, ...]:
        """Issues whose body holds one of *markers* as a line of its own, lowest number first; pull requests left out.

        By a complete listing: search lags, and so may a listing, so what was created a moment ago is looked for too.
        """

    def find_issues_before(self, number: int, marker: str) -> tuple[Issue, ...]:
        """Those with a lower number than *number*, which we have just created: somebody else was faster (R8).

        A forge gives numbers in the order of creation. So only the numbers between have to be asked for, those that
        are neither ours nor were there at our last `find_issues`.
        """

    def open_issues(self, label: str | None = None) -> tuple[Issue, ...]:
        """Open issues that carry *label*, or all without one, oldest first; pull requests left out."""

    def changed_since(self, moment: str) -> tuple[ChangedIssue, ...]:
        """Issues in any state that changed at or after *moment*, lowest number first; pull requests left out.

        A comment may count as a change. As cheap to ask again as `comments_since`.
        """

    def assigner(self, number: int, login: str) -> Assigned | None:
        """Who last assigned *login* to an issue, and when; None if nobody did, or the forge does not say."""

    def closer(self, number: int) -> str | None:
        """The account that closed an issue; None if it is open, or the forge does not say."""

    def edit_issue(self, number: int, **changes: Unpack[IssueChanges]) -> None:
        """Change what is given, leave the rest."""

    def depend(self, number: int, on: int) -> None:
        """Show natively that an issue waits for another; nothing where the forge, or its version, has no such thing.

        The forge may then refuse to close the issue before the other.
        """

    def add_part(self, number: int, part: int) -> None:
        """Show natively that an issue is a part of issue *number*; nothing where the forge has no such thing."""

    def assign(self, number: int, logins: Sequence[str]) -> None:
        """Assign these accounts to an issue or a pull request that was just made and has no assignees.

        Raises RemoteFailed for one that cannot be assigned, unless the forge ignores it.
        """


Reaction = Literal["+1", "eyes"]
"""How a comment shows that its command was taken, or was seen and counts: the names of GitHub and Gitea."""


class CommentMark(NamedTuple):
    """A comment in a list of the whole repository: under which issue, and when it was posted or last edited (UTC)."""

    issue_number: int
    id: str
    at: str


class Comments(Protocol):
    """Comments of an issue."""

    def comments(self, number: int) -> tuple[Comment, ...]:
        """All comments, oldest first."""

    def comments_since(self, number: int, moment: str) -> tuple[Comment, ...]:
        """Comments posted or edited at or after *moment* (ISO 8601, UTC, by the forge's clock), oldest first.

        Cheap to ask again: where the forge can say so, nothing is sent as long as nothing changed (ETag).
        """

    def commented_since(self, moment: str) -> tuple[CommentMark, ...]:
        """The comments of all issues and pull requests posted or edited at or after *moment*; as cheap to ask again."""

    def post_comment(self, number: int, body: str) -> Comment:
        """Add a comment; never sent twice (see `create_issue`)."""

    def react(self, number: int, comment_id: str, reaction: Reaction) -> None:
        """Show our account's reaction to a comment; nothing where the forge has none. Repeating it changes nothing."""


class Labels(Protocol):
    """Labels of a repository and of its issues."""

    def ensure_labels(self, labels: Collection[Label]) -> None:
        """Create missing labels; leave existing ones as they are."""

    def set_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Add and remove labels; adding one already set, or removing one not set, is not an error."""


class Links(NamedTuple):
    """Addresses of published things, for users; all `None` if the forge has no *page* of the repository."""

    page: str | None
    files: str = ""
    """The part between page and branch in the address of a file, with its `/`."""

    def issue(self, number: int) -> str | None:
        """The address of the issue."""
        return f"{self.page}/issues/{number}" if self.page else None

    def commit(self, sha: str | None) -> str | None:
        """The address of the commit; `None` without one."""
        return f"{self.page}/commit/{sha}" if self.page and sha else None

    def file(self, branch: str, path: str) -> str | None:
        """The address of the file on that branch."""
        return f"{self.page}/{self.files}{quote(branch)}/{quote(path)}" if self.page else None


class Forge(IssueTracker, Comments, Labels, PullRequests, Checks, About, Protocol):
    """GitHub, Gitea/Forgejo, or plain files.

    Every method raises RemoteUnavailable if the forge may answer later, AccessRefused if it denies access, RemoteFailed
    for everything else, such as a missing issue. Bodies come back verbatim as far as the forge keeps them: see
    `irontree.forges.markers`.
    """

    @property
    def name(self) -> str:
        """The adapter's name, as in the configuration."""

    @property
    def links(self) -> Links:
        """The addresses of published things. Sends no request."""


# --- The user's repository and the private workspaces (R4, R5)


class Blocker(NamedTuple):
    """A reason why no work can start; `check` is the short kebab id of `blocking_check`."""

    check: str
    message: str
    remedy: str


class Committed(NamedTuple):
    """Our commit in a workspace."""

    sha: str
    files: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    """Paths that hooks left outside the commit, and changes that are no part of the work."""


class CommitRefused(NamedTuple):
    """git or a hook refused the commit; `output` is its output."""

    output: str


class Published(NamedTuple):
    """`sha` is reachable from the target branch; `warning` if the user's checkout could not follow."""

    sha: str
    warning: str | None = None


class Moved(NamedTuple):
    """The target is not an ancestor of what was to be published; `tip` must be merged first."""

    tip: str


class Rewritten(NamedTuple):
    """The target has lost *lost*, which the commit stands on or is; `tip` is where it is now, `None` if deleted."""

    lost: str
    tip: str | None


class LeftLock(NamedTuple):
    """A lock in the repository's git that nobody seems to hold, and what to do about it."""

    what: str
    remedy: str


class BackupFailure(NamedTuple):
    """Since when the log could not be backed up, why the last time, and what to do about it."""

    since: datetime
    reason: str
    remedy: str


class Document(NamedTuple):
    """A file of a commit: its path as it is spelled there, and its text."""

    path: str
    text: str


WorkspaceName = Literal["run", "verify", "review", "hooks", "try"]
"""For agents' changes, checks, reading agents, hooks, and people; none sees what another left (R4)."""


class Workspace(Protocol):
    """One of the private workspaces (R4)."""

    @property
    def path(self) -> Path:
        """Its folder; never inside the user's repository."""

    def prepare(
        self,
        base: str,
        *,
        tree_of: str | None = None,
        owner: str = "",
        published: str = "",
        cancel: Cancellation | None = None,
    ) -> None:
        """Detach HEAD at *base*; with *tree_of*, the files are as in that commit; then run set-up.

        The folder is made anew, unless the same *owner*, if it has one, prepared it last: then ignored files stay. What
        set-up makes may be brought from a cache that was built at *published*, a commit of the target.
        """

    def commit(self, message: str, *, base: str, without: Collection[str] = ()) -> Committed | CommitRefused | None:
        """Commit on *base* all files that differ from it, whatever the agent did with git; `None` if none does.

        Those at the paths *without* stay as they are in *base*.
        Raises EnvironmentRefused if the workspace was removed, or git fails.
        """

    def commit_document(self, document: Document, message: str, *, base: str) -> Committed | CommitRefused | None:
        """Commit that file alone on *base*, running hooks; `None` if git ignores it or nothing differs.

        Raises EnvironmentRefused if a link in the path leads elsewhere.
        """

    def salvage(self, base: str, ref: str) -> str | None:
        """Keep all files that differ from *base* under *ref* in the user's repository; `None` if there are none."""

    def merge(self, ours: str, theirs: str, message: str) -> str | None:
        """Merge commit of the two, or None on conflict (workspace is left clean)."""

    def untracked(self) -> frozenset[str]:
        """The files that are beside the tracked ones, ignored or not; of a folder of such, what is directly in it."""

    def put_back(self) -> tuple[str, ...]:
        """Make the tracked files as they were put there; those that were not."""

    def remove_untracked(self, unwanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Remove the *unwanted* of the files that are beside the tracked ones; those."""

    def put(self, commit: str, paths: Sequence[str]) -> None:
        """Make these files as they are in *commit*; one that it does not have is removed."""


class Checkout(NamedTuple):
    """What of the user's checkout work starts without, because it starts from a commit of the target."""

    start: str | None
    """That commit, as last fetched; `None` if there is none."""
    detached: bool = False
    """Whether the checkout is on no branch."""
    uncommitted: tuple[str, ...] = ()
    """Paths with changes that are in no commit, untracked ones too."""


class Standing(NamedTuple):
    """How the user's own target branch stands to the remote's."""

    ahead: int = 0
    """How many commits the remote lacks: work starts without them."""
    behind: int = 0
    """How many commits of the remote it lacks; 0 unless it is checked out: nobody looks at it otherwise."""
    in_the_way: str = ""
    """What in the checkout keeps it from being fast-forwarded, if anything does."""
    remedy: str = ""
    """How the user brings it up to the remote's, if it is behind."""


class Repository(Protocol):
    """The user's repository: questions, and the few effects we have on it (R4, R5)."""

    @property
    def root(self) -> Path:
        """The main worktree; `.mino/` is in it."""

    @property
    def id(self) -> str:
        """`irontree.id` of this clone, made by `init` (R21)."""

    def user_name(self) -> str | None:
        """The committer's name in git's settings, or `None`."""

    def preflight(self, policy: PublishPolicy, workspace: WorkspacePolicy) -> tuple[Blocker, ...]:
        """What would stop a run now; empty if nothing."""

    def checkout(self, policy: PublishPolicy, *, exempt: Sequence[str] = ()) -> Checkout:
        """What of the user's checkout work starts without; `.mino/` and *exempt* paths do not count."""

    def user_checkout(self, remote: str | None) -> UserCheckout:
        """What git says of the user's checkout, by which the branch of a workflow is chosen.

        With the branches of *remote*, as last fetched; `.mino/` does not count.
        """

    def switch(self, branch: str, start: str) -> str | None:
        """Put the user's checkout, at commit *start*, on *branch*, made there; returns why it stays, or `None`.

        No file of it changes. One that is cut off is finished by the next driver.
        """

    def base(self, policy: PublishPolicy, *, own: bool = False) -> str:
        """The commit new work starts from: the remote target's tip (fetched), the local branch, or `branch_from`.

        The first of these that is there. What the remote lacks is made by the first publication.
        Raises PublicationRefused if the remote had the branch and has it no more, unless it is our *own*: those are
        deleted when they were merged.
        """

    def standing(self, policy: PublishPolicy) -> Standing:
        """How the user's own target branch stands to the remote's, as last fetched.

        Nothing to say without a remote, and where the remote or the user has no such branch.
        """

    def has_published(self, sha: str, policy: PublishPolicy) -> bool:
        """Whether the target has *sha* in its history: the remote's as last fetched, the local one without a remote."""

    def fork_point(self, sha: str, policy: PublishPolicy) -> str | None:
        """The newest commit in the history of both *sha* and the target, as last fetched; None if there is none."""

    def taken_back(self, shas: Sequence[str], policy: PublishPolicy) -> frozenset[str]:
        """Those of *shas* that the target had, as it was once seen here, and has no more, as last fetched."""

    def workspace(self, name: WorkspaceName, policy: WorkspacePolicy) -> Workspace:
        """The private workspace of that name, created on first use."""

    def keep(self, sha: str, ref: str, *, source: Workspace | None = None) -> None:
        """Point `refs/irontree/...` *ref* at *sha*, which was made in *source* if one is named; idempotent."""

    def read_ref(self, ref: str) -> str | None:
        """The commit *ref* points at; None if there is no such ref."""

    def find_token(self, token: str, *, base: str, source: Workspace) -> str | None:
        """The commit that was made last in *source*, on *base*, if its trailer carries *token*."""

    def publish(self, sha: str, policy: PublishPolicy, *, onto: str | None = None) -> Published | Moved | Rewritten:
        """Push *sha* to the target, which must contain *onto*, the tip that *sha* was checked on top of (R5).

        A target with `branch_from` is made if it was never there. One that is there is never replaced.
        On a branch of our own, *onto* is `None`. Raises RemoteUnavailable or PublicationRefused.
        """

    def document_at(self, sha: str, path: str) -> Document | None:
        """The text file *path* of commit *sha*, in whatever case its name is spelled there; None if there is none."""

    def diff(self, base: str, sha: str, *, first: Sequence[str] = ()) -> str:
        """The unified diff between two commits, the files in *first* before all others."""

    def files_at(self, sha: str) -> dict[str, str]:
        """The paths of all files in that commit, each with where it leads if it is a link, else with nothing."""

    def changed_files(self, base: str, sha: str) -> tuple[str, ...]:
        """Paths that differ between two commits."""

    def texts(self, base: str, sha: str, *, only: Collection[str] | None = None) -> Iterator[tuple[str, str, str]]:
        """The same paths, each with its text in both commits, empty where it is not there; what is no text is replaced.

        Attributes in the commits have no part in it. With *only*, no other files are read.
        """

    def secrets(self, policy: WorkspacePolicy) -> frozenset[str]:
        """Values that belong in no commit: of our variables with a secret's name, and in files of `workspace.copy`."""

    def line_counts(self, base: str, sha: str) -> tuple[LineCount, ...]:
        """The same paths, each with its lines added and removed."""

    def contains(self, tip: str, sha: str) -> bool:
        """Whether *tip* has *sha* in its history; False if either is not here."""

    def lacking(self, shas: Sequence[str]) -> frozenset[str]:
        """Those of *shas* that are not commits here."""

    def unreferenced(self, shas: Sequence[str]) -> frozenset[str]:
        """Those of *shas*, all of them here, that no ref reaches: git may collect them."""

    def mark_history(self) -> None:
        """Remember that there are events, so that a deleted log is not taken for a first run (R13)."""

    def lost_files(self) -> tuple[str, ...]:
        """Paths (`.mino/events/issue-7/0002-run-started.yml`) that the log's backup held and that are gone (R13)."""

    def back_up(self) -> None:
        """Commit `.mino/{plans,events,archive,loops,agent-requests}` to `refs/irontree/log` by plumbing (R13).

        If that fails, the work goes on: it is told, and kept for `backup_failure`.
        """

    def backup_failure(self) -> BackupFailure | None:
        """What has kept the log from being backed up since the last time that it could be; `None` if nothing."""

    def backup_damage(self) -> str:
        """Why the log's back-up cannot be read, in words; empty if it can, or there is none. The next replaces it."""

    def remove_leftovers(self) -> int:
        """Remove what killed commands left in the private workspaces; returns how many files and folders.

        The caller holds the driver lock, and nothing is at work in them.
        """

    def left_locks(self) -> tuple[LeftLock, ...]:
        """Locks in the repository's git that nobody seems to hold, and that are not known to be ours."""


# --- The programs that do the work: coding agents and checks


@dataclass(frozen=True, slots=True)
class AgentTask:
    """One attempt, as the agent gets it."""

    issue_number: int
    task_key: str
    attempt: int
    prompt: str
    workspace: Path
    transcript: Path
    """A folder of this attempt alone (keyed by the sequence of run_started)."""
    variables: Mapping[str, str] = field(default_factory=dict)
    allowance: Allowance = field(default_factory=Allowance)
    """Its limits; an agent that reports its use while it works is stopped there (protocol, Budgets)."""


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What was observed of the program; never a verdict (docs/explanation/done.md)."""

    ended: AttemptEnd
    exit_code: int | None
    seconds: float
    output_tail: str
    claim: Claim | None = None
    """`None` if its program ended without a terminal record, or has none."""
    failure: FailureClass | None = None
    """Why it could not work, according to its records, or `None`."""
    retry_at: datetime | None = None
    """When the service behind it may answer again (aware); set with `rate_limited` or `unreachable` at most."""
    usage: Usage = field(default_factory=Usage)
    session: str | None = None
    """Its own id of the conversation, by which a user can open it."""
    denied: tuple[str, ...] = ()
    """The permissions it requested and was denied, in words."""


class CodingAgent(Protocol):
    """A program that edits code in a workspace."""

    def no_access(self) -> str | None:
        """Why its service would reject it, if its program reports that at once and without a network request.

        `None` if it has access, or that is unknown.
        """

    def attempt(self, task: AgentTask, *, cancel: Cancellation, progress: Progress) -> AgentResult:
        """Run once to its end; all its processes are gone when this returns."""


class CheckRunner(Protocol):
    """Runs a check at the commit that is checked out in the workspace."""

    def within(self, place: PlaceSpec) -> CheckRunner:
        """The same runner for checks in such a place."""

    def run(
        self,
        check: Shell | Command,
        *,
        workspace: Path,
        seconds: int,
        variables: Mapping[str, str],
        cancel: Cancellation,
        progress: Progress,
    ) -> CheckResult:
        """Run to its end or limit; all its processes are gone when this returns."""

    def look_at(self, check: Artifact, *, workspace: Path) -> CheckResult:
        """Whether the workspace has what the check asserts, with the reason in its output."""

    def show(
        self, check: Browser, *, workspace: Path, shot: Path, cancel: Cancellation, progress: Progress
    ) -> CheckResult | None:
        """What a person who judges the page is shown of it, its picture at *shot*: a result that is open.

        None where nothing can look at pages.
        """

    def versions(self, commands: Sequence[str], *, workspace: Path) -> Mapping[str, str]:
        """Versions by name: the system, and the well-known tools that *commands* call or imply, if they report one."""

    def foreign_sources(self, workspace: Path, user_root: Path) -> tuple[str, ...]:
        """Signs that the checks would test the user's checkout instead of *workspace*, in words (R4)."""


class WorkflowRuns(Protocol):
    """Where runs of workflow files are shown to tools that know HOTL; never read back."""

    def show(self, run: Run, log: Sequence[str]) -> None:
        """Show the run as it is now, in place of what was shown of it. Raises EnvironmentRefused."""

    def tick(self, path: str, mark: Callable[[str], Ticked | None]) -> tuple[int, ...]:
        """Write what *mark* makes of the author's file *path*, if it is a text and differs.

        Returns the steps whose tick was set back. Raises EnvironmentRefused.
        """


class Places(Protocol):
    """Where programs can be run on this machine."""

    def best(self) -> SandboxKind:
        """The strongest kind that needs no configuration."""

    def unconfined(self) -> str:
        """Why that is `none`, in words; empty if it is not."""

    def blockers(self, place: PlaceSpec) -> tuple[Blocker, ...]:
        """Why nothing can be run there now; another place is never taken instead."""
