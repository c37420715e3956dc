"""What members of the team are asked in the forge, beside their tasks."""
