"""Find kernel widths before a fit: by the marginal likelihood of a Gaussian process.

A positive definite kernel is a covariance, and the evidence of the Gaussian process that has it is
a smooth function of the widths, one variance for each part of the dictionary, and the noise: too
few parameters to overfit. The mean of that process is a sum of the kernels themselves, so a few of
them with the same widths predict almost as well. Kernels that need not be positive definite enter
with the covariance of a sum of them with equal variances.

The evidence is computed on a sample of rows, drawn by a hash of inputs and targets and kept in the
order of that hash: neither the order of the rows nor the blocks that they come in change it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs
from scipy.optimize import Bounds, minimize

from sparsebayes._threads import one_blas_thread
from sparsebayes.dictionaries import Atoms, Bias, Kernel, Linear, Tunable, Union
from sparsebayes.dictionaries._distinct import DistinctRows, distinct_rows
from sparsebayes.dictionaries._kernel_parameters import (
    LEARNED,
    POOLED,
    checked_kernel,
    checked_learned,
    checked_params,
    is_gp_kernel,
    takes_gamma,
    width_of_word,
)
from sparsebayes.dictionaries._protocol import Floats, Matrix, OutOfRange, is_sparse
from sparsebayes.dictionaries._rows import row_keys
from sparsebayes.dictionaries.bias import BiasAtoms
from sparsebayes.dictionaries.kernel_functions import INVERSE_DISTANCE
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.linear import LinearAtoms
from sparsebayes.dictionaries.union import leaves
from sparsebayes.engine import Breakdown
from sparsebayes.noise_priors import NoisePrior
from sparsebayes.rows.blocks import Block

FloatArray = NDArray[np.float64]
Loss = Callable[[FloatArray], tuple[float, FloatArray]]

_DEFINITE = ("rbf", "laplacian", "chi2")  # kernels that are a covariance


class Tolerances(NamedTuple):
    """Every number of the search for widths."""

    rows: int = 500  # of the sample
    block: int = 250  # of them whose covariance is looked at together
    atoms: int = 100  # of a part that is no covariance
    factor: float = 4.0  # between the widths from which the search may start
    wider: int = 3  # such factors from the first guess to the widest; the narrowest is the bound
    narrower: int = 40  # or so many from it: one outlier can spoil a guess
    begin: float = 10.0  # signal to noise ratio to begin with
    most: float = 1e8  # and the largest
    steps: int = 60  # of a climb
    slope: float = 0.02  # nats per unit of log width at which a climb ends
    grid: float = 1 / 64  # widths are rounded to this, in log width: rounding errors do not show
    spread: float = 3.0  # of the Cauchy prior of one log gamma around "scale": decides without data


TOLERANCES = Tolerances()


class Targets(NamedTuple):
    """Targets, or numbers that stand for them, and how they are weighted."""

    t: FloatArray  # (N, T)
    weights: FloatArray | None  # (N,)
    center: bool
    noise_var: float | None  # None to estimate it
    noise_prior: NoisePrior | None = None

    def at(self, rows: NDArray[np.intp]) -> Targets:
        """Those of some rows."""
        weights = None if self.weights is None else self.weights[rows]
        return self._replace(t=self.t[rows], weights=weights)


class Process:
    """Evidence of a Gaussian process at a sample of rows.

    Its covariance is s (W^-1 + sum_p exp(r_p) F_p) with the noise variance s. F_p is the kernel
    matrix of a part that is positive definite, and A A' for the atoms A of any other. The best s
    has a closed form. An intercept has a flat prior.
    """

    def __init__(self, atoms: Any, X: Matrix, targets: Targets) -> None:
        self.X = X
        self.parts = [_as_covariance(part, X) for part in leaves(atoms) if _is_seen(part)]
        t, weights, self.center, self.noise_var, before = targets
        self.T = t.shape[1]
        w = np.ones(len(t)) if weights is None else weights
        self.total = float(w.sum())
        self.root = np.sqrt(w)[:, None]
        self.z = self.root * t
        self.n, self.before = self.total - self.center, 0.0
        if before is not None:
            observed = before.observations(self.T)
            self.n, self.before = self.n + observed.n, observed.tt
        left = self.z - self.center * self.root * (self.root.T @ self.z) / self.total
        self.power = float(np.vdot(left, left)) / (self.T * self.total)
        self.noise = self.power

    def covariances(self, theta: FloatArray) -> list[tuple[Any, FloatArray, FloatArray]]:
        """Each part with its widths, its atoms at the rows, and F weighted."""
        found, start = [], 0
        for part, is_covariance in self.parts:
            own = part
            if stop := len(getattr(part, "theta", ())):
                own = part.with_theta(theta[start : start + stop])
            start += stop
            A = own.evaluate(self.X)
            F = A if is_covariance else A @ A.T
            found.append((own, A, self.root * F * self.root.T))
        return found

    def start(self, theta: FloatArray) -> FloatArray:
        """Log ratios with which each part has the signal to begin with."""
        signal = TOLERANCES.begin
        if self.noise_var is not None:
            signal = max(self.power / self.noise_var, 1.0)
        spreads = []
        for _, _, F in self.covariances(theta):
            mean = float(np.vdot(self.root, F @ self.root)) / self.total * self.center
            spreads.append(max((float(F.trace()) - mean) / self.total, 1e-12))
        return np.log(signal / np.array(spreads))

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Log evidence but for a constant, and its derivatives in log ratios and log widths."""
        n_parts = len(self.parts)
        ratios, theta = np.exp(parameters[:n_parts]), parameters[n_parts:]
        parts = self.covariances(theta)
        C = np.eye(len(self.z))
        for ratio, (_, _, F) in zip(ratios, parts, strict=True):
            C += ratio * F
        L, info = dpotrf(C.T, lower=1, clean=1, overwrite_a=1)
        if info != 0 or not np.isfinite(L.diagonal()).all():
            raise OutOfRange("the covariance of the targets leaves the range of float64")
        height = -self.T * float(np.log(L.diagonal()).sum())
        left, _ = dtrtrs(L, self.z, lower=1)
        inverse, _ = dpotri(L, lower=1)
        D = inverse + np.tril(inverse, -1).T
        if self.center:  # from the factor: sums over the inverse may round to below zero
            one, _ = dtrtrs(L, self.root, lower=1)
            total = float(np.vdot(one, one))
            left -= one @ (one.T @ left / total)
            share, _ = dtrtrs(L, one, lower=1, trans=1)
            D -= share @ (share.T / total)
            height -= 0.5 * self.T * math.log(total)
        squares = float(np.vdot(left, left)) + self.before
        noise = self.noise_var or squares / (self.T * self.n)
        self.noise = noise
        height -= 0.5 * (self.T * self.n * math.log(noise) + squares / noise)
        a, _ = dtrtrs(L, left, lower=1, trans=1)
        D = (0.5 / noise) * (a @ a.T) - 0.5 * self.T * D  # of the weighted covariance
        slopes = [r * np.vdot(D, F) for r, (_, _, F) in zip(ratios, parts, strict=True)]
        D *= self.root
        D *= self.root.T
        for ratio, (own, A, _), (_, is_covariance) in zip(ratios, parts, self.parts, strict=True):
            if len(getattr(own, "theta", ())):
                of_atoms = ratio * D if is_covariance else 2.0 * ratio * (D @ A)
                slopes.extend(own.pullback(self.X, of_atoms))
        return height, np.array(slopes)


