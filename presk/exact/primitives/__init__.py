"""The exact value of each primitive."""
