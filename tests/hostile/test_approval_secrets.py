"""Secrets that an agent puts into its work: nothing is pushed before somebody has looked, and no value is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from irontree.domain.secrets import added_secrets, known_secrets
from irontree.domain.state import Phase
from irontree.services.answers.answers import Answer, answer_issue
from irontree.services.execution.run import run
from irontree.services.execution.verify import verify
from irontree.services.questions.listing import waiting
from irontree.services.questions.pages import question_text
from irontree.services.views.history import failure_of
from tests.support.world import MANUAL_TASK, ONE_TASK, Scene, ScriptedAgent, does, make_scene

TOKEN = "ghp_" + "R4nd0mT3xtThatNobodyWouldType9Qz8Vw7"
RANDOM = "q8Zr2LmX0vPt7KcW4nYs9BdF"


@pytest.mark.parametrize(
    ("path", "line", "kind"),
    [
        ("src/a.py", f'TOKEN = "{TOKEN}"', "a token that begins with `ghp_`"),
        ("tests/test_a.py", f'TOKEN = "{TOKEN}"', "a token that begins with `ghp_`"),
        ("deploy.pem", "-----BEGIN RSA PRIVATE KEY-----", "a private key"),
        ("src/a.py", "url = 'https://ada:h0rse-b4ttery@git.corp.net/x'", "a login in an address"),
        (".env", f"API_KEY={RANDOM}", "a random text behind `API_KEY`"),
        ("conf/app.yml", f"  db_password: {RANDOM}", "a random text behind `password`"),
        ("src/a.js", f"const apiKey = '{RANDOM}';", "a random text behind `apiKey`"),
    ],
)
def test_what_looks_like_a_secret_is_named_by_place_and_kind(path, line, kind):
    [found] = added_secrets(path, "x = 1\n", f"x = 1\n{line}\n")
    assert (found.path, found.line, found.kind) == (path, 2, kind)
    assert TOKEN not in found.words
    assert RANDOM not in found.words


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/a.py", 'token = os.environ["SERVICE_ACCESS_TOKEN_2024_V1"]'),
        ("src/a.py", "password = settings.database.primary_password_v2"),
        ("docs/a.md", "AKIAIOSFODNN7EXAMPLE"),
        ("docs/a.md", f"ghp_{'x' * 36} sk-your-secret-api-key-goes-here sk-example-0123456789abcdef0000"),
        ("docs/a.md", "export GITHUB_TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ012345"),
        ("docs/a.md", "postgres://user:password@db.internal/app and https://ada:${TOKEN}@git.corp.net"),
        ("compose.yml", "postgres://app:h0rse-b4ttery@db/app"),
        ("package-lock.json", f'"token": "{RANDOM}"'),
        ("uv.lock", f'secret = "{RANDOM}"'),
        ("tests/conftest.py", f'API_KEY = "{RANDOM}"'),
        (".env.example", "API_KEY=your-api-key-1234567890-goes-here"),
        ("src/a.py", 'sha = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"'),
        ("src/a.py", "secret_name = 'projects/main/secrets/database'"),
    ],
)
def test_what_is_plainly_none_stops_nobody(path, line):
    assert list(added_secrets(path, "", line)) == []


@pytest.mark.parametrize(
    "line",
    [
        f"{TOKEN}EXAMPLE",
        f"{TOKEN}_example",
        f"sk-{RANDOM}-your-sample",
        f"token=3D{TOKEN}",
        f"\x1b[1G{TOKEN}",
        f"\\U0000003d{TOKEN}",
        f"{TOKEN[:9]}\x1b[0m{TOKEN[9:]}",
        f"{TOKEN[:9]}\\U0000001b[0m{TOKEN[9:]}",
        "PuTTY-User-Key-File-2: ssh-rsa",
    ],
)
def test_what_only_looks_like_an_example_is_held(line):
    [found] = added_secrets("docs/a.md", "", line)
    assert TOKEN not in found.words


def test_a_line_that_was_there_before_is_not_added():
    text = f"TOKEN={TOKEN}\n"
    assert list(added_secrets(".env", text, f"# moved\n{text}")) == []


@pytest.mark.parametrize("path", [f"{TOKEN}.txt", f"notes/{RANDOM}/empty"])
def test_the_name_of_a_new_file_is_looked_at_and_not_repeated(path):
    [found] = added_secrets(path, "", "", {RANDOM})
    assert found.words.startswith("the name of ")
    assert TOKEN not in found.words
    assert RANDOM not in found.words
    assert list(added_secrets(path, "kept", "kept", {RANDOM})) == []


def test_what_settings_hold_is_known_by_its_name_or_because_it_is_random():
    text = f"""# DEBUG=on
