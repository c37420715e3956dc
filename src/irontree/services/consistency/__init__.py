"""The log against itself and against the world: audit, reconcile, repair, restore."""
