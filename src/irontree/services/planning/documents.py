"""Requirement documents as they lie in the user's folder, against what is committed."""

from __future__ import annotations

from collections.abc import Iterable

from irontree.app import App
from irontree.services.world import read_world


def uncommitted_documents(app: App, keys: Iterable[str]) -> tuple[str, ...]:
    """Paths of the documents of these tasks that are in no commit as they are: work on others has to wait for that."""
    head, plans = app.repository.read_ref("HEAD"), read_world(app).plans
    if head is None:
        return ()
    paths = {plans[key].spec_path for key in keys if key in plans and not plans[key].adoption}
    return tuple(path for path in sorted(paths) if _differs(app, head, path))


def _differs(app: App, head: str, path: str) -> bool:
    file, committed = app.repository.root / path, app.repository.document_at(head, path)
    return file.is_file() and (
        committed is None or committed.text != file.read_text(encoding="utf-8", errors="replace")
    )
