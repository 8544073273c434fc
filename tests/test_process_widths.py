"""Widths of kernels as those of a Gaussian process, and the prior that is made of them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sparsebayes import RVR
from sparsebayes._gaussian_kernels import GaussianModel
from sparsebayes.datasets import friedman1, friedman3
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.hyperpriors import Flat
from sparsebayes.kernel_learning import learn
from sparsebayes.noise_priors import InverseGamma
from sparsebayes.problem import Status
from sparsebayes.process_widths import (
    WidthPrior,
    _Process,
    _process_evidence,
    is_covariance,
    process_theta,
    process_width,
    width_prior,
)
from sparsebayes.quadratic import DesignQuadratic
from sparsebayes.shared_variance import Targets
from sparsebayes.solvers import working_set


def waves(n, d=2, n_targets=1, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-3, 3, (n, d))
    truth = np.sin(X[:, :1]) * np.arange(1, n_targets + 1)
    return X, truth + 0.1 * rng.normal(size=truth.shape)


def _power(t, targets):
    """As the search counts it: with the observations that a prior of the noise stands for."""
    before = targets.noise_prior.observations(t.shape[1])
    left = t - t.mean(axis=0)
    return (float(np.vdot(left, left)) + before.tt) / ((len(t) - 1 + before.n) * t.shape[1])


def slope_by_differences(function, x, step=1e-5):
    return np.array(
        [(function(x + e) - function(x - e)) / (2 * step) for e in step * np.eye(len(x))]
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_evidence_is_that_of_its_definition(center, n_targets, weighted):
    """Differences of it: constants do not count."""
    X, t = waves(20, n_targets=n_targets)
    weights = np.random.RandomState(1).uniform(0.5, 2.0, 20) if weighted else None
    process = _Process(Kernel(gamma="ard").bind(X), Targets(t, weights, center, None))
    contrasts = null_space(np.ones((1, 20))).T if center else np.eye(20)

    def definition(x):
        K = Kernel(gamma=np.exp(x[2:])).bind(X).evaluate(X)
        noise = np.exp(x[1]) / (np.ones(20) if weights is None else weights)
        C = contrasts @ (np.exp(x[0]) * K + np.diag(noise)) @ contrasts.T
        return sum(multivariate_normal.logpdf(contrasts @ one, cov=C) for one in t.T)

    one, other = np.array([0.0, -4.0, -1.0, -2.0]), np.array([1.0, -3.0, 0.5, -5.0])
    np.testing.assert_allclose(
        process(one)[0] - process(other)[0], definition(one) - definition(other), rtol=1e-9
    )


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
@pytest.mark.parametrize("center", [False, True])
def test_slope_is_that_of_differences(kernel, center):
    X, t = waves(30, n_targets=2)
    weights = np.random.RandomState(1).uniform(0.5, 2.0, 30)
    process = _Process(Kernel(kernel, gamma="ard").bind(X), Targets(t, weights, center, None))
    x = np.array([0.3, -3.0, -1.0, -2.0])
    expected = slope_by_differences(lambda x: process(x)[0], x)
    np.testing.assert_allclose(process(x)[1], expected, rtol=1e-6, atol=1e-7)


def test_noise_that_is_given_is_kept():
    X, t = waves(120)
    process = _Process(Kernel(gamma="ard").bind(X), Targets(t, None, True, 0.01))
    assert process(np.array([0.3, np.log(0.01), -1.0, -2.0]))[1][1] == 0.0
    kept = [
        process_theta(Kernel(gamma="ard").bind(X), X, Targets(t, None, True, noise))
        for noise in (0.01, None)
    ]
    np.testing.assert_allclose(kept[0][0], kept[1][0], atol=0.3)  # it is about right


@pytest.mark.parametrize("make", [friedman1, friedman3])
def test_no_lower_than_the_process_of_scikit_learn(make):
    data = make(120, random_state=0)
    X, t = (data.X - data.X.mean(0)) / data.X.std(0), (data.y - data.y.mean()) / data.y.std()
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1]), (1e-3, 1e6)) + WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, random_state=0).fit(X, t).kernel_
    atoms = Kernel(gamma="ard").bind(X)
    targets = Targets(t[:, None], None, True, None)
    theta = process_theta(atoms, X, targets)
    process = _Process(atoms, targets)
    v, noise = np.log(theirs.k1.k1.constant_value), np.log(theirs.k2.noise_level)
    widths = -np.log(2 * theirs.k1.k2.length_scale**2)
    height = process(np.concatenate([[v, noise], widths]))[0]
    # At the widths found, the best variance and noise of a grid around theirs.
    steps = np.linspace(-1.5, 1.5, 31)
    ours = max(
        process(np.concatenate([[v + a, noise + b], theta]))[0] for a in steps for b in steps
    )
    assert ours > height - 0.3


def test_order_of_rows_does_not_matter():
    X, t = waves(700)
    order = np.random.RandomState(0).permutation(700)
    one, other = (
        process_theta(Kernel(gamma="ard").bind(x), x, Targets(y, None, True, None))
        for x, y in ((X, t), (X[order], t[order]))
    )
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_samples_of_no_weight_do_not_count():
    X, t = waves(60)
    weights = np.ones(60)
    weights[40:], t[40:] = 0.0, 100.0
    atoms = Kernel(gamma="ard").bind(X[:40])
    one = process_theta(atoms, X, Targets(t, weights, True, None))
    other = process_theta(atoms, X[:40], Targets(t[:40], None, True, None))
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_targets_without_power_leave_widths_alone():
    X, _ = waves(20)
    atoms = Kernel(gamma="ard").bind(X)
    theta = process_theta(atoms, X, Targets(np.full((20, 1), 3.0), None, True, None))
    np.testing.assert_array_equal(theta, atoms.theta)


def test_which_kernels_are_a_covariance():
    X, _ = waves(20)
    assert is_covariance(Kernel("laplacian", gamma="ard").bind(X))
    assert is_covariance((Kernel("rbf", gamma="evidence") + Linear()).parts[0].bind(X))
    for other in (Kernel("sigmoid", gamma="ard"), Kernel("tps", gamma="ard"), Kernel(gamma=1.0)):
        assert not is_covariance(other.bind(X))
    assert not is_covariance((Linear() + Kernel("rbf", gamma="ard")).bind(X))


class TestOneWidth:
    @pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
    @pytest.mark.parametrize("noise_var", [None, 0.02])
    @pytest.mark.parametrize("center", [False, True])
    @pytest.mark.parametrize("n_targets", [1, 2])
    def test_evidence_is_that_of_the_process_at_its_best(
        self, kernel, center, n_targets, noise_var
    ):
        """Differences between widths: the other parameters are maximized directly."""
        X, t = waves(40, n_targets=n_targets)
        targets = Targets(t, None, center, noise_var)
        atoms = Kernel(kernel, gamma="evidence").bind(X)
        process = _Process(replace(atoms, centers=X, index=np.arange(40)), targets)

        def at_best(theta):
            def loss(logs):
                height, slope = process(np.array([*logs, theta]))
                return -height, -slope[:2]

            bounds = [(-20, 20), (-20, 1) if noise_var is None else [np.log(noise_var)] * 2]
            starts = [np.clip([0.0, noise], *np.transpose(bounds)) for noise in (-1.0, -4.0, -12.0)]
            ends = [minimize(loss, x, jac=True, bounds=bounds, method="L-BFGS-B") for x in starts]
            return -min(end.fun for end in ends)

        one, other = (_process_evidence(X, targets, atoms.with_theta([k]))[0] for k in (-2.0, 0.0))
        # The variances that are tried are a tenth of a decade apart.
        assert other - one == pytest.approx(at_best(0.0) - at_best(-2.0), abs=0.05)

    def test_evidence_counts_weights_as_copies(self):
        X, t = waves(30)
        weights = np.where(np.arange(30) < 10, 2.0, 1.0)
        rows = np.repeat(np.arange(30), weights.astype(int))
        one, other = (np.array([-1.0]), np.array([1.0]))
        atoms = Kernel(gamma="evidence").bind(X)
        gains = []
        for some, targets in (
            (X, Targets(t, weights, True, 0.1)),
            (X[rows], Targets(t[rows], None, True, 0.1)),
        ):
            heights = [
                _process_evidence(some, targets, atoms.with_theta(k))[0] for k in (one, other)
            ]
            gains.append(heights[1] - heights[0])
        # The variances tried are a grid: its points differ where the number of rows does.
        assert gains[0] == pytest.approx(gains[1], abs=0.03)

    def test_a_prior_of_the_noise_counts_as_observations(self):
        X, t = waves(30)
        atoms = Kernel(gamma="evidence").bind(X)
        strong = Targets(t, None, True, None, InverseGamma(1000.0, 1000.0))
        noise = _process_evidence(X, strong, atoms)[1] * _power(t, strong)
        assert noise == pytest.approx(1.0, rel=0.05)

    @pytest.mark.parametrize("n", [100, 300, 900])
    def test_is_that_of_scikit_learns_process(self, n):
        X, t = waves(n)
        covariance = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
        process = GaussianProcessRegressor(covariance, normalize_y=True, random_state=0)
        scale = process.fit(X, t[:, 0]).kernel_.k1.k2.length_scale
        gamma = RVR(gamma="pooled").fit(X, t[:, 0]).gamma_
        assert gamma == pytest.approx(0.5 / scale**2, rel=0.25)

    def test_sparse_rows_have_the_width_of_dense_ones(self):
        X, t = waves(700)
        dense, stored = (RVR().fit(Z, t[:, 0]).gamma_ for Z in (X, sp.csr_matrix(X)))
        assert stored == pytest.approx(dense, rel=1e-9)

    def test_copies_of_all_rows_change_nothing(self):
        X, t = waves(80)
        once, twice = (RVR().fit(np.tile(X, (k, 1)), np.tile(t[:, 0], k)).gamma_ for k in (1, 2))
        assert twice == pytest.approx(once, rel=1e-9)

    def test_order_and_blocks_of_rows_do_not_matter(self):
        X, t = waves(900)
        order = np.random.default_rng(0).permutation(900)
        width = RVR().fit(X, t[:, 0]).gamma_
        assert RVR().fit(X[order], t[order, 0]).gamma_ == pytest.approx(width, rel=1e-9)
        settings = {"centers": 200, "memory": "64MiB", "random_state": 0}
        assert RVR(**settings).fit(X, t[:, 0]).gamma_ == pytest.approx(width, rel=1e-9)

    def test_few_centers_have_wider_kernels_than_the_process(self):
        """Eight kernels have to reach from one to the next."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-10, 10, (300, 1))
        y = np.sinc(X[:, 0] / np.pi) + 0.05 * rng.normal(size=300)
        many, few = (RVR(centers=k, random_state=0).fit(X, y).gamma_ for k in (None, 3))
        assert few < 0.7 * many

    def test_without_noise_the_process_tells_nothing(self):
        X = np.linspace(-3, 3, 60)[:, None]
        t = np.sin(X)
        atoms = Kernel(gamma="evidence").bind(X)
        noisy = t + 0.1 * np.random.default_rng(0).normal(size=t.shape)
        widths = [
            process_width(atoms, X, Targets(one, None, True, None), np.zeros(1))
            for one in (t, noisy)
        ]
        assert widths[0] is None
        assert widths[1] is not None


