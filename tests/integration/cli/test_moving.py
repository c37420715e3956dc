"""`irontree move export` and `import`: a home goes to another place, whole, and there is never a second one (R21)."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.bootstrap import agent_requests_of, open_app, open_set_aside, results_of
from irontree.cli.archive import commands_of, export, take_in
from irontree.domain.agents import AgentSpec, Member
from irontree.domain.plan import ExecutionPolicy, PublishPolicy
from irontree.errors import EnvironmentRefused, LogDamaged
from irontree.services.answers.approve import approve
from irontree.services.proposals.sources import propose
from irontree.services.views.overview import SERVING
from irontree.store.archive import read_archive
from irontree.store.documents import encode_value
from irontree.store.layout import Layout
from tests.support.repositories import commit, git
from tests.support.soak import in_soak
from tests.support.store import SHA, asked_agent, check_report, standing

MOVED = ("forge", "reports", "plans", "events", "loops", "archive")


@pytest.fixture
def archive(shell, tmp_path) -> Path:
    """The home of a repository with one attempt made, exported."""
    assert shell("run", "issue-1").code == 0
    path = tmp_path / "moved.tar"
    done = shell("move", "export", str(path))
    assert (done.code, done.err) == (0, "")
    return path


@pytest.fixture
def elsewhere(shell, tmp_path):
    """A fresh clone at another path."""
    root = tmp_path / "elsewhere"
    git(tmp_path, "clone", "--quiet", str(shell.remote), str(root))
    return replace(shell, root=root)


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for name in MOVED
        for path in (root / ".mino" / name).rglob("*")
        if path.is_file() and path.name not in {".lock", ".lease", "active.lock"}
    }


def everything_in(root: Path) -> dict[str, object]:
    return {
        "files": contents(root),
        "refs": git(root, "for-each-ref"),
        "settings": git(root, "config", "--local", "--list"),
    }


# --- the move -----------------------------------------------------------------------------------------------


def test_a_moved_home_has_the_same_log_refs_and_id_and_goes_on_there(shell, archive, elsewhere):
    done = elsewhere("move", "import", str(archive), "--trust")
    assert (done.code, done.err) == (0, "")
    assert "The audit finds the whole log sound." in done.out
    assert contents(elsewhere.root) == contents(shell.root)
    assert git(elsewhere.root, "for-each-ref", "refs/irontree") == git(shell.root, "for-each-ref", "refs/irontree")
    assert git(elsewhere.root, "config", "irontree.id") == git(shell.root, "config", "irontree.id")
    assert git(elsewhere.root, "config", "irontree.home").endswith(f":{elsewhere.root}")
    assert elsewhere("audit").code == 0
    assert elsewhere("verify", "issue-1").code == 0
    assert elsewhere("checkup", "finalize", "issue-1").code == 0


def test_the_commands_that_came_along_are_named(template, archive, elsewhere):
    """They were approved elsewhere: nobody is asked here."""
    done = elsewhere("move", "import", str(archive), "--trust", "--json")
    assert done.data["commands"] == [str(template / "agent"), "test ! -e broken"]
    assert "test ! -e broken" in elsewhere("move", "import", str(archive), "--trust").out


def test_the_commands_of_a_team_are_among_them_and_none_that_no_task_is_left_to():
    team = (
        Member(name="coder", command=("coder", "--yolo")),
        Member(name="eve", command=("eve",), role="reviewer", kinds=("docs",)),
    )
    agent, publish = AgentSpec(command=("agent",)), PublishPolicy(target_branch="main")
    assert [*commands_of(ExecutionPolicy(agent=agent, team=team, publish=publish))] == ["coder --yolo", "eve"]


def test_the_open_loop_is_named_as_what_to_resume(shell, tmp_path, elsewhere):
    revision = shell("task", "SPEC.md", "--plan", "--json").data["name"]
    app = open_app(shell.root, origin=Origin("Test Author"))
    with app.driver.hold("publish"):
        loop = approve(app, propose(app, shell.root / "SPEC.md"), revision, "Test Author").id
    shell("move", "export", str(tmp_path / "x.tar"))
    done = elsewhere("move", "import", str(tmp_path / "x.tar"), "--trust")
    assert f"irontree resume {loop}" in done.out
    assert elsewhere("task", "resume", loop, "cancel").code == 0
    assert elsewhere("audit").code == 0


@pytest.mark.parametrize("words", [("status",), ("run", "issue-1"), ("init",), ("init", "--from-backup")])
def test_the_old_home_does_nothing_more_and_says_where_it_went(shell, archive, words):
    before = everything_in(shell.root)
    refused = shell(*words)
    assert refused.code == 1
    assert f"it was exported to {archive}" in refused.err
    assert f"take it back: irontree move import {archive}" in refused.err
    assert everything_in(shell.root) == before


def test_importing_it_where_it_was_takes_the_home_back(shell, archive):
    before = contents(shell.root)
    assert shell("move", "import", str(archive), "--trust").code == 0
    assert contents(shell.root) == before
    assert shell("verify", "issue-1").code == 0


def test_a_second_import_changes_nothing(archive, elsewhere):
    elsewhere("move", "import", str(archive), "--trust")
    before = everything_in(elsewhere.root)
    again = elsewhere("move", "import", str(archive), "--trust", "--json")
    assert (again.code, again.data["written"]) == (0, 0)
    assert everything_in(elsewhere.root) == before


def test_it_comes_back_with_all_that_was_done_in_between(shell, archive, elsewhere, tmp_path):
    elsewhere("move", "import", str(archive), "--trust")
    elsewhere("verify", "issue-1")
    elsewhere("checkup", "finalize", "issue-1")
    assert elsewhere("move", "export", str(tmp_path / "back.tar")).code == 0
    done = shell("move", "import", str(tmp_path / "back.tar"), "--trust", "--json")
    assert (done.code, done.data["findings"]) == (0, [])
    assert contents(shell.root) == contents(elsewhere.root)
    assert any("git pull" in point for point in done.data["open"])
    assert shell("status").out.startswith("1 of 3 issues done")


# --- what is refused ----------------------------------------------------------------------------------------


def test_another_log_is_never_overwritten(shell, archive, elsewhere):
    elsewhere("move", "import", str(archive), "--trust")
    elsewhere("verify", "issue-1")
    before = everything_in(elsewhere.root)
    refused = elsewhere("move", "import", str(archive), "--trust")
    assert refused.code == 1
    assert "0004-verify-passed.yml" in refused.err
    assert "two logs cannot be joined" in refused.err
    assert everything_in(elsewhere.root) == before


def test_issues_that_a_person_made_in_the_new_place_are_not_overwritten(archive, elsewhere):
    elsewhere("init")
    issue = elsewhere.root / ".mino/forge/issues/0001.md"
    issue.parent.mkdir(parents=True)
    issue.write_text("---\ntitle: mine\nstate: open\n---\n")
    assert elsewhere("move", "import", str(archive), "--trust").code == 1
    assert "mine" in issue.read_text()


def test_a_configuration_that_is_there_stays_and_is_said(archive, elsewhere):
    elsewhere("init")
    config = elsewhere.root / ".mino/config.yml"
    before = config.read_text()
    done = elsewhere("move", "import", str(archive), "--trust", "--json")
    assert done.code == 0
    assert any(f"tar -xOf {archive} .mino/config.yml" in point for point in done.data["open"])
    assert config.read_text() == before


def test_commits_that_went_another_way_are_refused_before_any_file_is_written(archive, elsewhere):
    ref = next(name for name in read_archive(archive).manifest.refs if "/issue-1/" in name)
    git(elsewhere.root, "update-ref", ref, commit(elsewhere.root, "other.txt", "other\n"))
    refused = elsewhere("move", "import", str(archive), "--trust")
    assert refused.code == 1
    assert "import into a fresh clone" in refused.err
    assert contents(elsewhere.root) == {}
    assert git(elsewhere.root, "for-each-ref", "refs/irontree/log") == ""


def test_nothing_is_exported_while_somebody_is_at_work(shell, tmp_path):
    app = open_app(shell.root, origin=Origin("x"))
    with app.driver.hold("issue-1, run"):
        assert "busy: issue-1, run" in shell("move", "export", str(tmp_path / "x.tar")).err
    with app.lease.hold("loop"):
        assert "busy: loop" in shell("move", "export", str(tmp_path / "x.tar")).err
    assert not (tmp_path / "x.tar").exists()
    assert shell("status").code == 0


def test_a_file_that_is_there_is_not_overwritten_and_the_home_stays(shell, tmp_path):
    (tmp_path / "mine.tar").write_text("mine")
    refused = shell("move", "export", str(tmp_path / "mine.tar"))
    assert "is there already" in refused.err
    assert (tmp_path / "mine.tar").read_text() == "mine"
    assert shell("status").code == 0


def test_a_repository_without_a_log_has_nothing_to_export(bare_shell, tmp_path):
    bare_shell("init")
    assert "has no log to move" in bare_shell("move", "export", str(tmp_path / "x.tar")).err


def test_the_pull_that_is_named_takes_the_committed_configuration_over_the_imported_one(shell, elsewhere, tmp_path):
    """Git overwrites no untracked file, and the import has just written one."""
    git(shell.root, "add", "--force", ".mino/config.yml", ".mino/.gitignore")
    git(shell.root, "commit", "--quiet", "--message", "configuration")
    assert shell("move", "export", str(tmp_path / "moved.tar")).code == 0
    [point] = elsewhere("move", "import", str(tmp_path / "moved.tar"), "--trust", "--json").data["open"]
    [command] = re.findall(r"`(git .*?)` here", point)
    git(shell.root, "push", "--quiet", "origin", "main")
    for words in command.split(" && "):
        git(elsewhere.root, *shlex.split(words)[1:])
    assert git(elsewhere.root, "status", "--porcelain").strip() == ""
    assert git(elsewhere.root, "rev-parse", "HEAD") == git(shell.root, "rev-parse", "HEAD")


# --- damaged and hostile archives ---------------------------------------------------------------------------


def forged(archive: Path, target: Path, name: str, data: bytes = b"x", **attributes: object) -> Path:
    """The archive with one more member, which its manifest names."""
    with tarfile.open(archive) as source, tarfile.open(target, "w") as copy:
        for member in source:
            content = source.extractfile(member).read()
            if member.name == "manifest.json":
                manifest = json.loads(content)
                digest = hashlib.sha256(data).hexdigest()
                manifest["files"].append({"path": name, "size": len(data), "sha256": digest})
                content = json.dumps(manifest).encode()
                member.size = len(content)
            copy.addfile(member, io.BytesIO(content))
        extra = tarfile.TarInfo(name)
        extra.size = len(data)
        for key, value in attributes.items():
            setattr(extra, key, value)
        copy.addfile(extra, io.BytesIO(data))
    return target


@pytest.mark.parametrize(
    "name",
    [
        *("../outside", ".mino/events/../../outside", ".git/hooks/post-checkout", ".mino/run.lock"),
        *(
            pytest.param(name, marks=in_soak)
            for name in (
                *("/etc/outside", ".mino/../outside", ".mino/config.yml/x", ".mino/.driver", ".mino/events//x"),
                *(".mino/events/..\\x", ".mino/loops/active.lock", f".mino/forge/{'x' * 260}"),
            )
        ),
    ],
)
def test_a_file_that_leads_elsewhere_is_refused_before_anything_is_written(archive, elsewhere, tmp_path, name):
    hostile = forged(archive, tmp_path / "hostile.tar", name)
    before = everything_in(elsewhere.root)
    refused = elsewhere("move", "import", str(hostile), "--trust")
    assert refused.code == 1
    assert "does not belong into it" in refused.err
    assert everything_in(elsewhere.root) == before
    assert not (elsewhere.root / ".mino").exists()
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_what_is_no_plain_file_is_refused(archive, elsewhere, tmp_path, kind):
    hostile = forged(archive, tmp_path / "hostile.tar", ".mino/events/link", b"", type=kind, linkname="/etc/passwd")
    refused = elsewhere("move", "import", str(hostile), "--trust")
    assert "is not the file that its manifest names" in refused.err
    assert not (elsewhere.root / ".mino").exists()


def test_a_file_that_claims_to_be_huge_is_refused(tmp_path, elsewhere):
    huge = tarfile.TarInfo("manifest.json")
    huge.size = 1 << 40
    (tmp_path / "hostile.tar").write_bytes(huge.tobuf() + bytes(1 << 16))
    refused = elsewhere("move", "import", str(tmp_path / "hostile.tar"), "--trust")
    assert "it does not begin with manifest.json" in refused.err
    assert not (elsewhere.root / ".mino").exists()


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_archive_is_refused(archive, elsewhere, part):
    packed = read_archive(archive)
    end = max(packed.offsets[entry.path] + entry.size for entry in packed.manifest.files)
    archive.write_bytes(archive.read_bytes()[: int(end * part)])
    refused = elsewhere("move", "import", str(archive), "--trust")
    assert refused.code == 1
    assert "export again, or copy the file again" in refused.err
    assert not (elsewhere.root / ".mino").exists()


def test_any_byte_that_was_changed_in_a_file_is_noticed(archive, elsewhere):
    packed = read_archive(archive)
    data = bytearray(archive.read_bytes())
    for entry in packed.manifest.files:
        spoilt = bytearray(data)
        spoilt[packed.offsets[entry.path]] ^= 1
        archive.write_bytes(spoilt)
        refused = elsewhere("move", "import", str(archive), "--trust")
        assert (refused.code, f"{entry.path} is not the file" in refused.err) == (1, True)
    assert not (elsewhere.root / ".mino").exists()


def test_a_bundle_with_a_branch_of_the_users_in_it_is_refused(shell, archive, elsewhere, tmp_path):
    bundle = tmp_path / "refs.bundle"
    git(shell.root, "bundle", "create", "--quiet", str(bundle), "--all")
    hostile = tmp_path / "hostile.tar"
    with tarfile.open(archive) as source, tarfile.open(hostile, "w") as copy:
        for member in source:
            content = source.extractfile(member).read()
            if member.name == "manifest.json":
                content = _with_bundle(content, bundle.read_bytes())
            if member.name == "refs.bundle":
                content = bundle.read_bytes()
            member.size = len(content)
            copy.addfile(member, io.BytesIO(content))
    refused = elsewhere("move", "import", str(hostile), "--trust")
    assert "the git objects in the archive are not complete" in refused.err
    assert git(elsewhere.root, "for-each-ref", "refs/irontree") == ""


def _with_bundle(manifest: bytes, bundle: bytes) -> bytes:
    read = json.loads(manifest)
    for entry in read["files"]:
        if entry["path"] == "refs.bundle":
            entry.update(size=len(bundle), sha256=hashlib.sha256(bundle).hexdigest())
    return json.dumps(read).encode()


def test_a_link_in_the_way_is_not_followed(archive, elsewhere, tmp_path):
    elsewhere("init")
    (tmp_path / "target").mkdir()
    (elsewhere.root / ".mino" / "events").symlink_to(tmp_path / "target")
    assert elsewhere("move", "import", str(archive), "--trust").code == 1
    assert list((tmp_path / "target").iterdir()) == []


# --- kills --------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for the end of the process."""


