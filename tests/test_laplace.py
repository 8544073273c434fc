"""Newton's method finds the mode from anywhere, and the quadratic there is Laplace's."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import oracle
from random_latent_problems import (
    CLASSES,
    LIKELIHOODS,
    LatentCase,
    draw_targets,
    latent_cases,
    without_gauge,
)
from random_problems import examples, priors
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.engine import Breakdown, refresh, screen
from sparsebayes.hyperpriors import Flat
from sparsebayes.laplace import Start, find_mode, quadratic_at
from sparsebayes.likelihoods import Bernoulli, Gaussian, Multinomial, Poisson

NONE = np.empty(0, dtype=np.intp)
every_likelihood = pytest.mark.parametrize("name", LIKELIHOODS)
with_and_without = pytest.mark.parametrize("center", [True, False])


def assert_equal(fast, slow, scale=None, to=1e-8):
    """To 1e-8 of the largest entry, or of ``scale``."""
    fast, slow = np.asarray(fast), np.asarray(slow)
    assert fast.shape == slow.shape
    if slow.size:
        scale = np.abs(slow).max() if scale is None else scale
        np.testing.assert_allclose(fast, slow, rtol=to, atol=to * scale)


def mode_of(case, starts=()):
    return find_mode(case.latent(), case.columns, case.v_columns, starts)


def gradient(case, mode):
    """Of the log posterior in whitened weights and intercepts, from nothing but the likelihood."""
    weights = 1.0 if case.weights is None else case.weights[:, None]
    slope = weights * case.likelihood.expand(case.t, mode.f).slope
    a, k = case.columns // case.K, case.columns % case.K
    in_w = np.einsum("nj,nj->j", case.Phi[:, a], slope[:, k]) - mode.w / case.v_columns
    return np.append(in_w * np.sqrt(case.v_columns), slope.sum(axis=0) if case.center else [])


def random_case(name, center=True, shared=False, n=25, m=4, weighted=False):
    rng = np.random.RandomState(len(name))
    likelihood = LIKELIHOODS[name]
    Phi = rng.standard_normal((n, m)) + 0.5
    weights = rng.uniform(0.2, 3.0, n) if weighted else None
    t = draw_targets(rng, likelihood, n)
    active = np.arange(0, m * (1 if shared else likelihood.n_latent), 2)
    v = 10.0 ** rng.uniform(-1, 1, active.size)
    return LatentCase(Phi, t, weights, likelihood, center, shared, active, v)


@examples(75)
@given(latent_cases())
def test_the_mode_is_the_definitions(case):
    mode, dense = mode_of(case), case.dense
    assert_equal(mode.w, dense.w, scale=np.sqrt(case.v_columns).max(initial=0.0))
    assert_equal(without_gauge(mode.f), without_gauge(dense.f), scale=1.0)
    assert np.abs(gradient(case, mode)).max(initial=0.0) < 1e-7
    # What the mode says of itself: f = c + Phi w, its penalty, its likelihood with weights.
    f = np.tile(mode.c, (len(case.t), 1))
    for i, w in zip(case.columns, mode.w, strict=True):
        f[:, i % case.K] += case.Phi[:, i // case.K] * w
    assert_equal(mode.f, f, scale=1.0 + np.abs(case.Phi).max() * np.abs(mode.w).max(initial=0.0))
    assert mode.penalty == pytest.approx(0.5 * np.sum(mode.w**2 / case.v_columns), rel=1e-12)
    if not case.center:
        assert not mode.c.any()
    value = case.likelihood.expand(case.t, mode.f).value
    value = value if case.weights is None else case.weights * value
    assert mode.log_likelihood == pytest.approx(value.sum(), rel=1e-12)


@examples(30)
@given(latent_cases())
def test_the_hessian_is_the_difference_of_gradients(case):
    """Minus the Hessian of the log posterior, by central differences, inverts to Sigma."""
    if not case.active.size:
        return
    mode = mode_of(case)
    quad = quadratic_at(case.latent(), mode)
    norm = quad.norm[case.columns]
    if (norm == 0).any():
        return
    state = refresh(quad, Flat(), case.active, case.v * quad.norm[case.active * case.group] ** 2, 1)
    Sigma = state.Sigma / np.outer(norm, norm)
    centers = quad.centers(case.columns)
    scale = np.sqrt(Sigma.diagonal())

    def slope(i, h):
        """Gradient after a step in weight i, the intercepts going along as the quadratic says."""
        w = mode.w.copy()
        w[i] += h
        f = mode.f - h * centers[i]
        f[:, case.columns[i] % case.K] += h * case.Phi[:, case.columns[i] // case.K]
        return gradient(case, mode._replace(w=w, f=f))[: len(w)] / np.sqrt(case.v_columns)

    H = []
    for i in range(len(scale)):
        h = 1e-4 * scale[i]
        H.append((slope(i, -h) - slope(i, h)) / (2 * h))
    np.testing.assert_allclose(
        np.array(H) @ Sigma, np.eye(len(scale)), atol=2e-6 * scale.max() / scale.min()
    )


@examples(75)
@given(latent_cases(), priors)
def test_evidence_posterior_S_and_Q_are_the_definitions(case, prior):
    quad = quadratic_at(case.latent(), mode_of(case))
    unit = case.v * quad.norm[case.active * case.group] ** 2
    state = refresh(quad, prior, case.active, unit, 1.0)
    dense, m = case.dense, case.columns.size
    assert state.log_evidence == pytest.approx(dense.log_evidence, rel=1e-9, abs=1e-8)
    assert state.objective == state.log_evidence + prior.log_density(unit, 1.0).sum()
    norm = quad.norm[case.columns]
    deviation = np.sqrt(case.v_columns)
    assert_equal(state.mu[:, 0] / norm / deviation, dense.w / deviation, scale=1.0)
    whole = np.outer(deviation * norm, deviation * norm)
    Sigma = dense.covariance[:m, :m] / np.outer(deviation, deviation)
    assert_equal(state.Sigma / whole, Sigma, scale=1.0)
    seen = screen(quad, prior, state)
    H = case.frozen.H.diagonal()
    if not case.shared:  # else there is a matrix for each atom: see test_shared_variances
        assert_equal(seen.S * quad.norm**2, dense.S, scale=H.max())
    assert_equal(seen.Q[:, 0] * quad.norm, dense.Q, scale=np.sqrt(H.max()))


@examples(30)
@given(latent_cases(shared=False), priors)
def test_predicted_gain_is_the_change_of_the_expansion_held(case, prior):
    quad = quadratic_at(case.latent(), mode_of(case))
    state = refresh(quad, prior, case.active, case.v * quad.norm[case.active] ** 2, 1.0)
    seen = screen(quad, prior, state)
    assert np.all(seen.gains > -1e-9)
    held = np.zeros(quad.size)
    held[case.active] = case.v

    def objective(v):
        inside = v > 0
        unit = v[inside] * quad.norm[inside] ** 2
        return case.frozen.value(v) + prior.log_density(unit, 1.0).sum()

    here = objective(held)
    for j in np.flatnonzero(quad.norm):
        v = held.copy()
        v[j] = seen.v[j] / quad.norm[j] ** 2
        there = objective(v)
        assert seen.gains[j] == pytest.approx(there - here, rel=1e-7, abs=1e-7 * (1 + abs(here)))


class Offset:
    """A likelihood whose zero is elsewhere: where Newton's method starts is then anywhere."""

    def __init__(self, likelihood, offset):
        self.likelihood, self.offset, self.n_latent = likelihood, offset, likelihood.n_latent
        self.calls = 0

    def expand(self, t, f):
        self.calls += 1
        return self.likelihood.expand(t, f + self.offset)


