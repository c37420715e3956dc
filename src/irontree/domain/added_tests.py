"""Whether the lines that were added to a file of tests are new tests, and leave the old ones as they were (R18).

Added lines disable a test as well as removed ones do: a mark at the top, a second definition of its name, a `return` in
it. So what may be added is listed, and whatever else there is, is a reason to ask. What new tests do when they run is
not looked at: a new file of tests can do the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

_MOST: Final = 1_000_000
"""Characters; a larger file is a reason to ask."""
_CODE: Final = frozenset(
    {
        *("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "go", "rs", "java", "kt", "cs", "swift", "scala"),
        *("c", "cc", "cpp", "h", "hpp"),
    }
)
"""Endings of languages with brackets around what belongs together."""


def only_adds_tests(path: str, before: str, after: str) -> bool:
    """Whether every test of *before* is in *after* as it was, and nothing that was added changes what runs of it."""
    if before == after:
        return True
    if max(len(before), len(after)) > _MOST:
        return False
    ending = path.rpartition(".")[2].lower()
    if ending in ("py", "pyi"):
        return _adds_to_python(before, after)
    return ending in _CODE and _adds_to_code(before.splitlines(), after.splitlines())


# --- Python, by its syntax

_SPECIAL: Final = re.compile(r"__.*|_?pytest.*|(?i:set_?up|tear_?down).*|async(?:SetUp|TearDown)|load_tests|collect_.*")
"""Names by which a runner of tests is told what to do."""
_INSTRUCTION: Final = re.compile(r"#.*\b(?:noqa|type|mypy|pyright|pylint|ruff|flake8|pragma|nosec|fmt|yapf|coding)\b")
"""A comment that tells a checker or Python something."""


def _adds_to_python(before: str, after: str) -> bool:
    try:
        old, new = ast.parse(before), ast.parse(after)
        known = set(_identifiers(old))
        return _instructions(before) == _instructions(after) and _adds(old.body, new.body, known, in_class=False)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # of another version, or made to be refused
        return False


def _instructions(text: str) -> list[str]:
    return _INSTRUCTION.findall(text)


def _identifiers(tree: ast.AST) -> Iterator[str]:
    """Every name that is written in it, also in a string, as names of fixtures are."""
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, str):
                    yield from re.findall(r"\w+", one)


def _adds(old: Sequence[ast.stmt], new: Sequence[ast.stmt], known: set[str], *, in_class: bool) -> bool:
    """Whether *new* is *old* with additions."""
    left = list(old)
    for statement in new:
        if left and _is_same(left[0], statement, known):
            left.pop(0)
        elif not _is_addition(statement, known, in_class=in_class):
            return False
    return not left


def _is_same(old: ast.stmt, new: ast.stmt, known: set[str]) -> bool:
    if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef) and _head(old) == _head(new):
        return _adds(old.body, new.body, known, in_class=True)
    return ast.dump(old) == ast.dump(new)


def _head(of: ast.ClassDef) -> str:
    return of.name + "".join(map(ast.dump, (*of.bases, *of.keywords, *of.decorator_list)))


def _is_addition(statement: ast.stmt, known: set[str], *, in_class: bool) -> bool:
    """Whether it is a test of its own, or something for it to use, under names that are used nowhere yet."""
    match statement:
        case (
            ast.FunctionDef(name=name, decorator_list=decorators)
            | ast.AsyncFunctionDef(name=name, decorator_list=decorators)
        ):
            allowed = name.startswith("test") or not (in_class or decorators)
            names = [name]
        case ast.ClassDef(name=name):
            allowed, names = not in_class, [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            allowed = not in_class
            names = [alias.asname or alias.name.partition(".")[0] for alias in aliases]
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            allowed, names = not in_class and not any(isinstance(part, ast.Call) for part in ast.walk(value)), [name]
        case _:
            return False
    return allowed and not any(name == "*" or name in known or _SPECIAL.fullmatch(name) for name in names)


# --- Other languages, by their lines

_FOR_ALL: Final = re.compile(
    r"(?i:skip|ignore|disable|\bset_?up|\btear_?down)|\b(?:only|fit|fdescribe|exit|mock|init|TestMain|eval|globalThis)\b"
    r"|\b(?:before|after)(?:Each|All)?\b|\b(?:prototype|module|package)\b|\\$"
    r"|^\s*#(?!\[(?:\w+::)?test\]\s*$)|^\s*@(?!(?:Test|ParameterizedTest|DisplayName|ValueSource|CsvSource)\b)"
)
"""What a line may do to all tests of the file, wherever it stands."""
_IN_A_BLOCK: Final = re.compile(
    r"\b(?:return|throws?|panic|break|continue|goto|if|else|for|while|do|switch|case|try|catch|yield|defer|using|with)\b"
    r"|/\*|\*/|[`\"']{3}"
)
"""What a line may do to the test in which it stands."""
_DEFINED: Final = re.compile(
    r"\b(?:const|let|var|function|class|func|fn|def|fun|type|struct|enum|interface|void|int|bool|auto|val)"
    r"\s+(?:mut\s+|\([^)]*\)\s*)?(\w+)|(\w+)\s*:="
)
_ASSIGNED: Final = re.compile(
    r"(?<!const )(?<!let )(?<!var )(?<!val )(?<!auto )(?<!let mut )\b[\w.]+(?:\[[^\]]*\])?\s*=(?![=>])"
)
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}


def _adds_to_code(before: Sequence[str], after: Sequence[str]) -> bool:
    known = {word for line in before for word in re.findall(r"\w+", line)}
    return all(
        not taken and _is_whole(added) and _is_harmless(added, known, at_end=at_end)
        for taken, added, at_end in _blocks(before, after)
    )


def _blocks(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[bool, Sequence[str], bool]]:
    """Each difference: whether lines were taken, which were added, and whether all of *before* stands above them."""
    for kind, start, end, first, last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            at_end = not any(line.strip() for line in before[start:])
            yield end > start, after[first:last], at_end


def _is_harmless(added: Iterable[str], known: set[str], *, at_end: bool) -> bool:
    for line in added:
        defined = {name for names in _DEFINED.findall(line) for name in names}
        if _FOR_ALL.search(line) or known & defined:
            return False
        if not at_end and (_IN_A_BLOCK.search(line) or _ASSIGNED.search(line)):
            return False
    return True


def _is_whole(added: Iterable[str]) -> bool:
    """Whether it closes what it opens, and nothing else: otherwise it may enclose what follows."""
    opened, text = list[str](), "\n".join(added)
    if text.count('"') % 2 or text.count("`") % 2:
        return False
    for character in text:
        if character in _PAIRS.values():
            opened.append(character)
        elif character in _PAIRS and (not opened or opened.pop() != _PAIRS[character]):
            return False
    return not opened
