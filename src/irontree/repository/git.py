"""The one runner of git: nothing prompts, nothing of the caller leaks in, nothing runs unlimited."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from irontree.errors import (
    Cancelled,
    EnvironmentRefused,
    GitFailed,
    PublicationRefused,
    RemoteFailed,
    RemoteUnavailable,
)
from irontree.ports import Cancellation
from irontree.processes.children import ChildProcesses, Completed
from irontree.processes.containers import scrubbed_environment, without_credentials
from irontree.processes.family import ProcessLimits
from irontree.processes.running import Captured, Process, capture
from irontree.repository.locks import Locks, UsersLocks
from irontree.repository.login import reaching
from irontree.repository.settings import LISTING, Settings, parse_settings

if TYPE_CHECKING:
    from irontree.repository.reading import GitReader

_NEVER = threading.Event()
READ_SECONDS = 120
CHANGE_SECONDS = 600

# No garbage collection while objects wait for their ref; output that does not depend on display settings.
_OPTIONS = {
    "gc.auto": "0",
    "maintenance.auto": "false",
    "core.quotePath": "false",
    "core.fsmonitor": "false",
    "color.ui": "false",
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "protocol.version": "2",
}
# For what an event may name afterwards: objects and refs that survive a power cut (R5).
DURABLY = ("-c", "core.fsync=committed,reference")
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
FETCH = (*DURABLY, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-prune")
STATE_FOLDER = ".mino"
"""Never part of a commit of ours."""
_WORDS = ("git", "--no-pager", *(word for key, value in _OPTIONS.items() for word in ("-c", f"{key}={value}")))

# Where users keep settings and certificates. All other GIT_* names select repository and committer, and are meant
# for the command that the caller runs in (a hook, an alias).
_KEPT = frozenset(
    {
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
        *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSH", "GIT_SSH_COMMAND"),
    }
)
# ssh needs no BatchMode: its questions go to the terminal, and a child in its own session has none.
_NEVER_ASK = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # empty: not core.askPass either
    "GCM_INTERACTIVE": "never",
    "GIT_EDITOR": ":",
    "GIT_OPTIONAL_LOCKS": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    "LC_MESSAGES": "C",
}
AGAIN_SECONDS: Final = (0.1, 0.2, 0.5)
"""The pauses before git is asked again: after a signal ended it, or while another git holds a lock (R12)."""
_NOT_REPEATED: Final = frozenset({"commit", "merge", "push"})
"""Commands that may have had a part of their effect: whoever gives them looks first, and asks again itself."""

USAGE: Final = 129
"""How git ends over an option that it does not know."""
OLDEST: Final = (2, 38)
"""Version that merges need; one before 2.32 would use the user's own settings where an agent's files are."""

_DROPPED_PREFIXES = ("GIT_", "PREFECT_", "IRONTREE_")
_SIGNING = ("GNUPGHOME", "GPG_TTY", "SSH_AUTH_SOCK")


def git_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Git's environment for the user's own repository; a forge's token is none of its business (`login.py`)."""
    base = without_credentials(base)
    kept = {name: value for name, value in base.items() if name in _KEPT or not name.startswith(_DROPPED_PREFIXES)}
    kept.pop("SSH_ASKPASS", None)
    everywhere = kept.pop("LC_ALL", None)  # would overrule LC_MESSAGES; hooks keep the user's character set
    return kept | ({"LANG": everywhere, "LC_CTYPE": everywhere} if everywhere else {}) | _NEVER_ASK


def store_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Git's environment for the private store: of the user's settings it reads those alone that are written for it."""
    return git_environment(scrubbed_environment(base, _SIGNING)) | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def hooks_environment(base: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Git's environment in *folder*, where hooks run: they may call what an agent has changed.

    Without its `.git`, the folder must not pass for part of a repository around it, such as the user's home.
    """
    return git_environment(scrubbed_environment(base, _KEPT)) | {"GIT_CEILING_DIRECTORIES": str(folder.parent)}


def require_new_git(environment: Mapping[str, str]) -> str:
    """The version of git on PATH; raises EnvironmentRefused for one that is missing or too old."""
    return _new_git(environment.get("PATH", os.defpath))


@cache
def _new_git(path: str) -> str:
    said = capture(["git", "version"], cwd=Path("/"), environment={"PATH": path}, seconds=READ_SECONDS).stdout.decode()
    found = re.search(r"(\d+)\.(\d+)[\w.]*", said)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise EnvironmentRefused(f"git is {found[0]}, and {oldest} is needed", remedy=f"install git {oldest} or later")
    return found[0] if found else said.strip()


class _Use(threading.local):
    """The reader kept for this thread: GitPython is not thread-safe."""

    kept: ExitStack | None = None
    repo: GitReader | None = None
    settings: tuple[Settings, object] | None = None
    """Those read last, and how their files were then."""


