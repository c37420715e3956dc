"""Proposals, read from documents or issues: what an approval would put into force. Nothing here has effects."""
