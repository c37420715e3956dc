"""An attempt becomes one commit, with the user's hooks, whatever the agent did to get there (R5; S6, S15)."""

from __future__ import annotations

import os

import pytest

from irontree.errors import EnvironmentRefused
from irontree.ports import CommitRefused, Committed
from tests.support.repositories import commit, git, head, hook, write

MADE = "refs/made/run"
MESSAGE = "[run] #1: work\n\nIrontree-Run: issue-1/aa/2\n"


class Attempt:
    """A prepared run workspace, and the base it stands on."""

    def __init__(self, project) -> None:
        self.base = head(project.root)
        self.workspace = project.run_workspace()
        self.workspace.prepare(self.base)
        self.path = self.workspace.path
        self.store = project.store

    def shell(self, script: str) -> None:
        os.system(f"cd '{self.path}' && ({script}) >/dev/null 2>&1")

    def commit(self, message: str = MESSAGE):
        return self.workspace.commit(message, base=self.base)

    def log(self) -> list[str]:
        return git(self.store, "rev-list", f"{self.base}..{MADE}").split()

    def shown(self, form: str) -> str:
        """The commit that was made, in that form of `git log`."""
        return git(self.store, "log", "-1", f"--format={form}", MADE)


@pytest.fixture
def attempt(project) -> Attempt:
    return Attempt(project)


@pytest.fixture
def hooks(project):
    return project.root / ".git" / "hooks"


@pytest.mark.parametrize("again", ["", 'mkdir "$OLDPWD"'])
def test_a_workspace_that_was_removed_is_no_removal_of_the_project(attempt, again):
    attempt.shell(f'cd / && rm -rf "$OLDPWD"; {again}')
    with pytest.raises(EnvironmentRefused, match="was removed"):
        attempt.commit()


@pytest.mark.parametrize(
    "history",
    [
        "git add . ; git commit --quiet --message mine",
        "git add . ; git commit -qm one; git mv work.txt a; git commit -qm two; git mv a work.txt",
        "git switch --quiet --create branch; git add . ; git commit --quiet --message mine",
        "git checkout --quiet --orphan other; git add . ; git commit --quiet --message mine",
        "git add . ; git commit --quiet --message mine; git commit --quiet --amend --message again",
        "git add . ; git stash --quiet; git stash pop --quiet",
        "git add . ; git rm --quiet --cached work.txt",
        "rm -rf .git",
        "rm -rf .git; git init --quiet .; git add . ; git commit --quiet --message mine",
        "touch .git/index.lock",
        "echo work.txt > .git/info/exclude",
        "git config user.email somebody@else; git config core.autocrlf true; git config commit.gpgSign true",
    ],
)
def test_one_commit_on_the_base_holds_all_whatever_history_the_agent_made(attempt, history):
    write(attempt.path, **{"work.txt": "done\n"})
    attempt.shell(history)
    made = attempt.commit()
    assert isinstance(made, Committed)
    assert made.files == ("work.txt",)
    assert attempt.log() == [made.sha]
    assert attempt.shown("%an <%ae>%n%B") == f"Test Author <author@example.com>\n{MESSAGE}"[:-1]


def test_a_merge_that_the_agent_left_half_done_does_not_make_ours_a_merge(project, attempt):
    attempt.shell("git switch -qc theirs; echo theirs > app.py; git commit -qam theirs; git checkout -q HEAD~")
    attempt.shell("echo mine > app.py; git commit -qam mine; git merge theirs")
    assert (attempt.path / ".git" / "MERGE_HEAD").exists()
    attempt.commit()
    assert attempt.shown("%P") == attempt.base


def test_deleted_renamed_and_odd_names_are_all_in_it(attempt):
    attempt.shell("git mv app.py 'new name.py'; rm .gitignore")
    write(attempt.path, **{'quote".txt': "x", "ümlaut.txt": "x", "-dash": "x", "new\nline": "x"})
    names = {".gitignore", "app.py", "new name.py", 'quote".txt', "ümlaut.txt", "-dash", "new\nline"}
    assert set(attempt.commit().files) == names


def test_a_name_that_is_no_utf8_is_reported_readably(attempt):
    (attempt.path / os.fsdecode(b"bad\xff.txt")).write_text("x")
    assert attempt.commit().files == ("bad\ufffd.txt",)


def test_ignored_files_are_not_in_it(attempt):
    write(attempt.path, **{"run.log": "log\n"})
    assert attempt.commit() is None


def test_what_the_user_ignores_for_himself_is_ignored_too(project, attempt):
    (project.root / ".git" / "info").mkdir()
    write(project.root / ".git" / "info", exclude="scratch.txt\n")
    write(attempt.path, **{"scratch.txt": "x\n"})
    assert attempt.commit() is None


def test_changes_that_git_normalises_away_are_no_change(project):
    commit(project.root, ".gitattributes", "* text=auto\n")
    attempt = Attempt(project)
    (attempt.path / "app.py").write_bytes(b"print('hello')\r\n")
    assert attempt.commit() is None