class Dying:
    """A repository whose effect number *after* is its last."""

    def __init__(self, repository, after: int) -> None:
        self._repository, self._left = repository, after

    def __getattr__(self, name: str):
        found = getattr(self._repository, name)
        effects = {"unpack_refs", "begin_import", "mark_history", "take_over", "back_up", "give_up_home"}
        if name not in effects:
            return found

        def effect(*words: object) -> object:
            if self._left == 0:
                raise Killed(name)
            self._left -= 1
            return found(*words)

        return effect


@pytest.mark.parametrize("after", [1, 3, *(pytest.param(after, marks=in_soak) for after in (0, 2, 4))])
def test_an_import_that_was_killed_is_repeated(shell, archive, elsewhere, after):
    with pytest.raises(Killed):
        take_in(read_archive(archive), Dying(open_set_aside(elsewhere.root), after))
    if after in (2, 3):
        with pytest.raises(EnvironmentRefused, match=r"the import of .* has not ended"):
            open_app(elsewhere.root, origin=Origin("x"))
    assert elsewhere("move", "import", str(archive), "--trust").code == 0
    assert contents(elsewhere.root) == contents(shell.root)
    assert elsewhere("verify", "issue-1").code == 0


def test_an_export_that_was_killed_leaves_the_home_as_it_was(shell, tmp_path):
    app = open_app(shell.root, origin=Origin("x"))
    with pytest.raises(Killed):
        export(app, Dying(open_set_aside(shell.root), 1), tmp_path / "x.tar")
    assert shell("status").code == 0
    assert read_archive(tmp_path / "x.tar").manifest.events.keys() == {"issue-1", "issue-2", "issue-3"}


