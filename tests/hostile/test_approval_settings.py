"""A setting of which an approval would not show all: it is refused where the configuration is read, and by its key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from irontree.app import Origin
from irontree.bootstrap import open_app, set_up
from irontree.config_file import read_config, set_setting
from irontree.errors import ConfigRefused
from tests.support.repositories import git

TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
KEY = "-----BEGIN PRIVATE KEY----- ; touch x; : -----END PRIVATE KEY-----"
UNSHOWN = {
    "\u200b": "U+200B",
    "\u202e": "U+202E",
    "\u2066": "U+2066",
    "\u00a0": "U+00A0",
    "\u3164": "U+3164",
    "\u2800": "U+2800",
    "\x1b[8m": "U+001B",
    "\b": "U+0008",
    TOKEN: "looks like a secret",
    KEY: "looks like a secret",
}
SETTINGS = {
    "agent.command": "agent: {{command: {}}}",
    "agent.command.1": "agent: {{command: [agent, {}]}}",
    "agent.arguments.0": "agent: {{adapter: claude, arguments: [{}]}}",
    "agent.model": "agent: {{adapter: claude, model: {}}}",
    "agent.permissions.0.match": "agent: {{adapter: acp, permissions: [{{match: {}, allow: true}}]}}",
    "verify.commands.0.run": "verify: {{commands: [{{name: tests, run: {}}}]}}",
    "verify.commands.0.name": "verify: {{commands: [{{name: {}, run: pytest}}]}}",
    "verify.browser": "verify: {{browser: {}}}",
    "verify.unprotected_files.0": "verify: {{unprotected_files: [{}]}}",
    "verify.reviewers.0.command": "verify: {{reviewers: [{{name: other, command: {}}}]}}",
    "workspace.setup.0": "workspace: {{setup: [{}]}}",
    "workspace.filters.0": "workspace: {{filters: [{}]}}",
    "container.options.0": "container: {{image: 'sha256:%s', options: [{}]}}" % ("0" * 64),
    "automations.nightly": "automations: {{nightly: {}}}",
}


def refusal(text: str) -> str:
    with pytest.raises(ConfigRefused) as refused:
        read_config(text, "config.yml")
    return str(refused.value)


@pytest.mark.parametrize("hidden", UNSHOWN, ids=UNSHOWN.values())
@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_that_would_not_be_shown_whole_is_refused_by_its_key(key: str, hidden: str):
    """R6: what was approved is what runs."""
    said = refusal(f"# first\n{SETTINGS[key].format(json.dumps(f'x {hidden}# y'))}\n")
    assert f"config.yml, line 2: `{key}" in said
    assert UNSHOWN[hidden] in said
    assert TOKEN not in said


def test_words_that_are_one_secret_together_are_refused():
    words = KEY.split()
    assert "`agent.command` has what looks like a secret" in refusal(f"agent: {{command: {json.dumps(words)}}}")


HALVES = "model: '-----BEGIN', arguments: [PRIVATE, 'KEY-----', --dangerously-skip-permissions, --add-dir, /]"
IN_HALVES = {
    "agent": f"agent: {{adapter: claude, {HALVES}}}",
    "agent critic": f"verify: {{reviewers: [{{name: critic, adapter: claude, {HALVES}}}]}}",
    "agent coder": f"team: [{{name: coder, adapter: claude, {HALVES}}}]",
}


@pytest.mark.parametrize("agent", IN_HALVES)
def test_words_of_two_keys_that_are_one_secret_on_the_command_line_are_refused_before_an_approval(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each key is harmless: the line that both make would be shown as `--model (secret)`."""
    for name in ("cache", "state"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    git(tmp_path, "init", "--quiet", "project")
    set_up(tmp_path / "project")
    config = tmp_path / "project" / ".mino" / "config.yml"
    config.write_text(f"sandbox: none\npublish: {{target_branch: main}}\n{IN_HALVES[agent]}\n")
    with pytest.raises(ConfigRefused, match=rf"the command line of the {agent} has what looks like a secret"):
        open_app(tmp_path / "project", origin=Origin("Test Author")).policy(None)


def test_each_of_them_is_named_with_what_to_do():
    said = refusal(f"workspace:\n  setup:\n    - a\u200b\n    - b {TOKEN}\n")
    assert "line 3: `workspace.setup.0` has the invisible character U+200B. Remove it, or put the command into" in said
    assert "line 4: `workspace.setup.1` has what looks like a secret" in said
    assert "Let it be read from a variable of the environment, or by a script" in said


def test_none_is_written_either(tmp_path: Path):
    path = tmp_path / "config.yml"
    with pytest.raises(ConfigRefused, match=r"`verify[.]browser` has what looks like a secret"):
        set_setting(path, "verify.browser", f"look {TOKEN}")
    assert not path.exists()


def test_what_is_shown_as_it_is_may_stand_there():
    lines = ["cd web &&\n\tnpm ci", "echo \u8981\u6c42 \u00fcber", "deploy --token=$TOKEN"]
    text = f"workspace: {{setup: {json.dumps(lines)}}}\nprefect: {{api_url: 'http://ada:h0rse@127.0.0.1:4200/api'}}"
    assert read_config(text, "config.yml").workspace.setup == tuple(lines)
