"""Whether repeating can cure a failed push or fetch is read from what git says (R12)."""

from __future__ import annotations

import pytest

from irontree.errors import PublicationRefused, RemoteUnavailable
from irontree.repository.git import is_behind, remote_failure

REFUSED = [
    ("remote: error: GH006: Protected branch update failed for refs/heads/main.", "protected-branch"),
    ("remote: error: GH013: Repository rule violations found for refs/heads/main.", "protected-branch"),
    ("remote: GitLab: You are not allowed to push code to protected branches on this project.", "protected-branch"),
    ("remote: Gitea: Not allowed to push to protected branch main", "protected-branch"),
    ("fatal: Authentication failed for 'https://example.com/a.git/'", "authentication"),
    ("fatal: could not read Username for 'https://example.com': terminal prompts disabled", "authentication"),
    (
        "git@example.com: Permission denied (publickey).\nfatal: Could not read from remote repository.",
        "authentication",
    ),
    ("Host key verification failed.\nfatal: Could not read from remote repository.", "authentication"),
    ("remote: Permission to a/b.git denied to ada.\nfatal: unable to access: … error: 403", "no-write-access"),
    ("ERROR: Repository not found.\nfatal: Could not read from remote repository.", "remote-not-found"),
    ("fatal: '/srv/x.git' does not appear to be a git repository", "remote-not-found"),
    ("!\tabc:refs/heads/main\t[remote rejected] (branch is currently checked out)", "remote-checked-out"),
    ("!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)", "hook-declined"),
    ("!\tabc:refs/heads/main\t[remote rejected] (shallow update not allowed)", "shallow-repository"),
    ("remote: error: File big.bin is 120.00 MB; this exceeds GitHub's file size limit of 100.00 MB", "content-refused"),
    ("lint failed\nerror: failed to push some refs to 'https://example.com/a.git'", "hook-declined"),
]
TRANSIENT = [
    "fatal: unable to access 'https://example.com/a.git/': Could not resolve host: example.com",
    "ssh: connect to host example.com port 22: Connection timed out\nfatal: Could not read from remote repository.",
    "fatal: unable to access 'https://example.com/a.git/': The requested URL returned error: 503",
    "error: RPC failed; HTTP 429\nfatal: the remote end hung up unexpectedly",
    "!\tabc:refs/heads/main\t[remote rejected] (cannot lock ref 'refs/heads/main': is at b but expected a)",
    "fatal: early EOF",
    "something that git has never said before",
    "",
]


@pytest.mark.parametrize(("output", "reason"), REFUSED)
def test_what_repeating_cannot_cure_is_refused_with_its_reason_and_a_remedy(output, reason):
    failure = remote_failure("cannot push", output)
    assert isinstance(failure, PublicationRefused)
    assert failure.reason == reason
    assert failure.remedy
    assert output.splitlines()[0] in failure.message


@pytest.mark.parametrize("output", TRANSIENT)
def test_what_may_pass_by_itself_is_tried_again(output):
    assert isinstance(remote_failure("cannot push", output), RemoteUnavailable)


@pytest.mark.parametrize("kind", ["[rejected] (fetch first)", "[rejected] (non-fast-forward)"])
def test_a_target_that_moved_is_told_from_a_refusal(kind):
    assert is_behind(f"To /srv/x.git\n!\tabc:refs/heads/main\t{kind}\nDone\nhint: …")
    assert not is_behind("!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)")


def test_a_lock_in_the_remote_is_named_in_one_sentence():
    said = (
        "remote: error: cannot lock ref 'refs/heads/main': Unable to create '/srv/x.git/./refs/heads/main.lock': "
        "File exists.        \nremote: \nremote: Another git process seems to be running in this repository, e.g.\n"
        "!\tabc:refs/heads/main\t[remote rejected] (failed to update ref)\nDone"
    )
    failure = remote_failure("cannot push to main on origin", said)
    assert isinstance(failure, RemoteUnavailable), "a push of somebody else may hold it"
    assert failure.message == (
        "cannot push to main on origin: the remote is locked by /srv/x.git/refs/heads/main.lock; "
        "if it stays there and no git is at work in that repository, remove the file"
    )


def test_passwords_in_addresses_are_not_repeated():
    failure = remote_failure("cannot push", "fatal: unable to access 'https://ada:s3cret@example.com/a.git/'")
    assert "s3cret" not in failure.message
    assert "https://***@example.com" in failure.message


_TAKEN = "cannot lock ref 'refs/heads/feature/1-x': 'refs/heads/feature' exists; cannot create 'refs/heads/feature/1-x'"


@pytest.mark.parametrize(
    "said",
    [
        f"!\tabc:refs/heads/feature/1-x\t[remote rejected] ({_TAKEN})",
        f"remote: error: {_TAKEN}\n!\tabc:refs/heads/feature/1-x\t[remote rejected] (failed to update ref)",
    ],
)
def test_a_branch_in_the_way_of_another_is_no_outage(said):
    failure = remote_failure("cannot push", said)
    assert isinstance(failure, PublicationRefused)
    assert failure.reason == "branch-name-taken"
