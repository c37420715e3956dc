"""Any agent that speaks the Agent Client Protocol on its stdin and stdout: `gemini --acp`, `opencode acp`, ...

It starts no program and reads no clock: lines come in, lines go out, and at the end `ended` says how it went.
Everything the agent asks is answered at once: permission by the approved rules, and whatever we do not
offer (files, terminals, forms) as an unknown method.

It gets the environment and the variables of the adapter `command`; the prompt comes in the protocol. The end of the
turn is its terminal record: how the program ends after that says nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from irontree.agents import acp_messages as acp
from irontree.agents.reading import UsageMeter, failure_in, failure_of_status, retry_time
from irontree.agents.transcript import OutputReader, Surroundings, begin, filled
from irontree.app import SystemClock
from irontree.domain.agents import AgentSpec
from irontree.domain.attempt import Claim, FailureClass, Usage
from irontree.domain.permissions import PermissionRule, ToolRequest, denials
from irontree.errors import ConfigRefused
from irontree.ports import AgentResult, AgentTask, Cancellation, Progress
from irontree.processes.children import ChildProcesses, Completed
from irontree.processes.family import ProcessLimits

_INITIALIZE, _NEW_SESSION, _PROMPT = range(3)
WORDS_CHARACTERS = 500
# Programs put remarks of their own among the model's words, as whole pieces and without line ends.
_REMARK = re.compile(r"(?:API )?(?:Error|Warning|Info): ")
LINE_CHARACTERS = 500
SAID_CHARACTERS = 64 * 1024


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a session ended: with the protocol's *stop_reason*, or an error's *code* and *words*."""

    stop_reason: str = ""
    code: int | None = None
    words: str = ""


