"""Notes of verified work in the project's documents: when, where, in which commit, and what a failure costs."""

from __future__ import annotations

import pytest

from irontree.agents.scripted import ScriptedAgent
from irontree.domain.decide import Verify
from irontree.domain.state import Phase
from irontree.domain.values import PromotionPolicy
from irontree.errors import GitFailed, PublicationRefused, RemoteUnavailable
from irontree.services.execution.checkup import Decider, accept
from irontree.services.execution.publication import promote
from irontree.services.execution.run import run
from irontree.services.execution.steps import perform
from irontree.services.execution.verify import verify
from irontree.services.views.history import say_issue_event
from tests.support.memory_project import push_from_elsewhere
from tests.support.watching import Killed, Watched, dying
from tests.support.world import Scene, does

DOCUMENT = "docs/integrations/integrate-the-provider.md"
SPEC = """\
# Toy

## Integrate the provider

{description}

- [ ] it says hello `$ has greet.txt hello`
"""
LONG = "Connect the shop to the payment provider: configure the webhook, and give the container its secret. " * 2
KEY = "integrate-the-provider"


def promoting(scene: Scene, mode: str = "always", text: str = SPEC.format(description=LONG), **files: str) -> Scene:
    """A scene whose first issue has a commit that waits for its verification, with notes to leave."""
    scene.policy = scene.policy.model_copy(update={"promotion": PromotionPolicy(mode=mode)})
    scene.agent = ScriptedAgent(does(**(files or {"greet_txt": "hello"})))
    scene.publish(text)
    run(scene.app, 1)
    return scene


@pytest.fixture
def committed(scene) -> Scene:
    return promoting(scene)


def report(scene: Scene) -> str:
    return scene.projections.texts[scene.root / ".mino/reports/issue-1/report.md"]


def tip(scene: Scene):
    return scene.repository.commits[scene.repository.remote["main"]]


# --- the commit ----------------------------------------------------------------------------------------


def test_the_notes_are_a_commit_of_their_own_on_top_of_what_was_verified(committed):
    state = verify(committed.app, 1)
    assert tip(committed).parents == (state.anchor,)
    assert set(tip(committed).files) - set(committed.repository.commits[state.anchor].files) == {DOCUMENT}
    assert tip(committed).message.startswith("docs(issue-1): Integrate the provider integration notes\n")


def test_both_go_out_in_one_push(committed):
    pushed: list[str] = []
    committed.repository.before_push = pushed.append
    verify(committed.app, 1)
    assert pushed == [committed.repository.remote["main"]]


def test_what_was_verified_stays_the_evidence(committed):
    """`code_ref` is the checked commit, which the published one contains."""
    state = verify(committed.app, 1)
    assert state.code_ref == state.anchor == state.commit != committed.repository.remote["main"]
    assert committed.repository.contains(committed.repository.remote["main"], state.code_ref)


def test_the_event_names_the_document_and_meta_its_commit(committed):
    verify(committed.app, 1)
    record = committed.last(KEY)
    assert record.event.promoted_doc == DOCUMENT
    assert record.meta["docs_commit"] == committed.repository.remote["main"]
    assert committed.repository.remote["main"] in committed.repository.refs.values(), "every commit we make has a ref"


def test_the_document_says_what_others_look_for(committed):
    verify(committed.app, 1)
    text = tip(committed).files[DOCUMENT].decode()
    assert text.startswith("# Integrate the provider\n\nVerified on 2026-")
    assert "(verify_anchor: " in text
    assert "- `has greet.txt hello`" in text
    assert ".mino" not in text


def test_who_watches_is_told_where_the_notes_are(committed):
    verify(committed.app, 1)
    assert say_issue_event(committed.last(KEY)).endswith(f", with notes in {DOCUMENT}")


def test_the_report_and_the_brief_name_the_document(committed):
    perform(committed.app, Verify(KEY))
    brief = committed.projections.texts[committed.root / ".mino/briefs/issue-1.md"]
    assert f"- Docs: {DOCUMENT}\n" in brief
    assert f"- Promote to the docs: yes, `{DOCUMENT}`" in report(committed)
    assert "- Rationale: report.promotion is always" in report(committed)