@every_likelihood
@with_and_without
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("far", [1.0, 4.0, 10.0])
def test_newton_converges_from_afar(name, center, weighted, far):
    """Latent functions of +-30 at the start: nearly all rows are saturated, or of no count."""
    case = random_case(name, center, weighted=weighted)
    rng = np.random.RandomState(int(far))
    constant = far * rng.uniform(-1, 1, case.K)
    offset = constant + far * case.Phi[:, :1] * rng.choice([-1, 1], case.K)
    moved = replace(case, likelihood=Offset(case.likelihood, offset))
    assert np.abs(gradient(moved, mode_of(moved))).max() < 1e-5
    if center:  # a constant offset is but another intercept
        moved = replace(case, likelihood=Offset(case.likelihood, constant))
        assert_equal(mode_of(moved).w, mode_of(case).w, to=1e-7)


@every_likelihood
@with_and_without
def test_starts_are_used_if_better_and_do_no_harm_if_not(name, center):
    case = random_case(name, center)
    best, rng = mode_of(case), np.random.RandomState(0)
    counted = Offset(case.likelihood, 0.0)
    case = LatentCase(case.Phi, case.t, None, counted, center, False, case.active, case.v)
    shuffled = rng.permutation(case.columns.size)
    there = Start(case.columns[shuffled], best.w[shuffled], best.c)
    bad = [
        Start(case.columns, size * rng.standard_normal(case.columns.size), size * rng.randn(case.K))
        for size in (10.0, 1e3, 1e6)
    ]
    partly = Start(case.columns[::2], best.w[::2], best.c)
    elsewhere = Start(NONE, np.empty(0), best.c)
    spent = {}
    for label, starts in {
        "none": (),
        "there": (there,),
        "last": (*bad, there),
        "bad": tuple(bad),
        "partly": (partly,),
        "elsewhere": (elsewhere,),
    }.items():
        counted.calls = 0
        mode = mode_of(case, starts)
        spent[label] = counted.calls - len(starts)
        assert_equal(mode.w, best.w, to=1e-7)
        assert_equal(without_gauge(mode.f), without_gauge(best.f), scale=1.0, to=1e-7)
    assert spent["there"] <= 3
    assert spent["last"] <= 3
    assert spent["bad"] == spent["none"]
    assert name == "gaussian" or spent["none"] > 3


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name != "gaussian"])
def test_a_start_without_curvature_is_left(name):
    case = random_case(name)
    for now in (case, case.at(NONE, np.empty(0))):
        c = -800.0 * np.arange(1.0, now.K + 1)
        mode = mode_of(now, (Start(NONE, np.empty(0), c),))
        best = mode_of(now)
        assert_equal(without_gauge(mode.f), without_gauge(best.f), scale=1.0, to=1e-7)


