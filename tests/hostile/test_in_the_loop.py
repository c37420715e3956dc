"""Attacks through the whole loop, with a sandbox and without: the promises, looked at from outside.

Real git, real processes, a real log; the agent is a program that attacks while it works. Other tests of this folder try
each attack step by step, in more ways.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from irontree.app import App, Origin
from irontree.bootstrap import open_app
from irontree.services.answers.approve import approve
from irontree.services.consistency.audit import audit
from irontree.services.execution.checking import Subject, commands_digest
from irontree.services.loops.loop import Loop
from irontree.services.proposals.sources import propose
from irontree.services.record import read_world
from irontree.store.documents import encode_value
from tests.hostile.test_git_folder import FOLDER
from tests.integration.crash.laboratory import faults, lay_out
from tests.support.containers import bubblewrap_place
from tests.support.repositories import everything, git, head, hook, write
from tests.support.soak import in_soak
from tests.support.store import check_report
from tests.support.world import drive, nobody

CHECKS = ("sh greet.sh", "sh tests/says.sh")
SPEC = "# Toy\n\n## Greeting\n\n" + "".join(f"- [ ] passes {check} `$ {check}`\n" for check in CHECKS)
SAYS = "cat greet.txt build/* 2>/dev/null | grep -q hello\n"
"""The test: like many, it would take what an earlier build left."""
PRECIOUS = f"precious {'q7' * 8}\n"
"""In the user's files; no script names it."""
PASSWORD = f"correct horse {'b4' * 8}"
"""In the user's environment."""
TOKEN = f"ghp_{'a1B2' * 9}"
"""What an attempt commits."""

DONE = "echo exit 0 > greet.sh; echo hello > greet.txt"
RED = "echo exit 0 > greet.sh; echo bye $IRONTREE_ATTEMPT > greet.txt"
WORK = frozenset({"greet.sh", "greet.txt"})
BLOCKED, FAILED, ASKED = ((frozenset[str](), halt) for halt in ("blocked", "fail_terminal", "pending_acceptance"))
"""Nothing is published."""

BOTH = ("none", "bubblewrap")


@dataclass(frozen=True)
class Attack:
    """What the agent does in each attempt, and which files the target has for it in the end."""

    script: str
    published: frozenset[str] = WORK
    halt: str = "goal_reached"
    attempts: int = 1
    config: tuple[str, ...] = ()
    """Of the user's git."""
    places: tuple[str, ...] = BOTH


def all_of(*names: str) -> str:
    return "; ".join(FOLDER[name] for name in names)


USERS = "link to the user's .git"
FLAGS = (
    "git update-index --skip-worktree app.py; git update-index --assume-unchanged README.md; echo changed > README.md;"
    " touch -r app.py ../time; printf 'print(\"HELLO\")\\n' > app.py; touch -r ../time app.py"
)
IN_GIT = all_of(
    "hooks", "filter", "fsmonitor", "include", "ssh command", "alias", "excludes", "alternates", "hooks path"
)
EVIL = (
    "cp -r .git ../evil; git -C ../evil config filter.x.clean $TRAP; cp $TRAP ../evil/hooks/pre-commit;"
    " mkdir -p ../evil/info; echo '* filter=x' > ../evil/info/attributes"
)
PLANT = (
    "mkdir build; echo hello > build/x; echo hello > greet.txt; git update-index --skip-worktree greet.txt;"
    f" {all_of('hooks', 'filter', 'fsmonitor')};"
    " printf '#!/bin/sh\\necho hello > greet.txt\\n' > .git/hooks/post-checkout;"
    " chmod +x .git/hooks/post-checkout; exit 1"
)


def stays(script: str) -> str:
    """Do *script* on and on, also when the attempt has ended; no parent, session or variable tells whose it is."""
    known = " ".join(f'{name}="${name}"' for name in ("PATH", "TRAP", "ROOT", "OUTSIDE", "FORGED"))
    return f"setsid env -i {known} sh -c '(while sleep 0.01; do {script}; done) &' > /dev/null 2>&1"


