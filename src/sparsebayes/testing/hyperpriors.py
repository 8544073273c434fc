"""The contract of a hyperprior."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import lets_out
from sparsebayes.hyperpriors import Hyperprior, LogDerivatives
from sparsebayes.testing._promises import ensure, quiet

FloatArray = NDArray[np.float64]

__all__ = ["check_hyperprior"]

_STEP = 1e-4  # of central differences in log v and log noise
_NOISES = (1e-6, 0.3, 1e6)
_RATIOS = np.logspace(-9, 9, 73)  # v / noise at which densities are looked at


def check_hyperprior(hyperprior: Hyperprior) -> None:
    """Check that an object keeps the promises of a `Hyperprior`.

    Derivatives are compared with finite differences; the best variance must beat a fine grid of
    others, and being out of the model; the density must be that of a ratio, v / noise, and never
    rise, so that the answer depends neither on the unit of the targets nor on a detour.

    Parameters
    ----------
    hyperprior : Hyperprior
        The object to check. It must let atoms out of the model: `Gamma` priors, which do not, are
        built into the solvers that can take them.

    Raises
    ------
    AssertionError
        If a promise is broken; the message says which one.

    Examples
    --------
    >>> from sparsebayes.hyperpriors import Smoothness
    >>> from sparsebayes.testing import check_hyperprior
    >>> check_hyperprior(Smoothness(2.0))
    """
    _check_protocol(hyperprior)
    _check_density(hyperprior)
    for noise in _NOISES:
        _check_derivatives(hyperprior, noise)
    rng = np.random.default_rng(0)
    for noise in _NOISES:
        for n_targets in (1, 3):
            s = 10.0 ** rng.uniform(-3, 3, 30) / noise
            q2 = n_targets * s * 10.0 ** rng.uniform(-1, 4, 30)
            _check_best_variance(hyperprior, s, q2, noise, n_targets)
    _check_unit(hyperprior, rng)
    _check_extremes(hyperprior, rng)


def _check_protocol(hyperprior: Any) -> None:
    ensure(not isinstance(hyperprior, type), "it is a class: give an object of it")
    ensure(isinstance(hyperprior, Hyperprior), "it lacks a method of Hyperprior")


def _density(hyperprior: Hyperprior, v: FloatArray, noise: float) -> FloatArray:
    given = v.copy()
    with quiet("log_density()"):
        density = np.asarray(hyperprior.log_density(v, noise))
    ensure(np.array_equal(v, given), "log_density() changes its argument")
    ensure(
        density.shape == v.shape and density.dtype == np.float64,
        f"log_density() must return a float64 array of shape {v.shape}",
    )
    return density


def _check_density(hyperprior: Hyperprior) -> None:
    _density(hyperprior, np.empty(0), 1.0)
    for noise in _NOISES:
        density = _density(hyperprior, np.append(0.0, noise * _RATIOS), noise)
        ensure(not np.isnan(density).any(), "log_density() is NaN")
        ensure(
            lets_out(hyperprior) and abs(density[0]) < 1e-12,
            "log_density() must be zero at v = 0: it is relative to an atom out of the model",
        )
        ensure(np.isfinite(density).all(), "log_density() must be finite for v > 0")
        ensure(np.all(np.diff(density) <= 1e-12), "log_density() rises with v")
        unit = _density(hyperprior, np.append(0.0, _RATIOS), 1.0)
        ensure(
            np.allclose(density, unit, rtol=1e-9, atol=1e-12),
            "log_density() must depend on v / noise_var alone",
        )


def _check_derivatives(hyperprior: Hyperprior, noise: float) -> None:
    v = noise * np.logspace(-4, 4, 33)

    def at(u: float, rho: float) -> FloatArray:
        return _density(hyperprior, v * np.exp(u), float(noise * np.exp(rho)))

    def slopes(u: float, rho: float) -> LogDerivatives:
        with quiet("log_derivatives()"):
            found = hyperprior.log_derivatives(v * np.exp(u), float(noise * np.exp(rho)))
        ensure(len(found) == 5, "log_derivatives() must return five arrays, as LogDerivatives")
        for name, part in zip(LogDerivatives._fields, found, strict=True):
            ensure(
                np.shape(part) in (v.shape, (1,)),
                f"log_derivatives() returns {name} of shape {np.shape(part)}, not {v.shape}",
            )
        return LogDerivatives(*(np.broadcast_to(part, v.shape) for part in found))

    h = _STEP
    found = slopes(0, 0)
    up, down, loud, soft = slopes(h, 0), slopes(-h, 0), slopes(0, h), slopes(0, -h)
    wanted = {
        "u": at(h, 0) - at(-h, 0),
        "rho": at(0, h) - at(0, -h),
        "uu": up.u - down.u,
        "u_rho": loud.u - soft.u,
        "rho_rho": loud.rho - soft.rho,
    }
    largest = np.max(np.abs(at(0, 0)), initial=0.0)
    for name, difference in wanted.items():
        got, want = getattr(found, name), difference / (2 * h)
        off = np.abs(got - want)
        allowed = 1e-6 * (1 + np.abs(want)) + 1e-15 / h * largest
        ensure(
            (off <= allowed).all(),
            f"log_derivatives() has a wrong {name}: off by {off.max():.2g} "
            "(u is log v, rho is log noise_var)",
        )


def _worth(
    hyperprior: Hyperprior,
    s: FloatArray,
    q2: FloatArray,
    v: FloatArray,
    noise: float,
    n_targets: int,
) -> FloatArray:
    """l(v) of T&F eq. 18, and the prior: by definition, with T targets."""
    likelihood = 0.5 * (v * q2 / (1 + v * s) - n_targets * np.log1p(v * s))
    return np.asarray(likelihood + _density(hyperprior, v, noise))


def _best(
    hyperprior: Hyperprior, s: FloatArray, q2: FloatArray, noise: float, n_targets: int
) -> FloatArray:
    given = s.copy(), q2.copy()
    with quiet("best_variance()"):
        v = np.asarray(hyperprior.best_variance(s, q2, noise, n_targets))
    unchanged = np.array_equal(s, given[0]) and np.array_equal(q2, given[1])
    ensure(unchanged, "best_variance() changes its arguments")
    ensure(
        v.shape == s.shape and v.dtype == np.float64,
        f"best_variance() must return a float64 array of shape {s.shape}",
    )
    ensure(
        np.isfinite(v).all() and (v >= 0).all(),
        "best_variance() must be finite and not negative",
    )
    return v


def _check_best_variance(
    hyperprior: Hyperprior, s: FloatArray, q2: FloatArray, noise: float, n_targets: int
) -> None:
    v = _best(hyperprior, s, q2, noise, n_targets)
    best = _worth(hyperprior, s, q2, v, noise, n_targets)
    allowed = 1e-9 * (1 + q2 / s)
    ensure((best >= -allowed).all(), "best_variance() is worth less than being out of the model")
    for ratio in np.logspace(-9, 9, 271):
        other = _worth(hyperprior, s, q2, ratio / s, noise, n_targets)
        worst = np.max(other - best - allowed)
        ensure(
            worst <= 0,
            f"best_variance() misses a better variance, by {worst:.2g} nats "
            f"(with n_targets={n_targets})",
        )
    alone = [_best(hyperprior, s[[k]], q2[[k]], noise, n_targets)[0] for k in range(len(s))]
    ensure(
        np.allclose(v, alone, rtol=1e-7, atol=0),
        "best_variance() of many atoms differs from one by one",
    )
    _best(hyperprior, s[:0], q2[:0], noise, n_targets)


def _check_unit(hyperprior: Hyperprior, rng: np.random.Generator) -> None:
    s = 10.0 ** rng.uniform(-3, 3, 40)
    q2 = s * 10.0 ** rng.uniform(-1, 4, 40)
    v, scaled = (
        _best(hyperprior, s / unit, q2 / unit, 0.3 * unit, 1) / unit for unit in (1.0, 1e8)
    )
    ensure(
        np.allclose(v, scaled, rtol=1e-6, atol=0),
        "best_variance() depends on the unit of the targets",
    )


def _check_extremes(hyperprior: Hyperprior, rng: np.random.Generator) -> None:
    """Atoms of hardly any sparsity, of huge quality, and of none at all."""
    s = 10.0 ** rng.uniform(-12, 12, 60)
    q2 = s * 10.0 ** rng.uniform(-6, 8, 60)
    v = _best(hyperprior, s, q2, 1.0, 1)
    ensure(
        not v[q2 <= s].any(),
        "best_variance() takes in an atom that the data do not support (q2 <= s)",
    )
    ensure(not _best(hyperprior, s, 0.0 * s, 1.0, 1).any(), "an atom of no quality is taken in")
