"""Smooth functions with little or no noise: kernels there are alike almost to rounding."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from pairwise import in_turn, pairwise
from sparsebayes import RVR
from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import Breakdown, whiten


def branin(X):
    x, y = 15 * X[:, 0] - 5, 15 * X[:, 1]
    dip = (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2
    return dip + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


FUNCTIONS = {
    "sine": (1, lambda X: np.sin(2 * np.pi * X[:, 0])),
    "decay": (1, lambda X: np.exp(-3 * X[:, 0]) * np.sin(6 * X[:, 0])),
    "branin": (2, branin),
}


@pairwise(
    name=list(FUNCTIONS),
    noise=[0.0, 1e-4],
    gamma=["ard", "evidence", "pooled", "pooled-ard", "scale"],
)
def test_a_function_without_noise_is_found(name, noise, gamma):
    rng = np.random.RandomState(0)
    dim, function = FUNCTIONS[name]
    X, new = rng.uniform(size=(100, dim)), rng.uniform(size=(500, dim))
    y, truth = function(X), function(new)
    y = y + noise * y.std() * rng.standard_normal(100)
    with warnings.catch_warnings():  # float64 may have the last word, but not a wrong one
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = RVR(gamma=gamma, random_state=0).fit(X, y)
    assert np.abs(model.predict(new) - truth).mean() < 0.1 * truth.std()
    most = -0.5 * 99 * np.log(2 * np.pi * model.noise_variance_)
    assert model.log_marginal_likelihood_ <= most


@in_turn(gamma=[0.005, 0.02, 0.1], noise_var=[1e-4, 1e-6, 1e-8, 1e-10])
def test_kernels_too_wide_for_the_noise_given_explain_what_float64_can(gamma, noise_var):
    x = np.linspace(0, 2 * np.pi, 50)[:, None]
    y = np.sin(x[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = RVR(gamma=gamma, noise_variance=noise_var).fit(x, y)
    assert np.sqrt(np.mean((model.predict(x) - y) ** 2)) < 0.1
    assert model.log_marginal_likelihood_ <= -0.5 * 49 * np.log(2 * np.pi * noise_var)


def test_evidence_that_rounding_has_made_up_is_none():
    """As little left over as -2 noise variances would be evidence for one nat too many."""
    G, noise_var = np.array([[1.0]]), 1e-6
    for explained, possible in ((1.0 - 1e-4, True), (1.0 + 1e-5, False)):
        gram = Gram(G, np.array([[np.sqrt(explained)]]), tt=1.0, n=10.0, spread=0.1)
        if possible:
            white = whiten(gram, np.array([1e6]), noise_var)
            assert white.residual == pytest.approx(1.0 - explained, rel=1e-6)
        else:
            with pytest.raises(Breakdown):
                whiten(gram, np.array([1e6]), noise_var)
