"""The user's checkout, put on the branch of a workflow that was just approved, if nothing of theirs is in the way."""

from __future__ import annotations

from irontree.app import App
from irontree.domain.plan import PublishPolicy
from irontree.domain.text import shell_word
from irontree.domain.workflow.target import why_it_stays


def put_on_branch(app: App, publish: PublishPolicy, *, is_here: bool) -> str:
    """Put the checkout on the plan's own branch, and say so, or why it stays and how to do that by hand.

    *is_here* says whether the approval was given on a terminal in that checkout. Empty if it is there already. The
    caller holds the driver lock.
    """
    branch, start = publish.target_branch, publish.branch_from
    checkout = app.repository.user_checkout(publish.remote)
    if checkout.branch == branch or start is None:
        return ""
    why = why_it_stays(checkout, start) if is_here else "the approval was not given on a terminal in it"
    why = why or app.repository.switch(branch, start) or ""
    if not why:
        return f"Your checkout is on {branch} now, and follows the work."
    there = shell_word(branch)
    command = f"git switch {there}" if branch in checkout.branches else f"git switch --create {there} {start[:12]}"
    return f"Your checkout stays on {checkout.branch or 'no branch'}: {why}. To follow the work: {command}"
