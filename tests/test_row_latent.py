"""Latent functions on rows that are kept elsewhere: the same as in memory, however rows are cut."""

import operator
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pairwise import in_turn
from random_latent_problems import (
    LIKELIHOODS,
    LatentCase,
    blobs,
    draw_targets,
    latent_cases,
    without_gauge,
)
from random_problems import examples, seeds
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.laplace import Latent, Start, find_mode, quadratic_at
from sparsebayes.likelihoods import Bernoulli, Expansion, Multinomial, Poisson
from sparsebayes.rows import LocalRows, open_source, quadratics
from sparsebayes.rows.kinds import by_kind
from sparsebayes.rows.latent import RowLatent
from sparsebayes.rows.products import Curvature, Functions, Looks, Screens
from sparsebayes.solvers import relinearize
from sparsebayes.solvers.expand import Fit, LatentProblem, Point, expand, settle

every_likelihood = pytest.mark.parametrize("name", [*LIKELIHOODS, "own"])
with_and_without = pytest.mark.parametrize("center", [True, False])
NONE = np.empty(0, dtype=np.intp)


@dataclass(frozen=True)
class Cauchyish:
    """A user's own likelihood: log cosh of the residual, twice."""

    n_latent: int = 1

    def check(self, y):
        return np.asarray(y, dtype=float)

    def expand(self, t, f):
        r = t - f[:, 0]
        tanh = np.tanh(r)
        value = -2 * (np.abs(r) + np.log1p(np.exp(-2 * np.abs(r))))
        return Expansion(value, 2 * tanh[:, None], 2 * (1 - tanh**2)[:, None, None])

    def predictive(self, mean, covariance):
        raise NotImplementedError


def likelihood_of(name):
    return Cauchyish() if name == "own" else LIKELIHOODS[name]


def rows_of(X, t, weights=None, block_rows=4, threads=1):
    return LocalRows(open_source(X, t, weights), block_rows, threads)


