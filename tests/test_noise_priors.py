"""The inverse-gamma prior of the noise, in every solver and estimator, and eq. 60 of the paper."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate, stats

import oracle
from pairwise import in_turn
from random_problems import cases, examples, priors, random_case
from sparsebayes import RVR, SparseBayesRegressor, load
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.dictionaries import Operator
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import Flat, InverseGamma, Smoothness
from sparsebayes.problem import Problem, Status
from sparsebayes.solvers import search, sequential
from sparsebayes.solvers.newton import Noise, derivatives

SOLVERS = {
    "search": search.solve,
    "greedy": lambda problem: sequential.solve(problem, selection="greedy"),
    "random": lambda problem: sequential.solve(problem, selection="random"),
    "cyclic": lambda problem: sequential.solve(problem, selection="cyclic"),
}
NOISE_PRIORS = [InverseGamma(0.0, 0.0), InverseGamma(1e-4, 1e-4), InverseGamma(3.0, 0.4)]
by_solver = pytest.mark.parametrize("solve", SOLVERS.values(), ids=SOLVERS)
by_noise_prior = pytest.mark.parametrize("before", NOISE_PRIORS, ids=repr)


def quad_of(case, before):
    weights = None if case.weights is None else case.weights.astype(float)
    plain = case.quad()
    return weighted_quadratic(plain.products.design, case.t, weights, case.center, before)


def full_objective(case, v, noise, prior, before):
    """Log posterior of variances and noise (S&E eq. 60), from dense definitions."""
    return oracle.objective(*case.at(v, noise), prior) + before.log_density(noise)


# The density


@pytest.mark.parametrize(("g", "h"), [(1e-4, 1e-4), (0.5, 2.0), (7.0, 0.3)])
def test_a_proper_prior_is_the_density_of_scipy(g, h):
    for noise in (1e-3, 0.2, 1.0, 50.0):
        expected = stats.invgamma(g, scale=h).logpdf(noise)
        assert InverseGamma(g, h).log_density(noise) == pytest.approx(expected, rel=1e-12)


def test_improper_priors_have_no_normalizer():
    assert InverseGamma(0, 0).log_density(0.25) == pytest.approx(np.log(4))
    assert InverseGamma(2, 0).log_density(0.5) == pytest.approx(3 * np.log(2))
    assert InverseGamma(0, 2).log_density(0.5) == pytest.approx(np.log(2) - 4)


@examples(30)
@given(st.floats(0, 50), st.floats(1e-3, 1e3))
def test_the_mode_is_where_it_is_said_to_be(g, h):
    prior, mode = InverseGamma(g, h), h / (g + 1)
    assert all(prior.log_density(mode) > prior.log_density(mode * k) for k in (0.9, 0.99, 1.01, 2))


def test_the_unit_of_variances():
    prior = InverseGamma(2.5, 0.7)
    for noise in (0.1, 3.0):
        moved = prior.rescaled(100.0).log_density(100.0 * noise)
        assert moved == pytest.approx(prior.log_density(noise) - np.log(100.0))


@pytest.mark.parametrize("wrong", [-1, np.nan, np.inf, "1", None, True])
def test_numbers_that_are_no_prior(wrong):
    with pytest.raises(ValueError, match=r"g must be a finite number >= 0"):
        InverseGamma(wrong, 1.0)
    with pytest.raises(ValueError, match=r"h must be a finite number >= 0"):
        InverseGamma(1.0, wrong)


# The normalizer of the smoothness prior


@pytest.mark.parametrize("c", [0.0, 1e-3, 1.0, 5.0, 300.0])
@pytest.mark.parametrize("noise", [1e-20, 1e-11, 1e-9, 1e-3, 1.0, 1e8])
@pytest.mark.parametrize(("low", "high"), [(1e-10, 1e10), (0.0, 5.0), (1.0, 1.001), (1e3, 1e9)])
def test_the_normalizer_is_the_integral(c, noise, low, high):
    top = c / (1 + noise * high)

    def scaled(x):  # in log(alpha - low)
        with np.errstate(over="ignore"):
            return np.exp(top - c / (1 + noise * (low + np.exp(x))) + x - np.log(high - low))

    end = np.log(high - low)
    nodes = np.linspace(end - 40, end, 41)
    pieces = pairwise(nodes)
    total = sum(integrate.quad(scaled, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pieces)
    expected = np.log(total) + end - top
    assert Smoothness(c).log_normalizer(noise, low, high) == pytest.approx(expected, abs=1e-9)


def test_the_normalizer_of_the_paper():
    """S&E eq. 17 with E1 for its Ei, where that does not cancel; and its limit, H."""
    from scipy.special import exp1

    c, noise, low, high = 2.4, 0.05, 0.5, 40.0
    x, y = c / (1 + noise * low), c / (1 + noise * high)
    printed = (1 / noise + high) * np.exp(-y) - (1 / noise + low) * np.exp(-x)
    printed += c / noise * (exp1(x) - exp1(y))
    assert Smoothness(c).log_normalizer(noise, low, high) == pytest.approx(np.log(printed))
    assert Smoothness(c).log_normalizer(1.0) == pytest.approx(np.log(1e10), abs=1e-6)


@pytest.mark.parametrize("wrong", [(0.0, 0.0, 1.0), (1.0, 2.0, 1.0), (1.0, -1.0, 1.0), (np.nan,)])
def test_a_range_that_is_none(wrong):
    with pytest.raises(ValueError, match="log_normalizer needs"):
        Smoothness(1.0).log_normalizer(*wrong)


# In a quadratic


@examples(30)
@given(cases(), priors, st.sampled_from(NOISE_PRIORS))
def test_the_objective_is_the_dense_one_plus_the_log_density(case, prior, before):
    state = refresh(quad_of(case, before), prior, case.active, case.v_a, case.noise)
    expected = full_objective(case, case.v, case.noise, prior, before)
    assert state.objective == pytest.approx(expected, rel=1e-7, abs=1e-7)


@examples(20)
@given(cases(), priors, st.sampled_from(NOISE_PRIORS))
def test_derivatives_are_those_of_the_log_posterior(case, prior, before):
    gram = quad_of(case, before).gram(case.active)
    white = refresh(quad_of(case, before), prior, case.active, case.v_a, case.noise).white
    found = derivatives(gram, prior, case.v_a, Noise(case.noise, True, 0.0), white)
    g, h = before.g, before.h

    def objective(u, rho):
        v = case.v.copy()
        v[case.active] *= np.exp(u)
        return full_objective(case, v, case.noise * np.exp(rho), prior, before)

    none, step = np.zeros(case.active.size), 1e-4
    numeric = [
        (objective(step * row, 0.0) - objective(-step * row, 0.0)) / (2 * step)
        for row in np.eye(case.active.size)
    ]
    numeric.append((objective(none, step) - objective(none, -step)) / (2 * step))
    assert_allclose(found.gradient, numeric, rtol=1e-5, atol=1e-5 * (1 + abs(numeric[-1])))
    # in the noise the prior adds -(g + 1) + h / noise, and -h / noise to the second derivative
    plain = case.quad()
    bare = refresh(plain, prior, case.active, case.v_a, case.noise).white
    without = derivatives(
        plain.gram(case.active), prior, case.v_a, Noise(case.noise, True, 0.0), bare
    )
    added = np.zeros(case.active.size + 1)
    added[-1] = -(g + 1) + h / case.noise
    size = 1 + np.abs(without.hessian).max()
    assert_allclose(found.gradient - without.gradient, added, atol=1e-7 * size)
    bent = found.hessian - without.hessian
    assert bent[-1, -1] == pytest.approx(-h / case.noise, abs=1e-7 * size)
    assert_allclose(bent.ravel()[:-1], 0, atol=1e-7 * size)


# In the solvers


@by_solver
@by_noise_prior
@in_turn(c=[0.0, 2.0], n_targets=[1, 2])
def test_solvers_end_where_the_log_posterior_is_stationary(solve, before, c, n_targets):
    case = random_case(2, n=30, m=15, n_targets=n_targets, center=True)
    prior = Smoothness(c) if c else Flat()
    solution = solve(Problem(quad_of(case, before), prior))
    assert solution.status is Status.CONVERGED
    state = solution.state
    v = np.zeros(15)
    v[state.active] = state.v
    assert state.objective == pytest.approx(
        full_objective(case, v, state.noise_var, prior, before), abs=1e-7
    )
    for factor in (0.97, 1.03):
        assert state.objective > full_objective(case, v, factor * state.noise_var, prior, before)
        for j in state.active:
            moved = case.with_variance(j, 0.0)
            moved[state.active] = state.v
            moved[j] *= factor
            assert state.objective > full_objective(case, moved, state.noise_var, prior, before)
    # S&E eq. 36, corrected: N - sum dof, over T targets, and (g + 1)
    residual = solution.state.white.residual - 2 * before.h  # of the targets alone
    left = n_targets * (29 - state.dof.sum())
    x = state.v / (state.v + state.noise_var)
    balance = 0.5 * (residual / state.noise_var - left) + c * np.sum(x * (1 - x))
    balance += before.h / state.noise_var - (before.g + 1)
    assert balance == pytest.approx(0, abs=1e-2 * (1 + left))


@by_solver
def test_a_strong_prior_pins_the_noise_at_its_mode_and_a_weak_one_leaves_it(solve):
    case = random_case(4, n=40, m=10)
    free = solve(Problem(case.quad(), Smoothness(2.0))).state
    weak = solve(Problem(quad_of(case, InverseGamma(1e-9, 1e-12)), Smoothness(2.0))).state
    # ... of which only the factor 1 / noise is left
    left = 40 - weak.dof.sum()
    assert weak.noise_var == pytest.approx(free.noise_var * left / (left + 2), rel=0.02)
    for mode in (0.02, 0.5):
        before = InverseGamma(1e5, mode * (1e5 + 1))
        strong = solve(Problem(quad_of(case, before), Smoothness(2.0))).state
        assert strong.noise_var == pytest.approx(mode, rel=2e-3)
        given_noise = solve(Problem(case.quad(), Smoothness(2.0), mode)).state
        assert set(strong.active) == set(given_noise.active)
        order, other = np.argsort(strong.active), np.argsort(given_noise.active)
        assert_allclose(strong.mu[order], given_noise.mu[other], rtol=0.01, atol=1e-3)


def test_a_prior_keeps_the_noise_from_collapsing():
    """As many atoms as data and a flat hyperprior: only a prior of the noise stops the collapse."""
    rng = np.random.RandomState(0)
    t = rng.standard_normal((40, 1))
    Phi = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    design = ArrayDesign(Phi)
    free = search.solve(Problem(weighted_quadratic(design, t), Flat()))
    assert free.status is Status.COLLAPSED
    before = InverseGamma(30.0, 30.0)
    held = search.solve(Problem(weighted_quadratic(design, t, noise_prior=before), Flat()))
    assert held.status is Status.CONVERGED
    assert 0.5 < held.state.noise_var < 1.5


# In the estimators


def problem(seed=0, n=60, m=12):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, m))
    return X, 2 + 3 * X[:, 1] - 2 * X[:, 4] + 0.5 * rng.standard_normal(n)


@pytest.mark.parametrize("solver", ["auto", "sequential", "sequential-random", "sequential-cyclic"])
@pytest.mark.parametrize("n_targets", [1, 2])
@by_noise_prior
def test_log_posterior_is_equation_60(solver, n_targets, before):
    X, y = problem()
    y = 100 * y
    Y = y if n_targets == 1 else np.column_stack([y, y[::-1]])
    before = before.rescaled(1e4)
    model = SparseBayesRegressor(prior="bic", noise_prior=before, solver=solver).fit(X, Y)
    c, noise = 0.5 * np.log(60), model.noise_variance_
    targets = Y.reshape(60, -1)
    v = np.zeros(12)
    v[model.relevance_] = model.prior_variance_
    evidence = oracle.log_evidence(X, targets, v, noise, center=True)
    assert model.log_marginal_likelihood_ == pytest.approx(evidence, abs=1e-6)
    norm = np.linalg.norm(X - X.mean(axis=0), axis=0)[model.relevance_]
    precision = 1 / (model.prior_variance_ * norm**2)
    smooth = -c * np.sum(1 / (1 + noise * precision))
    expected = evidence + smooth + before.log_density(noise)
    assert model.log_posterior_ == pytest.approx(expected, abs=1e-6)
    # with the normalizer of the smoothness prior it is a density of the active precisions
    low, high = 1e-10, 1e10
    grid = np.concatenate([[low], np.geomspace(1e-9, high, 200_000)])
    density = np.exp(-c / (1 + noise * grid))
    integral = np.log(integrate.trapezoid(density, grid))
    assert Smoothness(c).log_normalizer(noise) == pytest.approx(integral, abs=1e-6)


def test_degrees_of_freedom_are_the_trace_of_the_smoother():
    X, y = problem(1)
    model = SparseBayesRegressor(prior="aic").fit(X, y)
    U = (X - X.mean(axis=0))[:, model.relevance_]
    smoother = U @ model.covariance_ @ U.T / model.noise_variance_
    assert model.degrees_of_freedom_ == pytest.approx(np.trace(smoother), rel=1e-8)
    assert model.degrees_of_freedom_ == pytest.approx(
        np.sum(1 - np.diag(model.covariance_) / model.prior_variance_), rel=1e-8
    )


def test_without_a_prior_the_log_posterior_is_the_objective():
    X, y = problem()
    flat = SparseBayesRegressor(prior="flat").fit(X, y)
    assert flat.log_posterior_ == flat.log_marginal_likelihood_
    held = SparseBayesRegressor(prior=2.0, noise_variance=0.25).fit(X, y)
    state = held.solution_.state
    paid = 2.0 * np.sum(state.v / (state.v + state.noise_var))
    assert held.log_posterior_ == pytest.approx(held.log_marginal_likelihood_ - paid)


def test_pairs_and_objects_are_the_same_and_weights_are_repetition():
    X, y = problem()
    pair = SparseBayesRegressor(noise_prior=(2, 0.5)).fit(X, y)
    made = SparseBayesRegressor(noise_prior=InverseGamma(2.0, 0.5)).fit(X, y)
    assert pair.noise_variance_ == made.noise_variance_
    weights = np.arange(60) % 3
    twice = SparseBayesRegressor(noise_prior=(2, 0.5)).fit(X, y, sample_weight=weights)
    rows = np.repeat(np.arange(60), weights)
    once = SparseBayesRegressor(noise_prior=(2, 0.5)).fit(X[rows], y[rows])
    assert twice.noise_variance_ == pytest.approx(once.noise_variance_, rel=1e-9)


def test_constant_targets_have_the_noise_that_the_prior_leaves():
    X, _ = problem()
    for level in (0.0, 5.0, 1e140):
        model = SparseBayesRegressor(noise_prior=(3.0, 8.0)).fit(X, np.full(60, level))
        assert model.noise_variance_ == pytest.approx(2 * 8.0 / (59 + 2 * 4.0))
        assert len(model.relevance_) == 0
        assert np.isfinite(model.log_posterior_)


@pytest.mark.parametrize("scale", [1e-140, 1e-6, 1e6, 1e140])
def test_the_scale_of_the_prior_is_in_units_of_y_squared(scale):
    X, y = problem(3)
    want = RVR(gamma=0.1, noise_prior=(4.0, 2.0)).fit(X, y)
    got = RVR(gamma=0.1, noise_prior=(4.0, 2.0 * scale**2)).fit(X, scale * y)
    assert got.noise_variance_ / scale**2 == pytest.approx(want.noise_variance_, rel=1e-6)
    shift = 59 * np.log(scale)
    assert got.log_marginal_likelihood_ + shift == pytest.approx(
        want.log_marginal_likelihood_, abs=1e-5
    )
    shift += 2 * np.log(scale)  # the noise variance has a density too
    assert got.log_posterior_ + shift == pytest.approx(want.log_posterior_, abs=1e-5)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ((-1, 1), ValueError),
        ((1, np.nan), ValueError),
        ((1, "1"), ValueError),
        ((1, 2, 3), TypeError),
        (1.0, TypeError),
        ("jeffreys", TypeError),
        (InverseGamma, TypeError),
        (True, TypeError),
    ],
)
def test_what_is_no_prior_of_the_noise(wrong, error):
    X, y = problem()
    for model in (SparseBayesRegressor(noise_prior=wrong), RVR(noise_prior=wrong)):
        with pytest.raises(error, match=r"noise_prior must be None, a pair \(g, h\)"):
            model.fit(X, y)


def test_where_there_is_no_noise_to_have_a_prior():
    X, y = problem()
    with pytest.raises(ValueError, match="for a noise that is estimated"):
        RVR(noise_variance=0.1, noise_prior=(1, 1)).fit(X, y)
    with pytest.raises(ValueError, match="noise_prior=.* is for likelihood='gaussian'"):
        RVR(likelihood="poisson", noise_prior=(1, 1)).fit(X, np.arange(60))
    for h in (1e-300, 1e300):
        with pytest.raises(ValueError, match="h=.* of noise_prior is out of proportion to y"):
            RVR(noise_prior=(1, h)).fit(X, y)


def test_a_model_file_keeps_the_prior_and_what_came_of_it(tmp_path):
    X, y = problem()
    for noise_prior in ((2, 0.5), InverseGamma(2.0, 0.5)):
        model = SparseBayesRegressor(noise_prior=noise_prior).fit(X, y)
        model.save(tmp_path / "model")
        same = load(tmp_path / "model")
        assert same.noise_prior == noise_prior
        assert same.log_posterior_ == model.log_posterior_
        assert same.degrees_of_freedom_ == model.degrees_of_freedom_


def test_orthonormal_atoms_have_it_too():
    rng = np.random.RandomState(0)
    Q = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    rows, y = np.arange(50.0)[:, None], Q[:, 3] * 9 + 0.3 * rng.standard_normal(50)
    options = {"fit_intercept": False, "prior": "bic", "noise_prior": (5.0, 2.0)}
    exact = SparseBayesRegressor(Operator(Q, orthonormal=True), **options).fit(rows, y)
    assert exact.solution_.state.__class__.__name__ == "DiagonalState"
    plain = SparseBayesRegressor(Operator(Q), **options).fit(rows, y)
    assert exact.log_posterior_ == pytest.approx(plain.log_posterior_, abs=1e-6)
    assert exact.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-5)
