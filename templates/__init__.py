"""Jinja2 templates: layout only, every value comes in typed."""
