"""What looks like a secret is hidden: tokens by their shape, and the values of variables with such names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irontree.domain.comments import comment_problems, slim
from irontree.domain.text import HIDDEN, secret_values, without_secrets

LETTERS, HEX = "0123456789abcdefghijABCDEFGHIJ0123456789", "0123456789abcdef" * 2
TOKENS = (
    *(f"{kind}_{LETTERS[:36]}" for kind in ("ghp", "gho", "ghu", "ghs", "ghr")),
    f"github_pat_{LETTERS[:22]}_{LETTERS}",
    f"glpat-{LETTERS[:20]}",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    f"AIza{LETTERS[:35]}",
    f"ya29.{LETTERS[:30]}",
    f"xoxb-{LETTERS[:24]}",
    f"sk-ant-api03-{LETTERS}",
    f"sk_live_{LETTERS[:24]}",
    f"npm_{LETTERS[:36]}",
    f"pypi-{LETTERS}",
    f"hf_{LETTERS[:34]}",
    f"SG.{LETTERS[:22]}.{LETTERS[:22]}",
    f"hvs.{LETTERS[:30]}",
    f"ATATT3{LETTERS * 2}",
    f"AccountKey={LETTERS * 3}==",
    f"AGE-SECRET-KEY-1{'QPZRY9X8' * 7}QP",
    f"dapi{HEX}",
    f"SK{HEX}",
    f"shpat_{HEX}",
    f"rubygems_{HEX}{HEX[:16]}",
    f"glsa_{LETTERS[:32]}_{HEX[:8]}",
    f"figd_{LETTERS[:40]}",
    f"dp.pt.{LETTERS * 2}"[:60],
    f"gsk_{LETTERS * 2}",
    f"r8_{LETTERS[:37]}",
    f"ntn_{LETTERS * 2}",
    f"dckr_pat_{LETTERS[:27]}",
    f"cio{LETTERS[:32]}",
    f"{LETTERS[:14]}.atlasv1.{LETTERS * 2}",
    f"2187649305:AA{LETTERS[:33]}",
    f"M{LETTERS[:23]}.{LETTERS[:6]}.{LETTERS[:27]}",
    f"whsec_{LETTERS[:32]}",
    f"GOCSPX-{LETTERS[:28]}",
    f"sq0atp-{LETTERS[:22]}",
    f"hooks.slack.com/services/T{HEX[:8]}/B{HEX[:8]}/{LETTERS[:24]}",
    f"discord.com/api/webhooks/123456789012345678/{LETTERS}",
    f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n{LETTERS}\nPrivate-MAC: {HEX}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\n\nlQ\n=njUN\n-----END PGP PRIVATE KEY BLOCK-----",
    "-----BEGIN PRIVATE KEY----- cut short b3BlbnNz",
)
BEFORE = (
    *("\\n", "\\t", "\\r", "\\\\n", "\\0", "\\x20", "\\x0A", "\\u0020", "\\u000a", "\\012"),
    *("%20", "%0A", "%0a", "%3D", "%250A", "&quot;", "&#10;"),
    *("\\a", "\\U0000003d", "%25253D", "%2525253D", "=3D", "Bearer", "bearer"),
    *(
        "\x1b[1G",
        "\x1b[?25h",
        "\x1b[J",
        "\x1b[H",
        "\x1b[1A",
        "\x1b(B",
        "\x1b[4:3m",
        "\x1b[0;1;31m",
        "\x9b1G",
        "\a",
        "\x1b[",
    ),
    *("\\033[1G", "\\x1b[?25h", "\\u001b[J", "\\e[4:3m", "\\u001b(B", "%1B[1G", "^[[1G", "\\u{1b}[1A"),
    *("\\033[0m", "\\x1b[m", "\\u001b[1;31m", "\x1b[32m", "\x1b[38;5;123m", "\x1b[01;31m\x1b[K"),
)


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_hidden_wherever_it_stands(token: str):
    for text in (token, f"token={token}", f"see https://example.com/?t={token}", f"'{token}', next"):
        assert token not in without_secrets(text)
        assert HIDDEN in without_secrets(text)


@pytest.mark.parametrize("before", BEFORE)
def test_a_token_is_hidden_directly_behind_an_escape(before: str):
    """Source, JSON, addresses and colours of a terminal write so what is no letter."""
    hidden = {token: without_secrets(f'"key:{before}{token}"') for token in TOKENS}
    assert [token for token, text in hidden.items() if not text.startswith(f'"key:{before}{HIDDEN}')] == []
    assert [token for token, text in hidden.items() if token in text] == []


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("sequence", ["\x1b[0m", "\x1b[1;31m", "\x1b(B", "\\x1b[0m"])
def test_a_token_with_a_sequence_for_terminals_inside_is_hidden_and_nothing_else(token: str, sequence: str):
    token = token.rstrip("=")
    hidden = without_secrets(f"a{sequence} {token[:6]}{sequence}{token[6:]} b{sequence} c")
    ends_with_text = token.endswith("b3BlbnNz")
    assert hidden == f"a{sequence} {HIDDEN}{'' if ends_with_text else f' b{sequence} c'}"


@pytest.mark.parametrize("token", TOKENS)
def test_no_comment_may_hold_a_token_and_none_does_after_the_repair(token: str):
    assert "a secret" in comment_problems(f"it said {token}")
    assert comment_problems(slim(f"it said {token}")) == ()
    assert token not in slim(f"it said {token}")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://ada:hunter2@git.example.com/shop", "https://***@git.example.com/shop"),
        ("postgres://ada:hunter2@db:5432/x", "postgres://***@db:5432/x"),
        ("https://x-access-token@git.example.com", "https://***@git.example.com"),
        ("git clone ssh://git@git.example.com/x", "git clone ssh://git@git.example.com/x"),
        ("https://example.com/@ada", "https://example.com/@ada"),
        ("mail ada@example.com", "mail ada@example.com"),
    ],
)
def test_an_address_goes_without_its_login(text: str, clean: str):
    assert without_secrets(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        *("task-management", "the desk-top-computer-of-the-house", "sk-8", "pypi-upload", "hf_home", "a SG.1.2 b", ""),
        *(r"C:\notes\task-management-of-the-whole-house", r"\desk-top-computer-of-the-house"),
        "100% task-management-of-the-whole-house",
    ],
)
def test_ordinary_words_stay(text: str):
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "OPENAI_API_KEY",
        "PGPASSWORD",
        "DB_PASSWD",
        "npm_token",
        "GPG_PASSPHRASE",
        "PREFECT_API_AUTH_STRING",
    ],
)
def test_a_variable_is_secret_by_its_name(name: str):
    assert secret_values({name: "correct-horse", "EDITOR": "emacs-nox", "PATH": "/usr/bin"}) == {"correct-horse"}


def test_short_values_are_words_and_of_several_lines_each_counts():
    assert secret_values({"A_TOKEN": "yes", "SSH_PRIVATE_KEY": "-----BEGIN\nMIIEowIBAAKCAQEA\n--\n"}) == {
        "-----BEGIN",
        "MIIEowIBAAKCAQEA",
    }


@given(st.text(), st.sets(st.text(min_size=8).map(str.strip).filter(lambda value: len(value) >= 8), max_size=3))
def test_no_value_is_left_in_any_text(text: str, values: set[str]):
    around = f"{text}{' '.join(sorted(values))}{text}"
    hidden = without_secrets(around, values)
    assert not [value for value in values if value in hidden and value not in HIDDEN]


@given(st.text())
def test_hiding_twice_is_hiding_once(text: str):
    once = without_secrets(text)
    assert without_secrets(once) == once
