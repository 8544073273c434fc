"""scikit-learn's own checks, with no expected failures."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as gp
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.hyperpriors import Gamma
from sparsebayes.likelihoods import Gaussian, Poisson


@dataclass(frozen=True)
class Rounded(Poisson):
    """Counts out of any numbers: the checks have no others, and Poisson refuses them."""

    def check(self, y):
        return super().check(np.round(y))


# What is slow has few atoms or a coarse tolerance: these checks are of the interface.
ESTIMATORS = [
    SparseBayesRegressor(),
    SparseBayesRegressor(prior="flat", solver="sequential", fit_intercept=False),
    SparseBayesRegressor(
        Linear() + Kernel("rbf", gamma=0.5, centers=12), noise_variance=0.1, warm_start=True
    ),
    RVR(),
    RVR(solver="sequential", centers=12),
    RVR(solver="mackay"),
    SparseBayesRegressor(solver="em", prior=Gamma(1e-3, 1e-3), tol=1e-3),
    RVR(gamma="evidence", centers=12),
    RVR("precomputed"),
    RVR(gp.RBF(3.0), prior="bic", n_restarts=1, centers=30),
    SparseBayesRegressor(likelihood=Rounded()),
    RVR(likelihood=Rounded()),
    RVR(likelihood=Gaussian(0.1), fit_intercept=False, centers=12),
    SparseBayesClassifier(),
    SparseBayesClassifier(prior="flat", solver="sequential"),
    SparseBayesClassifier(
        Linear() + Kernel("rbf", gamma=0.5, centers=8), class_weight="balanced", shared=True
    ),
    RVC(),
    RVC("laplacian", prior="bic", fit_intercept=False, warm_start=True, n_restarts=1, centers=8),
    RVC(solver="mackay", prior="bic", fit_intercept=False, warm_start=True, centers=4, tol=1e-3),
    SparseBayesClassifier(solver="em", tol=1e-3),
    RVC(gamma="evidence", centers=4, tol=1e-3),
]


# Many of these data are interpolated, which deserves the warning; any other one is an error.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
