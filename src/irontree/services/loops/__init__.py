"""The loop entity: start, spend, halt, resume, take over, foresee (protocol, Loop Mode)."""
