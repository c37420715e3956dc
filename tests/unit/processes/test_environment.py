"""What agents, checks and hooks see of the caller's environment (R4)."""

from __future__ import annotations

import pytest

from irontree.processes.containers import scrubbed_environment

SECRETS = (
    *("GITHUB_TOKEN", "GH_TOKEN", "GITEA_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
    *("PREFECT_API_URL", "PREFECT_API_KEY", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"),
    *("GIT_DIR", "GIT_INDEX_FILE", "GIT_SSH_COMMAND", "SSH_AUTH_SOCK", "PYTHONPATH", "VIRTUAL_ENV", "NODE_PATH"),
)


@pytest.mark.parametrize("name", SECRETS)
def test_what_nobody_allowed_stays_with_the_caller(name):
    assert scrubbed_environment({name: "value"}) == {}


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LANG", "LC_ALL", "LC_TIME", "TMPDIR", "SSL_CERT_FILE", "https_proxy"]
)
def test_what_every_program_needs_is_passed(name):
    assert scrubbed_environment({name: "value"}) == {name: "value"}


def test_a_name_that_was_allowed_is_passed_and_no_other():
    base = {"OPENAI_API_KEY": "a", "OPENAI_ORG": "b"}
    assert scrubbed_environment(base, ["OPENAI_API_KEY", "NOT_SET"]) == {"OPENAI_API_KEY": "a"}
