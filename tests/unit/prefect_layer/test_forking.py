"""Flow processes are forked off one that has imported everything, and has nothing that a fork would break."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from irontree.flows.serve.forking import FORKS

pytestmark = pytest.mark.skipif(not FORKS, reason="here each flow process is a Python of its own")
ROOT = Path(__file__).resolve().parents[3]
WHAT_IT_HOLDS = """
import gc, importlib, json, os, socket, ssl, sys, threading
import httpx
from irontree.flows.serve import forking, serving
for module in forking.PRELOADED:
    importlib.import_module(module)
held = [thing for thing in gc.get_objects() if isinstance(thing, (socket.socket, httpx.Client, httpx.AsyncClient))]
# The descriptor of the listing itself is one of them.
print(json.dumps([threading.active_count(), len(os.listdir("/proc/self/fd")), len(held)]))
"""
THREE_PROCESSES = """
import asyncio, json, os, sys
import anyio
from irontree.flows.serve.forking import ForkServer

class Started:
    def started(self, value):
        self.value = value

async def process(forks, environment, folder):
    return await forks.run_process(
        [], task_status=Started(), task_status_handler=lambda process: process, env=environment, cwd=folder
    )

async def main(forks):
    following = asyncio.ensure_future(await forks.use())
    ends = await asyncio.gather(*(process(forks, {"PREFECT__FLOW_RUN_ID": name}, "/") for name in ("a", "b", "c")))
    print(json.dumps([end.returncode for end in ends]), len({end.pid for end in ends}))
    following.cancel()

asyncio.run(main(ForkServer()))
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, capture_output=True, text=True, check=True
    )


def test_what_it_has_imported_started_no_thread_and_opened_nothing():
    threads, descriptors, held = json.loads(run(WHAT_IT_HOLDS).stdout)
    assert (threads, descriptors, held) == (1, 4, 0)


def test_each_process_is_the_engine_with_its_own_environment_and_its_end_is_told():
    """These have a wrong run id each, which the engine says and ends with 1."""
    done = run(THREE_PROCESSES)
    assert done.stdout == "[1, 1, 1] 3\n"
    assert done.stderr.count("Invalid flow run id") == 3
