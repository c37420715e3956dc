"""`python -m benchmarks [BAR ...]`: measure, print the table, write `build/bench.json` (docs/benchmarks.md)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bars import BARS, measure
from benchmarks.measure import this_machine
from benchmarks.report import Measured, about, table, write

PAIRS = 20


def main(argv: Sequence[str]) -> int:
    """Run the command line; 0 whether bars were kept or missed: the table says which."""
    options = _parser().parse_args(argv)
    folder = options.output or (None if options.quick else Path("build"))
    machine = this_machine()
    measured: list[Measured] = []
    for bar in options.bars or BARS:
        measured.append(measure(bar, options.pairs, quick=options.quick))
        if folder:
            write(folder, machine, measured, quick=options.quick)
    remark = ["", "small inputs: these ratios mean nothing"] if options.quick else []
    print(*table(measured), "", *about(machine, measured), *remark, sep="\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("bars", nargs="*", metavar="BAR", type=_bar, help=f"{', '.join(BARS)} (default: all)")
    parser.add_argument("--pairs", type=_count, default=PAIRS, help="pairs of each comparison (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="small inputs, to see that it works; ratios mean nothing")
    parser.add_argument("--output", type=Path, help="folder of the two files (default: build; with --quick: none)")
    return parser


def _bar(text: str) -> str:
    if text not in BARS:
        raise argparse.ArgumentTypeError(f"there is no bar {text!r}")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
