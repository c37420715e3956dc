"""What must hold after every command, whatever befell it. Each function is one promise; it fails with the finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from irontree.app import App
from irontree.domain.adoption import key_marker
from irontree.domain.comments import marked_problems
from irontree.domain.digests import digest_chain
from irontree.domain.halt import halt_of
from irontree.domain.machine import replay
from irontree.domain.state import MANAGED, TaskState, labels_for
from irontree.ports import Stream
from irontree.services.consistency.audit import audit
from irontree.services.delivery.comments import comment_marker
from irontree.services.loops.loop import Loop, read_loops
from irontree.services.questions.listing import explain
from irontree.services.questions.pages import question_text
from irontree.services.questions.questions import question_of_loop, questions_of_issues
from irontree.services.record import RUN_TRAILER, World, read_world
from irontree.services.views.overview import overview
from irontree.services.views.report import brief_text
from tests.support.world import Scene

DECISIONS = frozenset({"checkup_unblocked", "checkup_accept_recorded", "checkup_accept_publication_failed"})
HOLDS = frozenset(
    {
        "task_reapproval_required",
        "checkup_preflight_blocked",
        "checkup_reconcile_external_close_detected",
        "checkup_reconcile_sequence_gap_detected",
    }
)


@dataclass
class Ledger:
    """What the model remembers from one command to the next."""

    damaged: set[int] = field(default_factory=set)
    """Issues whose files somebody has touched; of these less is promised, for good."""
    relabelled: dict[int, int] = field(default_factory=dict)
    """The sequence at which somebody changed an issue's labels."""
    streams: dict[int, Stream] = field(default_factory=dict)
    loops: dict[str, Loop] = field(default_factory=dict)
    runs: int = 0

    def remember(self, sight: Sight) -> None:
        """Take what is there for what was there."""
        self.streams, self.loops = dict(sight.streams), {loop.id: loop for loop in sight.loops}
        self.runs = len(sight.runs)


@dataclass(frozen=True)
class Sight:
    """Everything there is after a command. *decides* says whether a person decided something by it."""

    scene: Scene
    app: App
    world: World
    loops: tuple[Loop, ...]
    streams: dict[int, Stream]
    runs: tuple[str, ...]
    """Task keys that the agent was ever asked for."""
    decides: bool

    def sound(self, ledger: Ledger) -> Iterator[tuple[int, Stream]]:
        """The streams nobody has touched."""
        return ((number, stream) for number, stream in self.streams.items() if number not in ledger.damaged)

    def states(self, ledger: Ledger) -> Iterator[TaskState]:
        """The states of the issues whose files nobody has touched."""
        return (state for state in self.world.states.values() if state.issue_number not in ledger.damaged)


def look(scene: Scene, runs: list[str], *, decides: bool) -> Sight:
    """Everything there is now."""
    app, log = scene.app, scene.log
    streams = {number: log.read(number) for number in log.streams()}
    return Sight(scene, app, read_world(app), read_loops(app)[0], streams, tuple(runs), decides)


# --- the log ----------------------------------------------------------------------------------------------------


def logs_replay(sight: Sight, ledger: Ledger) -> None:
    """Sequences are contiguous, every event may stand where it does, and the digest chain holds."""
    for number, stream in sight.sound(ledger):
        assert [record.event.sequence for record in stream.records] == list(range(1, stream.highest_sequence + 1))
        found = replay(stream.records, highest_sequence=stream.highest_sequence)
        assert (found.problem, found.missing, stream.problems) == (None, (), ()), number
        assert digest_chain(stream.records) == (), number


def nothing_is_lost(sight: Sight, ledger: Ledger) -> None:
    """A stream only grows; one that begins again is in the archive."""
    for number, before in ledger.streams.items():
        if number in ledger.damaged:
            continue
        now = [sight.streams.get(number, Stream())]
        now += [sight.scene.log.read_archived(name) for name in sight.scene.log.archives(number)]
        assert any(stream.records[: len(before.records)] == before.records for stream in now), number


def the_log_proves_itself(sight: Sight, ledger: Ledger) -> None:
    """`audit` finds nothing."""
    if not ledger.damaged:
        findings = audit(sight.app)
        assert findings == (), findings


