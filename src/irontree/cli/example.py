"""`irontree example`: a requirement document to start from, on stdout."""

from __future__ import annotations

import argparse
from importlib.resources import files

from irontree.cli.context import Context


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take no arguments."""
    parser.epilog = "irontree example > SPEC.md"


def run(context: Context) -> int:
    """Print the document to the letter."""
    context.console.write(example_text())
    return 0


def example_text() -> str:
    """The example that comes with the program."""
    return files("irontree.templates").joinpath("example", "requirements.md.j2").read_text(encoding="utf-8")