class TestPrior:
    def test_slope(self):
        prior = WidthPrior(np.array([0.5, -3.0, -20.0]), np.array([1.0, 2.0, 0.3]))
        for theta in (np.array([0.4, -2.5, -4.0]), np.array([1.5, -30.0, 0.0])):
            expected = slope_by_differences(lambda x: prior(x)[0], theta)
            np.testing.assert_allclose(prior(theta)[1], expected, rtol=1e-6, atol=1e-6)

    def test_inputs_that_hardly_matter_are_alike(self):
        prior = WidthPrior(np.array([-30.0]), np.ones(1))
        assert prior(np.array([-10.0]))[0] > -0.01
        assert prior(np.array([0.0]))[0] < -100

    def test_units_of_inputs_do_not_matter(self):
        X, t = waves(80)
        units = np.array([1e3, 1e-2])
        for kernel in ("rbf", "laplacian"):
            one, other = (
                width_prior(Kernel(kernel, gamma="ard").bind(x), x, Targets(t, None, True, None))
                for x in (X, units * X)
            )
            power = 2 if kernel == "rbf" else 1
            np.testing.assert_allclose(other.spread, one.spread * units**power)
            moved = other.center + power * np.log(units)
            np.testing.assert_allclose(other(moved - power * np.log(units))[0], 0.0, atol=1e-12)
            np.testing.assert_allclose(moved[0], one.center[0], atol=0.02)

    def test_only_where_each_input_has_a_width(self):
        X, t = waves(30)
        targets = Targets(t, None, True, None)
        for other in (Kernel(gamma="evidence"), Kernel("sigmoid", gamma="ard"), Kernel(gamma=1.0)):
            assert width_prior(other.bind(X), X, targets) is None

    def test_constant_inputs_have_no_width(self):
        X, t = waves(40)
        X = np.column_stack([X[:, 0], np.full(40, 7.0), X[:, 1]])
        prior = width_prior(Kernel(gamma="ard").bind(X), X, Targets(t, None, True, None))
        assert prior.center.shape == prior.spread.shape == (2,)
        model = RVR(gamma="ard").fit(X, t[:, 0])
        assert model.gamma_[1] == 0.0


