"""Any agent that speaks the Agent Client Protocol on its stdin and stdout: `gemini --acp`, `opencode acp`, ...

It gets the environment and the variables of the adapter `command`; the prompt comes in the protocol. The end of the
turn is its terminal record: how the program ends after that says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from irontree.agents import acp_messages as acp
from irontree.agents.acp_session import Ended, Session
from irontree.agents.meter import Meter
from irontree.agents.reading import failure_in, failure_of_status, retry_time
from irontree.agents.transcript import Ear, Surroundings, Transcript, filled
from irontree.clock import SystemClock
from irontree.domain.attempt import Claim, FailureClass
from irontree.domain.plan import AgentSpec
from irontree.errors import ConfigRefused
from irontree.ports import AgentResult, AgentTask, Cancellation, Progress
from irontree.processes import Children, Completed, Limits

_TROUBLE = re.compile(r"^(?:API )?Error: .*", re.MULTILINE | re.DOTALL)
_BY_STOP_REASON: Mapping[str, FailureClass] = {
    "refusal": "refused",
    "max_tokens": "limit_reached",
    "max_turn_requests": "limit_reached",
}


class AcpAgent:
    """The port `CodingAgent` for a program that speaks the protocol."""

    def __init__(self, spec: AgentSpec, children: Children, environment: Mapping[str, str]) -> None:
        """Run the words of `spec.command`; *environment* is the caller's. Raises ConfigRefused if there are none."""
        if not spec.command:
            raise ConfigRefused(
                "agent.command is empty",
                remedy="name a program that speaks the Agent Client Protocol in agent.command, such as `gemini --acp`",
            )
        self._spec = spec
        self._children = children
        self._surroundings = Surroundings(spec, environment)

    def no_access(self) -> str | None:
        """Nothing: the protocol tells only once a session is asked for."""
        return None

    def attempt(self, task: AgentTask, *, cancel: Cancellation, progress: Progress) -> AgentResult:
        """Hold one session with one prompt; all processes are gone when this returns.

        In `task.transcript`: `prompt.md`, `result.json`, and in `output.log` what was shown and came on stderr.
        """
        transcript = Transcript(task)
        with transcript.open_output() as log:
            ear = Ear(log, progress, str.rstrip, self._surroundings)
            session = Session(
                task.prompt,
                task.workspace,
                self._spec.permissions,
                lambda text: ear.hear(_line(text)),
            )
            meter = Meter(task.allowance, cancel, lambda: session.usage)
            done = self._children.within(self._spec.container, task.transcript).run(
                filled(self._spec.command, task, transcript.prompt_file),
                cwd=task.workspace,
                environment=self._surroundings.variables(task, transcript),
                limits=Limits(self._spec.wall_seconds, self._spec.stall_seconds, meter),
                on_line=ear.hear,
                conversation=session,
            )
        result = self._observed(done, session, "\n".join(ear.told))
        result = replace(result, ended="over_budget") if meter.exceeded and result.ended == "cancelled" else result
        transcript.conclude(self._spec.command, result)
        return result

    def _observed(self, done: Completed, session: Session, tail: str) -> AgentResult:
        claim, failure = _read(session, done)
        words = self._hidden(claim.words) if claim else ""
        return AgentResult(
            ended=done.ended,
            exit_code=0 if done.ended == "exited" and session.over else done.exit_code,
            seconds=round(done.seconds, 3),
            output_tail=tail or self._hidden(done.output),
            claim=Claim(claim.ok, claim.kind, words) if claim else None,
            failure=failure,
            retry_at=retry_time(words, SystemClock().now()) if failure == "rate_limited" else None,
            usage=session.usage,
            session=self._hidden(session.session) if session.session else None,
            denied=tuple(self._hidden(words) for words in session.denied),
        )

    def _hidden(self, text: str) -> str:
        return self._surroundings.without_secrets(text.encode(errors="replace")).decode()


def _line(text: str) -> bytes:
    return f"{text}\n".encode(errors="replace")


def _read(session: Session, done: Completed) -> tuple[Claim | None, FailureClass | None]:
    """What the end of the session says; a program that goes before its turn has ended has failed, whatever its code."""
    match session.ended:
        case Ended(stop_reason="end_turn") if trouble := _told_trouble(session):
            return Claim(False, "end_turn", trouble), failure_in(trouble)
        case Ended(stop_reason=reason) if reason:
            return Claim(reason == "end_turn", reason, session.words), _BY_STOP_REASON.get(reason)
        case Ended(code=code, words=words):
            return Claim(False, "error" if code is None else f"error {code}", words), _failure(code, words)
        case None if done.ended == "exited":
            return Claim(
                False, "no answer", f"its program ended with exit code {done.exit_code} before it had answered"
            ), None
        case _:
            return None, None


def _told_trouble(session: Session) -> str:
    """What an agent told in its words that should have been an error: some end their turn well on a refused log-in."""
    found = _TROUBLE.search(session.words)
    return found[0] if found and not session.has_worked else ""


def _failure(code: int | None, words: str) -> FailureClass | None:
    """The class of an error: by the protocol's own code, by an HTTP status in its place, else by the words."""
    if code == acp.AUTH_REQUIRED:
        return "not_authenticated"
    return failure_of_status(code) or failure_in(words.removeprefix("Internal error"))
