"""Every setting, its value, and where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

from irontree.cli.config import blocks, settings_of
from irontree.cli.main import main
from irontree.cli.output import plain
from irontree.config import Config
from irontree.config_file import read_config
from irontree.domain.plan import PublishPolicy

FILE = """
agent:
  command: claude -p 'do it'
verify:
  commands: [{name: tests, run: make test}]
workspace:
  copy: [.env]
run:
  max_retry_count: 3
"""


def test_every_key_of_the_schema_is_listed_once():
    keys = [setting.key for setting in settings_of(Config())]
    assert len(keys) == len(set(keys))
    assert {"agent.command", "workspace.copy", "loop.max_transitions", "prefect.api_url"} <= set(keys)
    assert all(setting.description for setting in settings_of(Config()))


def test_only_what_the_file_says_comes_from_the_file_even_if_it_is_the_default():
    found = {setting.key: setting for setting in settings_of(read_config(FILE, "config.yml"))}
    from_file = {key for key, setting in found.items() if setting.origin == "file"}
    assert from_file == {"agent.command", "verify.commands", "workspace.copy", "run.max_retry_count"}
    assert found["agent.command"].value == ["claude", "-p", "do it"]
    assert found["verify.commands"].value == [{"name": "tests", "run": "make test"}]


def test_a_command_is_shown_as_one_would_type_it():
    settings = tuple(settings_of(read_config(FILE, "config.yml")))
    shown = "\n".join(plain(blocks(Path("config.yml"), settings, PublishPolicy(remote="origin", target_branch="main"))))
    assert "claude -p 'do it'" in shown
    assert '[{"name": "tests", "run": "make test"}]' in shown
    assert "config.yml (not there: everything has its default)" in shown
    assert "Verified code goes to origin main." in shown


def test_the_schema_needs_no_repository(capsys, tmp_path):
    assert main(["-C", str(tmp_path), "config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert "agent" in schema["properties"]


def test_the_schema_of_plans_names_what_a_person_approved(capsys, tmp_path):
    assert main(["-C", str(tmp_path), "config", "plan-schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert {"nodes", "policy", "approval", "spec_revision"} <= set(schema["properties"])