def again(script: str) -> str:
    """Do *script*, and do it again whenever somebody may have put it right."""
    return f"{script}; {stays(script)}"


FORGE = (
    "results=$ROOT/.mino/reports;"
    ' for sha in $(git -C $ROOT for-each-ref --format="%(objectname)" refs/irontree/issue-1); do'
    ' mkdir -p $results/issue-1; sed "s/f\\{40\\}/$sha/" $FORGED > $results/issue-1/$sha.yml; done'
)
"""Says of each commit that its checks passed."""

ATTACKS = {
    "settings of git": Attack(f"{FLAGS}; {IN_GIT}; {FOLDER['worktree']}; {DONE}", WORK | {"app.py", "README.md"}),
    "other history": Attack(f"{DONE}; git add -A; git replace HEAD $(git commit-tree -m lie $(git write-tree))"),
    "links in .git": Attack(f"{again(all_of('link for info', 'link for refs', 'link for config'))}; {DONE}"),
    "commondir": Attack(f"{EVIL}; {again('echo ../../evil > .git/commondir')}; {DONE}"),
    "another .git": Attack(f"{again(all_of(USERS))}; {DONE}"),
    "repositories and pipes": Attack(
        f"{DONE}; git init -q made; cp $TRAP made/.git/hooks/pre-commit; echo x > made/x; git -C made add x;"
        " git -C made commit -qm x; git -C made config core.fsmonitor $TRAP; git init -q empty; echo x > empty/x;"
        " mkdir linked; echo x > linked/x; ln -s $ROOT/.git linked/.git;"
        " mkfifo pipe; mkdir deep; mkfifo deep/.gitignore;"
        " printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::%s\\n\\tupdate = !%s\\n' $TRAP $TRAP > .gitmodules;"
        " printf '[lfs \"customtransfer.x\"]\\n\\tpath = %s\\n' $TRAP > .lfsconfig",
        WORK | {"made/x", "empty/x", "linked/x", ".gitmodules", ".lfsconfig"},
    ),
    "links": Attack(
        f"{DONE}; ln -s $OUTSIDE/file link; ln -s $OUTSIDE folder;"
        ' rm -f "$IRONTREE_SUMMARY_FILE"; ln -s $OUTSIDE/file "$IRONTREE_SUMMARY_FILE"',
        WORK | {"link", "folder"},
    ),
    "a link for .gitignore": Attack(f"{DONE}; rm .gitignore; ln -s $OUTSIDE/exclude .gitignore", *ASKED),
    "names": Attack(f"{DONE}; echo x > README; echo x > readme", *BLOCKED),
    "filter of the user's": Attack(f"{DONE}; echo '* filter=own diff=own merge=own' > .gitattributes", *BLOCKED),
    "hooks": Attack(
        f'{DONE}; echo "echo hook >> $SPRUNG" > githooks/pre-commit; touch forbidden',
        *BLOCKED,
        config=("core.hooksPath=githooks",),
    ),
    "changed test": Attack(f"{RED}; echo exit 0 > tests/says.sh", *ASKED),
    "repair for the next check": Attack("echo 'echo hello > greet.txt' > greet.sh; echo bye > greet.txt", *FAILED),
    "plant for the next attempt": Attack(
        f"{RED}; [ $IRONTREE_ATTEMPT = 2 ] || (echo \"$NAMES\"; cat) > greet.sh <<'END'\n{PLANT}\nEND\n",
        *FAILED,
        attempts=2,
    ),
    "survivor": Attack(f"{RED}; {stays(FORGE)}", *FAILED),
    "printed secret": Attack(
        'echo "$DEPLOY_PASSWORD"; echo "it is $DEPLOY_PASSWORD" > "$IRONTREE_SUMMARY_FILE"; echo hello > greet.txt;'
        ' echo "echo \\"\\$DEPLOY_PASSWORD\\"; exit $((2 - IRONTREE_ATTEMPT))" > greet.sh',
        attempts=2,
    ),
    "committed secret": Attack(f"{DONE}; printf 'TOKEN = \"%s%s\"\\n' ghp_ {TOKEN[4:]} > settings.py", *BLOCKED),
    "the user's files": Attack(
        f"{DONE}; cat $OUTSIDE/* $ROOT/SPEC.md > found.txt 2>&1; echo x | tee $OUTSIDE/file $ROOT/README.md"
        " $ROOT/.mino/config.yml $ROOT/.git/hooks/pre-commit; git -C $ROOT config core.fsmonitor $TRAP",
        WORK | {"found.txt"},
        places=("bubblewrap",),
    ),
}


