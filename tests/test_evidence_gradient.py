"""The derivative of the objective in atoms, against differences of dense definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import oracle
from sparsebayes.design import ArrayDesign
from sparsebayes.engine import refresh
from sparsebayes.evidence_gradient import gaussian_gradient
from sparsebayes.hyperpriors import Flat, Smoothness
from sparsebayes.quadratic import DesignQuadratic

N, M = 18, 6


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def center(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["weights", "no weights"])
def weights(request):
    return np.random.default_rng(1).integers(1, 4, N) if request.param else None


@pytest.mark.parametrize("prior", [Flat(), Smoothness(1.7)], ids=str)
@pytest.mark.parametrize("n_targets", [1, 3])
def test_gaussian_noise(center, weights, prior, n_targets):
    rng = np.random.default_rng(0)
    Phi, t = rng.normal(size=(N, M)) + 0.7, rng.normal(size=(N, n_targets)) + 2.0
    active, v, noise = np.array([4, 0, 3]), np.array([0.3, 2.0, 1e-2]), 0.4

    def objective(Phi_a):  # complex where its derivative is wanted
        many = oracle.repeated(Phi_a, weights)
        shifted = many - many.mean(axis=0) if center else many
        evidence = oracle.log_evidence(many, oracle.repeated(t, weights), v, noise, center)
        return evidence + np.sum(prior.log_density(v * np.sum(shifted**2, axis=0), noise))

    want = np.empty((N, len(active)))
    for n in range(N):
        for j in range(len(active)):
            step = np.zeros((N, len(active)))
            step[n, j] = oracle.STEP
            want[n, j] = objective(Phi[:, active] + 1j * step).imag / oracle.STEP
    quad = DesignQuadratic(ArrayDesign(Phi), t, weights, center)
    state = refresh(quad, prior, active, v * quad.norm[active] ** 2, noise)
    got = gaussian_gradient(quad, state, prior, t)
    assert_allclose(got, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())
