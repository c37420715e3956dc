"""The rules of the house (ARCHITECTURE.md), read from the source text: they hold in every install state."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TypeVar

import pytest

N = TypeVar("N", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef

ROOT = Path(__file__).resolve().parents[2]
PREFECT_LAYER = ("flows", "tasks", "blocks")
MAX_FUNCTION_LINES = 50
MAX_FILE_LINES = 500
LONGER = {"src/irontree/ports.py"}  # a list of interfaces: looked up, never read from top to bottom

# Lower layers first. A module imports from its own entry and from the layers below, never sideways or up.
LAYERS = (
    {"errors", "templates"},
    {"domain"},
    {"ports"},
    {"processes", "app", "files", "http_client"},
    {"services", "store", "forges", "agents", "checks", "repository", "rendering", "config"},
    {"config_file"},
    {"adapters"},
    {"bootstrap", "demo"},
    {"blocks"},
    {"tasks"},
    {"flows"},
    {"cli"},
    {"__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# The folders of `services`, lower ones first: the way down is from `toolchain` to `record`, the way up is the log.
SERVICES = (
    *("record", "loops", "views", "work", "proposals", "questions", "delivery", "execution", "answers", "toolchain"),
    "consistency",
)
# The same of `flows`; the flows themselves stand above all of these and import none of each other.
FLOWS = ("server", "runs", "gate", "serve")

LATE_IMPORTERS = {
    "src/irontree/agents/registry.py",  # adapters, by name
    "src/irontree/repository/git.py",  # GitPython, with the first question
    "src/irontree/domain/documents.py",  # few documents are workflow files, and few plans hold one
    "src/irontree/services/views/workflow_run.py",
    "src/irontree/bootstrap.py",  # the template engine, and adapters by the configuration
    "src/irontree/forges/github_client.py",  # the HTTP client, with the first log
    "tasks/stages.py",  # blocks
    "flows/serve/session.py",  # Prefect, with the first question to the server
}
ONE_IMPORTER = (
    *("acp", "anyascii", "git", "github", "httpx", "jinja2", "jwt", "markdown_it", "playwright", "ruamel", "yaml"),
)
MAY_START_PROGRAMS = {
    "irontree.processes.children": "agents, checks and git: own process group, limits, cancel, cleaned environment",
    "irontree.processes.relay": "the program that is recorded, inside the recorded child that we are ourselves",
    "irontree.processes.running": "the children themselves, behind their gate",
    "irontree.flows.server.programs": "our own server and runner, which outlive the command",
}
IMPURE = {
    *("asyncio", "io", "locale", "logging", "os", "pathlib", "platform", "random", "secrets", "socket", "subprocess"),
    *("sys", "tempfile", "threading", "time", "uuid", "yaml", "ruamel", "git", "jinja2"),
}
IMPURE_CALLS = {"now", "utcnow", "today", "open", "print", "input"}


def product_files() -> Iterator[Path]:
    yield from sorted((ROOT / "src").rglob("*.py"))
    for folder in (*PREFECT_LAYER, "templates"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def suite_files() -> Iterator[Path]:
    yield from (path for path in sorted((ROOT / "tests").rglob("*.py")) if "data" not in path.parts)


def all_files() -> Iterator[Path]:
    yield from product_files()
    yield from suite_files()
    for folder in ("tools", "benchmarks"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def walked(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


def nodes(path: Path, kind: type[N]) -> Iterator[N]:
    return (node for node in walked(path) if isinstance(node, kind))


def module_name(path: Path) -> str:
    """`src/irontree/domain/spec.py` -> `irontree.domain.spec`; `flows/issue.py` -> `irontree.flows.issue`."""
    relative = path.relative_to(ROOT)
    parts = relative.parts[1:] if relative.parts[0] == "src" else ("irontree", *relative.parts)
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    """Dotted names of everything imported anywhere in the file; `from a import b` gives `a` and `a.b`."""
    found: set[str] = set()
    for node in nodes(path, ast.Import):
        found |= {alias.name for alias in node.names}
    for node in nodes(path, ast.ImportFrom):
        found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def top_names(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def layer(module: str) -> str | None:
    """The entry of LAYERS that a dotted name belongs to; None for `irontree` itself and for foreign names."""
    package, _, rest = module.partition(".")
    return rest.split(".")[0] if package == "irontree" and rest else None


def functions(path: Path) -> Iterator[Function]:
    yield from nodes(path, ast.FunctionDef)
    yield from nodes(path, ast.AsyncFunctionDef)


def length(function: Function) -> int:
    """Lines from `def` to the end, less the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def called_name(call: ast.Call) -> str:
    """The rightmost name of what is called: `run_deployment` for `deployments.run_deployment(...)`."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def test_every_module_has_its_layer():
    modules = {module_name(path) for path in product_files()}
    assert not {module for module in modules if layer(module) not in {None, *LEVEL}}, "say in LAYERS where these belong"


def test_imports_point_down_only():
    wrong = [
        f"{shown(path)} imports {name}"
        for path in product_files()
        if (own := layer(module_name(path))) in LEVEL
        for name in imports(path)
        if (other := layer(name)) in LEVEL and other != own and LEVEL[other] >= LEVEL[own]
    ]
    assert not wrong


@pytest.mark.parametrize(("package", "folders"), [("services", SERVICES), ("flows", FLOWS)])
def test_folders_inside_a_layer_import_in_one_order(package, folders):
    """Late imports count too. What is not named in *folders*, such as the flows, stands above them, each by itself."""
    order = {name: level for level, name in enumerate(folders)}
    wrong = [
        f"{shown(path)} imports {name}"
        for path in product_files()
        if layer(own := module_name(path)) == package and own.count(".") > 1
        for name in imports(path)
        if layer(name) == package and name.count(".") > 1
        if (here := own.split(".")[2]) != (there := name.split(".")[2])
        if order.get(there, len(order)) >= order.get(here, len(order))
    ]
    assert not wrong


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """Those of *modules* that are named in imports anywhere in the file: at its top, late, or for types alone."""
    named = {alias.name for node in nodes(path, ast.Import) for alias in node.names}
    for node in nodes(path, ast.ImportFrom):
        inside = {f"{node.module}.{alias.name}" for alias in node.names}
        named |= inside if inside <= modules else {*inside, node.module or ""}
    return named & modules


def reached_from(module: str, graph: dict[str, set[str]]) -> set[str]:
    """All that *module* imports, directly or through others; itself only if it is in a cycle."""
    found: set[str] = set()
    left = [module]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left += new
    return found


def test_modules_import_each_other_in_no_cycle():
    """Late imports and those for types count too. Each cycle is given as the modules in it."""
    paths = {module_name(path): path for path in product_files()}
    graph = {module: imported_modules(path, set(paths)) for module, path in paths.items()}
    reached = {module: reached_from(module, graph) for module in graph}
    cycles = {
        tuple(sorted(other for other in others if module in reached[other]))
        for module, others in reached.items()
        if module in others
    }
    assert not cycles


def test_our_own_modules_are_imported_late_only_where_that_saves_loading_a_library():
    """By the command line, which has one verb to run, and where Prefect, a template engine or an adapter is loaded."""
    late = {
        shown(path)
        for path in product_files()
        for function in functions(path)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("irontree")
    }
    assert {path for path in late if not path.startswith("src/irontree/cli/")} == LATE_IMPORTERS


def test_imports_are_absolute_and_by_the_installed_name():
    generic = {*PREFECT_LAYER, "templates", "tests", "src"}
    relative = [shown(p) for p in product_files() for node in nodes(p, ast.ImportFrom) if node.level]
    by_folder = [f"{shown(path)} imports {name}" for path in product_files() for name in top_names(path) & generic]
    assert not relative + by_folder


def test_prefect_is_known_to_flows_tasks_and_blocks_alone():
    elsewhere = [
        shown(path)
        for path in product_files()
        if "prefect" in top_names(path) and path.relative_to(ROOT).parts[0] not in PREFECT_LAYER
    ]
    assert not elsewhere


@pytest.mark.parametrize("library", ONE_IMPORTER)
def test_a_foreign_library_is_imported_in_one_module(library):
    importers = [shown(path) for path in product_files() if library in top_names(path)]
    assert len(importers) <= 1, importers


def test_programs_are_started_where_the_rules_for_them_are_kept():
    starters = {module_name(p) for p in product_files() if top_names(p) & {"subprocess", "pty", "multiprocessing"}}
    assert starters <= MAY_START_PROGRAMS.keys()


def test_the_domain_knows_no_clock_chance_files_or_environment():
    domain = [path for path in product_files() if layer(module_name(path)) == "domain"]
    imported = [f"{shown(path)} imports {name}" for path in domain for name in top_names(path) & IMPURE]
    called = [
        f"{shown(path)}:{call.lineno} calls {called_name(call)}"
        for path in domain
        for call in nodes(path, ast.Call)
        if called_name(call) in IMPURE_CALLS
    ]
    assert not imported + called


def test_doubles_are_passed_in_never_patched_in():
    mocks = [shown(path) for path in suite_files() if any(re.search(r"\bmocke?r?\b", name) for name in imports(path))]
    patches = [
        f"{shown(path)}:{node.lineno}"
        for path in suite_files()
        for node in nodes(path, ast.Attribute)
        if node.attr in {"setattr", "delattr", "setitem", "patch"}
        and isinstance(node.value, ast.Name)
        and node.value.id in {"monkeypatch", "mp", "mock", "mocker"}
    ]
    assert not mocks + patches


def test_functions_fit_on_a_screen():
    long = [
        f"{shown(path)}:{function.lineno} {function.name}: {length(function)} lines"
        for path in all_files()
        for function in functions(path)
        if length(function) > MAX_FUNCTION_LINES
    ]
    assert not long


def test_files_can_be_read_in_one_sitting():
    sizes = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in all_files()}
    assert not {name: size for name, size in sizes.items() if size > MAX_FILE_LINES and name not in LONGER}


def test_every_module_says_what_lives_in_it():
    assert not [shown(path) for path in all_files() if not ast.get_docstring(tree(path))]


def test_file_names_are_lower_case():
    python = [shown(path) for path in all_files() if not re.fullmatch(r"[a-z0-9_]+\.py", path.name)]
    templates = [
        shown(p) for p in (ROOT / "templates").rglob("*.j2") if not re.fullmatch(r"[a-z0-9-]+\.md\.j2", p.name)
    ]
    assert not python + templates


@pytest.mark.parametrize("folder", PREFECT_LAYER)
def test_no_file_of_the_prefect_layer_hides_another_module(folder):
    """Prefect's file loader puts the folder first on sys.path: `blocks/github.py` would break `import github`."""
    taken = sys.stdlib_module_names | (packages_distributions().keys() - {"irontree"})
    packages = (path.parent for path in (ROOT / folder).glob("*/__init__.py"))
    assert not [shown(path) for path in (*(ROOT / folder).glob("*.py"), *packages) if path.stem in taken]


