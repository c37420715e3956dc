"""What people are told of their own checkout: what work starts without, and what it lacks of what was published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from irontree.app import App
from irontree.domain.plan import PublishPolicy
from irontree.domain.text import counted, few
from irontree.domain.values import short_sha
from irontree.services.record import World


def not_part_of_work(app: App, target: PublishPolicy, documents: Sequence[str]) -> tuple[str, ...]:
    """What is not part of work that starts now, as it starts from a commit (decision 0021); *documents* are read."""
    found = app.repository.checkout(target, exempt=documents)
    told = [f"Not part of this work: changes in no commit: {few(found.uncommitted)}."] if found.uncommitted else []
    if found.detached:
        told.append("Your checkout is on no branch (detached HEAD).")
    if not told or found.start is None:
        return tuple(told)
    return (" ".join((*told, f"Work starts from commit {short_sha(found.start)} of {_named(target)}.")),)


def unpushed(app: App, target: PublishPolicy) -> tuple[str, ...]:
    """A warning about unpushed commits: work starts without them, and then the user's branch cannot follow."""
    count = app.repository.standing(target).ahead
    if not count:
        return ()
    are = f"{counted(count, 'commit')} {'is' if count == 1 else 'are'}"
    return (
        f"{are} on your own {target.target_branch} and not on {target.remote}: work starts without them (git push)",
    )


def targets(world: World) -> tuple[PublishPolicy, ...]:
    """Where the approved work is published."""
    return tuple(dict.fromkeys(plan.policy.publish for plan in world.plans.values()))


def lagging(app: App, where: Iterable[PublishPolicy]) -> Iterator[tuple[str, str]]:
    """The user's own target branches that lack commits of the remote, as last fetched; each with what to do."""
    for target in where:
        found = app.repository.standing(target)
        if found.behind:
            why = f" and cannot follow: {found.in_the_way}" if found.in_the_way else ""
            yield (
                f"your own {target.target_branch} is {counted(found.behind, 'commit')} behind {_named(target)}{why}",
                found.remedy,
            )


def _named(target: PublishPolicy) -> str:
    return f"{target.remote}/{target.target_branch}" if target.remote else target.target_branch
