"""Equal failures have one fingerprint whatever changed around them; other failures have another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.checks import EXCERPT_LINES, CheckResult, excerpt, fingerprint, normalised, telling_lines

PYTEST = """\
============================= test session starts ==============================
collected 3 items
FAILED tests/test_notes.py::test_add - AssertionError: assert 1 == 2
1 failed, 2 passed in 0.12s"""


def failed(output: str = PYTEST, **changes) -> CheckResult:
    values = {"name": "tests", "command": "pytest", "ended": "exited", "exit_code": 1, "seconds": 1.0}
    return CheckResult(**{**values, "output": output, "output_digest": "0" * 64, **changes})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Error at 2026-01-02T12:00:00Z", "Error at 2026-03-04T08:15:59.123+02:00"),
        ("12:00:01 error: no such table", "23:59:59.999 error: no such table"),
        ("1 failed in 0.12s", "1 failed in 12.7s"),
        ("Error: took 3 minutes", "Error: took 14 minutes"),
        ("=== 1 failed in 0.1s ===", "===== 1 failed in 10.12s ====="),
        ("error in /tmp/tmpab12_x9q/app.py", "error in /tmp/tmpzz99_qqq/app.py"),
        ("error in /tmp/pytest-of-ann/pytest-3/x.txt", "error in /tmp/pytest-of-ann/pytest-12/x.txt"),
        ("no such file: /var/folders/a1/b2c3/T/tmp.Xy12/out", "no such file: /var/folders/zz/q9/T/tmp.Ab99/out"),
        ("TypeError: <Note object at 0x7f3a2b>", "TypeError: <Note object at 0x55e1c0ffee>"),
        ("refused: 127.0.0.1:54321", "refused: 127.0.0.1:40001"),
        ("error: commit 1a2b3c4d5e is broken", "error: commit 9f8e7d6c5b4a is broken"),
        ("error in run 123e4567-e89b-42d3-a456-426614174000", "error in run 00000000-e89b-42d3-a456-42661417ffff"),
        ("killed (pid 4711)", "killed (pid 12)"),
        ("failed with seed 12345", "failed with seed 9"),
        ("src/app.py:12: error: undefined name x", "src/app.py:14: error: undefined name x"),
        ("src/app.ts(3,14): error TS2304", "src/app.ts(4,1): error TS2304"),
        ('File "app.py", line 12, in f: error', 'File "app.py", line 13, in f: error'),
        ("\x1b[31mFAILED\x1b[0m test_a", "FAILED test_a"),
        ("compiling 10%\rcompiling 99%\rerror: x", "compiling 1%\rerror: x"),
        ("test_a FAILED [ 33%]", "test_a FAILED [ 50%]"),
        ("error: a\nerror: b", "error: b\nerror: a"),
        ("downloaded 17 files\nerror: a", "downloaded 3 files\nerror: a"),
    ],
)
def test_what_changes_between_equal_failures_does_not_count(one, other):
    assert fingerprint(failed(one)) == fingerprint(failed(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("FAILED test_a", "FAILED test_b"),
        ("AssertionError: assert 1 == 2", "AssertionError: assert 1 == 3"),
        ("2 failed, 1 passed in 1s", "1 failed, 2 passed in 1s"),
        ("error: undefined name x", "error: undefined name y"),
        ("a.py:1: error: unused\na.py:9: error: unused", "a.py:1: error: unused"),
        ("error in /tmp/tmpab12/app.py", "error in /tmp/tmpab12/other.py"),
        ("nothing that tells", "nothing else that tells"),
    ],
)
def test_what_distinguishes_failures_does(one, other):
    assert fingerprint(failed(one)) != fingerprint(failed(other))


@pytest.mark.parametrize(
    "change", [{"exit_code": 2}, {"name": "lint"}, {"command": "pytest -x"}, {"ended": "timeout", "exit_code": None}]
)
def test_another_check_command_or_end_is_another_failure(change):
    assert fingerprint(failed()) != fingerprint(failed(**change))


def test_of_a_check_that_was_cut_off_its_output_says_nothing():
    cut = {"ended": "timeout", "exit_code": None}
    assert fingerprint(failed("1 of 9\nerror", **cut)) == fingerprint(failed("1 of 9\nerror\n2 of 9", **cut))


def test_the_time_that_a_check_took_does_not_count():
    assert fingerprint(failed(seconds=1.0)) == fingerprint(failed(seconds=99.0))


def test_the_lines_that_tell_are_those_that_name_what_failed():
    assert telling_lines(PYTEST) == tuple(PYTEST.splitlines()[2:])


def test_an_excerpt_is_short_and_never_empty():
    long = failed("\n".join(f"error {number}: {'x' * 500}" for number in range(50)))
    assert len(excerpt(long).splitlines()) == EXCERPT_LINES
    assert excerpt(failed("")) == "`pytest` fails"


@given(st.text(max_size=300))
def test_any_output_has_a_fingerprint_and_normalising_twice_is_normalising_once(text):
    assert len(fingerprint(failed(text))) == 16
    once = normalised(text)
    assert normalised(once) == once


@given(st.lists(st.sampled_from(["error: a", "error: b", "FAILED test_c", "ok"]), max_size=8), st.randoms())
def test_the_order_of_lines_does_not_count(lines, random):
    mixed = random.sample(lines, len(lines))
    assert fingerprint(failed("\n".join(lines))) == fingerprint(failed("\n".join(mixed)))
