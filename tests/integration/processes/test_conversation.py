"""Talking with a child: lines in, lines out, and nobody left however the talk ends."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from irontree.processes.children import Completed
from irontree.processes.family import ProcessLimits
from tests.support.processes import AMPLE, children


class Talk:
    """Says its lines one by one: the first to begin, each next one as the answer to a line; then it is over."""

    def __init__(self, *lines: str, last: str = "") -> None:
        self._lines = list(lines)
        self._last = last
        self.heard: list[str] = []
        self.over = False

    def begin(self) -> bytes:
        return self._next()

    def hear(self, line: bytes) -> bytes:
        self.heard.append(line.decode())
        return self._next()

    def stop(self) -> bytes:
        return f"{self._last}\n".encode() if self._last else b""

    def _next(self) -> bytes:
        if not self._lines:
            self.over = True
            return b""
        return f"{self._lines.pop(0)}\n".encode()


class Endless(Talk):
    """One that is never over, and rings when it hears something."""

    def __init__(self, *lines: str, last: str = "") -> None:
        super().__init__(*lines, last=last)
        self.rung = threading.Event()

    def hear(self, line: bytes) -> bytes:
        self.heard.append(line.decode())
        self.rung.set()
        if "bye" in line.decode():
            self.over = True
        return b""


def converse(tmp_path, talk, script, limits=AMPLE, **more) -> Completed:
    return children().run(
        ["sh", "-c", script], cwd=tmp_path, environment=os.environ, limits=limits, conversation=talk, **more
    )


def test_each_side_hears_the_other_and_the_end_of_the_talk_closes_stdin(tmp_path):
    talk = Talk("one", "two")
    done = converse(tmp_path, talk, "while read -r line; do echo got $line; done; echo closed")
    assert done.ok
    assert talk.heard[:2] == ["got one\n", "got two\n"]


def test_what_comes_on_stderr_is_the_output_and_no_part_of_the_talk(tmp_path):
    talk, noise = Talk("one", "two"), []
    done = converse(tmp_path, talk, "read a; echo noise >&2; echo $a; read b; echo $b", on_line=noise.append)
    assert (talk.heard, done.output, noise) == (["one\n", "two\n"], "noise\n", [b"noise\n"])


def test_a_message_as_long_as_a_file_comes_and_goes_in_one_piece(tmp_path):
    talk = Talk("x" * 3_000_000, "end")
    echo = "import sys; [print(line, end='', flush=True) for line in sys.stdin]"
    assert converse(tmp_path, talk, f'exec {sys.executable} -c "{echo}"').ok
    assert [len(line) for line in talk.heard] == [3_000_001, 4]


def test_a_child_that_ends_in_the_middle_of_the_talk_is_no_error(tmp_path):
    done = converse(tmp_path, Endless("one"), "exit 3")
    assert (done.ended, done.exit_code) == ("exited", 3)


def test_a_last_line_without_an_end_is_heard(tmp_path):
    talk = Endless("one")
    converse(tmp_path, talk, "printf unfinished")
    assert talk.heard == ["unfinished"]


def test_a_child_that_stays_when_the_talk_is_over_is_ended_with_all_it_started(tmp_path, witness):
    talk = Talk("one")
    done = converse(tmp_path, talk, f"{witness.hold}; read a; echo $a; sleep 1000 & sleep 1000")
    assert (done.ended, talk.over) == ("exited", True)
    assert witness.says_all_are_gone()


def test_one_that_is_stopped_is_asked_in_its_own_words_before_any_signal(tmp_path):
    talk = Endless("begin", last="please stop")
    script = "trap 'echo signalled' TERM; read a; echo ready; read b; echo $b; echo bye; read c"
    done = converse(tmp_path, talk, script, ProcessLimits(60, None, talk.rung))
    assert done.ended == "cancelled"
    assert talk.heard == ["ready\n", "please stop\n", "bye\n"]


@pytest.mark.parametrize(("limits", "ended"), [(ProcessLimits(1), "timeout"), (ProcessLimits(60, 1), "stalled")])
def test_at_its_limit_one_that_ignores_words_and_signals_is_killed(tmp_path, witness, limits, ended):
    script = f"{witness.hold}; trap '' TERM; while :; do echo noise >&2; sleep 0.1; done"
    assert converse(tmp_path, Endless("one", last="please"), script, limits).ended == ended
    assert witness.says_all_are_gone()


def test_a_listener_that_fails_leaves_nobody_behind(tmp_path, witness):
    class Failing(Endless):
        def hear(self, line: bytes) -> bytes:
            raise ValueError(line)

    with pytest.raises(ValueError, match="ready"):
        converse(tmp_path, Failing("one"), f"{witness.hold}; echo ready; sleep 1000")
    assert witness.says_all_are_gone()


def test_one_that_never_reads_does_not_hold_us(tmp_path):
    talk = Endless("x" * 1_000_000)
    done = converse(tmp_path, talk, f"exec <&-; exec {sys.executable} -c 'print(1)'")
    assert done.ok
