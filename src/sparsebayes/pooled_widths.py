"""Widths of kernels that are found before a fit and then held: ``gamma="pooled"``.

In regression with Gaussian noise, of kernels "rbf" or "laplacian" and nothing beside them, they are
those of the Gaussian process whose covariance is the kernel (`process_widths`).

Other kernels, unions, classes, functions with almost no noise and kernels at few centers have those
with which all atoms, under one common variance, explain the targets best: there is nothing to
choose but the widths, and the model is a Gaussian process of low rank (`shared_variance`), of a
sample of atoms. Its covariance is the kernel convolved with itself, and what it predicts is a sum
of covariances, not of kernels. A few kernels do the same if they are as wide as the covariance:
that of Gaussians of gamma has gamma / 2. In regression kernels "rbf" and "laplacian" get that.

One width is the best of all (`_one_width`), and a normal prior of its logarithm around that of
"scale" decides where the data say nothing.

Rows with their targets are sampled by a hash, so the sample depends neither on the order of rows
nor on the blocks that they come in. Then neither does one width, but for rounding; widths of each
input are found by a climb, and agree to about 1e-5.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sparsebayes._one_width import RANK, highest, profile
from sparsebayes._threads import one_blas_thread
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Atoms, Bias, Kernel, Linear, Union
from sparsebayes.dictionaries._distinct import DistinctRows, distinct_rows
from sparsebayes.dictionaries._kernel_parameters import (
    LEARNED,
    POOLED,
    checked_kernel,
    checked_learned,
    checked_params,
    takes_gamma,
    width_of_word,
)
from sparsebayes.dictionaries._protocol import Floats, Matrix, OutOfRange, is_sparse
from sparsebayes.dictionaries._rows import row_keys
from sparsebayes.dictionaries.kernel_functions import INVERSE_DISTANCE
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import leaves
from sparsebayes.process_widths import is_covariance, process_theta, process_width
from sparsebayes.quadratic import DesignQuadratic
from sparsebayes.rows.blocks import Block
from sparsebayes.shared_variance import Targets, first_theta

IndexArray = NDArray[np.intp]

__all__ = ["Pairs", "as_found", "hold_widths", "is_pooled", "samples_of"]

_ROWS, _MANY_ROWS = 1000, 4000  # rows sampled: for one width, for one of each input
_ATOMS, _MANY_ATOMS = 100, 200  # of them with a kernel
_SPREAD = 2.0  # standard deviation of log gamma, of squared distances, around that of "scale"
_COVARIANCE, _WIDENED = 0.5, ("rbf", "laplacian")  # factor of gamma; about right for the second


def is_pooled(dictionary: Any) -> bool:
    """Whether widths of a dictionary are to be found before a fit.

    Parameters
    ----------
    dictionary : object
        The dictionary of an estimator.

    Returns
    -------
    bool
        True for a kernel with a width whose gamma says so, and for a union with such a part.

    Examples
    --------
    >>> from sparsebayes.dictionaries import Linear
    >>> is_pooled(Linear() + Kernel("rbf", gamma="pooled")), is_pooled(Kernel(gamma=1.0))
    (True, False)
    >>> is_pooled(Kernel("linear", gamma="pooled"))
    False
    """
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


@dataclass(frozen=True)
class Pairs:
    """The statistic of rows that samples them together with their targets.

    Parameters
    ----------
    limit : int
        Most rows that are kept.
    """

    limit: int

    @classmethod
    def of(cls, dictionary: Any) -> "Pairs":
        """As many as the widths of a dictionary ask for."""
        return cls(_MANY_ROWS if any(map(_each_input, leaves(dictionary))) else _ROWS)

    def __call__(self, block: Block) -> DistinctRows:
        """Sample the rows of a block."""
        y = np.asarray(block.y, dtype=np.float64).reshape(block.n, -1)
        return self.sampled(block.X, y, block.weights, block.start)

    def sampled(self, X: Matrix, y: Floats, weights: Floats | None, start: int = 0) -> DistinctRows:
        """Sample rows in memory, with their targets as last columns."""
        if is_sparse(X):
            joined: Matrix = sp.hstack([X, sp.csr_matrix(y)], format="csr")
        else:
            joined = np.column_stack([X, y])
        return distinct_rows(joined, weights, self.limit, start)


def samples_of(found: DistinctRows, n_targets: int) -> tuple[Matrix, Floats, Floats | None]:
    """Rows, targets and weights of a sample.

    Parameters
    ----------
    found : DistinctRows
        What `Pairs` has found.
    n_targets : int
        Number of last columns that are targets.

    Returns
    -------
    X : float64 array or CSR matrix of shape (n, d)
        Inputs.
    y : ndarray of shape (n, T)
        Targets.
    weights : ndarray of shape (n,) or None
        None where all are one.

    Examples
    --------
    >>> X, y = np.array([[1.0], [2.0], [1.0]]), np.array([[5.0], [6.0], [5.0]])
    >>> X, y, weights = samples_of(Pairs(10).sampled(X, y, None), 1)
    >>> bool(weights[X[:, 0] == 1.0] == 2.0), y[X[:, 0] == 2.0]
    (True, array([[6.]]))
    """
    joined, weights = found.rows()
    X, y = joined[:, :-n_targets], joined[:, -n_targets:]
    if is_sparse(joined):
        return X.tocsr(), y.toarray(), weights
    return np.ascontiguousarray(X), np.ascontiguousarray(y), weights


def hold_widths(
    dictionary: Any,
    samples: DistinctRows,
    n_targets: int,
    targets: Callable[[Floats, Floats | None], Targets],
    widen: bool,
) -> Any:
    """The same dictionary with numbers where its widths were to be found.

    Parameters
    ----------
    dictionary : Dictionary
        One that `is_pooled`.
    samples : DistinctRows
        Rows with their targets, as `Pairs` has found them.
    n_targets : int
        Number of targets.
    targets : callable
        From targets and weights of these rows to what is to be explained.
    widen : bool
        Whether kernels get the width of the covariance: it pays where targets are numbers with
        noise, and not for classes.

    Returns
    -------
    Dictionary
        A copy; the one given is left alone.

    Examples
    --------
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> y = np.sinc(X / np.pi) + 0.1 * np.random.RandomState(0).normal(size=X.shape)
    >>> found = Pairs(1000).sampled(X, y, None)
    >>> def targets(y, weights):
    ...     return Targets(y - y.mean(), weights, True, None)
    >>> held = hold_widths(Kernel(gamma="pooled"), found, 1, targets, widen=True)
    >>> bool(1.5 < held.gamma**-0.5 < 4)
    True
    """
    X, y, weights = samples_of(samples, n_targets)
    if weights is not None:
        # Copies of a sample seem to prove that there is no noise, and would ask for narrow kernels.
        weights = weights * min(1.0, len(weights) / float(weights.sum()))
    explained = targets(y, weights)
    used = [leaf for leaf in leaves(dictionary) if _is_seen(leaf)]
    for leaf in filter(is_pooled, used):  # refused by the word that was given
        kernel = checked_kernel(leaf.kernel)
        width_of_word(_learned(leaf.gamma), kernel, X, weights, given=leaf.gamma)
    every = Union([_learning(leaf) for leaf in used]).bind(X, sample_weight=weights)
    pairs = list(zip(used, every.parts, strict=True))
    chosen = [columns[_some(*pair)] for columns, pair in zip(every.columns, pairs, strict=True)]
    atoms = every.restrict(np.concatenate(chosen))
    pull = np.concatenate([_pull(leaf, part) for leaf, part in pairs])
    if explained.t.any():
        process = _process(used, atoms, X) if widen else None
        alone = len(used) == 1 and len(pull) == 1
        find = _pooled_width if alone else first_theta
        with one_blas_thread():
            theta = process(atoms, X, explained, pull=pull) if process else None
            widen = widen and theta is None
            if theta is None:
                theta = find(atoms, X, explained, pull=pull)
        atoms = atoms.with_theta(theta)
    widths = {
        id(leaf): part.gamma_ * (_COVARIANCE if widen and part.kernel in _WIDENED else 1.0)
        for leaf, part in zip(used, atoms.parts, strict=True)
        if isinstance(part, KernelAtoms) and part.gamma_ is not None and is_pooled(leaf)
    }
    return _held(dictionary, widths)


def as_found(dictionary: Any, kept: Atoms) -> Any:
    """The same dictionary with the widths that a fit has found, as the atoms it kept tell.

    Parameters
    ----------
    dictionary : Dictionary
        One that `is_pooled`.
    kept : Atoms
        Atoms of the fitted model.

    Returns
    -------
    Dictionary
        A copy with numbers; a ValueError where a part of a union has left no atom to tell by.

    Examples
    --------
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> as_found(Kernel(gamma="pooled"), Kernel(gamma=3.0).bind(X)).gamma
    3.0
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


