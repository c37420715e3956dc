"""One laboratory for all experiments of a test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.crash.laboratory import Laboratory, laboratory


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Laboratory]:
    folder = tmp_path_factory.mktemp("crash")
    with pytest.MonkeyPatch.context() as patch, laboratory(folder) as made:
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, made.environment[name])
        yield made
