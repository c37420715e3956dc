"""Which of our files take part when something goes its way through the program: those of which a function is called.

`python -m tools.trace_way [document|answer|merge …]` goes each way on a small repository, with the local forge, an
agent that is a shell script, and programs as they are typed; tools/tracing.py writes down what they and the processes
that they start call. Printed is Markdown, by layer and in the order of the first calls. Cli, flows, tasks, blocks and
services are counted, the rest is listed. Not looked at are who only looks on while others go the way (`irontree serve`
itself), and the runs that a schedule starts, unless they are part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx

from tests.integration.crash.laboratory import lay_out
from tests.prefect.harness import prepare_folder
from tests.support.repositories import git
from tools import tracing

ROOT = Path(__file__).resolve().parents[1]
OURS = ("src/irontree", "flows", "tasks", "blocks")
COUNTED = ("cli", "flows", "tasks", "blocks", "services")
LOOKS_ON = "serve"
"""The verb whose own process only looks on."""
SCHEDULED = ("flows/janitor.py", "flows/reconcile.py")
"""Flows that a schedule starts; a process that ran one of them is left out where the way does not lead through it."""
PATIENCE = 180.0
"""Seconds: others may be at work on this machine."""
SETTLES = 5.0
"""Seconds after which whoever asked has ended."""
GIT = "[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"
AGENT = 'echo "hello, attempt $IRONTREE_ATTEMPT" >> greet.txt'
PLAIN = """\
# Toy

## Greeting

- [ ] it says hello `$ grep -q hello greet.txt`
"""
FRIENDLY = f"{PLAIN}- [ ] it is friendly (manual)\n"

Found = TypeVar("Found")


# --- what was written down ----------------------------------------------------------------------------------


class Call(NamedTuple):
    """The first call of a function in one process."""

    moment: float
    file: str
    function: str


class Traced(NamedTuple):
    """One process: how it was started, and what it called."""

    words: tuple[str, ...]
    calls: tuple[Call, ...]


def read_traces(folder: Path, root: Path = ROOT) -> list[Traced]:
    """All processes that were traced into *folder*; a line that a kill cut off is none."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        lines = []
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                lines.append(json.loads(line))
        if lines:
            calls = (Call(at, Path(file).relative_to(root).as_posix(), name) for at, file, name in lines[1:])
            found.append(Traced(tuple(lines[0]), tuple(calls)))
    return found


def on_the_way(traces: Iterable[Traced], began: float, ended: float, through: Sequence[str] = ()) -> list[Call]:
    """Calls between the two moments, in their order, of who went the way; *through* are scheduled flows in it."""
    left_out = {*SCHEDULED} - {*through}
    calls = [
        call
        for trace in traces
        if LOOKS_ON not in trace.words and not left_out & {call.file for call in trace.calls}
        for call in trace.calls
        if began <= call.moment <= ended
    ]
    return sorted(calls)


def layer_of(file: str) -> str:
    """The folder of a file in the package; of what lies in none, the package."""
    folder, inside, _ = file.removeprefix("src/irontree/").partition("/")
    return folder if inside else "irontree"


def by_layer(calls: Iterable[Call]) -> dict[str, dict[str, list[str]]]:
    """Layers, their files, and the functions of these that were called; each in the order of the first call."""
    found: dict[str, dict[str, list[str]]] = {}
    for call in calls:
        functions = found.setdefault(layer_of(call.file), {}).setdefault(call.file, [])
        if call.function not in functions:
            functions.append(call.function)
    return found


def counted(found: Mapping[str, Mapping[str, object]]) -> int:
    """How many files of the layers that count."""
    return sum(len(found.get(layer, {})) for layer in COUNTED)


