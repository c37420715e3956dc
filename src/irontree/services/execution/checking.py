"""The approved commands of one issue at one commit: run in a workspace made anew, and their results kept (R18)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from irontree.app import App
from irontree.domain.checks import (
    CheckReport,
    CheckResult,
    Machine,
    ProtectedFiles,
    checks_for,
    complaint_of,
    result_of,
)
from irontree.domain.ids import attempt_folder
from irontree.domain.plan import Plan, PlanNode, Shell, canonical_digest
from irontree.domain.protection import COMPILED, Guarded, changes_checks, fits
from irontree.domain.state import TaskState
from irontree.domain.text import counted, few
from irontree.domain.workflow.step import Artifact, Browser, Command
from irontree.errors import Cancelled, LogDamaged
from irontree.files import disk_errors, read_beneath, remove_beneath, replace
from irontree.ports import CheckRunner, Workspace
from irontree.services.execution.trial import top_level
from irontree.services.record import reports

_DECIDING: Final = {
    *("checks", "detection", "browser", "protected", "protected_files", "unprotected_files"),
    *("workspace", "place"),
}


SHOT: Final = ".irontree-browser.png"
_PICTURE_BYTES: Final = 8 * 1024 * 1024
_SEEN: Final = "what verify.browser saw"
_IGNORED: Final = (
    "{path} is in the folder where the agent worked, but not in its commit: git ignores it. Take it out of .gitignore, "
    "or let a command that is checked before make it."
)


@dataclass(frozen=True, slots=True)
class Subject:
    """What is verified: an issue, its approved node and plan, and the commit."""

    state: TaskState
    plan: Plan
    node: PlanNode
    anchor: str
    note: str = ""
    """The verifying user's note, copied verbatim into the report."""
    reviewers: tuple[dict[str, object], ...] = ()
    """What the reviewers of the anchor used."""

    @property
    def meta(self) -> dict[str, Any]:
        """The keys in the `meta:` of every event about this verification."""
        return ({"verifier_note": self.note} if self.note else {}) | self.took

    @property
    def took(self) -> dict[str, Any]:
        """The key `meta.reviewers`, if there were any."""
        return {"reviewers": list(self.reviewers)} if self.reviewers else {}


def check(app: App, subject: Subject, sha: str) -> CheckReport:
    """The results of the approved commands at *sha*: the stored ones if they still count, else run now and stored."""
    workspace = app.repository.workspace("verify", subject.plan.policy.workspace)
    stored = _stored(app, subject, sha)
    if stored and _counts(stored, subject):
        if stored.results:
            app.progress.note(f"the checks have already run at {sha[:7]}")
        return stored
    workspace.prepare(sha, published=subject.state.began_from, cancel=app.cancel)
    commands = checks_for(subject.node, subject.plan.policy, top_level(workspace.path))
    checks = app.checks().within(subject.plan.policy.place)
    checking = _Checking(app, checks, subject, commands, workspace)
    protected = _protected(app, subject, sha)
    refused = (_refusal(protected),) if protected and subject.plan.policy.protected == "refuse" else None
    results, warnings = (refused, ()) if refused else checking.run_all(sha)
    report = CheckReport(
        issue_number=subject.state.issue_number,
        anchor=sha,
        commands_digest=commands_digest(subject),
        results=results,
        versions=dict(checks.versions([command.does for command in commands], workspace=workspace.path)),
        warnings=(*checks.foreign_sources(workspace.path, app.repository.root), *warnings),
        cited={result.check.does: _SEEN for result in results if result.passed and isinstance(result.check, Browser)},
        protected=protected,
    )
    if protected and commands and subject.plan.policy.protected == "ask" and not report.failed:
        report = report.model_copy(update={"as_before": checking.as_before(sha, protected)})
    app.results.save(report)
    return report


