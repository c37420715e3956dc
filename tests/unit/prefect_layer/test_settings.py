"""The environment of our own processes: complete, explicit, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.flows.server.connection import chosen_api_url, configured_environment, local_environment, strip

HOME = Path("/state/prefect-3")
URL = "http://127.0.0.1:4280/api"


def test_no_prefect_setting_of_the_caller_survives_in_local_mode():
    caller = {"PREFECT_API_KEY": "secret", "PREFECT_PROFILE": "cloud", "PREFECT_LOGGING_LEVEL": "DEBUG", "LANG": "C"}
    made = local_environment(caller, HOME, URL)
    assert "PREFECT_API_KEY" not in made
    assert "PREFECT_PROFILE" not in made
    assert (made["PREFECT_LOGGING_LEVEL"], made["LANG"]) == ("INFO", "C")


def test_profiles_and_database_are_those_of_the_state_folder():
    made = local_environment({}, HOME, URL)
    assert made["PREFECT_HOME"] == "/state/prefect-3"
    assert made["PREFECT_PROFILES_PATH"] == "/state/prefect-3/profiles.toml"
    assert made["PREFECT_SERVER_DATABASE_CONNECTION_URL"] == "sqlite+aiosqlite:////state/prefect-3/prefect.db"


def test_nothing_is_reported_to_anybody_and_no_hidden_server_starts():
    made = local_environment({}, HOME, URL)
    assert made["DO_NOT_TRACK"] == "1"
    assert made["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert made["PREFECT_SERVER_EPHEMERAL_ENABLED"] == "false"


def test_only_the_servers_own_pages_may_call_its_api_from_a_browser():
    allowed = local_environment({}, HOME, URL)["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"]
    assert allowed == "http://127.0.0.1:4280,http://localhost:4280"


@pytest.mark.parametrize(
    ("caller", "direct"),
    [
        ({}, "127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "forge.example, 127.0.0.1"}, "forge.example,127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "a", "no_proxy": "b"}, "a,b,127.0.0.1,localhost,::1"),
    ],
)
def test_loopback_goes_past_every_proxy_and_other_exceptions_stay(caller, direct):
    made = local_environment(caller, HOME, URL)
    assert made["NO_PROXY"] == made["no_proxy"] == direct


def test_a_configured_server_keeps_the_callers_key_but_not_the_callers_profiles():
    caller = {"PREFECT_API_KEY": "secret", "PREFECT_PROFILES_PATH": "/home/ada/.prefect/profiles.toml"}
    made = configured_environment(caller, HOME, "https://prefect.example/api")
    assert made["PREFECT_API_KEY"] == "secret"
    assert made["PREFECT_API_URL"] == "https://prefect.example/api"
    assert made["PREFECT_PROFILES_PATH"] == "/state/prefect-3/profiles.toml"


def test_agents_and_checks_see_nothing_that_is_between_us_and_prefect():
    environ = {"PREFECT_API_URL": URL, "PREFECT__FLOW_RUN_ID": "x", "IRONTREE__RUNNER": "1", "IRONTREE_DIR": "d"}
    assert strip(environ) == {"IRONTREE_DIR": "d"}


@pytest.mark.parametrize(
    ("environ", "config_value", "chosen"),
    [
        ({"PREFECT_API_URL": "https://a/api"}, "https://b/api", "https://a/api"),
        ({}, "https://b/api", "https://b/api"),
        ({"PREFECT_API_URL": ""}, None, None),
        ({}, None, None),
    ],
)
def test_the_environment_chooses_the_server_before_the_configuration_and_nothing_else_does(
    environ, config_value, chosen
):
    assert chosen_api_url(environ, config_value) == chosen
