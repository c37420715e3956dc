"""What somebody probably meant who mistyped a name: looked for only once something is refused."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(text: str, known: Iterable[str]) -> str | None:
    """The one of *known* that is nearest to *text*, if any is close."""
    import difflib  # noqa: PLC0415  (who makes no mistake need not wait for it)

    return next(iter(difflib.get_close_matches(text, known, n=1)), None)


def meant(text: str, known: Iterable[str], shown: str = "{}") -> str:
    """The end of a refusal that names the nearest of *known*, written as in *shown*; empty if none is close."""
    close = nearest(text, known)
    return f"; did you mean {shown.format(close)}?" if close else ""
