"""Every mistake that lint names, with its line; and what it lets pass."""

from __future__ import annotations

import pytest

from irontree.domain.workflow.lint import Linted, document_type, lint
from tests.support.hotl import SAMPLES, workflow

PASSES = "loop: false\nverify: pytest"
FRONT = "risk_level: low\nauto_approve: true"
ITEM = "loop: false\nverify:\n"


def linted(*steps: str, front: str = FRONT) -> Linted:
    return lint(workflow(*(steps or (PASSES,)), front=front), "workflow")


@pytest.mark.parametrize("sample", sorted(SAMPLES.iterdir()), ids=lambda path: path.stem)
def test_the_samples_are_without_mistakes(sample):
    assert lint(sample.read_text(encoding="utf-8"), "workflow").errors == ()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "Missing YAML frontmatter (file must start with ---) (line 1)"),
        ("---\nintent: x\n", "The frontmatter has no closing --- (line 1). End it with a line of three hyphens"),
        ("---\nrisk_level: low\n---\n", "Frontmatter missing 'intent:' field (line 1)"),
        ("---\nrisk_level: low\n---\n", "Frontmatter missing 'success_criteria:' field (line 1)"),
        ("---\nintent: x\nrisk_level:\n---\n", "Frontmatter missing 'risk_level:' field (line 3)"),
        (
            "---\n---\n",
            "No steps found (expected either '### N. Step name' or '- [ ] **Step N: Step name**') (line 3)",
        ),
    ],
)
def test_mistakes_of_a_whole_file(text: str, error: str):
    assert error in lint(text, "workflow").errors


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("risk_level: Severe one", "risk_level must be low, medium, or high (got: 'severe')"),
        ("auto_approve: on", "auto_approve must be true or false (got: 'on')"),
        ("progress: quiet", "progress must be 'verbose' if set (got: 'quiet')"),
        ("report_detail: some", "report_detail must be 'full' if set (got: 'some')"),
        ("worktree: maybe", "worktree must be true, false, or host if set (got: 'maybe')"),
        ("dirty_worktree: deny", "dirty_worktree must be 'allow' if set (got: 'deny')"),
        *(
            (f"branch: {name}", f"branch must be the name of a branch (got: '{name}'): git takes no such name")
            for name in ("a b", "a..b", "/a", "a/", "a.lock", ".a", "a~1", "a//b", "@{x", "-x", "a.")
        ),
    ],
)
def test_values_of_the_front_matter(line: str, error: str):
    key = line.partition(":")[0]
    front = "\n".join([*(each for each in FRONT.splitlines() if not each.startswith(key)), line])
    (found,) = linted(front=front).errors
    assert found == f"{error} (line {len(front.splitlines()) + 3})"


@pytest.mark.parametrize(
    "line",
    ["- [ ] Step 2: Without stars", "- [] **Step 2: Bad box**", "* [x] **Step 2: Star**", "-[ ] **step 2: Small**"],
)
def test_what_is_nearly_a_step_is_not_passed_over(line: str):
    found = lint(f"{workflow(PASSES)}\n{line}\naction: a\nloop: false\n", "workflow")
    assert any("This looks like a step, but is none" in error for error in found.errors)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("@", "git reads it as"),
        ("refs/heads/x", "below refs/heads/ once more"),
        ("c" * 64, "git would read it as a commit"),
    ],
)
def test_a_branch_that_git_takes_and_confuses_is_refused_with_the_reason(name: str, why: str):
    (error,) = lint(workflow("loop: false", front=f"risk_level: low\nbranch: {name}"), "workflow").errors
    assert f"branch must be the name of a branch (got: '{name}'): " in error
    assert why in error


