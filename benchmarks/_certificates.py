"""Certificates of fits with little noise beside independent code, in float64 and in long double.

With A = [sqrt(v / noise) Phi_a; I] = QR all that a certificate says follows from residuals, without
a square of Phi_a: log|C| from the diagonal of R, s and q of an atom from what Q leaves of its
column and of the targets. The factors are computed here by Householder's reflections, in any
precision that NumPy has.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks._harness import Report
from sparsebayes import RVR

Array = NDArray[Any]

DRAWS, ESTIMATED = 5, 3  # and those of them whose noise is estimated
LEAST = 1e-6  # of the spread: noise that is given where there is none
SIZES = (40, 60)
GAMMAS = (0.003, 0.01, 0.03, 0.1)
NOISES = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
HIDDEN = 1e-3  # nats that a certificate may leave out, beside its rounding


class Fit(NamedTuple):
    """A kernel matrix, targets, and the machine that was fitted to them."""

    name: str
    noise: float
    K: Array
    y: Array
    model: RVR


class Truth(NamedTuple):
    """What independent code finds of a model."""

    max_gain: float
    evidence: float


def fits() -> Iterator[Fit]:
    """Smooth functions with little noise, and kernels of given widths, most of them wide."""
    for size, gamma, noise, draw in product(SIZES, GAMMAS, NOISES, range(DRAWS)):
        yield fitted(size, gamma, noise, draw)


def fitted(size: int, gamma: float, noise: float, draw: int) -> Fit:
    """One fit; in two draws of five its noise is given, and may be less than would be found."""
    rng = np.random.default_rng([draw, size])
    x = np.sort(rng.uniform(-10, 10, size))
    y = np.sinc(x / np.pi) + 0.2 * np.sin(0.3 * x + draw)
    std, least = noise * y.std(), LEAST * y.std()
    y += std * rng.standard_normal(size)
    given = None if draw < ESTIMATED else max(std, least) ** 2
    K = rbf_kernel(x[:, None], gamma=gamma)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = RVR(kernel="precomputed", noise_variance=given).fit(K, y)
    how = "" if given is None else f" (given {given**0.5:.1g})"
    return Fit(f"N = {size}, gamma {gamma}, noise {noise:g}{how}, draw {draw}", noise, K, y, model)


class Reflections:
    """Q of a matrix as Householder's reflections, and the diagonal of R."""

    def __init__(self, A: Array) -> None:
        A = A.copy()
        self.vectors = []
        self.diagonal = np.zeros(A.shape[1], dtype=A.dtype)
        for j in range(A.shape[1]):
            u = A[j:, j].copy()
            norm = np.sqrt((u * u).sum())
            self.diagonal[j] = norm
            u[0] += norm if u[0] >= 0 else -norm
            u /= np.sqrt((u * u).sum())
            self.vectors.append(u)
            A[j:] -= 2 * np.outer(u, (u[:, None] * A[j:]).sum(axis=0))

    def rest(self, B: Array) -> Array:
        """What is left of columns beside those of the matrix, in the basis of Q."""
        B = B.copy()
        for j, u in enumerate(self.vectors):
            B[j:] -= 2 * np.outer(u, (u[:, None] * B[j:]).sum(axis=0))
        return B[len(self.vectors) :]


def truth(fit: Fit, dtype: Any) -> Truth:
    """Largest gain of any single atom and the evidence, by QR in a precision."""
    model = fit.model
    Phi, t = fit.K.astype(dtype), fit.y.astype(dtype)
    Phi, t = Phi - Phi.sum(axis=0) / len(t), t - t.sum() / len(t)  # the intercept has a flat prior
    noise = dtype(model.noise_variance_)
    active, v = np.asarray(model.relevance_), np.asarray(model.prior_variance_).astype(dtype)
    std = np.sqrt(noise)
    # All atoms and the targets beside zeros for the unit matrix below the atoms of the model.
    right = np.zeros((len(t) + len(v), Phi.shape[1] + 1), dtype=dtype)
    right[: len(t)] = np.column_stack([Phi, t]) / std
    A = np.vstack([Phi[:, active] * (np.sqrt(v) / std), np.eye(len(v), dtype=dtype)])
    gains = np.zeros(Phi.shape[1], dtype=dtype)
    whole = Reflections(A)
    s, q = products(whole.rest(right))
    outside = np.setdiff1d(np.arange(Phi.shape[1]), active)
    gains[outside] = best_gain(s[outside], q[outside])
    for j, atom in enumerate(active):
        others = np.delete(np.arange(len(v)), j)
        without = Reflections(np.delete(A[:, others], len(t) + j, axis=0))
        s, q = products(without.rest(np.delete(right, len(t) + j, axis=0)))
        now = gain(s[atom], q[atom], v[j])
        gains[atom] = best_gain(s[atom : atom + 1], q[atom : atom + 1])[0] - now
    rest = whole.rest(right[:, -1:])
    n = len(t)
    log_det = 2 * np.log(whole.diagonal).sum() + (n - 1) * np.log(2 * np.pi * noise)
    evidence = -0.5 * (log_det + (rest * rest).sum() + np.log(dtype(n)))
    return Truth(float(gains.max(initial=0.0)), float(evidence))


