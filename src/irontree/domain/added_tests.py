"""Whether what was added to a file of tests is whole new tests, and leaves the old ones as they were (R18).

Added lines disable a test as well as removed ones do: a mark at the top, a second definition of its name, a `return` in
it. So what may be added is listed, and whatever else there is, is a reason to ask. Only Python is read, by its syntax.
Nothing of what is listed runs before the new tests do; what they do then, new files of tests can do as well.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_MOST: Final = 1_000_000
"""Characters; a larger file is a reason to ask."""
_SPECIAL: Final = re.compile(
    r"__.*|_?pytest.*|(?i:set_?up|tear_?down).*|async(?:SetUp|TearDown)|load_tests|collect_.*|additional_tests|(?i:test_?suite)"
)
"""Names by which a runner of tests is told what to do."""
_USED_UNSEEN: Final = frozenset(dir(builtins))
"""A module's own names go before these, and some are not written where they are used: `assert` raises one of them."""
_INSTRUCTION: Final = re.compile(
    r"#.*(?:coding|nosonar|\b(?:noqa|type|mypy|py\w+|ruff|flake8|pragma|nosec|fmt|yapf|isort|lint\w*|skip)\b)",
    re.IGNORECASE,
)
"""A comment that tells a checker something, or Python how to decode the file: then code may stand in comments."""
_OTHER_CODING: Final = re.compile(r"\A(?:.*\n)?.*#.*coding[:=]\s*(?!\s|utf-?8\b|ascii\b|latin-?1\b)", re.IGNORECASE)
"""In Python's words (PEP 263): the file is not read as it is shown here."""
_LIBRARIES: Final = frozenset({"pytest", "hypothesis"})
_PLAIN_BASES: Final = frozenset({"TestCase", "unittest.TestCase", "unittest.IsolatedAsyncioTestCase", "object"})
"""Of them no test is inherited that a new method could replace."""


def only_adds_tests(path: str, before: str, after: str, standard: Collection[str]) -> bool:
    """Whether every test of *before* is in *after* as it was, and nothing that was added changes what runs of it.

    *standard* are the modules of Python's library.
    """
    if before == after:
        return True
    if not path.lower().endswith(".py") or max(len(before), len(after)) > _MOST or _OTHER_CODING.match(before):
        return False
    try:
        old, new = ast.parse(before), ast.parse(after)
        rule = _Additions(frozenset(_identifiers(old)), {*_imported(old), *_LIBRARIES, *standard} - {"__future__"})
        return _instructions(before) == _instructions(after) and "*" not in rule.known and rule.made(old.body, new.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # of another version, or made to be refused
        return False


def _instructions(text: str) -> list[str]:
    return _INSTRUCTION.findall(text)


def _identifiers(tree: ast.AST) -> Iterator[str]:
    """Every name that is written in it, also in a string, as names of fixtures are; `*` for all names of a module."""
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, str):
                    yield from re.findall(r"\w+", one)
        if isinstance(node, ast.alias) and node.name == "*":
            yield "*"


def _imported(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield f"{'.' * statement.level}{statement.module or ''}"


@dataclass(frozen=True, slots=True)
class _Additions:
    """What may be added to a module in which the names *known* occur: imports of these *modules* among it."""

    known: frozenset[str]
    modules: Collection[str]

    def made(self, old: Sequence[ast.stmt], new: Sequence[ast.stmt], *, in_class: bool = False) -> bool:
        """Whether *new* is *old* with nothing but additions."""
        left = deque((each, ast.dump(each)) for each in old)
        if old and _is_docstring(old[0]) and not (new and ast.dump(new[0]) == left[0][1]):
            return False  # it is one in the first place alone, and may have tests
        for statement in new:
            if left and (left[0][1] == ast.dump(statement) or self._is_extended(left[0][0], statement)):
                left.popleft()
            elif not self._is_addition(statement, in_class=in_class):
                return False
        return not left

    def _is_extended(self, old: ast.stmt, new: ast.stmt) -> bool:
        """Whether it is the same class with nothing but additions."""
        return (
            isinstance(old, ast.ClassDef)
            and isinstance(new, ast.ClassDef)
            and _has_plain_bases(old)
            and _head(old) == _head(new)
            and self.made(old.body, new.body, in_class=True)
        )

    def _is_addition(self, statement: ast.stmt, *, in_class: bool) -> bool:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                is_test = statement.name.startswith("test")
                allowed = (is_test or not in_class) and _runs_nothing(statement, is_test=is_test)
                names = [statement.name]
            case ast.ClassDef(name=name, body=body, decorator_list=[], keywords=[]):
                allowed = not in_class and _has_plain_bases(statement) and self._is_class_of_tests(body)
                names = [name]
            case ast.Import(names=aliases):
                allowed = not in_class and all(alias.name in self.modules for alias in aliases)
                names = [alias.asname or alias.name.partition(".")[0] for alias in aliases]
            case ast.ImportFrom(names=aliases, module=module, level=level):
                allowed = not in_class and f"{'.' * level}{module or ''}" in self.modules
                names = [alias.asname or alias.name for alias in aliases]
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                allowed, names = not in_class and _is_literal(value), [name]
            case _:
                return False
        return allowed and all(self._is_new(name) for name in names)

    def _is_class_of_tests(self, body: Sequence[ast.stmt]) -> bool:
        """Its names are its own: they may be those of another class."""
        own = _Additions(frozenset(), self.modules)
        return all(_is_docstring(each) or own._is_addition(each, in_class=True) for each in body)

    def _is_new(self, name: str) -> bool:
        return name not in self.known | _USED_UNSEEN | {"*"} and not _SPECIAL.fullmatch(name)


def _has_plain_bases(of: ast.ClassDef) -> bool:
    return all(ast.unparse(base) in _PLAIN_BASES for base in of.bases)


def _head(of: ast.ClassDef) -> str:
    return of.name + "".join(map(ast.dump, (*of.bases, *of.keywords, *of.decorator_list)))


def _runs_nothing(function: ast.FunctionDef | ast.AsyncFunctionDef, *, is_test: bool) -> bool:
    """Whether its definition runs nothing: of decorators a test may have `parametrize` with literals."""
    arguments = function.args
    evaluated = [*arguments.defaults, *filter(None, arguments.kw_defaults), *filter(None, [function.returns])]
    evaluated += [each.annotation for each in ast.walk(arguments) if isinstance(each, ast.arg) and each.annotation]
    is_plain = all(isinstance(part, _PLAIN) for each in evaluated for part in ast.walk(each))
    return is_plain and all(is_test and _is_parametrize(each) for each in function.decorator_list)


_PLAIN: Final = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.Subscript, ast.BinOp, ast.BitOr),
    ast.expr_context,
)
"""Parts of a default or an annotation that call nothing; the only operator is that of `int | None`."""


def _is_parametrize(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func) == "pytest.mark.parametrize"
        and all(map(_is_literal, (*decorator.args, *(keyword.value for keyword in decorator.keywords))))
    )


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError):
        return False
    return True


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
