"""Draws: each a function of its key and its number, the same in every arithmetic."""

from math import prod

import numpy as np
from gmpy2 import mpq

from presk.exact import draws
from presk.exact.faults import RATE, Fault
from presk.exact.primitives.use import Use
from presk.exact.values import Items, Key, Objects, Real, Value


def normal(use: Use) -> Value:
    """Normal draws of mean 0."""
    shape = use.made()
    return Real(use.m.from_doubles(draws.scaled_normals(use.key(0), prod(shape), mpq(use.word("std"))).reshape(shape)))


def xavier_uniform(use: Use) -> Value:
    """Uniform draws; the fans are the lengths of the first and of the last axis, 1 and 1 for a scalar."""
    shape = use.made()
    fan_in, fan_out = (shape[0], shape[-1]) if shape else (1, 1)
    return Real(use.m.from_doubles(draws.xavier_uniform(use.key(0), prod(shape), fan_in, fan_out).reshape(shape)))


def dropout_mask(use: Use) -> Value:
    """0 where the draw is below the rate, 1 / (1 − rate) elsewhere."""
    rate, shape = use.hyper(0).value, use.real(2).shape
    if not 0 <= rate < 1:
        raise Fault(RATE, f"the rate of `dropout` is {rate}, which does not lie in [0, 1)")
    dropped = draws.below(use.key(1), prod(shape), rate).reshape(shape)
    kept = use.m.number(1 / (1 - rate))
    result: Objects = np.array(use.m.zeros(shape))
    result[~dropped] = kept
    return Real(result)


def split_key(use: Use) -> Value:
    """A tuple of keys."""
    return Items(tuple(map(Key, draws.split_key(use.key(0), use.length("n")))))
