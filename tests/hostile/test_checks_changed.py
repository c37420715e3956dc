"""A task that changes what judges it does not pass by that (R18)."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.checks.scripted import ScriptedCheckRunner
from irontree.ports import AgentTask
from irontree.services.execution.checkup import Decider, accept
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.views.report import evidence_of
from tests.support.memory_project import commit_here
from tests.support.world import Scene

TASK = "# Toy\n\n## Greeting\n\n- [ ] says hello `$ says hello`\n"
TEST = "tests/test_greet.txt"


def as_tested(command: str, workspace) -> int:
    """The check: passes if greet.txt has every line of the test."""
    del command
    said, asked = (path.read_text() if path.exists() else "" for path in (workspace / "greet.txt", workspace / TEST))
    return 0 if all(line in said for line in asked.splitlines()) else 1


def changes_the_test(task: AgentTask) -> None:
    (task.workspace / "greet.txt").write_text("bye\n")
    (task.workspace / TEST).write_text("bye\n")


def removes_the_test(task: AgentTask) -> None:
    (task.workspace / "greet.txt").write_text("bye\n")
    (task.workspace / TEST).unlink()


def does_the_work_and_tidies_the_test(task: AgentTask) -> None:
    (task.workspace / "greet.txt").write_text("hello\nand bye\n")
    (task.workspace / TEST).write_text("bye\n")


@pytest.fixture
def scene(tmp_path) -> Scene:
    made = Scene(tmp_path / "repository", tmp_path / "cache")
    made.repository.remote["main"] = commit_here(made.repository, {TEST: b"hello\n"})
    made.checks = ScriptedCheckRunner(as_tested)
    made.publish(TASK)
    return made


def attempt(scene: Scene, step, **settings):
    scene.agent = ScriptedAgent(step)
    if settings:
        scene.policy = scene.policy.model_copy(update=settings)
        scene.publish(TASK)
    run(scene.app, 1)
    return verify(scene.app, 1)


@pytest.mark.parametrize("cheat", [changes_the_test, removes_the_test])
def test_a_red_commit_whose_test_was_changed_waits_for_a_person_who_is_told_so_first(scene, cheat):
    state = attempt(scene, cheat)
    assert state.last_event == "verify_pending_acceptance"
    assert scene.repository.remote["main"] != state.commit
    said = (
        f"this task changed files that define its own checks: {TEST}; with these files as they were, `says hello` fails"
    )
    assert scene.last().told.reasons[0].startswith(said)
    evidence = evidence_of(scene.app, state)
    assert evidence.files[0].path == TEST
    assert evidence.diff.index(TEST) < evidence.diff.index("greet.txt")
    report = scene.projections.texts[scene.root / state.report_path]
    assert report.count("files that define its own checks") == 1


def test_what_the_first_run_of_the_checks_left_is_not_there_when_they_run_as_before(scene):
    """Ignored and untracked files too: the work could plant one that lets the old tests pass."""

    def judge(command: str, workspace) -> int:
        planted = workspace / "planted.txt"
        passed = planted.exists() or as_tested(command, workspace) == 0
        planted.write_text("whatever the tests say\n")
        return 0 if passed else 1

    scene.checks = ScriptedCheckRunner(judge)
    attempt(scene, changes_the_test)
    assert "with these files as they were, `says hello` fails" in scene.last().told.reasons[0]


def test_a_person_may_accept_what_passes_with_the_old_test_too(scene):
    state = attempt(scene, does_the_work_and_tidies_the_test)
    assert scene.last().told.reasons[0].endswith("with these files as they were, the checks pass too")
    assert accept(scene.app, 1, Decider("ada")).code_ref == state.anchor == scene.repository.remote["main"]


def test_where_it_is_refused_the_attempt_has_failed_and_the_next_one_is_told_why(scene):
    state = attempt(scene, changes_the_test, protected="refuse")
    assert state.last_event == "verify_failed_retryable"
    run(scene.app, 1)
    told = scene.agent.tasks[-1].prompt
    assert "Put them back as they were" in told
    assert TEST in told


def test_where_it_is_allowed_the_report_says_it(scene):
    state = attempt(scene, changes_the_test, protected="allow")
    assert state.last_event == "verify_passed"
    assert f"files that define its own checks: {TEST}" in scene.projections.texts[scene.root / state.report_path]


def test_a_new_module_in_the_place_of_the_runner_of_the_tests_waits_for_a_person(scene):
    """`python -m pytest` takes the first that it finds, and looks in its own folder first."""
    runner = "pytest.py"
    scene.checks = ScriptedCheckRunner(lambda command, workspace: 0 if (workspace / runner).exists() else 1)
    scene.publish("# Toy\n\n## Greeting\n\n- [ ] says hello `$ python -m pytest`\n")
    scene.agent = ScriptedAgent(lambda task: (task.workspace / runner).write_text("print('1 passed')\n") and None)
    run(scene.app, 1)
    state = verify(scene.app, 1)
    assert state.last_event == "verify_pending_acceptance"
    assert f"checks: {runner}; with these files as they were, `python -m pytest` fails" in scene.last().told.reasons[0]


@pytest.mark.parametrize("path", [".cargo/config.toml", ".mvn/jvm.config", "bunfig.toml", "pyrightconfig.json"])
def test_new_configuration_that_has_the_checks_do_nothing_waits_for_a_person(scene, path):
    """`runner = "true"` in `.cargo/config.toml`, and `cargo test` starts no test; it stood in no folder with tests."""
    there = {"Cargo.toml": b"[package]\n", "src/lib.rs": b"#[test] fn red() { panic!() }\n"}
    scene.repository.remote["main"] = commit_here(scene.repository, there)
    scene.checks = ScriptedCheckRunner(lambda command, workspace: 0 if (workspace / path).exists() else 1)

    def plant(task):
        (task.workspace / path).parent.mkdir(exist_ok=True)
        (task.workspace / path).write_text('[target."cfg(all())"]\nrunner = "true"\n')

    state = attempt(scene, plant)
    assert state.last_event == "verify_pending_acceptance"
    assert f"checks: {path}; with these files as they were" in scene.last().told.reasons[0]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("make check", "check"),
        ("cd app && python -m pytest", "app/pytest.py"),
        ("python accept/run.py", "accept/json.py"),
        ("says hello", "node_modules/greet/index.js"),
        ("python -m pytest", "tests/__init__.py"),
        ("make check", "unit"),
        ("make check", "pytest.py"),
        ("python -m pytest", "requirements.txt"),
        ("says hello", ".claude/settings.json"),
        ('PATH="$PWD/bin:$PATH" says hello', "bin/says"),
    ],
)
def test_a_new_file_that_is_taken_in_the_place_of_the_checks_waits_for_a_person(scene, command, path):
    there = {"tests/test_greet.py": b"", "app/main.py": b"", "accept/run.py": b"", "Makefile": b"check:\n\tfalse\n"}
    scene.repository.remote["main"] = commit_here(scene.repository, there)
    scene.checks = ScriptedCheckRunner(lambda command, workspace: 0 if (workspace / path).exists() else 1)
    scene.publish(f"# Toy\n\n## Greeting\n\n- [ ] says hello `$ {command}`\n")

    def plant(task: AgentTask) -> None:
        (task.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (task.workspace / path).touch()

    scene.agent = ScriptedAgent(plant)
    run(scene.app, 1)
    assert verify(scene.app, 1).last_event == "verify_pending_acceptance"
    assert f"checks: {path}; with these files as they were" in scene.last().told.reasons[0]


@pytest.mark.parametrize(
    "command", ['test "$(sh ci/verify.sh)" = ok', 'sh "${CI_DIR:-.}/ci/verify.sh"', "bash -c 'ci/verify.sh;true'"]
)
def test_a_script_that_a_command_runs_in_a_roundabout_way_waits_for_a_person(scene, command):
    script = "ci/verify.sh"
    scene.repository.remote["main"] = commit_here(scene.repository, {script: b"exit 1\n"})
    scene.checks = ScriptedCheckRunner(lambda command, workspace: int("exit 1" in (workspace / script).read_text()))
    scene.publish(f"# Toy\n\n## Greeting\n\n- [ ] says hello `$ {command}`\n")
    scene.agent = ScriptedAgent(lambda task: (task.workspace / script).write_text("echo ok\n") and None)
    run(scene.app, 1)
    assert verify(scene.app, 1).last_event == "verify_pending_acceptance"
    assert f"checks: {script}; with these files as they were" in scene.last().told.reasons[0]


SUITE = "tests/test_greet.py"


@pytest.mark.parametrize(
    "added",
    [
        "import pytest\npytestmark = pytest.mark.skip\n\n{}",
        "{}\n\ndef test_hello():\n    pass\n",
    ],
    ids=["a mark", "a second definition"],
)
def test_lines_that_are_only_added_and_disable_a_test_wait_for_a_person(scene, added):
    old = "def test_hello():\n    assert open('greet.txt').read() == 'hello'\n"
    scene.repository.remote["main"] = commit_here(scene.repository, {SUITE: old.encode()})
    scene.checks = ScriptedCheckRunner(lambda command, workspace: int((workspace / SUITE).read_text() == old))
    state = attempt(scene, lambda task: (task.workspace / SUITE).write_text(added.format(old)) and None)
    assert state.last_event == "verify_pending_acceptance"
    assert f"checks: {SUITE}; with these files as they were, `says hello` fails" in scene.last().told.reasons[0]


def test_a_check_that_rewrites_a_tracked_file_helps_no_later_one(scene):
    def judge(command: str, workspace) -> int:
        if command == "format":
            (workspace / "greet.txt").write_text("hello\n")
            return 0
        return as_tested(command, workspace)

    scene.checks = ScriptedCheckRunner(judge)
    task = "# Toy\n\n## Greeting\n\n- [ ] formatted `$ format`\n- [ ] says hello `$ says hello`\n"
    scene.publish(task)
    scene.agent = ScriptedAgent(lambda task: (task.workspace / "greet.txt").write_text("bye\n") and None)
    run(scene.app, 1)
    state = verify(scene.app, 1)
    assert state.last_event == "verify_failed_retryable"
    assert scene.results.load(1, state.anchor).warnings == (
        "`format` wrote files that were put back or removed: greet.txt",
    )


def test_what_a_check_plants_for_the_next_one_is_removed_and_told(scene):
    """Code of the work that runs in one check would tell the test runner of the next to run nothing."""
    left = {"conftest.py": "collect_ignore_glob = ['*']\n", "dist/app.js": "built\n"}

    def judge(command: str, workspace) -> int:
        if command != "build":
            return 1 if not (workspace / "dist/app.js").exists() else int(not (workspace / "conftest.py").exists())
        (workspace / "dist").mkdir()
        for path, text in left.items():
            (workspace / path).write_text(text)
        return 0

    scene.checks = ScriptedCheckRunner(judge)
    scene.publish("# Toy\n\n## Greeting\n\n- [ ] builds `$ build`\n- [ ] says hello `$ python -m pytest`\n")
    scene.agent = ScriptedAgent(lambda task: (task.workspace / "greet.txt").write_text("bye\n") and None)
    run(scene.app, 1)
    state = verify(scene.app, 1)
    assert state.last_event == "verify_failed_retryable"
    assert scene.results.load(1, state.anchor).warnings == (
        "`build` wrote files that were put back or removed: conftest.py",
    )


def test_with_the_old_tests_too_no_check_profits_from_what_an_earlier_one_wrote(scene):
    """A person is told how the old tests come out: code of the work that runs first could rewrite them."""

    def judge(command: str, workspace) -> int:
        if command == "build":
            (workspace / TEST).write_text("bye\n")
            return 0
        return as_tested(command, workspace)

    scene.checks = ScriptedCheckRunner(judge)
    scene.publish("# Toy\n\n## Greeting\n\n- [ ] builds `$ build`\n- [ ] says hello `$ says hello`\n")
    scene.agent = ScriptedAgent(changes_the_test)
    run(scene.app, 1)
    assert verify(scene.app, 1).last_event == "verify_pending_acceptance"
    assert "with these files as they were, `says hello` fails" in scene.last().told.reasons[0]
