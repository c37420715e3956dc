"""Proposals: what an approval would put into force, from documents or issues. Nothing here has effects."""
