"""Denoising with any dictionary, by the solver of the regressors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sparsebayes._conclusions import Start
from sparsebayes._denoising import Outcome, Setup, quiet, to_atoms, without_offset
from sparsebayes._regression import regress
from sparsebayes._wavelet_transforms import Transform
from sparsebayes.core.quadratic import OrthonormalQuadratic
from sparsebayes.dictionaries import StationaryWavelet, Union, Wavelet
from sparsebayes.estimators._base import Reporter, seeded
from sparsebayes.posterior import Posterior
from sparsebayes.problem import Problem, Solution
from sparsebayes.solvers import orthonormal, search

FloatArray = NDArray[np.float64]

__all__ = ["fill", "fit"]

_ROUNDS = 60  # of the matrix-free solver, at most


class _Counted(Union):
    """A union that remembers how many atoms each of its parts has."""

    def bind(self, X: Any, *, sample_weight: Any = None, random_state: Any = None) -> Any:
        atoms = super().bind(X, sample_weight=sample_weight, random_state=random_state)
        self.counts_ = [part.count for part in atoms.parts]
        return atoms


def fit(
    data: FloatArray, X: FloatArray, dictionary: Any, setup: Setup, *, on_grid: bool = False
) -> Outcome:
    """Fit the atoms of a dictionary to the samples that are there, by the default solver.

    Parameters
    ----------
    data : ndarray of N entries
        NaN where a sample is missing.
    X : ndarray of shape (N, d)
        Inputs of the dictionary, in the order of the data.
    dictionary : Dictionary
        Any.
    setup : Setup
        Prior, noise and settings of the solver.
    on_grid : bool, default=False
        Whether X holds the indices of the entries of the data, all of them.

    Returns
    -------
    Outcome
        At all rows of X, missing ones included.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> X = np.arange(9.0)[:, None]
    >>> y = np.where(X[:, 0] == 4, np.nan, 3 * X[:, 0])
    >>> fit(y, X, Linear(), Setup(noise_variance=1e-4)).signal[4].round(3)
    np.float64(12.0)
    """
    rng = seeded(setup.random_state)
    given = setup.noise_variance if isinstance(setup.noise_variance, float) else None
    y = data.ravel()
    there = ~np.isnan(y)
    X_there, y_there = (X, y) if there.all() else (X[there], y[there])
    shape = data.shape if on_grid else None
    chosen: Any = _placed(dictionary, shape)
    counted = isinstance(dictionary, Union)
    if counted:
        chosen = _Counted([_placed(part, shape) for part in dictionary.parts])
    result = regress(
        X_there,
        y_there[:, None],
        None,
        chosen,
        single=True,
        fit_intercept=True,
        prior=setup.prior,
        noise_variance=given,
        noise_prior=setup.noise_prior,
        solve=partial(_solve, setup, rng),
        last=None,
        random_state=rng,
    )
    posterior, solution = result.posterior, result.solution
    constant = bool((y_there == y_there[0]).all())
    signal = posterior.predict(X).reshape(data.shape)
    coefficients = np.zeros(posterior.atoms.count)
    coefficients[posterior.atoms.index] = posterior.weights
    offset = float(posterior.offset[0])
    parts: Callable[[], list[FloatArray]] = partial(without_offset, signal, offset)
    if counted:
        parts = partial(_contributions, posterior, X, np.cumsum(chosen.counts_), data.shape)
    noise = posterior.noise_variance * posterior.scale**2
    if given is not None:
        noise = given
    elif constant and setup.noise_prior is None:
        noise = 0.0
    return Outcome(
        signal=signal,
        coefficients=coefficients,
        noise_variance=noise,
        offset=offset,
        log_evidence=result.log_evidence,
        dof=float(solution.state.dof.sum()),
        n_atoms=int(solution.state.active.size),
        solution=quiet(solution) if constant else solution,
        std=partial(_posterior_std, posterior, X, data.shape)
        if noise > 0
        else partial(np.zeros, data.shape),
        parts=parts,
    )


def fill(data: FloatArray, transform: Transform, setup: Setup) -> Outcome:
    """Denoise a large signal with gaps by products with its wavelets alone.

    Parameters
    ----------
    data : ndarray of the transform's shape
        NaN where a sample is missing.
    transform : Transform
        Its wavelets.
    setup : Setup
        Prior, noise and settings of the solver.

    Returns
    -------
    Outcome
        What `sparsebayes.reconstruct` makes of the samples that are there, less their mean.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes._wavelet_transforms import Transform
    >>> y = np.repeat([1.0, 2.0], 32) + 0.1 * np.random.default_rng(0).standard_normal(64)
    >>> y[20] = np.nan
    >>> fill(y, Transform("haar", (64,)), Setup()).signal[[20, 40]].round(1)
    array([1., 2.])
    """
    from sparsebayes.reconstruction import reconstruct

    there = ~np.isnan(data)
    offset = float(data[there].mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `denoise` says so itself
        found = reconstruct(
            data[there] - offset,
            there,
            transform,
            setup.prior,
            setup.noise_variance if isinstance(setup.noise_variance, float) else None,
            solver="matrix-free",
            noise_prior=setup.noise_prior,
            max_iter=min(setup.max_iter, _ROUNDS),
            random_state=setup.random_state,
            verbose=setup.verbose,
        )
    signal = found.signal + offset
    coefficients = found.coefficients.copy()
    to_atoms(transform, coefficients)
    return Outcome(
        signal=signal,
        coefficients=coefficients,
        noise_variance=found.noise_variance,
        offset=offset,
        log_evidence=found.log_marginal_likelihood,
        dof=found.degrees_of_freedom,
        n_atoms=found.n_atoms,
        solution=found.solution,
        std=partial(getattr, found, "std"),
        parts=partial(without_offset, signal, offset),
    )


def _placed(dictionary: Any, shape: tuple[int, ...] | None) -> Any:
    """The dictionary on the grid of the data, on which wavelets fill in what is missing."""
    if shape is None or not isinstance(dictionary, Wavelet | StationaryWavelet):
        return dictionary
    return clone(dictionary).set_params(shape=shape) if dictionary.shape is None else dictionary


def _solve(
    setup: Setup, rng: np.random.RandomState, problem: Problem, start: Start | None
) -> Solution:
    reporter = Reporter("denoise", setup.verbose, True) if setup.verbose else None
    if isinstance(problem.quad, OrthonormalQuadratic):
        return orthonormal.solve(problem, tol=setup.tol, report=reporter)
    solution = search.solve(
        problem,
        tol=setup.tol,
        max_iter=setup.max_iter,
        # A fit is repeatable unless it is asked not to be.
        random_state=np.random.RandomState(0) if setup.random_state is None else rng,
        start=start,
        report=reporter,
    )
    if reporter is not None:
        reporter.close(solution)
    return solution


def _posterior_std(posterior: Posterior, X: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    return posterior.spread(X, noise=False)[1].reshape(shape)


def _contributions(
    posterior: Posterior, X: FloatArray, ends: NDArray[np.intp], shape: tuple[int, ...]
) -> list[FloatArray]:
    owner = np.searchsorted(ends, posterior.atoms.index, side="right")
    return [posterior.contribution(X, owner == part).reshape(shape) for part in range(len(ends))]
