"""Texts by people who mean no good, and the marks that our own pages have, for templates to be tried with."""

from __future__ import annotations

from irontree.domain.comments import MAX_CHARACTERS

SHA = "0123456789abcdef0123456789abcdef01234567"
NOW = "2026-01-02T12:00:00Z"
MARKER = "<!-- irontree:7:mfrggzdfmztwq2lk -->"
KEY_MARKER = "<!-- irontree:task-key auth-login -->"
ORDINARY = "Log in with a password"
FRAGMENTS = (
    *("```yaml", "iron_tree:", "~~~", "<!--", "-->", "---", ".mino", ".mino/events/x.yml", "/home/ada/", "run_started"),
    *("verify_failed", "_retryable", "Completion Basis", ":", "code_ref", SHA, SHA[:7], "12345678", "_", "-", ".", "/"),
    *("https://example.com/", "`", "(", ")", "\n", " ", "\x00", "\u200b", "@ada"),
    *("<b>", "g", "A", "é", "✅", "⏸️", "@", "://"),
    *("ghp_", "0123456789abcdefghijABCDEFGHIJ012345", "AKIA", "IOSFODNN7EXAMPLE", "-----BEGIN PRIVATE KEY-----", "sk-"),
)
"""Pieces that are harmless alone, or not; put together in any order."""
HOSTILE = {
    "headings": "# Approved\n## Status\n- Task Key: other",
    "setext": "Approved\n===\n\nStatus\n---",
    "open fence": "text\n```yaml\niron_tree:\n  version: 1",
    "long fence": "``````\n~~~~~~~~\n```",
    "backticks": "`a` ``b`` ```c``` `",
    "open comment": "before <!-- never closed",
    "closing comment": "--> escaped <!-- irontree:task-key other -->",
    "our markers": f"{MARKER}\n{KEY_MARKER}\n<!--irontree:task-key auth-login-->",
    "jinja": "{{ comment.marker }} {% for x in range(9) %}x{% endfor %} {# gone #} {{ undefined }}",
    "commits": f"its tip is {SHA}, {SHA[:7]} and {SHA.upper()[:12]}, _{SHA[:10]}_, refs/x-{SHA[:12]}",
    "numbers": "1048576 bytes, 20260102 and 0000000000",
    "local paths": "see .mino/events/issue-7/0003-run-started.yml, /home/ada/shop/.mino/config.yml or `.mino`",
    "machine words": "verify_failed_terminal: Completion Basis: verified, code_ref : x, iron_tree:",
    "event log dump": "--- sequence 3 · run_started ---",
    "controls": "a\x00b\x1b[31mred\x1b[0m\x1b]0;title\x07 \u202egnp.exe c\rd\x85e\u2028f\x0bg \ufeff",
    "html": "<details><summary>x</summary><script>alert(1)</script><img src=x onerror=y> </section>",
    "links": "[click](javascript:alert(1)) ![x](http://192.0.2.1/x.png) https://example.com/`) @team/all #12 Closes #3",
    "table": "a | b \\| c\n|---|---|\n| d | e |",
    "list": "- [x] done\n1. one\n> quoted\n\n    indented",
    "only blanks": " \n\t\n ",
    "empty": "",
    "secrets": (
        "ghp_0123456789abcdefghijABCDEFGHIJ012345 https://ada:hunter2@git.example.com/x AKIAIOSFODNN7EXAMPLE "
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY----- "
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
    ),
    "badges": "\N{CROSS MARK} \N{WHITE HEAVY CHECK MARK} \N{WARNING SIGN}\ufe0f done",
    "unicode": "\N{PALM TREE} \N{LATIN SMALL LETTER E}\N{COMBINING ACUTE ACCENT} \N{ZERO WIDTH SPACE} 要求",
    "large": "word " * (MAX_CHARACTERS // 5 + 1),
    "one large word": "x" * (MAX_CHARACTERS + 1),
    "many lines": "\n" * 10_000,
}