def _each_input(leaf: Any) -> bool:
    return is_pooled(leaf) and leaf.gamma == POOLED[1]


def _is_seen(leaf: Any) -> bool:
    """Whether atoms can be made of a sample of rows: wavelets, for one, need all."""
    if isinstance(leaf, Kernel):
        return not (isinstance(leaf.kernel, str) and leaf.kernel == "precomputed")
    return isinstance(leaf, Linear | Bias)


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


def _some(leaf: Any, part: Any) -> IndexArray:
    """Numbers of the atoms of a part that stand for all of them."""
    if not isinstance(part, KernelAtoms):
        return np.arange(part.size)
    most = _MANY_ATOMS if _each_input(leaf) else _ATOMS
    if isinstance(leaf.centers, Integral):
        most = min(most, max(int(leaf.centers), 1))
    if part.size <= most:
        return np.arange(part.size)
    return np.sort(np.argsort(row_keys(part.centers), kind="stable")[:most])


def _pull(leaf: Any, part: Any) -> Floats:
    """Precisions of the log widths around those to begin with: none where inputs may drop out."""
    if not isinstance(part, KernelAtoms):
        return np.empty(0)
    if not is_pooled(leaf) or _each_input(leaf):
        return np.zeros(len(part.theta))
    distances = part.kernel in INVERSE_DISTANCE
    return np.full(1, (2.0 if distances else 1.0) ** 2 / _SPREAD**2)


