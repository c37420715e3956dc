"""Addresses of Prefect's pages. Imports nothing of Prefect: a terminal names them too."""

from __future__ import annotations


def page_of_run(ui: str | None, run: object) -> str:
    """The page of the flow run with that id, in the version of the UI that has the Resume button in sight."""
    return f"{ui}/runs/flow-run/{run}"
