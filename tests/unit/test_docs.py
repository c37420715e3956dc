"""What docs/ says about the code is so: tables, rulings, links, messages, numbers."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from irontree.cli.main import verb_parser
from irontree.config import Config
from irontree.domain.checks import HEAD_LINES, TAIL_LINES
from irontree.domain.events import IssueEvent
from irontree.domain.halt import CONCERN_ALL, CONCERN_ONE_ISSUE
from irontree.domain.loop import BUDGET_PER_TASK, MIN_BUDGET, TRANSITIONS_KEPT, LoopEntity
from irontree.domain.meta import Meta
from irontree.domain.text import TRUNCATION_MARKER
from irontree.domain.values import Section
from irontree.flows.serve.serving import FLOWS, SCHEDULES, TEAM_FLOWS
from irontree.repository.backup import KEPT, LOG_REF
from irontree.services.execution.publication import BACKOFF_SECONDS, ROUNDS
from irontree.services.work.preflight import FREE_TRANSITIONS
from irontree.store.codec import EVENT_BYTES
from irontree.store.layout import Layout
from irontree.store.lockfiles import LEASE_STALE, RUN_STALE

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md"))
LAYERS = ("src", "flows", "tasks", "blocks")
COUNTED = ("zero", "one", "two", "three", "four", "five")
RULING = re.compile(r"\bR\d+\b")
SECTION = re.compile(r"\brulings(?:\.md)?, ([A-Z][a-z]+(?: [a-z]+)*)")
CASE = re.compile(r"\b[BS]\d{1,2}\b")
PAPER = re.compile(r"\bdesign(?:, (?:section )?| §| R)\d|\bproduct claim \d", re.IGNORECASE)
SHELL_BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLACEHOLDERS = ("VERB", "--help", "--version", "-C", "help")
LATER = ("audit", "serve", "doctor", "ui")
"""Verbs that the index announces."""
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PROTOCOL = (DOCS / "protocol.md").read_text(encoding="utf-8")
RULINGS = (DOCS / "rulings.md").read_text(encoding="utf-8")
TROUBLE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def anchors(text: str) -> set[str]:
    """Of explicit anchors and of headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


# --- made from the code -------------------------------------------------------------------------------------


def test_every_table_is_as_the_code_has_it():
    """If this fails: python tools/write_doc_tables.py."""
    spec = importlib.util.spec_from_file_location("write_doc_tables", ROOT / "tools" / "write_doc_tables.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    texts = {path: path.read_text(encoding="utf-8") for path in PAGES}
    assert [name_of(path) for path, text in texts.items() if writer.renewed(text) != text] == []
    marked = [match["name"] for text in texts.values() for match in writer.MARKED.finditer(text)]
    assert set(marked) == set(writer.TABLES)


# --- citations ----------------------------------------------------------------------------------------------


def texts(folder: str) -> Iterator[tuple[str, str]]:
    """Name and text of what cites rulings: code, templates, pages."""
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in {".py", ".j2", ".md"}:
            yield name_of(path), path.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", [*LAYERS, "templates", "tests", "benchmarks", "tools", "docs"])
def test_every_ruling_that_is_cited_is_a_heading_of_their_page(folder: str):
    """So is every section below them that is cited by its heading; and nothing cites a paper that is not here."""
    headings = re.findall(r"^## ([^:\n]+)", RULINGS, re.MULTILINE)
    for name, text in texts(folder):
        unknown = {*RULING.findall(text), *SECTION.findall(text)} - set(headings)
        assert not unknown, f"{name} cites {sorted(unknown)}"
        assert not PAPER.search(text), name


@pytest.mark.parametrize("folder", [*LAYERS, "tests", "benchmarks"])
def test_every_case_that_is_cited_is_in_the_documentation(folder: str):
    known = anchors((DOCS / "explanation" / "crash-safety.md").read_text(encoding="utf-8"))
    cited = {(found, name_of(path)) for path in sources(folder) for found in CASE.findall(comments(path))}
    assert [(found, where) for found, where in sorted(cited) if found.lower() not in known] == []


def test_the_rulings_stand_in_their_order():
    numbers = [str(number) for number in range(1, 22)]
    assert re.findall(r'^<a id="r(\d+)"></a>\n## R\1: ', RULINGS, re.MULTILINE) == numbers


def comments(path: Path) -> str:
    """Comments and docstrings, where cases are cited; nothing of a file that cites none."""
    text = path.read_text(encoding="utf-8")
    if not CASE.search(text):
        return ""
    hashes = [line.partition("#")[2] for line in text.splitlines() if "#" in line]
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, owners)]
    strings = [node.value.value for node in ast.walk(tree_of(path)) if is_bare_string(node)]
    return "\n".join([*hashes, *strings, *(ast.get_docstring(node) or "" for node in nodes)])


