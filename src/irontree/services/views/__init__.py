"""Views for users, made from the log at any time and never read back."""
