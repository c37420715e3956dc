"""What the services rely on: the port `Repository` and its `Workspace`, with and without a remote."""

from __future__ import annotations

import shutil

import pytest

from irontree.domain.plan import WorkspacePolicy
from irontree.domain.protection import LineCount
from irontree.errors import ConfigRefused, GitFailed, PublicationRefused, RemoteUnavailable
from irontree.ports import Checkout, CommitRefused, Committed, Document, Moved, Published, Rewritten, Standing
from tests.support.repositories import PLAIN, write

REF = "refs/irontree/issue-1/2"


def test_it_knows_its_main_worktree_and_keeps_its_id(project, repository):
    assert repository.root == project.root
    assert repository.id == project.repository.id


def test_new_work_starts_from_the_target(project, repository, policy):
    assert repository.base(policy) == project.tip()


def test_a_published_commit_is_on_the_target_and_in_the_users_checkout(project, repository, policy):
    sha = project.work(**{"work.txt": "done\n"})
    assert repository.publish(sha, policy) == Published(sha)
    assert repository.base(policy) == sha
    assert project.tip() == sha
    assert (project.root / "work.txt").read_text() == "done\n"


def test_publishing_twice_is_publishing_once(project, repository, policy):
    sha = project.work()
    assert repository.publish(sha, policy) == repository.publish(sha, policy) == Published(sha)


def test_what_does_not_contain_the_target_is_not_published(project, repository, policy):
    sha = project.work()
    tip = project.push_from_elsewhere() if policy.remote else project.commit_here("mine.txt", "mine\n")
    assert repository.publish(sha, policy) == Moved(tip)
    assert repository.base(policy) == tip


def test_what_was_taken_back_from_the_target_is_not_brought_back(project, repository, policy):
    """R5: the tip that a commit was checked on top of must still be part of the target."""
    onto = project.push_from_elsewhere() if policy.remote else project.commit_here("mine.txt", "mine\n")
    assert repository.base(policy) == onto
    sha = project.work(onto)
    earlier = project.take_back(policy)
    assert repository.publish(sha, policy, onto=onto) == Rewritten(onto, earlier)
    assert repository.base(policy) == earlier
    assert repository.publish(sha, policy, onto=onto) == Rewritten(onto, earlier), "however often it was fetched since"


def test_a_target_that_was_deleted_is_not_made_again(project, repository):
    onto = repository.base(project.target)
    sha = project.work()
    project.delete_target()
    assert repository.publish(sha, project.target, onto=onto) == Rewritten(onto, None)
    with pytest.raises(PublicationRefused) as refused:
        repository.base(project.target)
    assert (refused.value.reason, bool(refused.value.remedy)) == ("target-gone", True)


def test_what_moved_on_to_a_part_of_the_commit_is_no_obstacle(project, repository, policy):
    """Such as a merge that was checked before a crash: it stands on the tip that the target has now."""
    onto = repository.base(policy)
    tip = project.push_from_elsewhere() if policy.remote else project.commit_here("mine.txt", "mine\n")
    assert repository.base(policy) == tip
    sha = project.work(tip)
    assert repository.publish(sha, policy, onto=onto) == Published(sha)
    assert repository.base(policy) == sha


def test_a_merge_of_what_moved_can_be_published(project, repository, policy):
    sha = project.work()
    tip = project.push_from_elsewhere() if policy.remote else project.commit_here("mine.txt", "mine\n")
    assert repository.base(policy) == tip
    workspace = repository.workspace("run", PLAIN)
    merged = workspace.merge(sha, tip, "Merge main into #1\n\nIrontree-Merge: token\n")
    assert merged is not None
    repository.keep(merged, REF, source=workspace)
    assert repository.publish(merged, policy) == Published(merged)
    assert project.parents(merged) == (sha, tip)


def test_a_mode_that_is_not_there_yet_is_refused_and_nothing_moves(project, repository, policy):
    sha = project.work()
    with pytest.raises(ConfigRefused, match="pull_request"):
        repository.publish(sha, policy.model_copy(update={"mode": "pull_request"}))
    assert repository.base(policy) != sha


def test_a_branch_of_the_user_that_went_its_own_way_is_left_there_and_somebody_is_told(project, repository):
    sha, mine = project.work(), project.commit_here("mine.txt", "mine\n")
    published = repository.publish(sha, project.target)
    assert published.sha == repository.base(project.target) == sha
    assert "your own main could not follow" in published.warning
    assert project.tip() == mine


