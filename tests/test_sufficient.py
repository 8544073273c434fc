"""Sufficient statistics: what they are, that they add up, and that nothing cancels."""

import pickle
from fractions import Fraction
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sparsebayes._samples import standardized, unit_of_range
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.dictionaries.linear import LinearAtoms
from sparsebayes.noise_priors import InverseGamma
from sparsebayes.rows import Block, LocalRows, open_source
from sparsebayes.rows.blocks import weighted_rows
from sparsebayes.rows.sufficient import Sufficient, sufficient_quadratic

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.c_[X[:, 0] + RNG.normal(size=60), RNG.normal(size=60)]
WEIGHTS = RNG.choice([0.0, 0.5, 1.0, 3.0], 60)
DICTIONARY = Bias() + Linear() + Kernel("rbf", gamma=0.5, centers=X[:7])
ATOMS = DICTIONARY.bind(X)


def statistics(X, y, weights=None, atoms=ATOMS):
    return Sufficient(atoms)(Block(X, y, weights, 0, "some"))


def in_parts(cuts, X, y, weights=None, atoms=ATOMS):
    ends = [0, *sorted(set(cuts)), len(y)]
    parts = [
        statistics(X[a:b], y[a:b], None if weights is None else weights[a:b], atoms)
        for a, b in pairwise(ends)
        if weights is None or weights[a:b].any()
    ]
    return reduce(lambda one, other: one.joined(other), parts)


def means(found):
    return (found.reference + found.mean) * found.unit


def assert_same(one, other, rtol=1e-13):
    """Equal up to rounding, which is that of the largest products a column has."""
    assert one.rows == other.rows
    assert_allclose(one.total, other.total, rtol=1e-14)
    assert_array_equal(one.unit, other.unit)
    size = np.sqrt(np.diag(other.scatter) + other.total * (other.reference + other.mean) ** 2)
    assert_allclose(means(one), means(other), rtol=rtol, atol=rtol)
    assert (np.abs(one.scatter - other.scatter) <= rtol * np.outer(size, size)).all()
    assert_allclose(one.inputs.variance, other.inputs.variance, rtol=1e-12)
    assert_array_equal(one.targets.low, other.targets.low)
    assert_array_equal(one.targets.high, other.targets.high)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_definition(weights, kind):
    found = statistics(kind(X), Y, weights)
    w = np.ones(60) if weights is None else weights
    Z = np.hstack([ATOMS.evaluate(X), Y])
    mean = np.average(Z, axis=0, weights=w)
    assert (found.rows, found.total) == (np.count_nonzero(w), w.sum())
    assert (found.size, found.n_targets) == (11, 2)
    assert_allclose(means(found), mean, rtol=1e-14, atol=1e-15)
    assert_allclose(found.scatter, (Z - mean).T @ (w[:, None] * (Z - mean)), atol=1e-13)
    assert_array_equal(found.scatter, found.scatter.T)
    assert_allclose(found.inputs.variance, np.average((X - w @ X / w.sum()) ** 2, 0, w))


@settings(max_examples=20, deadline=None)
@given(st.sets(st.integers(1, 59)), st.booleans(), st.sampled_from([0.0, 1e3, -1e8]))
def test_statistics_do_not_depend_on_how_rows_are_divided(cuts, weighted, offset):
    weights = WEIGHTS if weighted else None
    assert_same(in_parts(cuts, X, Y + offset, weights), statistics(X, Y + offset, weights))


def test_one_row_at_a_time_in_tiles_and_in_threads(monkeypatch):
    whole = statistics(X, Y, WEIGHTS)
    assert_same(in_parts(range(1, 60), X, Y, WEIGHTS), whole)
    monkeypatch.setattr("sparsebayes.rows.sufficient.TILE_CELLS", 40)
    monkeypatch.setattr("sparsebayes.rows.sufficient._TILE_ROWS", 3)
    assert_same(statistics(X, Y, WEIGHTS), whole)
    rows = LocalRows(open_source(X, Y, WEIGHTS), 1, threads=3).mapped(weighted_rows)
    assert_same(rows.fold(Sufficient(ATOMS)), whole)


def test_order_does_not_matter():
    a, b, c = (statistics(X[i::3], Y[i::3]) for i in range(3))
    assert_same(a.joined(b), b.joined(a))
    assert_same(a.joined(b).joined(c), a.joined(b.joined(c)))
    assert_same(c.joined(a).joined(b), statistics(X, Y))


