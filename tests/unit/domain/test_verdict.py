"""Which commands verify a task, what covers its criteria, and what results amount to (protocol, phase 5; R18)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.agents import AgentSpec
from irontree.domain.checks import (
    CheckReport,
    CheckResult,
    Coverage,
    Failed,
    Passed,
    Pending,
    checks_for,
    coverage,
    judge,
)
from irontree.domain.command_lines import is_trivial
from irontree.domain.plan import Criterion, DetectionRow, ExecutionPolicy, PlanNode, PublishPolicy, Shell

PLAIN = Criterion(text="It works")
MANUAL = Criterion(text="It looks right", manual=True)
BY_CHECK = Criterion(text="Types hold", check="types")
BY_COMMAND = Criterion(text="It says hello", command="./hello | grep hello")
TYPES, TESTS = Shell(name="types", run="mypy ."), Shell(name="tests", run="pytest")
NPM = DetectionRow(files=("package.json",), commands=(Shell(name="test", run="npm test"),))
PNPM = DetectionRow(files=("package.json", "pnpm-lock.yaml"), commands=(Shell(name="test", run="pnpm test"),))
XCODE = DetectionRow(files=("*.xcodeproj",), commands=(Shell(name="test", run="xcodebuild test"),))


def policy(*checks, detection=()):
    return ExecutionPolicy(
        agent=AgentSpec(), checks=checks, detection=detection, publish=PublishPolicy(target_branch="main")
    )


def node(*criteria, verification=()):
    return PlanNode(task_key="core-api", title="API", criteria=criteria, verification=verification)


def runs(found):
    return [command.run for command in found]


def result(*, ended="exited", exit_code=0):
    return CheckResult(
        name="tests", command="pytest", ended=ended, exit_code=exit_code, seconds=1, output="", output_digest="0" * 64
    )


def report(*results):
    return CheckReport(issue_number=7, anchor="c" * 40, commands_digest="d", results=results)


# --- commands -----------------------------------------------------------------------------------------------


def test_configured_checks_run_first_then_the_tasks_own_then_those_of_its_criteria():
    found = checks_for(node(BY_COMMAND, verification=("make smoke",)), policy(TYPES, TESTS), ())
    assert runs(found) == ["mypy .", "pytest", "make smoke", "./hello | grep hello"]
    assert [command.name for command in found][2:] == ["task: make smoke", "criterion: ./hello | grep hello"]


@pytest.mark.parametrize(
    ("checks", "verification", "expected"),
    [
        ((), (), ["npm test"]),
        ((TESTS,), (), ["pytest"]),
        ((), ("make smoke",), ["make smoke"]),
    ],
)
def test_what_is_there_is_detected_only_where_nothing_is_configured_or_listed(checks, verification, expected):
    found = checks_for(node(verification=verification), policy(*checks, detection=(NPM,)), ["package.json"])
    assert runs(found) == expected


def test_a_criterions_command_alone_does_not_stand_for_the_repositorys_checks():
    found = checks_for(node(BY_COMMAND), policy(detection=(NPM,)), ["package.json"])
    assert runs(found) == ["npm test", "./hello | grep hello"]


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (["package.json", "pnpm-lock.yaml", "README.md"], ["pnpm test"]),
        (["package.json"], ["npm test"]),
        (["pnpm-lock.yaml"], []),
        ([], []),
        (["App.xcodeproj"], ["xcodebuild test"]),
        (["app.XCODEPROJ"], []),
    ],
)
def test_the_first_row_whose_files_are_all_there_is_detected(present, expected):
    assert runs(checks_for(node(), policy(detection=(PNPM, NPM, XCODE)), present)) == expected


def test_the_same_command_line_runs_once_under_its_first_name():
    wanted = node(Criterion(text="x", command="pytest"), verification=("pytest", "mypy ."))
    assert checks_for(wanted, policy(TESTS), ()) == (TESTS, Shell(name="task: mypy .", run="mypy ."))


def test_nothing_configured_listed_or_detected_is_no_command():
    assert checks_for(node(PLAIN, MANUAL), policy(), ["README.md"]) == ()


# --- coverage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criterion", "verification", "by"),
    [
        (PLAIN, (), None),
        (PLAIN, ("make a", "make b"), "make a; make b"),
        (MANUAL, (), None),
        (MANUAL, ("make a",), None),
        (Criterion(text="x", manual=True, command="y", check="types"), ("make a",), None),
        (BY_CHECK, (), "mypy ."),
        (BY_CHECK, ("make a",), "mypy ."),
        (Criterion(text="x", check="lint"), (), None),
        (Criterion(text="x", check="lint"), ("make a",), None),
        (BY_COMMAND, (), "./hello | grep hello"),
        (BY_COMMAND, ("make a",), "./hello | grep hello"),
    ],
)
def test_a_criterion_is_covered_by_what_it_names_else_by_the_tasks_commands_and_a_manual_one_by_nobody(
    criterion, verification, by
):
    assert coverage(node(criterion, verification=verification), policy(TYPES)) == (Coverage(criterion, by),)


def test_configured_checks_that_no_criterion_names_cover_none():
    """Ruling R18: green checks of the repository do not say that this task's criterion is met."""
    assert coverage(node(PLAIN), policy(TYPES, TESTS)) == (Coverage(PLAIN, None),)


