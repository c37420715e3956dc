"""What can be approved as a document: requirements in Markdown, or a HOTL workflow file."""

from __future__ import annotations

from collections.abc import Mapping

from irontree.domain.spec import NO_ISSUES, Requirements, read_requirements


def read_document(data: bytes, name: str, *, known_issues: Mapping[int, str] = NO_ISSUES) -> Requirements:
    """Read the document *data*, known as *name*, by what it is. Raises RequirementsRefused with all problems."""
    if _may_be_workflow(data, name):
        from irontree.domain.workflow import compile as workflow  # noqa: PLC0415  (most commands read no such file)

        if workflow.is_workflow(data, name):
            return workflow.read_workflow(data, name)
    return read_requirements(data, name, known_issues=known_issues)


def approved_text(text: str, name: str) -> str:
    """The text of that document without what is no part of an approval: the boxes of a workflow file."""
    data = text.encode()
    if _may_be_workflow(data, name):
        from irontree.domain.workflow import compile as workflow  # noqa: PLC0415  (as above)
        from irontree.domain.workflow.reading import read  # noqa: PLC0415

        if workflow.is_workflow(data, name):
            return workflow.unticked(read(text))
    return text


def _may_be_workflow(data: bytes, name: str) -> bool:
    return "workflow" in name or data.lstrip(b"\xef\xbb\xbf").startswith(b"---")
