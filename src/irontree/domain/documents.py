"""What can be approved as a document: requirements in Markdown, or a HOTL workflow file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from irontree.domain import spec
from irontree.domain.spec import NO_ISSUES, Requirements, read_requirements


def read_document(data: bytes, name: str, *, known_issues: Mapping[int, str] = NO_ISSUES) -> Requirements:
    """Read the document *data*, known as *name*, by what it is. Raises RequirementsRefused with all problems."""
    if is_workflow(data, name):
        from irontree.domain.workflow.compile import read_workflow  # noqa: PLC0415  (most commands read no such file)

        return read_workflow(data, name)
    return read_requirements(data, name, known_issues=known_issues)


def approved_text(text: str, name: str) -> str:
    """The text of that document without what is no part of an approval: the boxes of a workflow file."""
    if is_workflow(text.encode(), name):
        from irontree.domain.workflow.compile import unticked  # noqa: PLC0415  (as above)
        from irontree.domain.workflow.reading import read  # noqa: PLC0415

        return unticked(read(text))
    return text


@lru_cache(maxsize=2)  # asked for each task of a document
def common_text(source: str, name: str) -> tuple[str, str]:
    """Title and introduction of a normalised document that was read before: what belongs to all its tasks."""
    if is_workflow(source.encode(), name):
        from irontree.domain.workflow import compile as workflow  # noqa: PLC0415  (as above)
        from irontree.domain.workflow.reading import read  # noqa: PLC0415

        return workflow.common_text(read(source))
    return spec.common_text(source)


def is_workflow(data: bytes, name: str) -> bool:
    """Whether the document is a workflow file."""
    if "workflow" not in name and not data.lstrip(b"\xef\xbb\xbf").startswith(b"---"):
        return False
    from irontree.domain.workflow import compile as workflow  # noqa: PLC0415  (as above)

    return workflow.is_workflow(data, name)
