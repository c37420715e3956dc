"""Bare Prefect: what `bar_b_prefect`, `bar_g_scale` and the last row of `bar_f_memory` are compared with.

Does: the same flow runs in the same nesting, a `loop` run that starts one `issue` run of another deployment and waits
for its end, with three task runs in it; async, no retries, nothing persisted or cached, as ours.

Does not: any work, locks, logs, events, artifacts, run names, or questions. It asks Prefect ten times a second whether
the issue's run has ended; ours looks at its own log as often.
"""

from __future__ import annotations

from prefect import flow, suspend_flow_run, task
from prefect.cache_policies import NO_CACHE
from prefect.deployments import arun_deployment
from prefect.input import RunInput

LOOK_EVERY = 0.1


@task(cache_policy=NO_CACHE, persist_result=False)
async def run_stage() -> None:
    """Nothing."""


@task(cache_policy=NO_CACHE, persist_result=False)
async def verify_stage() -> None:
    """Nothing."""


@task(cache_policy=NO_CACHE, persist_result=False)
async def checkup_stage() -> None:
    """Nothing."""


@flow(name="bare-issue", retries=0, persist_result=False)
async def issue() -> None:
    """Three task runs."""
    await run_stage()
    await verify_stage()
    await checkup_stage()


class Answer(RunInput):
    """A form with one line."""

    decision: str


@flow(name="bare-question", retries=0, persist_result=False)
async def question() -> None:
    """Suspended until somebody answers; then it ends."""
    await suspend_flow_run(wait_for_input=Answer.with_initial_data(description="Go on?"), key="question")


@flow(name="bare-loop", retries=0, persist_result=False)
async def loop(deployment: str, issue_key: str) -> None:
    """One run of *deployment*, under that idempotency key."""
    await arun_deployment(deployment, idempotency_key=issue_key, as_subflow=False, poll_interval=LOOK_EVERY)
