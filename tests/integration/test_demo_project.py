"""The sample project on disk: the same everywhere, safe for what is there, and its prepared work does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from irontree.config_file import load_config
from irontree.demo import layout as sample
from irontree.demo.layout import DemoPlace, lay_out
from irontree.domain.checks import checks_for
from irontree.domain.graph import Graph
from irontree.domain.plan import PlanNode
from irontree.domain.spec import read_requirements
from irontree.errors import EnvironmentRefused, Refused
from tests.support.graphs import all_children_done, eligible
from tests.support.soak import in_soak

HOSTILE_SETTINGS = """\
[commit]
    gpgSign = true
[gpg]
    program = false
[core]
    hooksPath = {hooks}
    autocrlf = true
[i18n]
    commitEncoding = ISO-8859-1
[init]
    defaultBranch = trunk
    templateDir = {template}
[user]
    useConfigOnly = true
"""


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {words}: {done.stderr}"
    return done.stdout.strip()


def document(place: DemoPlace) -> Path:
    return place.repository / sample.REQUIREMENTS.document


@pytest.fixture
def hostile_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose settings sign, refuse and rewrite everything, and who has no identity."""
    hooks, template = tmp_path / "hooks", tmp_path / "template" / "hooks"
    for folder in (hooks, template):
        folder.mkdir(parents=True)
        for name in ("pre-commit", "applypatch-msg", "pre-push"):
            (folder / name).write_text("#!/bin/sh\nexit 1\n")
            (folder / name).chmod(0o755)
    settings = tmp_path / "settings"
    settings.write_text(HOSTILE_SETTINGS.format(hooks=hooks, template=template.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))


# --- laying out ---------------------------------------------------------------------------------------------


def test_two_layouts_have_the_same_commits_tree_and_revision(tmp_path):
    places = [lay_out(tmp_path / name) for name in ("one", "two")]
    read = [read_requirements(document(place).read_bytes(), document(place).name) for place in places]
    assert git(places[0].repository, "rev-parse", "main") == git(places[1].repository, "rev-parse", "main")
    assert read[0] == read[1] == sample.REQUIREMENTS.tree()


def test_the_clone_is_on_main_with_a_history_of_two_authors_and_the_remote_has_it_all(tmp_path):
    place = lay_out(tmp_path / "demo")
    authors = git(place.repository, "log", "--format=%an").splitlines()
    assert git(place.repository, "status", "--short", "--branch") == "## main...origin/main\n?? .mino/"
    assert len(authors) == 5
    assert set(authors) == {"Mira Lindqvist", "Jonas Okafor"}
    assert git(place.remote, "rev-parse", "HEAD") == git(place.repository, "rev-parse", "HEAD")


def test_the_configuration_names_the_check_the_replay_program_and_where_code_goes(tmp_path):
    place = lay_out(tmp_path / "demo", pace=0.25)
    policy = load_config(place.repository / ".mino" / "config.yml").policy(None, "elsewhere")
    assert [check.model_dump() for check in policy.checks] == [sample.CHECK]
    replay = (sys.executable, "-m", "irontree", "agents", "replay", str(place.patches), "--pace", "0.25")
    assert policy.agent.command == replay
    assert (policy.publish.mode, policy.publish.remote, policy.publish.target_branch) == ("direct", "origin", "main")


def test_another_agent_takes_the_place_of_the_replay_program(tmp_path):
    place = lay_out(tmp_path / "demo", agent=("my-agent", "--print"))
    assert load_config(place.repository / ".mino" / "config.yml").agent.command == ("my-agent", "--print")


def test_the_users_git_settings_neither_change_the_project_nor_stop_commits_and_pushes(
    tmp_path, hostile_git, monkeypatch
):
    place = lay_out(tmp_path / "demo")
    document(place).unlink()
    git(place.repository, "checkout", "--quiet", ".")
    assert b"\r" not in document(place).read_bytes()
    (place.repository / "notes.txt").write_text("one\n")
    git(place.repository, "add", "notes.txt")
    git(place.repository, "commit", "--quiet", "--message=Add notes")
    git(place.repository, "push", "--quiet")
    assert git(place.remote, "log", "-1", "--format=%an %s", "main") == "Iron Tree Demo Add notes"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    friendly = lay_out(tmp_path / "friendly")
    assert git(friendly.repository, "rev-parse", "main") == git(place.repository, "rev-parse", "main~1")


# --- a folder that is not empty -----------------------------------------------------------------------------


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine\n")
    with pytest.raises(Refused, match="neither empty nor the folder of an earlier demo") as refused:
        lay_out(tmp_path)
    assert "irontree demo DIR" in refused.value.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "demo").write_text("mine\n")
    with pytest.raises(Refused):
        lay_out(tmp_path / "demo")
    assert (tmp_path / "demo").read_text() == "mine\n"


def test_a_folder_that_cannot_be_made_is_said_with_its_path(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentRefused, match="file") as refused:
        lay_out(tmp_path / "file" / "demo")
    assert "irontree demo DIR" in refused.value.remedy


def test_an_earlier_demo_is_moved_aside_whole_and_other_files_stay(tmp_path):
    first = lay_out(tmp_path)
    (first.repository / "README.md").write_text("changed by hand\n")
    (tmp_path / "thesis.txt").write_text("mine\n")
    second = lay_out(tmp_path)
    third = lay_out(tmp_path)
    assert (first.earlier, second.earlier, third.earlier) == (None, tmp_path / "earlier/1", tmp_path / "earlier/2")
    assert (tmp_path / "earlier/1/fairshare/README.md").read_text() == "changed by hand\n"
    assert (tmp_path / "thesis.txt").read_text() == "mine\n"
    assert git(third.repository, "status", "--short") == "?? .mino/"


