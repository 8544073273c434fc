"""The smoothness prior where the likelihood is not Gaussian: in both solvers, and sparser with c.

There the noise variance is one: an atom's degrees of freedom are counted in the curvature of the
likelihood at the mode, in which atoms are brought to unit norm.
"""

from functools import cache

import numpy as np
import pytest

from pairwise import in_turn
from sparsebayes import RVC, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.hyperpriors import Smoothness

by_solver = pytest.mark.parametrize("solver", ["working-set", "sequential"])


def linear_classes(seed=0, n=200, m=30):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, m))
    return X, (2 * X[:, 3] - 1.5 * X[:, 7] + rng.logistic(size=n) > 0).astype(int)


def blobs(n_classes, n, spread, seed=0):
    """Classes around the corners of a polygon, which overlap."""
    y = np.arange(n) % n_classes
    angle = 2 * np.pi * y / n_classes
    noise = np.random.RandomState(seed).standard_normal((n, 2))
    return np.stack([2 * np.cos(angle), 2 * np.sin(angle)], axis=1) + spread * noise, y


def price(prior, n, m):
    return {"aic": 1.0, "bic": 0.5 * np.log(n), "ric": np.log(m)}.get(prior, prior)


def hyperprior_of(model):
    """Log prior of the active variances, from the definition: the noise variance is one."""
    state = model.solution_.state
    return state.v / (state.v + 1.0)


@by_solver
@pytest.mark.parametrize("prior", ["aic", "bic", "ric", 2.5, Smoothness(2.5)], ids=repr)
def test_two_classes(solver, prior):
    X, y = linear_classes()
    model = SparseBayesClassifier(prior=prior, solver=solver).fit(X, y)
    assert model.converged_
    assert model.certificate_.holds(1e-6)
    assert {3, 7} <= set(model.relevance_)
    c = prior.c if isinstance(prior, Smoothness) else price(prior, 200, 30)
    paid = c * np.sum(hyperprior_of(model))
    assert model.log_posterior_ == pytest.approx(model.log_marginal_likelihood_ - paid, abs=1e-9)
    assert 0 < model.degrees_of_freedom_ < len(model.relevance_)
    assert model.score(X, y) > 0.8


@by_solver
def test_a_higher_price_leaves_fewer_atoms(solver):
    X, y = linear_classes(1)
    sizes, freedom = [], []
    for c in (0.0, 0.3, 1.0, 3.0, 12.0, 1000.0):
        model = SparseBayesClassifier(prior=c, solver=solver).fit(X, y)
        sizes.append(len(model.relevance_))
        freedom.append(model.degrees_of_freedom_)
    assert sizes == sorted(sizes, reverse=True)
    assert freedom == sorted(freedom, reverse=True)
    assert sizes[0] > sizes[2] > sizes[-1] == 0
    assert sizes[3] == 2


@by_solver
def test_the_names_are_prices(solver):
    X, y = linear_classes(2)
    for name, c in (("aic", 1.0), ("bic", 0.5 * np.log(200)), ("ric", np.log(30))):
        named = SparseBayesClassifier(prior=name, solver=solver).fit(X, y)
        number = SparseBayesClassifier(prior=c, solver=solver).fit(X, y)
        np.testing.assert_array_equal(named.relevance_, number.relevance_)
        np.testing.assert_allclose(named.weights_, number.weights_)


GAMMA = 0.25


@cache
def of_three(shared):
    """Three classes, and a fit to them at no price."""
    X, y = blobs(3, 60, spread=1.0)
    return X, y, RVC(gamma=0.3, prior="flat", shared=shared).fit(X, y)


@cache
def of_two(solver):
    """Two classes, and a fit to them at no price."""
    X, y = blobs(2, 150, spread=1.5)
    return X, y, RVC(gamma=GAMMA, prior="flat", solver=solver).fit(X, y)


@in_turn(prior=["aic", "bic", "ric"], shared=[False, True])
def test_several_classes(prior, shared):
    X, y, flat = of_three(shared)
    model = RVC(gamma=0.3, prior=prior, shared=shared).fit(X, y)
    assert model.certificate_.holds(1e-6)
    count = [sum(map(len, each.relevance_)) for each in (model, flat)]
    assert count[0] <= count[1]
    assert 0 < model.degrees_of_freedom_ < count[0]
    assert model.score(X, y) > 0.7
    assert model.log_posterior_ < model.log_marginal_likelihood_


@by_solver
@pytest.mark.parametrize("prior", ["aic", "bic", "ric"])
def test_kernel_machines(solver, prior):
    X, y, flat = of_two(solver)
    model = RVC(gamma=GAMMA, prior=prior, solver=solver).fit(X, y)
    assert model.certificate_.holds(1e-6)
    assert 0 < len(model.relevance_) <= len(flat.relevance_)


@pytest.mark.parametrize("seed", [0, 2])
def test_growth_at_full_price_that_ends_in_a_corner_is_tried_at_half(seed):
    """Expansions disagreed, at models up to eight nats below what a lower price leads to."""
    X, y = blobs(2, 120, spread=1.5 if seed == 0 else 1.0, seed=seed)
    model = RVC(gamma=0.5, prior="ric").fit(X, y)
    assert model.converged_
    assert model.log_posterior_ > {0: -46.0, 2: -30.3}[seed]
    assert model.n_iter_ <= model.max_iter


@by_solver
def test_counts(solver):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((150, 20))
    y = rng.poisson(np.exp(1 + 0.8 * X[:, 4]))
    sizes = []
    for prior in (0.0, "aic", "bic", 8.0):
        model = SparseBayesRegressor(prior=prior, likelihood="poisson", solver=solver).fit(X, y)
        assert model.certificate_.holds(1e-6)
        sizes.append(len(model.relevance_))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1] == 1


def test_the_closed_form_is_for_gaussian_noise():
    X, y = linear_classes()
    with pytest.raises(ValueError, match="solver='orthonormal' is for Gaussian noise"):
        SparseBayesClassifier(solver="orthonormal").fit(X, y)
    with pytest.raises(ValueError, match="solver='orthonormal' is for Gaussian noise"):
        SparseBayesRegressor(solver="orthonormal", likelihood="poisson").fit(X, y)
