"""Stored problems of classes and counts with known optima, where they are at hand."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

from random_latent_problems import LatentCase
from sparsebayes.hyperpriors import Flat
from sparsebayes.likelihoods import Bernoulli, Poisson
from sparsebayes.problem import Status
from sparsebayes.solvers import relinearize, sequential
from sparsebayes.solvers.expand import LatentProblem, Point, expand

ORACLES = Path(__file__).resolve().parents[2] / "shared" / "oracles"
CASES = {
    "Ripley": ("c08_ripley_orig_n250", Bernoulli()),
    "counts": ("c18_poisson_gauss_n200", Poisson()),
}
pytestmark = pytest.mark.skipif(
    not all((ORACLES / f"{file}.npz").exists() for file, _ in CASES.values()),
    reason="the stored problems are not at ../shared/oracles",
)
every_case = pytest.mark.parametrize("name", CASES)


def load(name):
    """The stored arrays and the problem; its bias is a column like others, no intercept."""
    file, likelihood = CASES[name]
    with np.load(ORACLES / f"{file}.npz") as opened:
        stored = dict(opened)
    t, none = stored["t"].astype(float), np.empty(0, dtype=np.intp)
    return stored, LatentCase(stored["Phi"], t, None, likelihood, False, False, none, np.empty(0))


def evidence(stored, which, name):
    """As stored: for counts without -sum log t!, which is added here."""
    constant = np.sum(gammaln(stored["t"] + 1.0)) if name == "counts" else 0.0
    return float(stored[f"{which}__logml_dense"]) - constant


@every_case
@pytest.mark.parametrize("which", ["sb2", "best"])
def test_evidence_of_stored_models(name, which):
    stored, case = load(name)
    model = case.at(stored[f"{which}__used"], 1 / stored[f"{which}__alpha"])
    at = expand(case.latent(), Flat(), Point(model.active, model.v))
    assert at.state.log_evidence == pytest.approx(evidence(stored, which, name), abs=1e-5)
    np.testing.assert_allclose(at.mode.w, stored[f"{which}__w"], rtol=1e-3, atol=1e-5)


@every_case
def test_single_moves_end_at_the_best_known_optimum(name):
    stored, case = load(name)
    solution = sequential.solve(LatentProblem(case.latent(), Flat()))
    assert solution.status is Status.CONVERGED
    assert solution.log_evidence > evidence(stored, "best", name) - 1.0


@every_case
def test_the_default_is_no_worse_than_the_best_known(name):
    stored, case = load(name)
    solution = relinearize.solve(LatentProblem(case.latent(), Flat()))
    assert solution.status is Status.CONVERGED
    assert solution.log_evidence == pytest.approx(evidence(stored, "best", name), abs=0.01)
    assert solution.state.active.size == stored["best__used"].size  # or a neighbor of one of them
