"""Lines that are added to a file of tests: new tests, or something that changes what the old ones say (R18)."""

from __future__ import annotations

import ast
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain import added_tests

PYTHON = '''\
"""Sums."""

import unittest

import pytest

from calc import add


@pytest.fixture
def numbers():
    return [1, 2]


def test_add(numbers, tmp_path):
    total = add(*numbers)
    assert total == 3


class TestSums(unittest.TestCase):
    def test_zero(self):
        self.assertEqual(add(0, 0), 0)
'''
JAVASCRIPT = """\
import { add } from './calc'

describe('sums', () => {
  it('adds', () => {
    const total = add(1, 2)
    expect(total).toBe(3)
  })
})
"""
GO = """\
package calc

import "testing"

func TestAdd(t *testing.T) {
	got := Add(1, 2)
	if got != 3 {
		t.Errorf("got %d", got)
	}
}
"""


def only_adds_tests(path: str, before: str, changed: str) -> bool:
    return added_tests.only_adds_tests(path, before, changed, sys.stdlib_module_names)


def after(text: str, line: str, added: str) -> str:
    """*text* with *added* below the first line that has *line* in it."""
    lines = text.splitlines(keepends=True)
    at = next(number for number, each in enumerate(lines) if line in each)
    return "".join((*lines[: at + 1], added, *lines[at + 1 :]))


@pytest.mark.parametrize(
    "changed",
    [
        PYTHON,
        PYTHON + "\n\ndef test_sub():\n    assert 1\n",
        PYTHON + "\n    def test_one(self):\n        self.assertEqual(add(1, 0), 1)\n",
        PYTHON
        + "\n\n@pytest.mark.parametrize('case', [1])\ndef test_sub(case: int | None = None) -> None:\n    return\n",
        PYTHON
        + "\n\nclass TestMore(unittest.TestCase):\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n",
        after(
            PYTHON,
            "from calc",
            "from calc import subtract\nimport json\nfrom pathlib import Path\n\nCASES = [(1, 2), (3, 4)]\n",
        ),
        after(PYTHON, "from calc", "\n\ndef helper(value):\n    return value\n\n\nasync def test_first():\n    pass\n"),
        after(PYTHON, "total = add", "    # it is three\n\n"),
    ],
)
def test_new_tests_in_python_are_only_added(changed):
    assert only_adds_tests("tests/test_calc.py", PYTHON, changed)


ATTACKS = [
    "pytestmark = pytest.mark.skip\n",
    "pytest.skip('later', allow_module_level=True)\n",
    "raise SystemExit\n",
    "import sys; sys.exit(0)\n",
    "def test_add(): pass\n",
    "test_add = None\n",
    "del test_add\n",
    "def add(*a): return 3\n",
    "from other import add\n",
    "import other as add\n",
    "from other import *\n",
    "def numbers(): return [3, 0]\n",
    "def tmp_path(): pass\n",
    "class TestSums: pass\n",
    "@pytest.mark.skip\n",
    "@pytest.fixture(autouse=True)\ndef quiet(monkeypatch): pass\n",
    "collect_ignore = ['test_calc.py']\n",
    "__test__ = False\n",
    "def pytest_generate_tests(metafunc): pass\n",
    "def setup_module(): pytest.skip('x')\n",
    "def setUpModule(): pass\n",
    "def load_tests(*a): pass\n",
    "from other import setup_function\n",
    "NUMBERS = print('x')\n",
    "# type: ignore\n",
    "# mypy: ignore-errors\n",
    "# -*- coding: rot13 -*-\n",
    "# encoding: unicode_escape\n",
    "# vim: set fileencoding=utf-7 :\n",
    "return\n",
    "    return\n",
    "    numbers = [3, 0]\n",
    "        return\n",
    "    def setUp(self): self.skipTest('x')\n",
    "    def assertEqual(self, a, b): pass\n",
    "    def run(self, result=None): pass\n",
    "    __test__ = False\n",
    "if False:\n",
    "def test_new(x=pytest.skip('', allow_module_level=True)): pass\n",
    "def test_new(x: pytest.skip('', allow_module_level=True)): pass\n",
    "@(lambda f: globals().update(test_add=None) or f)\ndef test_new(): pass\n",
    "@pytest.mark.parametrize('x', [exit()])\ndef test_new(x): pass\n",
    "@pytest.fixture(autouse=True)\ndef test_fx(monkeypatch): pass\n",
    "class TestNew:\n    pytest.skip('', allow_module_level=True)\n",
    "class TestNew:\n    global test_add\n    def test_add(): pass\n",
    "class TestNew(print('x')): pass\n",
    "class TestNew(metaclass=print): pass\n",
    "fresh = (test_add := None)\n",
    "from unittest import SkipTest as AssertionError\n",
    "def AssertionError(said): pytest.skip(said)\n",
    "def test_suite(): pass\n",
    "def testSuite(): pass\n",
    "def additional_tests(): pass\n",
    "from __future__ import annotations\n",
    "# isort: skip_file\n",
    "# NOSONAR\n",
    "import helper_new\n",
    "from helper_new import helper\n",
    "from . import helper\n",
    '"""\n',
    "\\\n",
]


