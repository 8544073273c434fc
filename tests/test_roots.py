"""Roots of quadratics: what is lost in G is still there in what it is the square of."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sparsebayes.core.quadratic import Gram, Root
from sparsebayes.core.roots import root_of, rooted
from sparsebayes.core.tolerances import COLLINEAR
from sparsebayes.engine import Breakdown, State, refresh, screen, triangle, whiten
from sparsebayes.hyperpriors import Flat
from sparsebayes.problem import Problem, certify
from sparsebayes.solvers.expand import UNIT_NOISE
from sparsebayes.solvers.search import solve


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 10**6))
def test_the_root_of_a_matrix_squared_is_that_matrix(q, n, seed):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n, q)) * 10.0 ** rng.uniform(-9, 9, size=q)
    P, right = B.T @ B, B.T @ rng.normal(size=n)
    F, t = rooted(P, right)
    scale = np.sqrt(P.diagonal())
    assert_allclose(F.T @ F / scale / scale[:, None], P / scale / scale[:, None], atol=1e-12)
    assert_allclose(F.T @ t / scale, right / scale, atol=1e-6 * np.abs(right / scale).max())
    assert len(F) <= min(q, n)


def test_nothing_has_a_root():
    F, t = rooted(np.zeros((0, 0)), np.zeros(0))
    assert F.shape == (0, 0)
    assert t.shape == (0,)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("place", [(0, 0), (0, 1)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_breaks_down(value, place, clip):
    P = np.eye(3)
    P[place] = P[place[::-1]] = value
    with pytest.raises(Breakdown):
        rooted(P, np.zeros(3), clip)


def test_a_column_without_square_has_no_root():
    P = np.diag([4.0, 0.0, 9.0])
    F, t = rooted(P, np.array([2.0, 0.0, 3.0]))
    assert_allclose(F.T @ F, P)
    assert_allclose(F.T @ t, [2.0, 0.0, 3.0])


@pytest.mark.parametrize("P", [np.diag([1.0, -1.0]), np.array([[1.0, 2.0], [2.0, 1.0]])])
def test_what_is_no_square_breaks_down_or_is_clipped(P):
    with pytest.raises(Breakdown):
        root_of(P)
    F, _ = rooted(P, np.zeros(2), clip=True)
    values, vectors = np.linalg.eigh(P)
    assert_allclose(F.T @ F, (vectors * np.maximum(values, 0.0)) @ vectors.T, atol=1e-12)


def problem(rng, near=0.0):
    """A design of columns that differ by ``near`` from few, and its Gram matrix with its root."""
    D = np.repeat(rng.normal(size=(12, 3)), 2, axis=1)
    D[:, 1::2] += near * rng.normal(size=(12, 3))
    D /= np.linalg.norm(D, axis=0)
    t = rng.normal(size=(12, 1)) * 30
    plain = Gram(D.T @ D, D.T @ t, 0.0, 0.0, 1.0, log_offset=5.0)
    return plain, Gram(plain.G, plain.g, 0.0, 0.0, 1.0, log_offset=5.0, root=Root(D, t))


@pytest.mark.parametrize("noise_var", [1.0, 0.3])
def test_with_its_root_a_posterior_is_the_same(noise_var):
    plain, known = problem(np.random.default_rng(0), near=1.0)
    v = np.array([3.0, 0.1, 20.0, 5.0, 1.0, 0.4])
    one, other = (whiten(gram, v, noise_var) for gram in (plain, known))
    for name in ("L", "W", "z", "log_evidence"):
        assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-11, atol=1e-13)
    assert other.condition == pytest.approx(one.condition**0.5)
    active = np.array([4, 1, 2])
    states = [refresh(gram, Flat(), active, v[active], noise_var) for gram in (plain, known)]
    first, second = (
        screen(gram, Flat(), state) for gram, state in zip((plain, known), states, strict=True)
    )
    for name in ("S", "Q", "gains", "v", "X"):
        assert_allclose(getattr(second, name), getattr(first, name), rtol=1e-9, atol=1e-11)


def exactly(D, t, v):
    """Log evidence less that of no atoms, in rational numbers."""
    n = len(D)
    rows = [[Fraction(float(x)) for x in row] for row in D]
    targets = [Fraction(float(x)) for x in t[:, 0]]
    C = [
        [
            sum(a * b * Fraction(float(w)) for a, b, w in zip(rows[i], rows[j], v, strict=True))
            + (i == j)
            for j in range(n)
        ]
        + [targets[i]]
        for i in range(n)
    ]
    determinant, squares = Fraction(1), Fraction(0)
    for k in range(n):  # C = L D L': squares of L^-1 t over D are those of t under C^-1
        determinant *= C[k][k]
        squares += C[k][n] ** 2 / C[k][k]
        for i in range(k + 1, n):
            share = C[i][k] / C[k][k]
            C[i] = [x - share * y for x, y in zip(C[i], C[k], strict=True)]
    logarithm = math.log(determinant.numerator) - math.log(determinant.denominator)
    return float((sum(x * x for x in targets) - squares) / 2) - logarithm / 2


def test_evidence_keeps_its_digits_where_weights_almost_cancel():
    plain, known = problem(np.random.default_rng(1), near=1e-6)
    v = np.full(6, 1e16)
    right = exactly(known.root.D, known.root.t, v)
    found = whiten(known, v, 1.0).log_evidence - 5.0
    assert found == pytest.approx(right, abs=1e-5)
    try:
        wrong = whiten(plain, v, 1.0).log_evidence - 5.0
    except Breakdown:
        return
    assert abs(wrong - right) > 1e-2


def test_atoms_are_told_apart_that_their_gram_matrix_confuses():
    D = np.eye(8)[:, [0, 0, 3]]
    D[1, 1] = 3e-5
    D[:, 1] /= np.linalg.norm(D[:, 1])
    t = (100.0 * np.eye(8)[:, 0] + 50.0 * np.eye(8)[:, 1])[:, None]
    plain = Gram(D.T @ D, D.T @ t, 0.0, 0.0, 1.0)
    known = Gram(plain.G, plain.g, 0.0, 0.0, 1.0, root=Root(D, t))
    assert known.collinear < COLLINEAR == plain.collinear
    gains = []
    for gram in (plain, known):
        state = refresh(gram, Flat(), np.array([0]), np.array([1e14]), 1.0)
        certificate, statistics = certify(Problem(gram, Flat(), 1.0), state, UNIT_NOISE)
        gains.append(statistics.gains[1])
        assert certificate.max_gain >= gains[-1]
    assert gains[0] == 0.0
    S = statistics.S[1]
    assert S == pytest.approx(9e-10, rel=1e-4)
    assert gains[1] == pytest.approx(0.5 * 50**2, rel=0.02)
    end = solve(Problem(known, Flat(), noise_var=1.0))
    assert end.converged
    assert end.state.objective > 0.5 * 50**2


def test_columns_that_only_rounding_tells_apart_break_down():
    D = np.ones((3, 2))
    D[0, 1] += 1e-13
    gram = Gram(D.T @ D, np.ones((2, 1)), 0.0, 0.0, 1.0, root=Root(D, np.ones((3, 1))))
    with pytest.raises(Breakdown):
        whiten(gram, np.full(2, 1e26), 1.0)


def test_a_triangle_of_numbers_out_of_range_is_a_breakdown():
    with pytest.raises(Breakdown):
        triangle(np.full((2, 2), np.inf))


def test_some_atoms_of_a_root_are_its_columns():
    _, known = problem(np.random.default_rng(0), near=0.5)
    few = known.gram(np.array([3, 0]))
    assert_allclose(few.root.D.T @ few.root.D, few.G)
    state = refresh(known, Flat(), np.array([3, 0]), np.ones(2), 1.0)
    assert isinstance(state, State)
    assert_allclose(known.root.along(known.root.D[:, :2].T), known.G[:2])
