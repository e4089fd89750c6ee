"""The derivatives of the primitives: a rule for each row of the table, or the reason why there is none."""