def test_it_counts_the_users_commits_that_work_would_start_without(project, repository, policy):
    assert repository.standing(policy) == Standing()
    project.commit_here("mine.txt", "mine\n")
    project.commit_here("more.txt", "more\n")
    assert repository.standing(policy) == Standing(ahead=2 if policy.remote else 0)
    assert repository.standing(policy.model_copy(update={"target_branch": "nowhere"})) == Standing()


def test_it_counts_the_commits_that_the_users_branch_lacks_and_says_what_is_in_the_way(project, repository):
    project.push_from_elsewhere("theirs.txt")
    project.push_from_elsewhere("app.py", "theirs\n")
    repository.base(project.target)
    found = repository.standing(project.target)
    assert (found.ahead, found.behind, found.in_the_way) == (0, 2, "")
    assert "git pull" in found.remedy
    write(project.root, **{"app.py": "mine\n", "notes.txt": "mine\n"})
    found = repository.standing(project.target)
    assert (found.behind, "app.py" in found.in_the_way, "notes" in found.in_the_way) == (2, True, False)
    project.commit_here("mine.txt", "mine\n")
    found = repository.standing(project.target)
    assert (found.ahead, found.behind, found.in_the_way) == (1, 2, "")
    assert "pull --rebase origin" not in found.remedy, "it fails beside changes in no commit"
    assert "git pull" in found.remedy


def test_it_says_whether_the_target_has_a_commit_whoever_published_it(project, repository, policy):
    sha = project.work()
    assert not repository.has_published(sha, policy)
    repository.publish(sha, policy)
    repository.base(policy)
    assert repository.has_published(sha, policy)
    assert not repository.has_published("0" * 40, policy)
    assert not repository.has_published(sha, policy.model_copy(update={"target_branch": "nowhere"}))


def test_it_tells_what_the_target_has_of_the_history_of_a_commit(project, repository, policy):
    base = repository.base(policy)
    sha = project.work()
    assert repository.fork_point(sha, policy) == base
    assert repository.fork_point(base, policy) == base
    assert repository.fork_point("0" * 40, policy) is None
    assert repository.fork_point(sha, policy.model_copy(update={"target_branch": "nowhere"})) is None


def test_it_says_which_commits_the_target_had_and_has_no_more(project, repository, policy):
    sha = project.work()
    assert repository.taken_back([sha], policy) == frozenset(), "it was never there"
    repository.publish(sha, policy)
    assert repository.base(policy) == sha
    assert repository.taken_back([sha, project.parents(sha)[0], "0" * 40], policy) == frozenset()
    assert repository.taken_back([], policy) == frozenset()
    project.take_back(policy)
    repository.base(policy)
    assert repository.taken_back([sha], policy) == {sha}
    assert repository.taken_back([sha], policy.model_copy(update={"target_branch": "nowhere"})) == frozenset()


def test_unsaved_work_of_the_user_is_never_overwritten(project, repository, policy):
    sha, before = project.work(**{"app.py": "print('ours')\n"}), project.tip()
    write(project.root, **{"app.py": "print('mine')\n"})
    if policy.remote:
        assert "could not follow" in repository.publish(sha, policy).warning
    else:
        with pytest.raises(PublicationRefused) as refused:
            repository.publish(sha, policy)
        assert refused.value.reason == "checkout-not-clean"
    assert (project.root / "app.py").read_text() == "print('mine')\n"
    assert project.tip() == before


def test_a_remote_that_does_not_answer_is_no_refusal_and_nothing_moves(project, repository):
    sha, before = project.work(), project.tip()
    project.take_remote_away()
    for ask in (lambda: repository.base(project.target), lambda: repository.publish(sha, project.target)):
        with pytest.raises(RemoteUnavailable):
            ask()
    assert project.tip() == before


def test_a_remote_that_refuses_is_one_and_nothing_moves(project, repository):
    sha, before = project.work(), project.tip()
    project.protect_remote()
    with pytest.raises(PublicationRefused, match="protected branch"):
        repository.publish(sha, project.target)
    assert repository.base(project.target) == project.tip() == before


def test_a_commit_that_a_hook_refuses_is_told_with_its_words_and_can_be_made_later(project, repository):
    workspace, base = repository.workspace("run", PLAIN), project.tip()
    workspace.prepare(base)
    write(workspace.path, **{"work.txt": "done\n"})
    project.refuse_commits("too long a line")
    refused = workspace.commit("[run] #1: work", base=base)
    assert isinstance(refused, CommitRefused)
    assert "too long a line" in refused.output
    assert (workspace.path / "work.txt").read_text() == "done\n"