def test_another_folder_is_used_if_the_project_has_one(scene):
    scene.policy = scene.policy.model_copy(update={"promotion": PromotionPolicy(mode="always", docs_path="handbook")})
    scene.agent = ScriptedAgent(does(greet_txt="hello"))
    scene.publish(SPEC.format(description=LONG))
    run(scene.app, 1)
    verify(scene.app, 1)
    assert scene.last(KEY).event.promoted_doc == "handbook/integrate-the-provider.md"


def test_a_document_that_is_there_gets_an_update_at_its_end_and_is_never_overwritten(scene):
    push_from_elsewhere(scene.repository, {DOCUMENT: b"# Ours\n\nBy hand.\n"})
    promoting(scene)
    state = verify(scene.app, 1)
    text = tip(scene).files[DOCUMENT].decode()
    assert text.startswith("# Ours\n\nBy hand.\n\n## Update 2026-")
    assert f"(verify_anchor: {state.anchor[:7]})\n" in text


def test_a_name_that_differs_in_case_only_is_the_same_document(scene):
    push_from_elsewhere(scene.repository, {"docs/integrations/Integrate-The-Provider.md": b"# Ours\n"})
    promoting(scene)
    verify(scene.app, 1)
    assert scene.last(KEY).event.promoted_doc == "docs/integrations/Integrate-The-Provider.md"


def test_the_verifiers_note_is_not_in_the_document(committed):
    """What a person noted is never echoed to the forge, and the documents are pushed to it."""
    verify(committed.app, 1, note="between you and me: it was a close shave")
    assert "close shave" not in tip(committed).files[DOCUMENT].decode()
    assert "close shave" in report(committed)


def test_text_by_outsiders_is_not_in_the_document(scene):
    """R20: it stays on the issue that they wrote."""
    promoting(scene, "never").repository.failures += [RemoteUnavailable("no route")] * 3
    state = verify(scene.app, 1)
    plan = scene.world.plan(state)
    always = plan.model_copy(
        update={"policy": plan.policy.model_copy(update={"promotion": PromotionPolicy(mode="always")})}
    )
    node = plan.nodes[0].model_copy(update={"outsider": "eve"})
    made = promote(scene.app, state, always, node, scene.results.load(1, state.anchor))
    assert "it says hello" not in scene.repository.commits[made.tip].files[DOCUMENT].decode()


# --- whether -------------------------------------------------------------------------------------------


def test_auto_leaves_no_notes_where_there_is_nothing_for_others(scene):
    promoting(scene, "auto", SPEC.format(description="Say hello."))
    state = verify(scene.app, 1)
    assert scene.repository.remote["main"] == state.anchor
    assert scene.last(KEY).event.promoted_doc is None
    assert "- Promote to the docs: no" in report(scene)


def test_auto_leaves_notes_about_set_up(scene):
    promoting(scene, "auto", greet_txt="hello", app_toml="x = 1\n")
    verify(scene.app, 1)
    assert scene.last(KEY).event.promoted_doc == DOCUMENT


def test_never_is_never(scene):
    promoting(scene, "never", greet_txt="hello", app_toml="x = 1\n")
    state = verify(scene.app, 1)
    assert scene.repository.remote["main"] == state.anchor
    assert "- Rationale: report.promotion is never" in report(scene)


def test_an_acceptance_commits_nothing(scene):
    """R14: what a person accepts is published exactly as they were shown it."""
    promoting(scene, text=SPEC.format(description=LONG) + "- [ ] it is pretty (manual)\n")
    state = verify(scene.app, 1)
    assert "what a person accepts is left as it is" in report(scene)
    accept(scene.app, 1, Decider("ada"))
    assert scene.repository.remote["main"] == state.anchor


def test_failures_leave_no_notes(scene):
    promoting(scene, greet_txt="nothing")
    before = dict(scene.repository.refs)
    assert verify(scene.app, 1).last_event == "verify_failed_retryable"
    assert scene.repository.refs == before


def test_who_changes_the_setting_after_the_approval_is_asked_again(scene):
    """What is written to the repository is approved (R6)."""
    scene.publish(SPEC.format(description=LONG))
    scene.policy = scene.policy.model_copy(update={"promotion": PromotionPolicy(mode="always")})
    assert run(scene.app, 1).phase is Phase.STALE


# --- failures ------------------------------------------------------------------------------------------


