"""What waits for a person: the question, the commands that answer it, and the pages that show it."""
