"""`irontree plan`: from any text to a document that `irontree task` takes."""

from __future__ import annotations

DOCUMENT = "# Texts\\n\\n## Fifth text\\n\\n- [ ] It is there (check: tests)\\n"


def have_agent(shell, script: str) -> None:
    config = shell.root / ".mino" / "config.yml"
    kept = config.read_text().partition("agent:")[0]
    program = shell.root.parent / "planner.sh"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    program.chmod(0o755)
    shell.configure(f"{kept}agent:\n  command: [{program}]\npublish: {{remote: origin, target_branch: main}}\n")


def test_a_text_becomes_a_document_that_can_be_approved(shell):
    have_agent(shell, f"printf '{DOCUMENT}' > $IRONTREE_DRAFT_FILE; echo junk > junk.txt")
    (shell.root / "WISH.md").write_text("A fifth text, please.")
    done = shell("plan", "WISH.md")
    assert done.code == 0, done.err
    assert "irontree task WISH.plan.md" in done.out
    planned = shell("task", "WISH.plan.md", "--plan", "--json")
    assert [node["task_key"] for node in planned.data["nodes"]] == ["fifth-text"]
    assert not (shell.root / "junk.txt").exists()


def test_what_is_there_is_not_overwritten_unasked(shell):
    have_agent(shell, f"printf '{DOCUMENT}' > $IRONTREE_DRAFT_FILE")
    (shell.root / "WISH.md").write_text("A fifth text, please.")
    (shell.root / "WISH.plan.md").write_text("mine")
    refused = shell("plan", "WISH.md")
    assert refused.code == 1
    assert "--force" in refused.err
    assert (shell.root / "WISH.plan.md").read_text() == "mine"
    assert shell("plan", "WISH.md", "--force", "--json").data["rounds"] == 1


def test_a_planner_that_writes_no_document_leaves_none_and_says_what_to_do(shell):
    have_agent(shell, "echo I would rather not")
    (shell.root / "WISH.md").write_text("A fifth text, please.")
    refused = shell("plan", "WISH.md")
    assert refused.code == 1
    assert "no document was written" in refused.err
    assert not (shell.root / "WISH.plan.md").exists()
