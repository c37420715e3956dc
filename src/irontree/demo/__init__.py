"""The sample project of `irontree demo`."""