@pytest.mark.parametrize("line", ["risk_level: HIGH # x", "branch: feat/a_b.c-1", "worktree: host # by Codex"])
def test_values_that_are_fine(line: str):
    front = line if line.startswith("risk") else f"risk_level: low\n{line}"
    assert linted(front=front) == Linted((), ())


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("verify: x", "Step 'Part 1' missing 'loop:' field (line 8)"),
        ("loop: true\nverify: x", "Step 'Part 1' loop must be false or 'until CONDITION' (got: 'true') (line 10)"),
        (
            "loop: until\nverify: x\nmax_iterations: 2",
            "Step 'Part 1' loop must be false or 'until CONDITION' (got: 'until')",
        ),
        ("loop: until ok\nmax_iterations: 2", "Step 'Part 1' has loop:until but missing 'verify:' field (line 8)"),
        ("loop: until ok\nverify: x", "Step 'Part 1' has loop:until but missing 'max_iterations:' field (line 8)"),
        (f"{PASSES}\nmax_iterations: 51", "max_iterations must be a whole number from 1 to 50 (got: '51') (line 12)"),
        (f"{PASSES}\nmax_iterations: 0", "max_iterations must be a whole number from 1 to 50 (got: '0') (line 12)"),
        (f"{PASSES}\ngate: yes", "Step 'Part 1' gate must be human or auto (got: 'yes') (line 12)"),
        (f"{PASSES}\ngate: human\ngate: auto", "Step 'Part 1' has 'gate:' twice (line 13). Only the first counts"),
        (f"{PASSES}\ngates: human", "Step 'Part 1' has no field 'gates:' (line 12). Did you mean 'gate:'?"),
        (f"{PASSES}\nMax-Iteration: 3", "Step 'Part 1' has no field 'max-iteration:' (line 12). Did you mean"),
        ("loop: false\nverify:", "Step 'Part 1' has empty verify block (line 11)"),
        (f"{ITEM}  command: x", "Step 'Part 1' has structured verify block but missing 'type:' field (line 11)"),
        (f"{ITEM}  url: x", "Step 'Part 1' has structured verify block but missing 'type:' field (line 11)"),
        (f"{ITEM}  type: shell", "Step 'Part 1' verify type:shell missing 'command:' field (line 11)"),
        (
            f"{ITEM}  - type: shell\n    command: x\n  - type: shell",
            "verify type:shell missing 'command:' field (line 14)",
        ),
        (f"{ITEM}  type: browser", "Step 'Part 1' verify type:browser missing 'url:' field (line 11)"),
        (f"{ITEM}  type: browser", "Step 'Part 1' verify type:browser missing 'check:' field (line 11)"),
        (
            f"{ITEM}  type: browser\n  url: ftp://a\n  check: x",
            "url must begin with http:// or https:// (got: 'ftp://a')",
        ),
        (f"{ITEM}  type: human-review", "Step 'Part 1' verify type:human-review missing 'prompt:' field (line 11)"),
        (
            f"{ITEM}  type: artifact\n  assert:\n    kind: exists",
            "verify type:artifact missing 'path:' field (line 11)",
        ),
        (
            f"{ITEM}  type: artifact\n  path: x",
            "Step 'Part 1' verify type:artifact missing 'assert.kind' field (line 11)",
        ),
        (
            f"{ITEM}  type: oracle",
            "has invalid verify type 'oracle' (expected: shell, browser, human-review, artifact) (line 11)",
        ),
        (
            f"{ITEM}  type: shell\n  comand: x",
            "Step 'Part 1' verify has no field 'comand:' (line 13). Did you mean 'command:'?",
        ),
        (f"{ITEM}  type: shell\n  command: x\n  command: y", "Step 'Part 1' verify has 'command:' twice (line 14)"),
        (f"{ITEM}  - npm test", "Step 'Part 1' verify has a line that is no field: npm test (line 12)"),
    ],
)
def test_mistakes_in_a_step(step: str, error: str):
    assert any(error in found for found in linted(step).errors), linted(step).errors


def artifact(path: str = "x", kind: str = "exists", value: str = "") -> str:
    asserted = f"    kind: {kind}\n" + (f"    value: {value}" if value else "")
    return f"{ITEM}  type: artifact\n  path: {path}\n  assert:\n{asserted}".rstrip()


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (artifact("../x"), "Step 'Part 1' artifact path is outside the execution root: ../x (line 13). Name it"),
        (artifact("/etc/x"), "artifact path is outside the execution root: /etc/x (line 13)"),
        (artifact("a/../../x"), "artifact path is outside the execution root: a/../../x (line 13)"),
        (artifact(kind="smells"), "has invalid assert kind 'smells' (expected: exists, contains, matches-glob)"),
        (artifact(kind="contains"), "Step 'Part 1' artifact assert kind contains requires value (line 11)"),
        (artifact(kind="matches-glob"), "Step 'Part 1' artifact assert kind matches-glob requires value (line 11)"),
        (artifact(kind="matches-glob", value="a/*"), "expects a filename glob; put the directory in path (line 11)"),
        (
            f"{ITEM}  type: artifact\n  path: x\n  assert: exists",
            "Step 'Part 1' assert has a value (line 14). Write kind:",
        ),
    ],
)
def test_mistakes_in_an_artifact(step: str, error: str):
    assert any(error in found for found in linted(step).errors), linted(step).errors


