"""Widths that are found before a fit and held: gamma="pooled" and "pooled-ard"."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF

from sparsebayes import RVC, RVR, SparseBayesRegressor
from sparsebayes._width_search import Guarded
from sparsebayes.datasets import friedman1, mixtures, sinc
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.engine import Breakdown
from sparsebayes.pooled_widths import _pooled_evidence
from sparsebayes.shared_variance import Targets


def waves(n, noise=0.2):
    """Twenty periods: no kernel of the width "scale" sees them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 1))
    truth = np.sin(40 * np.pi * X[:, 0])
    return X, truth + rng.normal(0, noise, n), truth


def test_the_evidence_is_that_of_a_gaussian_process():
    """Differences of the profile against the densities of the same model, maximized directly."""
    data = sinc(30, noise=0.1, random_state=0)
    targets = Targets(data.y[:, None], None, False, None)
    found = []
    for gamma in (0.05, 0.2):
        atoms = Kernel("rbf", gamma=gamma).bind(data.X)
        K = atoms.evaluate(data.X)

        def loss(logs, K=K):
            C = np.exp(logs[0]) * K @ K.T + np.exp(logs[1]) * np.eye(30)
            return -multivariate_normal(cov=C).logpdf(data.y)

        best = minimize(loss, np.log([0.1, 0.01]), method="Nelder-Mead")
        found.append((_pooled_evidence(atoms, data.X, targets)[0], -best.fun))
    (one, first), (two, second) = found
    np.testing.assert_allclose(two - one, second - first, atol=0.05)


def test_finds_the_width_of_functions_that_scale_misses():
    X, y, truth = waves(400)
    errors = [
        np.std(RVR(gamma=gamma).fit(X, y).predict(X) - truth) for gamma in ("scale", "pooled")
    ]
    assert errors[0] > 0.6
    assert errors[1] < 0.15


