"""Views for users, rendered from the log at any time and never read back."""