def test_weights_of_other_columns():
    start = Start(np.array([7, 2, 5]), np.array([0.7, 0.2, 0.5]), np.zeros(1))
    np.testing.assert_array_equal(start.of(np.array([5, 9, 0, 7, 3])), [0.5, 0.0, 0.0, 0.7, 0.0])
    assert start.of(NONE).shape == (0,)
    none = Start(NONE, np.empty(0), np.zeros(1))
    np.testing.assert_array_equal(none.of(np.array([1, 4])), [0.0, 0.0])


@every_likelihood
@with_and_without
@pytest.mark.parametrize("v", [1e-12, 1e-6, 1e6, 1e12])
def test_extreme_variances(name, center, v):
    case = random_case(name, center)
    case = case.at(case.active[:2], np.full(2, v))
    mode = mode_of(case)
    assert np.isfinite(mode.f).all()
    assert (
        np.abs(
            gradient(case, mode)
            / np.append(np.maximum(case.v, 1) ** 0.5, np.ones(case.K))[: 2 + case.K * center]
        ).max()
        < 1e-6
    )
    assert_equal(
        mode.w, case.dense.w, scale=max(np.abs(case.dense.w).max(), 1e-3 * v**0.5), to=1e-6
    )


def evidence(case):
    quad = quadratic_at(case.latent(), mode_of(case))
    unit = case.v * quad.norm[case.active * case.group] ** 2
    return refresh(quad, Flat(), case.active, unit, 1.0).log_evidence


@pytest.mark.parametrize("v", [1.0, 1e3, 1e6, *(pytest.param(v) for v in (1e9, 1e12))])
@pytest.mark.parametrize("K", [2, 3, 5])
@with_and_without
def test_separable_classes_have_a_mode(v, K, center):
    """All rows are saturated: the least step in nats may be a long one in the latent functions."""
    x = np.repeat(np.arange(K), 6) + np.tile(np.linspace(-0.3, 0.3, 6), K)
    Phi = np.exp(-2.0 * (x[:, None] - np.arange(K)) ** 2)
    likelihood = Bernoulli() if K == 2 else Multinomial(K)
    t = np.repeat(np.arange(K), 6).astype(float)
    M = K if K == 2 else K * K
    case = LatentCase(Phi, t, None, likelihood, center, False, np.arange(M), np.full(M, v))
    assert_equal(mode_of(case).w, case.dense.w, to=1e-7)
    assert evidence(case) == pytest.approx(case.dense.log_evidence, abs=1e-6)