def test_a_demo_that_was_moved_aside_still_pushes_to_its_own_remote(tmp_path):
    lay_out(tmp_path)
    earlier = DemoPlace(lay_out(tmp_path).earlier)
    assert git(earlier.repository, "remote", "get-url", "origin") == str(earlier.remote)


def test_a_layout_that_was_cut_off_is_moved_aside_like_a_whole_one(tmp_path):
    place = lay_out(tmp_path)
    (place.repository / ".git" / "config").unlink()
    place.remote.rename(tmp_path / "elsewhere")
    again = lay_out(tmp_path)
    assert again.earlier == tmp_path / "earlier/1"
    assert git(again.repository, "status", "--short") == "?? .mino/"


# --- the prepared work --------------------------------------------------------------------------------------


class Walk:
    """Does by hand what a loop does: prepared patches in the deterministic order, all checks after each."""

    def __init__(self, place: DemoPlace) -> None:
        self.folder = place.repository
        self.patches = place.patches
        self.graph = Graph.of(read_requirements(document(place).read_bytes(), document(place).name).nodes)
        self.policy = load_config(place.repository / ".mino" / "config.yml").policy(None, "main")

    def order(self) -> Iterator[PlanNode]:
        """Executable nodes as a loop takes them: of those that may start, the lowest issue number."""
        done: set[str] = set()
        while ready := eligible(self.graph, done):
            key = min(ready, key=self.graph.order.index)
            yield self.graph.nodes[key]
            done.add(key)
            done |= {parent for parent in self.graph.ancestors(key) if all_children_done(self.graph, parent, done)}

    def attempt(self, key: str, number: int) -> None:
        git(self.folder, "apply", str(self.patches / key / f"{number}.patch"))
        git(self.folder, "add", "--all", "--", ".", ":!.mino")
        git(self.folder, "commit", "--quiet", f"--message={key}, attempt {number}")

    def failures(self, node: PlanNode) -> list[tuple[str, str]]:
        """Name and output of every command of the task that fails now."""
        results = ((check.name, self.shell(check.run)) for check in checks_for(node, self.policy, ()))
        return [(name, done.stdout + done.stderr) for name, done in results if done.returncode != 0]

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True, check=False)

    def prints(self, command: str) -> list[str]:
        return self.shell(f"python3 -m fairshare {command} examples/lisbon.txt").stdout.splitlines()

    def sizes_kept(self) -> list[str]:
        """Sources that the last commit changed without changing their size."""
        changed = git(self.folder, "diff", "--name-only", "--diff-filter=M", "HEAD~1", "HEAD", "--", "*.py").split()
        return [name for name in changed if self._size("HEAD~1", name) == self._size("HEAD", name)]

    def _size(self, commit: str, name: str) -> str:
        return git(self.folder, "cat-file", "-s", f"{commit}:{name}")


SUMMARY_1 = ["Ana: 96.80 10.22", "Ben: 31.50 -5.08", "Cleo: 100.00 13.43", "Dan: 18.00 -18.57"]
SUMMARY_2 = [
    "Total: 246.30",
    "",
    "Ana    paid    96.80   gets back    10.22",
    "Ben    paid    31.50   owes          5.08",
    "Cleo   paid   100.00   gets back    13.43",
    "Dan    paid    18.00   owes         18.57",
]
PAYMENTS = ["", "Dan pays Cleo 13.43", "Dan pays Ana 5.14", "Ben pays Ana 5.08"]
FAILING = "share-the-costs-split-an-expense"
JUDGED = "print-a-summary"


def test_the_prepared_work_goes_as_the_demo_tells_it(tmp_path):
    """One attempt fails with a message that teaches, one can be improved, all others pass at once."""
    walk = Walk(lay_out(tmp_path))
    walked = []
    for node in walk.order():
        walked.append(node.task_key)
        unmet = [name for name, _ in walk.failures(node)]
        assert len(unmet) == len(node.verification) + sum(1 for c in node.criteria if c.command), unmet
        walk.attempt(node.task_key, 1)
        first = walk.failures(node)
        if node.task_key == FAILING:
            assert first[0][0] == sample.CHECK["name"]
            assert "10.00 became 9.99: {'Ana': 333, 'Ben': 333, 'Cleo': 333}" in first[0][1]
            walk.attempt(FAILING, 2)
        else:
            assert first == []
        if node.task_key == JUDGED:
            assert walk.prints("summary") == SUMMARY_1
            walk.attempt(JUDGED, 2)
            assert walk.prints("summary") == SUMMARY_2
        assert walk.failures(node) == []
    assert walked == [key for key in walk.graph.order if key != "share-the-costs"]
    assert walk.prints("settle") == SUMMARY_2 + PAYMENTS


@in_soak
def test_the_last_task_goes_through_whichever_summary_a_person_accepts(tmp_path):
    walk = Walk(lay_out(tmp_path))
    for node in walk.order():
        walk.attempt(node.task_key, 1)
        if node.task_key == FAILING:
            walk.attempt(FAILING, 2)
    assert walk.failures(node) == []
    assert walk.prints("settle") == SUMMARY_1 + PAYMENTS


def test_no_prepared_change_keeps_the_size_of_a_source_file(tmp_path):
    """Python takes cached bytecode for current when size and second of a source are the same."""
    walk = Walk(lay_out(tmp_path))
    for node in walk.order():
        for patch in sorted(path for path in (walk.patches / node.task_key).glob("*.patch") if path.stat().st_size):
            walk.attempt(node.task_key, int(patch.stem))
            assert walk.sizes_kept() == [], patch
