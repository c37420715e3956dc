"""Prefect on this machine: its private server, the process that serves a repository, and their settings."""
