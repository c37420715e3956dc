"""What Iron Tree costs, compared with plain scripts that do the same work: `make bench`, docs/benchmarks.md."""