def test_another_backup_of_the_log_that_was_here_is_kept(archive, elsewhere):
    before = git(elsewhere.root, "rev-parse", "HEAD")
    git(elsewhere.root, "update-ref", "refs/irontree/log", before)
    assert elsewhere("move", "import", str(archive), "--trust").code == 0
    assert git(elsewhere.root, "rev-parse", f"refs/irontree/salvage/log/{before}") == before


def test_a_home_is_not_given_up_under_a_terminal_that_asks(shell, tmp_path):
    app = open_app(shell.root, origin=Origin("Test Author"))
    with app.alive(SERVING).hold("a terminal"):
        refused = shell("move", "export", str(tmp_path / "home.tar"))
    assert refused.code == 1
    assert "a terminal" in refused.err
    assert not (tmp_path / "home.tar").exists()


# --- what somebody else packed


def test_an_archive_is_shown_and_nothing_is_written_before_somebody_wants_it(archive, elsewhere):
    before = everything_in(elsewhere.root)
    refused = elsewhere("move", "import", str(archive))
    assert refused.code == 1
    assert refused.out.index("test ! -e broken") < refused.out.index("SPEC.md") < refused.out.index("event(s)")
    assert everything_in(elsewhere.root) == before
    assert not (elsewhere.root / ".mino" / "plans").exists()
    assert elsewhere("move", "import", str(archive), "--approve", "0" * 16).code == 1
    assert not (elsewhere.root / ".mino" / "plans").exists()


