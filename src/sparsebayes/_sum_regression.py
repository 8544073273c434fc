"""One regression with Gaussian noise on sufficient statistics, in the units of its user."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._conclusions import (
    SMALLEST_NORM,
    Regression,
    Start,
    check_norms,
    conclude,
    in_units,
)
from sparsebayes._samples import check_total_weight, hyperprior_in_units, unit_of_range
from sparsebayes._settings import resolve_prior
from sparsebayes._threads import one_blas_thread
from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.problem import Problem, Solution
from sparsebayes.rows.sufficient import SufficientStatistics, sufficient_quadratic

FloatArray = NDArray[np.float64]

__all__ = ["regress_sums"]


def regress_sums(
    statistics: SufficientStatistics,
    atoms: Atoms,
    dictionary: Any,
    *,
    fit_intercept: bool,
    prior: Any,
    noise_variance: float | None,
    noise_prior: Any,
    solve: Callable[[Problem, Start | None], Solution],
    last: Regression | None,
) -> Regression:
    """Fit targets of which sufficient statistics are known.

    Parameters
    ----------
    statistics : SufficientStatistics
        Of all rows.
    atoms : Atoms
        Atoms that they are of.
    dictionary : Dictionary
        What the atoms were made by.
    fit_intercept, prior, noise_variance, noise_prior
        As in the estimators.
    solve : callable
        Takes a problem and where to start, or None; returns a solution.
    last : Regression or None
        An earlier fit to start from.

    Returns
    -------
    Regression
        That of `regress` on the rows themselves, up to rounding.
    """
    targets, total = statistics.targets, statistics.total
    check_total_weight(total)
    shift, scale, constant = unit_of_range(targets.low, targets.high, targets.mean, fit_intercept)
    units = in_units(shift, scale, bool(constant.all()), noise_variance, noise_prior)
    with one_blas_thread():
        quad = sufficient_quadratic(
            statistics,
            units.shift,
            units.scale,
            constant,
            fit_intercept,
            units.before,
            _least_norms(atoms),
        )
        check_norms(quad)
        hyperprior = resolve_prior(prior, dictionary, total, int((quad.diag > 0).sum()))
        hyperprior = hyperprior_in_units(hyperprior, units.scale)
        start = None if last is None else last.start(quad, units.scale)
        solution = solve(Problem(quad, hyperprior, units.noise_var), start)
    return conclude(
        solution,
        quad,
        atoms,
        units,
        hyperprior,
        statistics.single,
    )


def _least_norms(atoms: Atoms) -> float | FloatArray:
    """Norms below which atoms are none: kernels, whose rows may be yet to come, can be so small."""
    if isinstance(atoms, UnionAtoms):
        least = np.zeros(atoms.size)
        for part, columns in zip(atoms.parts, atoms.columns, strict=True):
            least[columns] = _least_norms(part)
        return least
    return SMALLEST_NORM if isinstance(atoms, KernelAtoms) else 0.0
