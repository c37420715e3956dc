"""From words to approved and published tasks (protocol, phases 1 and 2; adoption)."""
