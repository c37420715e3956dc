"""A workflow file from `task` to `done`, with real git and an agent that is a program."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.cli.main import main
from irontree.errors import BranchUndecided, NotEligible
from irontree.services.answers.approve import approve
from irontree.services.loops.loop import Loop
from irontree.services.proposals.sources import propose, uncommitted_documents
from irontree.services.record import read_world
from irontree.services.views.report import newest_results
from tests.support.hotl import call, workflow
from tests.support.repositories import git
from tests.support.store import StillClock
from tests.support.world import TickingClock, drive, nobody

NAME = "hotl-workflow-texts.md"
AGENT = """\
#!/bin/sh
# Appends a line to a file, and makes what git ignores; touches the workflow file as well.
echo "attempt $IRONTREE_ATTEMPT" >> "$IRONTREE_TASK_KEY.txt"
mkdir -p ignored && echo made > ignored/made.txt
echo "- [x] all done" > hotl-workflow-texts.md
"""
CONFIG = """\
agent: {{command: [{agent}]}}
verify: {{commands: [{{name: tests, run: "false"}}]}}
publish: {{remote: origin, target_branch: main}}
"""
STEPS = [f"loop: false\nverify: [[ -e texts-part-{number}.txt ]]" for number in (1, 2)]


@pytest.fixture
def root(tmp_path) -> Path:
    root, remote, agent = tmp_path / "project", tmp_path / "remote.git", tmp_path / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    root.mkdir()
    git(tmp_path, "init", "--quiet", "--bare", str(remote))
    git(root, "init", "--quiet")
    (root / ".gitignore").write_text("ignored/\n")
    git(root, "add", ".gitignore")
    git(root, "commit", "--quiet", "--message", "first")
    git(root, "remote", "add", "origin", str(remote))
    git(root, "push", "--quiet", "origin", "main")
    with redirect_stdout(io.StringIO()):
        assert main(["-C", str(root), "init"]) == 0
    (root / ".mino" / "config.yml").write_text(CONFIG.format(agent=agent))
    return root


def opened(root: Path) -> App:
    return replace(open_app(root, origin=Origin("ada")), clock=TickingClock())


def begun(root: Path, *steps: str) -> Loop:
    (root / NAME).write_text(workflow(*steps))
    app = replace(opened(root), clock=StillClock())
    proposal = propose(app, root / NAME)
    with app.driver.hold("approve"):
        return approve(app, proposal, proposal.name, "ada")


def test_two_steps_from_the_file_to_done(root):
    loop = begun(root, *STEPS)
    assert drive(opened(root), loop.id, nobody).reason == "goal_reached"
    states = read_world(opened(root)).states
    assert {key: str(state.phase) for key, state in states.items()} == dict.fromkeys(
        ("texts", "texts-part-1", "texts-part-2"), "done"
    )
    changed = git(root, "log", "--format=", "--name-only", "origin/main..origin/hotl/texts").split()
    assert sorted(changed) == ["texts-part-1.txt", "texts-part-2.txt"]
    assert git(root, "log", "--format=%s", "origin/main") == "first"
    assert git(root, "branch", "--show-current") == "main"
    with redirect_stdout(io.StringIO()):
        assert main(["-C", str(root), "audit"]) == 0
    text = (root / NAME).read_text()
    assert text.count("- [x] **Step") == 2
    assert text.replace("- [x]", "- [ ]") == workflow(*STEPS)
    git(root, "add", NAME)
    assert uncommitted_documents(opened(root), states) == (NAME,)
    (root / NAME).write_text(workflow(*STEPS))
    git(root, "commit", "--quiet", "--message=workflow", NAME)
    (root / NAME).write_text(text)
    assert uncommitted_documents(opened(root), states) == (), "ticks are progress"
    (told,) = {record.told.dropped for record in opened(root).log.read(2).records if record.told.dropped}
    assert told == (NAME,)


def test_hotl_rt_shows_the_run_and_changes_nothing_of_it(root, monkeypatch):
    loop = begun(root, "loop: false\nverify: [[ -e texts-part-1.txt ]]\ngate: human", "loop: false\nverify: false")
    assert drive(opened(root), loop.id, nobody).reason == "fail_terminal"
    monkeypatch.chdir(root)
    (state,) = (root / ".hotl" / "state").glob("*.json")
    kept = json.loads(state.read_text())
    assert list(kept)[-2:] == ["driver", "loop_id"]
    assert (kept["driver"], kept["loop_id"], kept["status"], kept["branch"]) == (
        "irontree",
        loop.id,
        "paused",
        "hotl/texts",
    )
    assert [(step["status"], step["attempts"], step["issue_number"]) for step in kept["steps"]] == [
        *(("done", 1, 2), ("failed", 1, 3))
    ]
    assert (kept["steps"][0]["gate_result"], kept["steps"][0]["gate_mode"]) == ("approved", "auto")
    shown = call("summary", state.stem, "--json").json
    assert (shown["completed_steps"], shown["failed_steps"]) == (1, 1)
    before = state.read_bytes()
    for command in (("step", 2, "retry"), ("step", 2, "start"), ("gate", 1, "rejected"), ("finalize",)):
        refused = call(*command)
        assert (refused.code, "Iron Tree drives the run" in refused.err) == (1, True)
    assert state.read_bytes() == before
    report = (root / ".hotl" / "reports" / f"{state.stem}.md").read_text()
    for words in ("**Executor:** irontree", "→ Step 1: Part 1", "✓ Step 1: Done (1 attempt(s))", "✗ Step 2: Failed"):
        assert words in report
    assert "Gate Step 1: approved (auto)" in report
    assert ".hotl" not in git(root, "status", "--porcelain")


def test_what_git_ignores_is_no_artifact_and_the_person_is_told(root):
    step = "loop: false\nverify:\n  type: artifact\n  path: ignored/made.txt\n  assert:\n    kind: exists\n"
    loop = begun(root, step)
    app = opened(root)
    assert drive(app, loop.id, nobody).reason == "fail_terminal"
    report = newest_results(app, read_world(app).states["texts-part-1"])
    assert report is not None
    assert report.failed is not None
    first, *rest = report.failed.output.splitlines()
    assert first == "artifact missing: ignored/made.txt"
    assert "not in its commit: git ignores it" in rest[0]


def test_the_plan_in_its_machine_form_has_the_steps(root):
    (root / NAME).write_text(workflow("loop: until it works\nmax_iterations: 4\nverify: true\ngate: human"))
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["-C", str(root), "task", str(root / NAME), "--plan", "--json"]) == 0
    plan = json.loads(out.getvalue())
    step = plan["nodes"][1]
    assert (step["task_key"], step["max_retry_count"]) == ("texts-part-1", 3)
    assert step["step"] == {
        "number": 1,
        "name": "Part 1",
        "condition": "it works",
        "checks": [{"run": "true"}],
        "gate": "human",
        "approves_itself": True,
    }
    assert any("cannot fail" in warning for warning in plan["warnings"])


def test_mistakes_are_named_with_their_lines_and_nothing_is_written(root, capsys, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")  # an approval that is given starts a server
    (root / NAME).write_text(workflow("loop: maybe\nverify: pytest"))
    before = sorted(path for path in (root / ".mino").rglob("*") if ".cache" not in path.parts)
    assert main(["-C", str(root), "task", str(root / NAME), "--approve", "0" * 16]) != 0
    assert f"{NAME}:10: Step 'Part 1' loop must be false or 'until CONDITION' (got: 'maybe')" in capsys.readouterr().err
    assert sorted(path for path in (root / ".mino").rglob("*") if ".cache" not in path.parts) == before


def test_a_plan_stays_on_the_branch_that_was_chosen_for_it(root):
    """A script repeats its choice; another one is refused, since the work is there."""
    git(root, "switch", "--quiet", "--create", "feature")
    (root / NAME).write_text(workflow(*STEPS))
    app = opened(root)
    with pytest.raises(BranchUndecided, match="you are on feature"):
        propose(app, root / NAME)
    proposal = propose(app, root / NAME, branch="here")
    with app.driver.hold("approve"):
        approve(app, proposal, proposal.name, "ada")
    for repeated in ("", "here", "feature"):
        again = propose(opened(root), root / NAME, branch=repeated)
        assert (again.approved, again.draft.policy.publish.target_branch) == (True, "feature")
    with pytest.raises(NotEligible, match="is worked on at feature since its approval"):
        propose(opened(root), root / NAME, branch="isolated")


def test_a_choice_of_branch_is_for_workflow_files(root):
    (root / "SPEC.md").write_text("# Texts\n\n## One\n\n- [ ] it is there (manual)\n")
    with pytest.raises(NotEligible, match=r"SPEC\.md is no workflow file"):
        propose(opened(root), root / "SPEC.md", branch="here")
