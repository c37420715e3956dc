"""What the services need from the world: small Protocols, and the values that cross them.

Adapters implement these; `bootstrap` wires them; every port has a contract suite in tests/contract that
all its adapters pass. Foreign exceptions are mapped to `irontree.errors` inside the adapter.

A module here is imported with the first of its names: a command that only looks at the log meets a third of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from irontree.ports.basics import (
        Cancellation,
        Clock,
        Progress,
        Renderer,
    )
    from irontree.ports.forge import (
        Comment,
        Comments,
        Forge,
        Issue,
        IssueTracker,
        Label,
        Labels,
        Links,
    )
    from irontree.ports.locks import (
        Child,
        Children,
        Holder,
        Lease,
        LeftLease,
        Lock,
        RunLock,
    )
    from irontree.ports.log import (
        Deliveries,
        DeliveryCursor,
        EventLog,
        LoopLog,
        LoopStream,
        PlanStore,
        Problem,
        Projections,
        Reading,
        Replays,
        ResultStore,
        Stream,
        Upkeep,
    )
    from irontree.ports.pull_requests import (
        About,
        Checks,
        CheckState,
        CommitCheck,
        PullRequest,
        PullRequests,
        Remark,
        RepositoryFacts,
        Review,
        ReviewVerdict,
    )
    from irontree.ports.repository import (
        Blocker,
        CommitRefused,
        Committed,
        Document,
        LineCount,
        Moved,
        Published,
        Repository,
        Workspace,
        WorkspaceName,
    )
    from irontree.ports.work import (
        AgentResult,
        AgentTask,
        CheckRunner,
        CodingAgent,
        ContainerEngine,
    )

__all__ = [
    "About",
    "AgentResult",
    "AgentTask",
    "Blocker",
    "Cancellation",
    "CheckRunner",
    "CheckState",
    "Checks",
    "Child",
    "Children",
    "Clock",
    "CodingAgent",
    "Comment",
    "Comments",
    "CommitCheck",
    "CommitRefused",
    "Committed",
    "ContainerEngine",
    "Deliveries",
    "DeliveryCursor",
    "Document",
    "EventLog",
    "Forge",
    "Holder",
    "Issue",
    "IssueTracker",
    "Label",
    "Labels",
    "Lease",
    "LeftLease",
    "LineCount",
    "Links",
    "Lock",
    "LoopLog",
    "LoopStream",
    "Moved",
    "PlanStore",
    "Problem",
    "Progress",
    "Projections",
    "Published",
    "PullRequest",
    "PullRequests",
    "Reading",
    "Remark",
    "Renderer",
    "Replays",
    "Repository",
    "RepositoryFacts",
    "ResultStore",
    "Review",
    "ReviewVerdict",
    "RunLock",
    "Stream",
    "Upkeep",
    "Workspace",
    "WorkspaceName",
]

_HOMES: Final = {
    "basics": ("Cancellation", "Clock", "Progress", "Renderer"),
    "forge": ("Comment", "Comments", "Forge", "Issue", "IssueTracker", "Label", "Labels", "Links"),
    "locks": ("Child", "Children", "Holder", "Lease", "LeftLease", "Lock", "RunLock"),
    "log": (
        "Deliveries",
        "DeliveryCursor",
        "EventLog",
        "LoopLog",
        "LoopStream",
        "PlanStore",
        "Problem",
        "Projections",
        "Reading",
        "Replays",
        "ResultStore",
        "Stream",
        "Upkeep",
    ),
    "pull_requests": (
        "About",
        "Checks",
        "CheckState",
        "CommitCheck",
        "PullRequest",
        "PullRequests",
        "Remark",
        "RepositoryFacts",
        "Review",
        "ReviewVerdict",
    ),
    "repository": (
        "Blocker",
        "CommitRefused",
        "Committed",
        "Document",
        "LineCount",
        "Moved",
        "Published",
        "Repository",
        "Workspace",
        "WorkspaceName",
    ),
    "work": ("AgentResult", "AgentTask", "CheckRunner", "CodingAgent", "ContainerEngine"),
}


if not TYPE_CHECKING:  # for whom every name would be there, mistyped ones too

    def __getattr__(name: str) -> Any:
        """The name from the module that it is defined in."""
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(import_module(f"{__name__}.{home}"), name))
