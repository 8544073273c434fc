"""A search that begins with a crowd of atoms, where growth from nothing ends far too low."""

import numpy as np
import pytest

from random_problems import random_case
from sparsebayes import RVR
from sparsebayes.core.quadratic import Gram
from sparsebayes.datasets import friedman1, sinc
from sparsebayes.engine import Breakdown, refresh
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.problem import Problem
from sparsebayes.solvers import explore, working_set
from sparsebayes.solvers.climb import Run
from sparsebayes.solvers.crowd import from_crowd


def run_of(problem, max_iter=1000):
    return Run(problem, max_iter, None, large=False)


def kernels(n=200, M=200, gamma=0.16):
    data = sinc(n, noise=0.1, dim=2, random_state=0)
    distance = ((data.X[:, None] - data.X[None, :M]) ** 2).sum(axis=2)
    Phi = np.exp(-gamma * distance)
    Phi -= Phi.mean(axis=0)
    Phi /= np.linalg.norm(Phi, axis=0)
    t = (data.y - data.y.mean())[:, None]
    return Gram(Phi.T @ Phi, Phi.T @ t, float((t**2).sum()), n - 1.0, float(t.std()))


def test_a_crowd_explains_what_growth_takes_for_noise(monkeypatch):
    data = friedman1(1000, random_state=20)
    crowd = RVR(gamma=0.093, random_state=0).fit(data.X, data.y)
    monkeypatch.setattr(working_set, "begin", explore.explore)
    grown = RVR(gamma=0.093, random_state=0).fit(data.X, data.y)
    assert crowd.converged_
    assert crowd.log_marginal_likelihood_ > grown.log_marginal_likelihood_ + 50.0
    assert crowd.noise_variance_ < grown.noise_variance_


@pytest.mark.parametrize("noise_var", [None, 0.01])
def test_what_a_crowd_leads_to_is_a_state_of_its_problem(noise_var):
    problem = Problem(kernels(), Flat(), noise_var)
    run = run_of(problem)
    state = from_crowd(run, problem.noise(0.1), np.random.RandomState(0))
    again = refresh(problem.quad, Flat(), state.active, state.v, state.noise_var)
    assert state.objective == pytest.approx(again.objective, rel=1e-9)
    assert 5 < state.active.size < 60
    assert run.screen(state).gains.max() < run.rough + 1e-3
    assert noise_var is None or state.noise_var == noise_var


def test_no_crowd_begins_where_it_has_no_place():
    quad, rng = kernels(), np.random.RandomState(0)
    noise = Problem(quad, Flat(), None).noise(0.1)
    assert from_crowd(run_of(Problem(quad, Flat(), None)), noise, rng) is not None
    assert from_crowd(run_of(Problem(quad, Smoothness(1.0), None)), noise, rng) is None
    assert from_crowd(run_of(Problem(quad, Flat(), None), max_iter=10), noise, rng) is None
    few = quad.gram(np.arange(10))
    assert from_crowd(run_of(Problem(few, Flat(), None)), noise, rng) is None


@pytest.mark.parametrize("seed", range(20))
def test_any_problem_can_begin(seed):
    """With a crowd, without one, or with one that breaks down."""
    case = random_case(seed)
    quad = case.quad()
    problem = Problem(quad.gram(np.arange(quad.size)), Flat(), None)
    noise = problem.noise(0.1)
    state = explore.begin(run_of(problem), noise, noise.var, np.random.RandomState(seed))
    assert np.isfinite(state.objective)
    again = refresh(problem.quad, Flat(), state.active, state.v, state.noise_var)
    assert state.objective == pytest.approx(again.objective, rel=1e-6, abs=1e-6)


def test_both_starts_go_on_among_few_atoms(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(60, 1))
    y = np.sin(3 * X[:, 0]) + 0.001 * rng.normal(size=60)
    both = RVR(gamma=5.0, random_state=0).fit(X, y)
    monkeypatch.setattr(working_set, "begin", explore.explore)
    grown = RVR(gamma=5.0, random_state=0).fit(X, y)
    assert both.log_marginal_likelihood_ > grown.log_marginal_likelihood_ - 0.1


def test_growth_that_breaks_down_costs_nothing_else(monkeypatch):
    problem = Problem(kernels(100, 100), Flat(), None)
    noise = problem.noise(0.1)

    def broken(run, *_):
        run.problem = Problem(problem.quad.gram(np.arange(5)), Flat(), None)
        raise Breakdown

    monkeypatch.setattr(explore, "grow", broken)
    run = run_of(problem)
    state = explore.begin(run, noise, noise.var, np.random.RandomState(0))
    assert run.problem is problem
    assert state.active.size > 5
