"""PostgreSQL, Redis, several Prefect API servers and workers on loopback, set up as the guide says it."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "how-to" / "grow-beyond-one-machine.md"
PREFECT = [sys.executable, "-m", "prefect"]
PATIENCE = 90.0


def program(name: str) -> str | None:
    """Where it is; Debian keeps the programs of PostgreSQL off the PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name) or next((path for folder in folders if (path := shutil.which(folder / name))), None)


def missing() -> list[str]:
    """The Debian packages whose programs are not here."""
    needed = {"postgresql": "initdb", "redis-server": "redis-server"}
    return [package for package, name in needed.items() if program(name) is None]


def settings_of_guide(database: str, redis: str) -> dict[str, str]:
    """The settings of all servers as the guide has them, with these addresses (HOST:PORT) for those in it."""
    [block] = re.findall(r"```ini\n(PREFECT_SERVER_DATABASE.*?)```", GUIDE.read_text(), re.DOTALL)
    pairs = [line.split("=", 1) for line in block.splitlines() if "=" in line]
    known = {"db.example.org:5432": database, "redis.example.org:6379": redis}
    found = dict(pairs)
    for example, address in known.items():
        found = {name: value.replace(example, address) for name, value in found.items()}
    return found


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def until(holds: Callable[[], object], what: str, *, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@dataclass
class Program:
    """One that was started, with its output in a file."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """As when the machine under it dies: at once, with all that it started."""
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self.process.pid)
            for process in [parent, *parent.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait()


@dataclass
class Cluster:
    """The parts, in *folder*; `servers` are the addresses (HOST:PORT) of the API servers."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    servers: list[str] = field(default_factory=list)
    programs: dict[str, Program] = field(default_factory=dict)
    front: str = ""

    @property
    def api_url(self) -> str:
        """The one address that everybody else is told."""
        return f"http://{self.front}/api"

    def api_of(self, number: int) -> str:
        """That of one server alone."""
        return f"http://{self.servers[number]}/api"

    def environment(self, **more: str) -> dict[str, str]:
        """For programs that use the servers: what a person's shell has, and where the servers are."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        home = {"PREFECT_HOME": str(self.folder / "prefect"), "PREFECT_API_URL": self.api_url, "DO_NOT_TRACK": "1"}
        return {**kept, "PATH": path, **home, **more}

    def start(
        self,
        name: str,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        cwd: Path | None = None,
        owner: int | None = None,
    ) -> Program:
        """Have it run, as the user *owner* if there is one, until the end of the cluster."""
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                words,
                cwd=cwd or self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=owner,
                extra_groups=None if owner is None else [],
            )
        self.programs[name] = Program(process, log)
        return self.programs[name]

    def run(self, *words: str, environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
        """Run a program to its end, which must be good; what it printed."""
        done = subprocess.run(
            words,
            cwd=cwd or self.folder,
            env=environment or self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def deploy(self, repository: Path, workspace_id: str) -> None:
        """Deploy the flows of `prefect.yaml` for one repository."""
        shutil.copyfile(ROOT / "prefect.yaml", self.folder / "prefect.yaml")
        where = {"IRONTREE_REPOSITORY": str(repository), "IRONTREE_ID": workspace_id}
        self.run(*PREFECT, "--no-prompt", "deploy", "--all", environment=self.environment(**where))

    @contextmanager
    def worker(self, queue: str, *, host: str | None = None) -> Iterator[Program]:
        """A worker for one queue, for the block; with *host*, on a machine that is called so (needs root)."""
        words = [*PREFECT, "worker", "start", "--pool", "irontree", "--work-queue", queue]
        if host:
            words = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host, *words]
        worker = self.start(f"worker-{queue}", words, self.environment(PREFECT_WORKER_QUERY_SECONDS="1"))
        try:
            yield worker
        finally:
            worker.kill()

    def serve_api(self, number: int) -> None:
        """Start the API server of that number, and wait until it answers."""
        host, port = self.servers[number].split(":")
        words = [*PREFECT, "server", "start", "--no-services", "--host", host, "--port", port]
        self.start(f"server-{number}", words, self._of_server())
        self.wait_for(number)

    def wait_for(self, number: int) -> None:
        until(lambda: _answers(self.api_of(number)), f"server {number} does not answer: {self.folder}")

    def _of_server(self) -> dict[str, str]:
        return {**self.environment(), **self.settings, "PREFECT_SERVER_UI_ENABLED": "false"}


@contextmanager
def cluster(folder: Path, servers: int = 2) -> Iterator[Cluster]:
    """Two stores, the services, and so many API servers behind one address, for the block."""
    database, redis = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    made = Cluster(folder, settings_of_guide(database, redis), [f"127.0.0.1:{free_port()}" for _ in range(servers)])
    with _owned_folder() as owned, ExitStack() as running:
        running.callback(lambda: [each.kill() for each in reversed(made.programs.values())])
        _start_redis(made, redis)
        _start_postgres(made, owned, database)
        _start_balancer(made)
        made.run(*PREFECT, "server", "database", "upgrade", "-y", environment={**made.environment(), **made.settings})
        made.start("services", [*PREFECT, "server", "services", "start"], {**made.environment(), **made.settings})
        for number in range(servers):
            made.serve_api(number)
        made.run(*PREFECT, "work-pool", "create", "irontree", "--type", "process")
        yield made


def _start_balancer(made: Cluster) -> None:
    made.front = f"127.0.0.1:{free_port()}"
    words = [sys.executable, str(Path(__file__).with_name("balancer.py")), made.front, *made.servers]
    made.start("balancer", words, made.environment())
    until(lambda: _listens(made.front), "the balancer does not listen")


def _start_redis(made: Cluster, address: str) -> None:
    words = ["redis-server", "--bind", "127.0.0.1", "--port", address.split(":")[1], "--save", "", "--dir", "."]
    made.start("redis", words, made.environment())
    until(lambda: _listens(address), "Redis does not listen")


def _start_postgres(made: Cluster, folder: Path, address: str) -> None:
    host, port = address.split(":")
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(folder)}
    owner = folder.stat().st_uid if os.geteuid() == 0 else None
    initdb = [program("initdb"), "-D", "data", "-U", "prefect", "-A", "trust", "--no-sync", "-E", "UTF8"]
    assert made.start("initdb", initdb, environment, cwd=folder, owner=owner).process.wait() == 0
    options = {"listen_addresses": host, "unix_socket_directories": "", "fsync": "off", "max_connections": "200"}
    words = [program("postgres"), "-D", "data", "-p", port, *(f"--{name}={value}" for name, value in options.items())]
    made.start("postgres", words, environment, cwd=folder, owner=owner)
    until(lambda: _accepts(host, port, environment), f"PostgreSQL does not start: {made.folder}")
    made.run(str(program("createdb")), "-h", host, "-p", port, "-U", "prefect", "prefect", environment=environment)


@contextmanager
def _owned_folder() -> Iterator[Path]:
    """A folder for PostgreSQL, which refuses to run as root: then it is nobody's, and where nobody gets to."""
    root = os.geteuid() == 0
    folder = Path(tempfile.mkdtemp(prefix="irontree-postgres-", dir="/tmp" if root else None))
    if root:
        os.chown(folder, pwd.getpwnam("nobody").pw_uid, -1)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _accepts(host: str, port: str, environment: Mapping[str, str]) -> bool:
    words = [program("pg_isready"), "-q", "-h", host, "-p", port]
    return subprocess.run(words, env=environment, check=False).returncode == 0


def _listens(address: str) -> bool:
    host, port = address.split(":")
    with suppress(OSError):
        socket.create_connection((host, int(port)), timeout=1).close()
        return True
    return False


def _answers(api_url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{api_url}/health", timeout=2, trust_env=False).status_code == 200
    return False
