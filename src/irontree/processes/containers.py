"""The environment of the programs that we start, and running them in a container (rulings R3, R4, R6).

A container is started by the engine's own program, and ended through it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from irontree.domain.places import ContainerSpec
from irontree.errors import EnvironmentRefused
from irontree.ports import Blocker
from irontree.processes.family import MARK, MOST_OF_ONE
from irontree.processes.handing import ask
from irontree.processes.running import Captured, capture

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


FORGE_VARIABLES: Final = frozenset(
    {
        *("GITEA_TOKEN", "FORGEJO_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"),
        *("GITHUB_APP_ID", "GITHUB_APP_INSTALLATION_ID", "GITHUB_APP_PRIVATE_KEY", "GITHUB_APP_PRIVATE_KEY_FILE"),
    }
)
"""The variables with the credential for a forge: only a process that calls one has them, and none gives them on."""


def without_credentials(base: Mapping[str, str]) -> dict[str, str]:
    """*base* without the credential for a forge."""
    return {name: value for name, value in base.items() if name not in FORGE_VARIABLES}


def credentials_in(base: Mapping[str, str]) -> dict[str, str]:
    """The credential for a forge that *base* has."""
    return {name: base[name] for name in sorted(FORGE_VARIABLES & base.keys())}


CREDENTIALS: Final = "IRONTREE__CREDENTIALS"
"""The variable with the socket at which a flow process is told the credential for the forge that its runner has."""
TRIES: Final = 3
PAUSE: Final = 0.2
"""Seconds before a runner is asked again."""


def given_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """This process's environment, and the credential for the forge that its runner has, if it has one.

    Raises EnvironmentRefused if the runner lives and gives no answer.
    """
    path = environ.get(CREDENTIALS)
    if path is None:
        return dict(environ)
    try:
        return {**environ, **_told(path)}
    except (FileNotFoundError, ConnectionRefusedError):  # the runner is gone, and a flow process ends with it
        return dict(environ)


def _told(path: str) -> dict[str, str]:
    """The credential that the runner has; raises FileNotFoundError or ConnectionRefusedError if the runner is gone."""
    trouble = ""
    for _ in range(TRIES):
        try:
            told: dict[str, str] = json.loads(ask(path))
        except (FileNotFoundError, ConnectionRefusedError):
            raise
        except (OSError, ValueError) as error:
            trouble = str(error)
            time.sleep(PAUSE)
        else:
            return told
    raise EnvironmentRefused(
        f"The process that serves the flows does not tell the credential for the forge: {trouble}",
        remedy="where this does not end by itself, start `irontree serve` again",
    )


# --- The command lines by which a program runs in a container


# Variables valid on this machine only: an image has its own tools, homes and certificates, but shares text and proxies.
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
"""Line beginnings by which the engine or the container's first process reports that the program was not started
(docker-run(1), podman-run(1), tini, catatonit), with their exit codes, which programs also use themselves."""


def container_name(mark: str) -> str:
    """The name of the child's container, derived from the mark that is recorded for the child."""
    return f"irontree-{mark}"


def never_ran(exit_code: int | None, output: str) -> bool:
    """Whether the engine ended with this because the program was not started."""
    return any(exit_code in codes and re.search(words, output, re.MULTILINE) for words, codes in _REFUSALS.items())


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


def _identity(container: ContainerSpec, user: tuple[int, int]) -> tuple[str, ...]:
    """Podman maps all but root to another user in the container unless told otherwise."""
    uid, gid = user
    if container.user:
        return ("--user", container.user)
    mapped = ("--userns", "keep-id") if container.engine == "podman" and uid != 0 else ()
    return (*mapped, "--user", f"{uid}:{gid}")


# --- The engine