@pytest.mark.parametrize("folder", PREFECT_LAYER)
def test_folders_of_the_prefect_layer_have_one_level_of_packages_at_most(folder):
    """setup.py finds those that have an `__init__.py`; a folder of modules without one would miss in the wheel."""
    nested = {path.parent for path in (ROOT / folder).glob("*/*.py")}
    assert not [shown(path) for path in nested if not (path / "__init__.py").exists()]
    assert not [shown(path) for path in (ROOT / folder).glob("*/*/*.py")]


def test_the_folder_of_the_flows_holds_flows():
    """Beside the gate and the packages that serve them: one file a flow."""
    files = [path for path in (ROOT / "flows").glob("*.py") if path.name not in {"__init__.py", "gate.py"}]
    assert all(any(is_flow(node) for node in functions(path)) for path in files)


def is_flow(function: Function) -> bool:
    return any(
        "flow" in {getattr(part, "id", ""), getattr(part, "attr", "")}
        for decorator in function.decorator_list
        for part in [decorator.func if isinstance(decorator, ast.Call) else decorator]
    )


def flow_names() -> set[str]:
    return {
        function.name for path in (ROOT / "flows").glob("*.py") for function in functions(path) if is_flow(function)
    }


def calls_of(path: Path, names: set[str]) -> Iterator[str]:
    """Calls of these names, also through `with_options(...)(...)`."""
    for call in nodes(path, ast.Call):
        if called_name(call) in names:
            yield f"{shown(path)}:{call.lineno} calls {called_name(call)}"
        if isinstance(call.func, ast.Call) and {n.id for n in ast.walk(call.func) if isinstance(n, ast.Name)} & names:
            yield f"{shown(path)}:{call.lineno} calls a flow with options"


