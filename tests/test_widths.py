"""Widths that are found before a fit: the evidence of a process, and gamma="pooled"."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import null_space
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp

from kernel_definitions import gentle_slope
from sparsebayes import RVC, RVR, SparseBayesRegressor
from sparsebayes.datasets import friedman1, friedman3, mixtures, sinc
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.engine import Breakdown
from sparsebayes.fit.widths import Process, Targets, climb, find_widths
from sparsebayes.noise_priors import InverseGamma
from sparsebayes.problem import Status


def waves(n, d=2, n_targets=1, noise=0.1):
    rng = np.random.RandomState(0)
    X = rng.uniform(-3, 3, (n, d))
    truth = np.sin(X[:, :1]) * np.arange(1, n_targets + 1)
    return X, truth + noise * rng.normal(size=truth.shape)


DICTIONARIES = {
    "rbf": Kernel(gamma="ard"),
    "laplacian": Kernel("laplacian", gamma="ard"),
    "no covariance": Kernel("sigmoid", gamma="evidence", coef0=0.3),
    "object": Kernel(gp.Matern([1.0, 2.0], nu=2.5), gamma="evidence"),
    "union": Linear() + Kernel(gamma="ard") + Kernel("laplacian", gamma=0.5),
}


# --- the evidence ------------------------------------------------------------------------------


@pytest.mark.parametrize("noise_var", [None, 0.02])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("name", ["rbf", "no covariance", "union"])
def test_evidence_is_that_of_its_definition(name, center, weighted, noise_var):
    """Differences of it, at the best noise: constants do not count."""
    X, t = waves(12, n_targets=2)
    weights = np.random.RandomState(1).randint(1, 4, 12) if weighted else np.ones(12, int)
    targets = Targets(t, weights.astype(float) if weighted else None, center, noise_var)
    process = Process(DICTIONARIES[name].bind(X), X, targets)
    n_parts = len(process.parts)
    rows = np.repeat(np.arange(12), weights)  # a weight is so many copies
    contrasts = null_space(np.ones((1, len(rows)))).T if center else np.eye(len(rows))

    def definition(x):
        C = np.eye(len(rows))
        start = n_parts
        for ratio, (part, covariance) in zip(np.exp(x[:n_parts]), process.parts, strict=True):
            stop = start + len(getattr(part, "theta", ()))
            A = (part.with_theta(x[start:stop]) if stop > start else part).evaluate(X)
            C += ratio * (A if covariance else A @ A.T)[np.ix_(rows, rows)]
            start = stop
        C, z = contrasts @ C @ contrasts.T, contrasts @ t[rows]
        noise = noise_var or np.vdot(z, np.linalg.solve(C, z)) / z.size
        return sum(multivariate_normal.logpdf(one, cov=noise * C) for one in z.T)

    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, n_parts + len(DICTIONARIES[name].bind(X).theta)))
    np.testing.assert_allclose(
        process(one)[0] - process(other)[0], definition(one) - definition(other), rtol=1e-8
    )


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("name", DICTIONARIES)
def test_slope_is_that_of_differences(name, center):
    X, t = waves(25, n_targets=2)
    weights = np.random.RandomState(1).uniform(0.5, 2.0, 25)
    atoms = DICTIONARIES[name].bind(X)
    targets = Targets(t, weights, center, None, InverseGamma(3.0, 0.1))
    process = Process(atoms, X, targets)
    x = np.random.default_rng(0).normal(size=len(process.parts) + len(atoms.theta))
    want = gentle_slope(lambda x: process(x)[0], x)
    np.testing.assert_allclose(process(x)[1], want, rtol=1e-6, atol=1e-6)


def test_a_prior_of_the_noise_counts_as_observations():
    X, t = waves(60)
    strong = Targets(t, None, True, None, InverseGamma(1e4, 1e4))
    atoms = Kernel(gamma="evidence").bind(X)
    found = [find_widths(atoms, X, one) for one in (strong, strong._replace(noise_prior=None))]
    assert found[0].noise == pytest.approx(1.0 / np.var(t), rel=0.1)
    assert found[1].noise == pytest.approx(0.01 / np.var(t), rel=0.5)


# --- the search --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [friedman1, friedman3])
def test_no_lower_than_the_process_of_scikit_learn(make):
    data = make(120, random_state=0)
    X, t = (data.X - data.X.mean(0)) / data.X.std(0), (data.y - data.y.mean()) / data.y.std()
    kernel = gp.ConstantKernel() * gp.RBF(np.ones(X.shape[1]), (1e-3, 1e6)) + gp.WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, random_state=0).fit(X, t).kernel_
    atoms, targets = Kernel(gamma="ard").bind(X), Targets(t[:, None], None, True, None)
    process = Process(atoms, X, targets)
    theta = find_widths(atoms, X, targets).theta
    ratio = np.log(theirs.k1.k1.constant_value / theirs.k2.noise_level)
    height = process(np.r_[ratio, -np.log(2 * theirs.k1.k2.length_scale**2)])[0]
    # At the widths found, the best ratio of a grid around theirs; they are rounded.
    ours = max(process(np.r_[ratio + a, theta])[0] for a in np.linspace(-1.5, 1.5, 31))
    assert ours > height - 0.3


def test_finds_the_width_of_functions_that_scale_misses():
    """Twenty periods: no kernel of the width "scale" sees them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 1))
    truth = np.sin(40 * np.pi * X[:, 0])
    model = RVR(gamma="pooled").fit(X, truth + rng.normal(0, 0.2, 400))
    assert np.std(model.predict(X) - truth) < 0.15


