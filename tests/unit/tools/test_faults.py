"""Faults that `make mutants` makes: each is another program, and is found again where its line has moved to."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tools.faults import applied, faults, is_different, relocated

EACH = [
    ("if x == 1:\n        pass", "comparison", "if (x != 1):"),
    ("a = 0 <= x < 9", "comparison", "a = (0 <= x <= 9)"),
    ("a = x in y", "comparison", "a = (x not in y)"),
    ("a = x and y", "and/or", "a = (x or y)"),
    ("a = not x", "not", "a = (x)"),
    ("a = x + y", "arithmetic", "a = (x - y)"),
    ("x += y", "arithmetic", "x -= y"),
    ("a = 7", "constant", "a = 8"),
    ("a = True", "constant", "a = False"),
    ("a = 'é'", "constant", "a = 'XXéXX'"),
    ("return x", "return", "return None"),
    ("raise x", "removal", "pass"),
    ("x(y)", "removal", "pass"),
    ("if x:\n        pass", "condition", "if False:"),
    ("a = [z for z in y if z]", "condition", "if True]"),
    ("a = x(1, y=2)", "keyword", "a = (x(1))"),
]
PASSED_OVER = [
    "'''Nothing but words.'''",
    "a = f'{x + 1}'",
    "a: 'int'",
    "return None",
    "return",
]
BEFORE = '''"""A module."""


def first(x):
    return x + 1


class Box:
    def first(self, x):
        """Put into the box, or taken."""
        kept = self.kept
        return x + 1
'''
AFTER = '''"""Another module."""


class Box:
    """It has been tidied."""

    def first(self, x):
        """Put into the box, or taken."""
        kept = self.kept

        return x + 1
'''


def within(statement):
    return f"def f(x, y):\n    # Zürich\n    {statement}\n".encode()


def by_key(*found):
    there = defaultdict(list)
    for fault in found:
        there[fault.key].append(fault)
    return there


@pytest.mark.parametrize(("statement", "operator", "expected"), EACH)
def test_each_operator_says_something_else_in_one_place(statement, operator, expected):
    source = within(statement)
    results = [applied(source, fault).decode() for fault in faults("a.py", source) if fault.operator == operator]
    assert [result for result in results if expected in result]


@pytest.mark.parametrize("statement", [statement for statement, _, _ in EACH])
def test_whatever_is_made_of_it_is_python_and_differs(statement):
    source = within(statement)
    found = faults("a.py", source)
    assert found
    assert all(is_different(source, fault) for fault in found)
    assert len({ast.dump(ast.parse(applied(source, fault))) for fault in found}) == len({f.key for f in found})


@pytest.mark.parametrize("statement", PASSED_OVER)
def test_what_nothing_would_notice_is_left_alone(statement):
    assert faults("a.py", within(statement)) == []


def test_what_is_run_when_the_module_is_loaded_is_left_alone():
    assert (
        faults("a.py", b"A = 1 + 2\n\n\n@f(3)\ndef g(x: 'int' = 4) -> 'str':\n    ...\n\n\nclass B:\n    c = 5\n") == []
    )


def test_a_line_is_found_again_in_another_file_and_place():
    plain, method = (f for f in faults("old.py", BEFORE.encode()) if f.operator == "arithmetic")
    there = by_key(*faults("new.py", AFTER.encode()))
    found = relocated(method, there)
    assert (found.file, found.function, found.number) == ("new.py", "Box.first", 11)
    assert b"return (x - 1)" in applied(AFTER.encode(), found)
    assert relocated(plain, there) is None


def test_of_functions_of_one_name_it_is_the_most_alike():
    wanted = next(f for f in faults("old.py", BEFORE.encode()) if f.operator == "return" and f.function == "Box.first")
    other = b"class Box:\n    def first(self, x):\n        return x + 1\n"
    there = by_key(*faults("old.py", other), *faults("new.py", AFTER.encode()))
    assert relocated(wanted, there).file == "new.py"


def test_a_renamed_function_is_known_by_its_body():
    wanted = next(f for f in faults("old.py", BEFORE.encode()) if f.operator == "return" and f.function == "Box.first")
    there = by_key(*faults("new.py", AFTER.replace("first", "second").encode()))
    assert relocated(wanted, there).function == "Box.second"


def test_the_same_line_twice_in_a_function_is_told_apart():
    source = b"def f(x):\n    x(1)\n    y()\n    x(1)\n"
    first, second = (f for f in faults("a.py", source) if f.operator == "removal" and f.line == "x(1)")
    there = by_key(*faults("b.py", b"\n\n" + source))
    assert (first.name != second.name, relocated(first, there).number, relocated(second, there).number) == (True, 4, 6)
