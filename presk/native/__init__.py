"""Runs entries in machine types: what is given and drawn goes into an arena, kernels compute, and what they leave is shown."""
