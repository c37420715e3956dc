"""The target branch moves at publication alone, forward alone, and the user's checkout follows if it can (R5)."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from irontree.domain.plan import PublishPolicy
from irontree.errors import ConfigRefused, GitFailed, PublicationRefused, RemoteUnavailable
from irontree.ports import Moved, Published
from irontree.repository.git import Git
from irontree.repository.moving import Move
from tests.support.repositories import commit, git, head, hook, write


@pytest.fixture
def pushes(project, tmp_path):
    """Counts what the remote was sent."""
    record = tmp_path / "pushes"
    hook(project.remote / "hooks", "post-receive", f"cat >> '{record}'")
    return lambda: len(record.read_text().splitlines()) if record.exists() else 0


def publish(project, sha):
    return project.repository.publish(sha, project.target)


def test_one_push_is_enough_even_if_asked_twice(project, pushes):
    sha = project.work()
    publish(project, sha)
    publish(project, sha)
    assert pushes() == 1
    assert head(project.remote, "main") == sha


def test_what_was_pushed_before_a_crash_is_not_pushed_again(project, pushes):
    """The push arrived, and we died before we noticed: no local trace of it."""
    sha = project.work()
    git(project.root, "push", "--quiet", str(project.remote), f"{sha}:main")
    assert publish(project, sha) == Published(sha)
    assert pushes() == 1


def test_what_the_remote_contains_beneath_newer_commits_is_published(project):
    sha = project.work()
    git(project.root, "push", "--quiet", str(project.remote), f"{sha}:main")
    tip = project.push_from_elsewhere()
    assert publish(project, sha) == Published(sha)
    assert head(project.remote, "main") == tip


def test_a_target_that_moved_is_never_overwritten(project):
    sha, tip = project.work(), project.push_from_elsewhere()
    git(project.root, "config", "remote.origin.push", "+refs/heads/*:refs/heads/*")
    assert publish(project, sha) == Moved(tip)
    assert head(project.remote, "main") == tip
    assert not project.repository.lacking((tip,))


def test_only_the_target_is_pushed(project):
    git(project.root, "branch", "private")
    git(project.root, "tag", "--annotate", "--message", "v1", "v1")
    git(project.root, "config", "push.followTags", "true")
    publish(project, project.work())
    assert git(project.remote, "for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_a_branch_that_the_remote_lacks_is_made_there(project):
    git(project.root, "branch", "release")
    policy = PublishPolicy(remote="origin", target_branch="release")
    assert project.repository.base(policy) == head(project.root)
    sha = project.work()
    assert project.repository.publish(sha, policy, onto=head(project.root)) == Published(sha)
    assert head(project.remote, "release") == sha


def typed(folder, line: str) -> str:
    """What a person types in a shell there."""
    done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout


AS_IT_IS = "git status --porcelain --ignored && git diff HEAD && git diff --cached && git rev-parse HEAD main && cat *"


def test_edits_that_do_not_overlap_are_left_alone(project):
    commit(project.root, "gone.txt", "here\n")
    commit(project.root, "staged.txt", "before\n")
    git(project.root, "push", "--quiet")
    typed(
        project.root, "echo mine > notes.txt; rm gone.txt; echo mine > staged.txt; git add staged.txt; echo x >> app.py"
    )
    before = git(project.root, "status", "--porcelain")
    assert publish(project, project.work()) == Published(head(project.root))
    assert git(project.root, "status", "--porcelain") == before
    assert (project.root / "notes.txt").read_text() == (project.root / "staged.txt").read_text() == "mine\n"


OVERLAPPING = {
    "edited": ("echo mine > app.py", "app.py"),
    "deleted": ("rm app.py", "app.py"),
    "staged": ("echo mine > app.py; git add app.py; echo more >> app.py", "app.py"),
    "only staged": ("echo mine > app.py; git add app.py; git show HEAD:app.py > app.py", "app.py"),
    "no longer tracked": ("git rm --quiet --cached app.py", "app.py"),
    "untracked": ("echo mine > work.txt", "work.txt"),
    "ignored": ("mkdir .git/info; echo work.ini > .git/info/exclude; echo mine > work.ini", "work.ini"),
    "a folder where a file goes": ("mkdir work.txt; echo mine > work.txt/mine", "work.txt/mine"),
    "a file where a folder goes": ("echo mine > deep", "deep"),
}


@pytest.mark.parametrize(("line", "path"), OVERLAPPING.values(), ids=OVERLAPPING)
def test_edits_that_overlap_stay_and_become_a_warning(project, line, path):
    """The same without a remote: then the branch is what publishes, and a person is asked about these paths alone."""
    workspace, base = project.run_workspace(), head(project.root)
    workspace.prepare(base)
    typed(workspace.path, "echo theirs | tee app.py work.txt work.ini; mkdir deep; echo theirs > deep/work.txt")
    sha = workspace.commit("[run] #1: work", base=base).sha
    project.repository.keep(sha, "refs/irontree/issue-1/2", source=workspace)
    typed(project.root, f"{line}; echo mine > notes.txt")
    before = typed(project.root, AS_IT_IS)
    with pytest.raises(PublicationRefused) as refused:
        project.repository.publish(sha, project.local_target)
    assert refused.value.reason == "checkout-not-clean"
    assert ("`git stash -u`" in refused.value.remedy) is (path != "work.ini"), "it leaves what is ignored"
    published = publish(project, sha)
    assert published.sha == head(project.remote, "main") == sha
    for words in (refused.value.message, published.warning):
        assert path in words
        assert "notes.txt" not in words
    assert "`git pull --ff-only origin main`" in published.warning
    assert typed(project.root, AS_IT_IS) == before


UNDER_WAY = {
    "a merge": "git merge --no-commit --no-ff side",
    "a cherry-pick": "git cherry-pick clash",
    "a revert": "git revert --no-commit HEAD",
    "a rebase": "git -c sequence.editor='sed -i s/pick/edit/' rebase --quiet -i HEAD~",
    "a bisect": "git bisect start HEAD HEAD~2",
}


@pytest.mark.parametrize(("what", "line"), UNDER_WAY.items(), ids=UNDER_WAY)
def test_what_git_is_in_the_middle_of_is_left_as_it_is(project, what, line):
    """Git would fast-forward in the middle of a revert, and move the branch that a rebase returns to."""
    for branch, path in (("side", "side.txt"), ("clash", "one.txt")):
        git(project.root, "switch", "--quiet", "--create", branch, "main")
        commit(project.root, path, f"{branch}\n")
    git(project.root, "switch", "--quiet", "main")
    commit(project.root, "one.txt", "one\n")
    commit(project.root, "two.txt", "two\n")
    git(project.root, "push", "--quiet")
    sha = project.work(head(project.root, "main"))
    typed(project.root, line)
    before = typed(project.root, AS_IT_IS)
    with pytest.raises(PublicationRefused) as refused:
        project.repository.publish(sha, project.local_target)
    assert refused.value.reason == "checkout-not-clean"
    assert what.removeprefix("a ") in refused.value.message
    assert "finish it or abort it" in refused.value.remedy
    assert publish(project, sha).sha == head(project.remote, "main") == sha
    assert typed(project.root, AS_IT_IS) == before


def test_the_branch_moves_with_the_files_whatever_merges_are_set_to_do(project):
    git(project.root, "config", "branch.main.mergeOptions", "--squash")
    sha = project.work()
    assert publish(project, sha) == Published(sha)
    assert (head(project.root), git(project.root, "status", "--porcelain")) == (sha, "")


def test_edits_are_not_stashed_behind_the_users_back(project):
    git(project.root, "config", "merge.autoStash", "true")
    sha = project.work(**{"app.py": "by the agent\n"})
    write(project.root, **{"app.py": "mine\n"})
    assert publish(project, sha).warning
    assert (project.root / "app.py").read_text() == "mine\n"
    assert git(project.root, "stash", "list") == ""


def test_commits_of_the_user_that_are_not_pushed_stay_and_become_a_warning(project):
    sha = project.work()
    mine = commit(project.root, "mine.txt", "mine\n")
    assert publish(project, sha).warning
    assert head(project.root, "main") == mine
    assert head(project.remote, "main") == sha


def test_a_branch_that_is_not_checked_out_stays_where_it_is(project):
    """The approval names a checkout of that branch, and no other branch."""
    git(project.root, "switch", "--quiet", "--create", "feature")
    before, sha = head(project.root), project.work()
    assert publish(project, sha) == Published(sha)
    assert head(project.root, "main") == head(project.root) == before
    assert git(project.root, "status", "--porcelain") == ""


def test_a_branch_that_is_checked_out_in_another_worktree_follows_there(project, tmp_path):
    git(project.root, "switch", "--quiet", "--create", "feature")
    git(project.root, "worktree", "add", "--quiet", str(tmp_path / "linked"), "main")
    sha = project.work()
    assert publish(project, sha) == Published(sha)
    assert (tmp_path / "linked" / "work.txt").exists()
    assert git(tmp_path / "linked", "status", "--porcelain") == ""


def test_a_branch_that_does_not_exist_here_is_not_made(project):
    git(project.root, "switch", "--quiet", "--create", "feature")
    git(project.root, "branch", "--quiet", "-D", "main")
    assert publish(project, project.work()) == Published(head(project.remote, "main"))
    assert git(project.root, "branch", "--list", "main") == ""


def test_a_submodules_checkout_follows(project, tmp_path):
    git(tmp_path, "init", "--quiet", "parent")
    git(
        tmp_path / "parent",
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(project.remote),
        "sub",
    )
    submodule = tmp_path / "parent" / "sub"
    git(submodule, "switch", "--quiet", "main")
    repository = project.opened(submodule)
    repository.adopt_home("host")
    tip = project.push_from_elsewhere()
    assert repository.base(project.target) == tip
    assert repository.publish(tip, project.target) == Published(tip)
    assert (submodule / "elsewhere.txt").exists()


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("GH006: Protected branch update failed for refs/heads/main", "protected-branch"),
        ("You are not allowed to push code to protected branches on this project.", "protected-branch"),
        ("commits must be signed", "hook-declined"),
    ],
)
def test_a_remote_that_refuses_for_good_is_not_asked_again(project, says, reason):
    hook(project.remote / "hooks", "pre-receive", f"echo '{says}' >&2; exit 1")
    before = head(project.root)
    with pytest.raises(PublicationRefused) as refused:
        publish(project, project.work())
    assert refused.value.reason == reason
    assert says in refused.value.message
    assert refused.value.remedy
    assert head(project.root, "main") == head(project.remote, "main") == before


def test_a_push_that_arrived_although_its_answer_did_not_is_published(project):
    hook(project.remote / "hooks", "post-receive", "kill -9 $PPID")
    sha = project.work()
    assert publish(project, sha) == Published(sha)
    assert head(project.remote, "main") == head(project.root, "main") == sha


def test_the_users_own_hook_may_refuse(project):
    hook(project.root / ".git" / "hooks", "pre-push", "echo not on a Friday; exit 1")
    with pytest.raises(PublicationRefused, match="not on a Friday") as refused:
        publish(project, project.work())
    assert refused.value.reason == "hook-declined"


def test_a_remote_with_the_branch_checked_out_refuses(project, tmp_path):
    git(tmp_path, "clone", "--quiet", str(project.remote), "checked-out")
    git(project.root, "remote", "set-url", "origin", str(tmp_path / "checked-out"))
    with pytest.raises(PublicationRefused) as refused:
        publish(project, project.work())
    assert refused.value.reason == "remote-checked-out"


def test_a_remote_that_does_not_answer_may_do_so_later(project):
    sha = project.work()
    git(project.root, "remote", "set-url", "origin", "http://127.0.0.1:9/nobody")
    with pytest.raises(RemoteUnavailable):
        publish(project, sha)
    with pytest.raises(RemoteUnavailable):
        project.repository.base(project.target)


def test_a_remote_that_is_not_there_is_refused_with_a_remedy(project):
    git(project.root, "remote", "set-url", "origin", str(project.root.parent / "gone.git"))
    with pytest.raises(PublicationRefused) as refused:
        project.repository.base(project.target)
    assert refused.value.reason == "remote-not-found"


def test_ssh_has_nobody_to_ask(project, tmp_path):
    """It asks for passwords and host keys on the terminal, or by a window."""
    terminal = "(: < /dev/tty) 2> /dev/null && echo terminal"
    ssh = hook(tmp_path, "ssh", f"{{ {terminal}; echo $SSH_ASKPASS_REQUIRE; }} > '{tmp_path}/asked'; exit 255")
    git(project.root, "config", "core.sshCommand", str(ssh))
    git(project.root, "remote", "set-url", "origin", "ssh://git@127.0.0.1/project")
    with pytest.raises(RemoteUnavailable):
        project.repository.base(project.target)
    assert (tmp_path / "asked").read_text() == "never\n"


def test_a_remote_that_wants_a_password_is_refused_and_no_window_opens(project, tmp_path):
    window = hook(tmp_path, "window", f"touch '{tmp_path}/opened'; echo password")
    git(project.root, "config", "core.askPass", str(window))
    with asking_for_a_password() as port:
        git(project.root, "remote", "set-url", "origin", f"http://127.0.0.1:{port}/project.git")
        with pytest.raises(PublicationRefused) as refused:
            project.repository.base(project.target)
    assert refused.value.reason == "authentication"
    assert not (tmp_path / "opened").exists()


@contextmanager
def asking_for_a_password() -> Iterator[int]:
    """A web server that answers 401; its port."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_without_a_remote_a_git_command_of_the_user_is_waited_for(project):
    sha = project.work()
    (project.root / ".git" / "index.lock").touch()
    with pytest.raises(RemoteUnavailable):
        project.repository.publish(sha, project.local_target)
    (project.root / ".git" / "index.lock").unlink()
    assert project.repository.publish(sha, project.local_target) == Published(sha)