def test_files_of_a_repository_made_inside_are_taken_up_as_files(attempt):
    """Scaffolding tools run `git init`; git would store a pointer to a commit that nobody has."""
    attempt.shell(
        "git init -q made; cd made; echo x > file; git add .; git commit -qm first; git init -q deep; echo y > deep/y"
    )
    attempt.shell("git init -q empty; echo z > empty/z")
    assert set(attempt.commit().files) == {"made/file", "made/deep/y", "empty/z"}


def test_edits_of_our_own_state_are_dropped_and_reported(project):
    commit(project.root, ".mino/config.yml", "version: 1\n")
    attempt = Attempt(project)
    write(attempt.path, work="done\n")
    write(attempt.path / ".mino", **{"config.yml": "version: 2\n"})
    made = attempt.commit()
    assert made.files == ("work",)
    assert made.dropped == (".mino/config.yml",)


def test_nothing_but_edits_of_our_own_state_is_no_change(project):
    commit(project.root, ".mino/config.yml", "version: 1\n")
    attempt = Attempt(project)
    write(attempt.path / ".mino", **{"config.yml": "version: 2\n"})
    assert attempt.commit() is None


def test_the_users_hooks_run(hooks, attempt):
    hook(hooks, "pre-commit", "echo checked > checked.txt; git add checked.txt")
    hook(hooks, "commit-msg", 'echo "Reviewed-by: hook" >> "$1"')
    write(attempt.path, work="done\n")
    made = attempt.commit()
    assert made.files == ("checked.txt", "work")
    assert "Reviewed-by: hook" in attempt.shown("%B")


@pytest.mark.parametrize("place", ["relative", "absolute"])
def test_hooks_at_a_configured_place_run(project, tmp_path, place):
    folder = project.root / "githooks" if place == "relative" else tmp_path / "githooks"
    hook(folder, "pre-commit", "echo refused by policy; exit 1")
    git(project.root, "config", "core.hooksPath", "githooks" if place == "relative" else str(folder))
    git(project.root, "add", ".")
    git(project.root, "commit", "--quiet", "--no-verify", "--allow-empty", "--message", "hooks")
    attempt = Attempt(project)
    write(attempt.path, work="done\n")
    assert attempt.commit() == CommitRefused("refused by policy\n")


def test_a_broken_link_among_the_hooks_is_passed_over(hooks, attempt):
    hooks.mkdir(exist_ok=True)
    (hooks / "post-merge").symlink_to("../../gone")
    write(attempt.path, work="done\n")
    assert isinstance(attempt.commit(), Committed)


def test_a_hook_that_formats_and_refuses_gets_a_second_try(hooks, attempt):
    hook(hooks, "pre-commit", "grep -q formatted work || { echo formatted > work; echo reformatted work; exit 1; }")
    write(attempt.path, work="ugly\n")
    assert isinstance(attempt.commit(), Committed)
    assert git(attempt.store, "show", f"{MADE}:work") == "formatted"


def test_a_hook_that_always_refuses_is_tried_twice_at_most_and_the_work_stays(hooks, attempt, tmp_path):
    hook(hooks, "pre-commit", f"echo x >> '{tmp_path}/calls'; echo again >> work; echo no: $(wc -l < work); exit 1")
    write(attempt.path, work="mine\n")
    assert attempt.commit() == CommitRefused("no: 3\n")
    assert (tmp_path / "calls").read_text() == "x\nx\n"
    assert (attempt.path / "work").read_text().startswith("mine\n")


def test_a_hook_that_refuses_unchanged_content_is_asked_once(hooks, attempt, tmp_path):
    hook(hooks, "commit-msg", f"echo x >> '{tmp_path}/calls'; echo subject may not be empty >&2; exit 1")
    write(attempt.path, work="done\n")
    assert attempt.commit() == CommitRefused("subject may not be empty\n")
    assert (tmp_path / "calls").read_text() == "x\n"


def test_what_a_hook_leaves_beside_the_commit_is_dropped_and_reported(hooks, attempt):
    hook(hooks, "pre-commit", "echo formatted > work; echo report > report.txt")
    write(attempt.path, work="ugly\n")
    made = attempt.commit()
    assert made.dropped == ("work", "report.txt")
    assert git(attempt.store, "show", f"{MADE}:work") == "ugly"


def test_a_commit_whose_trailer_a_hook_removed_is_found_by_it_after_all(project, hooks, attempt):
    hook(hooks, "commit-msg", 'sed -i.bak /Irontree-Run/d "$1"')
    write(attempt.path, work="done\n")
    made = attempt.commit()
    assert isinstance(made, Committed)
    assert project.repository.find_token("issue-1/aa/2", base=attempt.base, source=attempt.workspace) == made.sha


def test_hooks_do_not_see_the_tokens_of_the_caller(project, hooks, tmp_path):
    """The agent may have changed what a hook calls."""
    hook(hooks, "pre-commit", f"env > '{tmp_path}/seen'")
    opened = project.opened(GITHUB_TOKEN="secret-1", PREFECT_API_KEY="secret-2", GIT_DIR="/nowhere")
    workspace = opened.workspace("run", Attempt(project).workspace.policy)
    write(workspace.path, work="done\n")
    assert isinstance(workspace.commit(MESSAGE, base=head(project.root)), Committed)
    seen = (tmp_path / "seen").read_text()
    assert "secret" not in seen
    assert "/nowhere" not in seen