@dataclass
class AcpSession:
    """The port `Conversation` for one prompt; *note* gets the lines for the progress shown."""

    prompt: str
    workspace: Path
    rules: Sequence[PermissionRule]
    note: Callable[[str], None]
    ended: SessionEnd | None = None
    session: str | None = None
    usage: Usage = field(default_factory=Usage)
    denied: list[str] = field(default_factory=list)
    _calls: dict[str, acp.ToolCall] = field(default_factory=dict)
    _logins: tuple[str, ...] = ()
    _said: str = ""
    _unshown: str = ""
    _stopping: bool = False

    def __post_init__(self) -> None:
        self.workspace = self.workspace.resolve()

    @property
    def over(self) -> bool:
        """Whether the prompt is answered, or never will be."""
        return self.ended is not None

    @property
    def has_worked(self) -> bool:
        """Whether it used any tool."""
        return bool(self._calls)

    @property
    def words(self) -> str:
        """The end of what it said last."""
        return self._said.strip()[-WORDS_CHARACTERS:]

    def begin(self) -> bytes:
        """Send our greeting."""
        return acp.initialize(_INITIALIZE)

    def stop(self) -> bytes:
        """Cancel the turn; before there is one, there is nothing to cancel."""
        self._stopping = True
        return acp.cancel(self.session) if self.session else b""

    def hear(self, line: bytes) -> bytes:
        """Handle one message; returns the answer to send."""
        match found := acp.read(line):
            case {"method": str(method), "id": int(identity) | str(identity)}:
                return self._answer(identity, method, found.get("params"))
            case {"method": str(method)}:
                if method == acp.UPDATE:
                    self._learn(found.get("params"))
            case {"id": int(identity) | str(identity), "error": {"code": int(code)} as error}:
                if identity in {_INITIALIZE, _NEW_SESSION, _PROMPT}:
                    self._end(SessionEnd(code=code, words=self._with_logins(code, acp.fault_words(error))))
            case {"id": int(identity) | str(identity), "result": result}:
                return self._go_on(identity, result)
            case _:  # a line that is no message: some programs greet on stdout
                if text := line.decode("utf-8", "replace").strip():
                    self._show(text)
        return b""

    def _go_on(self, identity: int | str, result: object) -> bytes:
        if identity == _INITIALIZE:
            return self._open(acp.read_greeting(result))
        if identity == _NEW_SESSION:
            return self._give_work(acp.read_session(result))
        if identity == _PROMPT:
            stop_reason, spent = acp.read_end(result)
            self.usage = replace(spent, cost_usd=self.usage.cost_usd)
            self._end(
                SessionEnd(stop_reason, words="" if stop_reason else "it ended for no reason that the protocol knows")
            )
        return b""

    def _open(self, greeting: acp.Greeting | None) -> bytes:
        if greeting is None or greeting.version != acp.VERSION:
            spoken = f"version {greeting.version}" if greeting else "something else"
            self._end(
                SessionEnd(words=f"it speaks {spoken} of the Agent Client Protocol; version {acp.VERSION} is needed")
            )
            return b""
        self._logins = greeting.logins
        if greeting.name:
            self._show(f"agent: {greeting.name}")
        return acp.new_session(_NEW_SESSION, str(self.workspace))

    def _give_work(self, session: str | None) -> bytes:
        if session is None:
            self._end(SessionEnd(words="it opened no session"))
            return b""
        self.session = session
        if self._stopping:
            self._end(SessionEnd("cancelled"))
            return b""
        return acp.prompt(_PROMPT, session, self.prompt)

    def _answer(self, identity: int | str, method: str, params: object) -> bytes:
        if method != acp.ASK_PERMISSION:
            return acp.refuse(identity, acp.METHOD_NOT_FOUND, f"{method} is not offered")
        asked = acp.read_permission(params)
        if asked is None:
            self._show("it asked for permission in a way that cannot be read: refused")
            return acp.refuse(identity, acp.INVALID_PARAMS, "this request for permission cannot be read")
        return acp.answer_permission(identity, None if self._stopping else self._decide(asked))

    def _decide(self, asked: acp.PermissionAsked) -> str | None:
        """The option to choose: allow once, or reject; `None` if neither is offered."""
        call = self._known(asked.call)
        wanted = _tool_request(call, self.workspace)
        denied = denials(self.rules, wanted)
        if not denied and asked.yes is not None:
            self._show(f"allowed: {wanted.tool} {', '.join(wanted.subjects)}")
            return asked.yes
        for words in denied or (f"it can only be allowed for ever: {call.tool or 'other'} {call.title or ''}".strip(),):
            self._show(f"denied: {words}")
            if words not in self.denied:
                self.denied.append(words)
        return asked.no

    def _learn(self, params: object) -> None:
        match acp.read_update(params, self.session or ""):
            case str(text):
                self._hear_words(text)
            case acp.ToolCall() as call:
                self._hear_call(call)
            case acp.Planned(done, steps, current):
                self._show(f"plan: {done} of {steps} done{f', now: {current}' if current else ''}")
            case float(cost):  # the cost of the whole session; what tokens are reported may fall again
                self.usage = replace(self.usage, cost_usd=max(cost, self.usage.cost_usd or 0))
            case None:
                pass

    def _hear_words(self, piece: str) -> None:
        text = f"\n{piece}" if self._unshown and _REMARK.match(piece) else piece
        self._said = (self._said + text)[-SAID_CHARACTERS:]
        *lines, self._unshown = (self._unshown + text).split("\n")
        for line in lines:
            self._note_line(line)

    def _hear_call(self, call: acp.ToolCall) -> None:
        seen = self._calls.get(call.identity)
        known = self._known(call)
        what = f"{known.tool or 'tool'}: {known.title or known.identity}"
        if seen is None:
            self._said = ""  # what is said before more work is done is not the last word
            self._show(what)
        elif known.status == "failed" and seen.status != "failed":
            self._show(f"failed: {what}")

    def _known(self, call: acp.ToolCall) -> acp.ToolCall:
        """All that is known of that use of a tool, from this message and earlier ones."""
        before = self._calls.get(call.identity, call)
        known = replace(
            before,
            tool=call.tool or before.tool,
            title=call.title or before.title,
            status=call.status or before.status,
            command=call.command or before.command,
            address=call.address or before.address,
            paths=call.paths or before.paths,
        )
        self._calls[call.identity] = known
        return known

    def _with_logins(self, code: int, words: str) -> str:
        if code != acp.AUTH_REQUIRED or not self._logins:
            return words
        return f"{words} (it can be logged in by: {', '.join(self._logins)})"

    def _end(self, ended: SessionEnd) -> None:
        self._flush()
        self.ended = ended

    def _show(self, text: str) -> None:
        self._flush()
        self._note_line(text)

    def _flush(self) -> None:
        line, self._unshown = self._unshown, ""
        self._note_line(line)

    def _note_line(self, line: str) -> None:
        if line.strip():
            self.note(line.strip()[:LINE_CHARACTERS])


