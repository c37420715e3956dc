"""The tutorial and the how-to guides do what they say: their commands are run, their output is compared.

What needs a Prefect server is marked `by hand` there; in the tutorial its place is taken by the same steps one by one.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from irontree.cli.main import main
from irontree.config_file import read_config, write_config
from tests.support.console_blocks import ByHand, Command, SavedFile, Settings, Step, steps_of
from tests.support.starts import program_that_starts_at_once

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIAL = DOCS / "tutorial.md"
GUIDES = sorted((DOCS / "how-to").glob("*.md"))
DIES = "#!/bin/sh\ncat > /dev/null\necho half > HALF\nkill -9 $PPID\n"
SECONDS = 60


@dataclass
class Reader:
    """Follows a page; *folder* is where they are, *place* what is theirs altogether, *programs* on their PATH."""

    place: Path
    folder: Path
    programs: Path
    done: list[str] = field(default_factory=list)

    def follow(self, *steps: Step) -> None:
        for step in steps:
            match step:
                case Command():
                    self.type(step)
                case SavedFile(path, text):
                    (self.folder / path).write_text(text, encoding="utf-8")
                case Settings(text):
                    self.add_settings(text)
                case ByHand():
                    pass

    def type(self, command: Command) -> None:
        where = self.place / "where"
        done = subprocess.run(
            ["sh", "-c", f'{command.line}\ncode=$?\npwd > "{where}"\nexit $code'],
            cwd=self.folder,
            env=os.environ | {"PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        shown = f"$ {command.line}\n{done.stdout}"
        assert done.returncode == command.code, shown
        assert command.prints(done.stdout), f"{shown}\nThe page shows:\n{command.output}"
        self.folder = Path(where.read_text(encoding="utf-8").strip())
        self.done.append(command.line)

    def add_settings(self, text: str) -> None:
        """As the page says, with the agent where it was saved."""
        text = text.replace("/path/to/agent.sh", str(self.place / "agent.sh"))
        said = read_config(text, "the page")
        named = {"agent.command": list(said.agent.command), "toolchain.discussion": said.toolchain.discussion}
        settings = {key: value for key, value in named.items() if value}
        write_config(self.folder / ".mino" / "config.yml", settings)

    def approve(self) -> None:
        """Approve by the name that the plan shows."""
        shown = self.irontree("task", "SPEC.md", "--plan")
        self.irontree("task", "SPEC.md", "--stepwise", "--approve", shown.partition("`")[2].partition("`")[0])

    def step_by_step(self, *, stop: Callable[[str], bool] = lambda _: False) -> None:
        """What the loop does, without it: type what each step says, and send back once what asks for acceptance."""
        self.approve()
        words = ["run", "issue-1"]
        answers = ["checkup reject issue-2 'Say thank you'", "checkup accept issue-2"]
        while words and not stop(" ".join(words)):
            said = json.loads(self.irontree(*words, "--json"))
            following = said["next"] or ""
            words = shlex.split(answers.pop(0)) if said["question"] else shlex.split(following)[1:]

    def irontree(self, *words: str) -> str:
        """Type it in this process: quicker, for what no page shows; a step that fails as it may is no error."""
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            code = main(["-C", str(self.folder), *words])
        assert code in (0, 1), out.getvalue()
        return out.getvalue()


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Iterator[Path]:
    """A folder for the PATH, with `irontree`."""
    folder = tmp_path_factory.mktemp("bin")
    with program_that_starts_at_once(folder / "irontree"):
        yield folder


@pytest.fixture
def reader(tmp_path: Path, programs: Path) -> Reader:
    return Reader(tmp_path, tmp_path, programs)


def until_approval(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The tutorial up to the point where the loop would start."""
    return steps[: next(number for number, step in enumerate(steps) if isinstance(step, ByHand))]


