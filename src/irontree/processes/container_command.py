"""What a program that we start gets to see of the environment, and its command line in a container: pure (R4, R6)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from irontree.domain.plan import ContainerSpec

# What a program needs to find its tools, its own settings and the network. Whatever else the caller has (tokens of
# forges, PREFECT_*, GIT_*, CLAUDECODE, PYTHONPATH, VIRTUAL_ENV) stays with the caller. Proxies are passed:
# without them nothing works where they are needed, and who talks through one knows it anyway.
PASSED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "TMPDIR"),
        *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("JAVA_HOME", "GOPATH", "GOROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT"),
        *("ANDROID_HOME", "SDKROOT", "DEVELOPER_DIR"),
    }
)


def scrubbed_environment(base: Mapping[str, str], allow: Iterable[str] = ()) -> dict[str, str]:
    """What of *base* agents, checks and hooks may see: an allow-list, LC_*, and the names in *allow*."""
    names = PASSED.union(allow)
    return {name: value for name, value in base.items() if name in names or name.startswith("LC_")}


# --- The command lines by which a program runs in a container


# What is true on this machine alone. An image has its own tools, homes and certificates; text and proxies are common.
HERE_ALONE: Final = PASSED - {
    *("LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
}
_HOME: Final = "/tmp"  # noqa: S108  (in the container, where it is writable for whatever user)
_REFUSALS: Final = {
    r"^(?:docker: |Error: |Error response from daemon|OCI runtime|See 'docker )": (125, 126, 127),
    r"^\[FATAL tini": (126, 127),
    r"^ERROR \(catatonit\S*: failed to exec pid1": (1,),
}
"""How a line begins by which the engine, or the first process of the container, says that the program was not started
(docker-run(1), podman-run(1), tini, catatonit), and with which exit codes: programs use the same for what is theirs."""


@dataclass(frozen=True, slots=True)
class User:
    """Who we are here, by numbers: what is written in the container has to be ours."""

    uid: int
    gid: int

    @property
    def rootless(self) -> bool:
        """Whether Podman maps us to another user in the container unless told otherwise."""
        return self.uid != 0


def container_name(mark: str) -> str:
    """The name of the container of the child with that mark: what is recorded of the child says it."""
    return f"irontree-{mark}"


def command_in_container(
    container: ContainerSpec,
    argv: Sequence[str],
    *,
    mark: str,
    cwd: Path,
    variables: Iterable[str],
    folders: Iterable[Path],
    readable: Iterable[Path],
    user: User,
) -> list[str]:
    """Run *argv* in a new container, in *cwd*, which is there under the same path, as are *folders*.

    *readable* are there too, but cannot be written. *variables* are names alone: their values go by the environment of
    this command, where `ps` shows them to nobody else.
    """
    return [
        *(container.engine, "run", "--rm", "--init", "--interactive", "--pull=never"),
        *("--name", container_name(mark), "--workdir", str(cwd)),
        *_mounted(cwd, *folders),
        *(word for path in readable for word in ("--mount", _mount(path, path, readonly=True))),
        *(word for given in container.mounts for word in ("--mount", _configured(given))),
        *_identity(container, user),
        *(() if container.network else ("--network", "none")),
        *("--env", f"HOME={_HOME}"),
        *(word for name in _common(variables) for word in ("--env", name)),
        *container.options,
        container.image,
        *argv,
    ]


def removal(engine: str, mark: str) -> list[str]:
    """Kill and remove the container of that child: it outlives the program that started it."""
    return [engine, "rm", "--force", container_name(mark)]


def question_for(container: ContainerSpec) -> list[str]:
    """Ask whether the image is here."""
    return [container.engine, "image", "inspect", "--format", "{{.Id}}", container.image]


def never_ran(exit_code: int | None, output: str) -> bool:
    """Whether the engine ended with this because the program was not started."""
    return any(exit_code in codes and re.search(words, output, re.MULTILINE) for words, codes in _REFUSALS.items())


def _mounted(*folders: Path) -> Iterable[str]:
    return (word for folder in folders for word in ("--mount", _mount(folder, folder)))


def _mount(source: Path | str, target: Path | str, *, readonly: bool = False) -> str:
    """One line of CSV, as both engines read it."""
    fields = ("type=bind", f"source={source}", f"target={target}", *(("readonly",) if readonly else ()))
    return ",".join(_quoted(each) for each in fields)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"') else text


def _configured(given: str) -> str:
    """`SOURCE`, `SOURCE:TARGET`, either with `:ro`."""
    path, _, end = given.rpartition(":")
    readonly = end == "ro"
    source, _, target = (path if readonly else given).partition(":")
    return _mount(source, target or source, readonly=readonly)


def _identity(container: ContainerSpec, user: User) -> tuple[str, ...]:
    if container.user:
        return ("--user", container.user)
    mapped = ("--userns", "keep-id") if container.engine == "podman" and user.rootless else ()
    return (*mapped, "--user", f"{user.uid}:{user.gid}")


def _common(variables: Iterable[str]) -> list[str]:
    return sorted(name for name in variables if name not in HERE_ALONE)
