"""Which of the user's git settings the private store and the workspaces get (R4)."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from irontree.repository.git import Git, git_environment, hooks_environment, store_environment
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
    settings = Settings(
        (
            ("user.email", "ada@example.com"),
            ("remote.origin.url", "https://example.com"),
            ("credential.helper", "store"),
            ("core.worktree", "/elsewhere"),
            ("core.sshcommand", "ssh"),
            ("alias.x", "!sh"),
            ("core.hookspath", "/home/ada/hooks"),
            ("filter.lfs.process", "git-lfs filter-process"),
            ("filter.own.clean", "./clean"),
            ("merge.own.driver", "./merge"),
            ("merge.renames", "true"),
        )
    )
    text = settings.for_store(COMMON, ["lfs"])
    for wanted in ("ada@example.com", "git-lfs", "renames", '[core]\n\thookspath = "/dev/null"'):
        assert wanted in text
    for unwanted in ("example.com/", '"store"', "elsewhere", "ssh", "alias", "./clean", "./merge", "/home/ada/hooks"):
        assert unwanted not in text
    assert settings.programs("filter.", ["lfs"]) == settings.programs("merge.", ()) == {"own"}


def test_a_workspace_gets_who_commits_and_no_program_no_key_and_no_path():
    text = Settings(
        (
            ("user.email", "ada@example.com"),
            ("user.signingkey", "KEY"),
            ("core.autocrlf", "input"),
            ("core.excludesfile", "/home/ada/ignore"),
            ("gpg.program", "sign"),
            ("filter.lfs.clean", "git-lfs clean"),
        )
    ).for_workspace()
    assert "ada@example.com" in text
    assert "autocrlf" in text
    for unwanted in ("KEY", "/home", "sign", "lfs"):
        assert unwanted not in text


def test_large_files_are_shared_with_the_users_store():
    with_lfs = settings(filter__lfs__process="git-lfs filter-process")
    assert f'storage = "{COMMON}/lfs"' in with_lfs.for_store(COMMON, ["lfs"])
    assert "storage" not in with_lfs.for_store(COMMON, ())


def test_no_address_that_the_work_names_is_asked_for_large_files():
    """`.lfsconfig` counts only where the settings say nothing."""
    assert ".invalid" in settings().for_store(COMMON, ["lfs"])
    assert ".invalid" not in settings(lfs__url="https://example.com").for_store(COMMON, ["lfs"])


values = st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=30)
names = st.sampled_from(["user.name", "gpg.format", 'filter.odd "name\\.clean', "merge.a.b.driver", "core.eol"])


@given(entries=st.lists(st.tuples(names, values), max_size=5))
def test_whatever_a_value_contains_git_reads_back_what_was_written(entries, tmp_path_factory):
    file = tmp_path_factory.mktemp("config") / "config"
    file.write_text(Settings(tuple(entries)).for_store(COMMON, ['odd "name\\', "a.b"]), encoding="utf-8")
    git = Git(file.parent, children(), git_environment({"PATH": "/usr/bin:/bin"}))
    found = git.repo.paths("config", "--file", str(file), "--list", "-z")
    ours = [("core.hookspath", "/dev/null"), ("core.protecthfs", "true"), ("core.protectntfs", "true")]
    assert [tuple(entry.split("\n", 1)) for entry in found] == [*entries, *ours]


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


def test_git_where_hooks_run_never_sees_a_repository_around_it():
    environment = hooks_environment({"GITHUB_TOKEN": "t", "GIT_DIR": "/x"}, Path("/cache/irontree/id/hooks"))
    assert environment["GIT_CEILING_DIRECTORIES"] == "/cache/irontree/id"
    assert not {"GITHUB_TOKEN", "GIT_DIR"} & environment.keys()


def test_git_on_the_store_signs_and_reads_no_settings_of_the_machine():
    environment = store_environment({"GNUPGHOME": "/keys", "GIT_CONFIG_GLOBAL": "/x", "GITHUB_TOKEN": "t"})
    assert environment["GNUPGHOME"] == "/keys"
    assert environment["GIT_CONFIG_NOSYSTEM"] == "1"
    assert not {"GITHUB_TOKEN", "GIT_CONFIG_GLOBAL"} & environment.keys()