@dataclass(frozen=True, slots=True)
class Git:
    """git in one folder. Commands with effects, and the child kept for queries, are recorded children (R3)."""

    folder: Path
    children: ChildProcesses
    environment: Mapping[str, str] = field(repr=False)
    locks: Locks | None = field(default=None, repr=False)
    caller: Mapping[str, str] = field(repr=False, default_factory=dict)
    """The caller's environment, which may hold a token; git gets it by a helper at most."""
    _use: _Use = field(default_factory=_Use, repr=False, compare=False)

    def at(self, folder: Path) -> Git:
        """The same in another folder."""
        return replace(self, folder=folder, _use=_Use())

    def subjects(self, most: int) -> tuple[str, ...]:
        """The first lines of the newest commits of the checkout, merges left out; none without a commit."""
        return tuple(self.repo.git.log(f"-{most}", "--no-merges", "--format=%s", with_exceptions=False).splitlines())

    @property
    def repo(self) -> GitReader:
        """The reader of the repository, shared within a use."""
        from irontree.repository.reading import GitReader  # noqa: PLC0415  (GitPython: not needed to find the folder)

        repo = self._use.repo or GitReader(self)
        if self._use.kept:
            self._use.repo = repo
        return repo

    def settings(self) -> Settings:
        """All settings in force, as they are now."""
        answer = self.ask(*LISTING)
        if answer.exit_code == USAGE:
            require_new_git(self.environment)
        if answer.exit_code:
            raise self._failed(LISTING, answer.stderr.decode("utf-8", "replace"), answer.exit_code)
        found = parse_settings(answer.stdout.decode("utf-8", "surrogateescape"))
        self._use.settings = found, self._state_of(found)
        return found

    def settings_of_reader(self) -> Settings:
        """Those read last, if no reader has them yet and their files are the same, else those that are in force now."""
        known, self._use.settings = self._use.settings, None
        return known[0] if known and self._state_of(known[0]) == known[1] else self.settings()

    def _state_of(self, settings: Settings) -> object:
        """Something that differs once a file of the settings has been written."""
        stats = ((self.folder / path).stat() for path in settings.files)
        with suppress(OSError):
            return [(stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats]
        return object()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Keep the reader for the block (a verb or a step); a nested use shares the outer one."""
        with ExitStack() as kept:
            if not self._use.kept:
                kept.callback(vars(self._use).clear)
                self._use.kept = kept
            yield

    def answering(self, *words: str) -> Process | None:
        """A child that answers queries until the use ends; `None` outside a use."""
        if self._use.kept is None:
            return None
        child = self.children.answering(
            [*_WORDS, *words], cwd=self.folder, environment=self._for_reads, seconds=READ_SECONDS
        )
        return self._use.kept.enter_context(child)

    def ask(self, *words: str, stdin: bytes = b"") -> Captured:
        """Run a read-only command and return the result, whatever its exit code; again if a signal ended it."""
        for _ in AGAIN_SECONDS:
            answer = self._ask(words, stdin)
            if answer.exit_code >= 0:
                return answer
        return self._ask(words, stdin)

    def _ask(self, words: Sequence[str], stdin: bytes) -> Captured:
        return capture(
            [*_WORDS, *words], cwd=self.folder, environment=self._for_reads, seconds=READ_SECONDS, stdin=stdin
        )

    @property
    def _for_reads(self) -> dict[str, str]:
        """The environment of commands whose output is parsed."""
        return {**self.environment, "LC_ALL": "C"}

    def read(self, *words: str, stdin: bytes = b"", strict: bool = True) -> bytes:
        """The output of a read-only command. If *strict*, raises GitFailed on any exit code but 0."""
        answer = self.ask(*words, stdin=stdin)
        if strict and answer.exit_code:
            raise self._failed(words, answer.stderr.decode("utf-8", "replace"), answer.exit_code)
        return answer.stdout

    def find(self, *words: str) -> str | None:
        """The line that a read-only command prints; `None` on any exit code but 0."""
        answer = self.ask(*words)
        return answer.stdout.decode("utf-8", "surrogateescape").removesuffix("\n") if answer.exit_code == 0 else None

    def run(
        self,
        *words: str,
        stdin: bytes = b"",
        seconds: float = CHANGE_SECONDS,
        cancel: Cancellation | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Completed:
        """Run a command with effects, whatever its exit code. Raises Cancelled when asked to stop.

        It is given again if a signal ended it, or while a lock is in its way, unless it may have had an effect by then.
        """
        command = _command(words)
        given = partial(self._run, words, command, stdin, ProcessLimits(seconds, cancel=cancel), variables or {})
        done = given()
        for pause in AGAIN_SECONDS:
            if command in _NOT_REPEATED or not (was_killed(done) or lock_in_the_way(done.output)):
                break
            if (cancel or _NEVER).wait(pause):
                raise Cancelled(f"git {command} was stopped in {self.folder}")
            done = given()
        return done

    def _run(
        self, words: Sequence[str], command: str, stdin: bytes, limits: ProcessLimits, variables: Mapping[str, str]
    ) -> Completed:
        noted = self.locks.during(command, self.git_dir) if self.locks else nullcontext(lambda: None)
        with noted as ended_by_itself:
            done = self.children.run(
                [*_WORDS, *(NO_HOOKS if self.hooks_are_files else ()), *words],
                cwd=self.folder,
                environment={**self.environment, **variables},
                limits=limits,
                stdin=stdin,
                leave_daemons=True,
            )
            if done.ended == "exited" and (done.exit_code or 0) >= 0:
                ended_by_itself()
        if done.ended == "cancelled":
            raise Cancelled(f"git {command} was stopped in {self.folder}")
        lock = None if done.ok else lock_in_the_way(done.output)
        if self.locks and (lock or was_killed(done)):
            self.locks.clear(str(self.folder / lock) if lock else "")
        return done

    @property
    def hooks_are_files(self) -> bool:
        """Whether hooks of the user's repository are kept among its files: an agent's work may be published there."""
        locks = self.locks
        return isinstance(locks, UsersLocks) and self.repo.settings.keeps_hooks_in(locks.root, locks.common_dir)

    @property
    def git_dir(self) -> Path:
        """The folder of its own state: that of the repository, or of a linked worktree."""
        dot_git = self.folder / ".git"
        if not dot_git.is_file():
            return dot_git
        return self.folder / dot_git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()

    def exchange(self, remote: str, words: Sequence[str], *refspecs: str) -> Completed:
        """Run the command *words* with a remote, whose login no command line shows; as `run`."""
        ask = self.repo.git.remote
        fetched, pushed = (
            ask("get-url", "--all", *push, remote, with_exceptions=False).splitlines() for push in ((), ("--push",))
        )
        with reaching(remote, fetched, pushed, self.repo.settings.entries, self.caller) as reached:
            return self.run(*reached.words, *words, reached.name, *refspecs)

    def change(
        self,
        *words: str,
        stdin: bytes = b"",
        cancel: Cancellation | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> str:
        """The stripped output of a command with effects. Raises GitFailed on any exit code but 0."""
        done = self.run(*words, stdin=stdin, cancel=cancel, variables=variables)
        if not done.ok:
            raise self._failed(words, said(done), done.exit_code)
        return done.output.strip()

    def _failed(self, words: Sequence[str], output: str, exit_code: int | None) -> GitFailed:
        killed = (exit_code or 0) < 0 or bool(_DIED.search(output))
        message = output.strip() or (f"signal {-exit_code} ended it" if killed and exit_code else "no output")
        lock = lock_in_the_way(output)
        return GitFailed(
            f"git {_command(words)} failed in {self.folder}: {message}",
            output=output,
            killed=killed,
            remedy=way_past(self.folder / lock) if lock else None,
        )


def _command(words: Sequence[str]) -> str:
    return next(word for word in words if not word.startswith("-") and "=" not in word)


_DIED = re.compile(r"^(?!remote:).*died of signal \d+", re.MULTILINE)
_LOCKED = re.compile(
    r"^(?:error|fatal|warning): (?:.*Unable to create '(?P<lock>.+\.lock)'|could not lock config file (?P<config>.+))"
    r": File exists",
    re.MULTILINE,
)


def was_killed(done: Completed) -> bool:
    """Whether a signal ended git, or a part of it: it has refused nothing, and may be asked again."""
    return not done.ok and done.ended == "exited" and ((done.exit_code or 0) < 0 or bool(_DIED.search(done.output)))


def lock_in_the_way(output: str) -> str | None:
    """The lock file that git says exists already, as git names it; `None` if it says nothing of the kind."""
    found = _LOCKED.search(output)
    return (found["lock"] or f"{found['config']}.lock") if found else None


def way_past(lock: Path) -> str:
    """What a user does about a lock that is not ours."""
    return f"another git holds {lock}: wait for it; if none is at work in that repository, remove the file, then repeat"


def shown(path: str) -> str:
    """A path for events and reports, with a replacement mark for bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def said(done: Completed) -> str:
    """The output of a git child, and how it was ended if it did not exit by itself."""
    if done.ended == "exited":
        code = done.exit_code or 0
        return done.output if code >= 0 else f"{done.output}\nsignal {-code} ended git".lstrip()
    return f"{done.output}\ngit was stopped after {done.seconds:.0f} s ({done.ended})".lstrip()


# --- Git's messages when a remote does not answer or refuses, sorted by who must act


class _Refusal(NamedTuple):
    pattern: str
    reason: str
    remedy: str


# First match wins. Texts of git, OpenSSH, libcurl, GitHub, GitLab, Gitea and Bitbucket.
_REFUSALS = (
    _Refusal(
        r"protected branch|GH006|GH013|repository rule violations|not allowed to (push|force push)|branch is protected",
        "protected-branch",
        "allow pushes to it, or choose another publish.target_branch in .mino/config.yml",
    ),
    _Refusal(
        r"authentication failed|could not read (username|password)|terminal prompts disabled|permission denied \("
        r"|host key verification failed|invalid username or (password|token)|requested url returned error: 401"
        r"|too many authentication failures",
        "authentication",
        "make `git push` work without questions here: a credential helper, a token, or a key in the ssh agent",
    ),
    _Refusal(
        r"requested url returned error: 403|permission to .* denied|permission denied|write access .* not granted"
        r"|access denied|insufficient permission|read-only|archived",
        "no-write-access",
        "get write access to the remote, or choose another publish.remote in .mino/config.yml",
    ),
    _Refusal(
        r"branch is currently checked out",
        "remote-checked-out",
        "publish to a bare repository, or to a branch that the remote has not checked out",
    ),
    _Refusal(
        r"pre-receive hook declined|hook declined|update hook|declined by",
        "hook-declined",
        "read what the remote's hook said, and satisfy it",
    ),
    _Refusal(
        r"'refs/heads/\S+' exists; cannot create",
        "branch-name-taken",
        "rename or delete the branch of the remote that stands in the way: git keeps no branch below another one",
    ),
    _Refusal(
        r"does not appear to be a git repository|repository .*(not found|does not exist)|no such remote"
        r"|requested url returned error: 404",
        "remote-not-found",
        "check `git remote -v`",
    ),
    _Refusal(r"shallow update not allowed", "shallow-repository", "complete the history: `git fetch --unshallow`"),
    _Refusal(
        r"file size limit|exceeds .*(limit|maximum)|large files detected|push declined due to",
        "content-refused",
        "read what the remote said about the content",
    ),
)
# The remote is there, but another push was faster or the connection broke: a retry may work.
_TRANSIENT = re.compile(
    r"cannot lock ref|failed to (update|lock) ref|could not resolve host"
    r"|connection (timed out|refused|reset|closed)"
    r"|requested url returned error: (429|5\d\d)|early eof|operation timed out|network is unreachable|hung up",
    re.IGNORECASE,
)
# Rejections by git itself, on either side: the remote branch has commits that ours lacks.
_BEHIND = re.compile(r"^!\t.*\[(remote )?rejected\] \((non-fast-forward|fetch first|stale info)", re.MULTILINE)
# git's whole message when a hook on our side exits with an error.
_OWN_HOOK = re.compile(r"(?s)\A(?!.*(^!\t|\n!\t|fatal: )).*failed to push some refs")
# A lock in the remote: of a push that is at work, or of one that was killed there.
_REMOTE_LOCK = re.compile(r"cannot lock ref .*Unable to create '(?P<lock>.+\.lock)': File exists")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def is_behind(output: str) -> bool:
    """Whether a push (`--porcelain`) was refused because the target has moved on."""
    return bool(_BEHIND.search(output))


def remote_failure(what: str, output: str) -> RemoteFailed:
    """The exception for a failed exchange with a remote: PublicationRefused if a retry cannot help.

    An unknown message counts as transient: three of these in a row end in a question anyway.
    """
    text = _CREDENTIALS.sub("***", output.strip())
    message = f"{what}: {text or 'git gave no reason'}"
    if _OWN_HOOK.search(text):
        return PublicationRefused(
            message, reason="hook-declined", remedy="satisfy the pre-push hook of this repository"
        )
    if lock := lock_in_the_way(text):  # here, not there
        return RemoteUnavailable(message, remedy=way_past(Path(lock)))
    if locked := _REMOTE_LOCK.search(text):
        there = os.path.normpath(locked["lock"])
        stays = "if it stays there and no git is at work in that repository, remove the file"
        return RemoteUnavailable(f"{what}: the remote is locked by {there}; {stays}", remedy="remove it, then repeat")
    is_taken = "exists; cannot create" in text  # git says that a ref cannot be locked or updated there, too
    for refusal in () if _TRANSIENT.search(text) and not is_taken else _REFUSALS:
        if re.search(refusal.pattern, text, re.IGNORECASE):
            return PublicationRefused(message, reason=refusal.reason, remedy=refusal.remedy)
    return RemoteUnavailable(message, remedy="check the network and the remote, then try again")
