"""`.mino/config.yml`: what it says, what it may not say, and how it is written."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import irontree.config
from irontree.config import Config
from irontree.config_file import add_permissions, load_config, read_config, write_config
from irontree.domain.agents import AgentSpec
from irontree.domain.checks import DETECTION
from irontree.domain.gates import Gate
from irontree.domain.permissions import PermissionRule
from irontree.domain.plan import PublishPolicy, Shell, WorkspacePolicy
from irontree.domain.values import PromotionPolicy, Section
from irontree.errors import ConfigRefused, EnvironmentRefused

NAME = ".mino/config.yml"
EVERYTHING = """\
verify:
  commands: [make test, {name: lint, run: ruff check .}]
  seconds: 60
  browser: look
  preflight: true
  detection: false
  protected: refuse
  protected_files: [data/*]
  unprotected_files: [package.json]
  reviewers: [{name: critic, command: critic --deep}]
gates: {acceptance: {approvers: 2}, approval: {not_requester: true}, failure: {approvers: 3}, blocked: {approvers: 1}}
issue: {close_on_done: manual, composite_threshold: 5, keep_current: false}
report: {promotion: never, docs_path: handbook/notes}
comment: {reply: always}
agent:
  adapter: claude
  command: agent -p 'do it' "${HOME}"
  model: big-one
  arguments: --verbose --effort high
  permissions: [{tool: execute, match: "npm *", allow: true}]
  wall_seconds: 10
  stall_seconds: 5
  environment: [API_KEY]
workspace: {setup: [npm ci], cache: [node_modules], copy: [.env], pristine: true, filters: [lfs], kind: none}
container:
  image: tools@sha256:1111111111111111111111111111111111111111111111111111111111111111
  engine: podman
  mounts: [/srv/sdk:ro]
  network: false
  user: "1000:1000"
  options: [--memory, 4g]
sandbox: {kind: container, read: [/srv/data], write: [~/.cargo/registry], network: agents}
publish: {mode: pull_request, remote: upstream, target_branch: trunk, reviewers: [ada, org/team], assignees: [bob],
  subject: "{kind}: {title}", merge: approved}
forge: {adapter: gitea, repository: ada/engine, url: https://git.example.org, ca_file: ca.pem}
loop: {max_transitions: 20, on_halt: go_on, lease_stale_hours: 12}
budgets:
  attempt: {money: 1 USD, tokens: 1000, time: 30m}
  issue: {money: 2}
  loop: {money: 3}
  day: {time: 2h}
  time_zone: Europe/Vienna
run: {max_retry_count: 0, same_failure: 3, lock_stale_hours: 4}
prefect: {api_url: "http://127.0.0.1:4200/api"}
automations:
  notify: [slack-webhook/team]
  start_label: agent
  reconcile: false
  remind_hours: 8
  nightly: all open
  keep_transcripts_days: 90
toolchain: {rounds: 2, language: zh, templates: docs/steps.yml, discussion: everybody, approve: assignment}
team:
- {name: coder, display: Coder, role: author, capabilities: [Python], kinds: [feature, bug], account: coder-bot,
  lead: true, discusses: false, command: coder --quick}
"""


SOURCE = Path(irontree.config.__file__).parent
SECTIONS = {name: type(value) for name, value in Config() if isinstance(value, Section)}


def refusal(text: str | bytes) -> str:
    with pytest.raises(ConfigRefused) as caught:
        read_config(text, NAME)
    assert caught.value.remedy
    return caught.value.message


@pytest.mark.parametrize(
    "text", ["", "# nothing yet\n", "verify:\n# commands: []\npublish:\n", "{}", "agent: {command: }"]
)
def test_a_file_that_says_nothing_means_the_defaults(text):
    assert read_config(text, NAME) == Config()


@pytest.mark.parametrize("text", ["toolchain:\n", "toolchain: {}\n"])
def test_a_repository_has_type_labels_as_soon_as_its_file_names_a_toolchain(text):
    assert read_config(text, NAME).policy(None, "main").publish.type_labels
    assert not Config().policy(None, "main").publish.type_labels


def test_without_type_labels_the_digest_of_what_is_approved_is_that_of_earlier_versions():
    assert "type_labels" not in Config().policy(None, "main").publish.model_dump()


def test_without_a_file_everything_has_its_default(tmp_path):
    assert load_config(tmp_path / "config.yml") == Config()


def test_the_defaults_are_the_protocol_s():
    config = Config()
    assert (config.issue.close_on_done, config.issue.composite_threshold) == (None, 3)
    assert (config.report.promotion, config.report.docs_path, config.comment.reply) == (
        "auto",
        "docs/integrations/",
        "auto",
    )
    assert (config.run.lock_stale_hours, config.loop.lease_stale_hours, config.run.max_retry_count) == (2, 6, 3)
    assert (config.publish.mode, config.forge.adapter) == ("direct", "local")


@pytest.mark.parametrize(
    ("section", "key"), [(name, key) for name, section in SECTIONS.items() for key in section.model_fields]
)
def test_every_setting_is_read_somewhere(section, key):
    """A setting without effect is a lie."""
    readers = "".join((SOURCE / name).read_text() for name in ("config.py", "adapters.py", "bootstrap.py"))
    assert re.search(rf"\.{section}(\.{key}\b|\.model_dump\(\)|,\s)", readers), "neither it nor its whole section is"


def test_every_key_can_be_set():
    said, default = dict(read_config(EVERYTHING, NAME)), dict(Config())
    assert [name for name in default if name not in SECTIONS and said[name] == default[name]] == []
    for name in SECTIONS:
        before = dict(default[name])
        assert [f"{name}.{key}" for key, value in said[name] if value == before[key]] == []


def test_the_policy_carries_what_a_person_approves():
    possible = (
        EVERYTHING.replace("mode: pull_request", "mode: direct")
        .replace(", merge: approved", "")
        .replace("kind: none", "kind: clone")
    )
    # What is contained: tests/unit/domain/test_container.py and test_sandbox.py.
    possible = re.sub(r"container:\n(?:  .*\n)+|sandbox: .*\n", "", possible)
    policy = read_config(possible, NAME).policy("origin", "main")
    assert policy.agent == AgentSpec(
        adapter="claude",
        command=("agent", "-p", "do it", "${HOME}"),
        model="big-one",
        arguments=("--verbose", "--effort", "high"),
        permissions=(PermissionRule(tool="execute", match="npm *", allow=True),),
        wall_seconds=10,
        stall_seconds=5,
        environment=("API_KEY",),
    )
    assert policy.checks == (
        Shell(name="make test", run="make test"),
        Shell(name="lint", run="ruff check ."),
    )
    assert policy.workspace == WorkspacePolicy(
        setup=("npm ci",), cache_paths=("node_modules",), copy_files=(".env",), pristine=True, filters=("lfs",)
    )
    people = {"reviewers": ("ada", "org/team"), "assignees": ("bob",)}
    assert policy.publish == PublishPolicy(
        remote="upstream", target_branch="trunk", **people, subject="{kind}: {title}", type_labels=True
    )
    assert policy.promotion == PromotionPolicy(mode="never", docs_path="handbook/notes")
    assert (policy.check_seconds, policy.max_retry_count, policy.detection) == (60, 0, ())


@pytest.mark.parametrize(
    "path", ["/srv/docs", "../docs", "docs/../../x", "", ".git", ".mino/docs", "docs//x", "./docs", ".GIT/hooks"]
)
def test_notes_go_to_a_folder_of_the_repository_and_nowhere_else(path):
    assert "expected a folder inside the repository" in refusal(f"report: {{docs_path: '{path}'}}")


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", ".", ".git", ".git/config"])
def test_what_is_copied_into_a_workspace_lies_in_the_repository(path):
    assert "`workspace.copy.0`: expected a path inside the repository" in refusal(f"workspace: {{copy: ['{path}']}}")


@pytest.mark.parametrize("path", [".env", "config/local.yml", "assets/", ".gitmodules.local"])
def test_any_path_of_the_repository_may_be_copied(path):
    assert read_config(f"workspace: {{copy: [{path}]}}", NAME).workspace.copy_files == (path,)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "ftp://host/api",
        "http://",
        "http:///api",
        "http://h/a b",
        "http://h\u200b/api",
        "http://h:99999",
    ],
)
def test_an_address_that_leads_to_no_server_is_refused(url):
    assert "line 1: `prefect.api_url`: " in refusal(f"prefect: {{api_url: '{url}'}}")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:4200/api", "https://prefect.example.org/api", "http://[::1]:4200/api"]
)
def test_an_address_of_a_server_is_taken(url):
    assert read_config(f"prefect: {{api_url: '{url}'}}", NAME).prefect.api_url == url


@pytest.mark.parametrize("path", ["handbook", "handbook/"])
def test_a_folder_for_notes_may_be_written_with_or_without_its_slash(path):
    assert read_config(f"report: {{docs_path: {path}}}", NAME).report.docs_path == "handbook/"


def test_what_cannot_be_done_yet_cannot_be_approved():
    with pytest.raises(ConfigRefused, match="not there yet"):
        read_config("workspace: {kind: none}", NAME).policy("origin", "main")


def test_a_reviewer_needs_a_program():
    assert "the reviewer critic has no command" in refusal("verify: {reviewers: [{name: critic}]}")
    known = read_config("verify: {reviewers: [{name: critic, adapter: claude}]}", NAME)
    assert known.verify.reviewers[0].adapter == "claude"


def test_proposing_needs_a_remote_to_push_to():
    proposing = read_config("publish: {mode: pull_request}", NAME)
    assert proposing.policy("origin", "main").publish.mode == "pull_request"
    with pytest.raises(ConfigRefused, match="needs a git remote"):
        proposing.policy(None, "main")


def test_what_was_found_holds_where_the_file_says_nothing():
    policy = Config().policy("origin", "main")
    assert policy.publish == PublishPolicy(remote="origin", target_branch="main")
    assert Config().policy(None, "main").publish.remote is None
    assert policy.detection == DETECTION


def test_configured_commands_replace_detection():
    assert read_config("verify: {commands: [make]}", NAME).policy(None, "main").detection == ()
    assert read_config("verify: {detection: false}", NAME).policy(None, "main").detection == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("verfy:\n", "line 1: unknown key `verfy`; did you mean `verify`?"),
        ("verify:\n  comands: []\n", "line 2: unknown key `verify.comands`; did you mean `verify.commands`?"),
        ("workspace:\n\n  copy_files: []\n", "line 3: unknown key `workspace.copy_files`"),
        ("zebra: 1\n", "line 1: unknown key `zebra`"),
        ("run:\n  max_retry_count: three\n", "line 2: `run.max_retry_count`: expected a whole number, got 'three'"),
        ("run:\n  max_retry_count: '3'\n", "expected a whole number, got '3'"),
        ("run:\n  max_retry_count: true\n", "expected a whole number, got True"),
        ("run:\n  same_failure: 1\n", "expected 0, for never, or at least 2, got 1"),
        ("run:\n  max_retry_count: -1\n", "expected greater than or equal to 0, got -1"),
        ("verify:\n  seconds: 1.5\n", "expected a whole number, got 1.5"),
        ("verify:\n  seconds: 0\n", "expected greater than 0, got 0"),
        ("verify:\n  commands: pytest\n", "`verify.commands`: expected a list, got 'pytest'"),
        ("verify:\n  commands:\n    - 5\n", "line 3: `verify.commands.0`: expected keys below it, got 5"),
        ("verify:\n  commands:\n    - nam: x\n      run: y\n", "`verify.commands.0.name` is missing"),
        ("verify:\n  commands: ['']\n", "`verify.commands.0.name`: expected"),
        ("verify:\n  commands: [a, a]\n", "`verify.commands`: two entries have the name a"),
        ("container:\n  network: false\n", "line 1: `container`: without `image` nothing runs in a container"),
        ("gates:\n  acceptance:\n", "line 2: `gates.acceptance`: nothing stands behind it: write `{}`"),
        ("budgets: {day: {money: true}}\n", "`budgets.day.money`: expected an amount such as `5 USD`"),
        ("budgets: {day: {time: 7200}}\n", "`budgets.day.time`: expected an amount such as `2h`"),
        ("verify: yes\n", "`verify`: expected keys below it, got 'yes'"),
        ("workspace:\n  pristine: yes\n", "`workspace.pristine`: expected true or false, got 'yes'"),
        ("publish:\n  mode: derict\n", "`publish.mode`: expected 'direct' or 'pull_request', got 'derict'"),
        ("publish:\n  target_branch: 1.0\n", "`publish.target_branch`: expected text, got 1.0"),
        ("agent:\n  command: it's\n", "`agent.command`: No closing quotation"),
        ("agent:\n  command: [a, 1]\n", "`agent.command.1`: expected text, got 1"),
        ("agent:\n  adapter: nope\n", "line 2: `agent.adapter`: there is no agent adapter 'nope'; known: command"),
        ("agent:\n  environment:\n  - A\n  - A=B\n", "line 4: `agent.environment.1`: expected the name of a variable"),
        ("workspace:\n  copy: [.env, /etc/passwd]\n", "line 2: `workspace.copy.1`: expected a path inside"),
        ("publish:\n\n  remote: '--x'\n", "line 3: `publish.remote`: git takes no such name: '--x'"),
        ("publish:\n  target_branch: '--x'\n", "line 2: `publish.target_branch`: git takes no such name: '--x'"),
        ("prefect:\n  api_url: localhost:4200\n", "line 2: `prefect.api_url`: expected an address such as http://"),
        ("prefect:\n  api_url: http://h:x/api\n", "line 2: `prefect.api_url`: Port could not be cast"),
        ("a: [1\nb: 2\n", "line 2: expected ',' or ']'"),
        ("run:\n  max_retry_count: 1\nrun: {}\n", "line 3: found duplicate key"),
        ("run:\n\tmax_retry_count: 1\n", "line 2: found character '\\t'"),
        ("- verify\n", "expected keys such as `verify:`"),
        ("just text", "expected keys such as `verify:`"),
        ("run: \x07\n", "not readable as YAML text"),
        (b"run: \xff\n", "not readable as YAML text"),
        (b"\xff\xfe\x00", "not readable as YAML text"),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_key(text, message):
    found = refusal(text)
    assert found.startswith(NAME)
    assert message in found


def test_everything_that_is_wrong_is_said_at_once():
    found = refusal("verfy: 1\nrun:\n  max_retry_count: x\nworkspace: {pristine: 1}\n")
    assert len(found.splitlines()) == 3


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(EnvironmentRefused, match=re.escape(str(tmp_path))):
        load_config(tmp_path)


def test_a_new_file_says_where_its_values_come_from(tmp_path):
    path = tmp_path / "config.yml"
    write_config(
        path,
        {"verify.commands": ["pytest -q"], "publish.remote": "origin", "loop.max_transitions": 4},
        {"verify.commands": "found: pyproject.toml", "publish.remote": "the only one\nthere is"},
    )
    assert path.read_text() == (
        "verify:\n  # found: pyproject.toml\n  commands:\n  - pytest -q\n"
        "publish:\n  # the only one\n  # there is\n  remote: origin\nloop:\n  max_transitions: 4\n"
    )
    assert load_config(path).publish.remote == "origin"


def test_setting_a_key_leaves_everything_else_to_the_letter(tmp_path):
    path = tmp_path / "config.yml"
    before = (
        "# ours\n\nverify:\n  # slow machine\n  seconds: 3600   # one hour\n  commands:\n    - 'make test'\n\n"
        "publish:\n  mode: direct\n"
    )
    path.write_text(before)
    write_config(path, {"publish.mode": "pull_request"}, {"publish.mode": "not said again: the key was there"})
    assert path.read_text() == before.replace("mode: direct", "mode: pull_request").replace("    - 'make", "  - 'make")
    assert load_config(path).verify.commands == (Shell(name="make test", run="make test"),)


def test_writing_the_same_twice_changes_nothing(tmp_path):
    path = tmp_path / "config.yml"
    for _ in range(2):
        write_config(path, {"agent.command": ["agent", "-p"], "publish.remote": "origin"}, {"agent.command": "on PATH"})
        written = path.read_text()
        assert written.count("# on PATH") == 1
    assert [child.name for child in tmp_path.iterdir()] == ["config.yml"]


@pytest.mark.parametrize("values", [{"publish.remot": "origin"}, {"run.max_retry_count": "three"}, {"verify": 1}])
def test_what_would_not_be_accepted_is_not_written(tmp_path, values):
    path = tmp_path / "config.yml"
    path.write_text("# mine\n")
    with pytest.raises(ConfigRefused):
        write_config(path, values)
    assert path.read_text() == "# mine\n"


def test_a_file_that_is_wrong_already_is_not_written_over(tmp_path):
    path = tmp_path / "config.yml"
    path.write_text("a: [\n")
    with pytest.raises(ConfigRefused):
        write_config(path, {"publish.remote": "origin"})
    assert path.read_text() == "a: [\n"


@pytest.mark.parametrize("section", [Config, *SECTIONS.values()], ids=lambda section: section.__name__)
def test_every_key_is_explained(section):
    assert section.__doc__
    assert [name for name, key in section.model_fields.items() if name not in SECTIONS and not key.description] == []


def test_the_schema_names_the_keys_as_they_are_written():
    schema = Config.model_json_schema()
    assert set(schema["properties"]) == set(Config.model_fields)
    keys = {"setup", "cache", "copy", "pristine", "filters", "kind"}
    assert set(schema["$defs"]["WorkspaceSection"]["properties"]) == keys
    assert schema["$defs"]["Agent"]["properties"]["command"]["anyOf"][0] == {"type": "string"}


@pytest.mark.parametrize(
    "line", ['agent: {command: ["a\\0b"]}', 'verify: {commands: ["a\\0b"]}', 'report: {docs_path: "a\\0b"}']
)
def test_a_nul_is_refused_where_it_is_written(line):
    with pytest.raises(ConfigRefused, match="U\\+0000"):
        read_config(line, "config.yml")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("adapter: gitlost", "'local', 'github' or 'gitea'"),
        ("repository: engine", "OWNER/NAME"),
        ("repository: ../engine/x", "OWNER/NAME"),
        ("url: git.example.org", "https://"),
        ("url: https://ada:hunter2-hunter2@git.example.org", "without a login"),
    ],
)
def test_a_forge_that_cannot_be_meant_is_refused_with_its_line(line, message):
    said = refusal(f"forge:\n  {line}\n")
    assert message in said
    assert "line 2" in said
    assert "hunter2" not in said


def test_gates_are_approved_with_everything_else():
    """A commit that edits the file loosens none: what was approved holds until people approve something else."""
    github = "forge: {adapter: github}\n"
    plain, gated = (
        read_config(text, NAME).policy(None, "main")
        for text in (github, f"{github}gates: {{acceptance: {{approvers: 2}}}}")
    )
    assert gated.gates.acceptance == Gate(approvers=2)
    assert gated.gates.approval is None
    assert gated.digest != plain.digest


@pytest.mark.parametrize("text", ["verify: " + "[" * 600, "a: " + "{a: " * 5_000, "- " * 10_000 + "x"])
def test_deep_nesting_is_refused_in_words(text: str):
    with pytest.raises(ConfigRefused, match="nested too deeply"):
        read_config(text, NAME)


def test_a_pipe_in_place_of_the_file_is_refused_and_does_not_block(tmp_path):
    path = tmp_path / "config.yml"
    os.mkfifo(path)
    for read in (load_config, lambda path: write_config(path, {"verify.seconds": 9})):
        with pytest.raises(EnvironmentRefused, match="is no file"):
            read(path)


def test_gates_need_a_forge_that_people_log_in_to():
    with pytest.raises(ConfigRefused, match="nobody logs in to files"):
        read_config("gates: {acceptance: {}}", NAME).policy(None, "main")


@pytest.mark.parametrize("text", ["{approvers: 0}", "{approvers: two}", "{quorum: 2}", "{not_requester: 1}"])
def test_a_gate_that_means_nothing_is_refused(text: str):
    with pytest.raises(ConfigRefused, match=r"gates\.acceptance"):
        read_config(f"gates: {{acceptance: {text}}}", NAME)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "agent:\n",
        "agent:\n  permissions: []\n",
        "# ours\nagent:\n  permissions:\n    - {allow: false, tool: edit}  # no\n",
    ],
)
def test_rules_are_added_behind_those_that_are_there_and_comments_stay(tmp_path, before):
    path = tmp_path / "config.yml"
    path.write_text(before)
    rules_before = load_config(path).agent.permissions
    rule = PermissionRule(tool="execute", match='say "[*]": {x} # y', allow=True)
    add_permissions(path, [rule])
    assert load_config(path).agent.permissions == (*rules_before, rule)
    comments = [line.partition("#")[2] for line in before.splitlines()]
    assert all(comment in path.read_text() for comment in comments)
