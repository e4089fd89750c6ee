"""The exact reference: programs evaluated over arbitrary-precision reals, with proved bounds if asked for."""