def _protected(app: App, subject: Subject, sha: str) -> tuple[str, ...]:
    """What the task changed of what defines its checks; a merge is not asked, which others changed too."""
    base = subject.state.began_from
    if sha != subject.anchor or not subject.state.has_code or not base:
        return ()
    counts = app.repository.line_counts(base, sha)
    before = partial(app.repository.files_at, base)
    grown = frozenset(count.path for count in counts if count.removed == 0)
    texts = cache(lambda: {path: (old, new) for path, old, new in app.repository.texts(base, sha, only=grown)})
    return changes_checks(counts, subject.node, subject.plan.policy, before, texts, sys.stdlib_module_names)


def _refusal(protected: tuple[str, ...]) -> CheckResult:
    words = (
        "These files define the checks, and the task has no leave to change them. Put them back as they were. New "
        "tests go into new files:"
    )
    output = "\n".join((words, *protected))
    return result_of(ProtectedFiles(), "exited", 1, seconds=0, output=output)


def _stored(app: App, subject: Subject, sha: str) -> CheckReport | None:
    """The stored results, if they can be shown to be ours."""
    try:
        return app.results.load(subject.state.issue_number, sha)
    except LogDamaged as error:
        app.progress.note(f"the checks run again: {error.message}")
        return None


def _counts(stored: CheckReport, subject: Subject) -> bool:
    """Whether the results are of the same commands, and not failures that a user just asked to check again."""
    asked_again = subject.state.last_event == "checkup_unblocked" and stored.failed is not None
    return stored.commands_digest == commands_digest(subject) and not asked_again


