"""What a person is told of a run that keeps ending."""

from __future__ import annotations

from irontree.flows.runs.ends import End, say_ends

VERIFY, RUN = "verify: attempt 1 of 4", "run: attempt 2 of 4"
KILLED, EXITED = "Its process was killed by SIGKILL.", "Its process ended with exit code 3."


def test_step_signal_and_command_are_named_and_memory_where_nothing_else_explains_it():
    assert say_ends("task-1", [End(VERIFY, KILLED, ("make test",))] * 3) == (
        f"the run of task-1 ended 3 times without progress at “{VERIFY}”: "
        "its process was killed by SIGKILL, while `make test` ran (memory ran out, unless somebody killed it)"
    )


def test_different_ends_are_counted_and_memory_is_not_blamed_for_other_signals():
    ends = [End(VERIFY, EXITED), End(VERIFY, EXITED), End(VERIFY, "Its process was killed by SIGSEGV.", ("a", "b"))]
    assert say_ends("t", ends) == (
        f"the run of t ended 3 times without progress at “{VERIFY}”: its process ended with exit code 3 (2 times); "
        "its process was killed by SIGSEGV, while `a`, `b` ran (once)"
    )


def test_ends_at_different_steps_have_theirs():
    assert say_ends("task-1", [End(RUN, EXITED), End(VERIFY, KILLED)]) == (
        f"the run of task-1 ended 2 times without progress: at “{RUN}”: its process ended with exit code 3 (once); "
        f"at “{VERIFY}”: its process was killed by SIGKILL (memory ran out, unless somebody killed it) (once)"
    )


def test_a_run_that_ends_without_dying_says_what_is_in_its_way():
    refused = "another tool holds the lock: remove .mino/run.lock"
    assert say_ends("task-1", [End(RUN, refused)] * 3).endswith(f"at “{RUN}”: {refused}")


def test_a_long_command_is_cut_short_and_stays_one_span_of_code():
    command = "python - <<'E'\n`x`" + "y" * 200
    [shown] = say_ends("t", [End(RUN, EXITED, (command,))]).split("while ")[1:]
    assert shown.startswith("`python - <<'E' 'x'yy")
    assert len(shown) == len("` ran`") + 80