# --- evidence ---------------------------------------------------------------------------------------------------


def done_has_evidence(sight: Sight, ledger: Ledger) -> None:
    """Done: green results at the anchor or a person's word, and the commit reachable from the target."""
    target = set(sight.scene.repository.history(sight.scene.repository.remote["main"]))
    for state in sight.states(ledger):
        if state.done and state.has_code:
            assert state.code_ref in target, state
        if state.done and state.completion_basis == "verified":
            report = sight.scene.results.load(state.issue_number, state.anchor or "")
            assert report, state
            assert report.failed is None, state
        if state.done and state.completion_basis == "accepted":
            assert "checkup_accept_recorded" in _names(sight.streams[state.issue_number]), state


def parents_wait_for_their_parts(sight: Sight, ledger: Ledger) -> None:
    """A composite is completed when all its planned parts are done."""
    for number, new in _new_events(sight, ledger):
        if "checkup_aggregate_recorded" in new:
            key = sight.world.state(number).task_key
            parts = sight.world.children.get(key, ())
            assert parts, key
            assert all(map(sight.world.is_done, parts)), key


def one_commit_per_task(sight: Sight, ledger: Ledger) -> None:
    """Each stream of a task has at most one commit of ours on the target."""
    repository, streams = sight.scene.repository, Counter[str]()
    for sha in repository.history(repository.remote["main"]):
        token = _trailer(repository.commits[sha].message)
        if token and int(token.partition("/")[0]) not in ledger.damaged:
            streams[token.rpartition("/")[0]] += 1
    lives = Counter(
        f"{number}/{stream.records[0].event.approved_revision}"
        for number in sight.streams
        for stream in _lives(sight, number)
        if stream.records
    )
    assert all(count <= max(1, lives[stream]) for stream, count in streams.items()), (streams, lives)


def attempts_are_counted(sight: Sight, ledger: Ledger) -> None:
    """Every attempt that began was counted or given back, and none is above the budget."""
    for state in sight.states(ledger):
        assert state.attempt_count == state.runs_started - state.given_back, state
        assert state.attempt_count <= state.total_attempts, state


# --- people -----------------------------------------------------------------------------------------------------


def people_decide(sight: Sight, ledger: Ledger) -> None:
    """An issue that waits for a person moves by their recorded word alone, or is held for another reason too."""
    for number, new in _new_events(sight, ledger):
        before = ledger.streams.get(number, Stream())
        state = replay(before.records).state
        records = sight.streams[number].records[-len(new) :]
        answers = [record for record in records if record.event.event in DECISIONS or "by" in record.meta]
        assert sight.decides or not answers, (number, new)
        if state and halt_of(state) and sight.streams[number].records[: len(before.records)] == before.records:
            assert answers[:1] == list(records[:1]) or new[0] in HOLDS | {"task_approved"}, (number, new)


def every_question_can_be_shown(sight: Sight, _: Ledger) -> None:
    """The form of each open question renders."""
    asked = [*questions_of_issues(sight.world), *(question_of_loop(sight.app, loop.id) for loop in sight.loops)]
    for question in asked:
        assert question is None or question_text(sight.app, question)


def it_can_be_looked_at(sight: Sight, _: Ledger) -> None:
    """`status` and `why` always answer."""
    overview(sight.app)
    for key in {**sight.world.states, **sight.world.nodes}:
        assert explain(sight.app, key).because


def cancelled_tasks_rest(sight: Sight, ledger: Ledger) -> None:
    """The agent is never asked for a task that was taken out of its document."""
    assert not set(sight.runs[ledger.runs :]) & sight.world.cancelled


# --- the forge --------------------------------------------------------------------------------------------------


def one_issue_per_task(sight: Sight, _: Ledger) -> None:
    """No key has two issues."""
    bodies = [issue.body for issue in sight.scene.tracker.issues.values()]
    for key in {**sight.world.states, **sight.world.nodes}:
        assert sum(key_marker(key) in body for body in bodies) <= 1, key


