"""Detours through the flat prior: they find what growth at full price misses, and cost little."""

import numpy as np
import pytest

from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.engine import Breakdown
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.problem import Problem, Status
from sparsebayes.solvers import relaxation, working_set
from sparsebayes.solvers.climb import Run
from sparsebayes.solvers.explore import explore, start_var


def spikes(seed, n=60, m=200, k=15, noise=0.05):
    """Weights of +-1 on the first k of m random columns: growth at full price sees nothing."""
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((n, m))
    clean = Phi[:, :k] @ rng.choice([-1.0, 1.0], k) if k else np.zeros(n)
    t = clean + (noise * clean.std() if k else 1.0) * rng.standard_normal(n)
    return weighted_quadratic(ArrayDesign(Phi), t[:, None])


def problem(seed, noise_var=None, **shape):
    quad = spikes(seed, **shape)
    return Problem(quad, Smoothness(np.log(quad.size)), noise_var)


def explored(given, large=False, max_iter=10_000):
    """A run that has ended in its first optimum."""
    run = Run(given, max_iter, None, large)
    noise = given.noise(0.09)
    state = explore(run, noise, start_var(run, noise), np.random.RandomState(0))
    return run, noise, state


def relax(run, state, noise):
    return relaxation.relaxed(run, state, noise, np.random.RandomState(1))


@pytest.mark.parametrize("seed", range(4))
def test_what_pays_only_together_is_found(seed):
    given = problem(seed)
    _, _, first = explored(given)
    assert first.active.size < 10
    solution = working_set.solve(given)
    assert solution.status is Status.CONVERGED
    np.testing.assert_array_equal(np.sort(solution.state.active), np.arange(15))
    assert solution.state.objective > first.objective + 20


@pytest.mark.parametrize("noise_var", [None, 0.04, 20.0])
@pytest.mark.parametrize("c", [1.0, 3.0])
@pytest.mark.parametrize("seed", range(6))
def test_the_end_is_never_worse_than_without(monkeypatch, seed, c, noise_var):
    quad = spikes(seed, n=40, m=90, k=8, noise=0.3)
    given = Problem(quad, Smoothness(c), noise_var)
    found = working_set.solve(given)
    monkeypatch.setattr(working_set, "relaxed", lambda run, state, noise, rng: state)
    plain = working_set.solve(given)
    assert found.converged
    if given.is_collapsed(found.state) == given.is_collapsed(plain.state):
        assert found.state.objective >= plain.state.objective - 1e-6


@pytest.mark.parametrize("hyperprior", [Flat(), Smoothness(0.0)])
def test_without_a_price_there_is_no_detour(hyperprior):
    run, noise, state = explored(Problem(spikes(0), hyperprior))
    spent = run.work, run.iterations
    assert relax(run, state, noise) is state
    assert (run.work, run.iterations) == spent


def test_nothing_comes_of_nothing_and_costs_about_as_much_again():
    given = problem(5, n=500, m=700, k=0)
    run, noise, state = explored(given)
    assert state.active.size == 0
    before = run.work
    assert relax(run, state, noise) is state
    # the last climb before the allowance is checked may overdraw it
    assert run.work <= 4 * before + relaxation._LEAST
    assert run.problem is given
    assert run.allowance == np.inf


def test_a_breakdown_on_the_way_leaves_the_first_optimum(monkeypatch):
    run, noise, state = explored(problem(0))

    def breaks(*args):
        raise Breakdown

    monkeypatch.setattr(relaxation, "exchange_rounds", breaks)
    assert relax(run, state, noise) is state
    assert run.allowance == np.inf
    assert run.problem.hyperprior == Smoothness(np.log(200))


def test_few_iterations_are_left_to_converge_with():
    given = problem(0)
    used = explored(given)[0].iterations
    run, noise, state = explored(given, max_iter=2 * used)
    assert relax(run, state, noise) is state
    solution = working_set.solve(given, max_iter=2 * used)
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("whole", [10, 4096])
def test_large_dictionaries_are_sampled_or_joined_by_a_crowd(monkeypatch, whole):
    monkeypatch.setattr(relaxation, "_WHOLE", whole)
    # the first optimum is a poor one on purpose, so that a second detour starts from a better one
    given = problem(3, n=80, m=900, k=12)
    run, noise, _ = explored(given, large=True)
    poor = working_set.empty_state(given, given.power)
    found = relax(run, poor, noise)
    assert found.objective > poor.objective + 20
    assert set(range(12)) <= set(found.active.tolist())
    # from new sums: a column of G that is kept has other last bits than one that is not
    again = relax(explored(problem(3, n=80, m=900, k=12), large=True)[0], poor, noise)
    np.testing.assert_array_equal(found.active, again.active)
    np.testing.assert_array_equal(found.v, again.v)


def test_a_crowd_competes_under_the_flat_prior(monkeypatch):
    given = problem(3, n=80, m=900, k=12)
    run, noise, state = explored(given, large=True)
    joined = []
    rearrange = relaxation.rearrange

    def watched(run, active, v, noise_var):
        joined.append((run.problem.hyperprior, active.size - state.active.size))
        return rearrange(run, active, v, noise_var)

    monkeypatch.setattr(relaxation, "rearrange", watched)
    relaxation._detour(run, state, noise, np.random.RandomState(0), False, np.inf)
    assert joined == [(Flat(), relaxation._CROWD)]
