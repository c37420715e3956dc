"""What the team is asked in the forge: what is due, asking, answering."""