def markdown(title: str, found: Mapping[str, Mapping[str, object]]) -> str:
    """A list that can stand in a document."""
    lines = [f"### {title}", "", f"{counted(found)} files of {', '.join(COUNTED)}.", ""]
    rest = [layer for layer in found if layer not in COUNTED]
    for layer in (*(layer for layer in COUNTED if layer in found), *rest):
        files = found[layer]
        names = ", ".join(f"`{file.removeprefix('src/irontree/').removeprefix(f'{layer}/')}`" for file in files)
        note = "" if layer in COUNTED else "not counted; "
        lines.append(f"* **{layer}** ({note}{len(files)}): {names}")
    return "\n".join([*lines, ""])


# --- a repository, and what is typed in it ------------------------------------------------------------------


def wait_until(holds: Callable[[], Found | None]) -> Found:
    """What *holds* returns, once it returns something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen")
        time.sleep(0.05)
    return found


@dataclass
class Stage:
    """A repository in a home of its own; `went` is between which moments the way was gone."""

    place: Path
    state: Path
    traces: Path
    environment: Mapping[str, str]
    root: Path = field(init=False)
    went: tuple[float, float] = (0.0, 0.0)

    def lay_out(self, document: str, *, mode: str = "direct") -> str:
        """Have the document in a repository; the name of what is to be approved."""
        self.root = lay_out(self.place, AGENT, document)
        config = self.root / ".mino" / "config.yml"
        config.write_text(config.read_text().replace("publish:\n", f"publish:\n  mode: {mode}\n"))
        shown = self.typed("task", "SPEC.md", "--plan", "--json", traced=False)
        return str(json.loads(shown)["name"])

    def typed(self, *words: str, traced: bool = True) -> str:
        """What `irontree` says to these words; raises CalledProcessError."""
        return subprocess.run(
            [sys.executable, "-m", "irontree", "-C", str(self.root), *words],
            env=self._traced() if traced else self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            cwd=self.root,
        ).stdout

    @contextmanager
    def served(self) -> Iterator[None]:
        """`irontree serve` runs for the block, and waits for work."""
        log = self.place / "serve.log"
        words = [sys.executable, "-m", "irontree", "-C", str(self.root), "serve"]
        with log.open("wb") as output:
            program = subprocess.Popen(
                words, env=self._traced(), cwd=self.root, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            wait_until(lambda: program.poll() is not None or "Ctrl-C stops" in log.read_text())
            yield
        except BaseException:
            sys.stderr.write(log.read_text())
            raise
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(PATIENCE)

    def event(self, name: str) -> float | None:
        """When an event of that name was written into the log of the issue."""
        found = list((self.root / ".mino" / "events").rglob(f"*-{name}.yml"))
        return found[0].stat().st_mtime if found else None

    def ask(self, path: str, body: object = None) -> Any:
        """What Prefect's API says, as it is asked by its pages."""
        port, method = json.loads((self.state / "server.json").read_text())["port"], "GET" if body is None else "POST"
        url = f"http://127.0.0.1:{port}/api/{path}"
        user, _, password = (self.state / "password").read_text().partition(":")
        known = httpx.BasicAuth(user, password)
        return httpx.request(method, url, json=body, auth=known, trust_env=False, timeout=60).raise_for_status().json()

    def question(self) -> Any:
        """The run that asks."""
        asking = self.ask("flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["PAUSED"]}}}})
        return asking[0] if asking else None

    def send(self, asking: Any, choice: str, **fields: str) -> None:
        """Fill in the form of that run and send it."""
        key = asking["state"]["state_details"]["run_input_keyset"]["schema"]
        fields_there = self.ask(f"flow_runs/{asking['id']}/input/{key}")["properties"]
        filled = {name: field["default"] for name, field in fields_there.items() if "default" in field}
        decision = next(label for label in fields_there["decision"]["enum"] if label.startswith(choice))
        named = {
            next((there for there in fields_there if there.startswith(name)), name): fields[name] for name in fields
        }
        form = {"run_input": {**filled, "decision": decision, **named}}
        if (said := self.ask(f"flow_runs/{asking['id']}/resume", form))["status"] != "ACCEPT":
            raise RuntimeError(f"the answer was not taken: {said}")

    def _traced(self) -> dict[str, str]:
        sources = os.pathsep.join(f"{ROOT / name}{os.sep}" for name in OURS)
        told = {tracing.FOLDER: str(self.traces), tracing.SOURCES: sources, "PYTHONPATH": str(self.traces)}
        return {**self.environment, **told}


@contextmanager
def stage() -> Iterator[Stage]:
    """An empty one, with a server's database that is ready; nothing is left of it."""
    with tempfile.TemporaryDirectory(prefix="irontree-way-", ignore_cleanup_errors=True) as name:
        place = Path(name).resolve()
        home, traces = place / "home", place / "traces"
        for folder in (home, traces):
            folder.mkdir()
        (home / ".gitconfig").write_text(GIT)
        shutil.copyfile(tracing.__file__, traces / "sitecustomize.py")
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "DO_NOT_TRACK": "1"}
        os.environ.clear()
        os.environ.update(environment)
        state = prepare_folder(home / ".local" / "state" / "irontree" / f"prefect-{version('prefect')}")
        yield Stage(place, state, traces, environment)
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(json.loads((state / "server.json").read_text())["pid"], signal.SIGKILL)


