"""What the benchmarks make of their measurements, and that the cheap ones run from start to end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.bars import BARS
from benchmarks.measure import Comparison, Machine, Pair, alternate, pairs_of, quartiles, this_machine
from benchmarks.programs import launch
from benchmarks.report import Measured, about, table, write
from tests.support.soak import in_soak

ROOT = Path(__file__).resolve().parents[2]
MACHINE = Machine(cpu="a processor", cores=4, system="Linux 6", versions={"python": "3.11"})


def comparison(*ratios: float, bar: float | None = 1.5) -> Comparison:
    return Comparison("a: something", bar, tuple(Pair(ours=ratio * 2, baseline=2) for ratio in ratios))


def measured(*rows: Comparison) -> Measured:
    return Measured(rows, load_before=(0.5, 0, 0), load_after=(2.25, 0, 0))


# --- arithmetic ---------------------------------------------------------------------------------------------


def test_the_ratio_is_the_median_of_the_ratios_and_not_the_ratio_of_the_medians():
    found = Comparison("", 9, (Pair(1, 1), Pair(10, 10), Pair(50, 5)))
    assert (found.ratio, found.ours / found.baseline) == (1, 2)


def test_a_pair_that_somebody_disturbed_does_not_move_the_ratio():
    assert comparison(1.1, 1.2, 1.3, 40).ratio == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("values", "expected"), [([3.0], (3, 3)), ([1.0, 2.0, 3.0, 4.0, 5.0], (2, 4)), ([1.0, 2.0], (1.25, 1.75))]
)
def test_quartiles_count_the_ends_in(values, expected):
    assert quartiles(values) == expected


@pytest.mark.parametrize(("ratio", "bar", "ok"), [(1.5, 1.5, True), (1.51, 1.5, False), (99, None, True)])
def test_a_bar_is_kept_up_to_its_figure_and_none_is_never_missed(ratio, bar, ok):
    assert comparison(ratio, bar=bar).ok is ok


def test_sides_take_turns_in_going_first_and_the_warm_up_does_not_count():
    calls: list[str] = []
    rounds = alternate(lambda: calls.append("ours") or len(calls), lambda: calls.append("bare") or len(calls), pairs=3)
    assert calls == ["ours", "bare", "ours", "bare", "bare", "ours", "ours", "bare"]
    assert rounds == ((3, 4), (6, 5), (7, 8))


def test_progress_is_told_after_each_pair():
    done: list[int] = []
    alternate(lambda: 1, lambda: 1, pairs=3, watch=done.append)
    assert done == [1, 2, 3]


def test_one_figure_of_a_measurement_becomes_the_pairs():
    assert pairs_of([("ab", "a"), ("abc", "abcd")], len) == (Pair(2, 1), Pair(3, 4))


# --- report -------------------------------------------------------------------------------------------------


def test_the_file_for_programs_is_a_list_of_name_ratio_bar_and_ok(tmp_path):
    write(tmp_path, MACHINE, [measured(comparison(2, 2, 1)), measured(comparison(3, bar=None))], quick=False)
    assert json.loads((tmp_path / "bench.json").read_text()) == [
        {"name": "a: something", "ratio": 2, "bar": 1.5, "ok": False},
        {"name": "a: something", "ratio": 3, "bar": None, "ok": True},
    ]


def test_the_details_hold_every_pair_the_machine_and_the_load(tmp_path):
    write(tmp_path, MACHINE, [measured(comparison(2, 3))], quick=True)
    details = json.loads((tmp_path / "bench-details.json").read_text())
    row = details["rows"][0]
    assert (details["quick"], details["machine"]["cpu"]) == (True, "a processor")
    assert (row["pairs"], row["quartiles"]) == ([[4, 2], [6, 2]], [2.25, 2.75])
    assert (row["load_before"][0], row["load_after"][0]) == (0.5, 2.25)


def test_the_table_says_which_bar_was_missed():
    lines = list(table([measured(comparison(1), comparison(2), comparison(9, bar=None))]))
    assert [line.split()[-1] for line in lines[1:3]] == ["kept", "MISSED"]
    assert "MISSED" not in lines[3]


def test_the_highest_load_is_shown_with_the_machine():
    assert list(about(MACHINE, [measured(comparison(1))]))[-1] == "load average (1 min) between 0.50 and 2.25"


def test_the_versions_that_matter_are_recorded():
    assert {"python", "git", "prefect", "pydantic", "PyYAML", "irontree"} <= this_machine().versions.keys()


# --- programs -----------------------------------------------------------------------------------------------


def test_a_program_has_its_own_peak_memory_and_not_that_of_who_started_it():
    ballast = b"x" * 200_000_000
    assert launch([sys.executable, "-c", "pass"]).megabytes < 100 < len(ballast) / 1e6


def test_a_program_that_fails_is_not_taken_for_a_quick_one():
    with pytest.raises(RuntimeError, match="ended with 3"):
        launch([sys.executable, "-c", "import sys; sys.exit(3)"])


# --- the command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["x"], ["--pairs", "0"], ["--pairs", "many"]])
def test_a_wrong_option_is_refused_before_anything_is_measured(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize("bar", [bar if bar == "c" else pytest.param(bar, marks=in_soak) for bar in BARS])
def test_a_bar_runs_from_start_to_end(bar, tmp_path):
    """In the soak those that start programs and servers too."""
    command = [sys.executable, "-m", "benchmarks", bar, "--quick", "--pairs", "1"]
    done = subprocess.run(
        [*command, "--output", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=270, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "bench.json").read_text())
    assert {row["name"][0] for row in rows} == {bar}
    assert all(row["ratio"] > 0 for row in rows)


def test_all_bars_are_there_before_prefect_is_imported():
    """Prefect reads its settings when it is imported, and those of a bar are known only once its server runs."""
    imports = ", ".join(f"benchmarks.{module}" for module in BARS.values())
    program = f"import sys, {imports}; sys.exit('prefect' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
