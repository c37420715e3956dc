"""Where a program of ours may run: on the machine, in a pretended container, in real ones. For the contract of all."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from irontree.domain.places import OPEN, ContainerSpec, PlaceSpec
from irontree.processes.children import ChildProcesses
from irontree.processes.places import Places
from tests.support.processes import MemoryRegistry

FAKE = Path(__file__).with_name("fake_engine.py")
IMAGE = f"sha256:{'1' * 64}"
ABSENT = f"sha256:{'0' * 64}"


@dataclass
class Place:
    """Programs run here, as `spec` says; `environment` is that of who calls."""

    environment: Mapping[str, str]
    spec: PlaceSpec = OPEN
    registry: MemoryRegistry = field(default_factory=MemoryRegistry)
    slow: bool = False
    """Whether a second passes before a program is started."""

    @property
    def container(self) -> ContainerSpec | None:
        return self.spec.container

    def children(self, *folders: Path, registry: MemoryRegistry | None = None) -> ChildProcesses:
        made = ChildProcesses(registry or self.registry, grace_seconds=0.5, environment=self.environment)
        return made.within(self.spec, *folders)


def fake_place(folder: Path, name: str = "docker") -> Place:
    """A pretended engine on a PATH of its own; `calls.jsonl` in *folder* has how it was called."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -I {FAKE} "$@"\n')
    (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "DOCKER_FAKE_STATE": str(folder)}
    return Place(
        environment, in_container(ContainerSpec(engine="docker" if name == "docker" else "podman", image=IMAGE))
    )


def real_place(engine: str) -> Place | None:
    """The engine of this machine with an image of its own making; None where that does not work."""
    image = _image(engine)
    if image is None:
        return None
    spec = in_container(ContainerSpec.model_validate({"engine": engine, "image": image}))
    return Place(os.environ, spec, slow=True)


def in_container(container: ContainerSpec) -> PlaceSpec:
    return PlaceSpec(kind="container", container=container)


def bubblewrap_place(**shown: object) -> Place:
    """bubblewrap of this machine; skips, saying why, where it does not work."""
    if trouble := Places(os.environ).unconfined():
        pytest.skip(trouble)
    return Place(os.environ, PlaceSpec.model_validate({"kind": "bubblewrap", **shown}))


@cache
def _image(engine: str) -> str | None:
    """The id of an image with nothing but a static busybox: there is nothing to be pulled."""
    busybox = shutil.which("busybox")
    if shutil.which(engine) is None or busybox is None:
        return None
    done = subprocess.run(
        [engine, "import", "-", "irontree-test:latest"], input=_root(Path(busybox)), capture_output=True, check=False
    )
    if done.returncode != 0:
        return None
    said = done.stdout.decode().strip().splitlines()[-1]
    image = said if said.startswith("sha256:") else f"sha256:{said}"
    tried = [engine, "run", "--rm", "--init", "--pull=never", image, "sh", "-c", "exit 42"]
    return image if subprocess.run(tried, capture_output=True, check=False).returncode == 42 else None


def _root(busybox: Path) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(busybox, "bin/busybox")
        for name in ("sh", "cat", "echo", "sleep", "env", "touch", "seq", "id", "test", "pwd", "ls", "mkdir", "setsid"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, "busybox", 0o777
            archive.addfile(link)
        folder = tarfile.TarInfo("tmp")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        archive.addfile(folder)
    return data.getvalue()
