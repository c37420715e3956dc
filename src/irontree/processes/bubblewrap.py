"""Running a program in bubblewrap: it sees the system, its workspace, and what the approved plan names (R3, R6).

What is not named here does not exist for it: the root is empty at first. See docs/decisions/0023-sandbox.md.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import irontree
from irontree.domain.places import PlaceSpec
from irontree.errors import EnvironmentRefused
from irontree.processes.running import capture

PROGRAM: Final = "bwrap"
REMEDY: Final = "install bubblewrap and allow user namespaces, or choose another `sandbox.kind`: docs/how-to/sandbox.md"
_SECONDS: Final = 20.0
_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix/store", "/gnu/store", "/snap"),
)
_SETTINGS: Final = ("/etc", "/opt", "/usr/local/etc")
"""Folders of the system in which services keep keys and passwords."""
_SETTINGS_DEPTH: Final = 4
_READ_AND_ENTER: Final = stat.S_IROTH | stat.S_IXOTH
_TMP: Final = "/tmp"  # noqa: S108  (a private one)
_HERE_ALONE: Final = re.compile(
    r"XDG_\w+|TMPDIR|CARGO_HOME|GOPATH|GOMODCACHE|GRADLE_USER_HOME|SSH_AUTH_SOCK|SSH_AGENT_PID|GPG_AGENT_INFO|DBUS_\w+"
    r"|DISPLAY|WAYLAND_\w+|XAUTHORITY|DOCKER_HOST|CONTAINER_HOST|PULSE_\w+"
)
"""Variables that name a socket, or a folder that is not there; without them programs use their home and `/tmp`."""
_TOOLCHAINS: Final = (
    *(".pyenv", ".rbenv", ".nodenv", ".rvm", ".nvm", ".fnm", ".volta", ".asdf", ".bun", ".deno", ".sdkman", ".dotnet"),
    *(".rustup", ".cargo/bin", "go/bin", ".nix-profile", ".npm-global", ".linuxbrew", ".local/bin", ".local/lib"),
    *(".local/pipx", "miniconda3", "miniforge3", "anaconda3", ".jdks", "sdk", "Android/Sdk"),
    *(f".local/share/{name}" for name in ("pipx", "uv", "fnm", "mise", "pnpm", "claude")),
)
"""Where toolchains are below a home. Caches of packages are not among them: one attempt could poison the next."""
_NAMED: Final = (
    *("JAVA_HOME", "GOROOT", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT", "ANDROID_HOME", "ANDROID_SDK_ROOT", "SDKROOT"),
)
_ONLY_BIN: Final = ("CARGO_HOME", "GOPATH")
"""Variables that name a folder with programs beside log-ins and caches."""
_BINS: Final = frozenset({"bin", ".bin", "sbin"})


def never_ran(exit_code: int | None, output: str) -> bool:
    """Whether bubblewrap ended with this because the program was not started: it has then said nothing else."""
    return exit_code == 1 and re.fullmatch(r"bwrap: [^\n]*\n?", output) is not None


@dataclass(frozen=True)
class Bubblewrap:
    """bubblewrap on this machine; *environment* is the caller's, on whose PATH it is."""

    environment: Mapping[str, str] = field(repr=False)

    @cached_property
    def trouble(self) -> str:
        """Why it does not work here; empty if it does. Tried once: user namespaces may be forbidden."""
        return _tried(self.environment.get("PATH", os.defpath))

    def command(
        self,
        place: PlaceSpec,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        folders: Sequence[Path],
        readable: Sequence[Path],
    ) -> tuple[list[str], dict[str, str]]:
        """The words that run *argv* in *cwd* and the environment of it; all folders keep their paths.

        *cwd* and *folders* can be changed, *readable* only be read. Later words cover earlier ones.
        """
        home = _home(environment)
        writable = [_expanded(path, home) for path in place.write]
        kept = {
            name: value
            for name, value in environment.items()
            if not _HERE_ALONE.fullmatch(name) or _is_below(value, writable)
        }
        words = [
            shutil.which(PROGRAM, path=self.environment.get("PATH", os.defpath)) or PROGRAM,
            *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
            *(() if place.network else ("--unshare-net",)),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"),
            *_system(),
            *(word for folder in _SETTINGS for word in _hidden(folder)),
            *("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--symlink", "../run", "/var/run"),
            *("--tmpfs", _TMP, "--tmpfs", "/var/tmp"),  # noqa: S108  (private ones)
            *(() if home == _TMP else ("--tmpfs", home)),
            *_bound("--ro-bind", _topmost(self._readable(argv, environment, home, readable))),
            *_bound("--ro-bind", (_expanded(path, home) for path in place.read)),  # also what is hidden above
            *_bound("--bind", writable),
            *_bound("--bind", map(str, (*folders, cwd))),
            *("--remount-ro", "/", "--chdir", str(cwd), "--"),
            *argv,
        ]
        return words, {**kept, "HOME": home}

    def _readable(
        self, argv: Sequence[str], environment: Mapping[str, str], home: str, more: Sequence[Path]
    ) -> Iterator[str]:
        yield from _name_service()
        yield from (path for path in _needed(argv, environment, home) if not _is_below(home, (path,)))
        yield from (word for word in argv[1:] if word.startswith("/") and os.path.isfile(word))  # noqa: PTH113
        yield from map(str, more)


def _topmost(paths: Iterable[str]) -> Iterator[str]:
    """*paths* without those that are in another one, or in the system."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not _is_below(path, (*kept, *_SYSTEM)):
            kept.append(path)
    yield from kept


def _home(environment: Mapping[str, str]) -> str:
    """Where its home is: at the usual place, unless that is one of the system's."""
    home = os.path.normpath(environment.get("HOME", _TMP))
    if not home.startswith("/") or home.startswith("//") or home == "/" or _is_below(home, (*_SYSTEM, "/dev", "/proc")):
        return _TMP
    return home


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path.startswith("~/") else path


