"""What the accounts of a memory forge share: contents, what others do to them, and what can go wrong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from irontree.ports import Comment, CommitCheck, Issue, Label, PullRequest, Remark, Review, ReviewVerdict


@dataclass(slots=True)
class Tracker:
    """Set `outage` and every call fails until it is cleared."""

    issues: dict[int, Issue] = field(default_factory=dict)
    """Pull requests too."""
    comments: dict[int, list[Comment]] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    handed_in: dict[int, list[Review]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    """Branches that were pushed, with their commits."""
    checks: dict[str, dict[str, CommitCheck]] = field(default_factory=dict)
    """By commit and name."""
    writers: set[str] = field(default_factory=set)
    """Accounts with write access, besides the one that asks."""
    outage: str | None = None
    lost_answers: int = 0
    """So many of the next writes take effect, but no answer comes."""
    lag: int = 0
    """So many of the newest issues are not in listings yet."""
    breaks_behind: int | None = None
    """A listing of more issues than this breaks off on its way."""

    def push(self, branch: str, sha: str) -> None:
        """Point *branch* at *sha*, as `git push` does."""
        self.branches[branch] = sha

    def merge(self, number: int, by: str) -> str:
        """Merge a pull request as *by*; the merge commit."""
        sha = f"{number:040x}"
        pull = self.pulls[number]
        self.pulls[number] = replace(pull, state="closed", merged=True, merge_sha=sha, merged_by=by)
        self.issues[number] = replace(self.issues[number], state="closed")
        return sha

    def review(
        self,
        number: int,
        author: str,
        verdict: ReviewVerdict,
        body: str,
        remarks: tuple[tuple[str, int, str], ...] = (),
    ) -> None:
        """Hand a review in as *author*; remarks are path, line and text."""
        reviews = self.handed_in.setdefault(number, [])
        index = len(reviews) + 1
        url = f"memory:issue-{number}#review-{index}"
        reviews.append(
            Review(
                id=f"{number}-{index}",
                author=author,
                trusted=False,
                verdict=verdict,
                body=body,
                commit=self.pulls[number].head_sha,
                submitted_at=f"2026-01-02T12:{index:02d}:00Z",
                url=url,
                remarks=tuple(
                    Remark(f"{number}-{index}-{at}", author, trusted=False, body=text, path=path, line=line, url=url)
                    for at, (path, line, text) in enumerate(remarks)
                ),
            )
        )

    def check(self, sha: str, check: CommitCheck) -> None:
        """Say what CI says."""
        self.checks.setdefault(sha, {})[check.name] = check
