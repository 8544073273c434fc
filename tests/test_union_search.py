"""Unions with an orthonormal part: the search by way of what that part would keep alone."""

import numpy as np
import pytest

from pairwise import in_turn
from sparsebayes import SparseBayesRegressor
from sparsebayes._union_search import Some, search_parts
from sparsebayes.core.quadratic import Gram, OrthonormalQuadratic
from sparsebayes.datasets import heavisine
from sparsebayes.dictionaries import Kernel, Wavelet
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.problem import Problem
from sparsebayes.solvers import search


def random_quadratic(rng, N=40, M=25, T=1):
    Q, _ = np.linalg.qr(rng.standard_normal((N, 12)))
    other = rng.standard_normal((N, M - 12))
    Phi = np.hstack([Q, other / np.linalg.norm(other, axis=0)])
    t = 4 * Phi[:, rng.choice(M, 5, replace=False)].sum(axis=1, keepdims=True)
    t = t + 0.3 * rng.standard_normal((N, T))
    spread = float(t.var(axis=0).sum())
    tt = float((t**2).sum())
    return (
        Gram(Phi.T @ Phi, Phi.T @ t, tt, float(N), spread),
        (np.arange(12), OrthonormalQuadratic(Q.T @ t, tt, float(N), spread)),
    )


def test_some_atoms_are_a_quadratic_of_their_own():
    whole, _ = random_quadratic(np.random.default_rng(0))
    kept = np.array([3, 7, 20])
    some, dense = Some(whole, kept), whole.gram(kept)
    assert (some.size, some.tt, some.n, some.spread) == (3, dense.tt, dense.n, dense.spread)
    np.testing.assert_array_equal(some.g, dense.g)
    np.testing.assert_array_equal(some.diag, dense.diag)
    np.testing.assert_array_equal(some.blocks, dense.blocks)
    np.testing.assert_array_equal(some.columns(np.array([2, 0])), dense.columns(np.array([2, 0])))
    np.testing.assert_array_equal(some.gram(np.array([1])).G, dense.gram(np.array([1])).G)


@in_turn(seed=range(10), targets=[1, 3, 3])
def test_the_second_search_never_loses(seed, targets):
    whole, part = random_quadratic(np.random.default_rng(seed), T=targets)
    problem = Problem(whole, Smoothness(2.0), noise_var=0.09 if seed % 2 else None)
    asked = []

    def solve(problem, start):
        asked.append((problem.quad.size, start is None))
        return search.solve(problem, start=start)

    direct = search.solve(problem)
    found = search_parts(problem, [part], solve, direct)
    assert found.state.objective >= direct.state.objective
    assert found.converged
    # Fewer atoms without a start: the part's best beside the others, the others, the best of both.
    # Then all atoms, from either of the two.
    sizes = [size for size, _ in asked]
    assert [fresh for _, fresh in asked] == [True, True, True, False, False]
    assert 13 <= sizes[0] < 25
    assert sizes[1] == 13
    assert sizes[2] < sizes[0]
    assert sizes[3:] == [25, 25]


def test_there_is_no_second_search_without_a_part_that_knows():
    whole, part = random_quadratic(np.random.default_rng(1))

    def solve(problem, start):
        raise AssertionError("nothing is to be solved")

    problem = Problem(whole, Smoothness(1.0))
    direct = search.solve(problem)
    assert search_parts(problem, [], solve, direct) is direct
    # Under a flat prior all 12 directions of 12 samples explain them: the part keeps all.
    rng = np.random.default_rng(2)
    Q, _ = np.linalg.qr(rng.standard_normal((12, 12)))
    Phi, t = np.hstack([Q, Q[:, :3]]), rng.standard_normal((12, 1))
    tt, spread = float((t**2).sum()), float(t.var())
    full = Problem(Gram(Phi.T @ Phi, Phi.T @ t, tt, 12.0, spread), Flat())
    direct = search.solve(full)
    part = np.arange(12), OrthonormalQuadratic(Q.T @ t, tt, 12.0, spread)
    assert search_parts(full, [part], solve, direct) is direct


@pytest.mark.parametrize("seed", [1, 4])
def test_splines_take_over_where_wavelets_stood(seed):
    # Grown atom by atom, these end 100 nats lower at four times the error.
    data = heavisine(256, snr=7, exact_noise=True, random_state=seed)
    X = np.linspace(-10, 10, 256)[:, np.newaxis]
    both = Wavelet("haar") + Kernel("tps", gamma=1 / 9)
    model = SparseBayesRegressor(both, prior="ric").fit(X, data.y)
    assert model.log_posterior_ > -260
    assert np.mean((model.predict(X) - data.truth) ** 2) < 0.3 * data.noise_std**2
    plain = SparseBayesRegressor(both, prior="ric", solver="sequential").fit(X, data.y)
    assert model.log_posterior_ > plain.log_posterior_


@pytest.mark.parametrize("prior", ["flat", "bic"])
def test_unions_of_constant_and_of_several_targets(prior):
    X = np.arange(32.0)[:, np.newaxis]
    both = Wavelet("haar") + Kernel("rbf", gamma=0.1)
    model = SparseBayesRegressor(both, prior=prior, noise_variance=0.01)
    assert model.fit(X, np.full(32, 3.0)).relevance_.size == 0
    Y = np.c_[np.sin(X[:, 0] / 5), np.where(X[:, 0] < 16, 0.0, 1.0)]
    model.fit(X, Y + 0.1 * np.random.default_rng(0).standard_normal(Y.shape))
    assert np.abs(model.predict(X) - Y).max() < 0.3