def test_noise_leaves_the_width_near_that_of_scale():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    assert 0.1 < RVR(gamma="pooled").fit(X, y).gamma_ * 2 * X.var() < 3


def test_kernels_are_as_wide_as_the_covariance_of_the_function():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-20, 20, (300, 1)), axis=0)
    K = np.exp(-0.5 * (X - X.T) ** 2)
    y = rng.multivariate_normal(np.zeros(300), K + 0.01 * np.eye(300), method="eigh")
    assert RVR().fit(X, y).gamma_ == pytest.approx(0.5, rel=0.3)


def test_one_row_far_away_does_not_matter():
    data = sinc(100, noise=0.1, random_state=0)
    X = data.X.copy()
    X[0] *= 1000.0
    width = RVR().fit(data.X, data.y).gamma_
    assert RVR().fit(X, data.y).gamma_ == pytest.approx(width, rel=0.5)


def test_a_width_for_each_input_tells_the_relevant_ones():
    data = friedman1(150, random_state=0)
    model = RVR(gamma="pooled-ard").fit(data.X, data.y)
    assert set(np.argsort(-model.feature_relevance_)[:3]) == {0, 1, 2}
    assert model.feature_relevance_[5:].sum() < 0.02


def test_noise_that_is_given_is_kept():
    X, t = waves(120)
    atoms = Kernel(gamma="ard").bind(X)
    kept, free = (find_widths(atoms, X, Targets(t, None, True, noise)) for noise in (0.01, None))
    assert kept.theta[0] == pytest.approx(free.theta[0], abs=0.3)  # it is about right
    narrow = find_widths(atoms, X, Targets(t, None, True, 1e-6))
    assert narrow.theta[0] > free.theta[0] + 1.0


def test_targets_without_power_leave_widths_alone():
    X, _ = waves(20)
    atoms = Kernel(gamma="ard").bind(X)
    found = find_widths(atoms, X, Targets(np.full((20, 1), 3.0), None, True, None))
    np.testing.assert_array_equal(found.theta, atoms.theta)
    flat = RVR(gamma="pooled", noise_variance=1.0).fit(X, np.full(20, 3.0))
    assert flat.predict(X[:1]) == pytest.approx(3.0)
    equal = RVR(gamma="pooled", likelihood="poisson").fit(X, np.full(20, 7))
    assert equal.predict(X[:1]) == pytest.approx(7.0, rel=0.05)


