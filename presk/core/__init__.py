"""PSK-Core: the first-order intermediate form, its lowering, verifier, text form and analyses."""
