"""A second start from many atoms, where no atom gains alone and growth stops at once."""

import numpy as np
import pytest
from hypothesis import given

from random_problems import examples, random_case, seeds
from sparsebayes import RVR
from sparsebayes.datasets import friedman1, sinc
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import Flat
from sparsebayes.problem import Problem
from sparsebayes.solvers.descend import shared_variance


@given(seed=seeds)
@examples(40)
def test_the_objective_of_a_shared_variance_is_that_of_its_state(seed):
    case = random_case(seed)
    quad = case.quad()
    atoms = np.flatnonzero(quad.diag)
    if not atoms.size:
        return
    gram = quad.gram(atoms)
    for noise_var in (case.noise, None):
        noise = Problem(gram, Flat(), noise_var).noise()
        shared = shared_variance(gram, Flat(), noise)
        state = refresh(
            gram, Flat(), np.arange(atoms.size), np.full(atoms.size, shared.v), shared.noise_var
        )
        assert shared.objective == pytest.approx(state.objective, rel=1e-7, abs=1e-6)
        assert noise.estimated or shared.noise_var == noise.var


@pytest.mark.parametrize(
    ("data", "gamma", "least"),
    [
        (sinc(1000, noise=0.1, dim=2, random_state=0), "scale", 555.0),  # 264 with one atom
        (friedman1(240, random_state=1), 0.03, -545.0),  # -572 with five
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
