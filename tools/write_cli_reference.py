"""Put the present `--help` of every verb into docs/reference-cli.md; tests/unit/cli/test_reference.py compares."""

from __future__ import annotations

import os
import re
from pathlib import Path

from irontree.cli.main import PAGES, VERBS, help_text

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference-cli.md"
WIDTH = "100"


def help_texts() -> dict[str, str]:
    """What `irontree --help` (under the name `irontree`) and `irontree help TOPIC` print, 100 columns wide."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        return {"irontree": help_text()} | {topic: help_text(topic) for topic in (*PAGES, *VERBS)}
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


def renewed(document: str) -> str:
    """*document* with every block behind a line `<!-- help: VERB -->` made anew."""
    texts = help_texts()
    return re.sub(
        r"(<!-- help: (\w+) -->\n)```text\n.*?```\n",
        lambda found: f"{found[1]}```text\n{texts[found[2]]}```\n",
        document,
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    REFERENCE.write_text(renewed(REFERENCE.read_text(encoding="utf-8")), encoding="utf-8")
