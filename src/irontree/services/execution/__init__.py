"""From an approved task to done: pre-flight, run, verify, checkup (protocol, phases 3 to 6)."""
