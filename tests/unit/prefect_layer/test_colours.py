"""Prefect's pages in our colours."""

from __future__ import annotations

from pathlib import Path

import prefect

from irontree.flows.server.colours import AMBER, make_questions_amber


def test_the_sheet_that_says_how_a_paused_run_looks_is_added_to_once(tmp_path):
    assets = tmp_path / "v1" / "assets"
    assets.mkdir(parents=True)
    (assets / "index.css").write_text(".a{--state-paused-500:#a99fad}")
    (assets / "other.css").write_text(".b{}")
    for _ in range(2):
        make_questions_amber(tmp_path)
    assert (assets / "index.css").read_text() == ".a{--state-paused-500:#a99fad}" + AMBER
    assert (assets / "other.css").read_text() == ".b{}"


def test_prefects_pages_say_it_by_that_name():
    pages = Path(prefect.__ui_static_path__)
    assert any("--state-paused-500:" in sheet.read_text() for sheet in pages.glob("assets/*.css"))