def _process(used: list[Any], atoms: Any, X: Matrix) -> Callable[..., Floats | None] | None:
    """The search for widths of a Gaussian process, where their kernel is its covariance."""
    if len(used) > 1 or not is_covariance(atoms):
        return None
    if _each_input(used[0]):
        return None if is_sparse(X) else process_theta
    # The process has a kernel at every row: fewer of them than a sample must be wider.
    centers = used[0].centers
    if centers is None:
        return process_width
    count = int(centers) if isinstance(centers, Integral) else np.shape(centers)[0]
    return process_width if count >= _ATOMS else None


def _pooled_width(atoms: Any, X: Matrix, targets: Targets, pull: Floats) -> Floats:
    """The best of all widths, of a model with nothing but kernels."""
    atoms = atoms.parts[0]
    return highest(atoms, [lambda now: _pooled_evidence(now, X, targets)], pull).theta


def _pooled_evidence(atoms: Any, X: Matrix, targets: Targets) -> tuple[float, float]:
    """Log evidence at the best variance of all atoms, and the noise there (`profile`)."""
    t, weights, center, noise_var, noise_prior = targets
    try:
        quad = DesignQuadratic(make_design(atoms, X), t, weights, center, noise_prior)
    except OutOfRange:
        return -np.inf, np.nan
    gram = quad.gram(np.arange(atoms.size))
    s, U = np.linalg.eigh(quad.norm[:, None] * gram.G * quad.norm)
    # Along each eigenvector, the part of the targets' power that is there.
    along = ((U.T @ (quad.norm[:, None] * gram.g)) ** 2).sum(axis=1)
    solid = s > RANK * s[-1]
    explained = along[solid] / s[solid]
    return profile(s[solid], explained, gram.tt, gram.n, t.shape[1], noise_var)
