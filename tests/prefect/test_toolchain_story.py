"""A team in a forge, over HTTP: from an opened issue, talked over, divided, done and merged, to its goal.

The client of GitHub waits a second between two writes, so the whole story takes 80 s there: that is for `SOAK=all`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from prefect.states import Pending

from irontree.cli.main import main
from irontree.flows.janitor import janitor
from irontree.flows.serve.chores import take_comments
from irontree.services.consistency.audit import audit
from irontree.services.record import read_world
from irontree.services.toolchain.looking import TeamLookout
from irontree.services.work.standing import requests, standing_text
from tests.prefect.toys import GREETING, Toy, make_toy, served
from tests.support.repositories import git
from tests.support.soak import in_soak
from tests.support.store import standing
from tests.support.team_forge import TeamForge, on_gitea, on_github

MEMBER = """\
import json, os, pathlib, sys

name, starts = sys.argv[1:]
told = os.environ
prompt = pathlib.Path(told["IRONTREE_PROMPT_FILE"]).read_text()
files = {key: told.get(f"IRONTREE_{key}_FILE", "") for key in ("ROUND", "VERDICT", "ANSWER")}


def did(what, where, said):
    with open(starts, "a") as file:
        file.write(f"{name} {what}\\n")
    pathlib.Path(where).write_text(said if isinstance(said, str) else json.dumps(said))


def part(title, kind):
    slug = title.lower().replace(" ", "-")
    return {"title": title, "kind": kind, "criteria": [f"it is there `$ test -f {slug}.txt`"]}


if files["ROUND"]:
    did("finds", files["ROUND"], {"goal": "They fit.", "coverage": "All of it.", "verdict": "covered"})
elif files["VERDICT"]:
    did("reviews", files["VERDICT"], {"verdict": "approve", "summary": "It works."})
elif files["ANSWER"].endswith(".md"):
    did("answers", files["ANSWER"], "It does.")
elif files["ANSWER"]:
    second = "Risk limit" if "the risk limit first" in prompt else "Backtest"
    claims = {"quant": [part("Strategy", "feature")], "coder": [part(second, "impl")], "chief": []}
    did("advises", files["ANSWER"], {"position": "I can.", "claims": claims[name]})
else:
    did("works", f"{told['IRONTREE_TASK_KEY']}.txt", f"attempt {told['IRONTREE_ATTEMPT']}")
    if ".irontree-report.json" in prompt:
        pathlib.Path(".irontree-report.json").write_text('{"design_doc": "None was needed."}')
