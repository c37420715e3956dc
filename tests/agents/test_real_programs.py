"""The truth table: real agent programs against a stand-in for their services, and what is made of each ending.

`make test-agents` installs the programs and runs all of it. `make test` installs one, which is tried in short.
"""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from irontree.agents.registry import as_called, open_agent
from irontree.domain.agents import KNOWN_AGENTS
from irontree.domain.attempt import AttemptEvidence, outcome_of
from irontree.domain.places import OPEN, PlaceSpec
from irontree.ports import AgentResult, AgentTask
from tests.support.containers import bubblewrap_place
from tests.support.model_api import CONTENT, MADE, ModelApi, model_api
from tests.support.processes import NEVER, Heard, children
from tests.support.real_agents import program_of, spec_of

ALL = os.environ.get("AGENTS") == "all"
INSTALLED = [name for name in KNOWN_AGENTS if program_of(name)]
TRIED = list(KNOWN_AGENTS) if ALL else INSTALLED[:1]
NOBODY = "http://127.0.0.1:9"
LIMITS = {"wall_seconds": 45, "stall_seconds": 30}
# They take what their service refuses to answer for an answer, and say so nowhere.
HIDES_REFUSAL = frozenset({"codex", "gemini", "copilot", "aider", "mini-swe-agent"})
# They try again in silence until they are stopped, and say nothing of a service that fails.
HIDES_TROUBLE = frozenset({"mini-swe-agent"})
pytestmark = [
    pytest.mark.timeout(150),
    pytest.mark.skipif(
        not INSTALLED, reason="no agent program is installed under build/agents: make one-agent, or make test-agents"
    ),
]
in_full = pytest.mark.skipif(not ALL, reason="only with make test-agents")
each = pytest.mark.parametrize("name", TRIED or ["none"])


@dataclass
class Bench:
    """A workspace, a home and a transcript folder of one attempt."""

    folder: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def transcript(self) -> Path:
        return self.folder / "transcript"

    def attempt(
        self, name: str, url: str, place: PlaceSpec = OPEN, temporary: str = "temporary", *, cancel=NEVER, **limits: int
    ) -> AgentResult:
        """Let the program have one attempt; its service is at *url*, its folder for temporary files in ours."""
        (self.folder / temporary).mkdir(exist_ok=True)
        self.workspace.mkdir()
        subprocess.run(["git", "init", "--quiet", self.workspace], check=True, env={"PATH": os.environ["PATH"]})
        (self.folder / "home").mkdir()
        spec, environment = spec_of(name, self.folder / "home", url, **(LIMITS | limits))
        prompt = f"Write the file {MADE} in the current folder."
        task = AgentTask(7, "greeting", 1, prompt, self.workspace, self.transcript)
        spec = as_called(spec.model_copy(update={"place": place}))
        environment["TMPDIR"] = str(self.folder / temporary)
        return open_agent(spec, children(), environment).attempt(task, cancel=cancel, progress=Heard())

    @property
    def files(self) -> set[str]:
        return {path.name for path in self.workspace.iterdir()} - {".git"}

    def then(self, result: AgentResult) -> str:
        seen = AttemptEvidence(result.ended, result.exit_code, result.claim, result.failure)
        return outcome_of(seen, changed=bool(self.files)).then


@pytest.fixture
def bench(home_folder) -> Bench:
    return Bench(home_folder)


@each
@pytest.mark.parametrize("kind", ["none", "bubblewrap"])
def test_work_that_is_done_is_claimed_as_done_and_nothing_else_is_left_behind(bench, name, kind):
    """bubblewrap is on PATH or not: agents that bring a sandbox of their own may take that one."""
    place = bubblewrap_place().spec if kind == "bubblewrap" else OPEN
    with model_api("edit", bench.workspace) as api:
        result = bench.attempt(name, api.url, place=place)
    assert (bench.workspace / MADE).read_text() == CONTENT
    assert bench.files == {MADE}
    assert (result.ended, result.failure, bench.then(result)) == ("exited", None, "verify")
    assert result.claim is not None
    assert result.claim.ok is not False


