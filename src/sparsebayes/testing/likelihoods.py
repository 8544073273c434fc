"""The contract of a likelihood."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from sparsebayes.curvature_slope import KnowsCurvatureSlope
from sparsebayes.likelihoods import Expansion, Likelihood
from sparsebayes.testing._promises import ensure

FloatArray = NDArray[np.float64]

__all__ = ["check_likelihood"]

_STEP = 1e-4  # of central differences
_MODERATE = (0.1, 1.0, 5.0)  # sizes of latent values at which derivatives are compared
_EXTREME = (30.0, 1e3, 1e6, 1e100)  # at which nothing may break


def check_likelihood(likelihood: Likelihood, targets: ArrayLike) -> None:
    """Check that an object keeps the promises of a `Likelihood`.

    Derivatives are compared with finite differences, the curvature must be symmetric and positive
    semidefinite, nothing may overflow where latent values are large, and predictions must be the
    likelihood averaged over the latent values.

    Parameters
    ----------
    likelihood : Likelihood
        The object to check.
    targets : array-like of shape (N,)
        Targets it can take, the more different ones the better.

    Raises
    ------
    AssertionError
        If a promise is broken; the message says which one.

    Examples
    --------
    >>> from sparsebayes.likelihoods import Poisson
    >>> from sparsebayes.testing import check_likelihood
    >>> check_likelihood(Poisson(), [0, 1, 2, 50])
    """
    ensure(isinstance(likelihood, Likelihood), "it lacks a method or attribute of Likelihood")
    K: Any = likelihood.n_latent
    ensure(isinstance(K, int) and K >= 1, f"n_latent must be a positive int, it is {K!r}")
    t = _check_targets(likelihood, targets)
    rng = np.random.default_rng(0)
    for size in _MODERATE:
        f = size * rng.normal(size=(len(t), K))
        _check_derivatives(likelihood, t, f)
        if isinstance(likelihood, KnowsCurvatureSlope):
            _check_curvature_slope(likelihood, t, f, rng.normal(size=(len(t), K, K)))
    for size in _EXTREME:
        _check_extremes(likelihood, t, size * rng.uniform(-1, 1, size=(len(t), K)), size)
    _check_rows(likelihood, t, rng.normal(size=(len(t), K)))
    _check_predictive(likelihood, t, rng)


def _check_targets(likelihood: Likelihood, targets: ArrayLike) -> FloatArray:
    t: Any = likelihood.check(targets)
    n = len(np.asarray(targets))
    ensure(
        isinstance(t, np.ndarray) and t.shape == (n,) and t.dtype == np.float64,
        f"check() must return a float64 array of shape ({n},)",
    )
    try:
        again = likelihood.check(t)
    except ValueError as error:
        raise AssertionError(f"check() refuses targets it has checked: {error}") from None
    ensure(np.array_equal(again, t), "check() changes targets it has checked")
    bad = {"NaN": np.append(t, np.nan), "infinity": np.append(t, np.inf), "a table": t[:, None]}
    for name, wrong in bad.items():
        try:
            likelihood.check(wrong)
        except ValueError:
            continue
        raise AssertionError(f"check() must raise a ValueError for {name}")
    return np.asarray(t)


def _expand(likelihood: Likelihood, t: FloatArray, f: FloatArray, where: str) -> Expansion:
    """Expand; warnings, wrong shapes and changed arguments are errors."""
    n, K = f.shape
    given = t.copy(), f.copy()
    with warnings.catch_warnings(), np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("error")
        try:
            expansion = Expansion(*likelihood.expand(t, f))
        except Warning as warning:
            raise AssertionError(f"expand() warns {where}: {warning}") from None
    ensure(
        np.array_equal(t, given[0]) and np.array_equal(f, given[1]),
        "expand() changes its arguments",
    )
    for name, shape in (("value", (n,)), ("slope", (n, K)), ("curvature", (n, K, K))):
        got = np.shape(getattr(expansion, name))
        ensure(got == shape, f"expand() returns a {name} of shape {got}, not {shape}")
    return expansion


def _check_derivatives(likelihood: Likelihood, t: FloatArray, f: FloatArray) -> None:
    where = "at moderate latent values"
    value, slope, curvature = _expand(likelihood, t, f, where)
    for name, array in (("value", value), ("slope", slope), ("curvature", curvature)):
        ensure(np.isfinite(array).all(), f"{name} is not finite {where}")
    for k in range(f.shape[1]):
        h = _STEP * np.eye(f.shape[1])[k]
        up = _expand(likelihood, t, f + h, where)
        down = _expand(likelihood, t, f - h, where)
        first = (up.value - down.value) / (2 * _STEP)
        _close(slope[:, k], first, np.abs(value), "slope is not the gradient of value")
        second = -(up.slope - down.slope) / (2 * _STEP)
        rounding = np.abs(slope).max(axis=1, keepdims=True)
        _close(curvature[:, k], second, rounding, "curvature is not minus the Hessian")
    largest = np.abs(curvature).max(axis=(1, 2), keepdims=True)
    asymmetry = np.abs(curvature - curvature.transpose(0, 2, 1))
    ensure((asymmetry <= 1e-12 * largest).all(), "curvature is not symmetric")
    sizes = np.linalg.eigvalsh(curvature)
    least = -1e-10 * np.abs(sizes).max(axis=1)
    ensure(
        (sizes[:, 0] >= least).all(),
        "curvature has a negative eigenvalue: the likelihood is not log-concave",
    )


def _check_curvature_slope(
    likelihood: KnowsCurvatureSlope, t: FloatArray, f: FloatArray, F: FloatArray
) -> None:
    F = F + F.transpose(0, 2, 1)
    got = likelihood.curvature_slope(t, f, F)
    ensure(np.shape(got) == f.shape, f"curvature_slope() must return an array of shape {f.shape}")
    for k in range(f.shape[1]):
        h = _STEP * np.eye(f.shape[1])[k]
        up, down = (
            np.einsum("nkl,nkl->n", F, _expand(likelihood, t, g, "").curvature)
            for g in (f + h, f - h)
        )
        message = "curvature_slope is not the derivative of the curvature"
        _close(got[:, k], (up - down) / (2 * _STEP), np.abs(up), message)


def _close(got: FloatArray, want: FloatArray, rounding: FloatArray, message: str) -> None:
    """Compare with central differences: error of their formula, and of rounding in a quotient."""
    allowed = 1e-6 * (1 + np.abs(want)) + 1e-15 / _STEP * (1 + rounding)
    worst = np.max(np.abs(got - want) / allowed, initial=0.0)
    ensure(worst <= 1, f"{message}: off by {np.max(np.abs(got - want)):.2g}")


def _check_extremes(likelihood: Likelihood, t: FloatArray, f: FloatArray, size: float) -> None:
    where = f"at latent values of size {size:g}"
    value, slope, curvature = _expand(likelihood, t, f, where)
    ensure(not np.isnan(value).any() and (value < np.inf).all(), f"value is NaN or inf {where}")
    ensure(np.isfinite(slope).all(), f"slope is not finite {where}")
    ensure(np.isfinite(curvature).all(), f"curvature is not finite {where}")
    sizes = np.linalg.eigvalsh(curvature)
    least = -1e-10 * np.abs(sizes).max(axis=1)
    ensure((sizes[:, 0] >= least).all(), f"curvature has a negative eigenvalue {where}")


def _check_rows(likelihood: Likelihood, t: FloatArray, f: FloatArray) -> None:
    whole = _expand(likelihood, t, f, "")
    some = slice(None, None, -2)
    part = _expand(likelihood, t[some].copy(), f[some].copy(), "")
    for all_rows, rows in zip(whole, part, strict=True):
        ensure(
            np.allclose(all_rows[some], rows, rtol=1e-12, atol=1e-14),
            "expand() of some rows differs from those rows of expand() of all",
        )
    _expand(likelihood, t[:0], f[:0], "without rows")


def _check_predictive(
    likelihood: Likelihood, t: FloatArray, rng: np.random.Generator, n_points: int = 2000
) -> None:
    t = np.resize(t, max(12, len(t)))
    n, K = len(t), likelihood.n_latent
    f = 2.0 * rng.normal(size=(n, K))
    exact = likelihood.predictive(f, np.zeros((n, K, K)))
    log_p = getattr(exact, "logpmf", None) or getattr(exact, "logpdf", None)
    if log_p is None:
        raise AssertionError("predictive() must return an object with logpmf(y) or logpdf(y)")
    ensure(
        np.allclose(log_p(t), _expand(likelihood, t, f, "").value, rtol=1e-6, atol=1e-8),
        "predictive() without uncertainty differs from the likelihood itself",
    )
    root = 0.3 * rng.normal(size=(n, K, K))
    root[:, np.arange(K), np.arange(K)] += 1.0
    wide = likelihood.predictive(f, root @ root.transpose(0, 2, 1))
    z = rng.normal(size=(n_points // 2, K))
    z = np.concatenate([z, -z])
    draws = f[:, :, None] + root @ z.T
    values = np.stack([likelihood.expand(t, draws[:, :, j]).value for j in range(len(z))], axis=1)
    want = logsumexp(values, axis=1) - np.log(len(z))
    error = np.std(np.exp(values - want[:, None]), axis=1) / np.sqrt(len(z))
    got = (getattr(wide, "logpmf", None) or wide.logpdf)(t)
    # Where a few draws carry the average its own error is unknown: nothing can be said there.
    known = error < 0.1
    ensure(
        (np.abs(got - want)[known] <= 5 * error[known] + 0.01).all(),
        "predictive() is not the likelihood averaged over the latent values",
    )
