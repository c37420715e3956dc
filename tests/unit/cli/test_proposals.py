"""From what was found to settings, each with where it comes from."""

from __future__ import annotations

import pytest

from irontree.cli.init import next_lines
from irontree.cli.init_proposals import LEFT_BEHIND, Facts, open_points, settings_for, settings_missing, why_local
from irontree.config import Agent, Config, Publish, TeamMember, VerifySection, WorkspaceSection
from irontree.domain.agents import KNOWN_AGENTS
from irontree.domain.checks import DETECTION
from irontree.domain.plan import Shell
from irontree.domain.settings import default_remote
from irontree.domain.task_types import TASK_TYPES
from irontree.forges import Location

VENV = "test -d .venv || { python3 -m venv .venv && echo '*' > .venv/.gitignore; }"


def settings(**facts) -> dict[str, object]:
    return {proposal.key: proposal.value for proposal in settings_for(Facts(**{"files": {}} | facts))}


def agents(facts: Facts):
    return settings_missing(facts, Config())


def checks(**facts) -> list[str]:
    return [check["run"] for check in settings(**facts).get("verify.commands", [])]


def test_where_nothing_is_found_the_place_of_the_agent_is_there_with_an_example():
    [agent, tried, going_on] = settings_for(Facts(files={}))
    assert (tried.key, tried.value) == ("verify.preflight", True)
    assert (going_on.key, going_on.value) == ("loop.on_halt", "go_on")
    assert (agent.key, agent.value) == ("agent.command", "")
    assert "claude -p --permission-mode acceptEdits" in agent.why


@pytest.mark.parametrize(
    ("subjects", "proposed"),
    [
        ((), None),
        (("[run] #1: Greeting", "[run] #2: Parts"), None),
        (("feat: a", "fix(api)!: b", "Merge things"), "{kind}: {title}"),
        (("Add a", "Mend b", "feat: c"), "{title}"),
    ],
)
def test_commits_get_the_style_that_a_repository_has(subjects, proposed):
    found = {proposal.key: proposal.value for proposal in settings_for(Facts(files={}, subjects=subjects))}
    assert found.get("publish.subject") == proposed


def test_every_proposal_says_where_it_comes_from():
    facts = Facts(
        files={"package.json": '{"scripts": {"test": "x"}}'},
        remotes=("origin",),
        default_branch="main",
        programs=frozenset({"codex"}),
        variables=frozenset({"OPENAI_API_KEY"}),
    )
    proposals = settings_for(facts)
    assert {proposal.key for proposal in proposals} == {
        *("agent.adapter", "agent.environment", "verify.commands", "workspace.setup", "workspace.cache"),
        *("publish.remote", "publish.target_branch", "loop.on_halt", "verify.preflight"),
    }
    assert all(proposal.why for proposal in proposals)


@pytest.mark.parametrize(
    ("attributes", "proposed"),
    [
        ("*.png filter=lfs diff=lfs merge=lfs -text\n", ["lfs"]),
        ("# *.png filter=lfs\n*.txt text\n", None),
        ("*.png filter=lfsx\n", None),
    ],
)
def test_git_lfs_is_proposed_where_files_are_kept_in_it(attributes, proposed):
    assert settings(files={".gitattributes": attributes}).get("workspace.filters") == proposed


def test_the_first_known_agent_is_proposed_and_the_others_are_named():
    [adapter] = agents(Facts(files={}, programs=frozenset({"aider", "claude", "vim"})))
    assert adapter.value == "claude"
    assert "also there: aider" in adapter.why


@pytest.mark.parametrize(("name", "program"), KNOWN_AGENTS.items())
def test_every_agent_is_found_by_the_program_it_needs(name, program):
    [adapter] = agents(Facts(files={}, programs=frozenset({program})))
    assert (adapter.key, adapter.value) == ("agent.adapter", name)


def test_variables_are_proposed_by_name_and_only_if_they_are_set():
    proposals = agents(Facts(files={}, programs=frozenset({"gemini"}), variables=frozenset({"GEMINI_API_KEY", "X"})))
    assert {proposal.key: proposal.value for proposal in proposals}["agent.environment"] == ["GEMINI_API_KEY"]