@pytest.mark.parametrize("v", [1.0, 1e3, *(pytest.param(v) for v in (1e6, 1e9, 1e12))])
def test_one_of_three_classes_is_separated(v):
    """Its intercept is still one: shift invariance is exact, not a small curvature."""
    rng = np.random.RandomState(0)
    x = np.concatenate([rng.uniform(-0.3, 0.3, 10), 2 + rng.uniform(-0.3, 0.3, 30)])
    t = np.concatenate([np.zeros(10), 1.0 + rng.randint(0, 2, 30)])
    Phi = np.exp(-2.0 * (x[:, None] - [0.0, 2.0]) ** 2)
    case = LatentCase(Phi, t, None, Multinomial(3), True, False, np.array([0]), np.array([v]))
    assert_equal(mode_of(case).w, case.dense.w, to=1e-7)
    assert evidence(case) == pytest.approx(case.dense.log_evidence, abs=1e-5)


@pytest.mark.parametrize("size", [1e2, 1e6, 1e12])
@with_and_without
def test_huge_counts(size, center):
    rng = np.random.RandomState(0)
    x = np.linspace(-1, 1, 30)
    Phi = np.stack([x, x**2], axis=1)
    t = np.floor(size * np.exp(x) * rng.uniform(0.5, 1.5, 30))
    case = LatentCase(Phi, t, None, Poisson(), center, False, np.arange(2), np.array([1.0, 0.5]))
    mode = mode_of(case)
    assert np.abs(gradient(case, mode)).max() < 1e-8 * t.sum()
    assert_equal(mode.f, case.dense.f, scale=1.0)
    quad = quadratic_at(case.latent(), mode)
    state = refresh(quad, Flat(), case.active, case.v * quad.norm**2, 1.0)
    assert state.log_evidence == pytest.approx(case.dense.log_evidence, rel=1e-8)


