"""The default solver: certified, monotone, repeatable, and out of saddles."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from random_problems import PRIORS, Case, cases, examples, priors, random_case, seeds
from sparsebayes import RVR
from sparsebayes.core.quadratic import Gram
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.datasets import friedman1, sinc
from sparsebayes.design import ArrayDesign
from sparsebayes.dictionaries import Kernel
from sparsebayes.engine import Breakdown, refresh, screen, without_self
from sparsebayes.hyperpriors import Flat, Smoothness, gain
from sparsebayes.problem import Problem, Status, certify, empty_state
from sparsebayes.solvers import search, sequential
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.search import SETTINGS, solve
from sparsebayes.solvers.swaps import best_swaps, swap_table
from test_newton import saddle_gram
from test_sequential import assert_certified_or_says_not

by_prior = pytest.mark.parametrize("prior", PRIORS, ids=repr)
by_noise = pytest.mark.parametrize("noise", [None, 0.01], ids=["estimated", "fixed"])


def scaled(case, atoms=1.0, targets=1.0, order=None):
    Phi = case.Phi * atoms
    Phi = Phi if order is None else Phi[:, order]
    return Case(
        Phi,
        case.t * targets,
        case.weights,
        case.center,
        case.active,
        case.v,
        case.noise * targets**2,
    )


@examples(50)
@given(cases(max_active=0), priors, st.booleans())
def test_every_answer_is_certified_or_says_that_it_is_not(case, prior, estimated):
    problem = Problem(case.quad(), prior, None if estimated else case.noise)
    assert_certified_or_says_not(problem, solve(problem))


@examples(15)
@given(seeds, priors, st.booleans(), st.integers(1, 2))
def test_wide_problems_are_certified_or_say_that_they_are_not(seed, prior, estimated, n_targets):
    case = random_case(seed, n=15, m=40, n_targets=n_targets, center=True)
    problem = Problem(case.quad(), prior, None if estimated else case.noise)
    assert_certified_or_says_not(problem, solve(problem))


@pytest.mark.parametrize("prior", [Flat(), Smoothness(7.0)], ids=repr)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_dictionary_too_large_to_grow_in_is_certified_as_a_whole(prior, n_targets):
    case = random_case(1, n=60, m=2000, k=5, n_targets=n_targets, center=True)
    problem = Problem(case.quad(), prior, case.noise)
    solution = solve(problem)
    assert solution.status is Status.CONVERGED
    assert_certified_or_says_not(problem, solution)


def test_the_true_atoms_of_a_large_dictionary_are_found():
    rng = np.random.RandomState(2)
    Phi = rng.standard_normal((100, 1500))
    true = np.array([3, 700, 1499])
    t = Phi[:, true] @ np.array([[1.0], [-1.0], [1.0]]) + 0.1 * rng.standard_normal((100, 1))
    none = np.empty(0, dtype=np.intp)
    case = Case(Phi, t, None, True, none, np.zeros(1500), 0.01)
    for noise in (None, 0.01):
        solution = solve(Problem(case.quad(), Smoothness(float(np.log(1500))), noise))
        np.testing.assert_array_equal(np.sort(solution.state.active), true)
        assert solution.status is Status.CONVERGED


@by_prior
@by_noise
@pytest.mark.parametrize("n_targets", [1, 3])
def test_ordinary_problems_converge(prior, noise, n_targets):
    case = random_case(0, n=40, m=25, n_targets=n_targets, center=True)
    solution = solve(Problem(case.quad(), prior, noise))
    assert solution.status is Status.CONVERGED
    assert solution.certificate.holds(1e-6)


@by_prior
@by_noise
def test_the_objective_never_falls_within_a_phase(prior, noise):
    for seed in range(3):
        case = random_case(seed, n=60, m=50, k=8)
        solution = solve(Problem(case.quad(), prior, noise), n_restarts=1)
        for phase, lines in itertools.groupby(solution.trace, key=lambda line: line.phase):
            reached = [line.objective for line in lines]
            if phase in ("finish", "certify"):  # trials begin anywhere
                assert np.all(np.diff(reached) >= -1e-9), phase
        if isinstance(prior, Flat):  # others are approached through it
            assert solution.state.objective >= max(line.objective for line in solution.trace) - 1e-9
        assert solution.state.objective == solution.trace[-1].objective


@by_noise
def test_it_ends_no_lower_than_single_moves_do(noise):
    behind = []
    for seed in range(6):
        case = random_case(seed, n=40, m=30, k=5)
        problem = Problem(case.quad(), Flat(), noise)
        behind.append(sequential.solve(problem).state.objective - solve(problem).state.objective)
    assert max(behind) < 1.0
    assert sum(behind) < 0.1


def test_the_saddle_is_escaped():
    problem = Problem(saddle_gram(), Flat(), noise_var=1.0)
    start = np.array([0, 1]), np.array([0.5, 0.5]), 1.0
    solution = solve(problem, start=start)
    assert solution.log_evidence >= -4.7745
    assert solution.status is Status.CONVERGED
    assert solution.certificate.max_curvature <= 0


def test_the_certificate_tells_a_saddle_from_an_optimum():
    problem = Problem(saddle_gram(), Flat(), noise_var=1.0)
    state = refresh(problem.quad, Flat(), np.array([0, 1]), np.array([0.5, 0.5]), 1.0)
    certificate, _ = certify(problem, state, problem.noise())
    assert certificate.max_gain <= 1e-6
    assert certificate.gradient_norm <= 1e-3
    assert certificate.max_curvature == pytest.approx(0.0277, abs=1e-4)
    assert not certificate.holds(1e-6)


def test_the_certificate_does_not_hold_while_the_noise_could_still_move():
    """No single atom gains anything at the best variances for a noise that is not the best."""
    case = random_case(3, n=40, m=10)
    held = solve(Problem(case.quad(), Flat(), noise_var=0.5)).state
    fixed, estimated = Problem(case.quad(), Flat(), 0.5), Problem(case.quad(), Flat())
    assert certify(fixed, held, fixed.noise())[0].holds(1e-6)
    certificate, _ = certify(estimated, held, estimated.noise())
    assert certificate.max_gain <= 1e-6
    assert certificate.max_curvature <= 0
    assert not certificate.holds(1e-6)


@pytest.mark.parametrize("c", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_both_solvers_reach_the_closed_form_for_orthonormal_atoms(c, n_targets):
    rng = np.random.RandomState(1)
    z = rng.standard_normal((30, n_targets)) * 10.0 ** rng.uniform(-1, 1, (30, 1))
    gram = Gram(np.eye(30), z, float(np.sum(z**2)) + 5.0, n=40.0, spread=1.0)
    problem = Problem(gram, Smoothness(c), noise_var=1.0)
    z2 = np.sum(z**2, axis=1)
    active = np.flatnonzero(z2 > n_targets + 2 * c)
    shrinkage = (z2 - n_targets - 2 * c) / (z2 - 2 * c)
    for solution in (solve(problem), sequential.solve(problem)):
        order = np.argsort(solution.state.active)
        np.testing.assert_array_equal(solution.state.active[order], active)
        expected = shrinkage[active, None] * z[active]
        np.testing.assert_allclose(solution.state.mu[order], expected, rtol=1e-4)
        assert solution.status is Status.CONVERGED


@by_prior
@by_noise
def test_scaling_or_permuting_atoms_and_scaling_targets_changes_nothing(prior, noise):
    case = random_case(4, n=30, m=20)
    plain = solve(Problem(case.quad(), prior, noise))
    rng = np.random.RandomState(0)
    order = rng.permutation(20)
    other = scaled(case, atoms=10.0 ** rng.uniform(-5, 5, 20), targets=1e3, order=order)
    moved = solve(Problem(other.quad(), prior, None if noise is None else noise * 1e6))
    assert sorted(order[moved.state.active]) == sorted(plain.state.active)
    assert moved.state.noise_var == pytest.approx(plain.state.noise_var * 1e6, rel=1e-5)
    assert moved.state.objective == pytest.approx(
        plain.state.objective - 30 * np.log(1e3), abs=1e-5
    )


@by_prior
def test_weights_equal_repetition(prior):
    case = random_case(5, n=60, m=15, center=True)
    weights = np.random.RandomState(1).randint(0, 3, 60)
    weighted = Case(case.Phi, case.t, weights, True, case.active, case.v, case.noise)
    rows = np.repeat(np.arange(60), weights)
    repeated = Case(case.Phi[rows], case.t[rows], None, True, case.active, case.v, case.noise)
    one, other = (solve(Problem(each.quad(), prior)) for each in (weighted, repeated))
    np.testing.assert_array_equal(one.state.active, other.state.active)
    np.testing.assert_allclose(one.state.mu, other.state.mu, rtol=1e-3, atol=1e-3)
    assert one.state.noise_var == pytest.approx(other.state.noise_var, rel=1e-4)
    assert one.state.objective == pytest.approx(other.state.objective, abs=1e-7)


def test_restarts_hold_no_noise_below_its_floor():
    """Without a signal the floor is that of rounding, and where a search begins."""
    case = random_case(0, n=30, m=20)
    silent = replace(case, t=np.zeros((30, 1)))
    problem = Problem(silent.quad(), Flat())
    solution = solve(problem, n_restarts=8)
    assert min(line.noise_var for line in solution.trace) >= problem.noise().floor * (1 - 1e-12)


def test_random_restarts_are_repeatable_and_never_worse():
    case = random_case(6, n=20, m=60, noise=0.3)

    def restarted(count, rng=None):
        return solve(Problem(case.quad(), Flat(), case.noise), n_restarts=count, random_state=rng)

    one, other = (restarted(4, np.random.RandomState(5)) for _ in range(2))
    np.testing.assert_array_equal(one.state.active, other.state.active)
    np.testing.assert_array_equal(one.state.v, other.state.v)
    assert one.trace == other.trace
    assert one.state.objective >= restarted(0).state.objective - 1e-9
    np.testing.assert_array_equal(restarted(2).state.v, restarted(2).state.v)


def test_a_restart_that_breaks_down_costs_nothing_else(monkeypatch):
    problem = Problem(random_case(5, n=40, m=30).quad(), Flat(), None)
    calls = 0

    def breaks(*_):
        nonlocal calls
        calls += 1
        raise Breakdown

    monkeypatch.setattr(search, "_competed", breaks)
    solution = solve(problem, n_restarts=4)
    assert calls > 1
    assert solution.status is Status.CONVERGED
    assert_certified_or_says_not(problem, solution)


@pytest.mark.parametrize("max_iter", [1, 3, 10])
@by_noise
def test_the_iterations_allowed_are_respected(max_iter, noise):
    case = random_case(7, n=40, m=80, k=12)
    solution = solve(Problem(case.quad(), Flat(), noise), max_iter=max_iter)
    assert solution.status is Status.MAX_ITER
    assert not solution.converged
    assert "increase max_iter" in solution.status.value
    assert solution.n_iter <= max_iter + 10  # a phase that has begun is ended in one step
    assert np.isfinite(solution.state.objective)


@by_prior
def test_it_continues_from_where_it_is_told_to(prior):
    case = random_case(8)
    problem = Problem(case.quad(), prior)
    end = solve(problem).state
    again = solve(problem, start=(end.active, end.v, end.noise_var))
    assert again.state.objective >= end.objective - 1e-9
    assert again.converged


def test_the_trace_is_reported_line_by_line():
    lines = []
    solution = solve(Problem(random_case(9).quad(), Flat()), report=lines.append)
    assert tuple(lines) == solution.trace


@by_prior
@by_noise
def test_copies_of_atoms_change_neither_the_optimum_nor_the_certificate(prior, noise):
    case = random_case(10, n=30, m=12)
    single = solve(Problem(case.quad(), prior, noise))
    copies = np.hstack([case.Phi, -2 * case.Phi, case.Phi])
    doubled = Case(copies, case.t, None, False, case.active, np.zeros(36), case.noise)
    problem = Problem(doubled.quad(), prior, noise)
    solution = solve(problem)
    assert solution.converged
    assert_certified_or_says_not(problem, solution)
    assert solution.state.objective == pytest.approx(single.state.objective, abs=0.1)
    if prior != Flat():  # two copies pay twice: one of each stays
        assert np.unique(solution.state.active % 12).size == solution.state.active.size


@by_prior
@by_noise
@pytest.mark.parametrize("center", [False, True])
def test_void_columns_are_never_kept(prior, noise, center):
    case = random_case(11, n=25, m=10, center=center)
    case.Phi[:, 3] = 0.0
    case.Phi[:, 7] = 5.0
    solution = solve(Problem(case.quad(), prior, noise))
    assert 3 not in solution.state.active
    assert 7 not in solution.state.active or not center
    assert solution.converged


@by_prior
@pytest.mark.parametrize("each", [solve, sequential.solve], ids=["search", "sequential"])
def test_no_targets_leave_an_empty_model(prior, each):
    case = random_case(12, n=15, m=4)
    silent = Case(case.Phi, np.zeros((15, 1)), None, True, case.active, case.v, case.noise)
    solution = each(Problem(silent.quad(), prior))
    assert solution.state.active.size == 0
    assert solution.converged
    assert solution.state.noise_var > 0


@by_prior
@pytest.mark.parametrize("noise", [1e-30, 1e-20, 1e20])
def test_a_noise_out_of_all_proportion_is_borne(prior, noise):
    """Nats by the quintillion: a few more or less are no number beside them."""
    case = random_case(14, n=30, m=20)
    solution = solve(Problem(case.quad(), prior, noise), n_restarts=1)
    assert np.isfinite(solution.state.objective)
    assert solution.state.noise_var == noise
    assert solution.state.active.size == (20 if noise < 1 else 0)


@by_prior
@pytest.mark.parametrize("each", [solve, sequential.solve], ids=["search", "sequential"])
def test_an_empty_model_has_the_variance_of_the_targets_for_noise(prior, each):
    case = random_case(12, n=15, m=4)
    void = Case(np.zeros((15, 4)), case.t, None, True, case.active, case.v, case.noise)
    solution = each(Problem(void.quad(), prior))
    assert solution.state.active.size == 0
    assert solution.status is Status.CONVERGED
    assert solution.state.noise_var == pytest.approx(np.var(case.t, ddof=1))


@by_prior
def test_more_atoms_than_data_under_a_flat_prior_end_with_a_status_that_says_so(prior):
    for seed in range(3):
        rng = np.random.RandomState(seed)
        Phi, t = rng.standard_normal((12, 60)), rng.standard_normal((12, 1))
        none = np.empty(0, dtype=np.intp)
        case = Case(Phi, t, None, True, none, np.zeros(60), 1.0)
        problem = Problem(case.quad(), prior)
        solution = solve(problem)
        assert_certified_or_says_not(problem, solution)
        if solution.state.dof.sum() > 0.9 * 11:
            assert solution.status is not Status.CONVERGED


def test_pure_noise_keeps_almost_nothing_under_ric():
    kept = []
    for seed in range(6):
        rng = np.random.RandomState(seed)
        Phi, t = rng.standard_normal((100, 100)), rng.standard_normal((100, 1))
        none = np.empty(0, dtype=np.intp)
        case = Case(Phi, t, None, True, none, np.zeros(100), 1.0)
        solution = solve(Problem(case.quad(), Smoothness(float(np.log(100)))))
        assert solution.status is Status.CONVERGED
        kept.append(solution.state.active.size)
    assert np.mean(kept) < 1


@examples(12)
@given(seeds, st.sampled_from([0.5, 2.0, 5.0]), st.booleans(), st.integers(1, 2))
def test_smoothness_never_keeps_an_atom_whose_removal_gains(seed, c, estimated, n_targets):
    case = random_case(seed, n=20, m=30, noise=0.5, n_targets=n_targets)
    prior = Smoothness(c)
    problem = Problem(case.quad(), prior, None if estimated else case.noise)
    for state in (solve(problem).state, sequential.solve(problem).state):
        s, q2 = without_self(state.v, state.white)
        assert np.all(gain(prior, s, q2, state.v, state.noise_var, n_targets) > -1e-6)
        for k in range(state.active.size):
            rest = np.arange(state.active.size) != k
            less = refresh(problem.quad, prior, state.active[rest], state.v[rest], state.noise_var)
            assert less.objective <= state.objective + 1e-6


def test_collinear_kernels_are_certified():
    x = np.linspace(-1, 1, 60)
    Phi = np.exp(-((x[:, None] - x) ** 2) / 0.5)
    t = np.sinc(3 * x)[:, None] + 0.05 * np.random.RandomState(0).standard_normal((60, 1))
    none = np.empty(0, dtype=np.intp)
    case = Case(Phi, t, None, True, none, np.zeros(60), 0.05**2)
    for noise in (None, 0.05**2):
        solution = solve(Problem(case.quad(), Flat(), noise))
        assert solution.status is Status.CONVERGED
        assert solution.state.active.size < 12


def test_the_finish_among_few_of_very_many_atoms_is_certified_over_all():
    data = sinc(1600, noise=0.1, dim=2, random_state=0)
    model = RVR(gamma=0.16, prior="flat", random_state=0).fit(data.X, data.y)
    assert model.certificate_.holds(model.tol)
    finish = [line.objective for line in model.solution_.trace if line.phase == "finish"]
    assert all(after >= before - 1e-9 for before, after in itertools.pairwise(finish))


@pytest.mark.parametrize(("n", "seed", "least"), [(3000, 0, 2690.0), (20_000, 0, 17_801.0)])
def test_atoms_of_a_fine_dictionary_stride_to_the_optimum(n, seed, least):
    """Neighbors are collinear to 1e-8: adding them one by one took thousands of steps or failed."""
    data = sinc(n, noise=0.1, random_state=seed)
    model = RVR(gamma="scale", random_state=0).fit(data.X, data.y)
    assert model.solution_.status is Status.CONVERGED
    assert model.log_marginal_likelihood_ > least
    assert model.n_iter_ < 1000


# Swaps


def started(problem):
    """A run and the state that growth alone ends in."""
    run = Run(problem, max_iter=10_000, report=None, large=False)
    noise = problem.noise(3 * SETTINGS.held)
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


# Moves


@pytest.mark.parametrize("width", [1.5, 2.5, 8.0])
@pytest.mark.parametrize("noise_var", [None, 0.01])
def test_moves_never_end_lower_than_they_began(width, noise_var):
    run, noise, state = started(kernel_problem(120, width, seed=1, noise_var=noise_var))
    whole = run.problem
    ended = search.improved(run, state, noise)
    assert ended.objective >= state.objective
    assert run.problem is whole
    again = refresh(whole.quad, Flat(), ended.active, ended.v, ended.noise_var)
    assert ended.objective == pytest.approx(again.objective, rel=1e-9)


def test_smooth_models_settle_among_their_neighbors(monkeypatch):
    run, noise, state = started(kernel_problem(200, 1.5, seed=5, noise_var=0.01))
    assert search.is_smooth(run, state)
    sizes = []
    plain = search._competed

    def watched(run, state, noise, how):
        sizes.append(run.problem.quad.size)
        assert how.raised == 1
        return plain(run, state, noise, how)

    monkeypatch.setattr(search, "_competed", watched)
    ended = search.improved(run, state, noise)
    assert max(sizes) < 200
    assert ended.objective > state.objective + 0.5


def test_no_neighbors_are_gathered_that_could_not_compete(monkeypatch):
    """Their Gram matrix is what costs most where models are large."""
    run, noise, state = started(kernel_problem(200, 1.5, seed=5, noise_var=0.01))
    assert search.is_smooth(run, state)
    monkeypatch.setattr(search, "_CROWDED", state.active.size)

    def gathered(*_):
        raise AssertionError

    monkeypatch.setattr(search, "_among", gathered)
    assert search.improved(run, state, noise) is state


@pytest.mark.parametrize("pace", [SETTINGS.mild, SETTINGS.fierce], ids=["MacKay", "EM"])
def test_atoms_share_out_what_they_explain_in_steps_of_2001(pace):
    """Against Sigma and mu from their definitions."""
    problem = kernel_problem(60, 2.5, seed=1, noise_var=0.01)
    run = Run(problem, 1000, None, large=False)
    atoms, v, var = np.arange(0, 60, 3), np.full(20, 0.05), 0.01
    found, after = search._shared_out(run, atoms, v, var, pace._replace(steps=1))
    G, g = problem.quad.gram(atoms).G, problem.quad.gram(atoms).g
    Sigma = np.linalg.inv(np.diag(1 / v) + G / var)
    mu = (Sigma @ g / var).ravel()
    spread = Sigma.diagonal()
    expected = mu**2 + spread  # Tipping 2001, section 3 and eq. 16
    if pace == SETTINGS.mild:
        expected = np.minimum(mu**2 / (1 - spread / v), 10 * v)  # ten times at most
    stay = expected > pace.gone * var
    np.testing.assert_array_equal(found, atoms[stay])
    np.testing.assert_allclose(after, expected[stay], rtol=1e-7)


def test_rough_steps_forget_how_sums_were_rounded():
    run, noise, state = started(kernel_problem(120, 2.5, seed=1))
    shaken = state.v * (1 + 1e-9 * np.random.default_rng(0).normal(size=state.v.size))
    one, other = (run.newton(state.active, v, noise, tol=0.05) for v in (state.v, shaken))
    np.testing.assert_array_equal(one.active, other.active)
    np.testing.assert_array_equal(one.v, other.v)
    fine = run.newton(state.active, shaken, noise, tol=1e-3)
    assert fine.objective >= one.objective - 0.05


# Seeds


@pytest.mark.parametrize("noise_var", [None, 0.01])
@pytest.mark.parametrize("width", [1.5, 8.0])
def test_what_a_crowd_leads_to_is_a_state_of_its_problem(noise_var, width):
    problem = kernel_problem(200, width, seed=1, noise_var=noise_var)
    run = Run(problem, 1000, None, large=False)
    state = search._crowd(run, problem.noise(0.1), np.random.RandomState(0))
    again = refresh(problem.quad, Flat(), state.active, state.v, state.noise_var)
    assert state.objective == pytest.approx(again.objective, rel=1e-9)
    assert 2 < state.active.size < 80
    assert run.screen(state).gains.max() < run.rough + 1e-3
    assert noise_var is None or state.noise_var == noise_var


@pytest.mark.parametrize("seed", range(20))
def test_any_problem_can_begin(seed):
    """With a crowd, without one, or with one that breaks down."""
    case = random_case(seed)
    quad = case.quad()
    problem = Problem(quad.gram(np.arange(quad.size)), Flat(), None)
    run = Run(problem, 1000, None, large=False)
    state = search._free(run, problem.noise(0.09), np.random.RandomState(seed))
    again = refresh(problem.quad, Flat(), state.active, state.v, state.noise_var)
    assert state.objective == pytest.approx(again.objective, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", ["_crowd", "_raised", "_fierce_crowd"])
def test_a_seed_that_breaks_down_costs_nothing_else(monkeypatch, seed):
    problem = replace(kernel_problem(100, 2.5, seed=2), noise_var=None)
    whole = solve(problem)

    def broken(*_):
        raise Breakdown

    monkeypatch.setattr(search, seed, broken)
    found = solve(problem)
    assert found.converged
    assert found.state.objective > whole.state.objective - 20


@given(seed=seeds)
@examples(30)
def test_the_noise_beside_a_shared_variance_is_the_best_for_it(seed):
    case = random_case(seed)
    quad = case.quad()
    atoms = np.flatnonzero(quad.diag)
    if not atoms.size:
        return
    gram = quad.gram(atoms)

    def objective(v, var):
        return refresh(gram, Flat(), np.arange(atoms.size), np.full(atoms.size, v), var).objective

    noise = Problem(gram, Flat(), None).noise()
    v, var = search._shared(gram, noise)
    best = objective(v, var)
    for factor in (0.3, 3.0):  # grid points are closer than that
        if var * min(factor, 1.0) > noise.floor:
            assert objective(v * factor, var * factor) <= best + 1e-6
        assert objective(v * factor, var) <= best + 1e-6 or var <= noise.floor
    given = Noise(case.noise, False, 0.0)
    v, var = search._shared(gram, given)
    assert var == case.noise


@pytest.mark.parametrize(
    ("data", "gamma", "least"),
    [
        (sinc(1000, noise=0.1, dim=2, random_state=0), "scale", 555.0),  # 264 with one atom
        (friedman1(240, random_state=1), 0.03, -550.0),  # -572 with five
    ],
    ids=["sinc", "Friedman 1"],
)
def test_the_noise_does_not_swallow_what_only_many_broad_kernels_explain(data, gamma, least):
    model = RVR(gamma=gamma, random_state=0).fit(data.X, data.y)
    assert model.log_marginal_likelihood_ > least
    assert model.converged_


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_that_float64_cannot_hold_starts_with_smaller_variances(seed):
    """Kernels as wide as the data, at many rows: growth stops at the first, a crowd breaks down."""
    data = sinc(3000, noise=0.1, random_state=seed)
    model = RVR(gamma=0.003, noise_variance=0.01).fit(data.X, data.y)
    assert len(model.relevance_) > 3
    assert model.log_marginal_likelihood_ > -1000  # the first kernel alone has -12 000


@pytest.mark.parametrize("gamma", [0.003, 0.1])
@pytest.mark.parametrize("prior", ["aic", "ric"])
def test_growth_that_float64_cannot_hold_is_not_the_end_of_a_search(gamma, prior):
    """A noise far below what broad kernels leave: what a sample holds, the whole may not."""
    data = sinc(1000, noise=0.1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = RVR(gamma=gamma, prior=prior, noise_variance=1e-10).fit(data.X, data.y)
    assert len(model.relevance_) > 5
    misfit = np.mean((model.predict(data.X) - data.y) ** 2)
    assert misfit < 0.2 * np.var(data.y)


# Priors with a price


def spikes(seed, n=60, m=200, k=15, noise=0.05):
    """Weights of +-1 on the first k of m random columns: growth at full price sees nothing."""
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((n, m))
    clean = Phi[:, :k] @ rng.choice([-1.0, 1.0], k) if k else np.zeros(n)
    t = clean + (noise * clean.std() if k else 1.0) * rng.standard_normal(n)
    return weighted_quadratic(ArrayDesign(Phi), t[:, None])


class Own:
    """A user's prior: a smoothness prior that does not say so."""

    def __init__(self, c):
        self.prior = Smoothness(c)

    def log_density(self, v, noise_var):
        return self.prior.log_density(v, noise_var)

    def log_derivatives(self, v, noise_var):
        return self.prior.log_derivatives(v, noise_var)

    def best_variance(self, s, q2, noise_var, n_targets=1):
        return self.prior.best_variance(s, q2, noise_var, n_targets)


