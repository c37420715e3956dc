"""The versions of the tools that checks call, for the verification report.

Only well-known tools are asked, by words that do nothing else: an unknown program may do anything with `--version`.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

# For tools that do not know `--version`.
_ASKED: Final[dict[str, tuple[str, ...]]] = {"go": ("go", "version"), "java": ("java", "-version")}
_KNOWN: Final = frozenset(
    {
        *("git", "python", "python3", "pytest", "uv", "tox", "nox", "ruff", "mypy", "poetry", "hatch", "pre-commit"),
        *("node", "npm", "pnpm", "yarn", "bun", "deno", "tsc", "eslint", "cargo", "rustc", "go", "make", "just"),
        *("cmake", "ctest", "ninja", "java", "mvn", "ruby", "bundle", "php", "composer", "dotnet", "swift", "docker"),
    }
)
_BEHIND: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "tsc", "eslint"), ("node",)),
    **dict.fromkeys(("make", "just", "pytest", "tox", "nox", "mypy", "pre-commit"), ("python3",)),
    "cargo": ("rustc",),
}
"""Whose version matters as much as that of what is called, or what it most likely calls."""
_CALLED = re.compile(r"(?:^|&&|\|\||[;|&(\n])\s*(?:\w+=\S*\s+)*(?:(?:exec|time|env|sudo)\s+)*([\w./+-]+)")
_NUMBER = re.compile(r"\d+(?:\.\d+)+[\w.+-]*")

Ask = Callable[[tuple[str, ...]], str]
"""What a command prints; empty if it cannot be had."""


def tools_called(commands: Iterable[str]) -> tuple[str, ...]:
    """The well-known tools that shell commands call, by name, in order, each with what stands behind it."""
    called = (match[1].rpartition("/")[2] for command in commands for match in _CALLED.finditer(command))
    known = (name for name in called if name in _KNOWN)
    return tuple(dict.fromkeys(tool for name in known for tool in (name, *_BEHIND.get(name, ()))))


def read_versions(tools: Iterable[str], has: Callable[[str], bool], ask: Ask) -> dict[str, str]:
    """The system, and the version of each tool that may be there (*has*) and says one."""
    return {"system": f"{platform.system()} {platform.machine()}", **dict(_versions(tools, has, ask))}


def _versions(tools: Iterable[str], has: Callable[[str], bool], ask: Ask) -> Iterator[tuple[str, str]]:
    for tool in tools:
        if has(tool) and (number := _NUMBER.search(ask(_ASKED.get(tool, (tool, "--version"))))):
            yield ("python" if tool == "python3" else tool), number[0]
