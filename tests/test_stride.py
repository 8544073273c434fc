"""Atoms of a fine dictionary go on the way they went."""

import numpy as np
import pytest

from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.dictionaries import Kernel
from sparsebayes.hyperpriors import Flat
from sparsebayes.problem import Problem
from sparsebayes.solvers.climb import Run
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.stride import stride

X = np.linspace(-10, 10, 801)[:, None]
NOISE = Noise(0.01, False, 1e-12)


def two_bumps(sign=1.0):
    """Kernels at all rows, and targets made of those at rows 300 and 600."""
    K = Kernel("rbf", gamma=0.3).bind(X).evaluate(X)
    y = K[:, 300] - 2.0 * K[:, 600] + np.random.default_rng(0).normal(0, 0.1, len(X))
    K = K * np.where(np.arange(len(X)) % 2, sign, 1.0)
    quad = weighted_quadratic(ArrayDesign(K), y[:, None])
    return Run(Problem(quad, Flat(), 0.01), 1000, None, large=False)


def at(run, *rows):
    return run.newton(np.array(rows), np.full(len(rows), 1.0), NOISE, 1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_stride_goes_on_to_the_optimum(sign):
    """Also where every second atom is turned upside down: an atom stands for its negative."""
    run = two_bumps(sign)
    before, state = at(run, 261, 639), at(run, 270, 630)
    moved = stride(run, before, state, NOISE, 1e-6)
    assert moved.objective > state.objective
    assert np.all(np.abs(moved.active - np.array([300, 600])) <= 10)


def test_stride_goes_nowhere_from_the_wrong_side():
    run = two_bumps()
    before, state = at(run, 310, 590), at(run, 290, 610)
    assert stride(run, before, state, NOISE, 1e-6).objective >= state.objective
