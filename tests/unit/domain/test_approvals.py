"""By what key an approval is asked for, and what can be read from it."""

from __future__ import annotations

from irontree.domain.gates import key_of_approval, name_in_key


def test_the_key_of_a_question_says_what_approving_has_to_name():
    assert name_in_key(key_of_approval("0123abcd-4567ef89", "new")) == "0123abcd-4567ef89"
    changed = key_of_approval("0123abcd-4567ef89", "89abcdef")
    assert name_in_key(f"{changed}-again-2") == name_in_key(changed) == "0123abcd-4567ef89-89abcdef"
    assert name_in_key(key_of_approval("0123abcd-4567ef89", "2026-04-22-1432-a3f8b2")) == "0123abcd-4567ef89"


def test_the_key_of_another_question_names_no_approval():
    assert name_in_key("issue-7-3-pending-acceptance") is None