def on_rows(case, block_rows=4, threads=1, reference=None, Phi=None):
    """The same problem on rows: atoms are the columns of X."""
    Phi = case.Phi if Phi is None else Phi
    rows = rows_of(Phi, case.t, case.weights, block_rows, threads)
    if reference is None:
        reference = np.asarray(Phi[: max(2, len(case.t) // 3)].mean(axis=0)).ravel()
    return RowLatent(
        rows, Linear().bind(Phi), case.likelihood, case.center, case.shared, reference, len(case.t)
    )


def assert_equal(fast, slow, to=1e-11, scale=None):
    fast, slow = np.asarray(fast), np.asarray(slow)
    assert fast.shape == slow.shape
    scale = np.abs(slow).max(initial=0.0) if scale is None else scale
    np.testing.assert_allclose(fast, slow, rtol=to, atol=to * scale)


def assert_same_quadratic(one, two, to=1e-11):
    """Quadratics are the same, but for a shift of all latent functions that changes nothing."""
    assert_equal(one.norm, two.norm, to)
    assert_equal(one.diag, two.diag, to)
    assert_equal(one.g, two.g, to)
    assert_equal(one.blocks, two.blocks, to, scale=1.0)
    assert_equal(one.mean, two.mean, to)
    assert_equal(one.tilt, two.tilt, to, scale=np.abs(two.mean).max())
    assert_equal(one.offset, two.offset, to, scale=1.0)
    assert one.log_offset == pytest.approx(two.log_offset, rel=to, abs=to)
    every = np.arange(two.size)
    assert_equal(one.gram(every).G, two.gram(every).G, to, scale=1.0)
    assert_equal(one.columns(every), two.columns(every), to, scale=1.0)
    assert_equal(one.gram(every[::-1]).G, two.gram(every[::-1]).G, to, scale=1.0)
    columns = np.arange(len(two.norm))
    assert_equal(one.centers(columns), two.centers(columns), to)


def same_mode(latent, case, rows, to=1e-10):
    """The mode in memory, after it was found on rows to be the same."""
    slow = find_mode(latent, case.columns, case.v_columns)
    fast = find_mode(rows, case.columns, case.v_columns)
    assert_equal(fast.w, slow.w, to)
    c = (without_gauge(each.c) if case.center else each.c for each in (fast, slow))
    assert_equal(*c, to, scale=1.0 + np.abs(slow.f).max())
    assert fast.penalty == pytest.approx(slow.penalty, rel=to, abs=to)
    assert fast.log_likelihood == pytest.approx(slow.log_likelihood, rel=to)
    return fast, slow


def random_case(name, seed=0, n=23, m=4, center=True, shared=False, weighted=False):
    rng, likelihood = np.random.RandomState(seed), likelihood_of(name)
    Phi = rng.standard_normal((n, m)) * [1.0, 10.0, 0.1, 3.0][:m] + [0.0, 1.0, 5.0, -2.0][:m]
    t = rng.standard_normal(n) if name == "own" else draw_targets(rng, likelihood, n)
    weights = None
    if weighted:
        weights = rng.uniform(0.5, 2.0, n)
        weights[-5::2] = 0.0
    per_atom = 1 if shared else likelihood.n_latent
    active = rng.permutation(m * per_atom)[:3]
    v = np.array([2.0, 0.5, 1.0]) / np.mean(Phi**2, axis=0)[active // per_atom]
    return LatentCase(Phi, t, weights, likelihood, center, shared, active, v)


@every_likelihood
@in_turn(block_rows=[1, 4, 23, 100], center=[True, False, False, True], weighted=[True, False])
def test_mode_and_quadratic_are_those_in_memory(name, center, weighted, block_rows):
    for shared in [False, True] if likelihood_of(name).n_latent > 1 else [False]:
        case = random_case(name, center=center, shared=shared, weighted=weighted)
        rows = on_rows(case, block_rows)
        fast, slow = same_mode(case.latent(), case, rows)
        assert_same_quadratic(rows.quadratic(fast), quadratic_at(case.latent(), slow), 1e-10)


@examples(30)
@given(latent_cases(), st.integers(1, 15), st.booleans())
def test_any_small_problem(case, block_rows, whole):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quadratics, "WHOLE", 10_000 if whole else 0)
        rows = on_rows(case, block_rows)
        fast, slow = same_mode(case.latent(), case, rows, 1e-7)
        assert_same_quadratic(rows.quadratic(fast), quadratic_at(case.latent(), slow), 1e-6)


@every_likelihood
@with_and_without
def test_of_many_atoms_one_pass_finds_what_a_screen_needs(name, center, monkeypatch):
    monkeypatch.setattr(quadratics, "WHOLE", 0)
    for shared in [False, True] if likelihood_of(name).n_latent > 1 else [False]:
        case = random_case(name, center=center, shared=shared)
        latent, rows = case.latent(), on_rows(case)
        mode = find_mode(rows, case.columns, case.v_columns)
        before = rows.rows.meter.passes
        quad = rows.quadratic(mode)
        slow = quadratic_at(latent, find_mode(latent, case.columns, case.v_columns))
        assert_equal(quad.columns(case.active), slow.columns(case.active), 1e-9, scale=1.0)
        assert_equal(quad.gram(case.active).G, slow.gram(case.active).G, 1e-9, scale=1.0)
        assert rows.rows.meter.passes == before + 1
        every = np.arange(quad.size)
        others = np.setdiff1d(every, case.active)
        assert_equal(quad.gram(others).G, slow.gram(others).G, 1e-9, scale=1.0)  # few columns
        passes = before + 1 + (others.size > 0)
        assert rows.rows.meter.passes == passes
        assert_equal(quad.gram(every).G, slow.gram(every).G, 1e-9, scale=1.0)  # kept ones and not
        assert rows.rows.meter.passes == passes  # and the block of all the others is known
        assert_same_quadratic(quad, slow, 1e-9)


@every_likelihood
@with_and_without
def test_alone_needs_no_pass(name, center):
    for shared in [False, True] if likelihood_of(name).n_latent > 1 else [False]:
        case = random_case(name, center=center, shared=shared, weighted=True)
        latent, rows = case.latent(), on_rows(case)
        mode = find_mode(rows, case.columns, case.v_columns)
        before = rows.rows.meter.passes
        quad = rows.quadratic(mode, alone=True)
        slow = quadratic_at(latent, find_mode(latent, case.columns, case.v_columns))
        a, columns = case.active, case.columns
        assert_equal(quad.norm[columns], slow.norm[columns], 1e-9)
        assert_equal(quad.gram(a).G, slow.gram(a).G, 1e-9, scale=1.0)
        assert_equal(quad.gram(a).g, slow.gram(a).g, 1e-9)
        assert_equal(quad.blocks[a], slow.blocks[a], 1e-9, scale=1.0)
        assert quad.log_offset == pytest.approx(slow.log_offset, rel=1e-10)
        # Where the latent functions are, but for a shift of all of them.
        one, two = (q.offset - q.centers(columns).T @ mode.w for q in (quad, slow))
        assert_equal(*(without_gauge(c) if center else c for c in (one, two)), 1e-8, scale=1.0)
        assert not np.delete(quad.norm, columns).any()
        assert rows.rows.meter.passes == before


@every_likelihood
def test_threads_and_blocks_change_rounding_alone(name):
    case = random_case(name, n=200, weighted=True)
    found = []
    for block_rows, threads in ((7, 2), (7, 1), (200, 1)):
        rows = on_rows(case, block_rows, threads)
        mode = find_mode(rows, case.columns, case.v_columns)
        found.append((mode.w, mode.c, rows.quadratic(mode).g))
    for one, two in zip(found[0], found[1], strict=True):
        np.testing.assert_array_equal(one, two)  # merged in order
    for one, two in zip(found[0], found[2], strict=True):
        assert_equal(one, two, 1e-11)


@every_likelihood
def test_rows_of_weight_zero_may_hold_anything(name):
    case = random_case(name, weighted=True)
    used = np.flatnonzero(case.weights)
    spoiled = case.Phi.copy()
    spoiled[case.weights == 0] = 1e200
    fewer = replace(case, Phi=case.Phi[used], t=case.t[used], weights=case.weights[used])
    one = on_rows(case, 3, Phi=spoiled, reference=np.zeros(4))
    two = on_rows(fewer, 3, reference=np.zeros(4))
    modes = [find_mode(each, case.columns, case.v_columns) for each in (one, two)]
    assert_equal(modes[0].w, modes[1].w)
    assert_same_quadratic(one.quadratic(modes[0]), two.quadratic(modes[1]))


@pytest.mark.parametrize("name", ["bernoulli", "three classes", "poisson"])
@pytest.mark.parametrize("far", [0.0, 1e3, 1e8])
def test_a_far_mean_costs_no_digits(name, far):
    """About a reference that is a little off; and from a reference of zero, summed again."""
    case = random_case(name)
    moved = replace(case, Phi=case.Phi + far)
    exact = case.Phi + far - far
    plain = replace(case, Phi=exact)
    reference = moved.Phi[:9].mean(axis=0)
    one, two = on_rows(moved, reference=reference), on_rows(plain)
    modes = [find_mode(each, case.columns, case.v_columns) for each in (one, two)]
    assert_equal(modes[0].w, modes[1].w, 1e-9)
    quads = [each.quadratic(mode) for each, mode in zip((one, two), modes, strict=True)]
    assert_equal(quads[0].norm, quads[1].norm, 1e-9)
    every = np.arange(quads[0].size)
    assert_equal(quads[0].gram(every).G, quads[1].gram(every).G, 1e-9, scale=1.0)
    assert_equal(quads[0].g, quads[1].g, 1e-8)
    assert one.rows.meter.passes == two.rows.meter.passes
    if far == 1e3:
        blind = replace(one, reference=np.zeros(4))
        again = blind.quadratic(find_mode(blind, NONE, np.empty(0)))
        known = two.quadratic(find_mode(two, NONE, np.empty(0)))
        assert_equal(again.norm, known.norm, 1e-9)
        assert_equal(again.g, known.g, 1e-8)
        assert one.rows.meter.passes == two.rows.meter.passes + 1


def test_a_constant_atom_is_none():
    case = random_case("bernoulli", m=3)
    Phi = np.column_stack([case.Phi, np.full(len(case.t), 0.1), np.full(len(case.t), 1e8)])
    for reference in (Phi[:7].mean(axis=0), np.zeros(5)):
        rows = on_rows(replace(case, Phi=Phi), reference=reference)
        quad = rows.quadratic(find_mode(rows, NONE, np.empty(0)))
        np.testing.assert_array_equal(quad.diag, [1, 1, 1, 0, 0])
    # without an intercept it is one like any other
    rows = on_rows(replace(case, Phi=Phi, center=False))
    quad = rows.quadratic(find_mode(rows, NONE, np.empty(0)))
    np.testing.assert_array_equal(quad.diag, np.ones(5))


@every_likelihood
def test_sparse_rows(name):
    case = random_case(name)
    Phi = case.Phi * (np.random.RandomState(1).uniform(size=case.Phi.shape) < 0.4)
    case = replace(case, Phi=Phi)
    dense, sparse = on_rows(case), on_rows(case, Phi=sp.csr_matrix(Phi))
    modes = [find_mode(each, case.columns, case.v_columns) for each in (dense, sparse)]
    assert_equal(modes[1].w, modes[0].w)
    assert_same_quadratic(sparse.quadratic(modes[1]), dense.quadratic(modes[0]))


def test_starts_are_looked_at_in_one_pass():
    case = random_case("bernoulli", n=60)
    rows = on_rows(case, 16)
    mode = find_mode(rows, case.columns, case.v_columns)
    there = Start(case.columns, mode.w, mode.c)
    begun = rows.rows.meter.passes
    again = find_mode(rows, case.columns, case.v_columns, (there, there))
    assert rows.rows.meter.passes - begun == 2  # a look, and one at where its step leads
    assert_equal(again.w, mode.w, 1e-9)
    far = Start(case.columns, mode.w + 100.0, mode.c)
    begun = rows.rows.meter.passes
    again = find_mode(rows, case.columns, case.v_columns, (far, there))
    assert rows.rows.meter.passes - begun == 3
    assert_equal(again.w, mode.w, 1e-9)


@every_likelihood
def test_nothing_as_long_as_the_data_travels(name):
    """Statistics and what they find can be pickled, and do not grow with the rows."""
    sizes = []
    for n in (40, 400):
        case = random_case(name, n=n)
        K = case.K
        functions = Functions.of(case.columns, np.ones(case.columns.size), np.zeros(K))
        parts = Linear().bind(case.Phi), np.zeros(4), case.likelihood, functions, case.columns
        metric = Curvature(case.likelihood, functions)
        screens = Screens(*parts[:2], metric, case.columns, True)
        for statistic in (Looks(*parts, (functions,), functions), screens):
            sent = pickle.loads(pickle.dumps(statistic))
            found = on_rows(case, n).rows.fold(sent)
            sizes.append((len(pickle.dumps(statistic)), len(pickle.dumps(found))))
    assert sizes[:2] == sizes[2:]


@pytest.mark.parametrize("name", ["bernoulli", "three classes", "poisson"])
def test_a_whole_fit_on_rows(name):
    """The same solver, the same path: the same optimum as in memory."""
    likelihood = LIKELIHOODS[name]
    rng = np.random.RandomState(2)
    case = blobs(3, likelihood, n=60)
    Phi = np.ascontiguousarray(case.Phi[:, rng.permutation(60)[:25]])
    case = replace(case, Phi=Phi)
    rows = on_rows(case, 17)
    slow = relinearize.solve(LatentProblem(case.latent(), Smoothness(1.0)), tol=1e-6)
    fast = relinearize.solve(LatentProblem(rows, Smoothness(1.0)), tol=1e-6)
    assert fast.converged
    np.testing.assert_array_equal(np.sort(fast.state.active), np.sort(slow.state.active))
    assert fast.state.objective == pytest.approx(slow.state.objective, abs=1e-8)
    assert fast.log_evidence == pytest.approx(slow.log_evidence, abs=1e-8)
    assert fast.n_iter == slow.n_iter


def test_settling_takes_looks_with_active_atoms_alone():
    case = blobs(1, Bernoulli(), n=50)
    rows = on_rows(case, 50)
    point = Point(np.array([0, 1, 7]), np.array([1.0, 1.0, 0.5]))
    asked = []

    class Counted(LocalRows):
        def fold(self, statistic, *rest):
            asked.append((type(statistic).__name__, statistic.atoms.size))
            return super().fold(statistic, *rest)

    counted = replace(rows, rows=Counted(rows.rows.source, 50))
    one = settle(Fit(counted, Flat(), 1000, None), counted, point, 1e-9)
    two = settle(Fit(case.latent(), Flat(), 1000, None), case.latent(), point, 1e-9)
    assert {name for name, _ in asked} == {"Looks"}
    assert max(size for _, size in asked) <= 3
    assert_equal(one.v, two.v, 1e-6)
    at = expand(counted, Flat(), one)
    assert asked[-1] == ("Looks", 50)
    assert at.state.objective == pytest.approx(
        expand(case.latent(), Flat(), two).state.objective, abs=1e-8
    )


def test_some_rows_are_taken_into_memory():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((20_000, 2))
    t = np.zeros(20_000)
    t[:50], t[50:1000] = 2.0, 1.0
    atoms = Kernel("rbf", gamma=1.0, centers=X[:5]).bind(X)
    counts = np.bincount(t.astype(int)).astype(float)
    weights = np.ones(20_000)
    weights[::2] = 0.0
    rows = rows_of(X, t, weights, 1000)
    latent = RowLatent(rows, atoms, Multinomial(3), True, True, np.zeros(5), 20_000, counts)
    chosen = latent.draw(np.random.RandomState(0))
    some = latent.take(chosen)
    assert isinstance(some, Latent)
    assert some.shared
    assert some.weights.all()
    kinds, count = np.unique(some.t, return_counts=True)
    np.testing.assert_array_equal(kinds, [0.0, 1.0, 2.0])
    assert count[2] > 10
    assert 400 < count.sum() < 650
    np.testing.assert_array_equal(some.t, latent.take(chosen).t)
    small = replace(latent, n_rows=2048)
    assert small.draw(rng) is None
    plain = replace(latent, counts=None, likelihood=Poisson())
    assert 400 < plain.take(plain.draw(rng)).n_rows < 600
    np.testing.assert_array_equal(by_kind(np.array([10.0, 0.0]), 100.0, 1).fractions, [1.0, 1.0])


@examples(30)
@given(seeds, st.integers(1, 9))
def test_kinds_are_the_same_rows_however_they_are_cut(seed, block_rows):
    rng = np.random.RandomState(seed)
    t = rng.randint(0, 3, 60).astype(float)
    X = np.arange(60.0)[:, None]
    step = by_kind(np.bincount(t.astype(int), minlength=3).astype(float), 20.0, seed)
    whole, pieces = (
        rows_of(X, t, None, size).mapped(step).fold(_kept, operator.add)
        for size in (60, block_rows)
    )
    assert whole == pieces


def _kept(block):
    return block.X[:, 0].tolist()