@dataclass(frozen=True, slots=True)
class _Checking:
    """The commands of one verification, in its workspace."""

    app: App
    checks: CheckRunner
    subject: Subject
    commands: tuple[Machine, ...]
    workspace: Workspace

    def run_all(self, sha: str) -> tuple[tuple[CheckResult, ...], tuple[str, ...]]:
        """The results in order, up to the first failure (contract, mino-verify step 4), and what they rewrote."""
        results, rewrote = list[CheckResult](), list[str]()
        for result, undone in self._each(sha):
            results.append(result)
            if undone:
                rewrote.append(f"`{result.command}` wrote files that were put back or removed: {few(undone)}")
            if result.failed:
                break
        else:
            results += self._shown_to_a_person()
        return tuple(results), tuple(rewrote)

    def as_before(self, sha: str, paths: tuple[str, ...]) -> str:
        """How the commands come out with these files as they were before the task, in words (R18).

        In a folder made anew: what ran at *sha* may have left something that lets them pass.
        """
        self.app.progress.note(f"again, with {counted(len(paths), 'file')} as before")
        base = self.subject.state.began_from
        self.workspace.prepare(sha, published=base, cancel=self.app.cancel)
        self.workspace.put(base, paths)
        for result, _ in self._each(sha):
            if result.failed:
                return f"with these files as they were, {complaint_of(result)}"
            self.workspace.put(base, paths)
        return "with these files as they were, the checks pass too"

    def _each(self, sha: str) -> Iterator[tuple[CheckResult, list[str]]]:
        """Each command's result, with the files that it wrote and that are as before again.

        Tracked files are put back after each command, and what would be taken for configuration is removed: no later
        one profits from what an earlier one wrote.
        """
        files = self.app.repository.files_at(sha)
        guarded = Guarded(self.subject.node, self.subject.plan.policy, files, sys.stdlib_module_names)
        self.workspace.remove_untracked(guarded.replaces_a_module)  # set-up may have run code of the work
        made = self.workspace.untracked()

        def unwanted(path: str) -> bool:
            return path not in made and guarded.planted(path)

        for command in self.commands:
            result = self._run(command)
            undone = sorted((*self.workspace.put_back(), *self.workspace.remove_untracked(unwanted)))
            yield result, [path for path in undone if not fits(path, COMPILED)]

    def _run(self, check: Machine) -> CheckResult:
        self.app.progress.note(check.shown)
        match check:
            case Artifact():
                return self._look_at(check)
            case Browser():
                return self._browse(check)
            case _:
                return self._command(check, {})

    def _command(self, check: Shell | Command, variables: dict[str, str]) -> CheckResult:
        state = self.subject.state
        result = self.checks.run(
            check,
            workspace=self.workspace.path,
            seconds=self.subject.plan.policy.check_seconds,
            variables={"IRONTREE_TASK_KEY": state.task_key, **variables},
            cancel=self.app.cancel,
            progress=self.app.progress,
        )
        return self._not_cancelled(result)

    def _not_cancelled(self, result: CheckResult) -> CheckResult:
        if result.ended == "cancelled":
            raise Cancelled(f"verification of issue-{self.subject.state.issue_number} was stopped")
        return result

    def _look_at(self, check: Artifact) -> CheckResult:
        """At the commit; what the agent left beside it, because git ignores it, is told apart from what is missing."""
        result = self.checks.look_at(check, workspace=self.workspace.path)
        if result.passed:
            return result
        beside = self.app.repository.workspace("run", self.subject.plan.policy.workspace)
        if not self.checks.look_at(check, workspace=beside.path).passed:
            return result
        return result.model_copy(update={"output": f"{result.output}\n{_IGNORED.format(path=check.path)}"})

    def _browse(self, check: Browser) -> CheckResult:
        """By the approved command; what it leaves to a person is shown to them as if there were none."""
        command = Shell(name=check.name, run=self.subject.plan.policy.browser or "")
        asked = {"IRONTREE_BROWSER_URL": check.url, "IRONTREE_BROWSER_CHECK": check.check}
        asked["IRONTREE_BROWSER_SHOT"] = str(self._no_picture_yet())
        result = self._command(command, asked)
        result = self._with_picture(
            check, result.model_copy(update={"command": check.does, "looked_at": check}), "browser"
        )
        shown = self._show(check) if result.is_open else None
        if shown is None:
            return result
        return result.model_copy(update={"output": "\n".join(filter(None, (result.output, shown.output)))})

    def _shown_to_a_person(self) -> Iterator[CheckResult]:
        """What can be shown of the pages that no command looks at."""
        step, command = self.subject.node.step, self.subject.plan.policy.browser
        pages = [] if command or step is None else [check for check in step.checks if isinstance(check, Browser)]
        yield from filter(None, map(self._show, pages))

    def _show(self, check: Browser) -> CheckResult | None:
        """Where the extra for browsers is installed, for who has to judge; None where it is not."""
        app, shot = self.app, self._no_picture_yet()
        found = self.checks.show(check, workspace=shot.parent, shot=shot, cancel=app.cancel, progress=app.progress)
        return self._with_picture(check, self._not_cancelled(found), "page") if found else None

    def _with_picture(self, check: Browser, result: CheckResult, name: str) -> CheckResult:
        """The picture that was left is kept among the reports under that name, and told."""
        step = self.subject.node.step
        kept = self._kept_picture(f"{name}-{step.checks.index(check) + 1}.png") if step else ""
        output = "\n".join(filter(None, (result.output.rstrip("\n"), kept and f"Screenshot: {kept}")))
        return result.model_copy(update={"output": output})

    def _no_picture_yet(self) -> Path:
        """Where a picture of a page goes; what stands there is of an earlier check, or of the work."""
        with disk_errors(self.workspace.path / SHOT):
            remove_beneath(self.workspace.path, SHOT)
        return self.workspace.path / SHOT

    def _kept_picture(self, name: str) -> str:
        """Where the picture is kept, from the root of the repository; empty if there is none."""
        picture = read_beneath(self.workspace.path, SHOT, _PICTURE_BYTES + 1)
        self._no_picture_yet()
        if not picture or len(picture) > _PICTURE_BYTES:
            return ""
        state = self.subject.state
        folder = attempt_folder(state.issue_number, state.renewed_from, state.run_sequence, "reviews")
        path = reports(self.app) / folder / name
        replace(path, picture)
        return str(path.relative_to(self.app.repository.root))


def commands_digest(subject: Subject) -> str:
    """A digest of everything that decides which commands run, and where: the approved policy and the node's own."""
    policy = subject.plan.policy
    reviewers = [reviewer.model_dump() for reviewer in policy.reviewers_of(subject.node)]
    return canonical_digest([{**policy.model_dump(include=_DECIDING), "reviewers": reviewers}, subject.node.digest])
