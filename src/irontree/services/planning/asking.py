"""What an approval that is asked for in a form is about, read anew each time: it may be open for days (ruling R6)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from irontree.app import App
from irontree.domain.approvals import key_of_approval
from irontree.domain.intent import Intent, Issues, OpenIssues, resolve_intent
from irontree.errors import ApprovalRefused, NothingToDo
from irontree.services.planning.approval import Wanted
from irontree.services.planning.approve import propose
from irontree.services.planning.authorise import resolve_to_approve
from irontree.services.planning.intake import UNREADABLE
from irontree.services.planning.resolve import resolve

Standing = Literal["open", "changed", "settled"]


def wanted_for(app: App, document: str, *, reads_only: bool = False) -> Wanted:
    """What approving *document* would approve now: a path relative to the repository, or words that name issues.

    Unless it *reads_only*, a named issue that is composite gets its label. Raises ApprovalRefused for what is no file
    of the repository, and as `propose` and `resolve_to_approve` do.
    """
    match _read_as(app, document):
        case Issues() | OpenIssues() as intent:
            return (resolve if reads_only else resolve_to_approve)(app, intent, document)
        case _:
            return propose(app, _document(app, document))


def names_issues(app: App, document: str) -> bool:
    """Whether *document* names issues: only the forge tells what approving it would approve."""
    return isinstance(_read_as(app, document), Issues | OpenIssues)


def question_key(wanted: Wanted) -> str:
    """The key under which it is asked: what changes of it while the form is open makes it another question."""
    return key_of_approval(wanted.name, wanted.stamp)


def standing_of(app: App, document: str, key: str) -> Standing:
    """What became of the question *key* about *document* while its form was open.

    `settled`: it is approved, or nothing is left to do. `changed`: approving it is another question now. What cannot
    be read just now stays `open`.
    """
    try:
        wanted = wanted_for(app, document, reads_only=True)
    except NothingToDo:
        return "settled"
    except UNREADABLE:
        return "open"
    if wanted.approved:
        return "settled"
    return "open" if key.startswith(question_key(wanted)) else "changed"


def _read_as(app: App, document: str) -> Intent:
    return resolve_intent(document, lambda path: _path(app, path).is_file())


def _document(app: App, document: str) -> Path:
    path = _path(app, document)
    if not (path.is_file() and path.is_relative_to(app.repository.root.resolve())):
        raise ApprovalRefused(f"{document} is not a file in {app.repository.root}", remedy="give a path inside it")
    return path


def _path(app: App, document: str) -> Path:
    return (app.repository.root / document).resolve()
