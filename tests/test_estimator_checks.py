"""scikit-learn's own checks, with no expected failures."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as gp
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.hyperpriors import Gamma
from sparsebayes.likelihoods import Gaussian, Poisson


@dataclass(frozen=True)
class Rounded(Poisson):
    """Counts out of any numbers: the checks have no others, and Poisson refuses them."""

    def check(self, y):
        return super().check(np.round(y))


# Every check, for each way that X and y are read.
DEFAULTS = [
    SparseBayesRegressor(),
    RVR(),
    RVR("precomputed"),
    SparseBayesClassifier(),
    RVC(),
]
# Solvers, priors and likelihoods: the checks whose outcome depends on how a fit is computed.
# What is slow has few atoms or a coarse tolerance: these checks are of the interface.
SETTINGS = [
    SparseBayesRegressor(prior="flat", solver="sequential", fit_intercept=False),
    SparseBayesRegressor(
        Linear() + Kernel("rbf", gamma=0.5, centers=12), noise_variance=0.1, warm_start=True
    ),
    RVR(solver="mackay"),
    SparseBayesRegressor(solver="em", prior=Gamma(1e-3, 1e-3), tol=1e-3),
    RVR(gamma="evidence", centers=12),
    RVR(gp.RBF(3.0), prior="bic", n_restarts=1, centers=12),
    SparseBayesRegressor(likelihood=Rounded()),
    RVR(likelihood=Gaussian(0.1), fit_intercept=False, centers=12),
    SparseBayesClassifier(prior="flat", solver="sequential"),
    SparseBayesClassifier(
        Linear() + Kernel("rbf", gamma=0.5, centers=2), class_weight="balanced", shared=True
    ),
    RVC("laplacian", prior="bic", fit_intercept=False, warm_start=True, n_restarts=1, centers=4),
    RVC(solver="mackay", prior="bic", fit_intercept=False, warm_start=True, centers=4, tol=1e-3),
]
# Widths of classes are slow to learn: the checks that tell one fit from another.
LEARNED = RVC(gamma="evidence", centers=3, tol=1e-2)
OF_FITS = {
    "check_dont_overwrite_parameters",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
}
OF_COMPUTING = {
    "check_class_weight_classifiers",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_decision_proba_consistency",
    "check_dont_overwrite_parameters",
    "check_estimators_dtypes",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_non_transformer_estimators_n_iter",
    "check_regressor_multioutput",
    "check_regressors_int",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
}


def depends_on_settings(check):
    """Whether it may pass with some settings and fail with others; all read memory maps alike."""
    options = getattr(check, "keywords", {})
    return check.func.__name__ in OF_COMPUTING and not options.get("readonly_memmap")


# Many of these data are interpolated, which deserves the warning; any other one is an error.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(DEFAULTS)
def test_scikit_learn_checks(estimator, check):
    if not is_of_dispatch(check):
        check(estimator)


def is_of_dispatch(check):
    """Whether scikit-learn is to hand arrays of any library on: it asks SciPy, early."""
    return check.func.__name__ == "check_array_api_input"


def test_scikit_learn_checks_where_arrays_of_any_library_are_handed_on():
    here = Path(__file__)
    program = f"""
from {here.stem} import *
for estimator in DEFAULTS:
    for made, check in estimator_checks_generator(estimator):
        if is_of_dispatch(check):
            check(made)
"""
    # SciPy reads the variable when it is imported.
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        cwd=here.parent,
        check=True,
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("settings", [*SETTINGS, LEARNED], ids=repr)
def test_scikit_learn_checks_of_what_settings_change(settings):
    names = set()
    for estimator, check in estimator_checks_generator(settings):
        if settings is LEARNED and check.func.__name__ not in OF_FITS:
            continue
        if depends_on_settings(check):
            check(estimator)
            names.add(check.func.__name__)
    assert len(names) >= 12 or names == OF_FITS
