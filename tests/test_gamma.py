"""Gamma priors of precisions: of atoms, which none can leave, and of the noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import oracle
import sparsebayes
from random_problems import examples, random_case
from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor, denoise, reconstruct
from sparsebayes._hyperprior import lets_out
from sparsebayes.core.quadratic import OrthonormalQuadratic
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import (
    Flat,
    Gamma,
    Hyperprior,
    InverseGamma,
    Smoothness,
    best_variance,
    gain,
)
from sparsebayes.noise_priors import LogGamma
from sparsebayes.problem import Problem, certify
from sparsebayes.solvers import matrix_free, orthonormal, search, sequential
from sparsebayes.solvers.climb import Run, climb

GAMMAS = [Gamma(0.0, 1e-4), Gamma(1e-4, 1e-4), Gamma(0.5, 2.0), Gamma(2.0, 0.01), Gamma(30.0, 5.0)]
gammas = pytest.mark.parametrize("prior", GAMMAS, ids=repr)
decades = st.floats(-3, 3)


def worth(prior, s, q2, v, n_targets):
    """l(v) + a log(1/v) - b / v, without what does not depend on v."""
    return oracle.value(s, q2, v, n_targets) - prior.a * np.log(v) - prior.b / v


class TestDensity:
    @pytest.mark.parametrize(("a", "b"), [(0.5, 2.0), (3.0, 0.1), (1e-3, 1e-3)])
    def test_it_is_scipys_density_of_the_precision_times_the_precision(self, a, b):
        v = np.logspace(-3, 3, 20)
        alpha = 1 / v
        expected = stats.gamma(a, scale=1 / b).logpdf(alpha) + np.log(alpha)
        np.testing.assert_allclose(Gamma(a, b).log_density(v, 1.0), expected, rtol=1e-10)

    def test_improper_it_has_no_normalizer(self):
        assert Gamma(0.0, 2.0).log_density(np.array([4.0]), 1.0) == pytest.approx(-0.5)
        assert Gamma(0.0, 2.0).log_normalizer == 0

    @gammas
    def test_at_zero_it_is_minus_infinity_and_nothing_else_is(self, prior):
        density = prior.log_density(np.array([0.0, 1e-12, 1.0]), 1.0)
        assert density[0] == -np.inf
        assert np.isfinite(density[1:]).all()
        assert not lets_out(prior)

    @gammas
    @examples(20)
    @given(st.floats(-6, 6))
    def test_derivatives(self, prior, log_v):
        v, turn = np.array([10.0**log_v]), np.exp(1j * oracle.STEP)
        slope = prior.log_derivatives(v, 0.3)
        first = prior.log_density(v * turn, 0.3).imag / oracle.STEP
        second = prior.log_derivatives(v * turn, 0.3).u.imag / oracle.STEP
        scale = prior.a + prior.b / v[0]
        np.testing.assert_allclose(slope.u, first, rtol=1e-9, atol=1e-12 * scale)
        np.testing.assert_allclose(slope.uu, second, rtol=1e-9, atol=1e-12 * scale)
        for of_noise in (slope.rho, slope.u_rho, slope.rho_rho):
            assert not of_noise.any()

    def test_the_density_has_no_unit(self):
        v = np.logspace(-2, 2, 9)
        for prior in GAMMAS:
            scaled = prior.rescaled(1e6)
            np.testing.assert_allclose(
                scaled.log_density(1e6 * v, 1.0), prior.log_density(v, 1.0), rtol=1e-10, atol=1e-10
            )


class TestBestVariance:
    @gammas
    @examples(80)
    @given(decades, st.floats(-2, 4), st.integers(1, 4))
    def test_it_beats_every_other(self, prior, log_s, log_ratio, n_targets):
        s = 10.0**log_s
        q2 = s * 10.0**log_ratio
        v = prior.best_variance(np.array([s]), np.array([q2]), 1.0, n_targets)[0]
        grid = np.logspace(-12, 12, 4001)
        best = worth(prior, s, q2, v, n_targets)
        tolerance = 1e-10 * (1 + q2 / s)
        assert best >= worth(prior, s, q2, grid, n_targets).max() - tolerance
        near = worth(prior, s, q2, v * np.exp([-1e-3, 1e-3]), n_targets)
        assert np.all(best >= near - tolerance)

    def test_of_two_maxima_it_is_the_higher_one(self):
        prior, s = Gamma(1.0, 0.01), np.ones(2)
        q2 = np.array([10.0, 30.0])
        first, last = prior.maxima(s, q2)
        assert np.all(last > 10 * first)
        for v in (first, last):  # both are maxima
            for step in (0.99, 1.01):
                assert np.all(worth(prior, 1.0, q2, v, 1) > worth(prior, 1.0, q2, step * v, 1))
        np.testing.assert_allclose(prior.best_variance(s, q2, 1.0), [first[0], last[1]])

    @gammas
    def test_extremes_are_finite(self, prior):
        powers = 10.0 ** np.arange(-12, 13, 2)
        s, q2 = (grid.ravel() for grid in np.meshgrid(powers, powers))
        v = prior.best_variance(np.append(s, 0.0), np.append(q2, 0.0), 1.0)
        assert np.isfinite(v).all()
        assert np.all(v > 0)

    def test_without_a_and_b_it_is_flat(self):
        s, q2 = np.logspace(-3, 3, 50), np.logspace(-1, 5, 50)
        prior = Gamma(0, 0)
        assert lets_out(prior)
        for n_targets in (1, 3):
            np.testing.assert_array_equal(
                prior.best_variance(s, q2, 1.0, n_targets),
                Flat().best_variance(s, q2, 1.0, n_targets),
            )
        assert not prior.log_density(s, 1.0).any()

    @gammas
    @examples(40)
    @given(st.integers(0, 2**32 - 1), st.integers(1, 5))
    def test_of_a_shared_variance_too(self, prior, seed, K):
        rng = np.random.RandomState(seed)
        s = 10.0 ** rng.uniform(-2, 2, K)
        q2 = s * 10.0 ** rng.uniform(-2, 3, K)
        s[rng.uniform(size=K) < 0.3] = 0.0
        q2 *= s > 0
        v = best_variance(prior, s[None], q2[None], 1.0)
        if not s.any():
            assert v[0] == 0  # no atom
            return

        def shared(v):
            return oracle.value(s, q2, v[:, None], 1).sum(axis=1) + prior.log_density(v, 1.0)

        best = shared(v)[0]
        tolerance = 1e-8 * (1 + np.sum(q2 / np.where(s > 0, s, 1.0)))
        assert best >= shared(np.logspace(-9, 9, 8001)).max() - tolerance
        now = np.array([0.7])
        assert gain(prior, s[None], q2[None], v, 1.0, v_now=now)[0] == pytest.approx(
            best - shared(now)[0], rel=1e-9, abs=1e-9
        )

    def test_being_in_gains_infinitely_much_over_being_out(self):
        s, q2, v = np.ones(2), np.array([5.0, 0.1]), np.array([1.0, 0.0])
        np.testing.assert_array_equal(gain(Gamma(1.0, 1.0), s, q2, v, 1.0), [np.inf, 0.0])
        several = gain(Gamma(1.0, 1.0), s[:, None], q2[:, None], v, 1.0)
        np.testing.assert_array_equal(several, [np.inf, 0.0])

    @gammas
    def test_it_follows_the_protocol(self, prior):
        assert isinstance(prior, Hyperprior)
        none = np.empty(0)
        assert prior.best_variance(none, none, 1.0).shape == (0,)


class TestRefusals:
    @pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf, "1", None, True])
    def test_numbers_that_are_none(self, wrong):
        with pytest.raises(ValueError, match=r"Gamma\(a, b\): a must be a finite number >= 0"):
            Gamma(wrong, 1.0)
        with pytest.raises(ValueError, match=r"Gamma\(a, b\): b must be a finite number >= 0"):
            Gamma(1.0, wrong)

    def test_a_density_that_is_unbounded(self):
        with pytest.raises(ValueError, match="unbounded where a variance is zero"):
            Gamma(1.0, 0.0)

    @pytest.mark.parametrize("solver", ["auto", "working-set", "sequential-random", "orthonormal"])
    def test_estimators_whose_solver_leaves_atoms_out(self, solver):
        X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20.0)
        message = f"no atom could ever be left out, which is what solver='{solver}' does.*\"em\""
        with pytest.raises(ValueError, match=message):
            SparseBayesRegressor(prior=Gamma(1.0, 1.0), solver=solver).fit(X, y)
        if solver != "orthonormal":
            with pytest.raises(ValueError, match=message):
                SparseBayesClassifier(prior=Gamma(1.0, 1.0), solver=solver).fit(X, y > 9)

    @pytest.mark.parametrize("solver", [search, sequential, matrix_free, orthonormal])
    def test_solvers_that_leave_atoms_out(self, solver):
        quad = random_case(0).quad()
        if solver is orthonormal:
            quad = OrthonormalQuadratic(np.ones((3, 1)), tt=4.0, n=5.0, spread=1.0)
        with pytest.raises(ValueError, match="no atom could ever be left out"):
            solver.solve(Problem(quad, Gamma(1.0, 1.0)))

    def test_signals(self):
        with pytest.raises(ValueError, match="which is what denoise does"):
            denoise(np.arange(8.0), prior=Gamma(1.0, 1.0))
        with pytest.raises(ValueError, match="which is what reconstruct does"):
            reconstruct(np.arange(4.0), np.eye(4, 8), prior=Gamma(1.0, 1.0))

    def test_a_rate_that_float64_cannot_hold_beside_the_targets(self):
        X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20.0)
        with pytest.raises(ValueError, match="the rate b=1 of prior is out of proportion to y"):
            SparseBayesRegressor(prior=Gamma(1.0, 1.0), solver="em").fit(X, 1e-140 * y)


def data(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)


class TestOfTheNoise:
    @pytest.mark.parametrize("solver", ["auto", "sequential", "em", "mackay"])
    def test_it_is_inverse_gamma_but_for_what_does_not_depend_on_the_noise(self, solver):
        X, y = data()
        one = RVR(gamma=1.0, solver=solver, noise_prior=Gamma(8.0, 0.9)).fit(X, y)
        two = RVR(gamma=1.0, solver=solver, noise_prior=InverseGamma(7.0, 0.9)).fit(X, y)
        assert one.noise_variance_ == pytest.approx(two.noise_variance_, rel=1e-6)
        assert one.log_marginal_likelihood_ == pytest.approx(two.log_marginal_likelihood_, abs=1e-6)
        noise = one.noise_variance_
        density = stats.gamma(8.0, scale=1 / 0.9).logpdf(1 / noise) - np.log(noise)
        expected = one.log_marginal_likelihood_ + density
        assert one.log_posterior_ == pytest.approx(expected, abs=1e-8)

    @pytest.mark.parametrize("solver", ["auto", "em"])
    def test_it_counts_observations(self, solver):
        """c = 10 000 observations, twice over, of variance d / c leave the data no say."""
        X, y = data()
        model = RVR(gamma=1.0, solver=solver, noise_prior=Gamma(1e4, 300.0)).fit(X, y)
        assert model.noise_variance_ == pytest.approx(0.03, rel=0.01)

    def test_none_of_it_is_no_prior(self):
        X, y = data()
        one, two = RVR(gamma=1.0, noise_prior=Gamma(0, 0)).fit(X, y), RVR(gamma=1.0).fit(X, y)
        np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-9)
        assert one.log_posterior_ == pytest.approx(two.log_posterior_, abs=1e-9)

    def test_densities(self):
        prior = LogGamma(3.0, 0.5)
        noise = 0.2
        expected = stats.gamma(3.0, scale=2.0).logpdf(5.0) + np.log(5.0)
        assert prior.log_density(noise) == pytest.approx(expected)
        assert LogGamma(0.0, 2.0).log_density(0.5) == pytest.approx(-4.0)

    @pytest.mark.parametrize("solver", ["auto", "em"])
    def test_units_of_the_targets_change_nothing(self, solver):
        X, y = data()
        prior = Gamma(3.0, 0.2)
        one = RVR(gamma=1.0, solver=solver, noise_prior=prior).fit(X, y)
        two = RVR(gamma=1.0, solver=solver, noise_prior=prior.rescaled(2.0**40)).fit(X, 2.0**20 * y)
        np.testing.assert_allclose(two.predict(X), 2.0**20 * one.predict(X), rtol=1e-6, atol=1e-6)
        # a density of a logarithm has no unit; one of y has
        n = len(y) - 1
        expected = one.log_posterior_ - n * 20 * np.log(2.0)
        assert two.log_posterior_ == pytest.approx(expected, abs=1e-6)

    def test_denoise_takes_it(self):
        rng = np.random.default_rng(0)
        signal = np.repeat([0.0, 4.0, 1.0, 3.0], 16) + 0.5 * rng.normal(size=64)
        held = denoise(signal, "haar", noise_prior=Gamma(1e5, 1e4))
        assert held.noise_variance == pytest.approx(0.1, rel=0.01)


class TestEstimators:
    @pytest.mark.parametrize("solver", ["em", "mackay"])
    def test_every_atom_stays_and_irrelevant_ones_hardly_count(self, solver):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 10))
        y = 2 * X[:, 3] + 0.1 * rng.normal(size=80)
        model = SparseBayesRegressor(prior=Gamma(1e-4, 1e-4), solver=solver).fit(X, y)
        assert model.relevance_.tolist() == list(range(10))
        assert model.converged_
        others = np.delete(model.coef_, 3)
        assert np.abs(others).max() < 0.02
        assert model.coef_[3] == pytest.approx(2.0, abs=0.05)

    @pytest.mark.parametrize("solver", ["em", "mackay"])
    def test_the_log_posterior_is_evidence_and_densities_in_the_users_unit(self, solver):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 4))
        y = 100 * (X[:, 0] + 0.3 * rng.normal(size=40))
        prior, before = Gamma(0.5, 20.0), Gamma(2.0, 300.0)
        model = SparseBayesRegressor(prior=prior, noise_prior=before, solver=solver).fit(X, y)
        centered = X - X.mean(axis=0)
        v = model.prior_variance_ * (centered**2).sum(axis=0)  # of atoms of unit norm
        noise = model.noise_variance_
        evidence = oracle.log_evidence(X, y[:, None], model.prior_variance_, noise, center=True)
        assert model.log_marginal_likelihood_ == pytest.approx(evidence, rel=1e-9)
        of_atoms = stats.gamma(0.5, scale=1 / 20.0).logpdf(1 / v) - np.log(v)
        of_noise = stats.gamma(2.0, scale=1 / 300.0).logpdf(1 / noise) - np.log(noise)
        assert model.log_posterior_ == pytest.approx(evidence + of_atoms.sum() + of_noise, rel=1e-9)

    def test_units_of_the_targets(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 4))
        y = X[:, 0] + 0.3 * rng.normal(size=40)
        one = SparseBayesRegressor(prior=Gamma(0.5, 0.1), solver="em").fit(X, y)
        two = SparseBayesRegressor(prior=Gamma(0.5, 0.1 * 2.0**40), solver="em").fit(X, 2.0**20 * y)
        np.testing.assert_allclose(two.coef_, 2.0**20 * one.coef_, rtol=1e-9)
        expected = one.log_posterior_ - 39 * 20 * np.log(2.0)
        assert two.log_posterior_ == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("shared", [False, True])
    def test_classes(self, shared):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(60, 3))
        y = np.argmax(X + 0.7 * rng.normal(size=(60, 3)), axis=1)
        model = SparseBayesClassifier(prior=Gamma(0.1, 0.1), solver="mackay", shared=shared)
        model.fit(X, y)
        assert model.converged_
        assert model.score(X, y) > 0.6
        assert np.unique(model.relevance_).size == 3

    def test_a_constant_column_is_no_atom(self):
        rng = np.random.default_rng(0)
        X = np.c_[rng.normal(size=(30, 2)), np.ones(30)]
        y = X[:, 0] + 0.1 * rng.normal(size=30)
        model = SparseBayesRegressor(prior=Gamma(0.1, 0.1), solver="em").fit(X, y)
        assert model.relevance_.tolist() == [0, 1]
        assert np.isfinite(model.certificate_.max_gain)

    def test_no_prior_at_all_is_flat_for_any_solver(self):
        X, y = data()
        one, two = RVR(gamma=1.0, prior=Gamma(0, 0)).fit(X, y), RVR(gamma=1.0).fit(X, y)
        np.testing.assert_array_equal(one.relevance_, two.relevance_)

    @pytest.mark.parametrize("model", [RVR, RVC])
    def test_model_files_hold_it(self, model, tmp_path):
        X, y = data()
        target = y if model is RVR else y > 0
        fitted = model(gamma=1.0, prior=Gamma(0.1, 0.01), solver="mackay").fit(X, target)
        fitted.save(tmp_path / "m.model")
        loaded = sparsebayes.load(tmp_path / "m.model")
        assert loaded.prior == Gamma(0.1, 0.01)
        np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))

    def test_a_warm_start_gives_every_atom_a_variance(self):
        X, y = data()
        model = RVR(gamma=1.0, solver="em", warm_start=True).fit(X, y)
        few = model.relevance_.size
        model.set_params(prior=Gamma(0.1, 0.01)).fit(X, y)
        cold = RVR(gamma=1.0, solver="em", prior=Gamma(0.1, 0.01)).fit(X, y)
        assert few < model.relevance_.size == len(X)
        assert model.converged_
        assert model.log_posterior_ == pytest.approx(cold.log_posterior_, abs=0.5)


def test_atoms_that_are_out_all_the_same_are_put_in():
    """As after an expansion in which they had lost their norm."""
    problem = Problem(random_case(0, n=40, m=10, noise=0.3).quad(), Gamma(0.1, 0.1))
    few = refresh(problem.quad, problem.hyperprior, np.arange(3), np.ones(3), 0.1)
    noise = problem.noise()
    state = climb(Run(problem, 100, None, large=False), few, noise, 1e-6, "finish")
    assert sorted(state.active.tolist()) == list(range(10))
    certificate, _ = certify(problem, state, noise)
    assert certificate.holds(1e-3)


def test_smoothness_still_lets_atoms_out():
    assert lets_out(Smoothness(3.0))
    assert lets_out(Flat())
