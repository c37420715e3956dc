"""A process that runs inside somebody's repository takes no Prefect setting from it."""

from __future__ import annotations

import os
import subprocess
import sys

SHOW = """
import json, os, sys
from pathlib import Path
from irontree.flows.server.connection import adopt, local_environment
assert "prefect" not in sys.modules
state_folder = Path(sys.argv[1])
adopt(local_environment(os.environ, state_folder, "http://127.0.0.1:4280/api"), state_folder)
from prefect.settings import get_current_settings
found = get_current_settings()
print(json.dumps([found.api.url, found.api.key, found.logging.level, found.client.max_retries, os.getcwd()]))
"""


def test_files_and_variables_of_the_working_folder_do_not_choose_the_server(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / ".env").write_text("PREFECT_API_URL=http://evil.example/api\nPREFECT_API_KEY=evil\n")
    (repository / "prefect.toml").write_text("[client]\nmax_retries = 77\n")
    (repository / "pyproject.toml").write_text('[tool.prefect.logging]\nlevel = "DEBUG"\n')
    environment = {**os.environ, "PREFECT_API_KEY": "also evil", "PREFECT_PROFILE": "cloud"}
    command = [sys.executable, "-P", "-c", SHOW, str(tmp_path / "home")]
    shown = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == f'["http://127.0.0.1:4280/api", null, "INFO", 5, "{repository}"]'


def test_settings_that_come_too_late_are_an_error_and_no_hidden_server():
    late = f"import prefect\n{SHOW.replace('assert', 'assert True or')}"
    command = [sys.executable, "-P", "-c", late, "home"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Prefect was imported before its settings were adopted" in shown.stderr