def at_a_question(reader: Reader) -> None:
    """The tutorial's repository when it asks for acceptance for the first time."""
    steps = steps_of(TUTORIAL)
    reader.follow(*(step for step in until_approval(steps) if not shows_only(step)))
    reader.step_by_step(stop=lambda words: words.startswith("checkup reject"))


def after_a_kill(reader: Reader) -> None:
    """The tutorial's repository after a SIGKILL in the middle of the first attempt."""
    steps = steps_of(TUTORIAL)
    reader.follow(*(step for step in until_approval(steps) if not shows_only(step)))
    agent = reader.place / "agent.sh"
    works = agent.read_text(encoding="utf-8")
    agent.write_text(DIES, encoding="utf-8")
    write_config(reader.folder / ".mino" / "config.yml", {"sandbox.kind": "none"})  # where it sees who is to be killed
    reader.approve()
    reader.type(Command("irontree run issue-1", code=137))
    agent.write_text(works, encoding="utf-8")


def set_up(reader: Reader) -> None:
    """A repository that is set up, and nothing more."""
    steps = until_approval(steps_of(TUTORIAL))
    reader.follow(*(step for step in steps if not shows_only(step) and not isinstance(step, SavedFile)))


def with_a_team(reader: Reader) -> None:
    """A repository that is set up, and names a member."""
    set_up(reader)
    member = {"name": "tester", "command": ["sh", "agent.sh"]}
    write_config(reader.folder / ".mino" / "config.yml", {"toolchain": {}, "team": [member]})


def shows_only(step: Step) -> bool:
    return isinstance(step, Command) and step.line.endswith("--plan")


BEGINS = {
    "adopt-issues.md": set_up,
    "answer-questions.md": at_a_question,
    "back-up-and-restore.md": at_a_question,
    "move-to-another-machine.md": at_a_question,
    "recover-after-a-crash.md": after_a_kill,
    "serve.md": set_up,
    "team-of-agents.md": with_a_team,
    "write-requirements.md": set_up,
}
"""Where a guide's reader stands when they open it; guides that are not here are done by hand altogether."""


def test_the_tutorial_can_be_followed_from_its_first_line_to_its_last(reader: Reader):
    steps = steps_of(TUTORIAL)
    before = until_approval(steps)
    reader.follow(*before)
    reader.step_by_step()
    reader.follow(*steps[len(before) + 1 :])
    assert reader.done[-1] == "irontree show issue-1 --events"


@pytest.mark.parametrize("guide", [guide for guide in GUIDES if guide.name in BEGINS], ids=lambda guide: guide.stem)
def test_the_guide_can_be_followed_line_by_line(reader: Reader, guide: Path):
    BEGINS[guide.name](reader)
    reader.follow(*steps_of(guide))
    typed = commands(guide)
    assert reader.done[-len(typed) :] == typed


def commands(page: Path) -> list[str]:
    return [step.line for step in steps_of(page) if isinstance(step, Command)]


@pytest.mark.parametrize("page", [TUTORIAL, *GUIDES], ids=lambda page: page.stem)
def test_only_what_needs_a_prefect_server_is_left_to_be_done_by_hand(page: Path):
    for step in steps_of(page):
        if isinstance(step, ByHand):
            assert step.reason == "needs a Prefect server"
            assert any(
                line.startswith(("prefect ", "irontree task ", "irontree serve", "irontree automations"))
                for line in step.lines
            )
    assert [line for line in commands(page) if line.startswith("prefect ")] == []
    assert page.name in BEGINS or page == TUTORIAL or commands(page) == []


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("a\n…\nc\n", "a\nb\nb\nc\n", True),
        ("a\n…\nc\n", "a\nc\n", True),
        ("a … c\n", "a b c\n", True),
        ("a\n", "a\nb\n", False),
        ("…\nb\n", "a\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_output_is_compared_but_for_what_is_left_out(shown: str, printed: str, fits: bool):
    assert Command("x", shown).prints(printed) is fits
