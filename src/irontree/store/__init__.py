"""The files under .mino/: event log, plans, results, locks, loops, projections."""