@pytest.mark.parametrize(("remotes", "chosen"), [((), None), (("fork",), "fork"), (("a", "origin"), "origin")])
def test_origin_is_chosen_if_there_is_one(remotes, chosen):
    assert default_remote(remotes) == chosen


def test_a_test_target_in_the_makefile_wins():
    files = {"Makefile": "all:\n\ntest: all\n\t./t\n", "package.json": "{}"}
    assert settings(files=files)["verify.commands"] == [{"name": "tests", "run": "make test"}]


@pytest.mark.parametrize("makefile", ["test := x\n", "tests:\n", "\techo test:\n"])
def test_a_makefile_without_a_test_target_says_nothing(makefile):
    assert checks(files={"Makefile": makefile}) == []


def test_of_node_scripts_only_those_that_exist_and_test_something():
    package = '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1", "lint": "eslint .", "start": "x"}}'
    found = settings(files={"package.json": package, "yarn.lock": ""})
    assert found["verify.commands"] == [{"name": "lint", "run": "yarn run lint"}]
    assert found["workspace.setup"] == ["yarn install --frozen-lockfile"]
    assert found["workspace.cache"] == ["node_modules"]


def test_of_a_monorepo_the_same_is_cached_because_the_name_is_meant_in_each_package():
    package = '{"scripts": {"test": "t"}, "workspaces": ["packages/*"]}'
    assert settings(files={"package.json": package, "package-lock.json": ""})["workspace.cache"] == ["node_modules"]


def test_a_later_yarn_is_asked_for_what_it_understands():
    files = {"package.json": '{"scripts": {"test": "t"}}', "yarn.lock": "", ".yarnrc.yml": ""}
    assert settings(files=files)["workspace.setup"] == ["yarn install --immutable"]


@pytest.mark.parametrize("package", ["", "[]", '{"scripts": 3}', "{"])
def test_a_broken_package_json_is_no_reason_to_fail(package):
    assert checks(files={"package.json": package}) == []


def test_standard_library_tests_without_dependencies_need_no_environment():
    found = settings(files={"tests": "", "app": ""}, test_style="unittest", test_folder="tests")
    assert found["verify.commands"] == [{"name": "tests", "run": "python3 -m unittest discover -s tests"}]
    assert not {"workspace.setup", "workspace.cache"} & found.keys()


def test_pytest_gets_an_environment_that_git_never_sees():
    found = settings(files={"tests": ""}, test_style="pytest")
    assert found["workspace.setup"] == [VENV, ".venv/bin/python -m pip install --quiet pytest"]
    assert found["workspace.cache"] == [".venv"]
    assert found["verify.commands"] == [{"name": "tests", "run": ".venv/bin/python -m pytest"}]


@pytest.mark.parametrize(
    ("files", "installs"),
    [
        ({"pyproject.toml": '[project]\nname="x"\ndependencies=["rich"]\n'}, "-e . pytest"),
        ({"pyproject.toml": '[project]\nname="x"\n[project.optional-dependencies]\ntest=["pytest"]\n'}, "-e '.[test]'"),
        (
            {"pyproject.toml": '[project]\nname="x"\n[dependency-groups]\ndev=["pytest"]\n', "src": ""},
            "-e . --group dev",
        ),
        ({"setup.py": "", "requirements-dev.txt": "pytest==8\n"}, "-e . -r requirements-dev.txt"),
        ({"pyproject.toml": "not toml ["}, "pytest"),
    ],
)
def test_the_project_is_installed_with_what_its_tests_need(files, installs):
    assert settings(files=files)["workspace.setup"] == [VENV, f".venv/bin/python -m pip install --quiet {installs}"]