def test_its_approvals_do_not_count_unless_it_is_trusted(archive, elsewhere):
    name = re.search(r"--approve ([0-9a-f]{16});", elsewhere("move", "import", str(archive)).err)[1]
    assert elsewhere("move", "import", str(archive), "--approve", name).code == 0
    assert elsewhere("move", "import", str(archive), "--approve", name).code == 0, "the same again, as after a kill"
    assert elsewhere("verify", "issue-1").code == 1
    assert "does not count here" in elsewhere("show", "issue-1").out
    assert elsewhere("move", "import", str(archive), "--trust").code == 1, "it has been worked on since"


@pytest.mark.parametrize("trusted", [False, True])
def test_its_results_of_checks_do_not_count_unless_it_is_trusted(shell, tmp_path, elsewhere, trusted):
    """Whoever packs an archive can write into it that all checks of a commit passed."""
    forged = check_report(issue_number=1)
    path = Layout(shell.root).reports(1) / f"{SHA}.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_value(forged))
    assert shell("move", "export", str(tmp_path / "moved.tar")).code == 0
    (open_set_aside(shell.root).state_folder / "results.key").unlink(missing_ok=True)  # as on another machine
    take_in(read_archive(tmp_path / "moved.tar"), open_set_aside(elsewhere.root), trusted=trusted)
    results = results_of(open_set_aside(elsewhere.root))
    if trusted:
        assert results.load(1, SHA) == forged
    else:
        with pytest.raises(LogDamaged, match="this program did not write it"):
            results.load(1, SHA)


@pytest.mark.parametrize("trusted", [False, True])
def test_requests_to_agents_come_along_and_their_approval_has_to_be_given_here(shell, tmp_path, elsewhere, trusted):
    at_home = agent_requests_of(open_set_aside(shell.root))
    at_home.save(asked_agent())
    at_home.approve(standing())
    assert shell("move", "export", str(tmp_path / "moved.tar")).code == 0
    (open_set_aside(shell.root).state_folder / "results.key").unlink()  # as on another machine
    take_in(read_archive(tmp_path / "moved.tar"), open_set_aside(elsewhere.root), trusted=trusted)
    here = agent_requests_of(open_set_aside(elsewhere.root))
    assert here.keys() == (asked_agent().key,)
    with pytest.raises(LogDamaged, match=r"approval\.yml was changed, or this program did not write it"):
        here.standing()
    if trusted:
        assert here.load(asked_agent().key) == asked_agent()
    else:
        with pytest.raises(LogDamaged, match="this program did not write it"):
            here.load(asked_agent().key)
        assert asked_agent().key in elsewhere("audit").out
        assert "sealed 1 request to agents" in elsewhere("audit", "--vouch").err
        assert here.load(asked_agent().key) == asked_agent()
