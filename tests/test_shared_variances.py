"""Atoms of several columns that share a variance: statistics, gains, derivatives, additions."""

import numpy as np
import pytest
from hypothesis import given

import oracle
from pairwise import pairwise
from random_latent_problems import CLASSES, blobs, latent_cases
from random_problems import PRIORS, examples, priors, random_case
from sparsebayes.core.quadratic import Gram, members
from sparsebayes.engine import per_column, refresh, screen, without_self
from sparsebayes.hyperpriors import Flat, Smoothness, best_variance, gain
from sparsebayes.laplace import find_mode, quadratic_at
from sparsebayes.likelihoods import Multinomial
from sparsebayes.problem import Problem, certify
from sparsebayes.solvers.climb import Run, additions, climb
from sparsebayes.solvers.newton import Noise, curvature, derivatives, newton, prune

UNIT = Noise(1.0, False, 1e-9)
shared_cases = latent_cases(CLASSES, shared=True, max_active=4)


class Shared:
    """A case, its quadratic, and the objective of any variances (M,), by definition."""

    def __init__(self, case, prior):
        self.case, self.prior, self.K = case, prior, case.K
        mode = find_mode(case.latent(), case.columns, case.v_columns)
        self.quad = quadratic_at(case.latent(), mode)
        self.norm = self.quad.norm[:: self.K]  # one for all columns of an atom
        self.unit = case.v * self.norm[case.active] ** 2
        self.state = refresh(self.quad, prior, case.active, self.unit, 1.0)
        self.v = np.zeros(self.quad.size)
        self.v[case.active] = self.unit

    def objective(self, v):
        """Of variances of unit-norm columns, zero out of the model; the expansion held."""
        given = v / np.where(self.norm > 0, self.norm, 1.0) ** 2
        inside = v != 0
        prior = self.prior.log_density(v[inside], 1.0).sum()
        return self.case.frozen.value(np.repeat(given, self.K)) + prior

    def at(self, j, v_j):
        v = self.v.copy()
        v[j] = v_j
        return self.objective(v)


@examples(40)
@given(shared_cases, priors)
def test_predicted_gain_is_the_change_of_the_expansion_held(case, prior):
    this = Shared(case, prior)
    seen = screen(this.quad, prior, this.state)
    here = this.objective(this.v)
    assert np.all(seen.gains > -1e-9)
    for j in np.flatnonzero(this.norm):
        there = this.at(j, seen.v[j])
        assert seen.gains[j] == pytest.approx(there - here, rel=1e-7, abs=1e-7 * (1 + abs(here)))


@examples(20)
@given(shared_cases, priors)
def test_no_other_variance_gains_more(case, prior):
    this = Shared(case, prior)
    seen = screen(this.quad, prior, this.state)
    here = this.objective(this.v)
    for j in {0, *case.active[:1].tolist()}:
        for v_j in np.append(0.0, np.logspace(-4, 4, 33)) if this.norm[j] else [0.0]:
            assert this.at(j, v_j) - here <= seen.gains[j] + 1e-8 * (1 + abs(here))


@examples(30)
@given(shared_cases, priors)
def test_statistics_of_atoms_out_of_their_own_model(case, prior):
    """What they say of any variance is what taking the atom out and putting it back does."""
    this = Shared(case, prior)
    s, q2 = without_self(this.state.v, this.state.white)
    assert not case.active.size or s.shape == q2.shape == (case.active.size, case.K)
    for i, j in enumerate(case.active):
        out = this.at(j, 0.0)
        for v in (0.01, 1.0, 30.0):
            found = gain(prior, s[[i]], q2[[i]], np.array([v]), 1.0)[0]
            assert found == pytest.approx(this.at(j, v) - out, rel=1e-7, abs=1e-7)
            back = gain(prior, s[[i]], q2[[i]], np.array([v]), 1.0, v_now=this.state.v[[i]])[0]
            want = this.at(j, v) - this.objective(this.v)
            assert back == pytest.approx(want, rel=1e-7, abs=1e-7)


@examples(40)
@given(shared_cases, priors)
def test_gradient_and_hessian_are_those_of_the_objective(case, prior):
    """By complex steps, which are exact, and differences of them."""
    this = Shared(case, prior)
    m = case.active.size
    gram = this.quad.gram(case.active)
    assert gram.group == case.K
    gradient, H = derivatives(gram, prior, this.state.v, UNIT, this.state.white)

    def slopes(v):
        turns = np.exp(1j * oracle.STEP * np.eye(m))
        every = np.tile(this.v.astype(complex), (m, 1))
        every[:, case.active] = v * turns
        return np.array([this.objective(each).imag / oracle.STEP for each in every])

    np.testing.assert_allclose(gradient, slopes(this.state.v), rtol=1e-8, atol=1e-8)
    h = 1e-4
    for i in range(m):
        up, down = (slopes(this.state.v * np.exp(sign * h * np.eye(m)[i])) for sign in (1, -1))
        np.testing.assert_allclose(H[i], (up - down) / (2 * h), rtol=1e-6, atol=1e-6)


