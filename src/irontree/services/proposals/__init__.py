"""What an approval would put into force: read from documents or issues, and shown. Nothing here has effects."""