def test_a_commit_is_kept_under_a_ref_and_keeping_it_again_is_nothing(project, repository):
    sha = project.work()
    assert repository.read_ref(REF) is None
    repository.keep(sha, REF)
    repository.keep(sha, REF)
    assert repository.read_ref(REF) == sha


def test_what_was_kept_stays_kept_when_the_workspace_is_gone(project, repository):
    sha, workspace = project.work(), repository.workspace("run", PLAIN)
    repository.keep(sha, REF, source=workspace)
    shutil.rmtree(workspace.path)
    repository.keep(sha, REF, source=workspace)
    assert repository.read_ref(REF) == sha


def test_a_ref_never_moves_to_work_that_does_not_contain_what_it_held(project, repository):
    base = project.tip()
    first, second = project.work(base, one="1\n"), project.work(base, two="2\n")
    repository.keep(first, REF)
    with pytest.raises(GitFailed):
        repository.keep(second, REF)
    assert repository.read_ref(REF) == first


def test_it_tells_what_is_here_and_what_changed(project, repository):
    base, sha = project.tip(), project.work(**{"app.py": "print('bye')\n", "new file.txt": "new\n"})
    assert not repository.lacking((sha,))
    assert repository.lacking(("0" * 40,))
    assert repository.changed_files(base, sha) == ("app.py", "new file.txt")
    assert "+print('bye')" in repository.diff(base, sha)


def test_what_is_copied_into_workspaces_belongs_in_no_commit(project, repository):
    (project.root / ".env").write_text("API_KEY='never in a commit'\n")
    (project.root / "folder").mkdir()
    found = repository.secrets(WorkspacePolicy(copy_files=(".env", "folder", "gone")))
    assert "never in a commit" in found


def test_it_counts_the_lines_that_came_and_went_but_for_files_without_lines(project, repository):
    first = project.work(project.tip(), **{"app.py": "print('bye')\nprint('again')\n", "picture": "a\0b"})
    assert set(repository.line_counts(project.tip(), first)) == {
        LineCount("app.py", 2, 1, new=False),
        LineCount("picture", None, None, new=True),
    }


def test_of_a_file_that_is_gone_it_says_so_also_where_no_line_went(project, repository):
    first = project.work(project.tip(), **{"empty.py": "", "text": "line\n"})
    assert set(repository.line_counts(first, project.tip())) == {
        LineCount("empty.py", 0, 0, kept=False),
        LineCount("text", 0, 1, kept=False),
    }


def test_it_reads_what_changed_whatever_its_names_and_bytes(project, repository):
    """A byte that is no text, an attribute or a line in a name must hide nothing from who looks for secrets."""
    files = {".gitattributes": "* -diff\n", "a\nHEAD": "in a name\n", "app.py": "print('bye')\n", "data": "a\0key"}
    found = {path: (before, now) for path, before, now in repository.texts(project.tip(), project.work(**files))}
    assert found["app.py"] == ("print('hello')\n", "print('bye')\n")
    assert found["a\nHEAD"] == ("", "in a name\n")
    assert found["data"][1].replace("\0", "") == "akey"


def test_of_what_changed_it_reads_only_what_is_wanted(project, repository):
    base, sha = project.tip(), project.work(**{"app.py": "print('bye')\n", "a\nHEAD": "in a name\n", "more": "x"})
    found = repository.texts(base, sha, only=("a\nHEAD", "app.py", "absent"))
    assert sorted(found) == [("a\nHEAD", "", "in a name\n"), ("app.py", "print('hello')\n", "print('bye')\n")]


def test_a_diff_begins_with_the_files_that_are_to_come_first(project, repository):
    base, sha = project.tip(), project.work(**{"app.py": "print('bye')\n", "z*.txt": "new\n", "zoo.txt": "new\n"})
    shown = repository.diff(base, sha, first=("z*.txt", "gone.txt"))
    assert shown.index("z*.txt") < shown.index("app.py") < shown.index("zoo.txt")
    assert shown.count("+print('bye')") == 1


def test_it_lists_the_files_of_a_commit(project, repository):
    sha = project.work(**{"ä b.txt": "new\n"})
    assert repository.files_at(sha) == repository.files_at(project.tip()) | {"ä b.txt": ""}


def test_tracked_files_that_a_check_rewrote_or_removed_are_named_and_put_back(project, repository):
    sha = project.work(**{"one.txt": "1\n", "two.txt": "2\n"})
    repository.keep(sha, REF, source=repository.workspace("run", PLAIN))
    workspace = repository.workspace("verify", PLAIN)
    workspace.prepare(sha)
    assert workspace.put_back() == ()
    (workspace.path / "one.txt").unlink()
    (workspace.path / "two.txt").write_text("3\n")
    (workspace.path / "beside.txt").write_text("untracked\n")
    assert workspace.put_back() == ("one.txt", "two.txt")
    assert workspace.put_back() == ()
    assert (workspace.path / "one.txt").exists()
    assert (workspace.path / "two.txt").read_text() == "2\n"
    assert (workspace.path / "beside.txt").exists()


