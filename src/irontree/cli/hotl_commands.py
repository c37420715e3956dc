"""The commands of `hotl-rt`: each takes the words behind its name, prints, and returns the exit code."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from irontree.domain.text import printable
from irontree.domain.workflow import run as model
from irontree.domain.workflow.checkout import HOME, REPORTS, ExecutionRoot
from irontree.domain.workflow.reading import MOST_BYTES, WrittenWorkflow, read
from irontree.domain.workflow.report import render, step_list, summary
from irontree.domain.workflow.verify import ArtifactCheck, Outcome, ShellCheck, judge
from irontree.domain.workflow.workflow import Workflow, interpret
from irontree.errors import EnvironmentRefused, IrontreeError, Refused
from irontree.files import read_bytes
from irontree.store.hotl_runs import HotlRuns, located, require_own, to_json

OK: Final = 0
FAILED: Final = 1
RUN_ID: Final = "HOTL_RUN_ID"
_INIT: Final = (
    *("--executor-mode", "--repo-root", "--execution-root", "--source-workflow-path", "--worktree-path", "--branch"),
    *("--source-branch", "--source-head"),
)
_VERIFYING: Final = "HOTL_RT_VERIFYING"
"""The steps whose checks are running above this process, one a line: a check that verifies its own would never end."""
_LOCATED: Final = (
    *("run_id", "status", "current_step", "total_steps", "branch", "executor_mode", "last_update", "workflow_path"),
    *("source_workflow_path", "repo_root", "execution_root", "worktree_path", "report_path"),
)
_ENDED: Final = ("completed", "abandoned")
_DECISION_LOG: Final = re.compile(r"^decision_log_path:(.*)$", re.MULTILINE)


class Misused(Refused):
    """Words that a command does not take: its usage follows."""


def say(text: str) -> None:
    """Print the text for who called."""
    print(printable(text))


def _print_json(data: object) -> None:
    print(to_json(data), end="")


def tell(text: str) -> None:
    """The same on stderr."""
    print(printable(text), file=sys.stderr)


# --- The command line


def _options(words: Sequence[str], what: str, valued: Iterable[str], flags: Iterable[str] = ()) -> dict[str, str]:
    """The options among *words*, of which nothing else may be there. Raises Refused."""
    found: dict[str, str] = {}
    left = iter(words)
    for word in left:
        if word in flags:
            found[word] = word
        elif word in valued:
            value = next(left, None)
            if value is None:
                raise Refused(f"{word} needs a value")
            found[word] = value
        else:
            raise Refused(f"Unknown option for {what}: {word}")
    return found


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text):
        raise Refused(f"The step number must be a whole number, got: {text}")
    return int(text)


def _now() -> datetime:
    return datetime.now(UTC)


def _chosen(options: Mapping[str, str]) -> tuple[HotlRuns, Path]:
    runs = HotlRuns(Path.cwd())
    return runs, runs.choose(options.get("--run-id", os.environ.get(RUN_ID, "")))


def _record(runs: HotlRuns, path: Path, decide: Callable[[model.Run], model.Change]) -> model.Change:
    """Record what is decided, and with `progress: verbose` show where all steps are."""
    change = runs.change(path, decide)
    preferences = _preferences(change.run)
    if preferences and preferences.verbose:
        tell(step_list(change.run).rstrip())
    return change


# --- Workflow files


def _file(name: str) -> Path:
    """An absolute path in a folder without links, as upstream has it."""
    path = Path(name)
    return path.parent.resolve() / path.name


def _text(path: Path, shown: str) -> str | None:
    """The text of a file; None if there is none. Raises Refused for one that is too large to be meant."""
    data = read_bytes(path, MOST_BYTES) if path.is_file() else None
    if data and len(data) > MOST_BYTES:
        raise Refused(f"{shown} has more than {MOST_BYTES} bytes")
    return None if data is None else data.decode("utf-8", "replace")


def _read_workflow(path: Path, shown: str) -> WrittenWorkflow:
    text = _text(path, shown)
    if text is None:
        raise Refused(f"Workflow file not found: {shown}")
    return read(text)


def _interpreted(written: WrittenWorkflow) -> Workflow:
    """Raises Refused for what a run could not keep: `document-lint.sh` would say the same."""
    workflow, found = interpret(written)
    if found.errors:
        raise Refused("\n".join(f"{each.what} (line {each.line})" for each in sorted(found.errors)))
    return workflow


def _preferences(run: model.Run) -> Workflow | None:
    """What the file says now of reports and progress; None if it cannot be read any more."""
    try:
        written = _read_workflow(Path(run.workflow_path), run.workflow_path)
    except IrontreeError:
        return None
    return interpret(written)[0]


# --- Runs


def run_init(words: list[str]) -> int:
    """Begin a run: its state, its report; prints its id. What is not given is as `prepare` had it."""
    options = _options(words[1:], "init", _INIT)
    path = _file(words[0])
    workflow = _interpreted(_read_workflow(path, words[0]))
    if not workflow.steps:
        raise Refused("No steps found in workflow")
    here = Path.cwd().resolve()
    runs = HotlRuns(here)
    given = runs.prepared(str(path)) | {_key(option): value for option, value in options.items() if value}
    root = given.get("execution_root") or str(here)
    worktree = given.get("worktree_path", "")
    place = model.Place(
        str(path),
        str(_file(given.get("source_workflow_path") or str(path))),
        given.get("repo_root") or str(_repository(here)),
        root,
        f"{root}/{REPORTS}",
        "" if worktree == "null" else worktree,
        given.get("branch", ""),
        given.get("executor_mode") or model.LOOP,
        {key: given[key] for key in ("source_branch", "source_head") if key in given},
    )
    times = (_now() + timedelta(seconds=more) for more in range(24 * 60 * 60))
    say(runs.begin(lambda: model.begin(workflow, place, next(times))).run_id)
    return OK


def _key(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _repository(folder: Path) -> Path:
    """The top of the repository that *folder* is in, or the folder itself; git is not needed to find it."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def run_step(words: list[str]) -> int:
    """Move a step: start, verify, retry, block."""
    number, action, *rest = words
    if action not in ("start", "verify", "retry", "block"):
        raise Misused(f"Unknown step action: {action}")
    reasons = ("--reason",) if action == "block" else ()
    options = _options(rest, "block" if reasons else f"step {action}", ("--run-id", *reasons))
    if reasons and not options.get("--reason"):
        raise Refused("--reason is required for block")
    runs, path = _chosen(options)
    at = _number(number)
    match action:
        case "verify":
            return _verify(runs, path, at)
        case "start":
            change = _record(runs, path, lambda run: model.start(run, at, _now()))
        case "retry":
            change = _record(runs, path, lambda run: model.retry(run, at, _now()))
        case _:
            change = _record(runs, path, lambda run: model.block(run, at, options["--reason"], _now()))
    say(change.said)
    return OK


