"""Small fitted models of every estimator, kernel and dictionary that can be exported."""

from functools import cache

import numpy as np
import scipy.sparse as sp
from sklearn.gaussian_process import kernels
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.dictionaries import Bias, Kernel, Linear
from sparsebayes.likelihoods import Gaussian

NAMED = (
    "rbf",
    "laplacian",
    "poly",
    "sigmoid",
    "linear",
    "cosine",
    "lspline",
    "tps",
    "chi2",
    "additive_chi2",
)
OBJECTS = {
    "gp-rbf": kernels.RBF([0.7, 1.0, 2.0, 1.5]),
    "gp-matern-1/2": kernels.Matern(1.5, nu=0.5),
    "gp-matern-3/2": kernels.Matern(1.5, nu=1.5),
    "gp-matern-5/2": kernels.Matern(1.5, nu=2.5),
    "gp-matern-inf": kernels.Matern(1.5, nu=np.inf),
    "gp-rational": kernels.RationalQuadratic(1.2, alpha=0.7),
    "gp-periodic": kernels.ExpSineSquared(1.1, 3.0),
    "gp-tree": 2.0 * kernels.RBF(1.0) + kernels.DotProduct(0.5) ** 2 + kernels.WhiteKernel(0.3),
}
WIDTHS = [0.3, 0.0, 0.5, 0.1]  # one input without any effect


@cache
def data():
    """Inputs that every kernel takes, a smooth target, and inputs to predict at."""
    rng = np.random.default_rng(5)
    X = rng.uniform(0.1, 2.0, size=(40, 4))
    y = np.sin(2.5 * X[:, 0]) + 0.8 * X[:, 2] + 0.15 * rng.normal(size=len(X))
    return X, y, rng.uniform(0.1, 2.2, size=(25, 4))


REGRESSORS = {
    **{name: RVR(name, noise_variance=0.02) for name in NAMED},
    **{name: RVR(kernel, noise_variance=0.02) for name, kernel in OBJECTS.items()},
    **{f"{name}-widths": RVR(name, gamma=WIDTHS) for name in ("rbf", "laplacian", "tps")},
    "sigmoid-constant": RVR("sigmoid", gamma=0.2, coef0=-0.5, noise_variance=0.02),
    "degree-0": RVR("poly", degree=0, noise_variance=0.02),
    "degree-2": RVR("poly", gamma=WIDTHS, degree=2, coef0=1.0, noise_variance=0.02),
    "columns": SparseBayesRegressor(),
    "known-noise": RVR(likelihood=Gaussian(0.02)),
    "no-intercept": RVR(fit_intercept=False, noise_variance=0.02),
    "union": SparseBayesRegressor(Bias() + Linear() + Kernel("rbf") + Kernel("tps")),
    "scaled": make_pipeline(StandardScaler(), RVR(noise_variance=0.02)),
    "scaled-twice": make_pipeline(MinMaxScaler((1, 3)), StandardScaler(), RVR("laplacian")),
    "two-targets": RVR(),
    "one-of-a-table": RVR(),
    "nothing": SparseBayesRegressor(),
    "sparse": RVR(gamma=0.5),
}
CLASSIFIERS = {
    **{name: RVC(name) for name in NAMED},
    "gp-tree": RVC(OBJECTS["gp-tree"]),
    "columns": SparseBayesClassifier(prior="flat"),
    "scaled": make_pipeline(StandardScaler(), RVC()),
    "three": RVC(),
    "three-shared": RVC(shared=True),
    "three-columns": SparseBayesClassifier(prior="flat"),
    "three-union": SparseBayesClassifier(Linear() + Kernel("rbf")),
    "seven": RVC(),
    "light": SparseBayesClassifier(class_weight={"high": 0.01}),
    "three-light": RVC(class_weight={13: 0.01}),
    "nothing": SparseBayesClassifier(),
    "nothing-of-three": SparseBayesClassifier(),
}
COUNTS = {
    "kernel": RVR(likelihood="poisson"),
    "columns": SparseBayesRegressor(likelihood="poisson", prior="flat"),
}


@cache
def regression(name):
    """A fitted one of `REGRESSORS`."""
    X, y, _ = data()
    two = np.column_stack([y, 3.0 - 2.0 * X[:, 1]])
    targets = {"two-targets": two, "one-of-a-table": two[:, :1], "nothing": np.tile([1, 2], 20)}
    if name == "sparse":
        X = sp.csr_matrix(np.where(X > 0.8, X, 0.0))
    return REGRESSORS[name].fit(X, targets.get(name, y))


@cache
def classifier(name):
    """A fitted one of `CLASSIFIERS`."""
    X, y, _ = data()
    if name == "seven":
        return CLASSIFIERS[name].fit(*seven())
    if name.startswith("nothing"):
        return CLASSIFIERS[name].fit(X[:36], np.arange(36) % (2 if name == "nothing" else 3))
    if name.startswith("three"):
        labels = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3])) * 10 - 7
    else:
        labels = np.where(y > np.median(y), "high", "low")
    return CLASSIFIERS[name].fit(X, labels)


@cache
def count_regression(name):
    """A fitted one of `COUNTS`."""
    X, y, _ = data()
    return COUNTS[name].fit(X, np.random.default_rng(8).poisson(np.exp(y)))


@cache
def seven():
    """Seven classes, some of them on top of each other."""
    rng = np.random.default_rng(3)
    codes = np.arange(105) % 7
    return 0.8 * np.eye(7)[codes][:, :4] + 0.3 * rng.normal(size=(105, 4)) + 1.0, codes
