"""A person's word, from wherever it comes: approvals put into force, answers recorded."""