def test_without_a_remote_a_git_that_keeps_a_cut_off_move_from_being_settled_is_waited_for(project):
    sha, record = project.work(), project.root / ".git/irontree/move.json"
    record.parent.mkdir(exist_ok=True)
    record.write_text(json.dumps(Move(str(project.root), "refs/heads/main", head(project.root), sha)._asdict()))
    write(project.root, **{"work.txt": "done\n"})
    (project.root / ".git" / "index.lock").touch()
    with pytest.raises(RemoteUnavailable, match="another git command is at work"):
        project.repository.publish(sha, project.local_target)
    (project.root / ".git" / "index.lock").unlink()
    assert project.repository.publish(sha, project.local_target) == Published(sha)


@pytest.mark.parametrize("checked_out", ["main", "feature"])
def test_without_a_remote_a_git_that_fails_is_no_fault_of_the_users_changes(project, checked_out):
    """As on a full disk: nobody is asked to commit or stash what is not there."""
    sha = project.work()
    git(project.root, "switch", "--quiet", *(["--create", checked_out] if checked_out != "main" else ["main"]))
    refusing = hook(project.root / ".git/hooks", "reference-transaction", "! grep -q refs/heads/main")
    with pytest.raises(RemoteUnavailable, match="main cannot be moved") as failed:
        project.repository.publish(sha, project.local_target)
    assert "stash" not in failed.value.remedy
    refusing.unlink()
    assert project.repository.publish(sha, project.local_target) == Published(sha)


