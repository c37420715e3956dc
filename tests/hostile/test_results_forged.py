"""Check results that something else than the program wrote are not believed (R18)."""

from __future__ import annotations

import os
import stat

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.errors import LogDamaged
from irontree.services.execution.checking import Subject, commands_digest
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.record import read_world
from irontree.store.documents import FileResultStore, encode_value
from irontree.store.layout import create
from tests.support.store import SHA, check_report
from tests.support.world import ONE_TASK, Scene, does


@pytest.fixture
def layout(tmp_path):
    return create(tmp_path / "repository")


def store_of(layout) -> FileResultStore:
    return FileResultStore(layout.root, layout.root.parent / "state" / "results.key")


def forge(layout, results) -> None:
    """Write *results* as an agent could that reaches `.mino/`: in the form of the file, without the key."""
    path = layout.reports(results.issue_number) / f"{results.anchor}.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_value(results))


def test_results_without_a_seal_are_refused(layout):
    store_of(layout).begin_sealing()
    forge(layout, check_report())
    with pytest.raises(LogDamaged, match="this program did not write it"):
        store_of(layout).load(12, SHA)


def test_a_seal_does_not_pass_to_other_results(layout):
    store = store_of(layout)
    store.save(check_report(results=()))
    path = layout.reports(12) / f"{SHA}.yml"
    seal = path.read_text().splitlines()[-1]
    forge(layout, check_report())
    with path.open("a") as file:
        file.write(f"{seal}\n")
    with pytest.raises(LogDamaged, match="was changed"):
        store.load(12, SHA)


def test_sealed_results_of_another_commit_do_not_pass_for_those_of_this_one(layout):
    store, other = store_of(layout), "b" * 40
    store.save(check_report(anchor=other))
    (layout.reports(12) / f"{other}.yml").rename(layout.reports(12) / f"{SHA}.yml")
    with pytest.raises(LogDamaged, match=f"is about issue-12 at {other}"):
        store.load(12, SHA)


def test_results_of_an_earlier_version_are_sealed_before_anything_of_an_agent_runs(layout):
    forge(layout, check_report())
    store_of(layout).begin_sealing()
    assert store_of(layout).load(12, SHA) == check_report()


def test_a_seal_that_nobody_can_check_makes_no_results_ours(layout):
    """The key may be gone, or the results may come from another machine."""
    store_of(layout).save(check_report())
    (layout.root.parent / "state" / "results.key").unlink()
    for _ in range(2):
        with pytest.raises(LogDamaged, match="this program did not write it"):
            store_of(layout).load(12, SHA)
        store_of(layout).begin_sealing()


@pytest.mark.parametrize("left", [b"", b"short", b"x" * 33])
def test_a_key_that_is_not_whole_is_no_key(layout, left):
    """Anybody has the empty one; and what has no seal, beside what is left of a key, is of no earlier version."""
    key = layout.root.parent / "state" / "results.key"
    store_of(layout).begin_sealing()
    key.write_bytes(left)
    forge(layout, check_report())
    for _ in range(2):
        with pytest.raises(LogDamaged, match="this program did not write it"):
            store_of(layout).load(12, SHA)
        store_of(layout).begin_sealing()
    assert len(key.read_bytes()) == 32
    store_of(layout).save(check_report())
    assert store_of(layout).load(12, SHA) == check_report()


def test_a_seal_of_odd_letters_is_a_wrong_one(layout):
    store = store_of(layout)
    store.save(check_report())
    path = layout.reports(12) / f"{SHA}.yml"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "seal" not in line) + "seal: é\n")
    with pytest.raises(LogDamaged, match="this program did not write it"):
        store.load(12, SHA)


def test_the_key_is_its_owner_s_alone_whatever_the_umask(layout):
    before = os.umask(0)
    try:
        store_of(layout).begin_sealing()
    finally:
        os.umask(before)
    key = layout.root.parent / "state" / "results.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert [path.name for path in key.parent.iterdir()] == ["results.key"]


def test_forged_green_results_of_a_red_commit_change_nothing(tmp_path):
    """An attempt that knows its commit writes what the checks would say; they run all the same."""
    scene = Scene(tmp_path / "repository", tmp_path / "cache")
    layout = create(scene.root)
    scene.results = store_of(layout)
    scene.agent = ScriptedAgent(does(greet_txt="bye"))
    scene.publish(ONE_TASK)
    scene.results.begin_sealing()
    run(scene.app, 1)
    forge(layout, green_report(scene))
    state = verify(scene.app, 1)
    assert state.last_event == "verify_failed_retryable"
    assert scene.checks.commands == ["has greet.txt hello"]
    assert any("the checks run again" in note for note in scene.notes.lines)


def green_report(scene: Scene):
    """What a verification of the first issue's commit would store if its checks passed."""
    world = read_world(scene.app)
    state = world.state(1)
    subject = Subject(state, world.plan(state), world.node(state), state.commit)
    digest = commands_digest(subject)
    passed = check_report().results[0]
    return check_report(issue_number=1, anchor=state.commit, results=(passed,), commands_digest=digest)
