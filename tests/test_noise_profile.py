"""The noise of an orthonormal problem: many maxima, of which the highest is found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_problems import examples, seeds
from sparsebayes.core.quadratic import OrthonormalQuadratic
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import Smoothness
from sparsebayes.problem import Problem, Status
from sparsebayes.solvers import noise_profile, orthonormal
from sparsebayes.solvers.noise_profile import Profile, best_noise
from sparsebayes.solvers.orthonormal import Prices

PRICES = [0.0, 0.5, 1.0, 3.0, 12.0]


def random_powers(rng, m, mixed):
    power = rng.chisquare(1, m) * 10.0 ** (rng.uniform(-3, 3, m) if mixed else 0.0)
    power[: rng.randint(0, 40)] *= 10.0 ** rng.uniform(0, 4)
    return power


@examples(60)
@given(seeds, st.sampled_from([*PRICES, None]), st.booleans(), st.integers(1, 3))
def test_the_grid_finds_the_maximum_that_a_search_of_every_piece_finds(seed, c, mixed, T):
    rng = np.random.RandomState(seed)
    m = int(rng.randint(97, 400))
    power = random_powers(rng, m, mixed)
    prices = rng.choice(PRICES, m) if c is None else c
    rest, n = float(rng.choice([0.0, 5.0])), m + float(rng.randint(0, 50))
    profile = Profile.of(power, prices, rest, n, T)
    floor = 1e-9 * power.sum() / m
    pieces = noise_profile._piecewise(profile, floor, profile.total)
    highest = max(profile.value(noise) for noise in [floor, *pieces])
    assert profile.value(best_noise(profile, floor)) >= highest - 1e-9 * abs(highest)


@examples(30)
@given(seeds, st.integers(1, 3))
def test_slopes_are_those_of_the_value(seed, T):
    rng = np.random.RandomState(seed)
    profile = Profile.of(rng.chisquare(1, 50), rng.choice(PRICES, 50), 2.0, 60.0, T)
    noise, step = float(rng.uniform(0.1, 2)), 1e-5
    up, down = noise * np.exp(step), noise * np.exp(-step)
    numeric = (profile.value(up) - profile.value(down)) / (2 * step)
    first, second = profile.slope(noise)
    assert first == pytest.approx(2 * numeric, abs=2e-2)
    bends = [profile.slope(x)[0] for x in (up, down)]
    cusps = np.concatenate([g.power / profile.entry(g) for g in profile.groups])
    if not ((cusps > down) & (cusps < up)).any():
        assert second == pytest.approx((bends[0] - bends[1]) / (2 * step), rel=1e-4, abs=1e-3)


def test_prices_of_single_atoms_are_those_that_the_objective_counts():
    rng = np.random.RandomState(1)
    g = rng.standard_normal((120, 1)) * 10.0 ** rng.uniform(-1, 1.5, (120, 1))
    quad = OrthonormalQuadratic(g, float(np.vdot(g, g)) + 3.0, 130.0, 1.0)
    c = rng.choice([0.5, 2.0, 4.0], 120)
    solution = orthonormal.solve(Problem(quad, Prices(c)))
    assert solution.status is Status.CONVERGED
    state = solution.state
    y = g[:, 0] ** 2 / state.noise_var - 2 * c
    np.testing.assert_array_equal(state.active, np.flatnonzero(y > 1))
    np.testing.assert_allclose(state.mu[:, 0], (g[:, 0] * (1 - 1 / y))[y > 1])
    dense = refresh(quad, Prices(c[state.active]), state.active, state.v, state.noise_var)
    assert dense.objective == pytest.approx(state.objective)
    for noise in state.noise_var * np.exp(np.linspace(-3, 3, 61)):
        other = orthonormal.solve(Problem(quad, Prices(c), float(noise)))
        assert other.state.objective <= state.objective + 1e-9


def test_equal_prices_are_the_smoothness_prior():
    rng = np.random.RandomState(2)
    g = rng.standard_normal((300, 2)) * 10.0 ** rng.uniform(-1, 1, (300, 1))
    quad = OrthonormalQuadratic(g, float(np.vdot(g, g)), 300.0, 1.0)
    one = orthonormal.solve(Problem(quad, Smoothness(2.5)))
    other = orthonormal.solve(Problem(quad, Prices(np.full(300, 2.5))))
    assert other.state.objective == pytest.approx(one.state.objective)
    assert other.certificate.max_gain == pytest.approx(one.certificate.max_gain, abs=1e-12)
    assert other.certificate.max_curvature == pytest.approx(one.certificate.max_curvature)
    np.testing.assert_array_equal(other.state.active, one.state.active)


def test_a_certificate_notices_an_atom_that_its_own_price_lets_in():
    g = np.array([[3.0], [2.0]])
    quad = OrthonormalQuadratic(g, 13.0, 40.0, 1.0)
    problem = Problem(quad, Prices(np.array([5.0, 0.1])), 1.0)
    power = np.square(g[:, 0])
    nothing = orthonormal._state(Problem(quad, Smoothness(50.0), 1.0), power, 0.0, 1.0)
    assert nothing.active.size == 0
    found = orthonormal._certify(problem, power, 0.0, nothing, problem.noise())
    y = 4.0 - 0.2
    assert found.max_gain == pytest.approx(0.5 * (y - 1 - np.log(y)))
