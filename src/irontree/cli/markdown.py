"""Markdown on a terminal: an approval, a report."""

from __future__ import annotations

from irontree.cli.console import Console
from irontree.cli.text import printable


def show_markdown(console: Console, text: str) -> None:
    """Drawn on a terminal, as it is elsewhere; other people's words in it do nothing to a terminal."""
    if not console.draws:
        console.write(f"{printable(text)}\n")
        return
    from rich.console import Console as RichConsole  # not where text is piped
    from rich.markdown import Markdown

    RichConsole(file=console.out).print(Markdown(printable(text)))
