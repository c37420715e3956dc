"""Which of the user's git settings a private workspace gets (R4)."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from irontree.repository.git import Git, git_environment, workspace_environment
from irontree.repository.settings import Settings
from tests.support.processes import children

COMMON = Path("/home/ada/project/.git")


def settings(**entries: str) -> Settings:
    return Settings(tuple((key.replace("__", "."), value) for key, value in entries.items()))


def test_the_last_value_of_a_name_counts():
    assert Settings((("user.name", "a"), ("user.name", "b"))).get("user.name") == "b"
    assert Settings(()).get("user.name") is None


def test_remotes_are_listed_once_and_may_contain_dots():
    entries = (("remote.origin.url", "x"), ("remote.my.fork.url", "y"), ("remote.origin.fetch", "z"), ("remote.a", ""))
    assert Settings(entries).remotes == ("origin", "my.fork")


def test_a_hooks_path_inside_the_worktree_is_told_from_others():
    assert settings(core__hookspath=".husky/_").relative_hooks_path == ".husky/_"
    assert settings(core__hookspath="/usr/share/hooks").relative_hooks_path is None
    assert settings(core__hookspath="~/hooks").relative_hooks_path is None
    assert settings(core__hookspath="").hooks_path is None


def test_who_and_how_is_carried_over_and_where_to_is_not():
    text = Settings(
        (
            ("user.email", "ada@example.com"),
            ("remote.origin.url", "https://example.com"),
            ("credential.helper", "store"),
            ("core.worktree", "/elsewhere"),
            ("core.sshcommand", "ssh"),
            ("alias.x", "!sh"),
            ("filter.lfs.process", "git-lfs filter-process"),
        )
    ).for_workspace(COMMON)
    assert "ada@example.com" in text
    assert "git-lfs" in text
    for unwanted in ("example.com/", "store", "elsewhere", "ssh", "alias", "https"):
        assert unwanted not in text


def test_large_files_are_shared_with_the_users_store():
    with_lfs = settings(filter__lfs__process="git-lfs filter-process")
    assert f'storage = "{COMMON}/lfs"' in with_lfs.for_workspace(COMMON)
    assert "storage" not in settings(user__name="a").for_workspace(COMMON)


values = st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=30)
names = st.sampled_from(["user.name", "gpg.format", 'filter.odd "name\\.clean', "merge.a.b.driver", "core.eol"])


@given(entries=st.lists(st.tuples(names, values), max_size=5))
def test_whatever_a_value_contains_git_reads_back_what_was_written(entries, tmp_path_factory):
    file = tmp_path_factory.mktemp("config") / "config"
    file.write_text(Settings(tuple(entries)).for_workspace(COMMON), encoding="utf-8")
    git = Git(file.parent, children(), git_environment({"PATH": "/usr/bin:/bin"}))
    found = git.repo.paths("config", "--file", str(file), "--list", "-z")
    sealed = [("credential.helper", ""), ("url.no-push-from-a-workspace://.pushinsteadof", "")]
    assert [tuple(entry.split("\n", 1)) for entry in found] == [*entries, *sealed]


def test_a_setting_without_a_value_is_true(tmp_path):
    (tmp_path / ".gitconfig").write_text("[commit]\n\tgpgSign\n")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    assert Git(tmp_path, children(), environment).repo.settings.get("commit.gpgsign") == "true"


def test_git_never_asks_and_never_hears_of_the_callers_repository():
    caller = {"GIT_DIR": "/x", "GIT_INDEX_FILE": "/y", "SSH_ASKPASS": "/z", "PREFECT_API_KEY": "k", "HOME": "/home/ada"}
    environment = git_environment(caller)
    assert not {"GIT_DIR", "GIT_INDEX_FILE", "SSH_ASKPASS", "PREFECT_API_KEY"} & environment.keys()
    assert environment["GIT_TERMINAL_PROMPT"] == "0"
    assert environment["HOME"] == "/home/ada"


def test_the_language_of_messages_is_fixed_and_the_character_set_is_the_users():
    environment = git_environment({"LC_ALL": "de_DE.UTF-8"})
    assert environment["LC_MESSAGES"] == "C"
    assert environment["LC_CTYPE"] == "de_DE.UTF-8"
    assert "LC_ALL" not in environment


def test_git_in_a_workspace_never_sees_a_repository_around_it():
    environment = workspace_environment({"GITHUB_TOKEN": "t", "GIT_DIR": "/x"}, Path("/cache/irontree/id/run"))
    assert environment["GIT_CEILING_DIRECTORIES"] == "/cache/irontree/id"
    assert not {"GITHUB_TOKEN", "GIT_DIR"} & environment.keys()