@pytest.mark.parametrize(
    ("project", "setup", "python"),
    [
        ('[dependency-groups]\ndev=["pytest"]\n', "uv sync", "uv run python"),
        ('[project]\n[project.optional-dependencies]\ntest=["pytest"]\n', "uv sync --extra test", "uv run python"),
        ("", "uv sync", "uv run --with pytest python"),
    ],
)
def test_a_uv_project_is_run_by_uv_with_what_its_tests_need(project, setup, python):
    found = settings(files={"pyproject.toml": project, "uv.lock": ""}, test_style="pytest")
    assert found["workspace.setup"] == [setup]
    assert found["verify.commands"] == [{"name": "tests", "run": f"{python} -m pytest"}]


@pytest.mark.parametrize(
    ("files", "setup"),
    [
        (("Cargo.toml",), "cargo fetch --quiet"),
        (("Cargo.toml", "Cargo.lock"), "cargo fetch --quiet --locked"),
        (("go.mod",), "go mod download"),
        (("package.json", "pnpm-lock.yaml"), "pnpm install --frozen-lockfile"),
        (("package.json", "package-lock.json"), "npm ci"),
        (("package.json",), "npm install --no-package-lock"),
    ],
)
def test_dependencies_are_brought_before_the_time_of_the_checks_runs(files, setup):
    assert settings(files=dict.fromkeys(files, ""))["workspace.setup"] == [setup]


@pytest.mark.parametrize(
    ("setup", "project", "named"),
    [
        ("npm ci", "", "node_modules/"),
        ("pnpm install --frozen-lockfile", "", "node_modules/"),
        ("cargo fetch", "", "target/"),
        (".venv/bin/python -m pip install -e .", "", "*.egg-info/"),
        ("uv sync", '[build-system]\nrequires=["hatchling"]\n', None),
        ("go mod download", "", None),
    ],
)
def test_what_the_set_up_makes_and_git_would_commit_is_said(setup, project, named):
    config, files = Config(workspace=WorkspaceSection(setup=(setup,))), {"pyproject.toml": project}
    said = [point for point in open_points(Facts(files=files), config) if "workspace.setup makes" in point]
    assert len(said) == (named is not None)
    assert not said or f"git does not ignore {named}," in said[0]
    everything_ignored = Facts(files=files, ignored=frozenset(LEFT_BEHIND))
    assert not any("workspace.setup makes" in point for point in open_points(everything_ignored, config))


def test_a_go_module_is_built_tested_and_vetted():
    found = settings(files={"go.mod": ""})["verify.commands"]
    assert [(check["name"], check["run"]) for check in found] == [
        ("build", "go build ./..."),
        ("tests", "go test ./..."),
        ("vet", "go vet ./..."),
    ]


def test_every_other_kind_of_project_is_tested_as_the_protocols_table_says():
    for row in DETECTION:
        if row.files[0] in {"Cargo.toml", "Package.swift"}:
            assert checks(files=dict.fromkeys(row.files, "")) == [command.run for command in row.commands]


def test_what_is_missing_is_said_with_what_to_type():
    said = "\n".join(open_points(Facts(files={}), Config()))
    assert "No coding agent was found" in said
    assert "irontree init" in said
    assert "under agent.command in .mino/config.yml, such as: claude -p --permission-mode acceptEdits" in said
    assert "No checks were found: every acceptance criterion without a command of its own waits for you." in said
    assert "There is no remote" in said
    assert "HEAD is on no branch" in said


def test_nothing_is_left_to_say_where_everything_is_set():
    config = Config(
        agent=Agent(command=("agent",)),
        verify=VerifySection(commands=(Shell(name="tests", run="make test"),)),
        publish=Publish(remote="origin"),
    )
    assert list(open_points(Facts(files={}, remotes=("origin",), default_branch="main"), config)) == []


def test_a_remote_that_was_added_later_is_noticed():
    facts = Facts(files={}, remotes=("upstream",), default_branch="main")
    assert "what is approved from now on is pushed to upstream" in "\n".join(open_points(facts, Config()))


def test_an_agent_that_is_not_there_is_noticed():
    config = Config(agent=Agent(command=("my-agent", "--go")))
    assert "my-agent, the program of the agent, is not on PATH" in "\n".join(
        open_points(Facts(files={}, agent_found=False), config)
    )


