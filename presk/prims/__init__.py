"""The table of primitives: one row each, with all that the compiler knows about one."""
