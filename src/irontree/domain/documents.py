"""What can be approved as a document: requirements in Markdown, or a HOTL workflow file."""

from __future__ import annotations

from collections.abc import Mapping

from irontree.domain.spec import NO_ISSUES, Requirements, read_requirements


def read_document(data: bytes, name: str, *, known_issues: Mapping[int, str] = NO_ISSUES) -> Requirements:
    """Read the document *data*, known as *name*, by what it is. Raises RequirementsRefused with all problems."""
    if "workflow" in name or data.lstrip(b"\xef\xbb\xbf").startswith(b"---"):
        from irontree.domain.workflow import compile as workflow  # noqa: PLC0415  (most commands read no such file)

        if workflow.is_workflow(data, name):
            return workflow.read_workflow(data, name)
    return read_requirements(data, name, known_issues=known_issues)