def test_kernels_are_as_wide_as_the_covariance_of_the_function():
    """Not as the kernels, a root of two narrower, whose sums of equal variance have it."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-20, 20, (300, 1)), axis=0)
    gamma = 0.5
    K = np.exp(-gamma * (X - X.T) ** 2)
    y = rng.multivariate_normal(np.zeros(300), K + 0.01 * np.eye(300), method="eigh")
    np.testing.assert_allclose(RVR().fit(X, y).gamma_, gamma, rtol=0.3)


def test_one_row_far_away_does_not_matter():
    data = sinc(100, noise=0.1, random_state=0)
    X = data.X.copy()
    X[0] *= 1000.0
    width = RVR(gamma="pooled").fit(data.X, data.y).gamma_
    np.testing.assert_allclose(RVR(gamma="pooled").fit(X, data.y).gamma_, width, rtol=0.5)


def test_noise_leaves_the_width_near_that_of_scale():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    model = RVR(gamma="pooled").fit(X, y)
    assert 0.1 < model.gamma_ * 2 * X.var() < 3


def test_depends_on_neither_order_nor_blocks_nor_storage():
    data = friedman1(1200, random_state=0)
    order = np.random.default_rng(0).permutation(1200)
    settings = {"gamma": "pooled", "centers": 20, "random_state": 0}
    width = RVR(**settings).fit(data.X, data.y).gamma_
    moved = RVR(**settings).fit(data.X[order], data.y[order]).gamma_
    np.testing.assert_allclose(moved, width, rtol=1e-9)
    blocks = RVR(**settings, memory="64MiB").fit(data.X, data.y).gamma_
    np.testing.assert_allclose(blocks, width, rtol=1e-9)
    stored = RVR(**settings).fit(sp.csr_matrix(data.X), data.y).gamma_
    np.testing.assert_allclose(stored, width, rtol=1e-9)


def test_units_do_not_matter():
    data = sinc(80, noise=0.1, random_state=0)
    width = RVR(gamma="pooled").fit(data.X, data.y).gamma_
    scaled = RVR(gamma="pooled").fit(data.X * 1024, data.y * 1e6).gamma_
    np.testing.assert_allclose(scaled * 1024**2, width, rtol=1e-9)


def test_classes_in_blocks_have_the_same_width():
    data = mixtures(1200, random_state=0)
    settings = {"gamma": "pooled", "centers": 20, "random_state": 0}
    whole = RVC(**settings).fit(data.X, data.y)
    blocks = RVC(**settings, memory="64MiB").fit(data.X, data.y)
    np.testing.assert_allclose(blocks.gamma_, whole.gamma_, rtol=1e-9)


def test_copies_and_weights_are_alike_and_prove_no_lack_of_noise():
    data = sinc(60, noise=0.1, random_state=0)
    twice = np.arange(60) < 30
    X, y = np.r_[data.X, data.X[twice]], np.r_[data.y, data.y[twice]]
    weighted = RVR(gamma="pooled").fit(data.X, data.y, sample_weight=1.0 + twice).gamma_
    copied = RVR(gamma="pooled").fit(X, y).gamma_
    np.testing.assert_allclose(copied, weighted, rtol=1e-9)
    np.testing.assert_allclose(weighted, RVR(gamma="pooled").fit(data.X, data.y).gamma_, rtol=0.3)


def test_a_width_for_each_input_tells_the_relevant_ones():
    data = friedman1(150, random_state=0)
    model = RVR(gamma="pooled-ard").fit(data.X, data.y)
    assert set(np.argsort(-model.feature_relevance_)[:3]) == {0, 1, 2}
    assert model.feature_relevance_[5:].sum() < 0.02


def test_unions_find_the_widths_of_their_kernels_and_leave_the_dictionary_alone():
    data = sinc(60, noise=0.05, random_state=0)
    dictionary = Linear() + Kernel("rbf", gamma="pooled") + Kernel("laplacian", gamma=0.5)
    model = SparseBayesRegressor(dictionary, prior="flat").fit(data.X, data.y)
    assert dictionary.parts[1].gamma == "pooled"
    found = np.atleast_1d(np.asarray(model.gamma_, dtype=float))
    assert 0.005 < found[0] < 1.0


@pytest.mark.parametrize("kernel", ["laplacian", "poly", "sigmoid", "lspline", "tps", "chi2"])
def test_kernels_with_a_width(kernel):
    data = sinc(40, noise=0.1, random_state=0)
    X = np.abs(data.X) / 5
    model = RVR(kernel, gamma="pooled", coef0=1.0, max_iter=500).fit(X, data.y)
    assert np.isfinite(model.gamma_)
    assert model.gamma_ > 0


def test_atoms_that_do_not_vary_have_no_width_to_find():
    data = sinc(30, noise=0.1, random_state=0)
    model = RVR("poly", gamma="pooled", degree=0, noise_variance=0.02).fit(data.X, data.y)
    assert model.gamma_ == pytest.approx(1 / data.X.var())


@pytest.mark.parametrize("kernel", ["linear", RBF(2.0)])
def test_kernels_without_one_stay_as_they_are(kernel):
    data = sinc(40, noise=0.1, random_state=0)
    pooled, scale = (RVR(kernel, gamma=word).fit(data.X, data.y) for word in ("pooled", "scale"))
    np.testing.assert_array_equal(pooled.predict(data.X), scale.predict(data.X))


def test_counts_several_targets_and_constant_ones():
    data = sinc(60, noise=0.1, random_state=0)
    counts = np.round(8 * np.abs(data.y))
    both = np.c_[data.y, 2 * data.y]
    for model, y in (
        (RVR(gamma="pooled", likelihood="poisson"), counts),
        (RVR(gamma="pooled"), both),
        (RVR(gamma="pooled", noise_variance=0.01, fit_intercept=False), data.y),
    ):
        assert 0.01 < model.fit(data.X, y).gamma_ < 3
    flat = RVR(gamma="pooled", noise_variance=1.0).fit(data.X, np.full(60, 3.0))
    assert flat.predict(data.X[:1]) == pytest.approx(3.0)
    equal = RVR(gamma="pooled", likelihood="poisson").fit(data.X, np.full(60, 7))
    assert equal.predict(data.X[:1]) == pytest.approx(7.0, rel=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: Kernel(gamma="pooled").bind(X), "found from the targets"),
        (lambda X, y: RVR(RBF(1.0), gamma="pooled-ard").fit(X, y), "for kernels with a name"),
        (lambda X, y: RVR("chi2", gamma="pooled-ard").fit(np.abs(X), y), "one gamma"),
        (lambda X, y: RVR("linear", gamma="pooled-ard").fit(X, y), "has no width"),
        (lambda X, y: RVR(gamma="pool").fit(X, y), "'pooled', 'pooled-ard'"),
    ],
)
def test_what_cannot_be_found_is_refused(make, message):
    data = sinc(20, noise=0.1, random_state=0)
    with pytest.raises(ValueError, match=message):
        make(data.X, data.y)


@pytest.mark.parametrize("memory", [None, "200MB"])
@pytest.mark.parametrize("size", [1e160, 1e-200])
@pytest.mark.parametrize("gamma", ["pooled", "pooled-ard"])
def test_inputs_without_a_width_are_refused_by_the_word_given(gamma, size, memory):
    data = sinc(20, noise=0.1, random_state=0)
    model = RVR(gamma=gamma, memory=memory)
    with pytest.raises(ValueError, match=f"^gamma='{gamma}' cannot be computed: .* scale"):
        model.fit(size * data.X, data.y)


def test_a_search_comes_back_from_where_float64_cannot_tell():
    """Its first step is of length one; from a high wall it would come back to the start."""

    def loss(x):
        if x[0] > 0.5:
            raise Breakdown
        return float((x[0] - 0.25) ** 2), 2.0 * (x - 0.25)

    guarded = Guarded(loss)
    end = minimize(guarded, [0.0], jac=True, method="L-BFGS-B", callback=guarded.accept)
    assert end.x == pytest.approx([0.25], abs=1e-4)
    assert end.fun == pytest.approx(0.0, abs=1e-8)