def _tool_request(call: acp.ToolCall, workspace: Path) -> ToolRequest:
    """The request in the words of the rules: paths of the workspace relative to it."""
    inside: list[str] = []
    outside: list[str] = []
    for path in (_located(named, workspace) for named in call.paths):
        if path.is_relative_to(workspace):
            inside.append(path.relative_to(workspace).as_posix())
        else:
            outside.append(str(path))
    return ToolRequest(
        call.tool or "other", call.title or "", call.command, call.address, tuple(inside), tuple(outside)
    )


def _located(named: str, workspace: Path) -> Path:
    """Where *named* leads, links followed. A home folder stays as it is written: it is none of the workspace's."""
    plain = named.removeprefix("file://")
    return Path(plain) if plain.startswith("~") or "\0" in plain else Path(os.path.realpath(workspace / plain))


# --- Any agent that speaks the Agent Client Protocol on its stdin and stdout


_TROUBLE = re.compile(r"^(?:API )?Error: .*", re.MULTILINE | re.DOTALL)
_BY_STOP_REASON: Mapping[str, FailureClass] = {
    "refusal": "refused",
    "max_tokens": "limit_reached",
    "max_turn_requests": "limit_reached",
}


class AcpAgent:
    """The port `CodingAgent` for a program that speaks the protocol."""

    def __init__(self, spec: AgentSpec, children: ChildProcesses, environment: Mapping[str, str]) -> None:
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

        In `task.transcript`: `prompt.md`, `result.json`, in `output.log` what was shown and came on stderr,
        and `summary.txt` if the program wrote one.
        """
        with begin(task) as transcript:
            with transcript.open_output() as log:
                output = OutputReader(log, progress, str.rstrip, self._surroundings)
                session = AcpSession(
                    task.prompt, task.workspace, self._spec.permissions, lambda text: output.hear(_line(text))
                )
                meter = UsageMeter(task.allowance, cancel, lambda: session.usage)
                done = self._children.within(self._spec.place, transcript.shared).run(
                    filled(self._spec.command, task, transcript.prompt_file),
                    cwd=task.workspace,
                    environment=self._surroundings.variables(task, transcript),
                    limits=ProcessLimits(self._spec.wall_seconds, self._spec.stall_seconds, meter),
                    on_line=output.hear,
                    conversation=session,
                )
            transcript.last_words(self._surroundings.without_secrets)
            result = self._observed(done, session, "\n".join(output.told))
            result = replace(result, ended="over_budget") if meter.exceeded and result.ended == "cancelled" else result
            transcript.conclude(self._spec.command, result)
            return result

    def _observed(self, done: Completed, session: AcpSession, tail: str) -> AgentResult:
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


def _read(session: AcpSession, done: Completed) -> tuple[Claim | None, FailureClass | None]:
    """What the end of the session says; a program that goes before its turn has ended has failed, whatever its code."""
    match session.ended:
        case SessionEnd(stop_reason="end_turn") if trouble := _told_trouble(session):
            return Claim(False, "end_turn", trouble), failure_in(trouble)
        case SessionEnd(stop_reason=reason) if reason:
            return Claim(reason == "end_turn", reason, session.words), _BY_STOP_REASON.get(reason)
        case SessionEnd(code=code, words=words):
            return Claim(False, "error" if code is None else f"error {code}", words), _failure(code, words)
        case None if done.ended == "exited":
            return Claim(
                False, "no answer", f"its program ended with exit code {done.exit_code} before it had answered"
            ), None
        case _:
            return None, None


def _told_trouble(session: AcpSession) -> str:
    """An error that an agent reported only in its text: some end their turn normally after a refused log-in."""
    found = _TROUBLE.search(session.words)
    return found[0] if found and not session.has_worked else ""


def _failure(code: int | None, words: str) -> FailureClass | None:
    """The class of an error: by the protocol's own code, by an HTTP status in its place, else by the words."""
    if code == acp.AUTH_REQUIRED:
        return "not_authenticated"
    return failure_of_status(code) or failure_in(words.removeprefix("Internal error"))
