"""Prefect's pages in our colours: what waits for a person is amber. Prefect shows it in the grey of what is over."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from irontree.files import swap

_SHADES: Final = {
    50: "fffbeb",
    100: "fef3c7",
    200: "fde68a",
    300: "fcd34d",
    400: "fbbf24",
    500: "f59e0b",
    600: "d97706",
    700: "b45309",
    800: "92400e",
    900: "78350f",
}
_VARIABLE: Final = "--state-paused-"
AMBER: Final = (
    "\n:root:not([class*=color-mode]),.color-mode-default{"  # those for the colour-blind stay as Prefect made them
    + "".join(f"{_VARIABLE}{shade}:#{colour};" for shade, colour in _SHADES.items())
    + "}\n"
)


def make_questions_amber(pages: Path) -> None:
    """Add that to the style sheets of Prefect's pages in the folder *pages*, which are copies of ours; once."""
    for sheet in pages.glob("v*/assets/*.css"):
        with suppress(OSError):  # they are only less colourful then
            text = sheet.read_text(encoding="utf-8")
            if f"{_VARIABLE}500:" in text and AMBER not in text:
                swap(sheet, (text + AMBER).encode())
