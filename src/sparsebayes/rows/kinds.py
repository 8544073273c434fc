"""Rows drawn at random, more of those with a rare target."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsebayes.rows.blocks import Block, Chosen

FloatArray = NDArray[np.float64]

__all__ = ["ByKind", "by_kind"]


@dataclass(frozen=True)
class ByKind:
    """A step that keeps rows drawn at random, of each kind of target a fraction of its own.

    Parameters
    ----------
    fractions : ndarray of shape (kinds,)
        Expected fraction of the rows with target 0, 1, ... that are kept.
    seed : int
        Other rows for another seed.

    Examples
    --------
    >>> import numpy as np
    >>> block = Block(np.zeros((4, 1)), np.array([0.0, 1.0, 0.0, 1.0]), None, 0, "all")
    >>> ByKind(np.array([0.0, 1.0]), 0)(block).y
    array([1., 1.])
    """

    fractions: FloatArray
    seed: int

    def __call__(self, block: Block) -> Block:
        """Keep the chosen rows of a block.

        Parameters
        ----------
        block : Block
            Rows.

        Returns
        -------
        Block
            Fewer of them.
        """
        draws = Chosen(1.0, self.seed).draws(block.start, block.n)
        return block.some(np.flatnonzero(draws < self.fractions[block.y.astype(np.intp)]))


def by_kind(counts: FloatArray, size: float, seed: int) -> ByKind:
    """Choose about so many rows, more of rare kinds: one in ten where kinds were equal.

    Parameters
    ----------
    counts : ndarray of shape (kinds,)
        Rows of each kind.
    size : float
        Rows that are wanted.
    seed : int
        Other rows for another seed.

    Returns
    -------
    ByKind
        The step.

    Examples
    --------
    >>> import numpy as np
    >>> by_kind(np.array([9900.0, 100.0]), 1000.0, 0).fractions
    array([0.1, 0.5])
    """
    wanted = np.maximum(size * counts / counts.sum(), size / (10.0 * counts.size))
    return ByKind(np.minimum(wanted / np.maximum(counts, 1.0), 1.0), seed)
