"""Nests: what each primitive of the core becomes at shapes, and the loops that compute it."""
