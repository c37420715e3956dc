"""What the services need from the world: small Protocols, and the values that cross them.

Adapters implement these; `bootstrap` wires them; every port has a contract suite in tests/contract that
all its adapters pass. Foreign exceptions are mapped to `irontree.errors` inside the adapter.
"""

from __future__ import annotations

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
from irontree.ports.repository import (
    Blocker,
    CommitRefused,
    Committed,
    Document,
    Moved,
    Published,
    Repository,
    Workspace,
)
from irontree.ports.work import (
    AgentResult,
    AgentTask,
    CheckRunner,
    CodingAgent,
)

__all__ = [
    "AgentResult",
    "AgentTask",
    "Blocker",
    "Cancellation",
    "CheckRunner",
    "Child",
    "Children",
    "Clock",
    "CodingAgent",
    "Comment",
    "Comments",
    "CommitRefused",
    "Committed",
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
    "Reading",
    "Renderer",
    "Replays",
    "Repository",
    "ResultStore",
    "RunLock",
    "Stream",
    "Upkeep",
    "Workspace",
]
