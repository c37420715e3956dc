"""The only way to start programs. This file imports nothing: `irontree agents replay` starts for each attempt."""
