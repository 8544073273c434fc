"""Exchanging atoms: swaps are scored exactly, and what is kept is never worse."""

import numpy as np
import pytest
from hypothesis import given

from random_problems import examples, priors, random_case, seeds
from sparsebayes.core.quadratic import Gram
from sparsebayes.datasets import sinc
from sparsebayes.dictionaries import Kernel
from sparsebayes.engine import refresh, screen
from sparsebayes.hyperpriors import Flat
from sparsebayes.problem import Problem, empty_state
from sparsebayes.solvers import exchange
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.neighborhood import entering, within
from sparsebayes.solvers.swaps import best_swaps, swap_table


def started(problem):
    """A run and the state that growth alone ends in."""
    run = Run(problem, max_iter=10_000, report=None, large=False)
    noise = problem.noise(0.09)
    return run, noise, climb(run, empty_state(problem, noise.var), noise, 0.05, "climb")


def kernel_problem(n, width, seed, noise_var=None):
    data = sinc(n, noise=0.1, dim=2, random_state=seed)
    Phi = Kernel(gamma=1 / width**2).bind(data.X).evaluate(data.X)
    Phi = Phi / np.linalg.norm(Phi, axis=0)
    t = data.y[:, None]
    gram = Gram(Phi.T @ Phi, Phi.T @ t, float(np.sum(t**2)), float(n), float(np.var(t)))
    return Problem(gram, Flat(), noise_var)


def best_swaps_of(problem, state):
    table = swap_table(problem, state, screen(problem.quad, problem.hyperprior, state))
    return best_swaps(problem, state, table)


@given(seed=seeds, prior=priors)
@examples(60)
def test_a_swap_costs_what_the_table_says(seed, prior):
    case = random_case(seed)
    if not case.active.size:
        return
    problem = Problem(case.quad(), prior, case.noise)
    state = refresh(problem.quad, prior, case.active, case.v_a, case.noise)
    swaps = best_swaps_of(problem, state)
    for k in range(case.active.size):
        others = np.delete(np.arange(case.active.size), k)
        active, v = case.active[others], case.v_a[others]
        if swaps.v[k] > 0:
            active, v = np.append(active, swaps.partner[k]), np.append(v, swaps.v[k])
        swapped = refresh(problem.quad, prior, active, v, case.noise)
        loss = state.objective - swapped.objective
        assert swaps.loss[k] == pytest.approx(loss, rel=1e-7, abs=1e-7 * (1 + abs(state.objective)))


def test_a_table_of_swaps_is_of_the_state_that_is_asked_for():
    run, noise, state = started(kernel_problem(120, 1.5, seed=1))
    moved = run.newton(state.active[1:], state.v[1:], noise, tol=1e-3)
    for one in (state, moved, state):
        own = swap_table(run.problem, one, screen(run.problem.quad, Flat(), one))
        for _ in range(2):
            np.testing.assert_array_equal(run.swap_table(one).score, own.score)


def test_the_partner_is_the_best_of_all():
    case = random_case(7, n=25, m=12)
    problem = Problem(case.quad(), Flat(), case.noise)
    state = refresh(problem.quad, Flat(), case.active, case.v_a, case.noise)
    swaps = best_swaps_of(problem, state)
    outside = np.setdiff1d(np.flatnonzero(problem.quad.diag), case.active)
    for k in range(case.active.size):
        others = np.delete(np.arange(case.active.size), k)
        base = refresh(problem.quad, Flat(), case.active[others], case.v_a[others], case.noise)
        for m in outside:
            for v in np.geomspace(1e-4, 1e4, 25):
                active, variances = np.append(base.active, m), np.append(base.v, v)
                other = refresh(problem.quad, Flat(), active, variances, case.noise)
                assert state.objective - other.objective >= swaps.loss[k] - 1e-8


@pytest.mark.parametrize("width", [1.5, 2.5, 8.0])
@pytest.mark.parametrize("noise_var", [None, 0.01])
def test_exchanging_never_ends_lower_than_it_began(width, noise_var):
    run, noise, state = started(kernel_problem(120, width, seed=1, noise_var=noise_var))
    ended = exchange.exchange_rounds(run, state, noise, 0.05)
    assert ended.objective >= state.objective


@pytest.mark.parametrize(
    ("width", "noise_var", "phases"),
    [(1.5, 0.01, {"settle", "slide"}), (6.0, 0.001, {"exchange"})],
)
def test_narrow_kernels_settle_and_slide_and_broad_ones_compete(width, noise_var, phases):
    run, noise, state = started(kernel_problem(200, width, seed=5, noise_var=noise_var))
    assert state.active.size >= 12
    before = len(run.trace)
    exchange.exchange_rounds(run, state, noise, 0.05)
    assert {line.phase for line in run.trace[before:]} == phases


def test_sliding_gains_where_neighbors_are_better():
    run, noise, state = started(kernel_problem(300, 1.5, seed=3, noise_var=0.01))
    swaps = best_swaps_of(run.problem, state)
    assert swaps.loss.min() < -0.02
    ended = exchange.slide(run, state, noise, 0.05, worthwhile=0.2)
    assert ended.objective > state.objective - swaps.loss.min() - 0.02


def test_neighborhoods_hold_the_model_and_leave_the_problem_as_it_was():
    run, noise, state = started(kernel_problem(200, 1.5, seed=5, noise_var=0.01))
    whole = run.problem
    pool = entering(run, state, 30)
    assert np.isin(state.active, pool).all()
    assert pool.size == 30 + state.active.size

    def search(near):
        assert run.problem.quad.size == pool.size
        assert np.isclose(near.objective, refresh_in(run.problem, near).objective, rtol=1e-12)
        return climb(run, near, noise, 1e-3, "near")

    found = within(run, state, pool, search)
    assert run.problem is whole
    assert np.isin(found.active, pool).all()
    assert np.isclose(found.objective, refresh_in(whole, found).objective, rtol=1e-12)
    assert found.objective >= state.objective


def refresh_in(problem, state):
    return refresh(problem.quad, problem.hyperprior, state.active, state.v, state.noise_var)


def test_a_large_dictionary_is_settled_among_neighbors(monkeypatch):
    monkeypatch.setattr(exchange, "LARGE", 150)
    run, noise, state = started(kernel_problem(200, 1.5, seed=5, noise_var=0.01))
    ended = exchange.settle(run, state, noise, 0.05)
    assert "near" in {line.phase for line in run.trace}
    assert ended.objective > state.objective + 0.5
    assert run.problem.quad.size == 200
