"""Newton's derivatives are the definitions', and it climbs, prunes and leaves saddles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from random_problems import PRIORS, cases, examples, priors, random_case
from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import refresh, whiten, without_self
from sparsebayes.hyperpriors import Flat, LogDerivatives, Smoothness, gain
from sparsebayes.solvers.newton import Noise, curvature, derivatives, newton, prune

# DESIGN: optimal in each coordinate and yet a saddle (Faul & Tipping 2002, result III, is wrong).
_ANGLE = np.deg2rad(20)
SADDLE = np.array([[np.cos(_ANGLE), -np.cos(_ANGLE)], [np.sin(_ANGLE), np.sin(_ANGLE)]])
SADDLE_T = np.array([[0.0], [2.473559]])


def saddle_gram():
    tt = float(np.sum(SADDLE_T**2))
    return Gram(SADDLE.T @ SADDLE, SADDLE.T @ SADDLE_T, tt, n=2.0, spread=tt / 2)


def posterior_at(case):
    gram = case.quad().gram(case.active)
    return gram, whiten(gram, case.v_a, case.noise)


def restricted(case):
    """Arguments of the oracle for active atoms alone."""
    unit, t = case.rows
    return unit[:, case.active], t, case.v_a, case.noise, case.center


def test_the_oracles_gradient_is_the_derivative_of_its_objective():
    rng = np.random.RandomState(0)
    Phi, t = rng.standard_normal((7, 3)), rng.standard_normal((7, 2))
    v, noise = np.array([0.5, 2.0, 0.1]), 0.3
    for prior in PRIORS:
        for center in (False, True):
            slopes = []
            for k in range(4):
                turn = np.exp(1j * oracle.STEP * (np.arange(4) == k))
                there = oracle.objective(Phi, t, v * turn[:3], noise * turn[3], center, prior)
                slopes.append(there.imag / oracle.STEP)
            gradient = oracle.gradient(Phi, t, v, noise, center, prior)
            np.testing.assert_allclose(gradient, slopes, rtol=1e-11)


@examples(50)
@given(cases(), priors)
def test_gradient_and_hessian_equal_the_definitions(case, prior):
    gram, white = posterior_at(case)
    slow_gradient = oracle.gradient(*restricted(case), prior)
    slow_hessian = oracle.hessian(*restricted(case), prior)
    scale = 1e-9 * (1 + np.abs(slow_hessian).max())
    m = case.active.size
    for estimated, size in ((True, m + 1), (False, m)):
        noise = Noise(case.noise, estimated, 0.0)
        gradient, hessian = derivatives(gram, prior, case.v_a, noise, white)
        np.testing.assert_allclose(gradient, slow_gradient[:size], rtol=1e-9, atol=scale)
        np.testing.assert_allclose(hessian, slow_hessian[:size, :size], rtol=1e-9, atol=scale)


def test_noise_pinned_at_its_floor_is_at_rest_only_while_it_would_fall():
    case = random_case(0, n=20, m=3, k=3)
    gram = case.quad().gram(np.arange(3))
    v = np.ones(3)
    for noise_var, falls in ((1e3, True), (1e-8, False)):
        white = whiten(gram, v, noise_var)
        free = derivatives(gram, Flat(), v, Noise(noise_var, True, 0.0), white)
        pinned = derivatives(gram, Flat(), v, Noise(noise_var, True, noise_var), white)
        assert (free.gradient[3] < 0) == falls
        assert (pinned.gradient[3] == 0) == falls
        assert (pinned.hessian[3, 3] == -1) == falls
        np.testing.assert_array_equal(pinned.gradient[:3], free.gradient[:3])


def test_curvature_is_the_largest_eigenvalue():
    A = np.random.RandomState(0).standard_normal((5, 5))
    value, vector = curvature(A + A.T)
    assert value == pytest.approx(np.linalg.eigvalsh(A + A.T).max())
    np.testing.assert_allclose((A + A.T) @ vector, value * vector, atol=1e-12)
    assert curvature(np.empty((0, 0)))[0] == -np.inf


@examples(40)
@given(cases(max_active=8), priors, st.sampled_from([0.0, 0.05]))
def test_prune_deletes_something_worth_nothing_if_there_is_any_and_gains_by_it(
    case, prior, coupling
):
    gram, white = posterior_at(case)
    keep = prune(prior, case.v_a, case.noise, white, coupling)
    before = refresh(gram, prior, np.arange(gram.size), case.v_a, case.noise)
    kept = np.flatnonzero(keep)
    after = refresh(gram, prior, kept, case.v_a[kept], case.noise)
    assert after.objective >= before.objective - 1e-9 * (1 + abs(before.objective))
    s, q2 = without_self(before.v, before.white)
    best = prior.best_variance(s, q2, case.noise, case.t.shape[1])
    assert keep.all() == bool((best > 0).all())
    doomed = np.flatnonzero(best <= 0)
    if doomed.size == 1:
        np.testing.assert_array_equal(np.flatnonzero(~keep)[:1], doomed)


@examples(30)
@given(cases(max_active=8), priors)
def test_prune_deletes_in_the_order_that_definitions_give(case, prior):
    """The most worthless of those in question first, everything computed anew each time."""
    gram, white = posterior_at(case)
    keep = prune(prior, case.v_a, case.noise, white)
    left, question = np.arange(gram.size), None
    while True:
        state = refresh(gram, prior, left, case.v_a[left], case.noise)
        s, q2 = without_self(state.v, state.white)
        best = prior.best_variance(s, q2, case.noise, case.t.shape[1])
        worth = gain(prior, s, q2, state.v, case.noise, case.t.shape[1])
        question = left[best <= 0] if question is None else question
        worth[(best > 0) | ~np.isin(left, question)] = np.inf
        if not np.isfinite(worth).any():
            break
        left = np.delete(left, np.argmin(worth))
    np.testing.assert_array_equal(np.flatnonzero(keep), left)


@pytest.mark.parametrize("coupling", [0.0, 0.05])
def test_prune_keeps_one_of_two_copies(coupling):
    """Beside a strong copy of itself an atom is worth nothing; both must not go."""
    gram = Gram(np.ones((2, 2)), np.full((2, 1), 5.0), tt=26.0, n=10.0, spread=2.6)
    v = np.array([30.0, 40.0])
    white = whiten(gram, v, 1.0)
    s, q2 = without_self(v, white)
    assert not Flat().best_variance(s, q2, 1.0).any()
    assert prune(Flat(), v, 1.0, white, coupling).sum() == 1


def test_prune_deletes_all_orthogonal_atoms_worth_nothing():
    """Orthonormal atoms do not interact: those with z^2 <= 1 + 2 c go, the others stay."""
    z = np.array([0.2, 3.0, -0.9, 1.5, -4.0])
    gram = Gram(np.eye(5), z[:, None], float(z @ z) + 1.0, n=9.0, spread=1.0)
    v = np.array([0.5, 1.0, 3.0, 0.1, 20.0])
    white = whiten(gram, v, 1.0)
    for coupling in (0.0, 0.05):
        for c in (0.0, 1.0):
            keep = prune(Smoothness(c), v, 1.0, white, coupling)
            np.testing.assert_array_equal(keep, z**2 > 1 + 2 * c)


@examples(30)
@given(cases(), priors, st.booleans())
def test_newton_never_descends_and_ends_where_it_says(case, prior, estimated):
    gram, white = posterior_at(case)
    start = white.log_evidence + prior.log_density(case.v_a, case.noise).sum()
    noise = Noise(case.noise, estimated, 1e-4 * case.noise)
    end = newton(gram, prior, case.v_a, noise, tol=1e-10, escape=True)
    assert end.objective >= start - 1e-9 * (1 + abs(start))
    assert len(end.v) == len(end.kept) == len(np.unique(end.kept))
    exact = refresh(gram, prior, end.kept, end.v, end.noise_var)
    assert exact.objective == pytest.approx(end.objective, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(
        exact.mu, np.sqrt(end.v)[:, None] * end.white.z, rtol=1e-6, atol=1e-9
    )
    assert end.noise_var >= noise.floor
    if not estimated:
        assert end.noise_var == case.noise
    if end.converged:
        noise = noise._replace(var=end.noise_var)
        sub = gram.gram(end.kept)
        gradient, hessian = derivatives(sub, prior, end.v, noise, end.white)
        assert np.all(np.abs(gradient) < 1e-3) or not end.v.size
        assert curvature(hessian)[0] < 1e-3 or not end.v.size


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_newton_without_atoms_finds_the_mean_square(prior):
    gram = Gram(np.empty((0, 0)), np.empty((0, 2)), tt=30.0, n=10.0, spread=1.0)
    end = newton(gram, prior, np.empty(0), Noise(7.0, True, 1e-3), tol=1e-9)
    assert end.noise_var == pytest.approx(30.0 / (2 * 10.0))
    assert end.converged
    held = newton(gram, prior, np.empty(0), Noise(7.0, False, 1e-3), tol=1e-9)
    assert held.noise_var == 7.0


def test_newton_says_when_its_steps_are_spent():
    case = random_case(3)
    gram = case.quad().gram(np.arange(8))
    end = newton(gram, Flat(), np.full(8, 1e-3), Noise(1.0, True, 1e-9), tol=1e-12, max_steps=2)
    assert end.steps == 2
    assert not end.converged


def test_the_saddle_is_one():
    v = np.array([0.5, 0.5])
    white = whiten(saddle_gram(), v, 1.0)
    assert white.log_evidence == pytest.approx(-4.948, abs=1e-3)
    noise = Noise(1.0, False, 0.0)
    gradient, hessian = derivatives(saddle_gram(), Flat(), v, noise, white)
    assert np.abs(gradient).max() < 1e-6
    assert curvature(hessian)[0] == pytest.approx(0.0277, abs=1e-4)
    s, q2 = without_self(v, white)
    np.testing.assert_allclose(Flat().best_variance(s, q2, 1.0), v, rtol=1e-5)


def test_newton_leaves_a_saddle_when_told_to():
    noise = Noise(1.0, False, 0.0)
    v = np.array([0.5, 0.5])
    stays = newton(saddle_gram(), Flat(), v, noise, tol=1e-9)
    leaves = newton(saddle_gram(), Flat(), v, noise, tol=1e-9, escape=True)
    assert stays.objective == pytest.approx(-4.948, abs=1e-3)
    assert leaves.objective >= -4.7745


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_newton_reaches_the_closed_form_for_orthonormal_atoms(n_targets, c):
    z = np.array([[6.0], [-5.0], [9.0]]) * np.ones(n_targets)
    gram = Gram(np.eye(3), z, float(np.sum(z**2)) + 4.0, n=12.0, spread=1.0)
    noise = Noise(1.0, False, 0.0)
    end = newton(gram, Smoothness(c), np.full(3, 0.5), noise, tol=1e-14)
    z2 = np.sum(z**2, axis=1)
    shrinkage = (z2 - n_targets - 2 * c) / (z2 - 2 * c)
    np.testing.assert_allclose(end.v / (1 + end.v), shrinkage, rtol=1e-6)


class Scaled:
    """-c m log noise: a prior that depends on the noise alone, its derivatives of length one."""

    def log_density(self, v, noise_var):
        return np.full_like(v, -0.7 * np.log(noise_var))

    def log_derivatives(self, v, noise_var):
        zero = np.zeros(1)
        return LogDerivatives(zero, zero, np.array([-0.7]), zero, zero)

    def best_variance(self, s, q2, noise_var, n_targets=1):
        return Flat().best_variance(s, q2, noise_var, n_targets)


def test_derivatives_of_length_one_count_for_every_atom():
    gram = Gram(np.eye(3), np.array([[3.0], [2.0], [1.0]]), tt=20.0, n=10.0, spread=1.0)
    v, step = np.ones(3), 1e-6

    def objective(noise_var):
        white = whiten(gram, v, noise_var)
        return white.log_evidence + Scaled().log_density(v, noise_var).sum()

    noise = Noise(1.3, True, 0.0)
    gradient = derivatives(gram, Scaled(), v, noise, whiten(gram, v, 1.3)).gradient
    up, down = objective(1.3 * np.exp(step)), objective(1.3 * np.exp(-step))
    np.testing.assert_allclose(gradient[-1], (up - down) / (2 * step), rtol=1e-6)
