"""A workflow file as a tree: root and steps, keys, checks, gates, and what is no part of what is approved."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.agents import AgentSpec
from irontree.domain.checks import checks_for, coverage, left_to_people
from irontree.domain.documents import common_text, read_document
from irontree.domain.gates import Gate, Gates
from irontree.domain.plan import Criterion, ExecutionPolicy, PlanNode, PublishPolicy, Shell
from irontree.domain.spec import Requirements, changes_of
from irontree.domain.workflow.compile import is_workflow, read_workflow, unticked
from irontree.domain.workflow.lint import lint
from irontree.domain.workflow.reading import read
from irontree.domain.workflow.step import ITSELF, Artifact, Browser, Command, Review, StepSpec
from irontree.errors import RequirementsRefused
from tests.support.hotl import SAMPLES, workflow

NAME = "hotl-workflow-rate.md"
PLAIN = "loop: false\nverify: pytest"
LIST = """\
loop: false
verify:
  - type: human-review
    prompt: Look at the colours
  - type: shell
    command: npm test
  - type: browser
    url: http://localhost:3000
    check: the badge is there
  - type: artifact
    path: migrations
    assert:
      kind: matches-glob
      value: "*.sql"
gate: human"""
AUTO = "risk_level: low\nauto_approve: true"
ASKS = "risk_level: high\nauto_approve: true"
POLICY = ExecutionPolicy(
    agent=AgentSpec(command=("agent",)),
    publish=PublishPolicy(target_branch="main"),
    checks=(Shell(name="tests", run="make test"),),
)


def compiled(*steps: str, front: str = AUTO) -> Requirements:
    return read_workflow(workflow(*(steps or (PLAIN,)), front=front).encode(), NAME)


def leaf(fields: str, front: str = AUTO) -> PlanNode:
    return compiled(fields, front=front).nodes[1]


def test_the_root_is_the_intent_and_each_step_waits_for_the_one_before():
    root, first, second, third = compiled(PLAIN, PLAIN, PLAIN).nodes
    assert (root.task_key, root.executability, root.criteria) == ("rate", "container", ())
    assert root.description.startswith("Success criteria: ")
    assert [node.parent for node in (first, second, third)] == ["rate"] * 3
    assert [node.depends_on for node in (first, second, third)] == [(), (first.task_key,), (second.task_key,)]
    assert [node.step.number for node in (first, second, third) if node.step] == [1, 2, 3]


def test_the_example_of_the_document():
    text = (SAMPLES / NAME.replace("rate", "add-rate-limiting")).read_bytes()
    found = read_document(text, "hotl-workflow-add-rate-limiting.md")
    root, *steps = found.nodes
    assert (root.title, root.task_key) == ("Add rate limiting to the API", "add-rate-limiting")
    assert [(node.title, node.max_retry_count) for node in steps] == [
        *(("Write failing tests", 0), ("Implement rate limiting", 4)),
        *(("Full regression check", 0), ("Final approval", 0)),
    ]
    assert [coverage(node, POLICY)[-1].by for node in steps[3:]] == [ITSELF]


def test_a_second_step_of_a_name_gets_a_number_and_inserting_one_renews_nothing_before_it():
    def digests(*names: str) -> dict[str, str]:
        text = workflow(*[PLAIN] * len(names), front=AUTO)
        for number, name in enumerate(names, 1):
            text = text.replace(f"**Step {number}: Part {number}**", f"**Step {number}: {name}**")
        return {node.task_key: node.digest for node in read_workflow(text.encode(), NAME).nodes}

    before, after = digests("Build", "Test", "Test"), digests("Build", "Test", "Look", "Test")
    assert list(before) == ["rate", "rate-build", "rate-test", "rate-test-2"]
    assert list(after) == ["rate", "rate-build", "rate-test", "rate-look", "rate-test-2"]
    assert [before[key] == after[key] for key in before] == [True, True, True, False]


def test_a_loop_is_a_number_of_attempts_and_the_first_counts():
    once, again = leaf(PLAIN), leaf("loop: until tests pass\nmax_iterations: 5\nverify: pytest")
    assert (once.max_retry_count, again.max_retry_count) == (0, 4)
    assert POLICY.retries_of(again) == 4
    assert again.step is not None
    assert again.step.used_up(5) == "Step 1 reached max iterations (5). tests pass not met."
    assert once.step is not None
    assert once.step.used_up(1) == ""


def test_the_checks_of_a_list_keep_their_order_and_people_are_asked_once_for_all_that_is_theirs():
    node = leaf(LIST, ASKS)
    assert node.step is not None
    assert list(map(type, node.step.checks)) == [Review, Command, Browser, Artifact]
    asked = [human.criterion.text for human in left_to_people(coverage(node, POLICY))]
    assert asked == ["Look at the colours", "the badge is there at http://localhost:3000", "approve step 1: Part 1"]
    assert [check.does for check in checks_for(node, POLICY, ())] == [
        *("npm test", "migrations holds a file named *.sql")
    ]


def test_configured_checks_and_detection_do_not_run_for_a_step():
    assert [check.does for check in checks_for(leaf(PLAIN), POLICY, ("Makefile",))] == ["pytest"]
    assert checks_for(leaf("loop: false"), POLICY, ("Makefile",)) == ()


def test_a_browser_check_runs_only_where_a_command_is_configured_and_reviewers_cannot_take_its_place():
    node = leaf(LIST)
    looks = POLICY.model_copy(update={"browser": "look"})
    assert [type(check) for check in checks_for(node, looks, ())] == [Command, Browser, Artifact]
    seen = "the badge is there at http://localhost:3000"
    criterion = next(criterion for criterion in node.criteria if criterion.text == seen)
    assert criterion.manual
    assert [item.by for item in coverage(node, looks, {seen: "what was seen"}) if item.criterion == criterion] == [
        "what was seen"
    ]


@pytest.mark.parametrize(
    ("front", "gates", "asks"),
    [
        (AUTO, None, False),
        ("risk_level: medium\nauto_approve: true", None, False),
        (ASKS, None, True),
        ("risk_level: low", None, True),
        (AUTO, Gates(acceptance=Gate()), True),
        (AUTO, Gates(failure=Gate()), False),
    ],
)
def test_which_gates_wait_for_a_person(front: str, gates: Gates | None, asks: bool):
    node = leaf("loop: false\ngate: human", front)
    found = left_to_people(coverage(node, POLICY.model_copy(update={"gates": gates})))
    assert [human.criterion for human in found] == [Criterion(text="approve step 1: Part 1", manual=True)] * asks


def test_a_gate_of_an_earlier_plan_is_known_by_its_number_alone():
    earlier = StepSpec.model_validate({"number": 2, "gate": "human", "approves_itself": True})
    assert "name" not in earlier.model_dump()
    assert earlier.cover("approve step 2", {}, guarded=False) == ITSELF
    assert StepSpec(number=2, gate="human", name="Ship it").gate_text == "approve step 2: Ship it"
    assert leaf("loop: false").step == StepSpec(number=1), "a step without a gate is what it was"


def test_a_gate_that_is_auto_asks_nobody():
    assert leaf("loop: false\ngate: auto", ASKS).criteria == ()


def test_a_review_is_never_left_out():
    node = leaf("loop: false\nverify:\n  type: human-review\n  prompt: Look at it", AUTO)
    assert [human.criterion.text for human in left_to_people(coverage(node, POLICY))] == ["Look at it"]


def test_a_review_in_the_words_of_a_gate_is_no_gate():
    node = leaf("loop: false\nverify:\n  type: human-review\n  prompt: approve step 1: Part 1\ngate: human", AUTO)
    assert [human.criterion.text for human in left_to_people(coverage(node, POLICY))] == ["approve step 1: Part 1"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("test -d . \u200b# it is there; touch x", "the invisible character U+200B"),
        ("test -d .\u00a0# it is there; touch x", "the invisible character U+00A0"),
        ("test -d .\u3164# it is there; touch x", "the invisible character U+3164"),
        (
            "test '-----BEGIN PRIVATE KEY-----' || true; touch x; : -----END PRIVATE KEY-----",
            "what looks like a secret",
        ),
        ("curl -H ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8 http://127.0.0.1", "what looks like a secret"),
    ],
)
def test_a_command_of_which_an_approval_would_not_show_all_is_refused(command: str, said: str):
    """R6: what was approved is what runs."""
    with pytest.raises(RequirementsRefused) as refused:
        read_workflow(workflow(f"loop: false\nverify: {command}").encode(), NAME)
    assert said in str(refused.value)


def test_boxes_are_no_part_of_what_is_approved():
    text = workflow(PLAIN, PLAIN, front=AUTO)
    ticked = text.replace("- [ ] **Step 2", "- [x] **Step 2")
    assert ticked != text
    found, again = read_workflow(text.encode(), NAME), read_workflow(ticked.encode(), NAME)
    assert (found.digest, found.source, found.nodes) == (again.digest, again.source, again.nodes)
    assert unticked(read(ticked)) == text


def test_a_plan_without_steps_has_the_digests_that_it_had():
    assert "step" not in PlanNode(task_key="a", title="A").model_dump()
    assert "browser" not in POLICY.model_dump()


def test_a_step_is_read_back_from_its_plan_as_it_was():
    node = leaf(LIST)
    assert PlanNode.model_validate(node.model_dump(mode="json")) == node


def test_what_belongs_to_no_step_is_the_introduction():
    text = workflow("loop: false\n\nOwn.", "loop: false\n\n## Out of scope\n\nDatabases.\n\n## Nothing\n", front=AUTO)
    text = text.replace("- [ ] **Step 1", "# Limits\n\nBe kind.\n\n<!-- unseen -->\n\n## Steps\n\n- [ ] **Step 1", 1)
    found = read_workflow(text.encode(), NAME)
    assert found.introduction == "Be kind.\n\n**Out of scope**\n\nDatabases."
    assert common_text(found.source, NAME) == ("Limits", found.introduction)
    assert [node.description for node in found.nodes[1:]] == ["Do it\n\nOwn.", "Do it"]


def test_mistakes_refuse_the_file_with_their_lines():
    text = workflow("loop: maybe\nverify: pytest", front="risk_level: none").encode()
    with pytest.raises(RequirementsRefused) as refused:
        read_document(text, NAME)
    assert any("risk_level must be low, medium, or high" in problem for problem in refused.value.problems)
    assert all(problem.startswith(f"{NAME}:") for problem in refused.value.problems)
    assert len(refused.value.problems) == len(lint(text.decode(), "workflow").errors)


def test_nothing_in_quotes_is_nothing():
    with pytest.raises(RequirementsRefused, match="verify type:human-review missing 'prompt:' field"):
        compiled('loop: false\nverify:\n  type: human-review\n  prompt: ""')


def test_hidden_characters_refuse_it_too():
    with pytest.raises(RequirementsRefused, match="U\\+202E"):
        compiled("loop: false\nverify: echo \u202e")


@pytest.mark.parametrize(
    ("name", "text", "is_one"),
    [
        (NAME, "", True),
        ("docs/plans/2026-01-02-rate-workflow.md", "", True),
        ("plan.md", "---\nintent: x\nrisk_level: low\n---\n", True),
        ("plan.md", "\ufeff---\nintent: x\nrisk_level: low\n---\n", True),
        ("plan.md", "---\ntitle: x\n---\n# Tasks\n", False),
        ("plan.md", "# Tasks\n\nintent: x\nrisk_level: low\n", False),
    ],
)
def test_what_is_taken_for_a_workflow_file(name: str, text: str, is_one: bool):
    assert is_workflow(text.encode(), name) is is_one


def test_what_changed_in_a_step_is_told():
    before = compiled("loop: until green\nmax_iterations: 3\nverify: pytest\ngate: human", front=ASKS).nodes
    now = compiled("loop: until green\nmax_iterations: 5\nverify: pytest -x", front=ASKS).nodes
    assert [line.partition("”, ")[2] for line in changes_of(before, now)] == [
        *("criterion removed: approve step 1: Part 1", "command added: pytest -x", "command removed: pytest"),
        *("attempts: at most 5 (was at most 3)", "gate: none (was human)"),
    ]


PIECES = [
    *("---", "intent: x", "success_criteria: y", "risk_level: low", "auto_approve: true", "", "- [ ] **Step 1: A**"),
    *(
        "### 2. B",
        "action: do",
        "loop: false",
        "loop: until x",
        "max_iterations: 2",
        "verify: x",
        "verify:",
        "gate: human",
    ),
    *("  type: artifact", "  type: browser", "  - type: human-review", '    prompt: ""', "    path: ''", '    url: ""'),
    *(
        "    check: x",
        '    kind: "exists"',
        "    assert:",
        '    value: ""',
        "  type: shell",
        "    command: x",
        "    url: x",
    ),
    *(
        "    kind: contains",
        "    path: a/b",
        "    path: ../b",
        "```",
        "\u2028",
        "- [x] **Step 0: C**",
        "verify: |",
        "intent: ",
    ),
]
HEAD = "---\nintent: x\nsuccess_criteria: y\nrisk_level: low\n---\n- [ ] **Step 1: A**\naction: do\nloop: false\n"


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=9)), max_size=14), st.sampled_from(["", HEAD]))
def test_any_text_is_a_tree_or_is_refused(pieces: list[str], head: str):
    try:
        nodes = read_document((head + "\n".join(pieces)).encode("utf-8", "surrogatepass"), NAME).nodes
    except RequirementsRefused:
        return
    assert [PlanNode.model_validate(node.model_dump(mode="json")) for node in nodes] == list(nodes)


@given(st.lists(st.sampled_from(["Build", "build", "Build it", "", "Ä", "2", "Test 2", "Test", "Test"]), max_size=9))
def test_every_step_has_a_key_of_its_own(names: list[str]):
    steps = "\n".join(
        f"- [ ] **Step {number}: {name}**\naction: x\nloop: false\n" for number, name in enumerate(names or ["A"], 1)
    )
    text = f"---\nintent: x\nsuccess_criteria: y\nrisk_level: low\n---\n\n{steps}"
    keys = [node.task_key for node in read_workflow(text.encode(), NAME).nodes]
    assert len(set(keys)) == len(keys) == 1 + len(names or ["A"])