class Found(NamedTuple):
    """Widths that explain the targets best."""

    theta: FloatArray  # (P,) log widths
    rise: FloatArray  # (P,) derivative of the log evidence there
    noise: float  # variance, as a fraction of the targets' power


def find_widths(atoms: Any, X: Matrix, targets: Targets) -> Found:
    """Log widths of atoms that explain the targets best; as they are if nothing varies.

    The evidence is that of blocks of the sample, as if they told nothing of each other. The search
    starts from the best of widths a factor apart, of all inputs alike, and again from the widest
    where there are several: from there inputs that matter come in one by one.
    """
    own = np.asarray(atoms.theta)
    number = -(-len(targets.t) // TOLERANCES.block)
    blocks = [
        Process(atoms, X[rows], targets.at(rows))
        for rows in np.array_split(np.arange(len(targets.t)), number)
    ]
    nothing = Found(own, np.zeros_like(own), 1.0)
    if not own.size or not max(block.power for block in blocks) > 0:
        return nothing
    tight, n_parts = _pull(atoms), len(blocks[0].parts)

    def loss(parameters: FloatArray, some: Sequence[Process] = blocks) -> tuple[float, FloatArray]:
        value, slope = 0.0, np.zeros_like(parameters)
        for block in some:
            height, of_block = block(parameters)
            value, slope = value - height, slope - of_block
        moved = tight * (parameters[n_parts:] - own)
        slope[n_parts:] += 2.0 * tight * moved / (1.0 + moved**2)
        return value + float(np.log1p(moved**2).sum()), slope

    step = math.log(TOLERANCES.factor)
    farthest = float((atoms.bounds[:, 1] - own).max()) / step + 1.0
    shifts = step * np.arange(-TOLERANCES.wider, min(farthest, TOLERANCES.narrower))
    begins: dict[bytes, tuple[float, FloatArray]] = {}
    for shift in shifts:
        theta = np.clip(own + shift, *atoms.bounds.T)
        if theta.tobytes() not in begins:
            try:
                start = np.concatenate([blocks[0].start(theta), theta])
                begins[theta.tobytes()] = loss(start, blocks[:1])[0], start
            except OutOfRange:
                continue
    if not begins:
        return nothing
    listed = list(begins.values())
    tries = [min(range(len(listed)), key=lambda k: listed[k][0])]
    if own.size > 1 and tries != [0]:
        tries.append(0)
    ends = []
    for k in tries:
        start = listed[k][1]
        highest = np.maximum(start[:n_parts], math.log(TOLERANCES.most))
        limits = np.vstack([np.c_[start[:n_parts] - 20.0, highest], atoms.bounds])
        ends.append(climb(loss, start, limits, TOLERANCES.slope, TOLERANCES.steps))
    end = min(ends, key=lambda end: end[0])[1]
    rise = -loss(end)[1][n_parts:]
    noise = float(np.mean([block.noise / block.power for block in blocks if block.power > 0]))
    steps = np.round((end[n_parts:] - own) / TOLERANCES.grid)
    theta = np.clip(own + steps * TOLERANCES.grid, *atoms.bounds.T)
    return Found(theta, rise, noise)


def climb(
    loss: Loss,
    start: FloatArray,
    bounds: FloatArray,
    slope: float,
    steps: int,
    gain: float = 1e-7,
) -> tuple[float, FloatArray]:
    """Lowest point of a loss that a quasi-Newton search finds within bounds.

    Where float64 cannot tell, the loss counts as much above the last point as the step promised to
    fall below it, and the line search comes back by a part. A wall of any height would end it.
    """
    seen: list[tuple[float, FloatArray, FloatArray]] = []

    def guarded(x: FloatArray) -> tuple[float, FloatArray]:
        try:
            value, gradient = loss(x)
        except (Breakdown, OutOfRange):
            if not seen:
                return 1e100, np.zeros_like(x)
            value, gradient, place = seen[-1]
            return value + float(np.abs(gradient) @ np.abs(x - place)), np.zeros_like(x)
        if not seen or value < seen[-1][0]:
            seen.append((value, gradient, x.copy()))
        return value, gradient

    minimize(
        guarded,
        np.clip(start, *bounds.T),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(*bounds.T),
        options={"maxiter": steps, "maxfun": 2 * steps, "gtol": slope, "ftol": gain, "maxls": 10},
    )
    return (seen[-1][0], seen[-1][2]) if seen else (math.inf, start)


def _as_covariance(part: Any, X: Matrix) -> tuple[Any, bool]:
    """A part at the sampled rows, and whether its matrix there is a covariance."""
    most = TOLERANCES.atoms
    if not isinstance(part, KernelAtoms):
        return part, False
    if _is_definite(part):
        return replace(part, centers=X, index=np.arange(X.shape[0])), True
    if part.size > most:
        part = part.restrict(np.sort(np.argsort(row_keys(part.centers), kind="stable")[:most]))
    return part, False


def _is_definite(part: KernelAtoms) -> bool:
    """Whether a kernel is a covariance, and none of noise, as a narrow part of a sum would be."""
    if isinstance(part.kernel, str):
        return part.kernel in _DEFINITE or (part.kernel == "poly" and part.coef0 >= 0)
    return is_gp_kernel(part.kernel) and not _is_sum(part.kernel)


def _is_sum(kernel: Any) -> bool:
    inner = (getattr(kernel, name, None) for name in ("k1", "k2", "kernel"))
    return type(kernel).__name__ == "Sum" or any(_is_sum(one) for one in inner if one is not None)


def _is_seen(part: Any) -> bool:
    """Whether atoms can be evaluated at some of the rows: wavelets, for one, need all."""
    return isinstance(part, KernelAtoms | LinearAtoms | BiasAtoms) or learns(part)


def _pull(atoms: Any) -> FloatArray:
    """Inverse widths of the priors of log widths around "scale": none where inputs may drop out."""
    found = []
    for part in leaves(atoms):
        theta = getattr(part, "theta", ())
        one = (
            isinstance(part, KernelAtoms) and part.learned == LEARNED[0] and part.gamma_ is not None
        )
        factor = 2.0 if one and part.kernel in INVERSE_DISTANCE else 1.0
        found.extend([factor / TOLERANCES.spread if one else 0.0] * len(theta))
    return np.array(found)


def learns(atoms: Any) -> bool:
    """Whether atoms have parameters that a fit is to learn."""
    return isinstance(atoms, Tunable) and len(atoms.theta) > 0


# Widths that a fit holds


def is_pooled(dictionary: Any) -> bool:
    """Whether widths of a dictionary are to be found before a fit."""
    if isinstance(dictionary, Union):
        parts = dictionary.parts
        return isinstance(parts, list | tuple) and any(map(is_pooled, parts))
    if not isinstance(dictionary, Kernel) or not isinstance(dictionary.gamma, str):
        return False
    if dictionary.gamma not in POOLED:
        return False
    kernel = checked_kernel(dictionary.kernel)
    params = checked_params(dictionary.kernel_params, kernel)
    checked_learned(dictionary.gamma, kernel, params)
    return takes_gamma(kernel) and "gamma" not in params


def sampled(X: Matrix, y: Floats, weights: Floats | None, start: int = 0) -> DistinctRows:
    """A sample of rows with their targets as last columns, whatever their order."""
    if is_sparse(X):
        joined: Matrix = sp.hstack([X, sp.csr_matrix(y)], format="csr")
    else:
        joined = np.column_stack([X, y])
    return distinct_rows(joined, weights, TOLERANCES.rows, start)


def sampled_block(block: Block) -> DistinctRows:
    """The same of a block of rows."""
    y = np.asarray(block.y, dtype=np.float64).reshape(block.n, -1)
    return sampled(block.X, y, block.weights, block.start)


def samples_of(found: DistinctRows, n_targets: int) -> tuple[Matrix, Floats, Floats | None]:
    """Rows, targets and weights of a sample; None for weights where all are one."""
    joined, weights = found.X, found.weights
    X, y = joined[:, :-n_targets], joined[:, -n_targets:]
    if is_sparse(joined):
        X, y = X.tocsr(), y.toarray()
    # Copies of a sample seem to prove that there is no noise, and would ask for narrow kernels.
    weights = weights * min(1.0, len(weights) / float(weights.sum()))
    return np.ascontiguousarray(X) if not is_sparse(X) else X, np.ascontiguousarray(y), weights


def hold_widths(
    dictionary: Any,
    samples: DistinctRows,
    n_targets: int,
    targets: Callable[[Floats, Floats | None], Targets],
) -> Any:
    """A copy of the dictionary with numbers where its widths were to be found.

    ``targets`` makes what is to be explained of the targets and weights of the sample.
    """
    X, y, weights = samples_of(samples, n_targets)
    used = [leaf for leaf in leaves(dictionary) if isinstance(leaf, Kernel | Linear | Bias)]
    used = [leaf for leaf in used if getattr(leaf, "kernel", "") != "precomputed"]
    for leaf in filter(is_pooled, used):  # refused by the word that was given
        kernel = checked_kernel(leaf.kernel)
        width_of_word(_learned(leaf.gamma), kernel, X, weights, given=str(leaf.gamma))
    atoms = Union([_learning(leaf) for leaf in used]).bind(X, sample_weight=weights)
    explained = targets(y, weights)
    if explained.t.any():
        with one_blas_thread():
            atoms = atoms.with_theta(find_widths(atoms, X, explained).theta)
    widths = {
        id(leaf): part.gamma_
        for leaf, part in zip(used, atoms.parts, strict=True)
        if isinstance(part, KernelAtoms) and part.gamma_ is not None and is_pooled(leaf)
    }
    return _held(dictionary, widths)


def as_found(dictionary: Any, kept: Atoms) -> Any:
    """The dictionary with the widths that a fit has found, as the atoms it kept tell.

    A ValueError where a part of a union has left no atom to tell by.
    """
    kernels = [leaf for leaf in leaves(dictionary) if isinstance(leaf, Kernel)]
    found = [part for part in leaves(kept) if isinstance(part, KernelAtoms)]
    if len(found) != len(kernels):
        raise ValueError(
            "a kernel of this union has no atom in the model, which would tell the width that was "
            "found: an atom of relevance_ can be drawn."
        )
    pairs = zip(kernels, found, strict=True)
    return _held(dictionary, {id(leaf): part.gamma_ for leaf, part in pairs if is_pooled(leaf)})


def _held(dictionary: Any, widths: dict[int, Any]) -> Any:
    if isinstance(dictionary, Union):
        return Union([_held(part, widths) for part in dictionary.parts])
    if id(dictionary) not in widths:
        return dictionary
    held = copy(dictionary)
    held.gamma = widths[id(dictionary)]
    return held


def _learning(leaf: Any) -> Any:
    """The same kernels with widths that can be moved; at rows in place of clusters of them."""
    if not isinstance(leaf, Kernel):
        return leaf
    movable = copy(leaf)
    if isinstance(leaf.centers, Integral):
        movable.centers = None
    if is_pooled(leaf):
        movable.gamma = _learned(leaf.gamma)
    return movable


def _learned(word: Any) -> str:
    """The word for a width that is moved in the same way."""
    return LEARNED[POOLED.index(word)]
