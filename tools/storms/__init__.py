"""Storms of SIGKILL against the installed program from outside, judged by an oracle that knows nothing of it."""
