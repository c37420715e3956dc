"""The gate: a question of the log as a form of a suspended run, and its answers."""
