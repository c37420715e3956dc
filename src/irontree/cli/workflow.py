"""`irontree workflow shims DIR`: the scripts of HOTL under their own paths, each a call of `hotl-rt` (docs/hotl.md)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from irontree.cli.context import Context, Verb
from irontree.cli.parser import OK, argument
from irontree.domain.text import shell_path, shell_word
from irontree.errors import EnvironmentRefused, Refused

SHIMS: Final = {
    "runtime/hotl-rt": 'exec {program} "$@"',
    "scripts/document-lint.sh": 'exec {program} lint "$@"',
    "scripts/hotl-prepare-execution-root.sh": 'exec {program} prepare "$@"',
    "scripts/hotl-locate-run.sh": 'exec {program} locate "$@"',
    "scripts/render-execution-summary.sh": 'exec {program} render "$@"',
    "scripts/finalize-codex-summary.sh": '{program} finalize --json "$@" | {program} render --platform codex -',
}
"""The paths that HOTL's skills call, and what each does instead."""
_FIRST_LINE: Final = "#!/bin/sh"


def run(context: Context) -> int:
    """Write the scripts; those of another program are left alone."""
    folder: Path = context.folder / context.options.target
    texts = {folder / name: f"{_FIRST_LINE}\n{call.format(program=_program())}\n" for name, call in SHIMS.items()}
    for path in texts:
        if path.exists() and not _is_ours(path):
            raise Refused(f"{path} is another program's", remedy="name an empty folder, or move the file away")
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755)
        except OSError as error:
            raise EnvironmentRefused(f"{path}: {error.strerror}", remedy="name a folder that you can write") from error
    context.console.write("".join(f"{shell_path(str(path))}\n" for path in texts))
    return OK


def _is_ours(path: Path) -> bool:
    """Whether it is such a script, of this version or another: two lines, the second of which calls `hotl-rt`."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    return lines[:1] == [_FIRST_LINE] and not lines[2:] and "hotl-rt" in lines[-1]


def _program() -> str:
    """The runtime of this installation: whoever calls the scripts may have none on PATH."""
    own = Path(sys.executable).with_name("hotl-rt")
    return shell_word(str(own)) if own.exists() else own.name


VERBS: Final = {
    "workflow": Verb(
        run,
        argument("what", metavar="shims", choices=("shims",), help="write the scripts that HOTL's skills call"),
        argument("target", metavar="DIR", help="the folder for runtime/ and scripts/"),
        epilog="docs/hotl.md describes hotl-rt, which each of them calls.",
    ),
}
