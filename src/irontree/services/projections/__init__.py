"""What people read, made from the log at any time: briefs, reports, forms."""
