"""Browser checks of a step in the engine: what a command sees, and what a person is shown (docs/hotl.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.domain.text import unmarked
from irontree.services.execution.checking import SHOT
from irontree.services.loops.loop import Loop
from irontree.services.proposals.approval import approval_text
from irontree.services.questions.listing import waiting
from irontree.services.questions.pages import parts_of, question_text
from tests.support.workflow_scenes import ONE, begin, driven, proposed
from tests.support.world import Scene, accepts, does, prepared


@pytest.fixture(autouse=True)
def agent(scene):
    scene.agent = ScriptedAgent(does(greet_txt="hello"))


BROWSER = "loop: false\nverify:\n  type: browser\n  url: http://localhost:3000\n  check: the badge is there\n"
SEEN = "the badge is there at http://localhost:3000"


def looking(scene: Scene, code: int, *, shows: str = "") -> Loop:
    def look(_: str, workspace: Path) -> int:
        (workspace / SHOT).write_bytes(b"a picture")
        return code

    scene.policy = scene.policy.model_copy(update={"browser": "look"})
    scene.checks = ScriptedCheckRunner(look, shows=shows)
    return begin(scene, BROWSER)


def test_without_a_command_a_person_looks_at_the_page(scene):
    loop = begin(scene, BROWSER)
    assert scene.drive(loop).reason == "pending_acceptance"
    assert scene.last(ONE).told.reasons == (f"only a person can judge: {SEEN}",)
    assert scene.checks.commands == []


def test_a_command_that_looks_is_told_what_must_be_there_and_its_picture_is_kept(scene):
    assert scene.drive(looking(scene, 0)).reason == "goal_reached"
    told = scene.checks.variables[0]
    assert (told["IRONTREE_BROWSER_URL"], told["IRONTREE_BROWSER_CHECK"]) == (
        *("http://localhost:3000", "the badge is there"),
    )
    assert told["IRONTREE_BROWSER_SHOT"].endswith(f"/{SHOT}")
    report = scene.results.load(scene.number(ONE), scene.state(ONE).anchor)
    assert report.cited == {SEEN: "what verify.browser saw"}
    (picture,) = (scene.root / ".mino" / "reports").rglob("browser-1.png")
    assert picture.read_bytes() == b"a picture"
    assert report.results[0].output.endswith(f"Screenshot: {picture.relative_to(scene.root)}")


def test_where_the_command_cannot_tell_a_person_looks(scene):
    loop = looking(scene, 77)
    assert scene.drive(loop).reason == "pending_acceptance"
    assert scene.last(ONE).told.reasons == (f"only a person can judge: {SEEN}",)
    (question,) = waiting(scene.app)
    assert "Screenshot: .mino/reports" in question_text(scene.app, question)
    assert scene.drive(loop, prepared(accepts())).reason == "goal_reached"


ANSWERED = "http://localhost:3000/ answered 200 OK"


def test_with_the_extra_the_person_is_shown_the_page_and_nothing_has_passed(scene):
    scene.checks = ScriptedCheckRunner(shows=ANSWERED)
    loop = begin(scene, BROWSER)
    assert scene.drive(loop).reason == "pending_acceptance"
    assert scene.last(ONE).told.reasons == (f"only a person can judge: {SEEN}",)
    (question,) = waiting(scene.app)
    shown = [parts_of(question_text(scene.app, question)).lead, scene.comments(ONE)[-1]]
    for text in map(unmarked, shown):
        assert ANSWERED in text
        assert "Screenshot: .mino/reports" in text
        assert "0 of 1 passed" not in text
    (picture,) = (scene.root / ".mino" / "reports").rglob("page-1.png")
    assert picture.read_text() == ANSWERED
    assert scene.results.load(scene.number(ONE), scene.state(ONE).anchor).cited == {}
    assert scene.drive(loop, prepared(accepts())).reason == "goal_reached"


def test_where_the_command_cannot_tell_the_person_is_shown_what_both_saw(scene):
    loop = looking(scene, 77, shows=ANSWERED)
    assert scene.drive(loop).reason == "pending_acceptance"
    (result,) = scene.results.load(scene.number(ONE), scene.state(ONE).anchor).results
    printed, first, answered, second = result.output.splitlines()
    assert (printed, answered) == ("browser: the badge is there", ANSWERED)
    assert (Path(first).name, Path(second).name) == ("browser-1.png", "page-1.png")


def test_a_picture_that_an_earlier_check_left_is_not_shown_as_that_of_the_page(scene):
    def leave(_: str, workspace: Path) -> int:
        left = workspace / SHOT
        if "IRONTREE_BROWSER_SHOT" in scene.checks.variables[-1]:
            assert not left.exists()
            return 77
        left.write_bytes(b"of something else")
        return 0

    scene.policy = scene.policy.model_copy(update={"browser": "look"})
    scene.checks = ScriptedCheckRunner(leave)
    two = "  - type: browser\n    url: http://localhost\n    check: it is there"
    begun = begin(scene, f"loop: false\nverify:\n  - type: shell\n    command: leave\n{two}\n")
    assert scene.drive(begun).reason == "pending_acceptance"
    assert not list((scene.root / ".mino" / "reports").rglob("*.png"))


def test_nothing_looks_at_a_page_behind_a_check_that_failed(scene):
    scene.checks = ScriptedCheckRunner(lambda _command, _workspace: 1, shows=ANSWERED)
    checks = "loop: false\nverify:\n  - type: browser\n    url: http://localhost\n    check: it is there"
    assert driven(scene, f"{checks}\n  - type: shell\n    command: fails\n") == "fail_terminal"
    assert [result.name for result in scene.results.load(scene.number(ONE), scene.state(ONE).anchor).results] == [
        "step: fails"
    ]


def test_what_the_command_does_not_see_has_failed(scene):
    assert scene.drive(looking(scene, 1)).reason == "fail_terminal"
    (question,) = waiting(scene.app)
    assert question.said.startswith(f"not seen in the browser: {SEEN}")


@pytest.mark.parametrize("command", [None, "look", "true"])
def test_the_approval_says_who_looks_at_pages(scene, command: str | None):
    scene.policy = scene.policy.model_copy(update={"browser": command})
    shown = approval_text(scene.app, proposed(scene, BROWSER), loop_mode=True)
    assert (f"Browser checks are looked at by `{command}`" in shown) is (command is not None)
    assert ("Browser checks are put to a person" in shown) is (command is None)
    assert ("`true` proves nothing" in shown) is (command == "true")
