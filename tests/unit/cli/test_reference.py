"""docs/reference-cli.md says what the program says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from irontree.cli.main import PAGES, VERBS

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "reference-cli.md").read_text(encoding="utf-8")


def test_the_help_of_every_verb_stands_in_the_reference_as_it_is_printed():
    """If this fails: python tools/write_cli_reference.py."""
    spec = importlib.util.spec_from_file_location("write_cli_reference", ROOT / "tools" / "write_cli_reference.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    shown = re.findall(r"<!-- help: (\w+) -->", TEXT)
    assert [topic for topic in shown if topic not in PAGES] == ["irontree", *VERBS]
    assert set(PAGES) <= set(shown)
    assert writer.renewed(TEXT) == TEXT
