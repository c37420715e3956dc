"""*Needs you*: the one page of a server with every open question there, kept by runs that ask and by `serve`."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun, StateType

from irontree.app import App
from irontree.domain.timestamps import utc_text
from irontree.errors import ServerUnavailable
from irontree.flows.runs.runs import IRONTREE, PAGE, connect, url_for
from irontree.ports import Renderer
from irontree.services.questions.pages import OpenForm, needs_you_text
from irontree.services.views.history import NEEDS_YOU
from irontree.tasks.artifacts import keep_page

logger = logging.getLogger(__name__)

EVERY: Final = 2.0
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FOLDER: Final = "folder:"


@dataclass
class NeedsYou:
    """Keeps the page, once in *EVERY* seconds for all repositories; a form's text is read once."""

    now: Callable[[], float] = time.monotonic
    _again_at: float = 0.0
    _read: dict[tuple[object, str], str] = field(default_factory=dict)

    def __call__(self, app: App) -> Iterator[str]:
        """A chore of `irontree serve`; says nothing."""
        if self.now() >= self._again_at:
            self._again_at = self.now() + EVERY
            with connect() as client:
                self.keep(client, app.renderer)
        yield from ()

    def keep(self, client: SyncPrefectClient, renderer: Renderer) -> None:
        """Write the page if it does not say what is open now."""
        found = [self._form(client, run) for run in _asking(client)]
        keep_page(client, NEEDS_YOU, needs_you_text(renderer, found), "Needs you: every open question on this server")

    def _form(self, client: SyncPrefectClient, run: FlowRun) -> OpenForm:
        key = (run.state.state_details.pause_key if run.state else None) or ""
        folder = next((tag.removeprefix(_FOLDER) for tag in run.tags if tag.startswith(_FOLDER)), "")
        since = utc_text(run.state.timestamp) if run.state else ""
        return OpenForm(since, folder, run.name, self._asked(client, run, key), url_for(run.id))

    def _asked(self, client: SyncPrefectClient, run: FlowRun, key: str) -> str:
        """The heading of the form's text."""
        if (run.id, key) not in self._read:
            rows = client.filter_flow_run_input(run.id, f"suspended-{key}-description", 1, set()) if key else ()
            found = _HEADING.search(str(rows[0].decoded_value)) if rows else None
            if found is None:  # the text comes a moment after the state, and never for a run suspended by hand
                return "waits to be resumed"
            self._read[run.id, key] = found[1]
        return self._read[run.id, key]


def _asking(client: SyncPrefectClient) -> list[FlowRun]:
    chosen = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED])),
        tags=FlowRunFilterTags(all_=[IRONTREE]),
    )
    return client.read_flow_runs(flow_run_filter=chosen, limit=PAGE)


def show_needs_you(app: App) -> None:
    """Keep the page right when a question opens or is answered; that it cannot be shown stops no work."""
    try:
        with connect() as client:
            NeedsYou().keep(client, app.renderer)
    except ServerUnavailable as error:
        logger.info("Prefect could not show what needs you: %s", error)
