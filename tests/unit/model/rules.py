"""The state machine: commands of a user and deeds of the world, in any order, with everything checked after each."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from irontree.app import App
from irontree.domain.budgets import BudgetPolicy, SpendingLimits
from irontree.domain.commands import Issues
from irontree.domain.decide import Aggregate, Finalize, Halt, Recover, Run, Verify
from irontree.domain.halt import choices
from irontree.domain.plan import OnHalt, Shell
from irontree.errors import Cancelled, EnvironmentRefused, LogDamaged, Refused, RemoteFailed
from irontree.services.answers.answers import Answer, answer_issue, answer_loop
from irontree.services.answers.approve import adopt, approve, approve_stepwise
from irontree.services.consistency.reconcile import reconcile
from irontree.services.execution.steps import Idle, catch_up, next_step, perform, stop_at
from irontree.services.loops import loop as loops
from irontree.services.loops.choice import next_decision
from irontree.services.proposals.again import propose_again
from irontree.services.proposals.proposal import ApprovalChoices
from irontree.services.proposals.sources import propose, resolve
from irontree.services.questions.questions import Question, question_of_loop
from irontree.services.record import read_world
from tests.support.watching import Killed
from tests.support.world import Scene, make_scene
from tests.unit.model.chances import KIND, Chances, Fate, fates
from tests.unit.model.deeds import DEEDS, Deed
from tests.unit.model.documents import Document, Edit, documents, edits
from tests.unit.model.ending import Spoilt, bring_to_an_end
from tests.unit.model.invariants import Ledger, brief_is_true, check, look

Command = Callable[[App], object]
PLACES = st.integers(0, 9)
HALTING = st.sampled_from(["stop", "go_on"])
STEPS = (Run, Verify, Finalize, Aggregate, Recover)


def wish_text(name: str, wording: int) -> str:
    """What an issue says; no two say the same."""
    key = name.lower().replace(" ", "-")
    return f"Key: {key}\n\n- [ ] wording {wording} `$ made {key}`\n"


class Model(RuleBasedStateMachine):
    """One repository with two documents, and everything that can happen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.scene: Scene = make_scene(self.folder)
        self.scene.policy = self.scene.policy.model_copy(update={"max_retry_count": 1})
        self.chances = Chances(self.scene)
        self.ledger = Ledger()
        self.decides = False
        self.spoilt: Spoilt = {}
        self.drafts: dict[Path, list[Document]] = {}
        self.wishes: list[int] = []

    @initialize(one=documents("Shop"), two=documents("Inn"), on_halt=HALTING)
    def two_documents(self, one: Document, two: Document, on_halt: OnHalt) -> None:
        """Beside the repository: there they are in nobody's way until they are committed."""
        self.scene.policy = self.scene.policy.model_copy(update={"on_halt": on_halt})
        for document in (one, two):
            path = self.folder / f"{document.prefix}.md"
            path.write_text(document.text)
            self.drafts[path] = [document]
            self.put_in_force(path, ApprovalChoices(), KIND)

    def teardown(self) -> None:
        """Nothing is stuck: in a friendly world everything that is wanted comes to its end."""
        try:
            if self.drafts:
                bring_to_an_end(self.scene, self.chances, self.ledger, self.spoilt, list(self.drafts))
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- taking commands ----------------------------------------------------------------------------------

    def take(self, command: Command, fate: Fate, *, decides: bool = False, refusable: bool = True) -> bool:
        """Whether *command* came to its end under that fate; nothing but what befell it may stop it."""
        self.decides = decides
        with self.chances.under(fate) as app:
            try:
                command(app)
            except Killed:
                return False
            except Cancelled:
                assert fate.stop or fate.agent == "stopped", fate
                return False
            except Refused as refusal:
                self.may_refuse(refusal, refusable=refusable or fate.stop)
                return False
            except (RemoteFailed, EnvironmentRefused):
                assert not fate.is_kind
                return False
            except LogDamaged:
                assert self.ledger.damaged
                return False
            return True

    def may_refuse(self, refusal: Refused, *, refusable: bool) -> None:
        """What a loop decided itself must be possible, and no refusal hides an event that does not fit."""
        hidden = isinstance(refusal.__cause__, LogDamaged) and not self.ledger.damaged
        assert refusable, refusal
        assert not hidden, refusal

    @invariant()
    def everything_holds(self) -> None:
        """All invariants, after each rule."""
        sight = look(self.scene, self.chances.runs, decides=self.decides)
        check(sight, self.ledger)
        self.ledger.remember(sight)
        self.decides = False

    # --- documents ----------------------------------------------------------------------------------------

    @rule(place=PLACES, edit=edits())
    def edit(self, place: int, edit: Edit) -> None:
        """Somebody edits a document; nobody has approved that yet."""
        path = self.document(place)
        self.write(path, edit(self.drafts[path][-1]))

    @rule(place=PLACES, version=PLACES)
    def go_back(self, place: int, version: int) -> None:
        """A document says again what it said before."""
        path = self.document(place)
        self.write(path, self.drafts[path][version % len(self.drafts[path])])

    @rule(
        place=PLACES,
        loop_mode=st.sampled_from([True, True, False]),
        reopen=st.booleans(),
        keep=st.booleans(),
        fate=fates(),
    )
    def approve(self, place: int, loop_mode: bool, reopen: bool, keep: bool, fate: Fate) -> None:
        """A person approves a document as it is."""
        self.put_in_force(
            self.document(place), ApprovalChoices(reopen_done=reopen, keep_removed=keep), fate, loop_mode=loop_mode
        )

    @rule(checked=st.booleans(), limited=st.booleans(), on_halt=HALTING)
    def change_the_settings(self, checked: bool, limited: bool, on_halt: OnHalt) -> None:
        """The configuration gets a check of the repository's own, a budget for loops or another way to halt."""
        checks = (Shell(name="sound", run="sound"),) if checked else ()
        budgets = BudgetPolicy(loop=SpendingLimits(time="2s")) if limited else None
        self.scene.policy = self.scene.policy.model_copy(
            update={"checks": checks, "budgets": budgets, "on_halt": on_halt}
        )

    # --- issues that people write -------------------------------------------------------------------------

    @rule()
    def wish(self) -> None:
        """Somebody writes an issue."""
        name = f"Wish {len(self.wishes)}"
        self.wishes.append(self.scene.forge("us").create_issue(name, wish_text(name, 0)).number)

    @precondition(lambda self: self.wishes)
    @rule(place=PLACES, wording=PLACES)
    def wish_otherwise(self, place: int, wording: int) -> None:
        """Somebody edits it, whether it is taken in or not."""
        at = place % len(self.wishes)
        self.scene.forge("us").edit_issue(self.wishes[at], body=wish_text(f"Wish {at}", wording))

    @precondition(lambda self: self.wishes)
    @rule(place=PLACES, fate=fates())
    def adopt(self, place: int, fate: Fate) -> None:
        """A person has one taken in."""

        def command(app: App) -> None:
            with app.driver.hold("adopt"):
                adopt(app, self.wishes[place % len(self.wishes)])

        self.take(command, fate)

    @precondition(lambda self: self.wishes)
    @rule(places=st.sets(PLACES, min_size=1, max_size=3), loop_mode=st.sampled_from([True, True, False]), fate=fates())
    def approve_wishes(self, places: set[int], loop_mode: bool, fate: Fate) -> None:
        """A person approves some of them, as they are."""
        self.scene.clock.moment += timedelta(minutes=1)
        numbers = tuple(dict.fromkeys(self.wishes[place % len(self.wishes)] for place in sorted(places)))

        def command(app: App) -> None:
            resolved = resolve(app, Issues(numbers), "these")
            with app.driver.hold("adopt"):
                (approve if loop_mode else approve_stepwise)(app, resolved, resolved.name, "ada")

        self.take(command, fate, decides=True)

    # --- work ---------------------------------------------------------------------------------------------

    @precondition(lambda self: self.open_loops())
    @rule(place=PLACES, fate=fates())
    def go_on(self, place: int, fate: Fate) -> None:
        """A loop takes its next step."""
        self.go_on_with(place, fate)

    @precondition(lambda self: self.open_loops())
    @rule(place=PLACES, steps=st.integers(2, 12), fate=fates())
    def work(self, place: int, steps: int, fate: Fate) -> None:
        """A loop takes several steps on a good day; the last one meets its fate."""
        for step in range(steps):
            if self.open_loops():
                self.go_on_with(place, fate if step == steps - 1 else KIND)

    @precondition(lambda self: self.numbers())
    @rule(place=PLACES, kind=st.sampled_from(STEPS), fate=fates())
    def take_one_step(self, place: int, kind: type, fate: Fate) -> None:
        """A person orders one step of an issue, fitting or not."""
        state = self.scene.world.state(self.number(place))
        self.take(lambda app: perform(app, kind(state.task_key)), fate)

    @precondition(lambda self: self.numbers())
    @rule(place=PLACES, fate=fates())
    def take_the_next_step(self, place: int, fate: Fate) -> None:
        """A person orders what an issue needs, without a loop."""
        number = self.number(place)
        step = next_step(self.scene.app, number)
        if not isinstance(step, Question | Idle) and self.take(lambda app: perform(app, step), fate):
            self.brief_holds(number)

    @rule(place=PLACES, word=st.sampled_from(["catch up", "reconcile", "stop"]), fate=fates())
    def look_after(self, place: int, word: str, fate: Fate) -> None:
        """Somebody takes up what was left, compares log and forge, or cancels the run of an issue by hand."""
        chores: dict[str, Command] = {
            "catch up": catch_up,
            "reconcile": reconcile,
            "stop": lambda app: [stop_at(app, number, "enough") for number in self.some_number(place)],
        }

        def command(app: App) -> None:
            with app.driver.hold(word):
                chores[word](app)

        if self.take(command, fate, refusable=word == "stop") and word == "reconcile" and fate.is_kind:
            for number in self.numbers():
                self.brief_holds(number)

    # --- answers ------------------------------------------------------------------------------------------

    @precondition(lambda self: self.asking())
    @rule(place=PLACES, choice=PLACES, in_loop=st.booleans(), fate=fates())
    def answer(self, place: int, choice: int, in_loop: bool, fate: Fate) -> None:
        """A person answers the question of an issue with any of its choices."""
        asking = self.asking()
        number = asking[place % len(asking)]
        key = self.scene.world.state(number).task_key
        loop_id = loops.loop_of(loops.open_loops(self.scene.app), key) if in_loop else None

        def command(app: App) -> None:
            question = next_step(app, number, loop_id)
            if isinstance(question, Question):
                with app.driver.hold("answer"):
                    answer_issue(app, number, self.answer_to(app, question, choice), loop_id)

        self.take(command, fate, decides=True)

    @precondition(lambda self: self.open_loops())
    @rule(place=PLACES, choice=PLACES, fate=fates())
    def answer_a_loop(self, place: int, choice: int, fate: Fate) -> None:
        """A person answers what a loop itself asks."""
        open_loops = self.open_loops()
        loop_id = open_loops[place % len(open_loops)]

        def command(app: App) -> None:
            question = question_of_loop(app, loop_id)
            if question:
                answer_loop(app, loop_id, self.answer_to(app, question, choice))

        self.take(command, fate, decides=True)

    @precondition(lambda self: self.open_loops())
    @rule(place=PLACES, word=st.sampled_from(["extend", "skip", "skip", "cancel"]), task=PLACES, fate=fates())
    def govern(self, place: int, word: str, task: int, fate: Fate) -> None:
        """A person allows a loop more transitions, takes a task out of it, or ends it."""
        open_loops = self.open_loops()
        loop_id = open_loops[place % len(open_loops)]
        keys = loops.read_loop(self.scene.app, loop_id).keys or ("nothing",)
        words: dict[str, Command] = {
            "extend": lambda app: loops.extend(app, loop_id, 1 + task, "ada"),
            "skip": lambda app: loops.skip(app, loop_id, keys[task % len(keys)], "ada"),
            "cancel": lambda app: loops.cancel(app, loop_id, "ada"),
        }
        self.take(words[word], fate, decides=True)

    @rule(deed=st.sampled_from(DEEDS), place=PLACES, which=PLACES)
    def the_world_acts(self, deed: Deed, place: int, which: int) -> None:
        """Somebody else does something: on the forge, on the target branch, in the files."""
        deed(self, place, which)

    # --- helpers ------------------------------------------------------------------------------------------

    def put_in_force(self, path: Path, words: ApprovalChoices, fate: Fate, *, loop_mode: bool = True) -> None:
        self.scene.clock.moment += timedelta(minutes=1)  # loop ids name the minute

        def command(app: App) -> None:
            proposal = propose(app, path, loop_mode=loop_mode, choices=words)
            put = approve if loop_mode else approve_stepwise
            with app.driver.hold("publish"):
                put(app, proposal, proposal.name, "ada")

        self.take(command, fate, decides=True)

    def go_on_with(self, place: int, fate: Fate) -> None:
        open_loops = self.open_loops()
        loop_id = open_loops[place % len(open_loops)]
        self.take(lambda app: self.step_of_loop(app, loop_id), fate, refusable=False)

    def step_of_loop(self, app: App, loop_id: str) -> None:
        with app.lease.hold(loop_id):
            decision = next_decision(app, loop_id)
            if not isinstance(decision, Halt):
                loops.resume(app, loop_id)
                number = read_world(app).states[decision.task_key].issue_number
                assert next_step(app, number, loop_id) == decision
                perform(app, decision, loop_id)
            elif decision.reason == "goal_reached":
                loops.resume(app, loop_id)
                loops.complete(app, loop_id)
            else:
                loops.halt(app, loop_id, decision)

    def answer_to(self, app: App, question: Question, choice: int) -> Answer:
        legal = choices(question.rule, in_loop=question.loop_id is not None)
        revision = None
        if question.task_key and (plan := read_world(app).plans.get(question.task_key)):
            revision = propose_again(app, plan).name
        return Answer(
            legal[choice % len(legal)].name,
            "ada",
            note="prettier",
            count=1 + choice % 2,
            amount="3s",
            revision=revision,
        )

    def brief_holds(self, number: int) -> None:
        brief_is_true(look(self.scene, self.chances.runs, decides=self.decides), number)

    def write(self, path: Path, document: Document) -> None:
        path.write_text(document.text)
        self.drafts[path].append(document)

    def document(self, place: int) -> Path:
        return list(self.drafts)[place % len(self.drafts)]

    def open_loops(self) -> list[str]:
        return [loop.id for loop in loops.open_loops(self.scene.app)]

    def numbers(self) -> list[int]:
        return sorted(state.issue_number for state in self.scene.world.states.values())

    def number(self, place: int) -> int:
        return self.numbers()[place % len(self.numbers())]

    def some_number(self, place: int) -> list[int]:
        """An issue, if there is one."""
        return [self.number(place)] if self.numbers() else []

    def asking(self) -> list[int]:
        world = self.scene.world
        return sorted(state.issue_number for state in world.states.values() if world.halt_of(state))
