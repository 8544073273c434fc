"""Swaps of two atoms at once, and the quadratic of active columns that Newton's sums give."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from random_latent_problems import latent_cases
from random_problems import examples
from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import Flat
from sparsebayes.problem import Problem
from sparsebayes.solvers.climb import Run
from sparsebayes.solvers.expand import UNIT_NOISE, Point, expand
from sparsebayes.solvers.pairs import _best_pair, slide_pairs


def opposed(seed=0, m=40):
    """Neighbors are nearly collinear; the targets ask for differences of them."""
    rng = np.random.RandomState(seed)
    x, centers = np.linspace(0, 1, 80), np.linspace(0, 1, m)
    Phi = np.exp(-((x[:, None] - centers) ** 2) / 0.08)
    Phi /= np.linalg.norm(Phi, axis=0)
    t = 30.0 * (Phi[:, 14] - Phi[:, 20]) + 20.0 * Phi[:, 33] + rng.standard_normal(80)
    return Gram(Phi.T @ Phi, (Phi.T @ t)[:, None], 0.0, 0.0, 1.0)


def run_of(gram):
    return Run(Problem(gram, Flat(), 1.0), 1000, None, large=False)


@pytest.mark.parametrize("seed", range(3))
def test_the_gain_of_a_pair_is_the_change_of_the_objective(seed):
    gram = opposed(seed)
    state = refresh(gram, Flat(), np.array([11, 23, 30]), np.array([500.0, 300.0, 400.0]), 1.0)
    pair = _best_pair(run_of(gram), state)
    active = state.active.copy()
    active[pair.places] = pair.atoms
    swapped = refresh(gram, Flat(), active, state.v, 1.0)
    assert pair.gain == pytest.approx(swapped.objective - state.objective, rel=1e-6)
    assert pair.gain > 1.0
    assert np.unique(active).size == 3


def test_pairs_slide_where_no_single_swap_leads():
    gram = opposed()
    start = refresh(gram, Flat(), np.array([11, 23, 30]), np.array([500.0, 300.0, 400.0]), 1.0)
    run = run_of(gram)
    end = slide_pairs(run, start, UNIT_NOISE, 1e-3, np.random.RandomState(0))
    assert run.iterations > 0
    assert end.objective > start.objective + 1.0
    again = refresh(gram, Flat(), end.active, end.v, 1.0)
    assert end.objective == pytest.approx(again.objective, rel=1e-9)
    one = refresh(gram, Flat(), start.active[:1], start.v[:1], 1.0)
    assert slide_pairs(run, one, UNIT_NOISE, 1e-3, np.random.RandomState(0)) is one


@pytest.mark.parametrize("singular", [False, True])
def test_two_atoms_that_cannot_be_told_apart_are_no_pair(singular):
    gram = opposed()
    same = np.arange(40)
    same[1] = 0  # a copy
    gram = Gram(gram.G[np.ix_(same, same)], gram.g[same], 0.0, 0.0, 1.0)
    state = refresh(gram, Flat(), np.array([0, 1, 30]), np.array([1e13, 1e13, 400.0]), 1.0)
    if singular:
        W = state.white.W.copy()
        W[:2, :2] = 0.5 * np.array([[1.0, -1.0], [-1.0, 1.0]])
        state = replace(state, white=state.white._replace(W=W))
    pair = _best_pair(run_of(gram), state)
    assert np.isfinite(pair.gain)
    assert pair.places != [0, 1]


@examples(60)
@given(latent_cases())
def test_active_columns_have_the_quadratic_of_all_beside_the_mode_too(case):
    if not case.active.size:
        return
    point, latent = Point(case.active, case.v), case.latent()
    for loose in (0.0, 1.0):
        whole = expand(latent, Flat(), point, loose=loose)
        alone = expand(latent, Flat(), point, alone=True, loose=loose)
        if alone.state.active.size < case.active.size:  # saturated
            continue
        columns = alone.quad.members(case.active)
        scale = 1.0 + abs(whole.state.objective)
        assert alone.state.objective == pytest.approx(whole.state.objective, abs=1e-8 * scale)
        np.testing.assert_allclose(alone.quad.norm[columns], whole.quad.norm[columns], rtol=1e-6)
        there, here = whole.moved(whole.state), alone.moved(alone.state)
        np.testing.assert_allclose(here.v, there.v, rtol=1e-6)
        size = np.sqrt(np.repeat(point.v, latent.K if latent.shared else 1))
        np.testing.assert_allclose(
            here.starts[0].w / size, there.starts[0].w / size, rtol=1e-5, atol=1e-6
        )