def products(rest: Array) -> tuple[Array, Array]:
    """s and q of every atom, from what is left of the atoms and, last, of the targets."""
    return (rest[:, :-1] ** 2).sum(axis=0), (rest[:, :-1] * rest[:, -1:]).sum(axis=0)


def gain(s: Array, q: Array, v: Array) -> Array:
    """Nats that an atom of variance v is worth (Tipping & Faul 2003, eq. 18)."""
    return 0.5 * (q * q * v / (1 + v * s) - np.log1p(v * s))


def best_gain(s: Array, q: Array) -> Array:
    """The same at the variance that suits an atom best, zero where that is none."""
    there = q * q > s
    v = np.where(there, (q * q - s) / np.where(s > 0, s * s, 1.0), 0.0)
    return np.where(there & (s > 0), gain(s, q, v), 0.0)


def compared(fit: Fit) -> dict[str, Any]:
    """What a certificate says, and what is true."""
    certificate = fit.model.certificate_
    wide, double = truth(fit, np.longdouble), truth(fit, np.float64)
    off = abs(float(fit.model.log_marginal_likelihood_) - wide.evidence)
    return {
        "fit": fit.name,
        "noise": fit.noise,
        "status": fit.model.solution_.status.name,
        "said": certificate.max_gain,
        "rounding": certificate.rounding,
        "long double": wide.max_gain,
        "float64": double.max_gain,
        "hidden": wide.max_gain - certificate.max_gain - certificate.rounding,
        "evidence off": off,
        "evidence beyond": off - certificate.rounding,
    }


def of_noise(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One line for each noise."""
    for noise in sorted({row["noise"] for row in rows}):
        group = [row for row in rows if row["noise"] == noise]
        yield {
            "noise": f"{noise:g}",
            "fits": len(group),
            "converged": sum(row["status"] == "CONVERGED" for row in group),
            "at the floor": sum(row["status"] == "NOISE_FLOOR" for row in group),
            "gain said": max(row["said"] for row in group),
            "rounding said": max(row["rounding"] for row in group),
            "gain, long double": max(row["long double"] for row in group),
            "gain, float64": max(row["float64"] for row in group),
            "hidden": max(row["hidden"] for row in group),
            "hide a gain": sum(row["hidden"] > HIDDEN for row in group),
            "evidence off": max(row["evidence off"] for row in group),
            "off by more": sum(row["evidence beyond"] > HIDDEN for row in group),
        }


COLUMNS = {
    "noise": "",
    "fits": "d",
    "converged": "d",
    "at the floor": "d",
    "gain said": ".2g",
    "rounding said": ".2g",
    "gain, long double": ".2g",
    "gain, float64": ".2g",
    "hidden": ".2g",
    "hide a gain": "d",
    "evidence off": ".2g",
    "off by more": "d",
}
WORST_COLUMNS = {
    "fit": "",
    "status": "",
    "said": ".2g",
    "rounding": ".2g",
    "long double": ".2g",
    "float64": ".2g",
    "evidence off": ".2g",
}


def compare(report: Report) -> None:
    """Tell what certificates of 200 fits hide."""
    rows = [compared(fit) for fit in fits()]
    digits = np.finfo(np.longdouble).nmant + 1
    report.note(
        f"certificates: {len(rows)} fits of smooth functions with noise of 0 to 0.01 of their "
        f"spread, beside QR by reflections in float64 and in {digits} bits; hidden is the gain in "
        "long double less the one said and less the rounding said"
    )
    report.show("Certificates, nats", list(of_noise(rows)), COLUMNS)
    wrong = [row for row in rows if max(row["hidden"], row["evidence beyond"]) > HIDDEN]
    if wrong:
        worst = sorted(wrong, key=lambda row: -max(row["hidden"], row["evidence beyond"]))
        report.show("Certificates that hide more than they say", worst[:20], WORST_COLUMNS)
    hidden = sum(row["hidden"] > HIDDEN for row in rows)
    report.judge(
        "no certificate hides a gain above 1e-3 nats and its rounding",
        hidden == 0,
        f"{hidden} of {len(rows)}; most {max(row['hidden'] for row in rows):.2g}",
    )
    held = sum(row["hidden"] > HIDDEN and row["status"] == "CONVERGED" for row in rows)
    report.judge(
        "none of a fit that ended CONVERGED does",
        held == 0,
        f"{held} of {sum(row['status'] == 'CONVERGED' for row in rows)}",
    )
    off = sum(row["evidence beyond"] > HIDDEN for row in rows)
    report.judge(
        "no evidence is off by more than 1e-3 nats and its rounding",
        off == 0,
        f"{off} of {len(rows)}; most {max(row['evidence off'] for row in rows):.2g}",
    )
