"""Tipping & Faul's single moves: their updates are exact, their end is certified."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from pairwise import in_turn
from random_problems import PRIORS, cases, examples, priors, random_case, seeds
from sparsebayes import RVR
from sparsebayes.core.quadratic import Gram
from sparsebayes.datasets import sinc
from sparsebayes.engine import refresh, screen
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.problem import Problem, Status, empty_state
from sparsebayes.solvers.sequential import SELECTIONS, Moves, solve

by_selection = pytest.mark.parametrize("selection", SELECTIONS)
by_prior = pytest.mark.parametrize("prior", PRIORS, ids=repr)


def moves_at(case, prior):
    problem = Problem(case.quad(), prior, case.noise)
    state = refresh(problem.quad, prior, case.active, case.v_a, case.noise)
    return Moves.at(problem, state)


@examples(40)
@given(cases(max_active=4), priors, seeds, st.integers(1, 15))
def test_any_sequence_of_moves_equals_refresh_and_the_oracle(case, prior, seed, count):
    moves, rng = moves_at(case, prior), np.random.RandomState(seed)
    usable = np.flatnonzero(moves.problem.quad.diag > 0)
    if usable.size == 0:
        return
    for _ in range(count):
        v_new = case.noise * 10.0 ** rng.uniform(-2, 2) if rng.uniform() < 0.7 else 0.0
        moves.move(int(rng.choice(usable)), v_new)
    a, v = moves.active, moves.v
    assert sorted(a.tolist()) == np.flatnonzero(v).tolist()
    state = refresh(moves.problem.quad, prior, a, v[a], case.noise)
    seen = screen(moves.problem.quad, prior, state)
    mu, Sigma = oracle.posterior(*case.at(v))
    S, Q = oracle.statistics(*case.at(v))
    pairs = [
        (moves.mu, state.mu, mu[a]),
        (moves.Sigma, state.Sigma, Sigma[np.ix_(a, a)]),
        (moves.S[usable], seen.S[usable], S[usable]),
        (moves.Q[usable], seen.Q[usable], Q[usable]),
    ]
    for moved, fresh, slow in pairs:
        scale = 1e-9 * np.abs(slow).max(initial=1e-300)
        np.testing.assert_allclose(moved, fresh, rtol=1e-9, atol=scale)
        np.testing.assert_allclose(moved, slow, rtol=1e-9, atol=scale)


@examples(30)
@given(cases(max_active=5), priors)
def test_moves_know_each_active_atom_out_of_its_own_model(case, prior):
    s, q = oracle.without_self(*case.at())
    s_a, q2_a = moves_at(case, prior).without_self()
    scale = np.abs(s).max()
    np.testing.assert_allclose(s_a, s[case.active], rtol=1e-9, atol=1e-9 * scale)
    q2 = np.sum(q**2, axis=1)
    np.testing.assert_allclose(q2_a, q2[case.active], rtol=1e-9, atol=1e-9 * q2.max())


@pytest.mark.parametrize("v", [1e-10, 1e-14, 1e-17])
def test_an_atom_of_negligible_variance_can_be_re_estimated(v):
    """1/Sigma - 1/v has no digits left when v s is below rounding."""
    gram = Gram(np.eye(2), np.array([[1.0], [2.0]]), tt=9.0, n=5.0, spread=1.0)
    problem = Problem(gram, Flat(), 1.0)
    moves = Moves.at(problem, empty_state(problem, 1.0))
    moves.move(0, v)
    moves.move(0, 1.0)
    assert moves.Sigma[0, 0] == pytest.approx(0.5, rel=1e-9)
    assert moves.mu[0, 0] == pytest.approx(0.5, rel=1e-9)


def test_moving_an_absent_atom_out_changes_nothing():
    case = random_case(0)
    moves = moves_at(case, Flat())
    moves.move(3, 0.0)
    assert moves.active.size == 0


def test_it_starts_with_the_largest_projection_alone():
    case = random_case(1, noise=0.3)
    quad = case.quad()
    start = solve(Problem(quad, Flat(), case.noise), max_iter=0)
    j = int(np.argmax(np.abs(quad.g[:, 0])))
    assert start.state.active.tolist() == [j]
    s, q2 = 1 / case.noise, (quad.g[j, 0] / case.noise) ** 2
    assert start.state.v[0] == pytest.approx((q2 - s) / s**2)  # T&F eqs. 20, 26
    assert start.status is Status.MAX_ITER


def test_estimated_noise_starts_at_a_tenth_of_the_targets_variance():
    case = random_case(1, noise=0.3)
    start = solve(Problem(case.quad(), Flat()), max_iter=0)
    assert start.state.noise_var == pytest.approx(0.1 * float(np.var(case.t)))


def test_the_greedy_move_is_the_one_that_gains_most():
    case = random_case(2)
    problem = Problem(case.quad(), Flat(), case.noise)
    for count in range(8):
        here, there = solve(problem, max_iter=count), solve(problem, max_iter=count + 1)
        seen = screen(problem.quad, Flat(), here.state)
        gained = there.state.objective - here.state.objective
        assert gained == pytest.approx(seen.gains.max(), rel=1e-6)


@by_selection
@in_turn(prior=PRIORS, n_targets=[1, 2])
def test_single_moves_never_lower_the_objective_at_fixed_noise(selection, prior, n_targets):
    case = random_case(3, n=20, m=15, n_targets=n_targets, center=True)
    problem = Problem(case.quad(), prior, case.noise)
    reached = [
        solve(problem, max_iter=count, selection=selection).state.objective for count in range(25)
    ]
    assert np.all(np.diff(reached) >= -1e-9)


def assert_certified_or_says_not(problem, solution, tol=1e-6):
    """What the status claims is so, by a fresh computation over the whole dictionary."""
    state = solution.state
    exact = refresh(problem.quad, problem.hyperprior, state.active, state.v, state.noise_var)
    gains = screen(problem.quad, problem.hyperprior, exact).gains
    assert solution.certificate.max_gain == pytest.approx(max(gains.max(initial=0), 0), abs=1e-6)
    assert exact.objective == pytest.approx(state.objective, rel=1e-6, abs=1e-6)
    assert np.all(state.v > 0)
    assert state.noise_var > 0
    assert solution.noise.var == state.noise_var
    assert np.unique(state.active).size == state.active.size
    if solution.converged:
        assert solution.certificate.holds(tol)
        assert gains.max(initial=0) <= 2 * tol
    else:
        assert solution.status not in (Status.CONVERGED, Status.NOISE_FLOOR)


@by_selection
@examples(20)
@given(cases(max_active=0), priors, st.booleans())
def test_every_answer_is_certified_or_says_that_it_is_not(selection, case, prior, estimated):
    problem = Problem(case.quad(), prior, None if estimated else case.noise)
    assert_certified_or_says_not(problem, solve(problem, selection=selection, max_iter=500))


@by_selection
@by_prior
@pytest.mark.parametrize("noise", [None, 0.01])
def test_ordinary_problems_converge(selection, prior, noise):
    case = random_case(5, n=40, m=25, center=True)
    solution = solve(Problem(case.quad(), prior, noise), selection=selection)
    assert solution.status is Status.CONVERGED
    assert solution.certificate.gradient_norm < 1e-4


@by_selection
def test_the_iterations_allowed_are_not_exceeded(selection):
    case = random_case(6)
    for allowed in (1, 3, 7):
        solution = solve(Problem(case.quad(), Flat()), max_iter=allowed, selection=selection)
        assert solution.n_iter <= allowed
        assert solution.status is Status.MAX_ITER
        assert not solution.converged


def test_random_selection_is_repeatable():
    case = random_case(7, n=25, m=40)
    problem = Problem(case.quad(), Flat(), case.noise)
    one, other = (
        solve(problem, selection="random", random_state=np.random.RandomState(3)) for _ in range(2)
    )
    np.testing.assert_array_equal(one.state.active, other.state.active)
    np.testing.assert_array_equal(one.state.v, other.state.v)
    assert one.n_iter == other.n_iter


def test_an_unknown_selection_is_refused():
    with pytest.raises(ValueError, match="selection must be one of"):
        solve(Problem(random_case(0).quad(), Flat()), selection="best")


@by_selection
@pytest.mark.parametrize("c", [0.0, 1.0, 3.0])
def test_orthonormal_atoms_reach_the_closed_form(selection, c):
    z = np.array([0.3, -1.4, 2.0, 2.9, -3.5, 8.0])
    gram = Gram(np.eye(6), z[:, None], float(z @ z) + 5.0, n=20.0, spread=1.0)
    solution = solve(Problem(gram, Smoothness(c), noise_var=1.0), selection=selection)
    order = np.argsort(solution.state.active)
    active = np.flatnonzero(z**2 > 1 + 2 * c)
    np.testing.assert_array_equal(solution.state.active[order], active)
    z2 = z[active] ** 2
    expected = (z2 - 2 * c - 1) / (z2 - 2 * c) * z[active]
    np.testing.assert_allclose(solution.state.mu[order, 0], expected, rtol=1e-5)
    assert solution.status is Status.CONVERGED


def test_noise_of_an_orthonormal_problem_balances_misfit_and_degrees_of_freedom():
    """T&F step 9 at its fixed point: noise = |t - Phi mu|^2 / (N - sum dof)."""
    case = random_case(8, n=40, m=10)
    solution = solve(Problem(case.quad(), Flat()))
    state = solution.state
    fixed_point = state.white.residual / (40 - state.dof.sum())
    assert state.noise_var == pytest.approx(fixed_point, rel=1e-4)


def test_it_continues_from_where_it_is_told_to():
    case = random_case(9)
    problem = Problem(case.quad(), Flat())
    end = solve(problem).state
    again = solve(problem, start=(end.active, end.v, end.noise_var))
    assert again.n_iter <= 3
    assert again.state.objective == pytest.approx(end.objective, abs=1e-6)


def test_the_trace_is_reported_line_by_line():
    lines = []
    solution = solve(Problem(random_case(10).quad(), Flat()), report=lines.append)
    assert tuple(lines) == solution.trace
    assert solution.trace[-1].n_active == solution.state.active.size


@pytest.mark.parametrize("solver", ["sequential", "sequential-random", "sequential-cyclic"])
def test_each_selection_rule_is_a_solver_of_the_estimators(solver):
    data = sinc(60, noise=0.1, random_state=1)
    settings = {"gamma": 1 / 9, "noise_variance": 0.01, "random_state": 3}
    model = RVR(solver=solver, **settings).fit(data.X, data.y)
    again = RVR(solver=solver, **settings).fit(data.X, data.y)
    assert model.converged_
    assert model.certificate_.max_gain < 1e-6
    assert model.n_iter_ == again.n_iter_
    default = RVR(**settings).fit(data.X, data.y)
    assert model.log_marginal_likelihood_ > default.log_marginal_likelihood_ - 5
