"""Syntax: from bytes to tokens, chunks and trees, and back to text; `api` reads a whole file at once."""
