"""Random well-typed programs, and the properties that every program has."""
