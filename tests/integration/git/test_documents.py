"""Notes in the project's documents, with a real git: what an agent, a hook or an ignore file may have in the way."""

from __future__ import annotations

import pytest

from irontree.errors import EnvironmentRefused, GitFailed
from irontree.ports import CommitRefused, Document
from tests.support.repositories import commit, git, head, hook

NOTES = Document("docs/integrations/log-in.md", "# Log in\n")


def test_a_link_in_the_folder_of_documents_leads_nowhere(project, tmp_path):
    """An agent could commit one, and have us write wherever we may."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (project.root / "docs").symlink_to(outside)
    git(project.root, "add", "docs")
    git(project.root, "commit", "--quiet", "--message", "a link")
    with pytest.raises(EnvironmentRefused, match="leads through a link"):
        project.run_workspace().commit_document(NOTES, "docs", base=head(project.root))
    assert list(outside.iterdir()) == []


def test_a_link_in_the_place_of_the_document_is_not_written_through(project, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (project.root / "docs" / "integrations").mkdir(parents=True)
    (project.root / NOTES.path).symlink_to(victim)
    git(project.root, "add", "docs")
    git(project.root, "commit", "--quiet", "--message", "a link")
    with pytest.raises(EnvironmentRefused, match="leads through a link"):
        project.run_workspace().commit_document(NOTES, "docs", base=head(project.root))
    assert victim.read_text() == "theirs"


def test_a_file_where_the_folder_should_be_is_said(project):
    tip = commit(project.root, "docs", "a file\n")
    with pytest.raises(EnvironmentRefused, match=r"log-in.+cannot be written"):
        project.run_workspace().commit_document(NOTES, "docs", base=tip)


def test_a_folder_that_git_ignores_takes_no_notes(project):
    tip = commit(project.root, ".gitignore", "docs/\n")
    assert project.run_workspace().commit_document(NOTES, "docs", base=tip) is None


def test_a_hook_that_changes_other_files_too_gets_no_commit_through(project):
    """What nobody has verified must not be published beside notes."""
    hook(project.root / ".git" / "hooks", "pre-commit", "echo sneaky >> app.py; git add app.py")
    made = project.run_workspace().commit_document(NOTES, "docs", base=head(project.root))
    assert isinstance(made, CommitRefused)
    assert "app.py" in made.output


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_what_is_no_text_is_not_appended_to(project, content):
    path = project.root / NOTES.path
    path.parent.mkdir(parents=True)
    if content:
        path.write_bytes(content)
    else:
        path.mkdir()
        (path / "x").write_text("x")
    git(project.root, "add", "docs")
    git(project.root, "commit", "--quiet", "--message", "no text")
    with pytest.raises(GitFailed, match=r"log-in.+is not"):
        project.repository.document_at(head(project.root), NOTES.path)
