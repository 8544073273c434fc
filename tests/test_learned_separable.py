"""Learned kernels where hardly any row contradicts the classes: Laplace's evidence has folds."""

import numpy as np
import pytest

from sparsebayes import RVC


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_refit_that_loses_all_atoms_is_not_followed():
    rng = np.random.default_rng(5)
    X = rng.uniform(-3, 3, (30, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30) > 0
    given = RVC(gamma="scale", prior="aic").fit(X, y)
    learned = RVC(gamma="evidence", prior="aic").fit(X, y)
    assert learned.log_posterior_ >= given.log_posterior_ - 1e-6
    assert learned.score(X, y) > 0.9