def test_a_hook_gets_no_terminal_and_no_input_to_wait_for(hooks, attempt):
    hook(hooks, "pre-commit", 'read answer; [ -z "$answer" ] && ! [ -t 0 ] && ! (: < /dev/tty) 2>/dev/null')
    write(attempt.path, work="done\n")
    assert isinstance(attempt.commit(), Committed)


def test_the_identity_of_an_including_condition_is_carried_over(project, tmp_path):
    """`includeIf gitdir:` of the user does not apply in his cache folder."""
    write(tmp_path, **{"work.config": '[user]\n\temail = "ada@work.example"\n'})
    git(project.root, "config", f"includeIf.gitdir:{project.root}/.path", str(tmp_path / "work.config"))
    attempt = Attempt(project)
    write(attempt.path, work="done\n")
    attempt.commit()
    assert attempt.shown("%ae") == "ada@work.example"


def test_line_ends_are_stored_as_the_user_stores_them(project):
    git(project.root, "config", "core.autocrlf", "input")
    attempt = Attempt(project)
    (attempt.path / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
    made = attempt.commit()
    assert git(attempt.store, "cat-file", "-s", f"{made.sha}:dos.txt") == "8"


def test_signing_is_carried_over_and_its_failure_refuses(project, tmp_path):
    signer = hook(tmp_path, "signer", "echo no key >&2; exit 1")
    git(project.root, "config", "commit.gpgSign", "true")
    git(project.root, "config", "gpg.program", str(signer))
    attempt = Attempt(project)
    write(attempt.path, work="done\n")
    refused = attempt.commit()
    assert isinstance(refused, CommitRefused)
    assert "sign" in refused.output


UNTAKEABLE = {
    "a name that git refuses": "mkdir .GIT; echo x > .GIT/x",
    "a link that git refuses": "ln -s x .gitmodules",
    "an encoding that does not fit": "printf '* working-tree-encoding=UTF-16\\n' > .gitattributes",
}


@pytest.mark.parametrize("script", UNTAKEABLE.values(), ids=UNTAKEABLE)
def test_what_git_takes_up_in_no_commit_is_a_refused_commit_with_its_words(attempt, script):
    attempt.shell(f"{script}; echo done > work.txt")
    refused = attempt.commit()
    assert isinstance(refused, CommitRefused)
    assert "git" in refused.output.lower() or "BOM" in refused.output


@pytest.mark.parametrize("script", UNTAKEABLE.values(), ids=UNTAKEABLE)
def test_it_stops_neither_the_salvage_of_the_rest_nor_the_next_attempt(attempt, script):
    attempt.shell(f"{script}; echo done > work.txt")
    attempt.workspace.salvage(attempt.base, "refs/irontree/salvage/issue-1/2")
    attempt.workspace.prepare(attempt.base)
    attempt.shell("echo better > work.txt")
    assert isinstance(attempt.commit(), Committed)


REWRITING = {
    "prepare-commit-msg": "sed -i.bak /^Irontree/d $1",
    "commit-msg": "printf 'ABC-1: work\\n\\nSigned-off-by: A <a@b.c>\\n' > $1",
}
"""Hooks that take our trailer away: from the message, and with the message."""


@pytest.mark.parametrize(("name", "script"), REWRITING.items())
def test_a_hook_that_rewrites_the_message_keeps_its_words_and_ours_is_put_back(attempt, hooks, name, script):
    hook(hooks, name, script)
    write(attempt.path, **{"work.txt": "done\n"})
    made = attempt.commit()
    assert isinstance(made, Committed)
    assert attempt.log() == [made.sha], "no second commit"
    text = attempt.shown("%B")
    assert text.splitlines()[0] == ("[run] #1: work" if name == "prepare-commit-msg" else "ABC-1: work")
    assert attempt.shown("%(trailers:only)").splitlines()[-1] == MESSAGE.splitlines()[-1]
    assert made.files == ("work.txt",)


def test_what_comes_after_a_commit_is_not_run(attempt, hooks, tmp_path):
    """It would see a commit that is thrown away."""
    hook(hooks, "pre-commit", "true")
    hook(hooks, "post-commit", f"touch '{tmp_path}/ran'; git reset --quiet --hard HEAD~")
    write(attempt.path, **{"work.txt": "done\n"})
    assert isinstance(attempt.commit(), Committed)
    assert not (tmp_path / "ran").exists()


def test_a_git_that_is_killed_in_the_middle_of_the_commit_is_asked_again_and_commits_once(attempt, hooks, tmp_path):
    hook(hooks, "pre-commit", f"[ -e '{tmp_path}/died' ] || {{ touch '{tmp_path}/died'; kill -9 $PPID; }}")
    write(attempt.path, **{"work.txt": "done\n"})
    made = attempt.commit()
    assert isinstance(made, Committed)
    assert attempt.log() == [made.sha]