@pytest.mark.parametrize("kind", [Smoothness, Own])
@pytest.mark.parametrize("seed", range(2))
def test_what_pays_only_together_is_found_through_the_flat_prior(seed, kind, monkeypatch):
    problem = Problem(spikes(seed), kind(np.log(200)))
    solution = solve(problem)
    assert solution.status is Status.CONVERGED
    np.testing.assert_array_equal(np.sort(solution.state.active), np.arange(15))
    monkeypatch.setattr(search, "_detour", lambda *_: None)
    assert solve(problem).state.objective < solution.state.objective - 20


@pytest.mark.parametrize("noise_var", [None, 0.04, 20.0])
@pytest.mark.parametrize("c", [1.0, 3.0])
@pytest.mark.parametrize("seed", range(2))
def test_detours_never_end_lower_than_without(monkeypatch, seed, c, noise_var):
    quad = spikes(seed, n=40, m=90, k=8, noise=0.3)
    given = Problem(quad, Smoothness(c), noise_var)
    found = solve(given)
    monkeypatch.setattr(search, "_detour", lambda *_: None)
    plain = solve(given)
    assert found.converged
    if given.is_collapsed(found.state) == given.is_collapsed(plain.state):
        assert found.state.objective >= plain.state.objective - 1e-6


def test_nothing_comes_of_nothing():
    problem = Problem(spikes(5, n=500, m=700, k=0), Smoothness(np.log(700)))
    assert solve(problem).state.active.size == 0


def test_columns_of_a_large_dictionary_are_found_the_same_way_again():
    found, again = (
        solve(Problem(spikes(3, n=80, m=900, k=12), Smoothness(np.log(900)))) for _ in range(2)
    )
    assert set(range(12)) <= set(found.state.active.tolist())
    np.testing.assert_array_equal(found.state.active, again.state.active)
    np.testing.assert_array_equal(found.state.v, again.state.v)