export DB_PASSWORD="correct horse battery"
STRIPE: '{RANDOM}',
HOME_PAGE=https://www.corp.net/index.html
API_KEY_FILE=/run/secrets/key-2024
TOKEN=your-token-goes-here
"""
    assert known_secrets({"CI_TOKEN": "hunter22", "EDITOR": RANDOM[::-1]}, [text]) == {
        "correct horse battery",
        RANDOM,
        "hunter22",
    }


def test_what_is_copied_into_the_workspace_is_not_published(tmp_path):
    """...whatever file an agent writes it to, and whatever it looks like."""
    scene = make_scene(tmp_path)
    (scene.root / ".env").write_text("DB_PASSWORD=correct horse battery\n")
    scene.agent = ScriptedAgent(does(greet_txt="hello\nit is correct horse battery\n"))
    scene.policy = scene.policy.model_copy(
        update={"workspace": scene.policy.workspace.model_copy(update={"copy_files": (".env",)})}
    )
    verified(scene)
    assert scene.state().blocking_check == "secret-in-commit"
    [asked] = waiting(scene.app)
    told = question_text(scene.app, asked)
    assert "greet.txt, line 2: a value that is a secret here" in told
    assert "horse" not in told


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = make_scene(tmp_path)
    scene.agent = ScriptedAgent(does(greet_txt=f"hello {TOKEN}"))
    return scene


def verified(scene: Scene, text: str = ONE_TASK) -> None:
    scene.publish(text)
    run(scene.app, 1)
    verify(scene.app, 1)


@pytest.mark.parametrize("text", [ONE_TASK, MANUAL_TASK])
def test_nothing_is_pushed_and_no_value_is_told(scene, text):
    verified(scene, text)
    state = scene.state()
    assert (state.phase, state.blocking_check) == (Phase.BLOCKED, "secret-in-commit")
    assert "greet.txt" not in scene.repository.commits[scene.repository.remote["main"]].files
    [asked] = waiting(scene.app)
    told = [question_text(scene.app, asked), *scene.comments(), str([r.meta for r in scene.log.read(1).records[-1:]])]
    assert all(TOKEN[:8] not in words for words in told)
    assert "greet.txt, line 1: a token that begins with `ghp_`" in told[0]


def test_who_knows_it_may_have_it_published(scene):
    verified(scene)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    assert verify(scene.app, 1).phase is Phase.VERIFIED


def test_who_sends_it_back_tells_the_next_attempt_why(scene):
    verified(scene)
    state = answer_issue(scene.app, 1, Answer("send-back", "ada", "read it from the environment"))
    assert state.phase is Phase.READY
    context = failure_of(scene.app, scene.log.read(1), state)
    assert context is not None
    assert (context.failed_check, context.note) == ("secret-in-commit", "read it from the environment")
    scene.agent = ScriptedAgent(does(greet_txt=f"hello {TOKEN}"))
    run(scene.app, 1)
    assert verify(scene.app, 1).blocking_check == "secret-in-commit", "nobody said that it may be published"


def test_an_answer_about_one_commit_lets_no_other_one_pass(scene):
    """What stands at the same place in a later attempt was seen by nobody."""
    verified(scene, MANUAL_TASK)
    answer_issue(scene.app, 1, Answer("go-on", "ada"))
    assert verify(scene.app, 1).phase is Phase.PENDING
    answer_issue(scene.app, 1, Answer("send-back", "ada", "say it louder"))
    scene.agent = ScriptedAgent(does(greet_txt=f"hello ghp_{'Q9z' * 12}"))
    run(scene.app, 1)
    assert verify(scene.app, 1).blocking_check == "secret-in-commit"


def test_another_secret_than_the_one_that_was_shown_is_asked_about(scene):
    verified(scene)
    answer_issue(scene.app, 1, Answer("send-back", "ada", "no"))
    scene.agent = ScriptedAgent(does(greet_txt=f"hello\n{TOKEN}"))
    run(scene.app, 1)
    verify(scene.app, 1)
    [asked] = waiting(scene.app)
    assert "greet.txt, line 2" in question_text(scene.app, asked)
