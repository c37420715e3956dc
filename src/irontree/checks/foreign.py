"""Whether the checks would test the user's checkout instead of the workspace (ruling R4).

An editable install in the Python that the checks find leads every import back to the checkout: the checks pass or
fail for code that is not the one to be verified. Only places that are cheap to read are looked at.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SEARCH_PATHS = ("PYTHONPATH", "NODE_PATH", "RUBYLIB", "CLASSPATH")
_SITES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "lib/python3/dist-packages")
_OWN_ENVIRONMENTS = (".venv", "venv")


def foreign_sources(workspace: Path, user_root: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """One sentence per sign found; *environment* is that of the checks."""
    signs = [*_by_variables(user_root, environment)]
    for site in _sites(workspace, environment):
        signs += _by_editable_installs(site, user_root)
    return tuple(dict.fromkeys(signs))


def _by_variables(user_root: Path, environment: Mapping[str, str]) -> Iterator[str]:
    for name in _SEARCH_PATHS:
        for entry in filter(None, environment.get(name, "").split(os.pathsep)):
            if _is_inside(Path(entry), user_root):
                yield f"{name} leads to your checkout ({entry}): the checks may test it instead of the workspace"


def _sites(workspace: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """The site-packages of the Python that the checks find, and of virtual environments in the workspace."""
    found = (shutil.which(name, path=environment.get("PATH", os.defpath)) for name in ("python", "python3"))
    prefixes = [Path(python).parent.parent for python in found if python]
    prefixes += [workspace / name for name in _OWN_ENVIRONMENTS]
    for prefix in dict.fromkeys(prefixes):
        for pattern in _SITES:
            yield from sorted(prefix.glob(pattern))


def _by_editable_installs(site: Path, user_root: Path) -> Iterator[str]:
    """By the record of the installer (PEP 610), and by path files for tools that leave none."""
    for record in sorted(site.glob("*.dist-info/direct_url.json")):
        if _is_inside(_editable_target(record), user_root):
            package = record.parent.name.partition("-")[0]
            yield f"{package} is installed from your checkout (editable, in {site}): the checks may test it instead"
    for path_file in sorted(site.glob("*.pth")):
        lines = path_file.read_text(encoding="utf-8", errors="replace").splitlines()
        if any(_is_inside(Path(line.strip()), user_root) for line in lines if line.startswith("/")):
            yield f"{path_file} leads to your checkout: the checks may test it instead of the workspace"


def _editable_target(record: Path) -> Path | None:
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
        editable = content["dir_info"]["editable"]
        return Path(unquote(urlsplit(str(content["url"])).path)) if editable else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_inside(path: Path | None, folder: Path) -> bool:
    return path is not None and path.is_absolute() and path.resolve().is_relative_to(folder.resolve())