# --- the ways -----------------------------------------------------------------------------------------------


def document(stage: Stage) -> None:
    """`irontree task` from its first word to its last: its goal is reached."""
    revision, began = stage.lay_out(PLAIN), time.time()
    stage.typed("task", "SPEC.md", "--approve", revision)
    stage.went = began, time.time()
    if not stage.event("checkup-done"):
        raise RuntimeError("its goal was not reached")


def answer(stage: Stage) -> None:
    """A question is open and nobody is at work; its form is sent, and the answer recorded."""
    revision = stage.lay_out(FRIENDLY)
    with stage.served():
        stage.typed("task", "SPEC.md", "--approve", revision, "--detach")
        asking = wait_until(stage.question)
        time.sleep(SETTLES)
        began = time.time()
        stage.send(asking, "accept", approver="Ada")
        stage.went = began, wait_until(lambda: stage.event("checkup-accept-recorded"))
        wait_until(lambda: stage.event("checkup-done"))


def merge(stage: Stage) -> None:
    """A person merges what was proposed; the janitor, which looks every five minutes and is asked to now, sees it."""
    revision = stage.lay_out(PLAIN, mode="pull_request")
    with stage.served():
        stage.typed("task", "SPEC.md", "--approve", revision, "--detach")
        wait_until(stage.question)
        time.sleep(SETTLES)
        began, theirs = time.time(), stage.place / "theirs"
        git(stage.place, "clone", "--quiet", "remote.git", "theirs")
        git(theirs, "merge", "--quiet", "--no-ff", "--message", "Merge it", "origin/feature/1-greeting")
        git(theirs, "push", "--quiet", "origin", "main")
        [janitor] = [found for found in stage.ask("deployments/filter", {}) if found["entrypoint"].endswith("janitor")]
        stage.ask(f"deployments/{janitor['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})
        stage.went = began, wait_until(lambda: stage.event("checkup-done"))
        time.sleep(SETTLES)


class Way(NamedTuple):
    """Its heading, how it is gone, and the scheduled flows that it leads through."""

    title: str
    go: Callable[[Stage], None]
    through: tuple[str, ...] = ()


WAYS = {
    "document": Way("A document from the command line to `done`", document),
    "answer": Way("An answer from the page to the log", answer),
    "merge": Way("A merge from the forge to `done`", merge, SCHEDULED[:1]),
}


def main() -> None:
    """Go the ways that are named, or all."""
    parser = argparse.ArgumentParser(description="Which of our files take part in a way through the program.")
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--functions", action="store_true", help="print the functions too, as JSON")
    options = parser.parse_args()
    for name in options.ways or WAYS:
        way = WAYS[name]
        with stage() as place:
            way.go(place)
            found = by_layer(on_the_way(read_traces(place.traces), *place.went, way.through))
        print(json.dumps(found, indent=1) if options.functions else markdown(way.title, found), flush=True)


if __name__ == "__main__":
    main()
