"""Faul & Tipping 2002: the evidence of one variance, and a joint maximum that is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import whiten
from sparsebayes.estimators import SparseBayesRegressor
from sparsebayes.hyperpriors import Flat
from sparsebayes.reproduce.findings import Entry, Findings, Picture
from sparsebayes.solvers.newton import Noise, curvature, derivatives

__all__ = ["SADDLE", "SADDLE_T", "measure"]

# Optimal in each coordinate at variances of one half and noise of one, and yet a saddle.
_ANGLE = np.radians(20)
SADDLE = np.array([[np.cos(_ANGLE), -np.cos(_ANGLE)], [np.sin(_ANGLE), np.sin(_ANGLE)]])
SADDLE_T = np.array([0.0, 2.473559])
_CASES = {"q2 > s": (1.0, 2.0), "q2 < s": (1.0, 0.6)}  # s, q
_RANDOM = 1000


def measure(tell: Callable[[str], None]) -> Findings:
    """Check results I and II by search, and result III by a counterexample.

    Parameters
    ----------
    tell : callable
        Told what comes next.

    Returns
    -------
    Findings
        Figures and pictures.
    """
    tell("the best variance of one atom, by formula and by search")
    apart, wrong = _searches()
    tell("result III: a point that is best in each coordinate")
    gram = _gram()
    v = np.array([0.5, 0.5])
    white = whiten(gram, v, 1.0)
    gradient, hessian = derivatives(gram, Flat(), v, Noise(1.0, False, 0.0), white)
    model = SparseBayesRegressor(fit_intercept=False, prior="flat", noise_variance=1.0)
    model.fit(SADDLE, SADDLE_T)
    return Findings(
        "Faul & Tipping 2002, Analysis of sparse Bayesian learning, NIPS 14, 383-389",
        (
            Entry("eq. 17: largest error of log alpha", apart, 0, ".1g"),
            Entry("result II: atoms wrongly in or out", wrong, 0, "d"),
            Entry("result III, alpha = (2, 2): gradient", float(np.abs(gradient).max()), 0, ".1g"),
            Entry("its largest curvature", curvature(hessian)[0], 0, ".3g", "at most"),
            Entry("log evidence there", white.log_evidence, None, ".3f"),
            Entry(
                "log evidence of the default solver", model.log_marginal_likelihood_, None, ".3f"
            ),
        ),
        (
            f"Results I and II hold: {_RANDOM} random s and q, the formula beside a search of l.",
            "Result III says that the curvature is zero at most, so that no saddle is mistaken for "
            "a maximum. It is false: for the two atoms here every change of one alpha of (2, 2) "
            "lowers the evidence, and a joint one raises it. The default solver goes on.",
        ),
        (Picture("figure1", (7, 3), _draw),),
    )


def _searches() -> tuple[float, int]:
    """Compare the best variance with a search; how far apart, and how often on the wrong side."""
    rng = np.random.default_rng(0)
    s = np.exp(rng.normal(0, 2, _RANDOM))
    q2 = s * np.exp(rng.normal(0.5, 1, _RANDOM))
    best = Flat().best_variance(s, q2, 1.0)
    apart, wrong = 0.0, 0
    for s_j, q2_j, v_j in zip(s, q2, best, strict=True):

        def loss(u: float, s_j: float = s_j, q2_j: float = q2_j) -> float:
            return -float(_value(np.exp(u), s_j, q2_j))

        middle = -np.log(s_j)
        found = minimize_scalar(
            loss, bounds=(middle - 12, middle + 12), method="bounded", options={"xatol": 1e-9}
        )
        wrong += (-found.fun > 1e-9) != (v_j > 0)
        if -found.fun > 1e-3:
            apart = max(apart, abs(found.x - np.log(v_j)))
    return apart, int(wrong)


def _value(v: Any, s: float, q2: float) -> NDArray[np.float64]:
    """Evidence of a variance over none (F&T eq. 13, T&F eq. 18), from its definition."""
    return np.asarray(0.5 * (-np.log1p(v * s) + v * q2 / (1 + v * s)))


def _gram() -> Gram:
    t = SADDLE_T[:, np.newaxis]
    tt = float(np.sum(t**2))
    return Gram(SADDLE.T @ SADDLE, SADDLE.T @ t, tt, n=2.0, spread=tt / 2)


def _draw(figure: Any) -> None:
    from sparsebayes.plotting import AtomEvidenceDisplay

    for axes, (name, (s, q)) in zip(figure.subplots(1, 2), _CASES.items(), strict=True):
        AtomEvidenceDisplay.from_statistics(s, q, ax=axes)
        axes.set_title(name, fontsize="small")
