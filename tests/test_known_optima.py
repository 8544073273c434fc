"""Stored problems with known answers, where they are at hand: evidence to many digits, optima."""

import json
from pathlib import Path

import numpy as np
import pytest

from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.engine import refresh
from sparsebayes.hyperpriors import Flat, InverseGamma, Smoothness
from sparsebayes.problem import Problem, Status
from sparsebayes.solvers import search, sequential

ORACLES = Path(__file__).resolve().parents[2] / "shared" / "oracles"
pytestmark = pytest.mark.skipif(
    not (ORACLES / "logml_40digits.json").exists(),
    reason="the stored problems are not at ../shared/oracles",
)
CASES = {
    "c01": "c01_sinc1d_lspline_n100",
    "c10": "c10_sparse_n100_m400",
    "c14": "c14_heavynoise_gauss_n200",
    "c16": "c16_cs_noiseless_n64_m256",
    "c19": "c19_doppler_sym8_n128",
    "c20": "c20_blockssinc_haar_tps_n128",
}


def load(case):
    with np.load(ORACLES / f"{CASES[case]}.npz") as file:
        stored = dict(file)
    return stored, weighted_quadratic(ArrayDesign(stored["Phi"]), stored["t"][:, None])


@pytest.mark.parametrize("case", ["c01", "c14", "c20"])
@pytest.mark.parametrize("which", ["sb2", "sb2fix", "best", "bestfix"])
def test_evidence_equals_that_of_forty_digits(case, which):
    stored, quad = load(case)
    used, alpha = stored[f"{which}__used"], stored[f"{which}__alpha"]
    v, noise = quad.norm[used] ** 2 / alpha, 1 / float(stored[f"{which}__beta"])
    if (v / noise).max() > 2e8:
        pytest.skip("too ill-conditioned for an evidence to six digits in double precision")
    exact = json.loads((ORACLES / "logml_40digits.json").read_text())[f"{CASES[case]}|{which}"]
    state = refresh(quad, Flat(), used, v, noise)
    assert state.log_evidence == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(
    ("case", "fixed"), [("c01", False), ("c01", True), ("c14", False), ("c14", True), ("c19", True)]
)
def test_the_default_solver_ends_near_the_best_known_optimum(case, fixed):
    stored, quad = load(case)
    noise = float(stored["noise_std"]) ** 2 if fixed else None
    best = float(stored["bestfix__logml_dense" if fixed else "best__logml_dense"])
    solution = search.solve(Problem(quad, Flat(), noise))
    assert solution.status is Status.CONVERGED
    assert solution.log_evidence > best - 5


@pytest.mark.parametrize("c", [0.0, 2.0])
@pytest.mark.parametrize("solve", [search.solve, sequential.solve])
def test_wavelets_have_the_closed_form(solve, c):
    stored, quad = load("c19")
    noise = float(stored["noise_std"]) ** 2
    solution = solve(Problem(quad, Smoothness(c), noise))
    z2 = quad.g[:, 0] ** 2 / noise
    np.testing.assert_array_equal(np.sort(solution.state.active), np.flatnonzero(z2 > 1 + 2 * c))
    assert solution.status is Status.CONVERGED
    if c == 0:
        best = float(stored["bestfix__logml_dense"])
        assert solution.log_evidence == pytest.approx(best, abs=1e-6)


SMOOTH = [f"c20|{name}|{kind}" for name in ("AIC", "BIC", "RIC") for kind in ("fixed", "estimated")]
SMOOTH += [f"c10|{name}|{kind}" for name in ("BIC", "RIC") for kind in ("fixed", "estimated")]
SMOOTH += [
    f"c19|{name}|{kind}" for name in ("AIC", "BIC", "RIC") for kind in ("fixed", "estimated")
]


@pytest.mark.parametrize("which", [*SMOOTH, "c10|AIC|fixed"])
def test_unions_and_wide_dictionaries_under_a_smoothness_prior(which):
    """Within a nat of the best known, or above; their noise has the paper's prior, unnormalized."""
    case, _, kind = which.split("|")
    # of atoms of unit norm, which those of c19 are as they are: orthonormal, so its best is exact
    name = "srvm_oracles" if case == "c19" else "srvm_oracles_unitnorm"
    best = json.loads((ORACLES / f"{name}.json").read_text())[which]
    with np.load(ORACLES / f"{CASES[case]}.npz") as stored:
        design, t = ArrayDesign(stored["Phi"]), stored["t"][:, None]
    before, noise = InverseGamma(1e-4, 1e-4), None
    reached = -before.log_normalizer
    if kind == "fixed":
        before, noise, reached = None, best["sigma2"], 0.0
    quad = weighted_quadratic(design, t, noise_prior=before)
    solution = search.solve(Problem(quad, Smoothness(best["c"]), noise))
    assert solution.converged
    assert solution.state.objective + reached > best["log_posterior"] - 1
    if case == "c19":
        assert solution.state.objective + reached == pytest.approx(best["log_posterior"], abs=1e-6)


def test_noise_free_compressive_sensing_recovers_the_spikes():
    stored, quad = load("c16")
    solution = search.solve(Problem(quad, Flat()))
    assert solution.status is Status.NOISE_FLOOR
    active = solution.state.active
    assert set(active.tolist()) == set(stored["best__used"].tolist())
    np.testing.assert_allclose(
        quad.products.unit_atoms(active, quad.unit).T @ solution.state.mu[:, 0], stored["t"]
    )
    # the evidence grows as the noise falls: compared at the noise of the best known
    noise = 1 / float(stored["best__beta"])
    there = search.solve(Problem(quad, Flat(), noise))
    assert there.log_evidence > float(stored["best__logml_dense"]) - 1
