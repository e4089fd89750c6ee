"""A program as mathematics: the equations of its functions, in plain characters or as LaTeX.

    scores, of q : Q,  k : Q
        ⟦scores⟧(q, k)[batch, heads, seq, seq2] = (∑_{hd} q[batch, heads, seq, hd] k[batch, heads, seq2, hd]) / √HD

`forms` are equations as values; `typed` makes them from typed functions and `core` from functions of the core; `unicode` and
`latex` write them.
"""
