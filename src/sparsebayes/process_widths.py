"""Widths of kernels as those of the covariance of a Gaussian process.

A kernel that is positive definite is a covariance too. The evidence of the process that it belongs
to is a function of its widths, one variance and the noise: as poor in parameters as that of kernels
which share a variance (`shared_variance`), and exact where that one has a sample of them. What the
process predicts is a sum of the kernels themselves, so a few of them with the widths found predict
almost as well. It is cubic in the rows: a sample tells as much.

Learned together with the atoms, widths that are free to please a dozen of them become too narrow
and predict worse. So they have a prior, around those of the process (`WidthPrior`).
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

from sparsebayes._one_width import RANK, highest, profile
from sparsebayes._width_search import Guarded, lowest
from sparsebayes.dictionaries._protocol import Matrix, OutOfRange, is_sparse
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.engine import EPS, Breakdown
from sparsebayes.shared_variance import Targets, some_rows

FloatArray = NDArray[np.float64]

__all__ = ["WidthPrior", "is_covariance", "process_theta", "process_width", "width_prior"]

_ROWS = 500  # rows sampled, of more
_FEW_ROWS = 125  # that tell about where one width is
_COVARIANCES = ("rbf", "laplacian")
_SHIFTS = np.log(4.0) * np.array([0.0, -3.0, -2.0, -1.0, 1.0, 2.0])  # of all log widths
_RANGE = 20.0  # how far the log variance may go
_NOISE = 1e-7, 2.0  # noise variances, as fractions of the power of the targets
_BEGIN = 0.1  # the one to begin with
_QUIET = 1e-4  # the one below which there is almost none
_PRECISION = 100.0  # of the prior of log widths: a tenth is their standard deviation
_FAINT = 0.01  # width, for inputs of unit spread, up to which one hardly matters


def is_covariance(atoms: Any) -> bool:
    """Whether atoms are kernels with widths to learn that are a covariance.

    Parameters
    ----------
    atoms : Atoms
        Bound to data.

    Returns
    -------
    bool
        False for unions of several parts, and for kernels that need not be positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.eye(2)
    >>> is_covariance(Kernel("rbf", gamma="ard").bind(X)), is_covariance(Kernel().bind(X))
    (True, False)
    """
    alone = _alone(atoms)
    return (
        isinstance(alone, KernelAtoms)
        and isinstance(alone.kernel, str)
        and alone.kernel in _COVARIANCES
        and len(alone.theta) > 0
    )


def process_theta(
    atoms: Any, X: FloatArray, targets: Targets, pull: FloatArray | None = None
) -> FloatArray | None:
    """Log widths with which a Gaussian process explains the targets best.

    Parameters
    ----------
    atoms : KernelAtoms
        For which `is_covariance` says so; the search starts from their own widths.
    X : ndarray of shape (N, d)
        Training rows.
    targets : Targets
        What is to be explained.
    pull : ndarray of shape (P,) or None, default=None
        Precisions of a normal prior of the log widths around their own; None for no prior.

    Returns
    -------
    ndarray of shape (P,) or None
        Within the bounds; the widths as they are where the targets are constant. None where there
        is almost no noise: the process then takes kernels so wide that all of them are needed.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> t = np.sinc(X / np.pi) + 0.1 * np.random.RandomState(0).normal(size=X.shape)
    >>> atoms = Kernel("rbf", gamma="evidence").bind(X)
    >>> theta = process_theta(atoms, X, Targets(t - t.mean(), None, True, None))
    >>> bool(1.5 < np.exp(theta[0]) ** -0.5 < 4)
    True
    """
    atoms = _alone(atoms)
    own = np.asarray(atoms.theta)
    X, targets = some_rows(X, targets, _ROWS)
    process = _Process(replace(atoms, centers=X, index=np.arange(len(X))), targets)
    if not process.power > 0:
        return own
    noise = np.log(process.power * np.array([_BEGIN, *_NOISE]))
    if targets.noise_var is not None:
        noise = np.full(3, np.log(targets.noise_var))
    v = np.log(process.power)
    tight = np.zeros(own.size) if pull is None else pull

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        height, slope = process(parameters)
        moved = parameters[2:] - own
        slope[2:] -= tight * moved
        return 0.5 * float(tight @ moved**2) - height, -slope

    near = own[:, None] + [-_RANGE, _RANGE]
    limits = np.where(np.isfinite(atoms.bounds), atoms.bounds, near)
    ranges = np.vstack([[v - _RANGE, v + _RANGE], noise[1:], limits])
    shifts = np.where(np.arange(2 + own.size) > 1, _SHIFTS[:, None], 0.0)
    starts = np.clip(np.concatenate([[v], noise[:1], own]) + shifts, *ranges.T)
    heights = [Guarded(loss)(one)[0] for one in starts]
    # From the widest, inputs that matter come in one by one.
    tries = list(dict.fromkeys([int(np.argmin(heights)), int(np.argmin(_SHIFTS))]))
    end = lowest(loss, starts[tries], ranges)
    return None if np.exp(end[1]) < _QUIET * process.power else end[2:]


def process_width(atoms: Any, X: Matrix, targets: Targets, pull: FloatArray) -> FloatArray | None:
    """The same for one width of all inputs: of all there are, the best.

    Parameters
    ----------
    atoms : KernelAtoms
        For which `is_covariance` says so, with one width to learn.
    X : float64 array or CSR matrix of shape (N, d)
        Training rows.
    targets : Targets
        What is to be explained.
    pull : ndarray of shape (1,)
        Precision of a normal prior of the log width around their own.

    Returns
    -------
    ndarray of shape (1,) or None
        As of `process_theta`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> t = np.sinc(X / np.pi) + 0.1 * np.random.RandomState(0).normal(size=X.shape)
    >>> atoms = Kernel("rbf", gamma="evidence").bind(X)
    >>> theta = process_width(atoms, X, Targets(t - t.mean(), None, True, None), np.zeros(1))
    >>> bool(1.5 < np.exp(theta[0]) ** -0.5 < 4)
    True
    """
    atoms = _alone(atoms)
    limits = [_ROWS] if len(targets.t) <= _FEW_ROWS else [_FEW_ROWS, _ROWS]
    stages = [partial(_process_evidence, *some_rows(X, targets, n)) for n in limits]
    top = highest(atoms, stages, pull)
    return None if top.noise < _QUIET else top.theta


def _process_evidence(X: Matrix, targets: Targets, atoms: KernelAtoms) -> tuple[float, float]:
    """Log evidence of a process at rows at the best variance, and the noise there (`profile`)."""
    t, weights, center, noise_var, noise_prior = targets
    w = np.ones(len(t)) if weights is None else weights
    root, total = np.sqrt(w)[:, None], float(w.sum())
    try:
        K = replace(atoms, centers=X, index=np.arange(len(t))).evaluate(X)
    except OutOfRange:
        return -np.inf, np.nan
    C, z, n = root * K * root.T, root * t, total
    if center:  # a constant of a flat prior: what is orthogonal to it is left
        one = root / math.sqrt(total)
        C -= one @ (one.T @ C)
        C -= (C @ one) @ one.T
        z, n = z - one @ (one.T @ z), total - 1.0
    tt = float(np.vdot(z, z))
    if noise_prior is not None:
        before = noise_prior.observations(t.shape[1])
        n, tt = n + before.n, tt + before.tt
    s, U = np.linalg.eigh(C)
    solid = s > max(RANK * s[-1], np.finfo(np.float64).tiny)
    explained = ((U[:, solid].T @ z) ** 2).sum(axis=1)
    return profile(s[solid], explained, tt, n, t.shape[1], noise_var)


class WidthPrior(NamedTuple):
    """A normal prior of log widths around those of a Gaussian process.

    It is one of u = log(faint + spread exp(theta)), widths in units of the inputs: whether an input
    does not matter at all or hardly is the same.

    Parameters
    ----------
    center : ndarray of shape (P,)
        Log widths of the process.
    spread : ndarray of shape (P,)
        Of the inputs, as the kernel measures distances.

    Examples
    --------
    >>> import numpy as np
    >>> prior = WidthPrior(np.zeros(1), np.ones(1))
    >>> prior(np.zeros(1))[0]
    0.0
    >>> value, slope = prior(np.ones(1))
    >>> value < 0, slope < 0
    (True, array([ True]))
    """

    center: FloatArray
    spread: FloatArray

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Log density, but for a constant, and its slope."""
        own, there = self.spread * np.exp(theta), self.spread * np.exp(self.center)
        moved = np.log(_FAINT + own) - np.log(_FAINT + there)
        slope = -_PRECISION * moved * own / (_FAINT + own)
        return 0.0 - 0.5 * _PRECISION * float(moved @ moved), slope