def gaussian_model(X, t):
    def quadratic(atoms):
        return DesignQuadratic(make_design(atoms, X), t, None, center=True)

    def solve(problem, start):
        return working_set.solve(problem, start=start)

    return GaussianModel(X, t, Flat(), None, quadratic, solve)


def test_objective_with_the_prior_is_at_rest():
    X, t = waves(100)
    t = t - t.mean(axis=0)
    model, atoms = gaussian_model(X, t), Kernel(gamma="ard").bind(X)
    prior = width_prior(atoms, X, Targets(t, None, True, None))
    learned = learn(model, atoms, [prior.center], 1e-8, prior=prior)
    profile = model.profile(learned.atoms, learned.fit)
    theta = learned.atoms.theta
    np.testing.assert_allclose(
        learned.objective, learned.fit.solution.state.objective + prior(theta)[0]
    )
    slope = slope_by_differences(lambda x: profile(x)[0] + prior(x)[0], theta, 1e-4)
    assert np.abs(slope).max() < 1e-3
    assert np.abs(prior(theta)[1]).max() > 1e-3  # the evidence alone is not


def test_ten_starts_end_alike():
    X, t = waves(100)
    t = t - t.mean(axis=0)
    model, atoms = gaussian_model(X, t), Kernel(gamma="ard").bind(X)
    rng = np.random.RandomState(0)
    ends = []
    for _ in range(10):
        begin = atoms.theta + rng.uniform(-np.log(100), np.log(100), 2)
        begin = atoms.with_theta(np.clip(begin, *atoms.bounds.T))
        prior = width_prior(begin, X, Targets(t, None, True, None))
        ends.append(learn(model, begin, [prior.center], 1e-6, prior=prior).objective)
    assert np.ptp(ends) < 1.0  # nats


