"""What git says when a remote does not answer or does not want to, sorted by who must act (ruling R12)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from irontree.errors import PublicationRefused, RemoteFailed, RemoteUnavailable


@dataclass(frozen=True, slots=True)
class _Refusal:
    pattern: str
    reason: str
    remedy: str


# First match wins. Texts of git, OpenSSH, libcurl, GitHub, GitLab, Gitea and Bitbucket.
_REFUSALS = (
    _Refusal(
        r"protected branch|GH006|GH013|repository rule violations|not allowed to (push|force push)|branch is protected",
        "protected-branch",
        "allow pushes to it, or choose another publish.target_branch in .mino/config.yml",
    ),
    _Refusal(
        r"authentication failed|could not read (username|password)|terminal prompts disabled|permission denied \("
        r"|host key verification failed|invalid username or (password|token)|requested url returned error: 401"
        r"|too many authentication failures",
        "authentication",
        "make `git push` work without questions here: a credential helper, a token, or a key in the ssh agent",
    ),
    _Refusal(
        r"requested url returned error: 403|permission to .* denied|permission denied|write access .* not granted"
        r"|access denied|insufficient permission|read-only|archived",
        "no-write-access",
        "get write access to the remote, or choose another publish.remote in .mino/config.yml",
    ),
    _Refusal(
        r"branch is currently checked out",
        "remote-checked-out",
        "publish to a bare repository, or to a branch that the remote has not checked out",
    ),
    _Refusal(
        r"pre-receive hook declined|hook declined|update hook|declined by",
        "hook-declined",
        "read what the remote's hook said, and satisfy it",
    ),
    _Refusal(
        r"'refs/heads/\S+' exists; cannot create",
        "branch-name-taken",
        "rename or delete the branch of the remote that stands in the way: git keeps no branch below another one",
    ),
    _Refusal(
        r"does not appear to be a git repository|repository .*(not found|does not exist)|no such remote"
        r"|requested url returned error: 404",
        "remote-not-found",
        "check `git remote -v`",
    ),
    _Refusal(r"shallow update not allowed", "shallow-repository", "complete the history: `git fetch --unshallow`"),
    _Refusal(
        r"file size limit|exceeds .*(limit|maximum)|large files detected|push declined due to",
        "content-refused",
        "read what the remote said about the content",
    ),
)
# The remote is there, and somebody was faster or a wire broke: the same again may work.
_TRANSIENT = re.compile(
    r"cannot lock ref(?!.*exists; cannot create)|failed to (update|lock) ref|could not resolve host"
    r"|connection (timed out|refused|reset|closed)"
    r"|requested url returned error: (429|5\d\d)|early eof|operation timed out|network is unreachable|hung up",
    re.IGNORECASE,
)
# Rejections by git itself, on either side: the branch there has commits that ours has not.
_BEHIND = re.compile(r"^!\t.*\[(remote )?rejected\] \((non-fast-forward|fetch first|stale info)", re.MULTILINE)
# git says no more than this when a hook on our side exits with an error.
_OWN_HOOK = re.compile(r"(?s)\A(?!.*(^!\t|\n!\t|fatal: )).*failed to push some refs")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def is_behind(output: str) -> bool:
    """Whether a push (`--porcelain`) was refused because the target has moved on."""
    return bool(_BEHIND.search(output))


def remote_failure(what: str, output: str) -> RemoteFailed:
    """The exception for a failed exchange with a remote: PublicationRefused if repeating cannot cure it.

    What git says and we do not know counts as transient: three of these in a row end in a question anyway.
    """
    text = _CREDENTIALS.sub("***", output.strip())
    message = f"{what}: {text or 'git gave no reason'}"
    if _OWN_HOOK.search(text):
        return PublicationRefused(
            message, reason="hook-declined", remedy="satisfy the pre-push hook of this repository"
        )
    for refusal in () if _TRANSIENT.search(text) else _REFUSALS:
        if re.search(refusal.pattern, text, re.IGNORECASE):
            return PublicationRefused(message, reason=refusal.reason, remedy=refusal.remedy)
    return RemoteUnavailable(message, remedy="check the network and the remote, then try again")
