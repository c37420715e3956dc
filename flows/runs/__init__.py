"""Flow runs: how they are named, started, found, recovered and ended."""
