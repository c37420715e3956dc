"""How many small faults in `src/irontree` the tests notice: collect, sample, run, report, compare (`make mutants`).

`collect` clones the commit into build/mutants/copy, with a virtual environment of its own, and learns there which test
runs which line. `sample` chooses faults on such lines. `run` makes one fault after the other in the copy, never in the
checkout, and runs the tests of its line; interrupted, it goes on where it was. A fault is kept as its function and line
of text (tools/faults.py): in another commit, the same sample finds it again.

pytest loads this file too (`-p tools.mutants`), to learn what each test is doing and how long it took.
"""

from __future__ import annotations

import argparse
import fcntl
import gzip
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tools.faults import Fault, applied, faults, is_different, relocated

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "mutants"
COPY = FOLDER / "copy"
COLLECTED = FOLDER / "collect.json.gz"
SAMPLE = FOLDER / "sample.json"
RESULTS = ROOT / "build" / "mutants-results.jsonl"

OURS = ("src", "flows", "tasks", "blocks")
SAMPLED = ("src/irontree/domain/", "src/irontree/services/", "src/irontree/store/")
SECONDS = 60.0
"""Processor time that the tests of one fault may take; by the clock it may be three times that."""
CHOSEN = 0.6
"""The part of it for which tests are chosen: without the fault they end well within."""
OVERHEAD = 0.003
"""Seconds for each test that `collect` did not measure."""
NOTICED = ("caught", "timeout")

Row = dict[str, Any]


# --- what each test runs ------------------------------------------------------------------------------------

_REPORTS: dict[str, tuple[str, float]] = {}


def pytest_runtest_logstart(nodeid: str) -> None:
    """Count what is run from now on for this test, if anything counts."""
    if "coverage" in sys.modules and (counting := sys.modules["coverage"].Coverage.current()):
        counting.switch_context(nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """Keep the worst of set-up, call and clean-up, and how long all of it took."""
    outcome, seconds = _REPORTS.get(report.nodeid, ("passed", 0.0))
    _REPORTS[report.nodeid] = (outcome if report.outcome == "passed" else report.outcome, seconds + report.duration)


def pytest_sessionfinish() -> None:
    """Leave it to whoever asked."""
    if target := os.environ.get("MUTANTS_REPORT"):
        Path(target).write_text(json.dumps(_REPORTS), encoding="utf-8")


def collect(folders: Sequence[str]) -> None:
    """Make the copy, run these tests in it, and keep who runs what."""
    commit = make_copy()
    data, report = FOLDER / "coverage.sqlite", FOLDER / "report.json"
    data.unlink(missing_ok=True)
    include = ",".join(f"{COPY / name}/*" for name in OURS)
    counting = [str(COPY / ".venv/bin/python"), "-m", "coverage", "run", f"--include={include}", f"--data-file={data}"]
    testing = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tools.mutants", *folders]
    subprocess.run([*counting, *testing], cwd=COPY, env={**os.environ, "MUTANTS_REPORT": str(report)}, check=False)
    ran = json.loads(report.read_text(encoding="utf-8"))
    passed = sorted((seconds, test) for test, (outcome, seconds) in ran.items() if outcome == "passed")
    for test, (outcome, _) in ran.items():
        if outcome == "failed":
            print(f"not counted on, it failed: {test}")
    collected = {
        "commit": commit,
        "tests": [[test, round(seconds, 4)] for seconds, test in passed],
        **lines_of_tests(data, [test for _, test in passed]),
    }
    COLLECTED.write_bytes(gzip.compress(json.dumps(collected).encode()))
    print(f"{len(passed)} tests passed; what they run is in {COLLECTED}")


def lines_of_tests(data: Path, tests: Sequence[str]) -> dict[str, object]:
    """Each line with the number of its set of tests, and the sets, of positions in *tests*."""
    from coverage import CoverageData  # noqa: PLC0415  (pytest loads this file where nothing is counted)

    counted = CoverageData(basename=str(data))
    counted.read()
    position = {test: number for number, test in enumerate(tests)}
    sets: dict[tuple[int, ...], int] = {}
    lines: dict[str, dict[int, int]] = defaultdict(dict)
    for file in sorted(counted.measured_files()):
        for line, contexts in counted.contexts_by_lineno(file).items():
            if members := tuple(sorted(position[test] for test in contexts if test in position)):
                lines[Path(file).relative_to(COPY).as_posix()][line] = sets.setdefault(members, len(sets))
    return {"lines": lines, "sets": list(sets)}


def make_copy() -> str:
    """The commit, cloned and set up anew, so that nothing of the checkout is ever changed; returns its name."""
    shutil.rmtree(COPY, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(COPY)], check=True)
    subprocess.run(["make", "--silent", "-C", str(COPY), "setup", f"PYTHON={sys.executable}"], check=True)
    return subprocess.check_output(["git", "-C", str(COPY), "rev-parse", "HEAD"], text=True).strip()