"""
KEYS = {
    "quant": "kinds: [feature]",
    "coder": "kinds: [impl]",
    "chief": "kinds: [docs], role: reviewer, lead: true, account: chief-bot",
}
ROUND = ["[quant]", "[coder]", "[chief]", "The"]
"""How the comments of one round of a discussion begin."""
PROPOSED = ["task_published", "run_started", "run_completed", "verify_pending_acceptance"]


@dataclass
class Story:
    """A served project before a forge; *look* is one look of whoever serves it."""

    toy: Toy
    forge: TeamForge
    starts: Path
    look: Callable[[Toy], None]

    def begun(self, number: int) -> list[str]:
        """How the comments under an issue begin."""
        return [comment.body.split()[0] for comment in self.forge.alice.comments(number)]

    def started(self) -> Counter[str]:
        return Counter(self.starts.read_text().splitlines() if self.starts.exists() else [])

    def go_on(self) -> None:
        """Look until nothing happens any more."""
        before = None
        while before != (before := self._seen()):
            self.look(self.toy)
            self.toy.settle()

    def _seen(self) -> object:
        app = self.toy.app
        asked = [each.model_dump() for each in requests(app)]
        logs = [self.toy.events(number) for number in app.log.streams()]
        return asked, logs, [self.toy.loop_events(loop_id) for loop_id in app.loops.ids()]

    def merge(self, branch: str) -> None:
        """As alice does it."""
        theirs = self.toy.root.parent / "theirs"
        if not theirs.exists():
            git(theirs.parent, "clone", "--quiet", "remote.git", "theirs")
        git(theirs, "fetch", "--quiet", "origin")
        git(theirs, "merge", "--quiet", "--no-ff", "-m", f"Merge {branch}", f"origin/{branch}")
        git(theirs, "push", "--quiet", "origin", "HEAD:main")
        [request] = self.forge.alice.find_pull_requests(branch)
        self.forge.merged(request.number, git(theirs, "rev-parse", "HEAD").strip())


def polled(toy: Toy) -> None:
    take_comments(toy.app, team=TeamLookout())


def upkeep(toy: Toy) -> None:
    run = toy.client.create_flow_run_from_deployment(toy.deployment("janitor"), state=Pending())
    assert toy.drive(run.id, janitor).is_completed()


def served_look(toy: Toy) -> None:
    polled(toy)
    upkeep(toy)


def doubled(toy: Toy) -> None:
    for look in (polled, polled, upkeep, upkeep):
        look(toy)


ON_GITEA, ON_GITHUB = partial(pytest.param, on_gitea), partial(pytest.param, on_github)


@pytest.fixture
def forge(request, tmp_path, monkeypatch) -> Iterator[TeamForge]:
    with request.param(tmp_path / "people") as found:
        monkeypatch.setenv(*found.token)
        yield found


def begin(folder: Path, client, forge: TeamForge, look: Callable[[Toy], None]) -> Story:
    """The team is approved, alice has opened an issue with a label, and mallory one without."""
    member, starts = folder / "member.py", folder / "starts"
    member.write_text(MEMBER)
    commands = {name: [sys.executable, "-I", str(member), name, str(starts)] for name in KEYS}
    team = "".join(
        f"- {{name: {name}, {KEYS[name]}, command: {json.dumps(line)}}}\n" for name, line in commands.items()
    )
    settings = (
        f"{forge.section}loop: {{on_halt: go_on}}\ntoolchain: {{discussion: everybody, language: en}}\nteam:\n{team}"
    )
    flows = ("agent_request", "intake", "issue", "loop", "janitor")
    toy = make_toy(folder / "toy", client, GREETING, *flows, agent="exit 1", settings=settings)
    config = toy.root / ".mino" / "config.yml"
    config.write_text(config.read_text().replace("publish:\n", "publish:\n  mode: pull_request\n"))
    forge.share(toy.root.parent / "remote.git")
    toy.app.agent_requests.approve(standing(toy.app.policy(None), reviews=True))
    assert "chief" in standing_text(toy.app)[0]
    forge.alice.create_issue("Averages", "Trade on two averages.\n", ["type/feat"])
    forge.mallory.create_issue("It prints nothing", "Since version 2.\n", [])
    return Story(toy, forge, starts, look)


def talk_over(story: Story) -> None:
    """Two rounds, since alice sends the first one back, and her approval; mallory is not heard in any of it."""
    alice, mallory = story.forge.alice, story.forge.mallory
    mallory.post_comment(2, "@coder does this reproduce?")
    story.go_on()
    assert story.begun(1) == ROUND
    mallory.post_comment(1, f"/approve {proposed(story)}")
    alice.post_comment(1, "/send-back the risk limit first")
    story.go_on()
    said = [*ROUND, "/approve", "/send-back", *ROUND]
    assert story.begun(1) == said
    alice.post_comment(2, "@coder does this reproduce?")
    story.go_on()
    assert (story.begun(1), story.begun(2)) == (said, ["@coder", "@coder", "[coder]"])
    assert story.started() == {"quant advises": 2, "coder advises": 2, "chief advises": 2, "coder answers": 1}
    alice.post_comment(1, f"/approve {proposed(story)}")
    story.go_on()
    logs = {number: story.toy.events(number) for number in story.toy.app.log.streams()}
    assert logs == {1: ["task_published"], 3: PROPOSED, 4: PROPOSED}
    assert [story.begun(number) for number in (3, 4)] == [["⏸️", "[Action"]] * 2
    titles = ["Strategy", "Risk limit"]
    assert [alice.read_issue(number).title for number in (3, 4)] == titles
    assert [pull.title for pull in alice.open_pull_requests()] == titles


def proposed(story: Story) -> str:
    return re.findall(r"`/approve ([0-9a-f]+)`", story.forge.alice.comments(1)[-1].body)[-1]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("forge", [ON_GITEA(id="gitea"), ON_GITHUB(id="github", marks=in_soak)], indirect=True)
def test_an_opened_issue_is_talked_over_divided_done_and_merged_to_its_goal(tmp_path, client, forge, capsys):
    story = begin(tmp_path, client, forge, served_look)
    toy, alice = story.toy, forge.alice
    with served(toy):
        talk_over(story)
        parts = {state.task_key: state for state in read_world(toy.app).states.values() if state.issue_number > 2}
        assert sorted(parts) == ["risk-limit", "strategy"]
        opened = {pull.head_branch: pull for pull in alice.open_pull_requests()}
        good, bad = (next(name for name in opened if key in name) for key in ("strategy", "risk-limit"))
        forge.report(opened[good].head_sha, "success")
        forge.report(opened[bad].head_sha, "failure")
        alice.request_reviews(opened[good].number, ["chief-bot"])
        story.go_on()
        [again] = alice.find_pull_requests(bad)
        assert (again.number, again.head_sha != opened[bad].head_sha) == (opened[bad].number, True)
        forge.report(again.head_sha, "success")
        story.go_on()
        for branch in (good, bad):
            story.merge(branch)
        story.go_on()
    world = read_world(toy.app)
    assert all(state.done for state in world.states.values())
    assert [alice.read_issue(number).state for number in (1, 2, 3, 4)] == ["closed", "open", "closed", "closed"]
    assert len(opened) == 2
    assert alice.open_pull_requests() == ()
    assert story.started() == {
        **{f"{name} advises": 2 for name in KEYS},
        "coder answers": 1,
        "quant works": 1,
        "coder works": 2,
        "chief reviews": 1,
        "chief finds": 1,
    }
    assert story.begun(3) == ["⏸️", "[Action", "[Action"]
    assert story.begun(4) == ["⏸️", "[Action", "❌", "⏸️", "[Action", "[Action"]
    assert "**Design**: None was needed." in alice.comments(4)[-1].body
    assert [len(alice.reviews(opened[name].number)) for name in (good, bad)] == [1, 0]
    assert story.begun(1).count("[chief]") == 3
    capsys.readouterr()
    assert main(["-C", str(toy.root), "toolchain", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["asked"] == []
    assert audit(toy.app) == ()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("forge", "look"),
    [
        ON_GITEA(doubled, id="gitea, every look twice", marks=in_soak),
        ON_GITEA(upkeep, id="gitea, by the janitor alone"),
        ON_GITHUB(doubled, id="github, every look twice", marks=in_soak),
        ON_GITHUB(upkeep, id="github, by the janitor alone", marks=in_soak),
    ],
    indirect=["forge"],
)
def test_however_often_and_by_whom_it_is_looked_at_the_same_is_said_and_recorded(tmp_path, client, forge, look):
    """Webhooks only hurry looks (T1): with none there is the janitor, and a doubled one is a doubled look."""
    story = begin(tmp_path, client, forge, look)
    with served(story.toy):
        talk_over(story)