def test_notes_that_git_refuses_cost_nothing_but_the_notes(committed):
    committed.repository.hook = lambda _: "markdownlint: line too long"
    state = verify(committed.app, 1)
    assert state.last_event == "verify_passed"
    assert committed.repository.remote["main"] == state.anchor
    assert committed.last(KEY).event.promoted_doc is None
    warning = "promotion_failed: git refused the commit: markdownlint: line too long"
    assert committed.last(KEY).meta["warnings"] == [warning]
    assert f"- Warning: {warning}" in report(committed)


class Broken:
    """A repository that cannot read documents."""

    def __init__(self, repository) -> None:
        self._repository = repository

    def __getattr__(self, name):
        return getattr(self._repository, name)

    def document_at(self, _sha, _path):
        raise GitFailed("it is not text")


def test_a_document_that_cannot_be_read_costs_nothing_but_the_notes(committed):
    committed.repository = Broken(committed.repository)
    assert verify(committed.app, 1).last_event == "verify_passed"
    assert committed.last(KEY).meta["warnings"] == ["promotion_failed: it is not text"]


def test_a_publication_that_fails_is_tried_again_with_the_same_notes_and_without_the_checks(committed):
    """Outcome E: neither the attempts nor the checks are touched."""
    committed.repository.failures += [RemoteUnavailable("no route")] * 3
    failed = verify(committed.app, 1, note="tried by hand")
    refs = dict(committed.repository.refs)
    assert (failed.last_event, failed.attempt_count, failed.phase) == ("verify_publication_failed", 1, Phase.COMMITTED)
    state = verify(committed.app, 1)
    assert (state.last_event, state.attempt_count) == ("verify_passed", 1)
    assert len(committed.checks.commands) == 1
    assert committed.repository.refs == refs | {"refs/heads/main": committed.repository.remote["main"]}
    assert "tried by hand" in report(committed), "the note of the first try counts for the second"


def test_what_the_remote_refuses_for_good_blocks_with_notes_as_without(committed):
    committed.repository.failures += [PublicationRefused("no", reason="protected-branch")] * 2
    assert verify(committed.app, 1).blocking_check == "protected-branch"


def test_notes_that_the_remote_refuses_are_left_out(committed):
    """Somewhere a rule may forbid such a subject, or that folder: the verified work is published without them."""
    committed.repository.failures.append(PublicationRefused("the subject breaks a rule", reason="refused"))
    state = verify(committed.app, 1)
    assert state.last_event == "verify_passed"
    assert committed.repository.remote["main"] == state.anchor
    assert committed.last(KEY).event.promoted_doc is None
    assert committed.last(KEY).meta["warnings"] == ["promotion_failed: the subject breaks a rule"]


# --- a target that moves, and crashes ------------------------------------------------------------------


def test_on_a_moved_target_the_notes_stand_on_the_merge_and_only_there(committed):
    others = [{"other.txt": b"theirs"}]
    committed.repository.before_push = lambda _: others and push_from_elsewhere(committed.repository, others.pop())
    state = verify(committed.app, 1)
    merge = committed.repository.commits[state.anchor]
    assert tip(committed).parents == (state.anchor,)
    assert merge.parents[0] == state.commit
    history = committed.repository.history(committed.repository.remote["main"])
    notes = [sha for sha in history if committed.repository.commits[sha].message.startswith("docs(")]
    assert notes == [committed.repository.remote["main"]]


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(("port", "method"), [("repository", "keep"), ("repository", "publish"), ("log", "append")])
def test_a_crash_in_between_makes_nothing_twice(committed, port, method, side, moved):
    """R11: what has a ref is used again, what has none was never published."""
    others = [{"other.txt": b"theirs"}] if moved else []
    double = committed.repository
    double.before_push = lambda _: others and push_from_elsewhere(double, others.pop())
    setattr(committed, port, Watched(getattr(committed, port), [method], dying(side)))
    with pytest.raises(Killed):
        verify(committed.app, 1)
    if committed.state(KEY).phase is Phase.COMMITTED:
        verify(committed.app, 1)
    published = double.remote["main"]
    messages = [double.commits[sha].message for sha in double.history(published)]
    assert sum(message.startswith("docs(") for message in messages) == 1
    assert sum(message.startswith("Merge ") for message in messages) == moved
    assert len(committed.checks.commands) == 1 + moved
    assert committed.events(KEY).count("verify_passed") == 1
    assert committed.last(KEY).event.promoted_doc == DOCUMENT
    assert committed.last(KEY).meta["docs_commit"] == published
    assert double.commits[published].parents == (committed.state(KEY).code_ref,)