@dataclass
class Scene:
    """A user's project, what is none of the agent's business beside it, and its only task."""

    place: Path
    attack: Attack
    sandbox: str
    root: Path = field(init=False)

    def __post_init__(self) -> None:
        (self.place / "outside").mkdir()
        write(self.place / "outside", config=PRECIOUS, exclude=PRECIOUS, file=PRECIOUS)
        ours = f"[ \"$IRONTREE_TASK_KEY\" ] || tr '\\0' ' ' < /proc/$PPID/cmdline >> '{self.sprung}'; cat"
        trap = hook(self.place, "trap", ours)
        paths = {"OUTSIDE": self.place / "outside", "TRAP": trap, "ROOT": self.place / "project"}
        paths |= {"SPRUNG": self.sprung, "FORGED": self.place / "forged.yml"}
        names = " ".join(f"{name}='{path}'" for name, path in paths.items())
        settings = f"  environment: [DEPLOY_PASSWORD]\nrun:\n  max_retry_count: {self.attack.attempts - 1}\n"
        script = f'NAMES="{names}"; eval "$NAMES"; {self.attack.script}'
        self.root = lay_out(self.place, script, SPEC, settings, sandbox=f"sandbox: {self.sandbox}\n")
        (self.root / "tests").mkdir()
        write(self.root, **{"app.py": "print('hello')\n", ".gitignore": "build/\n", "tests/says.sh": SAYS})
        hook(self.root / "githooks", "pre-commit", "test ! -e forbidden")
        for line in (*self.attack.config, f"filter.own.clean={trap}", f"merge.own.driver={trap}"):
            git(self.root, "config", *line.split("=", 1))
        git(self.root, "add", "--all", ":!SPEC.md")
        git(self.root, "commit", "--quiet", "--no-verify", "--message", "a project")
        git(self.root, "push", "--quiet", "origin", "main")
        self.base = head(self.root)

    @property
    def sprung(self) -> Path:
        """What ran a program of the agent's or the user's outside of an attempt and a check."""
        return self.place / "sprung"

    @property
    def remote(self) -> Path:
        return self.place / "remote.git"

    def open(self) -> App:
        return open_app(self.root, origin=Origin("ada", "command"))

    def approve(self, app: App) -> Loop:
        proposal = propose(app, self.root / "SPEC.md")
        loop = approve(app, proposal, proposal.name, "ada")
        (self.place / "forged.yml").write_bytes(encode_value(green_report(app)))
        return loop

    # --- looking at it from outside

    def new_commits(self) -> list[str]:
        return git(self.remote, "rev-list", f"{self.base}..main").splitlines()

    def published(self) -> frozenset[str]:
        return frozenset(git(self.remote, "diff", "--name-only", self.base, "main").splitlines())

    def red(self) -> list[tuple[str, str]]:
        """New commits of the target, each with a check that fails in an honest clone, with the tests as they were."""
        return [(sha, check) for sha in self.new_commits() for check in CHECKS if not self._passes(sha, check)]

    def _passes(self, sha: str, check: str) -> bool:
        clone = self.place / "honest" / f"{sha}-{CHECKS.index(check)}"
        git(self.place, "clone", "--quiet", str(self.remote), str(clone))
        git(clone, "checkout", "--quiet", sha)
        git(clone, "checkout", "--quiet", self.base, "--", "tests")
        return subprocess.run(check, shell=True, cwd=clone, capture_output=True, check=False).returncode == 0

    def told(self) -> Iterator[tuple[str, bytes]]:
        """All that is kept or told: the log, transcripts, reports, the forge, and every object of the remote."""
        for folder in (self.root / ".mino", self.place / "state"):
            for path in (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
                yield str(path), path.read_bytes()
        words = ("git", "cat-file", "--batch-all-objects", "--batch")
        yield "remote", subprocess.run(words, cwd=self.remote, capture_output=True, check=True).stdout

    def secrets_told(self) -> list[tuple[str, str]]:
        secrets = [secret.strip() for secret in (PRECIOUS, PASSWORD, TOKEN)]
        return [(where, secret) for where, text in self.told() for secret in secrets if secret.encode() in text]

    def survivors(self) -> list[str]:
        return [str(process) for process in psutil.process_iter() if self._is_here(process)]

    def _is_here(self, process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and Path(process.cwd()).is_relative_to(self.place)
        except (psutil.Error, OSError):
            return False


def green_report(app: App):
    """What a verification would store of a commit, here of forty times `f`, whose checks pass."""
    world = read_world(app)
    state = world.states["greeting"]
    subject = Subject(state, world.plan(state), world.node(state), "f" * 40)
    passed = [check_report().results[0]]
    return check_report(issue_number=1, anchor=subject.anchor, results=passed, commands_digest=commands_digest(subject))


def of_the_user(root: Path) -> dict[str, object]:
    """Their repository, but for what is published into it."""
    return {name: value for name, value in everything(root).items() if name in {"config", "hooks", "stash", "head"}}


def try_it(attack: Attack, sandbox: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drive the loop to where nobody answers, and look at what is promised."""
    if sandbox == "bubblewrap":
        bubblewrap_place()
    monkeypatch.setenv("DEPLOY_PASSWORD", PASSWORD)
    for folder in ("cache", "state"):
        monkeypatch.setenv(f"XDG_{folder.upper()}_HOME", str(place / folder))
    scene = Scene(place, attack, sandbox)
    app = scene.open()
    loop = scene.approve(app)
    before = of_the_user(scene.root)
    halt = drive(app, loop.id, nobody)
    assert scene.survivors() == []
    assert scene.red() == []
    assert not scene.sprung.exists(), scene.sprung.read_text()
    assert {path.read_text() for path in (place / "outside").iterdir() if path.is_file()} == {PRECIOUS}
    assert of_the_user(scene.root) == before
    assert scene.secrets_told() == []
    assert (audit(app), faults(app)) == ((), [])
    assert (halt.reason, scene.published()) == (attack.halt, attack.published)


CONFINED = {"links in .git", "plant for the next attempt", "printed secret", "survivor", "the user's files"}
"""What is tried in a sandbox too in short: where nothing is confined, an agent can do all that it can there."""


def case(name: str, place: str):
    marks = in_soak if place == "bubblewrap" and name not in CONFINED else ()
    return pytest.param(name, place, id=f"{name}, {place}", marks=marks)


@pytest.mark.parametrize(
    ("name", "sandbox"), [case(name, place) for name, attack in ATTACKS.items() for place in attack.places]
)
def test_an_attack_changes_nothing_that_is_promised(name, sandbox, tmp_path, monkeypatch):
    try_it(ATTACKS[name], sandbox, tmp_path, monkeypatch)


@in_soak
@pytest.mark.parametrize("sandbox", BOTH)
@pytest.mark.parametrize("script", FOLDER.values(), ids=FOLDER)
def test_nor_does_one_change_of_the_git_folder_alone(script, sandbox, tmp_path, monkeypatch):
    try_it(Attack(f"{script}; {DONE}"), sandbox, tmp_path, monkeypatch)


def test_the_threat_model_says_what_is_tried_in_the_loop():
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    rows = text.partition("### In the loop")[2].split("|---|---|\n")[1].splitlines()
    named = [name.strip() for row in rows if row.startswith("| ") for name in row.split("|")[1].split(",")]
    assert sorted(named) == sorted(ATTACKS)