class Collected:
    """What `collect` kept, for asking."""

    def __init__(self) -> None:
        kept = json.loads(gzip.decompress(COLLECTED.read_bytes()))
        self.commit: str = kept["commit"]
        self._tests: list[tuple[str, float]] = kept["tests"]
        self._sets: list[list[int]] = kept["sets"]
        self._lines: dict[str, dict[str, int]] = kept["lines"]

    def tests(self, fault: Fault) -> list[tuple[str, float]]:
        """The tests that run its line, and if none runs just that, its statement; the fastest first."""
        lines = self._lines.get(fault.file, {})
        number = lines.get(str(fault.number), lines.get(str(fault.statement)))
        return [] if number is None else [self._tests[position] for position in self._sets[number]]


def faults_of_copy() -> Iterator[Fault]:
    """All that can be made wrong in the copy, in a fixed order."""
    for folder in OURS:
        for path in sorted((COPY / folder).rglob("*.py")):
            yield from faults(path.relative_to(COPY).as_posix(), path.read_bytes())


# --- the sample ---------------------------------------------------------------------------------------------


def sample(seed: int, count: int, target: Path) -> None:
    """Choose lines by lot among those that tests run, then one operator of each line, then one of its changes."""
    restore()
    collected, by_line = Collected(), defaultdict(list)
    for fault in faults_of_copy():
        if fault.file.startswith(SAMPLED) and collected.tests(fault):
            by_line[fault.file, fault.number].append(fault)
    chance = random.Random(seed)  # noqa: S311  (a lot that can be drawn again)
    lines = list(by_line.values())
    chance.shuffle(lines)
    chosen: list[Fault] = []
    for there in lines:
        if len(chosen) == count:
            break
        operator = chance.choice(sorted({fault.operator for fault in there}))
        fault = chance.choice([fault for fault in there if fault.operator == operator])
        if is_different((COPY / fault.file).read_bytes(), fault):
            chosen.append(fault)
    kept = {"seed": seed, "commit": collected.commit, "faults": [fault._asdict() for fault in chosen]}
    target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"{len(chosen)} faults on as many of {len(lines)} lines are in {target}")


# --- trying them --------------------------------------------------------------------------------------------


class Attempt(NamedTuple):
    """How a run of tests ended; without a code it did not."""

    code: int | None
    seconds: float
    failed: tuple[str, ...]