@each
def test_an_answer_without_a_change_changes_nothing(bench, name):
    with model_api("text", bench.workspace) as api:
        result = bench.attempt(name, api.url)
    assert bench.files == set()
    assert (result.ended, result.failure, bench.then(result)) == ("exited", None, "verify")


@in_full
@each
@pytest.mark.parametrize(
    ("mode", "failure", "then"),
    [("401", "not_authenticated", "ask"), ("429", "rate_limited", "wait"), ("500", "unreachable", "wait")],
)
def test_a_service_that_says_no_is_told_from_work_that_failed(bench, name, mode, failure, then):
    with model_api(mode, bench.workspace) as api:
        result = bench.attempt(name, api.url)
    if name in HIDES_TROUBLE and result.ended != "exited":
        failure, then = None, "give_back"
    assert (result.failure, bench.then(result)) == (failure, then)
    assert bench.files == set()


@in_full
@each
def test_a_service_that_is_not_there_is_waited_for(bench, name):
    result = bench.attempt(name, NOBODY)
    then = "give_back" if name in HIDES_TROUBLE else "wait"
    assert bench.then(result) == then
    assert bench.files == set()


@in_full
@each
def test_a_refusal_counts_as_an_attempt(bench, name):
    with model_api("refusal", bench.workspace) as api:
        result = bench.attempt(name, api.url)
    assert result.failure == (None if name in HIDES_REFUSAL else "refused")
    assert bench.then(result) == "verify"


@in_full
@pytest.mark.parametrize("kind", ["none", "bubblewrap"])
def test_codex_whose_own_sandbox_refuses_every_edit_is_told_apart(bench, kind):
    """It cannot make the helper of its sandbox, because its home is in the folder for temporary files."""
    place = bubblewrap_place().spec if kind == "bubblewrap" else OPEN
    with model_api("edit", bench.workspace) as api:
        result = bench.attempt("codex", api.url, place=place, temporary=".")
    if kind == "bubblewrap":
        assert (result.failure, bench.files) == (None, {MADE})
    elif result.failure:  # without bubblewrap on PATH it brings its own, which works
        assert (result.failure, bench.then(result), bench.files) == ("own_sandbox", "ask", set())
        assert "codex-linux-sandbox" in result.claim.words


@in_full
@each
def test_one_that_hangs_is_stopped_with_all_that_it_started(bench, name):
    with model_api("hang", bench.workspace) as api:
        result = bench.attempt(name, api.url, wall_seconds=15, stall_seconds=12)
    assert result.ended in ("stalled", "timeout")
    assert bench.then(result) == "give_back", (
        "whatever it claims: Copilot ends with exit code 0 when it is asked to end"
    )
    assert nobody_lives_in(bench)


@in_full
@each
def test_one_that_is_killed_claims_nothing_and_leaves_nobody(bench, name):
    stop = threading.Event()
    with model_api("hang", bench.workspace) as api:
        threading.Thread(target=stop_once_asked, args=(api, stop), daemon=True).start()
        result = bench.attempt(name, api.url, cancel=stop)
    assert result.ended == "cancelled"
    assert nobody_lives_in(bench)


def stop_once_asked(api: ModelApi, stop: threading.Event) -> None:
    """Ask to stop as soon as the program waits for its service."""
    while not any(path.startswith("POST") for path in api.asked) and not api.stopping.is_set():
        api.stopping.wait(0.05)
    stop.set()


def nobody_lives_in(bench: Bench) -> bool:
    """Whether no process works in the workspace, or has the home of this attempt."""
    home = f"HOME={bench.folder / 'home'}"
    return not [process for process in psutil.process_iter() if _belongs(process, bench.workspace, home)]


def _belongs(process: psutil.Process, workspace: Path, home: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.cwd() == str(workspace) or f"HOME={process.environ().get('HOME')}" == home
    except psutil.Error:
        return False
