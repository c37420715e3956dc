"""The logs of programs that run for months are bounded, while they write them."""

from __future__ import annotations

from irontree.flows.server.programs import LOG_LIMIT, size, tail, turn_over_if_long


def test_a_log_that_has_become_long_begins_anew_under_the_program_that_writes_it(tmp_path):
    log = tmp_path / "serving-all.log"
    with log.open("ab", buffering=0) as program:
        program.write(b"early\n" * LOG_LIMIT)
        turn_over_if_long(log)
        program.write(b"late\n")
    assert log.read_text() == "late\n"
    assert "early" in tail(tmp_path / "serving-all.old.log")


def test_a_short_log_stays_and_one_that_is_not_there_is_none(tmp_path):
    log = tmp_path / "server.log"
    turn_over_if_long(log)
    log.write_text("all that was said")
    turn_over_if_long(log)
    assert [path.name for path in tmp_path.iterdir()] == ["server.log"]


def test_the_last_words_of_a_program_are_found_in_a_log_that_began_anew_meanwhile(tmp_path):
    log = tmp_path / "server.log"
    log.write_text("before\n" * 100)
    start = size(log)
    log.write_text("died\n")
    assert tail(log, start=start) == "died"