def test_what_nobody_wants_beside_the_tracked_files_is_removed_and_named(project, repository):
    sha = project.work(**{"one.txt": "1\n", ".gitignore": "ignored*\n"})
    repository.keep(sha, REF, source=repository.workspace("run", PLAIN))
    workspace = repository.workspace("verify", PLAIN)
    workspace.prepare(sha)
    assert workspace.untracked() == set()
    for path in ("beside.txt", "ignored.txt", "folder/plain.txt", "folder/ignored.txt"):
        (workspace.path / path).parent.mkdir(exist_ok=True)
        (workspace.path / path).write_text("new\n")
    assert workspace.untracked() == {"beside.txt", "ignored.txt", "folder/plain.txt", "folder/ignored.txt"}
    (workspace.path / "one.txt").write_text("by set-up\n")
    assert workspace.remove_untracked(lambda path: "ignored" in path) == ("folder/ignored.txt", "ignored.txt")
    assert (workspace.path / "one.txt").read_text() == "by set-up\n", "what is tracked is no concern"
    assert workspace.untracked() == {"beside.txt", "folder/plain.txt"}


def test_files_can_be_put_as_they_were_in_another_commit(project, repository):
    base, sha = project.tip(), project.work(**{"app.py": "print('bye')\n", "new*.txt": "new\n", "newer.txt": "new\n"})
    repository.keep(sha, REF, source=repository.workspace("run", PLAIN))
    workspace = repository.workspace("verify", PLAIN)
    workspace.prepare(sha)
    before = (project.root / "app.py").read_text()
    workspace.put(base, ("app.py", "new*.txt"))
    assert (workspace.path / "app.py").read_text() == before
    assert not (workspace.path / "new*.txt").exists()
    assert (workspace.path / "newer.txt").exists()


def test_it_tells_which_commits_it_lacks_and_which_no_ref_keeps(project, repository):
    base, sha = project.tip(), project.work()
    gone = "0" * 40
    assert repository.lacking((base, gone, sha)) == {gone}
    assert repository.lacking(()) == frozenset()
    assert repository.unreferenced(()) == frozenset()
    repository.keep(sha, REF)
    assert repository.unreferenced((base, sha)) == frozenset()
    assert (repository.contains(sha, base), repository.contains(base, sha), repository.contains(gone, base)) == (
        True,
        False,
        False,
    )


def test_a_commit_is_found_by_its_token_and_only_by_it(project, repository):
    base, workspace = project.tip(), repository.workspace("run", PLAIN)
    assert repository.find_token("issue-1/aa/2", base=base, source=workspace) is None, "no workspace yet"
    sha = project.work(message="[run] #1: work\n\nIrontree-Run: issue-1/aa/2\n")
    assert repository.find_token("issue-1/aa/2", base=base, source=workspace) == sha
    assert repository.find_token("issue-1/aa/3", base=base, source=workspace) is None
    assert repository.find_token("issue-1/aa/2", base=sha, source=workspace) is None


def test_an_attempt_becomes_one_commit_on_its_base(project, repository):
    base, workspace = project.tip(), repository.workspace("run", PLAIN)
    workspace.prepare(base)
    write(workspace.path, **{"app.py": "print('new')\n", "extra.txt": "x\n", "plan.md": "no work\n"})
    made = workspace.commit("[run] #1: say new\n", base=base, without=("plan.md", "other.md"))
    assert isinstance(made, Committed)
    assert made.files == ("app.py", "extra.txt")
    assert made.dropped == ("plan.md",)
    repository.keep(made.sha, REF, source=workspace)
    assert project.parents(made.sha) == (base,)


def test_an_attempt_that_changed_nothing_makes_no_commit(project, repository):
    base, workspace = project.tip(), repository.workspace("run", PLAIN)
    workspace.prepare(base)
    assert workspace.commit("[run] #1: nothing", base=base) is None


