"""Whether a Prefect server can know anything of a repository, as far as that can be told without asking for one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from irontree.flows.local.settings import OURS, left_addresses
from irontree.store.layout import Layout

if TYPE_CHECKING:
    from irontree.app import App

_ASKS: Final = (b"api_url", b"start_label", b"nightly")
"""The keys of the configuration that name a server, or let one ask for an approval."""


def is_unknown_to_servers(app: App) -> bool:
    """Whether surely no server asks anything of *app*: none runs here, or is configured, and nothing lets one ask.

    Cheap, for what is typed often: a key that is nowhere in the file is not set, and to read it properly takes `status`
    a fifth more.
    """
    if any(name.startswith(OURS) for name in os.environ) or any(left_addresses()):
        return False
    try:
        written = Layout(app.repository.root).config.read_bytes()
    except OSError:
        return True
    return not any(key in written for key in _ASKS)