@pytest.mark.parametrize(("kinds", "wanted"), [((), False), (("docs",), True)])
def test_an_agent_is_asked_for_only_where_the_team_leaves_a_type_of_task_to_it(kinds: tuple[str, ...], wanted: bool):
    config = Config(team=(TeamMember(name="coder", command=("coder",), kinds=kinds),))
    facts = Facts(files={}, programs=frozenset({"codex"}))
    assert ("No coding agent was found" in "\n".join(open_points(facts, config))) is wanted
    assert bool(settings_missing(facts, config)) is wanted
    assert any("agent.command" in line for line in next_lines(config, facts, is_committed=True, place="")) is wanted


def test_what_to_type_next_names_files_and_the_repository_as_they_are_typed_from_elsewhere():
    lines = list(next_lines(Config(), Facts(files={}, remotes=("origin",)), is_committed=False, place="../my shop"))
    there = "git -C '../my shop'"
    assert lines[:3] == [
        "${EDITOR:-vi} '../my shop/.mino/config.yml'   # name an agent under agent.command",
        f"{there} add .mino/.gitignore .mino/config.yml && {there} commit -m 'Set up irontree' && {there} push",
        "irontree example > '../my shop/SPEC.md'   # then edit it",
    ]
    written = next_lines(Config(), Facts(files={"SPEC.md": ""}), is_committed=True, place="")
    assert not any("irontree example" in line for line in written)


def test_an_agent_that_no_task_is_left_to_may_be_missing():
    config = Config(
        agent=Agent(command=("my-agent",)),
        team=(TeamMember(name="coder", command=("coder",), kinds=tuple(TASK_TYPES)),),
    )
    assert "my-agent" not in "\n".join(open_points(Facts(files={}, agent_found=False), config))


def test_github_is_proposed_where_the_code_is_there_and_a_token_is_here():
    there = Location("https://github.com", "ada/engine")
    assert settings(location=there, credential="GH_TOKEN")["forge.adapter"] == "github"
    assert settings(location=there)["forge.adapter"] == "local"
    assert "forge.adapter" not in settings(location=Location("https://git.example.org", "ada/engine"))
    assert "forge.adapter" not in settings()


def test_gitea_is_proposed_for_any_other_server_that_a_token_is_here_for():
    """Whose server it is does not show in an address."""
    there = Location("https://git.example.org/forge", "ada/engine")
    assert settings(location=there, credential="FORGEJO_TOKEN")["forge.adapter"] == "gitea"
    facts = Facts(files={}, location=there, credential="FORGEJO_TOKEN")
    (why,) = [setting.why for setting in settings_for(facts) if setting.key == "forge.adapter"]
    assert why == "the remote is ada/engine at https://git.example.org/forge, and FORGEJO_TOKEN is set"


@pytest.mark.parametrize(
    ("url", "credential", "said"),
    [
        (
            "https://github.com",
            None,
            "no token was found for ada/engine at https://github.com; to have them there, set GITHUB",
        ),
        (
            "https://git.example.org",
            None,
            "no token was found for ada/engine at https://git.example.org; to have them there",
        ),
        ("https://git.example.org", None, "set GITEA_TOKEN, if that is Gitea or Forgejo, and forge.adapter: gitea in"),
        (
            "https://git.example.org",
            "GITEA_TOKEN",
            "as .mino/config.yml says; to have them in ada/engine at https://git",
        ),
        (None, None, "no remote is on a forge"),
    ],
)
def test_where_issues_are_files_it_is_said_why_and_what_to_set(url, credential, said):
    facts = Facts(files={}, location=Location(url, "ada/engine") if url else None, credential=credential)
    assert why_local(facts).startswith("issues go to files under .mino/forge/")
    assert said in why_local(facts)


@pytest.mark.parametrize(
    ("credential", "said"), [("gh auth token", "gh auth token has a token"), (None, "GITHUB_TOKEN")]
)
def test_why_github_is_proposed_or_not_is_said(credential, said):
    facts = Facts(files={}, location=Location("https://github.com", "ada/engine"), credential=credential)
    (why,) = [setting.why for setting in settings_for(facts) if setting.key == "forge.adapter"]
    assert said in why
    assert "ada/engine" in why