def test_the_next_attempt_sees_the_earlier_ones_files_and_replaces_its_commit(project, repository):
    base, workspace = project.tip(), repository.workspace("run", PLAIN)
    first = project.work(base, half="half\n")
    workspace.prepare(base, tree_of=first)
    assert (workspace.path / "half").read_text() == "half\n"
    write(workspace.path, rest="rest\n")
    made = workspace.commit("[run] #1: all", base=base)
    assert isinstance(made, Committed)
    assert made.files == ("half", "rest")
    repository.keep(made.sha, REF, source=workspace)
    assert project.parents(made.sha) == (base,)


def test_work_that_was_cut_off_is_kept_and_nothing_is_not(project, repository):
    base, workspace = project.tip(), repository.workspace("run", PLAIN)
    workspace.prepare(base)
    assert workspace.salvage(base, REF) is None
    write(workspace.path, half="half\n")
    kept = workspace.salvage(base, REF)
    assert kept is not None
    assert repository.read_ref(REF) == kept
    assert repository.changed_files(base, kept) == ("half",)


def test_a_conflict_is_no_merge_and_leaves_the_workspace_usable(project, repository):
    base = project.tip()
    ours, theirs = project.work(base, **{"app.py": "ours\n"}), project.work(base, **{"app.py": "theirs\n"})
    workspace = repository.workspace("run", PLAIN)
    assert workspace.merge(ours, theirs, "merge") is None
    workspace.prepare(base)
    assert workspace.commit("nothing", base=base) is None


NOTES = Document("docs/integrations/log-in.md", "# Log in\n")


def test_notes_become_a_commit_of_their_own_on_what_was_verified(project, repository):
    sha, workspace = project.work(), repository.workspace("run", PLAIN)
    assert repository.document_at(sha, NOTES.path) is None
    made = workspace.commit_document(NOTES, "docs(issue-1): log in\n\nIrontree-Docs: t-docs\n", base=sha)
    assert isinstance(made, Committed)
    assert made.files == (NOTES.path,)
    assert repository.find_token("t-docs", base=sha, source=workspace) == made.sha
    repository.keep(made.sha, REF, source=workspace)
    assert project.parents(made.sha) == (sha,)
    assert repository.document_at(made.sha, NOTES.path) == NOTES


def test_a_document_that_is_there_is_found_in_whatever_case_and_written_under_its_own_name(project, repository):
    """Where upper and lower case are one, a second file would take the place of the first."""
    tip = project.commit_here("docs/integrations/Log-In.md", "# Theirs\n")
    found = repository.document_at(tip, NOTES.path)
    assert found == Document("docs/integrations/Log-In.md", "# Theirs\n")
    workspace = repository.workspace("run", PLAIN)
    made = workspace.commit_document(Document(found.path, f"{found.text}\nours\n"), "docs", base=tip)
    assert made.files == ("docs/integrations/Log-In.md",)


def test_notes_that_change_nothing_make_no_commit(project, repository):
    tip = project.commit_here(NOTES.path, NOTES.text)
    assert repository.workspace("run", PLAIN).commit_document(NOTES, "docs", base=tip) is None


def test_notes_that_a_hook_refuses_are_told_with_its_words(project, repository):
    sha = project.work()
    project.refuse_commits("too long a line")
    made = repository.workspace("run", PLAIN).commit_document(NOTES, "docs", base=sha)
    assert isinstance(made, CommitRefused)
    assert "too long a line" in made.output


def test_notes_leave_the_workspace_usable(project, repository):
    base, sha, workspace = project.tip(), project.work(), repository.workspace("run", PLAIN)
    workspace.commit_document(NOTES, "docs", base=sha)
    assert workspace.salvage(base, REF) is None, "nobody's attempt was cut off"
    workspace.prepare(base)
    assert workspace.commit("nothing", base=base) is None


def test_what_is_in_no_commit_is_told_and_stops_nothing(project, repository, policy):
    assert repository.checkout(policy) == Checkout(project.tip())
    write(project.root, SPEC="text\n", more="text\n")
    assert repository.preflight(policy, PLAIN) == ()
    assert repository.checkout(policy).uncommitted == ("SPEC", "more")
    assert repository.checkout(policy, exempt=("SPEC",)).uncommitted == ("more",)


def test_the_log_is_backed_up_when_it_changed_and_only_then(project, repository):
    repository.back_up()
    assert repository.read_ref("refs/irontree/log") is None
    event = project.root / ".mino" / "events" / "issue-1" / "0001-task-published.yml"
    event.parent.mkdir(parents=True)
    event.write_text("iron_tree:\n")
    repository.back_up()
    first = repository.read_ref("refs/irontree/log")
    assert project.show(first, ".mino/events/issue-1/0001-task-published.yml") == "iron_tree:\n"
    repository.back_up()
    assert repository.read_ref("refs/irontree/log") == first