def as_two_targets(seed, m=12, k=3, center=False):
    """A problem with two targets, and the same with two columns for each atom."""
    case = random_case(seed, n=30, m=m, k=k, n_targets=2, center=center, noise=0.5)
    plain = case.quad().gram(np.arange(m))
    one = Gram(plain.G * 4, plain.g * 4, tt=0.0, n=0.0, spread=1.0, log_offset=0.3)
    two = Gram(
        np.kron(one.G, np.eye(2)), one.g.reshape(-1, 1), 0.0, 0.0, 1.0, log_offset=0.3, group=2
    )
    return one, two


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_columns_that_do_not_interact_are_several_targets(prior, seed):
    one, two = as_two_targets(seed)
    assert one.size == two.size == 12
    active, v = np.array([7, 0, 3]), np.array([0.2, 3.0, 0.01])
    a, b = (refresh(gram, prior, active, v, 1.0) for gram in (one, two))
    assert b.objective == pytest.approx(a.objective, rel=1e-12)
    np.testing.assert_allclose(b.mu.reshape(3, 2), a.mu, rtol=1e-10)
    np.testing.assert_allclose(b.Sigma[::2, ::2], a.Sigma, rtol=1e-10, atol=1e-14)
    seen_a, seen_b = (screen(gram, prior, state) for gram, state in ((one, a), (two, b)))
    np.testing.assert_allclose(seen_b.gains, seen_a.gains, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(seen_b.v, seen_a.v, rtol=1e-4)
    np.testing.assert_allclose(seen_b.S, np.repeat(seen_a.S[:, None], 2, axis=1), rtol=1e-9)
    np.testing.assert_allclose(seen_b.Q.reshape(-1, 2), seen_a.Q, rtol=1e-9, atol=1e-9)
    for x, y in zip(
        derivatives(one.gram(active), prior, v, UNIT, a.white),
        derivatives(two.gram(active), prior, v, UNIT, b.white),
        strict=True,
    ):
        np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-12)
    ends = [converged(Problem(g, prior, 1.0), s) for g, s in ((one, a), (two, b))]
    np.testing.assert_array_equal(np.sort(ends[0].active), np.sort(ends[1].active))
    assert ends[1].objective == pytest.approx(ends[0].objective, abs=1e-7)


def converged(problem, state):
    """Climb, and then all the way: a climb itself is content with its last addition."""
    run = Run(problem, 1000, None, False)
    state = climb(run, state, UNIT, 1e-8, "climb")
    return run.newton(state.active, state.v, UNIT, tol=1e-12)


@examples(30)
@given(shared_cases, priors)
def test_newton_never_descends_and_ends_where_it_says(case, prior):
    this = Shared(case, prior)
    gram = this.quad.gram(case.active)
    end = newton(gram, prior, this.state.v, UNIT, tol=1e-10, escape=True)
    assert end.objective >= this.state.objective - 1e-9 * (1 + abs(this.state.objective))
    exact = refresh(gram, prior, end.kept, end.v, 1.0)
    assert exact.objective == pytest.approx(end.objective, rel=1e-9)
    if end.converged and end.v.size:
        gradient, H = derivatives(gram.gram(end.kept), prior, end.v, UNIT, end.white)
        assert np.abs(gradient).max() < 1e-3
        assert curvature(H)[0] < 1e-3


@examples(30)
@given(shared_cases, priors)
def test_prune_deletes_the_most_worthless_atom_and_gains_by_it(case, prior):
    this = Shared(case, prior)
    keep = prune(prior, this.state.v, 1.0, this.state.white)
    s, q2 = without_self(this.state.v, this.state.white)
    doomed = np.flatnonzero(best_variance(prior, s, q2, 1.0) <= 0)
    assert keep.size == case.active.size
    assert (~keep).sum() == min(doomed.size, 1)
    if doomed.size:
        changes = [this.at(case.active[i], 0.0) - this.objective(this.v) for i in doomed]
        assert max(changes) >= -1e-9
        assert np.flatnonzero(~keep)[0] == doomed[np.argmax(changes)]


