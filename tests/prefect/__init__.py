"""Tests with a real private Prefect server, one for each worker; it ends with the last of these tests."""
