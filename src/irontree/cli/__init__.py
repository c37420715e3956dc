"""The command line: one module per verb, one error boundary in main.py."""