@with_and_without
@pytest.mark.parametrize("noise", [1e-6, 0.3, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_noise_needs_no_approximation(center, noise, weighted):
    """The Laplace path is the exact one: variances of unit-norm atoms, relative to the noise."""
    rng = np.random.RandomState(3)
    Phi, t = rng.standard_normal((20, 6)) + 1.0, noise**0.5 * (rng.standard_normal(20) + 2.0)
    weights = rng.randint(0, 4, 20) if weighted else None
    plain = None if weights is None else weights.astype(float)
    active, v = np.array([4, 1]), noise * np.array([0.3, 2.0])
    case = LatentCase(Phi, t, plain, Gaussian(noise), center, False, active, v)
    quad = quadratic_at(case.latent(), mode_of(case))
    state = refresh(quad, Flat(), active, v * quad.norm[active] ** 2, 1.0)
    exact_quad = weighted_quadratic(ArrayDesign(Phi), t[:, None], plain, center)
    assert_equal(quad.norm, exact_quad.norm / noise**0.5)
    exact = refresh(exact_quad, Flat(), active, v * exact_quad.norm[active] ** 2, noise)
    assert state.log_evidence == pytest.approx(exact.log_evidence, rel=1e-9, abs=1e-9)
    assert_equal(state.mu / quad.norm[active, None], exact.mu / exact_quad.norm[active, None])
    assert_equal(state.white.W, exact.white.W)
    assert_equal(screen(quad, Flat(), state).gains, screen(exact_quad, Flat(), exact).gains)
    rows, targets = oracle.repeated(Phi, weights), oracle.repeated(t, weights)[:, None]
    every = np.zeros(6)
    every[active] = v
    slow = oracle.log_evidence(rows, targets, every, noise, center)
    assert state.log_evidence == pytest.approx(slow, rel=1e-9, abs=1e-9)


@every_likelihood
@with_and_without
def test_a_weight_of_two_is_a_row_given_twice(name, center):
    case = random_case(name, center)
    counts = np.random.RandomState(1).randint(0, 4, len(case.t))
    counts[:5] = 2
    one = LatentCase(
        case.Phi, case.t, counts.astype(float), case.likelihood, center, False, case.active, case.v
    )
    rows = np.repeat(np.arange(len(case.t)), counts)
    two = LatentCase(
        case.Phi[rows], case.t[rows], None, case.likelihood, center, False, case.active, case.v
    )
    assert_equal(mode_of(one).w, mode_of(two).w)
    quads = [quadratic_at(each.latent(), mode_of(each)) for each in (one, two)]
    states = [
        refresh(q, Flat(), case.active, case.v * q.norm[case.active] ** 2, 1.0) for q in quads
    ]
    assert states[0].log_evidence == pytest.approx(states[1].log_evidence, rel=1e-10)
    screens = [screen(q, Flat(), state) for q, state in zip(quads, states, strict=True)]
    for name in ("S", "Q", "gains", "v", "X"):
        assert_equal(*(getattr(each, name) for each in screens), scale=1.0)


@pytest.mark.parametrize("name", CLASSES)
@with_and_without
@pytest.mark.parametrize("shared", [False, True])
def test_permuting_classes_permutes_everything(name, center, shared):
    case = random_case(name, center, shared)
    K, group = case.K, case.group
    to = np.random.RandomState(0).permutation(K)  # class k is called to[k]
    active = case.active if shared else case.active // K * K + to[case.active % K]
    t = to[case.t.astype(int)].astype(float)
    other = LatentCase(case.Phi, t, None, case.likelihood, center, shared, active, case.v)
    one, two = mode_of(case), mode_of(other)
    renamed = np.arange(case.Phi.shape[1])[:, None] * K + to  # where each column has gone
    if not shared:
        assert_equal(two.w, one.w)
    assert_equal(without_gauge(two.f)[:, to], without_gauge(one.f))
    quads = [quadratic_at(each.latent(), mode) for each, mode in ((case, one), (other, two))]
    assert_equal(quads[1].norm[renamed.ravel()], quads[0].norm)
    states = [
        refresh(quad, Flat(), each.active, case.v * quad.norm[each.active * group] ** 2, 1.0)
        for quad, each in zip(quads, (case, other), strict=True)
    ]
    assert states[0].log_evidence == pytest.approx(states[1].log_evidence, rel=1e-10)
    before, after = (screen(q, Flat(), s) for q, s in zip(quads, states, strict=True))
    assert_equal(after.Q[renamed.ravel()], before.Q, scale=1.0)
    gains = after.gains if shared else after.gains[renamed.ravel()]
    assert_equal(gains, before.gains, scale=1.0)


@pytest.mark.parametrize("name", CLASSES)
def test_an_atom_shifted_by_a_constant_is_the_same_atom_beside_an_intercept(name):
    case = random_case(name)
    shifted = LatentCase(
        case.Phi + [1.0, -30.0, 0.0, 300.0],
        case.t,
        None,
        case.likelihood,
        True,
        False,
        case.active,
        case.v,
    )
    one, two = mode_of(case), mode_of(shifted)
    assert_equal(two.w, one.w)
    assert_equal(without_gauge(two.f), without_gauge(one.f))
    quads = [quadratic_at(each.latent(), mode) for each, mode in ((case, one), (shifted, two))]
    assert_equal(quads[1].norm, quads[0].norm)
    assert_equal(quads[1].g, quads[0].g)
    assert quads[1].log_offset == pytest.approx(quads[0].log_offset, rel=1e-9)
    every = np.arange(quads[0].size)
    assert_equal(quads[1].columns(every), quads[0].columns(every))
    assert_equal(quads[1].gram(every).G, quads[0].gram(every).G)


@pytest.mark.parametrize("name", CLASSES)
def test_a_shift_of_all_latent_functions_changes_nothing(name):
    case = random_case(name)
    mode = mode_of(case)
    lifted = mode._replace(c=mode.c + 5.0, f=mode.f + 5.0)
    one, two = (quadratic_at(case.latent(), each) for each in (mode, lifted))
    assert two.log_offset == pytest.approx(one.log_offset, rel=1e-9)
    assert_equal(two.g, one.g)
    assert_equal(two.offset, one.offset, scale=1.0)


def test_two_classes_as_a_multinomial_with_half_the_variance_twice():
    """f_1 - f_0 of two latent functions with variance v each has variance 2 v."""
    case = random_case("bernoulli")
    a = np.array([0, 2])
    one = LatentCase(case.Phi, case.t, None, Bernoulli(), True, False, a, 2 * np.array([0.4, 3.0]))
    two = LatentCase(case.Phi, case.t, None, Multinomial(2), True, True, a, np.array([0.4, 3.0]))
    m1, m2 = mode_of(one), mode_of(two)
    assert_equal(m2.f[:, 1] - m2.f[:, 0], m1.f[:, 0])
    w = m2.w.reshape(2, 2)
    assert_equal(w[:, 1] - w[:, 0], m1.w)
    values = []
    for case, mode in ((one, m1), (two, m2)):
        quad = quadratic_at(case.latent(), mode)
        unit = case.v * quad.norm[case.active * case.group] ** 2
        values.append(refresh(quad, Flat(), case.active, unit, 1.0).log_evidence)
    # The intercept counts in f_1 - f_0 here, in a unit vector of the two there.
    assert values[1] - values[0] == pytest.approx(-0.5 * np.log(2), abs=1e-8)


@every_likelihood
@with_and_without
def test_alone_active_columns_are_those_among_all_and_the_others_are_void(name, center):
    for shared in [False, True] if LIKELIHOODS[name].n_latent > 1 else [False]:
        case = random_case(name, center=center, shared=shared)
        mode = mode_of(case)
        whole, alone = (quadratic_at(case.latent(), mode, one) for one in (False, True))
        own = whole.members(case.active)
        others = np.setdiff1d(np.arange(len(whole.g)), own)
        assert_equal(alone.columns(case.active)[:, own], whole.columns(case.active)[:, own])
        assert_equal(alone.gram(case.active).G, whole.gram(case.active).G)
        assert_equal(alone.g[own], whole.g[own])
        assert_equal(alone.blocks[case.active], whole.blocks[case.active])
        assert alone.log_offset == pytest.approx(whole.log_offset, rel=1e-9)
        assert not alone.columns(case.active)[:, others].any()
        assert not alone.g[others].any()


@every_likelihood
def test_no_atoms(name):
    case = random_case(name).at(NONE, [])
    mode = mode_of(case)
    assert_equal(without_gauge(mode.f), without_gauge(case.dense.f), scale=1.0)
    quad = quadratic_at(case.latent(), mode)
    state = refresh(quad, Flat(), NONE, np.empty(0), 1.0)
    assert state.log_evidence == pytest.approx(case.dense.log_evidence, rel=1e-9)
    if name in CLASSES:  # the share of each class
        p = np.exp(mode.f[0]) / np.exp(mode.f[0]).sum()
        assert_equal(p, np.bincount(case.t.astype(int)) / len(case.t))


@every_likelihood
@with_and_without
def test_wide_kernels_keep_their_digits(name, center):
    """Nearly constant atoms: against the same atoms, the constant taken off beforehand."""
    rng = np.random.RandomState(0)
    likelihood = LIKELIHOODS[name]
    x, z = rng.uniform(-1, 1, 30), np.array([-0.5, 0.1, 0.9])
    exponent = -((x[:, None] - z) ** 2) * 1e-6
    t = draw_targets(rng, likelihood, 30)
    active = np.array([0, 2 * likelihood.n_latent])
    for Phi in (np.exp(exponent), np.expm1(exponent)):
        case = LatentCase(Phi, t, None, likelihood, center, False, active, np.array([1e12, 1e11]))
        mode = mode_of(case)
        assert np.isfinite(mode.f).all()
        quad = quadratic_at(case.latent(), mode)
        if Phi[0, 0] > 0.5:
            first, wide = mode, quad
    if not center:
        return
    assert_equal(without_gauge(first.f), without_gauge(mode.f), scale=1.0, to=1e-7)
    assert_equal(wide.norm, quad.norm, to=1e-7)
    every = np.arange(wide.size)
    assert_equal(wide.columns(every), quad.columns(every), to=1e-7)
    assert_equal(wide.gram(every).G, quad.gram(every).G, to=1e-7)
    assert_equal(wide.g, quad.g, to=1e-7)


def test_a_subset_of_rows_or_atoms():
    case = random_case("three classes", weighted=True)
    latent = case.latent()
    rows, atoms = np.array([3, 0, 1, 2, 9]), np.array([2, 0])
    fewer = latent.take(rows)
    np.testing.assert_array_equal(fewer.t, case.t[rows])
    np.testing.assert_array_equal(fewer.weights, case.weights[rows])
    np.testing.assert_array_equal(fewer.design.Phi, case.Phi[rows])
    np.testing.assert_array_equal(latent.restrict(atoms).design.Phi, case.Phi[:, atoms])
    assert random_case("poisson").latent().take(rows).weights is None


def test_what_float64_cannot_factorize_is_a_breakdown():
    case = random_case("gaussian")
    copies = replace(case, Phi=case.Phi[:, [0, 0, 0, 1]], likelihood=Gaussian(1e-8))
    with pytest.raises(Breakdown):
        mode_of(copies.at([0, 1, 2], [1e13, 2e13, 3e13]))