def _bound(option: str, paths: Iterable[str]) -> Iterator[str]:
    """Words that show each of *paths* that exists."""
    for path in paths:
        if os.path.exists(path):  # noqa: PTH110  (called for many paths before each start)
            yield from (option, path, path)


@cache
def _system() -> tuple[str, ...]:
    words: list[str] = []
    for path in _SYSTEM:
        if os.path.islink(path):  # noqa: PTH114
            words += ["--symlink", str(Path(path).readlink()), path]
        else:
            words += _bound("--ro-bind", (path,))
    return tuple(words)


def _hidden(folder: str, depth: int = _SETTINGS_DEPTH) -> Iterator[str]:
    """Words that hide what is below *folder* for us as root, or by a group of ours, and not for others.

    A sandbox has none of root's rights, but root's files are its own, whatever its user is called inside.
    """
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not entry.is_symlink()]
    except OSError:
        return
    us = os.getuid()
    for entry in entries:
        try:
            seen = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # it is gone meanwhile
            continue
        is_folder = stat.S_ISDIR(seen.st_mode)
        needed = _READ_AND_ENTER if is_folder else stat.S_IROTH
        if seen.st_mode & needed == needed:
            if is_folder and depth > 1:
                yield from _hidden(entry.path, depth - 1)
        elif os.access(entry.path, os.R_OK) and (seen.st_uid != us or us == 0):
            yield from ("--tmpfs", entry.path) if is_folder else ("--ro-bind", "/dev/null", entry.path)


def _name_service() -> tuple[str, ...]:
    """The file that says whom to ask for addresses, where it is in `/run`, which is empty otherwise."""
    real = os.path.realpath("/etc/resolv.conf")
    return (real,) if real.startswith(("/run/", "/mnt/")) else ()


# --- Where programs really are


def _needed(argv: Sequence[str], environment: Mapping[str, str], home: str) -> Iterator[str]:
    """Where the programs on PATH and the one in *argv* are, and the toolchains that variables name."""
    yield from _tools(environment.get("PATH", os.defpath), home)
    named = [environment.get(name, "") for name in _NAMED]
    named += [f"{environment[name]}/bin" for name in _ONLY_BIN if name in environment]
    yield from (os.path.normpath(path) for path in named if path.startswith("/"))
    yield from _program(argv[0], home)


@cache
def _tools(path: str, home: str) -> tuple[str, ...]:
    """The folders outside of the system that the programs on *path* need; this program's own among them."""
    entries = [entry for entry in path.split(os.pathsep) if entry.startswith("/") and not _is_system(entry)]
    roots = [f"{home}/{name}" for name in _TOOLCHAINS]
    roots += [root for entry in entries for root in _roots(entry, home)]
    return tuple(root for root in dict.fromkeys((*roots, *_own())) if root)


def _own() -> tuple[str, ...]:
    """This package, for `irontree agents record`, which is an agent."""
    return (str(Path(irontree.__file__).parent),)


def _roots(folder: str, home: str) -> Iterator[str]:
    """A folder on PATH, and what its programs lead to; one that we may not read has none."""
    yield folder
    yield _prefix(folder, home)
    with suppress(OSError), os.scandir(folder) as entries:
        for link in [entry.path for entry in entries if entry.is_symlink()]:
            yield from _program(link, home)


def _program(program: str, home: str) -> tuple[str, ...]:
    """A program that is named by its path, and the folder that it needs; nothing of the system's."""
    if not program.startswith("/"):
        return ()
    real = os.path.realpath(program)
    if not os.path.isfile(real):  # noqa: PTH113
        return ()
    before, modules, _ = real.partition("/node_modules/")
    folder = f"{before}/node_modules" if modules else _prefix(str(Path(real).parent), home)
    found = (program, _prefix(str(Path(program).parent), home), real, folder)
    return tuple(path for path in found if path and not _is_system(path))


def _prefix(folder: str, home: str) -> str:
    """The folder X where programs in *folder*, `X/bin` or `X/shims`, are installed; empty if it looks like none."""
    parent, name = os.path.split(folder)

    def has(*names: str) -> bool:
        return any(os.path.exists(f"{parent}/{each}") for each in names)  # noqa: PTH110  (raises nothing)

    if _is_below(home, (parent,)):
        return ""
    if name == "shims":  # of pyenv, rbenv, asdf or mise, which may be clones of git
        return parent if has("versions", "installs") else ""
    if name not in _BINS or has(".git"):
        return ""
    is_prefix = name == ".bin" or has("pyvenv.cfg") or (not _is_below(folder, (home,)) and has("lib", "lib64"))
    return parent if is_prefix else ""


def _is_system(path: str) -> bool:
    return _is_below(path, _SYSTEM)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


@cache
def _tried(path: str) -> str:
    """Whether a sandbox can be made, with the bubblewrap on *path*; in words why not."""
    program = shutil.which(PROGRAM, path=path)
    if program is None:
        return "bubblewrap (bwrap) is not on PATH"
    made = Bubblewrap({"PATH": path})
    words, environment = made.command(
        PlaceSpec(kind="bubblewrap", network=False),
        ("/bin/true",),
        cwd=Path("/usr"),
        environment={"PATH": path},
        folders=(),
        readable=(),
    )
    try:
        done = capture(words, cwd=Path("/"), environment=environment, seconds=_SECONDS)
    except EnvironmentRefused as error:
        return f"bubblewrap does not work here: {error.message}"
    if done.exit_code == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.exit_code}"]
    return f"bubblewrap does not work here: {said[-1]}"
