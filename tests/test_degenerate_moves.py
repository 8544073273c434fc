"""Small problems that once drove single moves out of float64's range."""

import numpy as np
import pytest

from sparsebayes import SparseBayesRegressor
from sparsebayes.hyperpriors import Flat, gain

QUIET = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_gain_of_deleting_a_well_determined_atom():
    for v_now in (1e10, 1e15, 1e17, 1e25):
        got = gain(Flat(), np.ones(1), np.full(1, 3.0), np.zeros(1), 1.0, 1, np.full(1, v_now))
        np.testing.assert_allclose(got, 0.5 * np.log1p(v_now) - 1.5 * v_now / (1 + v_now))


def fit(X, y):
    model = SparseBayesRegressor(
        fit_intercept=False, solver="sequential", max_iter=20, prior="flat"
    ).fit(X, y)
    assert np.isfinite(model.certificate_.max_gain)
    assert np.isfinite(model.predict(X)).all()


@QUIET
def test_a_huge_column_and_equal_targets():
    fit([[1e12, -0.1, 0.1], [1e12, -0.4, 1.0]], [1.0, 1.0])


@QUIET
def test_a_huge_column_among_many():
    X = [
        [1e12, -0.2, 0.6, 0.1, 0.5, -0.1, -0.9, -0.6, 0.6],
        [1e12, 0.3, 1.4, -0.3, 0.2, -0.0, 0.1, 0.5, 1.4],
    ]
    fit(X, [1.0, 1.0])


@QUIET
def test_equal_targets_without_an_intercept():
    X = [
        [0.2, -1.0, -0.2, -1.1, -1.8, -1.2],
        [-0.3, -0.3, 1.8, -0.4, -1.6, -0.3],
        [-0.3, 1.7, 0.4, -0.7, -1.1, 0.3],
        [0.5, 1.0, 0.1, 2.4, 0.2, 0.6],
    ]
    fit(X, [1.0] * 4)