def greedy(quad, prior, state, among, tol, stale=0.05):
    """Add the best of some atoms, the other variances held, everything from definitions."""
    added, first = [], None
    while True:
        seen = screen(quad, prior, state)
        gains = np.where(np.isin(np.arange(quad.size), among), seen.gains, 0.0)
        gains[state.active] = 0.0
        j = int(np.argmax(gains))
        if gains[j] <= tol or gains[j] < stale * (first or 0.0):
            return added, state
        first = first or gains[j]
        added.append(j)
        active, v = np.append(state.active, j), np.append(state.v, seen.v[j])
        before, state = state, refresh(quad, prior, active, v, 1.0)
        assert state.objective - before.objective == pytest.approx(gains[j], abs=1e-8)


@pairwise(K=[3, 5], prior=PRIORS, shared=[True, False])
def test_additions_are_those_of_definitions(K, prior, shared):
    case = blobs(K, Multinomial(K), n=40, gamma=1.0, shared=shared)
    latent = case.latent()
    none = np.empty(0, dtype=np.intp)
    quad = quadratic_at(latent, find_mode(latent, none, np.empty(0)))
    group = K if shared else 1
    assert quad.group == group
    start = np.array([3, 20])
    for active in (none, start):
        state = refresh(quad, prior, active, np.full(active.size, 0.5), 1.0)
        problem = Problem(quad, prior, 1.0)
        seen = screen(quad, prior, state)
        gains = seen.gains.copy()
        gains[active] = 0.0
        top = np.argsort(-gains, kind="stable")[:64]
        added, v = additions(problem, state, seen, gains, 1e-3)
        slow, end = greedy(quad, prior, state, top[gains[top] > 1e-3], 1e-3)
        assert added.size > 1
        np.testing.assert_array_equal(added, slow)
        np.testing.assert_allclose(v, end.v[active.size :], rtol=1e-4)
        fast = refresh(quad, prior, np.append(active, added), np.append(state.v, v), 1.0)
        assert fast.objective == pytest.approx(end.objective, abs=1e-6)


@pytest.mark.parametrize("prior", [Flat(), Smoothness(2.0)], ids=repr)
def test_a_climb_leads_to_where_the_certificate_holds(prior):
    case = blobs(0, Multinomial(3), n=40, shared=True)
    latent = case.latent()
    none = np.empty(0, dtype=np.intp)
    problem = Problem(quadratic_at(latent, find_mode(latent, none, np.empty(0))), prior, 1.0)
    state = refresh(problem.quad, prior, none, np.empty(0), 1.0)
    end = converged(problem, state)
    assert end.active.size > 0
    assert end.objective > state.objective
    assert certify(problem, end, UNIT)[0].holds(1e-6)


def test_members_and_variances_of_columns():
    np.testing.assert_array_equal(members(np.array([4, 1]), 1), [4, 1])
    np.testing.assert_array_equal(members(np.array([4, 1]), 3), [12, 13, 14, 3, 4, 5])
    np.testing.assert_array_equal(per_column(np.array([2.0, 3.0]), 4), [2, 2, 3, 3])
    np.testing.assert_array_equal(per_column(np.array([2.0, 3.0]), 2), [2, 3])
    rng = np.random.RandomState(0)
    P = rng.standard_normal((9, 6))
    gram = Gram(P.T @ P, rng.standard_normal((6, 1)), 0.0, 0.0, 1.0, group=3)
    assert gram.size == 2
    np.testing.assert_array_equal(gram.columns(np.array([1])), gram.G[3:])
    np.testing.assert_array_equal(gram.blocks, [gram.G[:3, :3], gram.G[3:, 3:]])
    few = gram.gram(np.array([1]))
    np.testing.assert_array_equal(few.G, gram.G[3:, 3:])
    np.testing.assert_array_equal(few.g, gram.g[3:])
    assert (few.group, few.size) == (3, 1)


def test_a_copy_of_a_strong_active_atom_gains_nothing():
    rng = np.random.RandomState(1)
    P = rng.standard_normal((20, 3)) / 20**0.5
    P = np.hstack([P, -P, P + 1e-7 * rng.standard_normal((20, 3))])
    t = P[:, :3] @ [[5.0], [-3.0], [2.0]]
    gram = Gram(P.T @ P * 1e8, P.T @ t * 1e8, 0.0, 0.0, 1.0, group=3)
    state = refresh(gram, Flat(), np.array([0]), np.array([25.0]), 1.0)
    seen = screen(gram, Flat(), state, collinear=1e-6)
    assert not seen.v[1:].any()
    assert not seen.gains[1:].any()