def test_no_flow_calls_another_flow():
    """A re-run flow matches its subflow calls to earlier runs by position: it would be given another issue's run."""
    calls = [
        found
        for folder in PREFECT_LAYER
        for path in (ROOT / folder).glob("*.py")
        for found in calls_of(path, flow_names())
    ]
    assert not calls


def test_deployments_are_started_as_top_level_runs():
    """Only a top-level run can suspend; Prefect makes it a subflow unless told otherwise."""
    wrong = [
        f"{shown(path)}:{call.lineno}"
        for path in product_files()
        for call in nodes(path, ast.Call)
        if called_name(call) in {"run_deployment", "arun_deployment"}
        if not any(k.arg == "as_subflow" and getattr(k.value, "value", None) is False for k in call.keywords)
    ]
    assert not wrong


def texts() -> Iterator[Path]:
    folders = ("src", *PREFECT_LAYER, "templates", "tests", "tools", "benchmarks", "docs", "examples", ".ci")
    yield from (path for path in ROOT.iterdir() if path.is_file())
    for folder in folders:
        yield from (
            p for p in (ROOT / folder).rglob("*") if p.is_file() and p.suffix != ".pyc" and ".egg" not in str(p)
        )


def test_no_text_names_a_folder_of_somebodys_machine():
    pattern = re.compile(r"(?<![\w.:/~-])/(?:root|work|opt|tmp/brief)/")
    betraying = [shown(path) for path in texts() if pattern.search(path.read_text(encoding="utf-8", errors="replace"))]
    assert not betraying


def test_no_text_holds_a_merge_that_was_not_finished():
    marks = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
    assert not [shown(path) for path in texts() if marks.search(path.read_text(encoding="utf-8", errors="replace"))]
