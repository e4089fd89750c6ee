"""Typing: unification, bodies, calls."""
