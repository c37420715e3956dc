"""Compares the log with itself and with the world: audit, reconcile, repair, restore."""