def attempt(tests: Sequence[str], limit: float) -> Attempt:
    """Run these tests in the copy, up to the first that fails, for so many seconds of processor time."""
    listed, report = FOLDER / "tests.txt", FOLDER / "attempt.json"
    listed.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
    report.unlink(missing_ok=True)
    words = ["-m", "pytest", "-x", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "tools.mutants", f"@{listed}"]
    with (FOLDER / "last.log").open("wb") as log:
        process = subprocess.Popen(
            [COPY / ".venv/bin/python", *words],
            cwd=COPY,
            env={**os.environ, "MUTANTS_REPORT": str(report)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            used = watched(process, limit)
        finally:
            code = end(process)
    seen = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    failed = tuple(test for test, (outcome, _) in seen.items() if outcome == "failed")
    return Attempt(code, used, failed)


def watched(process: subprocess.Popen[bytes], limit: float) -> float:
    """Wait until it has ended, or must; the processor time that it took, as far as that was seen."""
    used, began = 0.0, time.monotonic()
    while process.poll() is None and used < limit and time.monotonic() - began < 3 * limit:
        with suppress(psutil.NoSuchProcess):
            times = psutil.Process(process.pid).cpu_times()
            used = round(times.user + times.system, 1)
        time.sleep(0.1)
    return used


def end(process: subprocess.Popen[bytes]) -> int | None:
    """Leave nothing running of it; its exit code, if it ended by itself."""
    if (code := process.poll()) is None:
        with suppress(psutil.NoSuchProcess):
            for member in (*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)):
                with suppress(psutil.NoSuchProcess):
                    member.kill()
        process.wait()
    return code


def put(path: Path, source: bytes) -> None:
    """Write a module, and forget what was compiled of it: that is told by the second, and mostly by the same size."""
    path.write_bytes(source)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


@contextmanager
def made(fault: Fault) -> Iterator[None]:
    """The copy with the fault in it, for a while."""
    path = COPY / fault.file
    source = path.read_bytes()
    put(path, applied(source, fault))
    try:
        yield
    finally:
        put(path, source)


def restore() -> None:
    """Take a fault out that a run left behind when it was killed."""
    changed = subprocess.check_output(["git", "-C", str(COPY), "diff", "--name-only"], text=True).split()
    for name in changed:
        put(COPY / name, subprocess.check_output(["git", "-C", str(COPY), "show", f"HEAD:{name}"]))


def affordable(tests: Sequence[tuple[str, float]], limit: float) -> list[str]:
    """As many as there is time for, the fastest first; one at least."""
    ends = accumulate(seconds + OVERHEAD for _, seconds in tests)
    names = [test for test, _ in tests]
    return names[: max(1, sum(end <= CHOSEN * limit for end in ends))]


def judged(fault: Fault, tests: Sequence[str], sound: set[str], limit: float) -> dict[str, object]:
    """What the tests make of it. What fails without the fault too, or does not end in time, says nothing."""
    with made(fault):
        tried = attempt(tests, limit)
    outcome = "caught"
    if tried.code == 0:
        outcome = "survived"
    elif tried.code is None:
        plain = attempt(tests, limit)
        outcome = "timeout" if plain.code == 0 and plain.seconds <= CHOSEN * limit else "unclear"
    elif not sound.issuperset(tried.failed) or not tried.failed:
        if attempt(tried.failed or tests, limit).code == 0:
            sound.update(tried.failed)
        else:
            outcome = "unclear"
    return {"outcome": outcome, "seconds": tried.seconds, "failed": list(tried.failed)}


def run(sampled: Path, results: Path, limit: float) -> None:
    """Try each with the tests that it was not tried with yet; what is caught, or cannot be tried, stays so."""
    kept = [Fault(**fault) for fault in json.loads(sampled.read_text(encoding="utf-8"))["faults"]]
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        restore()
        collected, there, sound = Collected(), defaultdict(list), set[str]()
        for found in faults_of_copy():
            there[found.key].append(found)
        known = rows(results)
        for number, fault in enumerate(kept, start=1):
            now = relocated(fault, there)
            covering = collected.tests(now) if now else []
            tests = affordable(covering, limit)
            tried = already_tried(known.get(fault.name), len(tests))
            if tried == len(tests) and fault.name in known:
                continue
            outcome: dict[str, object] = {"outcome": "survived" if now else "lost"}
            if now and tests:
                outcome = judged(now, tests[tried:], sound, limit)
            row = {"name": fault.name, "commit": collected.commit, **fault._asdict(), "body": "", **outcome}
            row |= {"now": f"{now.file}:{now.number}" if now else "", "tests": len(tests), "covering": len(covering)}
            with results.open("a", encoding="utf-8") as target:
                target.write(json.dumps(row) + "\n")
            print(f"{number}/{len(kept)} {row['outcome']}: {shown(row)}", flush=True)


def already_tried(row: Row | None, chosen: int) -> int:
    """How many of the tests that are chosen need not be run any more, given the latest result."""
    if row is None or row["outcome"] == "unclear":
        return 0
    return min(int(row["tests"]), chosen) if row["outcome"] == "survived" else chosen


# --- what came of it ----------------------------------------------------------------------------------------


def rows(results: Path) -> dict[str, Row]:
    """The latest result of each fault; a line that a kill cut off is none."""
    found: dict[str, Row] = {}
    for line in results.read_text(encoding="utf-8").splitlines() if results.exists() else ():
        with suppress(ValueError):
            row = json.loads(line)
            found[row["name"]] = row
    return found


def shown(row: Row) -> str:
    """One fault in a line of Markdown."""
    change = f"`{row['before']}` -> `{row['after']}`"
    where = row.get("now") or f"{row['file']}:{row['number']}"
    return f"{where} {row['function']}: {row['operator']} {change}; line `{row['line']}`"


def share(found: Iterable[Row]) -> str:
    """How many of them were noticed, of those of which that can be said."""
    counts = Counter(row["outcome"] for row in found)
    noticed = sum(counts[outcome] for outcome in NOTICED)
    decided = noticed + counts["survived"]
    part = f"{noticed} of {decided} noticed ({100 * noticed / decided:.1f} %)" if decided else "none decided"
    return f"{part}; " + ", ".join(f"{outcome} {number}" for outcome, number in sorted(counts.items()))


def report(results: Path) -> None:
    """The share, in all and by folder and operator, and what was not noticed."""
    found = rows(results)
    print(f"All: {share(found.values())}")
    groups: tuple[Callable[[Row], str], ...] = (lambda row: row["file"].split("/")[2], lambda row: row["operator"])
    for group in groups:
        for name in sorted({group(row) for row in found.values()}):
            print(f"  {name}: {share(row for row in found.values() if group(row) == name)}")
    for outcome in ("survived", "unclear", "lost"):
        there = [row for row in found.values() if row["outcome"] == outcome]
        print(f"\n{outcome} ({len(there)}):" if there else "", end="\n" if there else "")
        for row in sorted(there, key=shown):
            print(f"- {shown(row)} [{row['tests']} of {row['covering']} tests]")


def compare(old: Path, new: Path) -> None:
    """The same faults in two commits."""
    before, after = rows(old), rows(new)
    both = [
        name
        for name in before
        if name in after and not {before[name]["outcome"], after[name]["outcome"]} & {"lost", "unclear"}
    ]
    print(f"{len(both)} faults in both, of {len(before)} and {len(after)}")
    print(f"before: {share(before[name] for name in both)}")
    print(f"after:  {share(after[name] for name in both)}")
    for title, first, second in (("noticed before, not after", before, after), ("the other way round", after, before)):
        changed = [n for n in both if first[n]["outcome"] in NOTICED and second[n]["outcome"] not in NOTICED]
        print(f"\n{title} ({len(changed)}):")
        for name in changed:
            print(f"- {shown(after[name])}; before at {before[name]['now']}, by {first[name].get('failed')}")


def main() -> None:
    """One verb."""
    parser = argparse.ArgumentParser(description="How many small faults in the code the tests notice.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    collecting = verbs.add_parser("collect", help="learn which test runs which line")
    collecting.add_argument("folders", nargs="*", default=["tests/unit", "tests/contract"])
    sampling = verbs.add_parser("sample", help="choose faults by lot")
    sampling.add_argument("--seed", type=int, default=13)
    sampling.add_argument("--count", type=int, default=200)
    running = verbs.add_parser("run", help="try them; goes on where it was interrupted")
    limit_help = "processor time for the tests of one; with more, survivors are tried with the tests that were left out"
    running.add_argument("--seconds", type=float, default=SECONDS, help=limit_help)
    for verb in (sampling, running):
        verb.add_argument("--sample", type=Path, default=SAMPLE)
    for verb in (running, verbs.add_parser("report", help="the share of them that was noticed, and the others")):
        verb.add_argument("--results", type=Path, default=RESULTS)
    comparing = verbs.add_parser("compare", help="the same faults in two commits")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    given = parser.parse_args()
    match given.verb:
        case "collect":
            collect(given.folders)
        case "sample":
            sample(given.seed, given.count, given.sample)
        case "run":
            run(given.sample, given.results, given.seconds)
        case "report":
            report(given.results)
        case _:
            compare(given.old, given.new)


if __name__ == "__main__":
    main()