@pytest.mark.parametrize("attack", ATTACKS)
@given(data=st.data())
def test_what_may_disable_a_test_in_python_is_more_wherever_it_stands(attack, data):
    lines = PYTHON.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines)))
    changed = "".join((*lines[:at], attack, *lines[at:]))
    if attack.isspace() or _says_the_same(changed):
        return
    assert not only_adds_tests("test_calc.py", PYTHON, changed)


def _says_the_same(changed: str) -> bool:
    """It may stand where it is text, or nothing."""
    try:
        return ast.dump(ast.parse(changed)) == ast.dump(ast.parse(PYTHON)) and "#" not in changed
    except SyntaxError:
        return False


INHERITED = "from base import TestA\n\n\nclass TestB(TestA):\n    def test_own(self): pass\n"
STARRED = "from base import *\n\n\ndef test_own(): pass\n"


@pytest.mark.parametrize(
    ("before", "added"),
    [
        (INHERITED, "    def test_inherited(self): pass\n"),
        (STARRED, "\n\ndef test_starred(): pass\n"),
        (PYTHON, "\n\nclass TestMore(TestSums):\n    def test_zero(self): pass\n"),
    ],
)
def test_what_may_take_the_place_of_an_inherited_or_imported_test_is_more(before, added):
    assert not only_adds_tests("test_calc.py", before, before + added)


@pytest.mark.parametrize("added", ["import json\n", "def test_new(): pass\n"])
def test_a_docstring_stays_in_the_first_place(added):
    assert not only_adds_tests("test_calc.py", PYTHON, added + PYTHON)


@pytest.mark.parametrize("coding", ["shift_jis", "utf-7", "rot13"])
def test_a_file_that_is_not_read_as_it_is_shown_is_a_reason_to_ask(coding):
    before = f"#!/usr/bin/python\n# -*- coding: {coding} -*-\n{PYTHON}"
    assert not only_adds_tests("test_calc.py", before, before + "\n\ndef test_new(): pass\n")
    before = before.replace(coding, "utf-8")
    assert only_adds_tests("test_calc.py", before, before + "\n\ndef test_new(): pass\n")


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_is_too_odd_to_be_compared(before, changed):
    for ending in ("py", "go", "txt"):
        assert only_adds_tests(f"test_x.{ending}", before, before)
        assert only_adds_tests(f"test_x.{ending}", before, changed) in (True, False)


@pytest.mark.parametrize("text", ["(" * 100_000, "x = " + "-" * 100_000 + "1", "\0"])
def test_what_python_cannot_read_is_a_reason_to_ask(text):
    assert not only_adds_tests("test_x.py", "", text)


@pytest.mark.parametrize(
    ("path", "before", "added"),
    [
        ("a.test.js", JAVASCRIPT, "it('more', () => {})\n"),
        ("a.test.js", JAVASCRIPT, "expect = () => new Proxy({}, {})\n"),
        ("a_test.go", GO, "func TestMain(m *testing.M) { os.Exit(0) }\n"),
        ("tests/expected.txt", "3\n", "4\n"),
        ("tests/check.sh", "test 1 = 2\n", "exit 0\n"),
    ],
)
def test_whatever_is_added_in_another_language_is_a_reason_to_ask(path, before, added):
    assert not only_adds_tests(path, before, before + added)


def test_a_line_that_was_taken_is_more():
    assert not only_adds_tests("a_test.go", GO, GO.replace('\t\tt.Errorf("got %d", got)\n', ""))
    assert not only_adds_tests("test_a.py", PYTHON, PYTHON.replace("    assert total == 3\n", ""))
