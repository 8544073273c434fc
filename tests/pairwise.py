"""Parametrization by fewer tests than there are combinations of all parameters."""

import itertools

import pytest


def pairwise(**factors):
    """Parametrize a test by rows that hold every pair of values of two parameters.

    Faults that only three parameters together show are left to the tests of each. A dictionary
    gives values their names.
    """
    named = _named(factors)
    return _mark(named, _rows([len(values) for values in named.values()]))


def in_turn(**factors):
    """Parametrize a test by as many rows as the longest factor has values: each value is met."""
    named = _named(factors)
    count = max(map(len, named.values()))
    return _mark(named, [[i % len(values) for values in named.values()] for i in range(count)])


def _named(factors):
    return {
        name: list(values.items()) if isinstance(values, dict) else [(None, v) for v in values]
        for name, values in factors.items()
    }


def _mark(named, rows):
    chosen = [[values[i] for values, i in zip(named.values(), row, strict=True)] for row in rows]
    return pytest.mark.parametrize(
        list(named),
        [[value for _, value in row] for row in chosen],
        ids=["-".join(_name(*each) for each in row) for row in chosen],
    )


def _name(name, value):
    if name is None:
        name = getattr(value, "__name__", None) or repr(value)[:40]
    return str(name)


def _rows(sizes):
    """Rows of numbers below `sizes`: each time the one with most pairs that were not seen yet."""
    places = list(itertools.combinations(range(len(sizes)), 2))
    pairs = {
        row: {(a, b, row[a], row[b]) for a, b in places}
        for row in itertools.product(*map(range, sizes))
    }
    unseen = set().union(*pairs.values())
    found = []
    while unseen:
        row = max(pairs, key=lambda row: len(pairs[row] & unseen))  # the first of them
        found.append(row)
        unseen -= pairs.pop(row)
    return found