def test_atoms_that_do_not_vary_have_no_width_to_find():
    data = sinc(30, noise=0.1, random_state=0)
    model = RVR("poly", gamma="pooled", degree=0, noise_variance=0.02).fit(data.X, data.y)
    assert model.gamma_ == pytest.approx(1 / data.X.var())


def test_a_climb_comes_back_from_where_float64_cannot_tell():
    """Its first step is of length one; from a high wall it would come back to the start."""

    def loss(x):
        if x[0] > 0.5:
            raise Breakdown
        return float((x[0] - 0.25) ** 2), 2.0 * (x - 0.25)

    value, end = climb(loss, np.zeros(1), np.array([[-9.0, 9.0]]), 1e-6, 100, 1e-14)
    assert end == pytest.approx([0.25], abs=1e-4)
    assert value == pytest.approx(0.0, abs=1e-8)


# --- without noise -----------------------------------------------------------------------------


def hills(X):
    x, y = 15 * X[:, 0] - 5, 15 * X[:, 1]
    return (y - 0.129 * x**2 + 1.59 * x - 6) ** 2 + 9.6 * np.cos(x) + 10


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("gamma", ["pooled-ard", "ard"])
@pytest.mark.parametrize(
    ("truth", "error"),
    [(lambda X: X[:, 0] + 2 * X[:, 1], 1e-3), (hills, 0.02)],
    ids=["linear", "hills"],
)
def test_functions_without_noise_end_converged_or_at_the_floor(truth, error, gamma):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, new = rng.uniform(size=(2, 100, 2))
        model = RVR(gamma=gamma).fit(X, truth(X))
        assert model.solution_.status in (Status.CONVERGED, Status.NOISE_FLOOR)
        assert np.std(model.predict(new) - truth(new)) < error * np.std(truth(new))


@pytest.mark.parametrize("gamma", ["pooled", "pooled-ard", "evidence", "ard"])
@pytest.mark.parametrize("noise", [0.0, 1e-4])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_targets_that_are_nearly_linear(gamma, noise):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, new = rng.normal(size=(40, 2)), rng.uniform(-1, 1, (20, 2))
        truth = X[:, 0] + 2 * X[:, 1]
        model = RVR(gamma=gamma).fit(X, truth + noise * rng.normal(size=40))
        np.testing.assert_allclose(model.predict(new), new[:, 0] + 2 * new[:, 1], atol=0.05)


# --- what does not matter ----------------------------------------------------------------------


@pytest.mark.parametrize("gamma", ["pooled", "pooled-ard"])
def test_order_blocks_and_storage_of_rows_do_not_matter(gamma):
    data = sinc(600, noise=0.1, dim=2, random_state=0)  # more than a sample
    order = np.random.default_rng(0).permutation(600)
    settings = {"gamma": gamma, "centers": 20, "random_state": 0}
    width = RVR(**settings).fit(data.X, data.y).gamma_
    moved = RVR(**settings).fit(data.X[order], data.y[order]).gamma_
    np.testing.assert_allclose(moved, width, rtol=1e-9)
    blocks = RVR(**settings, memory="64MiB").fit(data.X, data.y).gamma_
    np.testing.assert_allclose(blocks, width, rtol=1e-9)
    if gamma == "pooled":
        stored = RVR(**settings).fit(sp.csr_matrix(data.X), data.y).gamma_
        np.testing.assert_allclose(stored, width, rtol=1e-9)


def test_classes_in_blocks_have_the_same_width():
    data = mixtures(600, random_state=0)
    settings = {"gamma": "pooled", "centers": 20, "random_state": 0}
    whole, blocks = (RVC(**settings, memory=m).fit(data.X, data.y) for m in (None, "64MiB"))
    assert blocks.gamma_ == pytest.approx(whole.gamma_, rel=1e-9)