def _verify(runs: HotlRuns, path: Path, number: int) -> int:
    """Run the checks without a lock, then record what they came to, if the step is still the one that was looked at."""
    run = runs.read(path)
    require_own(run)
    step = model.to_verify(run, number)
    verifying, above = f"{path.resolve()} {number}", os.environ.get(_VERIFYING, "").splitlines()
    if verifying in above:
        what = f"A check of step {number} verifies that step itself: it would never end"
        raise Refused(what, remedy=f"take `hotl-rt step {number} verify` out of its checks")
    environment = {**os.environ, _VERIFYING: "\n".join((*above, verifying))}
    outcome = judge(step.checks, partial(_check, environment))
    preferences = _preferences(run)
    full = bool(preferences and preferences.full_report)
    change = _record(runs, path, lambda now: model.verified(now, step, outcome, _now(), full=full))
    say(change.said)
    if outcome.end == "fail":
        what, remedy = model.failure(change.run.step(number), outcome, change.run.report_path)
        tell(f"{what}\n       {remedy}")
    return OK if change.well else FAILED


def _check(environment: Mapping[str, str], check: ShellCheck | ArtifactCheck) -> Outcome:
    if isinstance(check, ArtifactCheck):
        from irontree.checks.artifact import judge_artifact

        return judge_artifact(check, Path.cwd())
    from irontree.checks.shell import run_apart

    return run_apart(check.command, Path.cwd(), environment)


def run_gate(words: list[str]) -> int:
    """Record a decision."""
    number, decision, *rest = words
    options = _options(rest, "gate", ("--mode", "--run-id"))
    runs, path = _chosen(options)
    at, mode = _number(number), options.get("--mode", "human")
    say(_record(runs, path, lambda run: model.decide(run, at, decision, mode, _now())).said)
    return OK


def run_finalize(words: list[str]) -> int:
    """End the run; prints its summary whatever it came to."""
    runs, path = _chosen(_options(words, "finalize", ("--run-id",), ("--json",)))
    change = _record(runs, path, lambda run: model.finalize(run, _now()))
    if change.said and not any(step.status in ("failed", "blocked") for step in change.run.steps):
        tell(f"not completed: {change.said}")
    _print_json(summary(change.run))
    return OK


