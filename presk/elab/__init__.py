"""Elaboration: imports, constants, dimensions, types, modules, instances, signatures, configuration blocks."""
