"""From an approved task to done: publish, run, verify, checkup (protocol, phases 2 to 6)."""

from __future__ import annotations
