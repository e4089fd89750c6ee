"""Presk."""