def width_prior(atoms: Any, X: Matrix, targets: Targets) -> WidthPrior | None:
    """The prior of widths of each input that are learned together with the atoms.

    Parameters
    ----------
    atoms : Atoms
        Bound to X.
    X : float64 array or CSR matrix of shape (N, d)
        Training rows.
    targets : Targets
        What is to be explained, with normal noise.

    Returns
    -------
    WidthPrior or None
        None where kernels are no covariance, where there is almost no noise, and for a single
        width, which needs none.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.random.RandomState(0).uniform(-3, 3, (100, 2))
    >>> t = np.sin(X[:, :1]) + 0.1 * np.random.RandomState(1).normal(size=(100, 1))
    >>> prior = width_prior(Kernel(gamma="ard").bind(X), X, Targets(t, None, True, None))
    >>> bool(prior.center[0] > prior.center[1] + 5)
    True
    """
    if not is_covariance(atoms) or is_sparse(X) or atoms.learned != "ard":
        return None
    used = np.asarray(X)[:, np.flatnonzero(atoms.gamma_)]
    mean = np.average(used, axis=0, weights=targets.weights)
    spread = np.average((used - mean) ** 2, axis=0, weights=targets.weights)
    if atoms.kernel != "rbf":
        spread = np.sqrt(spread)
    center = process_theta(atoms, np.asarray(X), targets)
    return None if center is None else WidthPrior(center, spread)