def run_summary(words: list[str]) -> int:
    """Print the summary of a run; changes nothing."""
    _options(words[1:], "summary", (), ("--json",))
    runs = HotlRuns(Path.cwd())
    path = runs.state_file(words[0])
    if path is None:
        known = [each.stem for each in runs.states] or ["  (none)"]
        raise Refused("\n".join((f"No state found for run: {words[0]}", "Available runs:", *known)))
    _print_json(summary(runs.read(path)))
    return OK


def run_log_decision(words: list[str]) -> int:
    """Append a decision to the configured file; nothing if none is configured."""
    if len(words) != 1:
        raise Misused("log-decision requires a JSON argument")
    config = read_bytes(Path(HOME, "config.yml"), MOST_BYTES)
    found = _DECISION_LOG.search((config or b"").decode("utf-8", "replace"))
    target = found[1].partition(" #")[0].strip().strip("\"'") if found else ""
    if target and target not in ("null", "~"):
        path = Path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{words[0]}\n")
    return OK


# --- Files and folders


def run_lint(words: list[str]) -> int:
    """Name every mistake on stderr."""
    from irontree.domain.workflow.lint import document_type, lint

    path = Path(words[0])
    document, text = document_type(words[0]), _text(path, words[0])
    if text is None:
        tell(f"FAIL: File not found: {words[0]}")
        return FAILED
    if document is None:
        tell(f"SKIP: {path.name} is not a HOTL design doc or workflow file")
        return OK
    found = lint(text, document)
    for warning in found.warnings:
        tell(f"WARN: {warning}")
    for error in found.errors:
        tell(f"FAIL: {error}")
    if found.errors:
        tell(f"LINT FAILED: {len(found.errors)} error(s) in {path.name}")
        return FAILED
    say(f"LINT PASSED: {path.name}")
    return OK


def run_prepare(words: list[str]) -> int:
    """Make what the workflow is to be worked on in, and print where that is."""
    from irontree.domain.workflow.lint import lint_written
    from irontree.domain.workflow.root import choose_root, require_mode
    from irontree.repository.worktrees import git_in, look_at, make_ready

    options = _options(words[1:], "prepare", ("--executor-mode",))
    path = _file(words[0])
    written = _read_workflow(path, words[0])
    workflow, _ = interpret(written)
    require_mode(workflow)
    errors = lint_written(written).errors
    if errors:
        raise Refused(
            "\n".join((f"{words[0]} has mistakes:", *errors)),
            remedy="Put them right, then run it again. To look for them alone: hotl-rt lint",
        )
    git = git_in(Path.cwd(), os.environ)
    root = choose_root(workflow, str(path), look_at(git), options.get("--executor-mode") or model.LOOP)
    make_ready(git, root)
    if root.told:
        tell(root.told)
    _remember(root)
    _print_json(root.as_json())
    return OK


def _remember(root: ExecutionRoot) -> None:
    """Keep what is printed for the run that begins there; the worktree is made, so nothing stops it any more."""
    if not root.source_head:
        return
    try:
        HotlRuns(Path(root.execution_root)).remember(root.as_json())
    except EnvironmentRefused as error:
        tell(f"WARNING: {error.message}\n         Give `hotl-rt init` what is printed here as its options.")


def run_locate(words: list[str]) -> int:
    """List the runs of this repository, the newest first; those that have ended only with `--all`."""
    from irontree.repository.worktrees import git_in, roots

    options = _options(words, "locate", ("--workflow", "--run-id"), ("--all",))
    workflow = str(_file(options["--workflow"])) if options.get("--workflow") else ""
    found = [run for root in roots(git_in(Path.cwd(), os.environ)) for run in located(root, _LOCATED, tell)]
    shown = [
        run
        for run in found
        if ("--all" in options or run["status"] not in _ENDED)
        and run["run_id"] == options.get("--run-id", run["run_id"])
        and (not workflow or workflow in (run["workflow_path"], run["source_workflow_path"]))
    ]
    _print_json(sorted(shown, key=lambda run: str(run["last_update"]), reverse=True))
    return OK


def run_render(words: list[str]) -> int:
    """Show a summary for a chat."""
    option, platform, name = words
    if option != "--platform":
        raise Misused("")
    path = Path("/dev/stdin" if name == "-" else name)
    if not path.exists():
        raise Refused(f"Summary JSON not found: {name}")
    try:
        shown = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Refused(f"{name} is no JSON: {error}") from error
    print(render(shown, platform), end="")
    return OK
