"""Differentiation of PSK-Core: the reverse sweep, dead code after it, residuals."""
