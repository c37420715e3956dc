"""What people read, as values: made from the log at any time, never read back."""
