"""The contract of a hyperprior, and what is special to each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from random_problems import examples
from sparsebayes.hyperpriors import Flat, Gamma, Hyperprior, Smoothness, best_variance, gain

CONTRACT = [
    Flat(),
    Smoothness(0.0),
    Smoothness(1e-6),
    Smoothness(1.0),
    Smoothness(5.3),
    Smoothness(50.0),
]
contract = pytest.mark.parametrize("prior", CONTRACT, ids=repr)
# What holds where no atom can be out, too; the rest of these priors is in test_gamma.py.
NEVER_OUT = [Gamma(0.0, 0.2), Gamma(0.7, 0.1)]
every = pytest.mark.parametrize("prior", CONTRACT + NEVER_OUT, ids=repr)
targets = st.integers(1, 4)
decades = st.floats(-3, 3)


def worth(prior, s, q2, v, noise, n_targets):
    """l(v) + log hyperprior, by definition."""
    v = np.atleast_1d(np.asarray(v, dtype=float))
    with np.errstate(over="ignore"):
        return oracle.value(s, q2, v, n_targets) + prior.log_density(v, noise)


@every
def test_follows_the_protocol(prior):
    assert isinstance(prior, Hyperprior)


@contract
@examples(30)
@given(decades, st.floats(-2, 4), decades, targets)
def test_best_variance_beats_every_other_variance_and_zero(
    prior, log_s, log_ratio, log_noise, n_targets
):
    s, noise = 10.0**log_s, 10.0**log_noise
    q2 = s * 10.0**log_ratio
    v = prior.best_variance(np.array([s]), np.array([q2]), noise, n_targets)
    best = gain(prior, np.array([s]), np.array([q2]), v, noise, n_targets)[0]
    grid = np.logspace(-12, 12, 4001) / s
    tolerance = 1e-10 * (1 + q2 / s)
    assert best >= worth(prior, s, q2, grid, noise, n_targets).max() - tolerance
    assert best >= 0
    if v[0] > 0:
        assert best == pytest.approx(worth(prior, s, q2, v, noise, n_targets)[0], abs=tolerance)
        near = v * np.exp([-1e-3, 1e-3])
        assert best >= worth(prior, s, q2, near, noise, n_targets).max() - tolerance


@every
def test_many_atoms_at_once_are_the_same_as_one_by_one(prior):
    rng = np.random.RandomState(0)
    s = 10.0 ** rng.uniform(-12, 12, 300)
    q2 = s * 10.0 ** rng.uniform(-2, 6, 300)
    for n_targets in (1, 3):
        together = prior.best_variance(s, q2, 0.7, n_targets)
        single = [prior.best_variance(s[[k]], q2[[k]], 0.7, n_targets)[0] for k in range(300)]
        np.testing.assert_allclose(together, single, rtol=1e-9)
        gains = gain(prior, s, q2, together, 0.7, n_targets)
        apart = [gain(prior, s[[k]], q2[[k]], together[[k]], 0.7, n_targets)[0] for k in range(300)]
        np.testing.assert_array_equal(gains, apart)


@every
def test_no_atoms_give_no_variances(prior):
    none = np.empty(0)
    assert prior.best_variance(none, none, 1.0).shape == (0,)
    assert gain(prior, none, none, none, 1.0).shape == (0,)
    assert prior.log_density(none, 1.0).sum() == 0


@every
def test_arguments_are_left_alone(prior):
    s, q2, v = np.ones(3), np.array([0.5, 4.0, 90.0]), np.array([0.0, 1.0, 2.0])
    copies = s.copy(), q2.copy(), v.copy()
    prior.best_variance(s, q2, 1.0)
    gain(prior, s, q2, v, 1.0)
    for array, copy in zip((s, q2, v), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@every
@examples(40)
@given(st.floats(-6, 6), decades)
def test_log_derivatives_are_the_derivatives_of_the_log_density(prior, log_ratio, log_noise):
    noise = 10.0**log_noise
    v = np.array([noise * 10.0**log_ratio])
    turn = np.exp(1j * oracle.STEP)
    slope = prior.log_derivatives(v, noise)
    in_u, in_rho = prior.log_derivatives(v * turn, noise), prior.log_derivatives(v, noise * turn)
    exact = {"rel": 1e-9, "abs": 1e-12 * abs(slope.u[0])}  # second derivatives vanish at v = noise
    assert slope.u[0] == pytest.approx(
        prior.log_density(v * turn, noise).imag[0] / oracle.STEP, **exact
    )
    assert slope.rho[0] == pytest.approx(
        prior.log_density(v, noise * turn).imag[0] / oracle.STEP, **exact
    )
    assert slope.uu[0] == pytest.approx(in_u.u.imag[0] / oracle.STEP, **exact)
    assert slope.u_rho[0] == pytest.approx(in_u.rho.imag[0] / oracle.STEP, **exact)
    assert slope.u_rho[0] == pytest.approx(in_rho.u.imag[0] / oracle.STEP, **exact)
    assert slope.rho_rho[0] == pytest.approx(in_rho.rho.imag[0] / oracle.STEP, **exact)


@contract
def test_the_log_density_is_relative_to_a_variance_of_zero_and_never_rises(prior):
    density = prior.log_density(np.logspace(-12, 12, 200), 1.0)
    assert abs(density[0]) <= 1e-9
    assert np.all(np.diff(density) <= 0)


@contract
@pytest.mark.parametrize("noise", [1e-12, 1.0, 1e12])
def test_extreme_statistics_give_finite_and_right_answers(prior, noise):
    decades = 10.0 ** np.arange(-12, 13, 2)
    s, q2 = (grid.ravel() for grid in np.meshgrid(decades, decades))
    v = prior.best_variance(s, q2, noise)
    assert np.isfinite(v).all()
    assert np.all(v >= 0)
    best = gain(prior, s, q2, v, noise)
    assert np.isfinite(best).all()
    assert np.all(best >= 0)
    assert not v[q2 <= s].any()
    for factor in 10.0 ** np.arange(-40.0, 40.0, 0.5):
        other = worth(prior, s, q2, factor / s, noise, 1)
        assert np.all(other <= best + 1e-9 * (1 + np.abs(best)))


@contract
@pytest.mark.parametrize("n_targets", [1, 2])
def test_the_answer_does_not_depend_on_the_unit_of_the_targets(prior, n_targets):
    s, q2 = np.logspace(-3, 3, 40), np.logspace(-1, 5, 40)
    v = prior.best_variance(s, q2, 0.3, n_targets)
    scaled = prior.best_variance(s * 1e-8, q2 * 1e-8, 0.3e8, n_targets)
    np.testing.assert_allclose(scaled, v * 1e8, rtol=1e-9)


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0, 2.5, np.log(1000)])
@pytest.mark.parametrize("noise", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("n_targets", [1, 3])
def test_orthonormal_atoms_have_the_closed_form(c, noise, n_targets):
    threshold = n_targets + 2 * c
    z2 = threshold * np.concatenate([[0.0, 0.5, 0.999], 1 + np.logspace(-3, 4, 40)])
    s, q2 = np.full(z2.shape, 1 / noise), z2 / noise
    v = Smoothness(c).best_variance(s, q2, noise, n_targets)
    np.testing.assert_array_equal(v > 0, z2 > threshold)
    inside = v > 0
    shrinkage = v[inside] / (v[inside] + noise)
    expected = (z2[inside] - threshold) / (z2[inside] - 2 * c)
    np.testing.assert_allclose(shrinkage, expected, rtol=1e-9)


@pytest.mark.parametrize("c", [0.5, 1.0, 4.0])
def test_an_atom_exactly_on_the_threshold_is_out(c):
    v = Smoothness(c).best_variance(np.ones(2), np.array([1.0, 2.0]) + 2 * c, 1.0)
    assert v[0] == 0
    assert v[1] > 0


def test_flat_is_smoothness_at_no_price():
    s, q2 = np.logspace(-6, 6, 50), np.logspace(-3, 9, 50)
    for n_targets in (1, 2):
        flat = Flat().best_variance(s, q2, 1.0, n_targets)
        np.testing.assert_array_equal(Smoothness(0.0).best_variance(s, q2, 1.0, n_targets), flat)
        np.testing.assert_allclose(flat, np.maximum(q2 / n_targets - s, 0) / s**2, rtol=1e-9)


def test_flat_survives_an_atom_without_any_sparsity():
    v = Flat().best_variance(np.zeros(2), np.array([0.0, 1.0]), 1.0)
    assert v[0] == 0
    assert np.isfinite(v).all()


def test_a_higher_price_never_raises_a_variance():
    rng = np.random.RandomState(3)
    s = 10.0 ** rng.uniform(-3, 3, 500)
    q2 = s * 10.0 ** rng.uniform(0, 3, 500)
    cheap = Flat().best_variance(s, q2, 1.0)
    for c in (0.1, 1.0, 5.0, 25.0):
        dear = Smoothness(c).best_variance(s, q2, 1.0)
        assert np.all(dear <= cheap * (1 + 1e-9))
        cheap = dear


def test_gain_of_leaving_an_atom_out_is_nothing():
    for prior in CONTRACT:
        assert gain(prior, np.ones(1), np.full(1, 9.0), np.zeros(1), 1.0)[0] == 0


@pytest.mark.parametrize("c", [-1.0, np.nan, np.inf])
def test_a_price_that_is_none_is_refused(c):
    with pytest.raises(ValueError, match="c must be a finite number >= 0"):
        Smoothness(c)


def shared_worth(prior, s, q2, v, noise):
    """The same for an atom of several columns: a sum over directions, the prior but once."""
    v = np.atleast_1d(np.asarray(v, dtype=float))
    return oracle.value(s, q2, v[:, None], 1).sum(axis=1) + prior.log_density(v, noise)


@contract
@examples(40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), decades)
def test_a_shared_variance_beats_every_other_and_zero(prior, seed, K, log_noise):
    rng = np.random.RandomState(seed)
    noise = 10.0**log_noise
    s = 10.0 ** rng.uniform(-2, 2, K) / noise
    q2 = s * 10.0 ** rng.uniform(-2, 3, K)
    s[rng.uniform(size=K) < 0.2] = 0.0  # in the span of the model: no say
    q2 *= s > 0
    v = best_variance(prior, s[None], q2[None], noise)
    assert v.shape == (1,)
    best = gain(prior, s[None], q2[None], v, noise)[0]
    grid = noise * np.logspace(-8, 8, 1601)
    tolerance = 1e-8 * (1 + np.sum(q2 / np.where(s > 0, s, 1.0)))
    assert best >= 0
    assert best >= shared_worth(prior, s, q2, grid, noise).max() - tolerance
    assert best == pytest.approx(shared_worth(prior, s, q2, v, noise)[0], abs=tolerance)


@every
def test_directions_that_agree_are_targets(prior):
    rng = np.random.RandomState(0)
    s = 10.0 ** rng.uniform(-3, 3, 100)
    q2 = s[:, None] * 10.0 ** rng.uniform(-2, 4, (100, 3))
    together = best_variance(prior, np.repeat(s[:, None], 3, axis=1), q2, 1.0)
    targets = prior.best_variance(s, q2.sum(axis=1), 1.0, 3)
    one = gain(prior, np.repeat(s[:, None], 3, axis=1), q2, together, 1.0)
    two = gain(prior, s, q2.sum(axis=1), targets, 1.0, 3)
    np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-9)
    sure = two > 1e-3
    np.testing.assert_allclose(together[sure], targets[sure], rtol=1e-4)
    # ... and one direction alone is an atom of one column
    alone = best_variance(prior, s[:, None], q2[:, :1], 1.0)
    single = prior.best_variance(s, q2[:, 0], 1.0)
    assert best_variance(prior, s, q2[:, 0], 1.0).tolist() == single.tolist()
    sure = gain(prior, s, q2[:, 0], single, 1.0) > 1e-3
    np.testing.assert_allclose(alone[sure], single[sure], rtol=1e-4)


@contract
def test_gain_of_a_shared_variance_is_a_difference_of_worths(prior):
    rng = np.random.RandomState(1)
    s = 10.0 ** rng.uniform(-2, 2, (50, 4))
    q2 = s * 10.0 ** rng.uniform(-1, 2, (50, 4))
    v, now = 10.0 ** rng.uniform(-3, 3, (2, 50))
    v[:5] = 0.0
    now[3:8] = 0.0
    found = gain(prior, s, q2, v, 0.7, v_now=now)
    for i in range(50):
        after, before = (shared_worth(prior, s[i], q2[i], each[i], 0.7)[0] for each in (v, now))
        assert found[i] == pytest.approx(after - before, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(
        gain(prior, s, q2, v, 0.7), gain(prior, s, q2, v, 0.7, v_now=np.zeros(50)), rtol=1e-12
    )


@every
def test_no_direction_no_variance(prior):
    none = np.zeros((2, 3))
    assert not best_variance(prior, none, none, 1.0).any()
    assert not gain(prior, none, none, np.zeros(2), 1.0).any()
    assert best_variance(prior, np.empty((0, 3)), np.empty((0, 3)), 1.0).shape == (0,)