@given(
    st.lists(st.sampled_from([PLAIN, MANUAL, BY_CHECK, BY_COMMAND]), max_size=4),
    st.lists(st.sampled_from(["make a", "make b", "pytest"]), max_size=3),
    st.lists(st.sampled_from([TYPES, TESTS]), unique=True),
)
def test_whatever_covers_a_criterion_has_run(criteria, verification, checks):
    """Decision 4: else a criterion could count as met by a command that nobody started."""
    wanted = node(*criteria, verification=tuple(verification))
    commands = set(runs(checks_for(wanted, policy(*checks, detection=(NPM,)), ["package.json"])))
    for item in coverage(wanted, policy(*checks)):
        assert item.by is None or {item.by} <= commands or set(item.by.split("; ")) <= commands


@pytest.mark.parametrize("command", ["true", " true ", ":", "exit 0", "exit  0", "/bin/true", "echo", "echo ok", " "])
def test_a_command_that_proves_nothing_is_pointed_out(command):
    assert is_trivial(command)


@pytest.mark.parametrize("command", ["pytest", "true && pytest", "echo start; pytest", "echo x | grep y", "exit 1"])
def test_a_command_that_can_fail_is_not_called_trivial(command):
    assert not is_trivial(command)


# --- verdict ------------------------------------------------------------------------------------------------

COVERED = (Coverage(PLAIN, "make a"),)


def test_outcome_a_all_checks_pass_and_every_criterion_is_covered():
    assert judge(report(result()), COVERED, attempt=1, max_retry=3) == Passed()
    assert judge(report(result()), (), attempt=1, max_retry=3) == Passed()


@pytest.mark.parametrize(
    ("attempt", "max_retry", "retryable"),
    [(1, 3, True), (3, 3, True), (4, 3, False), (5, 3, False), (1, 0, False), (1, 1, True), (2, 1, False)],
)
def test_outcomes_b_and_c_attempt_n_is_retryable_up_to_the_number_of_retries(attempt, max_retry, retryable):
    """TC-2.3: with 3 retries, attempts 1 to 3 are retryable and the fourth is terminal."""
    red = result(exit_code=1)
    assert judge(report(result(), red), COVERED, attempt=attempt, max_retry=max_retry) == Failed(red, retryable)


@pytest.mark.parametrize("ended", ["timeout", "not_started"])
def test_a_check_that_did_not_run_to_its_end_is_a_failure(ended):
    red = result(ended=ended, exit_code=None)
    assert judge(report(red), COVERED, attempt=1, max_retry=3) == Failed(red, retryable=True)


def test_a_failed_check_comes_before_what_only_a_person_can_judge():
    red = result(exit_code=1)
    assert judge(report(red), [Coverage(MANUAL, None)], attempt=1, max_retry=3) == Failed(red, retryable=True)


def test_outcome_d_a_criterion_that_nothing_covers_waits_for_a_person():
    verdict = judge(report(result()), [*COVERED, Coverage(MANUAL, None)], attempt=1, max_retry=3)
    assert verdict == Pending(("only a person can judge: It looks right",))


def test_outcome_d_without_any_command_a_person_must_judge():
    """TC-3.2."""
    nothing = "no check command is configured, listed or detected"
    assert judge(report(), (), attempt=1, max_retry=3) == Pending((nothing,))
    assert judge(report(), [Coverage(PLAIN, None)], attempt=1, max_retry=3) == Pending(
        (nothing, "only a person can judge: It works")
    )


def test_cited_evidence_never_covers_what_a_person_judges():
    """Though another criterion, which it was cited for, has the same text."""
    twice = node(Criterion(text="it is friendly"), Criterion(text="it is friendly", manual=True))
    covered = coverage(twice, policy(), {"it is friendly": "greet.txt:1 (critic)"})
    assert [item.by for item in covered] == ["greet.txt:1 (critic)", None]
