"""Open questions, the commands that answer them, and the pages that show them."""