_ENGINE_SECONDS: Final = 60.0
_SETTINGS: Final = ("DOCKER_", "CONTAINER_", "CONTAINERS_")
"""Prefixes of the variables that say where the engine is, and how it is reached."""
_SANCTUARY: Final = Path("/")
"""An engine's program is not started in a folder that an agent may have changed."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Docker or Podman; *environment* is the caller's, of which the engine's program gets what it needs."""

    environment: Mapping[str, str] = field(repr=False)
    user: tuple[int, int] = field(default_factory=lambda: (os.getuid(), os.getgid()))
    """Our uid and gid: what is written in a container has to be ours."""

    def command(
        self,
        container: ContainerSpec,
        argv: Sequence[str],
        *,
        mark: str,
        cwd: Path,
        environment: Mapping[str, str],
        folders: Sequence[Path],
        readable: Sequence[Path] = (),
        network: bool = True,
    ) -> tuple[list[str], dict[str, str]]:
        """The words that run *argv* in a new container, in *cwd*, and the environment of the engine's program itself.

        *cwd* and *folders* are there under the same paths, and *readable* too, which cannot be written. The words hold
        names of variables alone: their values go by the environment, where `ps` does not show them to other users.
        """
        words = [
            *(container.engine, "run", "--rm", "--init", "--interactive", "--pull=never"),
            *("--name", container_name(mark), "--workdir", str(cwd)),
            *(word for path in (cwd, *folders) for word in ("--mount", _mount(path, path))),
            *(word for path in readable for word in ("--mount", _mount(path, path, readonly=True))),
            *(word for given in container.mounts for word in ("--mount", _configured(given))),
            *_identity(container, self.user),
            *(() if container.network and network else ("--network", "none")),
            *("--env", f"HOME={_HOME}"),
            *(word for name in sorted({*environment, MARK} - HERE_ALONE) for word in ("--env", name)),
            *(("--pids-limit", str(MOST_OF_ONE)) if container.engine == "docker" else ()),  # Podman has its own
            *container.options,
            container.image,
            *argv,
        ]
        return words, {**environment, **self._own()}

    def remove(self, engine: str, mark: str) -> bool:
        """Kill and remove the container of that child; False if there is none.

        Raises EnvironmentRefused if that cannot be said: a program may still be at work in it.
        """
        done = self._ask([engine, "rm", "--force", container_name(mark)])
        said = done.stderr.decode("utf-8", "replace").strip()
        if "no such container" in said.lower():
            return False
        if done.exit_code != 0:
            raise EnvironmentRefused(
                f"the container {container_name(mark)} of a program that is to end cannot be removed: {said}",
                remedy=f"see that {engine} works, or remove it: {engine} rm --force {container_name(mark)}",
            )
        return bool(done.stdout.strip())

    def blockers(self, container: ContainerSpec) -> tuple[Blocker, ...]:
        """Why nothing can be run in it now; nothing is pulled."""
        if shutil.which(container.engine, path=self.environment.get("PATH", os.defpath)) is None:
            remedy = f"install {container.engine}, or take `container` out of .mino/config.yml"
            return (Blocker("container-engine", f"{container.engine} is not on PATH", remedy),)
        done = self._ask([container.engine, "image", "inspect", "--format", "{{.Id}}", container.image])
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        if done.exit_code == 0:
            return ()
        if "no such image" in said.lower() or "image not known" in said.lower():
            missing = f"the image {container.image} is not on this machine"
            return (Blocker("container-image", missing, _way_to(container)),)
        remedy = f"start it, or see what it says: {container.engine} info"
        return (Blocker("container-engine", f"{container.engine} does not work here: {said}", remedy),)

    def _ask(self, words: Sequence[str]) -> Captured:
        return capture(words, cwd=_SANCTUARY, environment=self._own(), seconds=_ENGINE_SECONDS)

    def _own(self) -> dict[str, str]:
        return {
            name: value for name, value in self.environment.items() if name in HERE_ALONE or name.startswith(_SETTINGS)
        }


def _way_to(container: ContainerSpec) -> str:
    if "@" in container.image:
        return f"{container.engine} pull {container.image}"
    return f"build or load it again: it had that id when it was approved ({container.engine} image ls --no-trunc)"
