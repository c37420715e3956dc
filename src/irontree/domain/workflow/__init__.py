"""HOTL workflow files as values: what is written, what is wrong with it, how a run of it goes on (docs/hotl.md)."""
