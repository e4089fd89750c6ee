"""Diagnostics as values, the table of their codes, and the renderers."""