class _Process:
    """Log evidence of a Gaussian process at rows, as a function of its logarithmic parameters.

    With C = v K + noise / weights it is that of targets around a constant of a flat prior, if they
    are centered: P = C^-1 - C^-1 1 1'C^-1 / (1'C^-1 1) stands for C^-1, and the derivative in C is
    (P t t'P - T P) / 2.
    """

    def __init__(self, atoms: KernelAtoms, targets: Targets) -> None:
        self.atoms, self.t, self.center = atoms, targets.t, targets.center
        n = len(self.t)
        self.spread = np.ones(n) if targets.weights is None else 1.0 / targets.weights
        self.estimated = targets.noise_var is None
        left = self.t - np.average(self.t, axis=0, weights=1.0 / self.spread) * self.center
        self.power = float(np.mean(left**2 / self.spread[:, None]))

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Log evidence and its slope at log variance, log noise and theta."""
        v, noise = np.exp(parameters[:2])
        atoms = self.atoms.with_theta(parameters[2:])
        K = atoms.evaluate(self.atoms.centers)
        C = v * K
        C.flat[:: len(C) + 1] += noise * self.spread
        L, info = dpotrf(C.T, lower=1, clean=1, overwrite_a=1)
        if info != 0 or noise * self.spread.min() < EPS * v * len(C):
            raise Breakdown  # the rounding of v K is larger than the noise
        half, _ = dpotri(L, lower=1)
        P = np.tril(half) + np.tril(half, -1).T
        T = self.t.shape[1]
        height = -T * float(np.log(L.diagonal()).sum())
        left, _ = dtrtrs(L, self.t, lower=1)
        if self.center:  # from the factor: sums over P may round to below zero
            one, _ = dtrtrs(L, np.ones((len(C), 1)), lower=1)
            total = float(np.vdot(one, one))
            left -= one @ (one.T @ left / total)
            share, _ = dtrtrs(L, one, lower=1, trans=1)
            P -= share @ (share.T / total)
            height -= 0.5 * T * math.log(total)
        a, _ = dtrtrs(L, left, lower=1, trans=1)
        height -= 0.5 * float(np.vdot(left, left))
        slope = 0.5 * (a @ a.T - T * P)  # in C
        of_noise = noise * float(slope.diagonal() @ self.spread) if self.estimated else 0.0
        slope *= v
        of_theta = atoms.pullback(self.atoms.centers, slope)
        return height, np.concatenate([[np.vdot(slope, K), of_noise], of_theta])


def _alone(atoms: Any) -> Any:
    """The only part of a union that has one."""
    return atoms.parts[0] if isinstance(atoms, UnionAtoms) and len(atoms.parts) == 1 else atoms
