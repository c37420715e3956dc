"""The private Prefect server of this machine: its process, its files and its settings."""
