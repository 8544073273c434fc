"""The default solver: certified, monotone, repeatable, and out of saddles."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_problems import PRIORS, Case, cases, examples, priors, random_case, seeds
from sparsebayes import RVR
from sparsebayes.core.quadratic import Gram
from sparsebayes.datasets import sinc
from sparsebayes.engine import Breakdown, refresh, without_self
from sparsebayes.hyperpriors import Flat, Smoothness, gain
from sparsebayes.problem import Problem, Status, certify
from sparsebayes.solvers import sequential, working_set
from sparsebayes.solvers.working_set import solve
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
            # trials may begin anywhere and are only kept if better
            if phase not in ("exchange", "settle"):
                assert np.all(np.diff(reached) >= -1e-9), phase
        kept = [line.objective for line in solution.trace if line.phase in ("climb", "certify")]
        assert np.all(np.diff(kept) >= -1e-9)
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

    def breaks(run, state):
        nonlocal calls
        calls += 1
        raise Breakdown

    monkeypatch.setattr(working_set, "is_smooth", breaks)
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
@pytest.mark.parametrize("each", [solve, sequential.solve], ids=["working-set", "sequential"])
def test_no_targets_leave_an_empty_model(prior, each):
    case = random_case(12, n=15, m=4)
    silent = Case(case.Phi, np.zeros((15, 1)), None, True, case.active, case.v, case.noise)
    solution = each(Problem(silent.quad(), prior))
    assert solution.state.active.size == 0
    assert solution.converged
    assert solution.state.noise_var > 0


@by_prior
@pytest.mark.parametrize("each", [solve, sequential.solve], ids=["working-set", "sequential"])
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