def is_bare_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def test_every_page_of_the_documentation_that_the_code_names_exists():
    named = {
        (found, name_of(path))
        for path in [*sources(*LAYERS, "tests"), ROOT / "prefect.yaml", ROOT / "pyproject.toml"]
        for found in re.findall(r"docs/[\w/-]+\.md", path.read_text(encoding="utf-8"))
    }
    missing = [pair for pair in sorted(named) if not (ROOT / pair[0]).is_file()]
    made_up = ("docs/SPEC.md", "docs/integrations/", "docs/a.md", "docs/app.md", "docs/designs/", "docs/plans/")
    assert [pair for pair in missing if not pair[0].startswith(made_up)] == []


# --- links --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "ARCHITECTURE.md"], ids=name_of)
def test_every_link_leads_somewhere(page: Path):
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in LINK.findall(re.sub(r"^(`{3,})\w*\n.*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)):
        place, _, anchor = target.partition("#")
        if place.startswith(("http://", "https://")):
            continue
        path = (page.parent / place).resolve() if place else page
        if not path.exists() or (anchor and anchor not in anchors(path.read_text(encoding="utf-8"))):
            broken.append(target)
    assert broken == []


def test_every_page_is_reachable_from_the_index():
    seen, ahead = set(), [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md" or not page.is_relative_to(DOCS):
            continue
        seen.add(page)
        ahead += [(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(page.read_text("utf-8"))]
    assert [name_of(page) for page in PAGES if page not in seen] == []


def test_the_list_of_decisions_is_complete_and_in_order():
    folder = DOCS / "decisions"
    listed = re.findall(r"^\| \[\d{4}\]\(([^)]+)\) \|", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert listed == sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [name[:4] for name in listed] == [f"{number:04d}" for number in range(1, len(listed) + 1)]


# --- what can be typed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_line_of_ours_can_be_typed(page: Path):
    """Lines with placeholders are not run by any test; at least they can be understood."""
    blocks = SHELL_BLOCK.findall(page.read_text(encoding="utf-8"))
    for line in "\n".join(blocks).splitlines():
        words = shlex.split(line.removeprefix("$ ").partition(" | ")[0].partition(" > ")[0], comments=True)
        if words[:1] == ["irontree"] and "…" not in line:
            verb_parser(words[1]).parse(words[2:])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_verb_and_option_of_ours_that_is_named_exists(page: Path):
    for line in re.findall(r"`irontree ([^`]+)`", page.read_text(encoding="utf-8")):
        verb, *rest = line.split()
        if verb in PLACEHOLDERS or verb in LATER:
            continue
        for each in verb.split("|"):
            known = verb_parser(each).format_help()
            assert [word for word in rest if word.startswith("-") and word not in known] == [], line


def test_no_setting_is_named_that_does_not_exist():
    sections = {name: field.annotation for name, field in Config.model_fields.items()}
    known = {f"{name}.{key}" for name, model in sections.items() for key in keys_of(model)}
    pattern = re.compile(rf"`((?:{'|'.join(sections)})\.[a-z_]+)(?:`|: )")
    named = {(key, name_of(page)) for page in PAGES for key in pattern.findall(page.read_text(encoding="utf-8"))}
    files = (".lock", ".md", ".sh", ".toml", ".yaml", ".py")
    assert [pair for pair in sorted(named) if pair[0] not in known and not pair[0].endswith(files)] == []


def keys_of(section: object) -> tuple[str, ...]:
    return section.known_keys() if isinstance(section, type) and issubclass(section, Section) else ()


# --- files and facts ----------------------------------------------------------------------------------------


def test_every_place_under_mino_is_in_the_protocol():
    layout = Layout(Path("/x"))
    places = [
        *(layout.config, layout.plans, layout.events, layout.archive, layout.brief(1).parent, layout.reports(1).parent),
        *(layout.delivery(1).parent, layout.run_lock, layout.loops, layout.active_lock, layout.append_lock),
        *(layout.driver_lock, layout.lease_lock, layout.alive("x").parent, layout.cache),
    ]
    assert [place for place in map(layout.shown, places) if place not in PROTOCOL] == []


def test_the_common_keys_are_listed_in_their_order():
    listed = PROTOCOL.partition("17 keys")[2].partition("They are a full snapshot")[0]
    assert re.findall(r"`(\w+)`", listed) == list(IssueEvent.model_fields)
    assert len(IssueEvent.model_fields) == 17


def test_the_keys_of_a_loops_file_are_listed_in_their_order():
    listed = PROTOCOL.partition("`{loop_id}.yml` repeats")[2].partition("Events win")[0]
    assert re.findall(r"`(\w+)`", listed) == list(LoopEntity.model_fields)


def test_the_meta_keys_that_the_services_write_are_in_the_table():
    table = PROTOCOL.partition("### Meta")[2].partition("### Reading")[0]
    documented = {
        key for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)
    }
    written = {"time", "previous", *(key for path in sources("src/irontree/services") for key in meta_keys(path))}
    written |= {"actor", "channel", "flow_run", "comment", "commented_at", "approvers"}
    assert written - documented == set()
    assert documented - written == set()
    read = {name for name, key in vars(Meta).items() if not name.startswith("_") and not isinstance(key, property)}
    assert read - written == set()


def meta_keys(path: Path) -> Iterator[str]:
    """Keys of dict displays that are given as `meta`, assigned to it, or returned by what makes it."""
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.keyword(arg="meta", value=value):
                yield from dict_keys(value)
            case (
                ast.Assign(targets=[ast.Name(id="meta" | "words")], value=value)
                | ast.AnnAssign(target=ast.Name(id="meta"), value=value)
            ):
                yield from dict_keys(value)
            case ast.FunctionDef(name="meta" | "_observed" | "_beside" | "_report" | "_renewed_from" | "_note"):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return) and inner.value:
                        yield from dict_keys(inner.value)
            case ast.Call(func=ast.Name(id="_record" | "_accepted"), args=arguments):
                yield from (key for argument in arguments for key in dict_keys(argument))


def dict_keys(value: ast.AST) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Dict):
            yield from (key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))


@pytest.mark.parametrize(
    ("page", "fact"),
    [
        ("protocol.md", f"more than {EVENT_BYTES // 1024} KiB"),
        ("protocol.md", f"its first {HEAD_LINES}\nlines, `{TRUNCATION_MARKER}`, and its last {TAIL_LINES}"),
        ("rulings.md", f"`max({MIN_BUDGET}, {BUDGET_PER_TASK} * tasks)`"),
        ("protocol.md", f"`transitions` (the last {TRANSITIONS_KEPT})"),
        ("rulings.md", f"after {BACKOFF_SECONDS[0]:.0f} and {BACKOFF_SECONDS[1]:.0f} seconds"),
        ("rulings.md", f"at most {COUNTED[ROUNDS]} rounds"),
        ("rulings.md", f"{COUNTED[FREE_TRANSITIONS].title()} free transitions in a row"),
        ("rulings.md", f"for {RUN_STALE.seconds // 3600} and {LEASE_STALE.seconds // 3600} hours"),
        (
            "protocol.md",
            f"`{LOG_REF}` | the history of `plans`, `events`, `archive`, `loops`, `agent-requests`, `drafts` and",
        ),
    ],
)
def test_numbers_are_those_of_the_code(page: str, fact: str):
    assert fact in (DOCS / page).read_text(encoding="utf-8")


def test_what_is_backed_up_is_what_the_page_says():
    assert set(KEPT) == {"plans", "events", "archive", "loops", "agent-requests", "drafts", "forge"}


def test_the_flows_and_their_schedules_are_in_the_protocol():
    runs = PROTOCOL.partition("## Runs")[2].partition("## Clauses")[0]
    assert re.findall(r"^\| `(\w+)` \|", runs, re.MULTILINE) == [*FLOWS, *TEAM_FLOWS]
    assert {flow: cron for flow, (cron, _) in SCHEDULES.items()} == {"reconcile": "0 3 * * *", "janitor": "*/5 * * * *"}
    assert "every night at 03:00 UTC" in runs
    assert "every five minutes" in runs


# --- messages -----------------------------------------------------------------------------------------------


def test_every_reason_to_block_is_in_the_troubleshooting():
    table = TROUBLE.partition('<a id="blocked">')[2].partition("If an issue shows")[0]
    documented = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    assert set(documented) == blocking_checks()
    assert len(documented) == len(set(documented))


def test_every_reason_to_block_is_classified_as_one_issue_s_or_all_s():
    """What stands in neither set would stop the loop: safe, and perhaps not what is wanted (R17)."""
    assert blocking_checks() == CONCERN_ONE_ISSUE.keys() | CONCERN_ALL.keys()
    assert not CONCERN_ONE_ISSUE.keys() & CONCERN_ALL.keys()


def blocking_checks() -> set[str]:
    """First words of `Blocker`, `block`, `Never` and refusals of remotes, and the tables of others."""
    found: set[str] = set()
    for path in sources(
        "src/irontree/repository", "src/irontree/services", "src/irontree/domain", "src/irontree/processes"
    ):
        if path.name == "memory.py":
            continue
        for node in ast.walk(tree_of(path)):
            found |= set(named_checks(node))
    return found


def named_checks(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id="Blocker" | "Never" | "NoVerdict"), args=[ast.Constant(value=str(check)), *_]):
            yield check
        case ast.Call(func=ast.Name(id="block"), args=[_, _, ast.Constant(value=str(check)), *_]):
            yield check
        case ast.Assign(targets=[ast.Name(id="STALE_LOCK" | "BRANCH_APPEARED")], value=ast.Constant(value=str(check))):
            yield check
        case ast.AnnAssign(
            target=ast.Name(
                id="STALE_LEASE"
                | "SECRET_IN_COMMIT"
                | "AGENT_ASKS"
                | "RED_BEFORE"
                | "SAME_FAILURE"
                | "INFRASTRUCTURE_AT_FAULT"
                | "REQUEST_CLOSED"
                | "BRANCH_MOVED"
                | "MERGED_MEANWHILE"
                | "MERGED_ELSEWHERE"
                | "MERGED_WITHOUT"
                | "MERGED_BY_AGENT"
                | "NEXT_ROUND"
                | "GOAL_UNCLEAR"
                | "ROUNDS_USED"
                | "NO_ROUND_REVIEW"
            ),
            value=ast.Constant(value=str(check)),
        ):
            yield check
        case ast.Call(func=ast.Name(id="ExternalEvent"), args=[_, _, ast.Constant(value=str(check)), *_]):
            yield check
        case ast.Call(func=ast.Name(id="_Refusal" | "AttemptOutcome"), args=[_, ast.Constant(value=str(check)), *_]):
            yield check
        case ast.keyword(arg="reason", value=ast.Constant(value=str(check))) if re.fullmatch(
            r"[a-z]+(-[a-z]+)+", check
        ):
            yield check
        case ast.FunctionDef(name="check_of"):
            yield from (
                inner.value.value
                for inner in ast.walk(node)
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Constant)
            )
        case (
            ast.Assign(targets=[ast.Name(id="_FREE_CHECKS")], value=ast.Dict(values=values))
            | ast.AnnAssign(target=ast.Name(id="_FREE_CHECKS" | "_BLOCKING_CHECK"), value=ast.Dict(values=values))
        ):
            yield from (value.value for value in values if isinstance(value, ast.Constant))


