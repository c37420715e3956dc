"""A session is recorded as any agent's, and replayed to the letter: same lines, same changes, same result."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path

import pytest

from irontree.agents.registry import open_agent
from irontree.domain.agents import AgentSpec
from irontree.ports import AgentTask
from tests.support.processes import NEVER, Heard, children
from tests.support.repositories import commit, git

ACP_AGENT = Path(__file__).parents[2] / "support" / "acp_agent.py"
IRONTREE = (sys.executable, "-m", "irontree")
WORK = """\
read -r first
echo "I was told: $first"
printf 'two\\n' > app.py; printf 'a\\000b' > data.bin; mkdir new; echo new > new/file.txt; git rm -q --cached old.py
rm old.py; echo ignored > app.log; git add new; git commit -qm 'my own'
echo trouble >&2
echo done
"""
MANY = {"HOME": "/nowhere", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
MANY |= {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Place:
    """A repository that is worked in, at its beginning as often as one likes."""

    def __init__(self, folder: Path) -> None:
        self.recordings = folder / "recordings"
        self.source = folder / "source"
        self._folder = folder
        git(folder, "init", "--quiet", str(self.source))
        commit(self.source, ".gitignore", "*.log\n")
        commit(self.source, "old.py", "old\n")
        commit(self.source, "app.py", "one\n")

    def attempt(self, name: str, *command: str, adapter="command", attempt=1, cancel=NEVER, heard=None, **variables):
        workspace = self._folder / name
        git(self._folder, "clone", "--quiet", str(self.source), str(workspace))
        spec = AgentSpec(adapter=adapter, command=command, environment=(*MANY, *variables))
        task = AgentTask(7, "core-model", attempt, "make it\nplease\n", workspace, self._folder / f"{name}-transcript")
        agent = open_agent(spec, children(grace_seconds=5), {**os.environ, **MANY, **variables})
        return agent.attempt(task, cancel=cancel, progress=heard or Heard())

    def record(self, *command: str, name="recorded", **more):
        return self.attempt(name, *IRONTREE, "agents", "record", str(self.recordings), "--", *command, **more)

    def replay(self, *words: str, name="replayed", **more):
        return self.attempt(name, *IRONTREE, "agents", "replay", str(self.recordings), *words, **more)

    def files(self, name: str) -> dict[str, bytes]:
        found = (self._folder / name).rglob("*")
        return {
            str(path.relative_to(self._folder / name)): path.read_bytes()
            for path in found
            if path.is_file() and ".git" not in path.parts
        }

    def kept(self, suffix: str) -> str:
        return (self.recordings / "core-model" / f"1.{suffix}").read_text()


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    for name, value in MANY.items():
        monkeypatch.setenv(name, value)
    return Place(tmp_path)


def test_what_goes_through_is_what_the_program_says_and_does(place):
    result = place.record("sh", "-c", f"{WORK}\nexit 3")
    assert result.exit_code == 3
    assert sorted(result.output_tail.splitlines()) == ["I was told: make it", "done", "trouble"]


def test_lines_changes_and_end_are_kept(place):
    place.record("sh", "-c", WORK)
    lines = [json.loads(line) for line in place.kept("session.jsonl").splitlines()]
    assert [line["said"] for line in lines if "said" in line] == ["I was told: make it", "done"]
    assert [line["heard"] for line in lines if "heard" in line][:1] == ["make it"]
    assert [line["complained"] for line in lines if "complained" in line] == ["trouble"]
    assert [line["after"] for line in lines] == sorted(line["after"] for line in lines)
    assert "ignored" not in place.kept("patch")
    assert json.loads(place.kept("result.json"))["command"] == ["sh", "-c", WORK]


def test_a_replay_says_and_changes_the_same_and_calls_nobody(place):
    recorded = place.record("sh", "-c", f"{WORK}\nexit 3")
    replayed = place.replay()
    changed = place.files("recorded")
    assert changed.pop("app.log") == b"ignored\n"
    assert place.files("replayed") == changed
    assert replayed.exit_code == 3
    said = set(replayed.output_tail.splitlines())
    assert set(recorded.output_tail.splitlines()) < said
    assert any("no model is called" in line for line in said)


def test_a_session_of_the_agent_client_protocol_is_replayed_with_its_questions(place):
    ways = ("says=I look.\n", "writes=made.txt", "asks-to-run=npm test", "says=Made it.", "costs=0.5")
    results = [
        place.record(sys.executable, str(ACP_AGENT), *ways, adapter="acp"),
        place.replay("--", "words", "--that", "are", "ignored", adapter="acp"),
    ]
    recorded, replayed = (dataclasses.replace(result, seconds=0, output_tail="") for result in results)
    assert recorded.claim.ok
    assert recorded.denied == ("no rule allows: execute npm test",)
    assert replayed == recorded
    assert place.files("replayed") == place.files("recorded")


def test_recording_leaves_the_index_and_the_objects_of_the_repository_alone(place, tmp_path):
    place.record("sh", "-c", "echo two > app.py; echo new > new.py")
    workspace = tmp_path / "recorded"
    assert git(workspace, "status", "--porcelain") == " M app.py\n?? new.py".strip()
    blob = git(workspace, "hash-object", "new.py")
    assert git(workspace, "cat-file", "-t", blob, check=False) == ""


def test_a_secret_of_the_environment_is_not_in_a_recording(place):
    place.record("sh", "-c", 'echo "key: $MODEL_KEY"', MODEL_KEY="sk-123456789")
    assert "key: ***" in place.kept("session.jsonl")
    assert "sk-123456789" not in "".join(place.kept(name) for name in ("session.jsonl", "patch", "result.json"))


def test_one_that_is_stopped_is_recorded_to_its_end(place):
    import threading

    bell = threading.Event()
    script = "trap 'echo two > app.py; echo stopped; exit 4' TERM; echo ready; while :; do sleep 0.1; done"
    place.record("sh", "-c", script, cancel=bell, heard=Heard(bell, "ready"))
    assert "stopped" in place.kept("session.jsonl")
    assert "+two" in place.kept("patch")
    assert json.loads(place.kept("result.json"))["exit_code"] == 4


def test_one_that_was_cut_off_is_not_replayed_but_said_to_be_so(place):
    place.record("sh", "-c", WORK)
    (place.recordings / "core-model" / "1.result.json").unlink()
    result = place.replay()
    assert (result.exit_code, "was cut off: record it again" in result.output_tail) == (1, True)
    assert "new" not in place.files("replayed")


def test_a_later_attempt_without_a_recording_takes_the_last_one(place):
    place.record("sh", "-c", WORK)
    assert place.replay(attempt=3).exit_code == 0
    assert place.files("replayed")["app.py"] == b"two\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("record", "recordings", "--", "true"), "name the folder of recordings from / or ~"),
        (("record", "{recordings}"), "name the program to record"),
        (("record", "{recordings}", "--", "no-such-program"), "install no-such-program"),
    ],
)
def test_what_cannot_be_recorded_is_said_to_whoever_must_act(place, words, told):
    filled = [word.replace("{recordings}", str(place.recordings)) for word in words]
    result = place.attempt("refused", *IRONTREE, "agents", *filled)
    assert result.exit_code in {1, 2}
    assert told in result.output_tail


def test_where_there_is_no_repository_nothing_is_recorded(place, tmp_path):
    place.attempt("recorded", "sh", "-c", f"rm -rf .git; {' '.join(IRONTREE)} agents record {place.recordings} -- true")
    assert "record in the work tree of a git repository" in (tmp_path / "recorded-transcript/output.log").read_text()