@pytest.mark.parametrize("gamma", ["pooled", "pooled-ard", "evidence", "ard"])
def test_order_of_rows_and_columns_does_not_matter(gamma):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 2))  # more than a block
    y = np.sinc(X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.normal(size=300)
    found = RVR(gamma=gamma).fit(X, y)
    rows = rng.permutation(300)
    moved = RVR(gamma=gamma).fit(X[rows][:, ::-1], y[rows])
    width = moved.gamma_[::-1] if np.ndim(moved.gamma_) else moved.gamma_
    # Rounded widths are the same; those learned from there are as close as a certificate says.
    np.testing.assert_allclose(width, found.gamma_, rtol=1e-9 if "pooled" in gamma else 1e-4)
    assert moved.log_posterior_ == pytest.approx(found.log_posterior_, abs=0.1)


@pytest.mark.parametrize("gamma", ["pooled", "evidence"])
def test_units_do_not_matter(gamma):
    data = sinc(80, noise=0.1, random_state=0)
    width = RVR(gamma=gamma).fit(data.X, data.y).gamma_
    scaled = RVR(gamma=gamma).fit(data.X * 1024, data.y * 1e100).gamma_
    assert scaled * 1024**2 == pytest.approx(width, rel=1e-6)


def test_units_of_inputs_do_not_matter_to_a_kernel_of_distances():
    data = sinc(60, noise=0.1, random_state=1)
    X = np.column_stack([data.X[:, 0], np.random.RandomState(0).uniform(size=60)])
    units = np.array([2.0**20, 2.0**-10])
    one, other = (RVR("laplacian", gamma="ard").fit(Z, data.y) for Z in (X, units * X))
    np.testing.assert_allclose(other.gamma_ * units, one.gamma_, rtol=1e-4)
    np.testing.assert_allclose(other.feature_relevance_, one.feature_relevance_, rtol=1e-3)


@pytest.mark.parametrize("gamma", ["pooled", "evidence"])
def test_a_weight_of_two_is_a_row_given_twice_and_proves_no_lack_of_noise(gamma):
    data = sinc(60, noise=0.1, random_state=0)
    twice = np.arange(60) < 30
    X, y = np.r_[data.X, data.X[twice]], np.r_[data.y, data.y[twice]]
    weighted = RVR(gamma=gamma).fit(data.X, data.y, sample_weight=1.0 + twice).gamma_
    assert RVR(gamma=gamma).fit(X, y).gamma_ == pytest.approx(weighted, rel=1e-6)
    assert weighted == pytest.approx(RVR(gamma=gamma).fit(data.X, data.y).gamma_, rel=0.3)


def test_samples_of_no_weight_do_not_count():
    data = sinc(60, noise=0.1, random_state=0)
    weights, y = np.ones(60), data.y.copy()
    weights[40:], y[40:] = 0.0, 100.0
    some = RVR().fit(data.X, y, sample_weight=weights).gamma_
    assert some == pytest.approx(RVR().fit(data.X[:40], y[:40]).gamma_, rel=1e-9)


# --- what is held ------------------------------------------------------------------------------


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
    assert 0 < model.gamma_ < np.inf


@pytest.mark.parametrize("kernel", ["linear", gp.RBF(2.0)])
def test_kernels_without_one_stay_as_they_are(kernel):
    data = sinc(40, noise=0.1, random_state=0)
    pooled, scale = (RVR(kernel, gamma=word).fit(data.X, data.y) for word in ("pooled", "scale"))
    np.testing.assert_array_equal(pooled.predict(data.X), scale.predict(data.X))


def test_counts_several_targets_and_no_intercept():
    data = sinc(60, noise=0.1, random_state=0)
    for model, y in (
        (RVR(likelihood="poisson"), np.round(8 * np.abs(data.y))),
        (RVR(), np.c_[data.y, 2 * data.y]),
        (RVR(noise_variance=0.01, fit_intercept=False), data.y),
    ):
        assert 0.01 < model.fit(data.X, y).gamma_ < 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, y: Kernel(gamma="pooled").bind(X), "found from the targets"),
        (lambda X, y: RVR(gp.RBF(1.0), gamma="pooled-ard").fit(X, y), "for kernels with a name"),
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