def comments_are_slim_and_single(sight: Sight, _: Ledger) -> None:
    """No comment of ours says what a comment must not, and none is there twice."""
    for number, comments in sight.scene.tracker.comments.items():
        ours = [comment.body for comment in comments if comment.author == "us"]
        assert not [problem for body in ours for problem in marked_problems(body)], number
        markers = Counter(body.strip().splitlines()[-1] for body in ours)
        assert not [marker for marker, count in markers.items() if count > 1], (number, markers)


def delivered_is_there(sight: Sight, ledger: Ledger) -> None:
    """Behind the cursor, labels are what the state says and every audible event that costs has its comment."""
    for state in sight.states(ledger):
        number, cursor = state.issue_number, sight.scene.deliveries.load(state.issue_number)
        if cursor.failures or cursor.sequence < state.sequence:
            continue
        if ledger.relabelled.get(number, -1) != state.sequence:
            labels, wanted = {*sight.scene.tracker.issues[number].labels}, labels_for(state)
            assert (labels & MANAGED, wanted - labels) == (wanted & MANAGED, set()), (labels, state)
        last = sight.streams[number].records[-1]
        if last.event.event in ("verify_failed_terminal", "verify_pending_acceptance"):
            marker = comment_marker(number, last, state.renewed_from)
            assert any(marker in comment.body for comment in sight.scene.tracker.comments.get(number, [])), state


# --- loops ------------------------------------------------------------------------------------------------------


def loops_are_bounded(sight: Sight, ledger: Ledger) -> None:
    """The frozen set never grows, what was used is never given back, and an ended loop stays ended."""
    for loop in sight.loops:
        records = sight.scene.loops.read(loop.id).records
        assert loop.entity.budget_used >= max(getattr(record.event, "transitions_used", 0) for record in records)
        before = ledger.loops.get(loop.id)
        if before is None:
            continue
        assert loop.entity.task_keys == before.entity.task_keys
        assert set(loop.keys) <= set(before.keys)
        assert loop.entity.budget_used >= before.entity.budget_used
        assert loop.entity.budget_used <= loop.entity.budget_max_transitions
        assert before.is_open or loop.entity.status == before.entity.status


# --- briefs -----------------------------------------------------------------------------------------------------


def brief_is_true(sight: Sight, number: int) -> None:
    """A brief made anew is the brief that is there."""
    state = sight.world.state(number)
    plan = sight.world.plans.get(state.task_key)
    path = sight.scene.root / f".mino/briefs/issue-{number}.md"
    if plan:
        there, anew = sight.scene.projections.texts.get(path), brief_text(sight.app, sight.world, state, plan)
        assert there == anew, (there, anew)


INVARIANTS = (
    logs_replay,
    nothing_is_lost,
    the_log_proves_itself,
    done_has_evidence,
    parents_wait_for_their_parts,
    one_commit_per_task,
    attempts_are_counted,
    people_decide,
    every_question_can_be_shown,
    it_can_be_looked_at,
    cancelled_tasks_rest,
    one_issue_per_task,
    comments_are_slim_and_single,
    delivered_is_there,
    loops_are_bounded,
)


def check(sight: Sight, ledger: Ledger) -> None:
    """All of them."""
    for invariant in INVARIANTS:
        invariant(sight, ledger)


def _names(stream: Stream) -> list[str]:
    return [record.event.event for record in stream.records]


def _new_events(sight: Sight, ledger: Ledger) -> Iterator[tuple[int, list[str]]]:
    """What the last command added to each stream that nobody has touched."""
    for number, stream in sight.sound(ledger):
        before = ledger.streams.get(number, Stream()).records
        grown = stream.records[: len(before)] == before
        new = stream.records[len(before) :] if grown else stream.records
        if new:
            yield number, [record.event.event for record in new]


def _lives(sight: Sight, number: int) -> Iterator[Stream]:
    yield sight.streams[number]
    yield from (sight.scene.log.read_archived(name) for name in sight.scene.log.archives(number))


def _trailer(message: str) -> str | None:
    lines = (line.partition(": ") for line in message.splitlines())
    return next((value for name, _, value in lines if name == RUN_TRAILER), None)