def test_every_message_in_the_troubleshooting_is_one_that_the_code_gives():
    templates = set(texts_of_the_code())
    for message in re.findall(r"^\| `([^`]+)`(?: \|)", TROUBLE.replace(blocked_table(), ""), re.MULTILINE):
        fixed = [part for part in message.split("…") if part.strip(" :;,.()")]
        assert any(has_in_order(template, fixed) for template in templates), message


def blocked_table() -> str:
    return TROUBLE.partition('<a id="blocked">')[2].partition("If an issue shows")[0]


def has_in_order(template: str, parts: list[str]) -> bool:
    position = 0
    for part in parts:
        position = template.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return True


def texts_of_the_code() -> Iterator[str]:
    """Every text, with `…` for what is put into it."""
    for path in sources(*LAYERS):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)


def test_each_attack_of_the_threat_model_is_tried_by_a_test_and_no_file_of_attacks_is_left_out():
    named, file = set[tuple[str, str]](), ""
    for name, test in re.findall(r"`(test_\w+\.py)?::(\w+)`", (DOCS / "security.md").read_text(encoding="utf-8")):
        file = name or file
        named.add((file, test))
    hostile = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "hostile").glob("test_*.py")}
    assert [entry for entry in sorted(named) if f"def {entry[1]}(" not in hostile.get(entry[0], "")] == []
    assert hostile.keys() == {file for file, _ in named}