def test_joining_leaves_both_as_they_were():
    one, other = statistics(X[:20], Y[:20]), statistics(X[20:], Y[20:])
    before = [pickle.dumps(one), pickle.dumps(other)]
    one.joined(other)
    assert [pickle.dumps(one), pickle.dumps(other)] == before
    one.plus(other)  # this one may reuse what is its own
    assert pickle.dumps(other) == before[1]


def exact_scatter(columns):
    values = [[Fraction(float(v)) for v in column] for column in columns.T]
    centered = [[v - sum(column) / len(column) for v in column] for column in values]
    return np.array(
        [[float(sum(a * b for a, b in zip(p, q, strict=True))) for p in centered] for q in centered]
    )


@pytest.mark.parametrize("first", [0.0, 1e8, -3e11])
@pytest.mark.parametrize("offset", [1e8, -1e12])
def test_large_means_cost_no_digits(first, offset):
    """Means of 1e8 and 1e12 standard deviations, and a first row that is nowhere near."""
    Z = np.round(RNG.normal(size=(40, 2)) * 2**10) / 2**10 + offset
    Z[0] += first
    found = in_parts([1, 2, 3, 17], Z, Z[:, :1] - 5, atoms=Linear().bind(Z))
    exact = exact_scatter(np.c_[Z, Z[:, :1] - 5])
    size = np.sqrt(np.diag(exact))
    assert np.abs((found.scatter - exact) / np.outer(size, size)).max() < 1e-13


def test_values_whose_squares_leave_the_range_of_float64():
    factor = np.array([1e-200, 1e200, 1.0])
    Z = X * factor
    Z[:20, 0] = 0.0  # a kernel that is far from the first rows
    Z[:30, 1] *= 1e-190
    atoms = Linear().bind(Z)
    y = Y * 1e-160
    in_units = Z / factor
    whole = statistics(Z, y, atoms=atoms)
    for found in (whole, in_parts([1, 20, 30, 31], Z, y, atoms=atoms)):
        unit = found.unit / np.r_[factor, 1e-160, 1e-160]
        plain = statistics(in_units, Y, atoms=atoms)
        assert_allclose(found.scatter * unit * unit[:, None], plain.scatter, rtol=1e-13, atol=1e-12)


def test_atoms_that_are_not_finite():
    class Reciprocals(LinearAtoms):
        def evaluate(self, X, out=None):
            with np.errstate(divide="ignore"):
                return 1.0 / X

    atoms = Reciprocals(np.arange(3), 3)
    assert statistics(X, Y, atoms=atoms).rows == 60
    with pytest.raises(ValueError, match="NaN or infinite values"):
        statistics(np.vstack([X, np.zeros((1, 3))]), np.vstack([Y, Y[:1]]), atoms=atoms)


def test_no_row_is_left():
    with pytest.raises(ValueError, match="zero for every sample"):
        statistics(X, Y, np.zeros(60))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("before", [None, InverseGamma(1.0, 0.5)])
def test_the_quadratic_is_that_of_the_rows(center, weights, before):
    y = np.c_[7 + 3 * Y, np.full(60, 0.1)]  # one target is constant
    t, shift, scale = standardized(y, weights, center)
    want = weighted_quadratic(make_design(ATOMS, X), t, weights, center, before)
    found = in_parts([1, 30], X, y, weights)
    units = unit_of_range(found.targets.low, found.targets.high, found.targets.mean, center)
    assert_allclose(units[0], shift, rtol=1e-14)
    assert units[1] == scale
    quad = sufficient_quadratic(found, *units, center, before)
    assert_allclose(quad.mean, want.mean, rtol=1e-13, atol=1e-15)
    assert_allclose(quad.norm, want.norm, rtol=1e-13)
    assert_allclose(quad.g, want.g, rtol=1e-12, atol=1e-13)
    assert_array_equal(quad.diag, want.diag)
    for name in ("tt", "n", "spread", "log_offset"):
        assert_allclose(getattr(quad, name), getattr(want, name), rtol=1e-12)
    some = np.array([4, 0, 9])
    assert_allclose(quad.columns(some), want.columns(some), atol=1e-13)
    assert_allclose(quad.gram(some).G, want.gram(some).G, atol=1e-13)
    assert_allclose(quad.gram(some).g, want.g[some], rtol=1e-12, atol=1e-13)
    assert quad.size == 11
