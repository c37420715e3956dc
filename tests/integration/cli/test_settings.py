"""One setting: what it is, what it means, and how it is changed."""

from __future__ import annotations

import pytest

FILE = """\
# Ours.
run:
  max_retry_count: 1  # two attempts are enough
verify:
  commands: [{name: tests, run: test ! -e broken}]
"""


@pytest.fixture
def configured(shell):
    shell.configure(FILE)
    return shell


def content(shell) -> str:
    return (shell.root / ".mino" / "config.yml").read_text()


def test_get_prints_the_value_alone_and_of_a_section_its_settings(configured):
    assert configured("config", "get", "run.max_retry_count").out == "1\n"
    listed = configured("config", "get", "run").out
    assert listed.splitlines()[0].split() == ["KEY", "FROM", "VALUE"]
    assert "run.max_retry_count" in listed
    [found] = configured("config", "get", "run.max_retry_count", "--json").data["settings"]
    assert found.keys() == {"key", "value", "origin", "description", "default"}
    assert (found["value"], found["origin"], found["default"]) == (1, "file", 3)


def test_explain_says_what_settings_mean(configured):
    one = configured("config", "explain", "run.max_retry_count").out
    assert ("Now: 1" in one, "Default: 3" in one) == (True, True)
    assert "which is the default" in configured("config", "explain", "loop.on_halt").out
    everything = configured("config", "explain").out
    assert len(everything.splitlines()) == len(configured("config", "--json").data["settings"]) + 1


@pytest.mark.parametrize("what", ["get", "explain"])
def test_a_setting_that_there_is_not_is_refused_with_what_is_near(configured, what):
    refused = configured("config", what, "run.max_retry_cout")
    assert (refused.code, "did you mean run.max_retry_count?" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("name", "value", "shown", "written"),
    [
        ("run.max_retry_count", "2", "2", "max_retry_count: 2  # two attempts are enough"),
        ("agent.command", "claude -p 'do it'", "claude -p 'do it'", "command: claude -p 'do it'"),
        ("publish.remote", "null", "(unset)", "remote:"),
        ("workspace.setup", "[npm ci, make]", "'npm ci' make", "setup: [npm ci, make]"),
        ("loop.on_halt", "stop", "stop", "on_halt: stop"),
    ],
)
def test_set_changes_one_setting_and_keeps_every_comment(configured, name, value, shown, written):
    done = configured("config", "set", name, value)
    assert (done.code, done.out.splitlines()[0]) == (0, f"{name}: {shown}")
    assert written in content(configured)
    assert "# Ours." in content(configured)
    assert configured("config", "get", name).out == f"{shown}\n"


def test_set_takes_the_short_form_of_a_section_and_shows_what_it_sets(configured):
    done = configured("config", "set", "sandbox", "none")
    assert (done.code, done.out.splitlines()[0]) == (0, "sandbox.kind: none"), done.err
    assert "sandbox: none" in content(configured)
    assert configured("config", "set", "sandbox", "none", "--json").data["key"] == "sandbox.kind"


def test_set_shows_each_setting_of_a_section_that_is_given_whole(configured):
    given = "{max_retry_count: 2, same_failure: 3}"
    assert configured("config", "set", "run", given).out.splitlines()[:2] == [
        "run.max_retry_count: 2",
        "run.same_failure: 3",
    ]
    shown = configured("config", "set", "run", given, "--json").data
    assert [one["key"] for one in shown["settings"]] == ["run.max_retry_count", "run.same_failure"]
    assert shown["needs_approval"] is False


def test_set_shows_the_defaults_of_a_section_that_is_emptied(configured):
    assert "run.max_retry_count: 3" in configured("config", "set", "run", "{}").out.splitlines()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("run.max_retry_count", "many", "`run.max_retry_count`: expected a whole number, got 'many'"),
        ("run.max_retry_count", "-1", "`run.max_retry_count`: expected greater than or equal to 0"),
        ("run.max_retries", "2", "unknown key `run.max_retries`"),
        ("run", "2", "`run`: expected keys below it"),
        ("verify.seconds", "[", "verify.seconds, line 1:"),
    ],
)
def test_what_would_be_refused_when_it_is_read_is_not_written(configured, name, value, said):
    refused = configured("config", "set", name, value)
    assert (refused.code, refused.err.startswith(f"irontree: {said}")) == (1, True), refused.err
    assert content(configured) == FILE


def test_what_is_wrong_in_the_file_already_has_its_line(configured):
    """A key that is being set is in no line of it."""
    configured.root.joinpath(".mino", "config.yml").write_text("verify:\n  seconds: 9\nzebra: 1\n")
    refused = configured("config", "set", "verify.seconds", "20")
    assert "config.yml, line 3: unknown key `zebra`" in refused.err


@pytest.mark.parametrize(("name", "asks"), [("verify.seconds", True), ("loop.lease_stale_hours", False)])
def test_set_says_whether_approved_work_asks_again(configured, name, asks):
    assert ("asks for approval again" in configured("config", "set", name, "20").out) is asks
    assert configured("config", "set", name, "30", "--json").data["needs_approval"] is asks


def test_where_nothing_is_set_up_nothing_is_set(bare_shell):
    refused = bare_shell("config", "set", "run.max_retry_count", "2")
    assert (refused.code, "irontree init" in refused.err) == (1, True)
    assert not (bare_shell.root / ".mino").exists()
