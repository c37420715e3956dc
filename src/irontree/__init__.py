"""Iron Tree: requirement documents become an approved tree of issues that coding agents work through."""

__version__ = "0.1.0"
