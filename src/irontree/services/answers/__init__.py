"""Approvals put into force and answers recorded, from every channel."""
