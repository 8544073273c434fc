"""Sums of blocks: the same to the last bit, in whatever order and lots they are merged."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from random_problems import examples, seeds
from sparsebayes.rows import LocalRows, blocks, open_source, summary
from sparsebayes.rows.blocks import Sums, Total, plus, settled
from sparsebayes.rows.summary import _InOrder, _Summarize


@dataclass(frozen=True)
class Found(Sums):
    largest = ("peak",)
    number: float
    array: np.ndarray
    peak: np.ndarray


def drawn(rng, n):
    """Sums of blocks whose sizes differ by many orders of magnitude; the largest ones cancel."""
    size = 10.0 ** rng.uniform(-12, 8, size=n)
    found = [
        Found(float(rng.normal() * each), rng.normal(size=(3, 2)) * each, rng.normal(size=2))
        for each in size
    ]
    largest = max(found, key=lambda each: abs(each.number))
    return [*found, Found(-largest.number, -largest.array, rng.normal(size=2))]


def copied(found):
    return Found(found.number, found.array.copy(), found.peak.copy())


def merged(parts, rng):
    """Merge neighbors of a random order, in random lots, until one is left."""
    parts = [copied(part) for part in rng.permutation(np.array(parts, dtype=object))]
    while len(parts) > 1:
        i = int(rng.integers(len(parts) - 1))
        parts[i : i + 2] = [plus(parts[i], parts[i + 1])]
    return settled(parts[0])


@given(seeds, st.integers(1, 30))
@examples(30)
def test_neither_order_nor_lots_change_a_bit(seed, n):
    rng = np.random.default_rng(seed)
    parts = drawn(rng, n)
    one, two = merged(parts, rng), merged(parts, rng)
    assert one.number == two.number == math.fsum(part.number for part in parts)
    assert_array_equal(one.array, two.array)
    assert_array_equal(one.array[1, 1], math.fsum(part.array[1, 1] for part in parts))
    assert_array_equal(one.peak, np.max([part.peak for part in parts], axis=0))


def test_large_arrays_are_added_a_few_values_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    parts = [Found(0.0, rng.normal(size=(7, 5)), np.zeros(1)) for _ in range(9)]
    whole = merged(parts, rng)
    monkeypatch.setattr(blocks, "_AT_ONCE", 4)
    assert_array_equal(merged(parts, rng).array, whole.array)


def test_what_is_not_finite_stays_so_without_a_warning():
    large, none = np.array([1e308, 1.0]), np.zeros(1)
    parts = [Found(-np.inf, large, none), Found(1.0, large, none), Found(2.0, large, none)]
    found = merged(parts, np.random.default_rng(1))
    assert found.number == -np.inf
    assert_array_equal(found.array, [np.inf, 3.0])


def test_views_and_arrays_that_may_not_be_changed_are_left_alone():
    fixed = np.ones((2, 3))
    fixed.flags.writeable = False
    turned = np.ones((3, 2)).T
    for array in (fixed, turned):
        total = Total(Found(1.0, array, np.zeros(1))).plus(Found(1.0, array, np.zeros(1)))
        assert_array_equal(total.value.array, np.full((2, 3), 2.0))
        assert_array_equal(array, np.ones((2, 3)))


def test_one_block_is_what_it_is():
    found = Found(1.0, np.ones(2), np.zeros(1))
    assert settled(found) is found


@pytest.mark.parametrize("numeric", [True, False])
def test_summaries_are_merged_in_the_order_of_the_rows(numeric):
    rng = np.random.default_rng(2)
    X, y = 1e6 + rng.normal(size=(400, 3)), rng.integers(0, 3, size=400)
    weights = rng.uniform(size=400)
    source = open_source(X, y, weights, numeric_y=numeric)
    pieces = [_Summarize(numeric)(block) for block in source.chunks(37)]
    ordered = LocalRows(source, 37).fold(_Summarize(numeric))
    assert len(ordered.pieces) == 1  # nothing piles up where rows come in order
    for _ in range(10):
        lots = [pieces[i] for i in rng.permutation(len(pieces))]
        while len(lots) > 1:
            i = int(rng.integers(len(lots) - 1))
            lots[i : i + 2] = [lots[i].plus(lots[i + 1])]
        (found,) = lots
        assert isinstance(found, _InOrder)
        assert_array_equal(found.whole.inputs.variance, ordered.whole.inputs.variance)
        assert_array_equal(found.whole.inputs.mean, ordered.whole.inputs.mean)
        sums = found.whole.targets if numeric else found.whole.labels
        others = ordered.whole.targets if numeric else ordered.whole.labels
        for name, value in vars(sums).items():
            assert_array_equal(value, getattr(others, name), err_msg=name)


def test_integers_and_single_precision_are_added_as_doubles():
    for dtype in (np.intp, np.float32):
        array = np.full(3, 2**24 + 1, dtype=dtype)
        one, two = (Found(1.0, array.copy(), np.zeros(1)) for _ in range(2))
        total = settled(plus(one, two))
        assert total.array.dtype == np.float64
        assert_array_equal(total.array, 2.0 * array.astype(float))


def test_summaries_of_many_columns_do_not_pile_up(monkeypatch):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    source = open_source(X, y)
    pieces = [_Summarize(True)(block) for block in source.chunks(5)]
    monkeypatch.setattr(summary, "_KEPT", 20)
    last = pieces[-1]
    for piece in reversed(pieces[:-1]):  # from the end: none follows the first row
        last = last.plus(piece)
        assert len(last.pieces) <= 4
    assert_allclose(last.whole.inputs.mean, X.mean(axis=0), atol=1e-14)
    assert last.whole.n == 60