def test_numbers_that_are_twice_or_missing():
    text = workflow(PASSES, PASSES, PASSES).replace("Step 2:", "Step 3:")
    assert lint(text, "workflow").errors == (
        "There is no step 2 (line 8). Number the steps 1, 2, 3",
        "Step 'Part 3' has the number 3, as 'Part 2' has (line 18). Number the steps 1, 2, 3",
    )


@pytest.mark.parametrize("words", ["oauth login", "the API token", "Passwords", "encryption at rest", "auth_token"])
def test_security_words_need_a_person_where_the_risk_is_high(words: str):
    error = "Step 'Part 1' has security keywords with risk_level:high but missing 'gate: human' (line 7)"
    step = f"{PASSES}\n\nAbout {words}."
    assert linted(step, front="risk_level: high").errors == (error,)
    assert linted(f"{PASSES}\ngate: human\n\nAbout {words}.", front="risk_level: high").errors == ()
    assert linted(step, front="risk_level: medium").errors == ()
    named = workflow(PASSES, front="risk_level: high").replace("Part 1", words)
    assert len(lint(named, "workflow").errors) == 1


@pytest.mark.parametrize("words", ["the author", "tokenizer", "secretary", "authoring"])
def test_words_that_only_look_like_security(words: str):
    assert linted(f"{PASSES}\n\nAbout {words}.", front="risk_level: high").errors == ()


@pytest.mark.parametrize(
    ("step", "front", "warning"),
    [
        (PASSES, "risk_level: low\nowner: me", "Frontmatter has no field 'owner:' (line 5). It is not used"),
        (PASSES, "risk_level: low\nmax_agents: 3", "'max_agents:' is a field of later HOTL versions (line 5)"),
        ("loop: false", FRONT, "Step 'Part 1' has no 'verify:' (line 8). It passes without a check"),
        ("loop: false", FRONT, "Nothing proves success_criteria (line 3). Give a step a 'verify:'"),
        (
            "loop: false\nverify: echo ok",
            FRONT,
            "Step 'Part 1' verify cannot fail: echo ok (line 11). It proves nothing",
        ),
        (f"{ITEM}  type: shell\n  command: x || true", FRONT, "Step 'Part 1' verify cannot fail: x || true (line 11)"),
        (
            f"{ITEM}  type: shell\n  command: x\n  shell: zsh",
            FRONT,
            "verify has no field 'shell:' (line 14). It is not used",
        ),
    ],
)
def test_warnings_fail_nothing(step: str, front: str, warning: str):
    found = linted(step, front=front)
    assert found.errors == ()
    assert any(warning in each for each in found.warnings), found.warnings


def test_a_misspelled_key_is_a_mistake():
    found = linted(front="risk_level: low\nauto_aprove: true\nrisk_level: high").errors
    assert found == (
        "Frontmatter has no field 'auto_aprove:' (line 5). Did you mean 'auto_approve:'?",
        "Frontmatter has 'risk_level:' twice (line 6). Only the first counts: remove one",
    )


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("hotl-workflow-a.md", "workflow"),
        ("x/hotl-workflow-a.md", "workflow"),
        ("docs/plans/2026-a-workflow.md", "workflow"),
        ("docs/designs/a.md", "design"),
        ("a-plan.md", "design"),
        ("x/a-design.md", "design"),
        ("a-workflow.md", None),
        ("README.md", None),
    ],
)
def test_the_path_tells_what_a_document_is(path: str, kind: str | None):
    assert document_type(path) == kind


DESIGN = """\
## Intent Contract
intent: x
constraints: none
success_criteria: y
risk_level: `low`
## Verification Contract
run tests
## Governance Contract
approval_gates: none
rollback: revert
"""


def test_design_documents():
    assert lint(DESIGN, "design") == Linted((), ())
    assert lint("", "design").errors == (
        *("Missing Intent Contract section", "Missing Verification Contract section"),
        "Missing Governance Contract section",
    )
    assert lint("## intent\n## verification contract\n## Governance\nrisk_level: mild", "design").errors == (
        *("Intent Contract missing 'intent:' field", "Intent Contract missing 'constraints:' field"),
        *("Intent Contract missing 'success_criteria:' field", "Verification Contract has no verify steps"),
        *("Governance Contract missing 'approval_gates' field", "Governance Contract missing 'rollback' field"),
        "risk_level must be low, medium, or high (got: 'mild')",
    )


def test_many_steps_are_read_without_a_mistake():
    """How long that takes is bar k of the benchmarks."""
    steps = [
        f"{ITEM}  - type: shell\n    command: pytest -k {at}\n  - type: human-review\n    prompt: ok"
        for at in range(500)
    ]
    assert lint(workflow(*steps), "workflow") == Linted((), ())