def test_estimator_is_certified_and_predicts_as_well_as_the_process():
    """Without the prior the joint optimum errs by a tenth more than the process does."""
    ratios = []
    for seed in range(6):
        data, test = friedman3(240, random_state=seed), friedman3(1000, random_state=100 + seed)
        shift, unit = data.X.mean(axis=0), data.X.std(axis=0)
        X, new = (data.X - shift) / unit, (test.X - shift) / unit
        model = RVR(gamma="ard").fit(X, data.y)
        assert model.solution_.status is Status.CONVERGED
        assert 0 < model.certificate_.kernel_gradient < 1e-3
        kernel = ConstantKernel() * RBF(np.ones(4), (1e-5, 1e8)) + WhiteKernel(0.1)
        process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        errors = [
            np.mean((one.predict(new) - test.y) ** 2) ** 0.5
            for one in (model, process.fit(X, data.y))
        ]
        ratios.append(errors[0] / errors[1])
    assert np.mean(ratios) < 1.06


def test_a_warm_start_ends_where_a_cold_one_does():
    X, t = waves(100)
    cold = RVR(gamma="ard").fit(X, t[:, 0])
    warm = RVR(gamma="ard", warm_start=True).fit(X, t[:, 0])
    warm.fit(X, t[:, 0])
    np.testing.assert_allclose(warm.predict(X), cold.predict(X), atol=1e-3)
