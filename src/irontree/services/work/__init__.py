"""What surrounds an attempt: the question put to an agent, and whether the attempt may start."""
