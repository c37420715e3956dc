"""Small faults that can be made in a file, and where each of them is in another commit (for tools/mutants.py).

A fault is kept as its function and its line of text, so that the file may get another name and the line may move.
"""

from __future__ import annotations

import ast
import copy
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
ALIKE = 0.6
"""How alike a function has to be to be taken for one of another name."""

Change = tuple[str, ast.AST, str]
"""The operator, the node that is replaced, and by what."""


class Fault(NamedTuple):
    """One change of one place in a function; what stands before `number` finds it again."""

    file: str
    function: str
    line: str
    operator: str
    before: str
    after: str
    nth: int
    number: int
    statement: int
    start: int
    end: int
    body: str

    @property
    def key(self) -> tuple[str, ...]:
        """What is the same wherever it moves to, together with its function."""
        return self.line, self.operator, self.before, self.after, str(self.nth)

    @property
    def name(self) -> str:
        """A short name that is the same in each commit that the sample is tried on."""
        return hashlib.sha256("\0".join((self.file, self.function, *self.key)).encode()).hexdigest()[:12]


def changes(node: ast.AST) -> Iterator[Change]:
    """What can be made wrong about this very node."""
    yield from changes_of_operation(node)
    yield from changes_of_statement(node)
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.comprehension(ifs=[test, *_]):
            yield from (("condition", test, word) for word in ("True", "False"))
        case ast.Constant(value=bool(value)):
            yield "constant", node, str(not value)
        case ast.Constant(value=int(value)):
            yield "constant", node, str(value + 1)
        case ast.Constant(value=str(value)):
            yield "constant", node, repr(f"XX{value}XX")
        case ast.Call(keywords=[_, *_]):
            named = [index for index, keyword in enumerate(node.keywords) if keyword.arg]
            yield from (("keyword", node, _with(node, keywords=_less(node.keywords, index))) for index in named)
        case _:
            pass


def changes_of_operation(node: ast.AST) -> Iterator[Change]:
    """Of comparisons, `and`, `or`, `not`, `+` and `-`."""
    match node:
        case ast.Compare():
            for index, swapped in enumerate(SWAPS[type(operator)]() for operator in node.ops):
                operators = [*node.ops[:index], swapped, *node.ops[index + 1 :]]
                yield "comparison", node, _with(node, ops=operators)
        case ast.BoolOp():
            yield "and/or", node, _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node, f"({ast.unparse(node.operand)})"
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield "arithmetic", node, _with(node, op=ast.Sub() if isinstance(node.op, ast.Add) else ast.Add())
        case _:
            pass


def changes_of_statement(node: ast.AST) -> Iterator[Change]:
    """Of what is returned, raised, called for its effect, or added to something."""
    match node:
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return", node, "return None"
        case ast.Raise() | ast.Expr(value=ast.Call() | ast.Await()):
            yield "removal", node, "pass"
        case ast.AugAssign(op=ast.Add()):
            yield "arithmetic", node, _with(node, op=ast.Sub())[1:-1]
        case _:
            pass


def _with(node: ast.AST, **values: object) -> str:
    """Source text of *node* with other values of some fields."""
    other = copy.copy(node)
    for name, value in values.items():
        setattr(other, name, value)
    return f"({ast.unparse(other)})"


def _less(keywords: list[ast.keyword], index: int) -> list[ast.keyword]:
    return [*keywords[:index], *keywords[index + 1 :]]


class _Finder(ast.NodeVisitor):
    """Walks through one file; what is not in a function, or is not run when its line is, is passed over."""

    def __init__(self, file: str, source: bytes) -> None:
        self._file = file
        self._lines = source.splitlines(keepends=True)
        self._offsets = [0, *accumulate(len(line) for line in self._lines)]
        self._scopes: list[str] = []
        self._bodies: list[str] = []
        self._statement = 0
        self._seen: Counter[tuple[str, ...]] = Counter()
        self.found: list[Fault] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self._statement = node.lineno
        if self._bodies:
            self._note(node)
        super().visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scopes.append(node.name)
        bodies, self._bodies = self._bodies, []
        self._visit_all(node.body)
        self._bodies = bodies
        self._scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scopes.append(node.name)
        lines = self._lines[node.lineno - 1 : node.end_lineno]
        self._bodies.append(b"\n".join(line.strip() for line in lines).decode())
        self._visit_all(node.body)
        self._bodies.pop()
        self._scopes.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all([node.value] if node.value else [])

    def visit_Call(self, node: ast.Call) -> None:
        self._visit_all(node.args[1:] if ast.unparse(node.func) == "cast" else [node.func, *node.args, *node.keywords])

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Before Python 3.12 what stands in an f-string does not know where it stands."""

    def visit_Expr(self, node: ast.Expr) -> None:
        self._visit_all([] if isinstance(node.value, ast.Constant) else [node.value])

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _note(self, node: ast.AST) -> None:
        for operator, target, after in changes(node):
            place: Any = target
            line, before = self._lines[place.lineno - 1].decode().strip(), ast.unparse(target)
            identity = (".".join(self._scopes), line, operator, before, after)
            start = self._offsets[place.lineno - 1] + place.col_offset
            end = self._offsets[place.end_lineno - 1] + place.end_col_offset
            where = (place.lineno, self._statement, start, end, self._bodies[-1])
            self.found.append(Fault(self._file, *identity, self._seen[identity], *where))
            self._seen[identity] += 1


def faults(file: str, source: bytes) -> list[Fault]:
    """All that can be made wrong in one file."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    return finder.found


def applied(source: bytes, fault: Fault) -> bytes:
    """The file with the fault in it."""
    return source[: fault.start] + fault.after.encode() + source[fault.end :]


def is_different(source: bytes, fault: Fault) -> bool:
    """Whether what comes out of it is Python, and says something else."""
    try:
        return ast.dump(ast.parse(applied(source, fault))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def relocated(fault: Fault, there: Mapping[tuple[str, ...], Sequence[Fault]]) -> Fault | None:
    """The same fault among those of another commit, given by `key`; None where its line is in no such function."""

    def rank(other: Fault) -> tuple[bool, float, bool]:
        likeness = difflib.SequenceMatcher(None, fault.body.splitlines(), other.body.splitlines()).ratio()
        return other.function == fault.function, likeness, other.file == fault.file

    ranked = [(rank(other), number, other) for number, other in enumerate(there.get(fault.key, ()))]
    if not ranked:
        return None
    (same_name, likeness, _), _, best = max(ranked)
    return best if same_name or likeness >= ALIKE else None