def test_without_a_remote_a_branch_that_is_not_checked_out_moves(project):
    git(project.root, "switch", "--quiet", "--create", "feature")
    sha = project.work()
    assert project.repository.publish(sha, project.local_target) == Published(sha)
    assert head(project.root, "main") == sha
    assert git(project.remote, "rev-parse", "main") != sha


def test_a_worktree_that_is_gone_moves_no_other_branch(project, tmp_path):
    base, sha = head(project.root), project.work()
    git(project.root, "switch", "--quiet", "--create", "feature")
    git(project.root, "worktree", "add", "--quiet", str(tmp_path / "other"), "main")
    shutil.rmtree(tmp_path / "other")
    assert project.repository.publish(sha, project.local_target) == Published(sha)
    assert (head(project.root, "main"), head(project.root, "feature")) == (sha, base)
    assert git(project.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("when", ["before git", "within git"])
def test_a_branch_that_the_user_switches_to_meanwhile_does_not_pass_for_the_target(project, when):
    """Their git holds the lock of the index when ours begins, or takes it in between."""
    base, sha = head(project.root), project.work()
    git(project.root, "branch", "feature")
    due = [True]

    class Switching(Git):
        def run(self, *words, **given):
            switches = "merge" in words and bool(due) and due.pop()
            lock = project.root / ".git/index.lock"
            if switches and when == "before git":
                lock.touch()
            elif switches:
                git(project.root, "switch", "--quiet", "feature")
            done = super().run(*words, **given)
            if switches and when == "before git":
                lock.unlink()
                git(project.root, "switch", "--quiet", "feature")
            return done

    plain = project.repository
    given = {each.name: getattr(plain.git, each.name) for each in fields(plain.git) if each.init}
    repository = replace(plain, git=Switching(**given))
    assert repository.publish(sha, project.local_target) == Published(sha)
    assert head(project.root, "main") == sha
    assert git(project.root, "status", "--porcelain") == ""
    if when == "before git":
        assert head(project.root, "feature") == base


def test_a_target_that_is_nowhere_is_named(project):
    policy = PublishPolicy(remote=None, target_branch="nowhere")
    for act in (
        lambda: project.repository.base(policy),
        lambda: project.repository.publish(head(project.root), policy),
    ):
        with pytest.raises(GitFailed, match="nowhere"):
            act()


def test_what_should_become_a_pull_request_is_never_pushed_to_the_target(project):
    policy = PublishPolicy(mode="pull_request", remote="origin", target_branch="main")
    with pytest.raises(ConfigRefused):
        project.repository.publish(project.work(), policy)
    assert head(project.remote, "main") == head(project.root)


def test_a_merge_in_the_workspace_has_our_trailer_and_both_parents_content(project):
    sha, tip = project.work(ours="1\n"), project.push_from_elsewhere("theirs", "2\n")
    project.repository.base(project.target)
    workspace = project.run_workspace()
    merged = workspace.merge(sha, tip, "Merge main into #1\n\nIrontree-Merge: token-1\n")
    assert project.repository.find_token("token-1", base=sha, source=workspace) == merged
    assert set(git(project.store, "ls-tree", "--name-only", merged).split()) == {
        ".gitignore",
        "app.py",
        "ours",
        "theirs",
    }


def test_a_merge_that_a_hook_refuses_is_an_error_and_no_conflict(project):
    sha, tip = project.work(ours="1\n"), project.push_from_elsewhere()
    project.repository.base(project.target)
    hook(project.root / ".git" / "hooks", "commit-msg", "echo no merges here; exit 1")
    with pytest.raises(GitFailed, match="no merges here"):
        project.run_workspace().merge(sha, tip, "merge")
    project.run_workspace().prepare(sha)
    assert git(project.run_workspace().path, "status", "--porcelain") == ""
