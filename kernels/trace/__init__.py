"""From a program of the core, at dimensions and machine types, to the launches that compute an entry."""
