"""Dictionaries bound to rows that are not in memory."""

from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsebayes._row_order import own_order
from sparsebayes.dictionaries import Atoms, Bias, Kernel, Linear, Operator, Union
from sparsebayes.dictionaries._distinct import DistinctRows, distinct_rows, sample_size
from sparsebayes.dictionaries._kernel_parameters import (
    LEARNED,
    checked_kernel,
    checked_number,
    clustered,
    scale_gamma,
    takes_gamma,
)
from sparsebayes.dictionaries._protocol import Matrix
from sparsebayes.dictionaries.wavelets import StationaryWavelet, Wavelet
from sparsebayes.rows.blocks import Block, Rows
from sparsebayes.rows.summary import Summary, gather

__all__ = ["bind_rows"]

_SAMPLE = 20_000  # rows that a dictionary of a user's own is bound to


def bind_rows(
    dictionary: Any, rows: Rows, summary: Summary, random_state: Any, limit_bytes: int
) -> Atoms:
    """Bind a dictionary to rows, with as few of them in memory as it needs.

    Atoms are the same as in memory: columns of X need no rows, the width "scale" comes from the
    summary, and k-means centers from a sample that is drawn in the same way there. Kernels at all
    rows, ``centers=None``, need the rows in memory. A dictionary of a user's own is bound to a
    sample of at most 20 000 rows.

    Parameters
    ----------
    dictionary : Dictionary
        How atoms are made.
    rows : Rows
        Rows with their final weights.
    summary : Summary
        What `summarize` has found of these rows.
    random_state : int, RandomState or None
        For k-means.
    limit_bytes : int
        Most bytes of rows in memory.

    Returns
    -------
    Atoms
        Atoms that can be evaluated at any rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.rows import LocalRows, open_source, summarize
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> rows = LocalRows(open_source(X, X[:, 0]), block_rows=64)
    >>> dictionary = Linear() + Kernel("rbf", centers=10)
    >>> atoms = bind_rows(dictionary, rows, summarize(rows), 0, 10**6)
    >>> np.allclose(atoms.evaluate(X), dictionary.bind(X, random_state=0).evaluate(X))
    True
    """
    return _Binding(rows, summary, random_state, limit_bytes).bind(dictionary)


@dataclass(frozen=True)
class _Binding:
    rows: Rows
    summary: Summary
    random_state: Any
    limit_bytes: int

    def bind(self, dictionary: Any) -> Atoms:
        match dictionary:
            case Union():
                return dictionary.bind_parts(self.bind)
            case Linear() | Bias():
                return dictionary.bind(self._no_rows())
            case Kernel():
                return self._bind_kernel(dictionary)
            case Wavelet() | StationaryWavelet():
                raise ValueError(
                    "wavelets need all rows at once, in order: fit a signal in memory, or give "
                    "another dictionary."
                )
            case Operator():
                raise ValueError(
                    "the matrix of an Operator has a row for each sample, so it is no smaller than "
                    "the data: fit in memory, or give its columns as X with dictionary='linear'."
                )
        return self._bind_to_sample(dictionary)

    def _bind_kernel(self, dictionary: Kernel) -> Atoms:
        kernel = checked_kernel(dictionary.kernel)
        if isinstance(kernel, str) and kernel == "precomputed":
            raise ValueError(
                "a precomputed kernel matrix has a column for each row: fit it in memory, or give "
                "the inputs as X and the kernel by its name or as a function."
            )
        gamma, centers = dictionary.gamma, dictionary.centers
        if isinstance(gamma, str) and gamma in LEARNED:
            raise ValueError(
                f"gamma={gamma!r} is learned from rows in memory: fit some thousand rows so, then "
                "give gamma (the gamma_ of that model) or kernel (its kernel_) as found."
            )
        resolved = copy(dictionary)
        if isinstance(gamma, str) and gamma == "scale" and takes_gamma(kernel):
            resolved.gamma = scale_gamma(self.summary.variance, self.rows.n_features)
        if centers is None:
            return self._bind_to_all(resolved)
        if isinstance(centers, Integral) and not isinstance(centers, bool):
            resolved.centers = self._clustered(int(centers))
        return resolved.bind(self._no_rows())

    def _clustered(self, k: int) -> Matrix:
        limit = sample_size(checked_number(k))
        self._check_room(
            min(limit, self.summary.n_used),
            f"centers={k} are found by k-means of",
            "give fewer centers, or an array of them",
        )
        return clustered(k, self.rows.fold(_Distinct(limit)), self.random_state)

    def _bind_to_all(self, dictionary: Kernel) -> Atoms:
        n = self.summary.n
        self._check_room(
            n,
            "centers=None puts a kernel at each of",
            "give a number of centers, such as centers=2000",
        )
        X, _, weights = gather(self.rows)
        used = np.arange(X.shape[0]) if weights is None else np.flatnonzero(weights)
        used = used[own_order(X[used], np.zeros((used.size, 1)))]
        if used.size == n and (np.diff(used) == 1).all():
            return dictionary.bind(X)
        atoms: Any = dictionary.bind(X[used])
        bound: Atoms = replace(atoms, index=used[atoms.index], count=n)
        return bound

    def _bind_to_sample(self, dictionary: Any) -> Atoms:
        size = min(_SAMPLE, self.limit_bytes // (8 * self.rows.n_features))
        X, _, weights = gather(self.rows, min(1.0, size / self.summary.n))
        if weights is not None and not weights.all():
            X, weights = X[weights > 0], weights[weights > 0]
        bound: Atoms = dictionary.bind(X, sample_weight=weights, random_state=self.random_state)
        return bound

    def _check_room(self, n: int, need: str, advice: str) -> None:
        size = 8 * n * self.rows.n_features
        if size > self.limit_bytes:
            raise ValueError(
                f"{need} {n} rows, {size / 2**20:.0f} MiB, but memory has room for "
                f"{self.limit_bytes / 2**20:.0f} MiB of rows: {advice}, or raise memory."
            )

    def _no_rows(self) -> Matrix:
        shape = (1, self.rows.n_features)
        return sp.csr_matrix(shape) if self.summary.sparse else np.zeros(shape)


@dataclass(frozen=True)
class _Distinct:
    """The statistic that finds the rows to cluster."""

    limit: int

    def __call__(self, block: Block) -> DistinctRows:
        return distinct_rows(block.X, block.weights, self.limit, block.start)
