"""Rows drawn from others, brought into the memory of this process."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._memory import Budget
from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries._protocol import evaluate_into
from sparsebayes.rows.blocks import Chosen, Meter, Rows, weighted_rows
from sparsebayes.rows.kinds import ByKind
from sparsebayes.rows.local import LocalRows
from sparsebayes.rows.sources import open_source
from sparsebayes.rows.summary import gather

FloatArray = NDArray[np.float64]

__all__ = ["kept", "sampled", "transformed"]


def kept(rows: Rows, budget: Budget) -> LocalRows:
    """The same rows in memory: passes neither read and check them again, nor draw them again.

    Parameters
    ----------
    rows : Rows
        Few enough rows; those of weight zero are left out.
    budget : Budget
        Memory and threads.

    Returns
    -------
    LocalRows
        The rows, on the same meter.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(1000.0)[:, None]
    >>> rows = LocalRows(open_source(X, X[:, 0]), 64).mapped(Chosen(0.1, 0))
    >>> some = kept(rows, Budget(2**26, 1))
    >>> some.fold(lambda block: block.n), some.meter.length
    (92, 92)
    """
    return _held(*gather(rows.mapped(weighted_rows)), rows, budget, rows.meter)


def sampled(
    rows: Rows, some: Chosen | ByKind, budget: Budget, within: Chosen | ByKind | None = None
) -> LocalRows:
    """Some of the rows in memory, with weights by which they stand for all.

    Parameters
    ----------
    rows : Rows
        All rows, whose targets are as a likelihood takes them.
    some : Chosen or ByKind
        Which of them are drawn.
    budget : Budget
        Memory and threads.
    within : Chosen or ByKind or None, default=None
        A larger draw with the same seed that they stand for, in the place of all rows.

    Returns
    -------
    LocalRows
        The sample; passes over it are on no account.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.zeros((1000, 1)), np.arange(1000.0) % 2
    >>> rows = LocalRows(open_source(X, y), 64)
    >>> some = sampled(rows, ByKind(np.array([0.1, 0.5]), 0), Budget(2**26, 1))
    >>> some.fold(lambda block: np.unique(block.weights))
    array([ 2., 10.])
    """
    X, y, weights = gather(rows.mapped(some).mapped(weighted_rows))
    stands = (1.0 if within is None else _fraction(within, y)) / _fraction(some, y)
    return _held(X, y, stands if weights is None else stands * weights, rows, budget, Meter())


def transformed(rows: LocalRows, atoms: Atoms, reference: FloatArray, budget: Budget) -> LocalRows:
    """Values of atoms, less a reference, in the place of the rows.

    Parameters
    ----------
    rows : LocalRows
        Few rows, in memory.
    atoms : Atoms
        Functions of them.
    reference : ndarray of shape (M,)
        What is subtracted.
    budget : Budget
        Memory and threads.

    Returns
    -------
    LocalRows
        Rows of M columns, with the same targets and weights; passes over it are on no account.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> rows = LocalRows(open_source(X, X[:, 0]), 64)
    >>> shifted = transformed(rows, Linear().bind(X), np.ones(2), Budget(2**26, 1))
    >>> shifted.fold(lambda block: block.X[0])
    array([-1.,  0.])
    """
    X, y, weights = gather(rows)
    values = evaluate_into(atoms, X, np.empty((len(y), atoms.size)))
    values -= reference
    source = open_source(values, y, weights)
    return LocalRows(source, budget.block_rows(atoms.size), budget.threads, (), Meter())


def _fraction(some: Chosen | ByKind, y: NDArray[Any]) -> FloatArray:
    """What fraction is drawn of rows like each of these."""
    if isinstance(some, ByKind):
        return np.asarray(some.fractions[y.astype(np.intp)])
    return np.full(len(y), some.fraction)


def _held(
    X: Any, y: NDArray[Any], weights: FloatArray | None, rows: Rows, budget: Budget, meter: Meter
) -> LocalRows:
    meter.length = len(y)
    source = open_source(X, y, weights)
    return LocalRows(source, budget.block_rows(rows.n_features), budget.threads, (), meter)
