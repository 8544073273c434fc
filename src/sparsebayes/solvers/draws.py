"""Draws of atoms that belong to the atoms, and not to the places where they stand.

A draw by place takes other atoms where rows or columns come in another order, so that another
optimum is found. Here each atom gets a score of its own: a hash of how it correlates with the
targets, rounded far above what float64 rounds. Rows in another order and sums of another processor
leave it as it is, and atoms that are equal have equal scores.
"""

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import Quadratic

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["by_score", "drawn"]

# Correlations are told apart to this fraction of the largest: far coarser than the rounding of a
# sum, so that next to none comes to lie beyond a boundary; far finer than atoms differ.
_FINEST = 2.0**-20


def drawn(
    quad: Quadratic, count: int, rng: np.random.RandomState, among: IndexArray | None = None
) -> IndexArray:
    """Draw atoms at random, the same ones in any order of rows and of atoms.

    Parameters
    ----------
    quad : Quadratic
        The atoms, and their products with the targets.
    count : int
        How many to draw, at most.
    rng : RandomState
        Gives one number, which decides the draw.
    among : ndarray of shape (k,) or None, default=None
        The atoms to draw from; None for all that are not void.

    Returns
    -------
    ndarray of shape (min(count, k),)
        Atoms in the order in which they were drawn. Atoms that correlate alike with all targets
        follow one another, in their own order.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.core.quadratic import Gram
    >>> g = np.array([[0.3], [0.1], [-0.4], [0.2]])
    >>> one = drawn(Gram(np.eye(4), g, 1.0, 10.0, 0.1), 2, np.random.RandomState(0))
    >>> other = drawn(Gram(np.eye(4), g[::-1], 1.0, 10.0, 0.1), 2, np.random.RandomState(0))
    >>> g[one].ravel(), g[::-1][other].ravel()
    (array([0.2, 0.3]), array([0.2, 0.3]))
    """
    atoms = np.flatnonzero(quad.diag) if among is None else among
    g = quad.g.reshape(quad.size, -1)  # columns of one atom as targets of their own
    return np.asarray(atoms[by_score(g[atoms], rng)[:count]])


def by_score(g: FloatArray, rng: np.random.RandomState) -> IndexArray:
    """A random order of atoms that belongs to their products with the targets.

    Parameters
    ----------
    g : ndarray of shape (k, T)
        The products, a row for each atom.
    rng : RandomState
        Gives one number, which decides the order.

    Returns
    -------
    ndarray of shape (k,)
        Positions in g.

    Examples
    --------
    >>> import numpy as np
    >>> g = np.array([[0.3], [0.1], [-0.4]])
    >>> g[by_score(g * (1 + 1e-15), np.random.RandomState(0))].ravel()
    array([ 0.3, -0.4,  0.1])
    """
    return np.argsort(_scores(g, int(rng.randint(2**31 - 1))), kind="stable")


def _scores(g: FloatArray, seed: int) -> NDArray[np.uint64]:
    """Hashes of rows, rounded."""
    largest = float(np.abs(g).max(initial=0.0))
    unit = largest * _FINEST if largest > 0 else 1.0
    total = np.full(len(g), seed, dtype=np.uint64)
    for column in g.T:
        # The sign of the targets, or of an atom, is nothing that a draw should depend on.
        total = _mixed(total + np.rint(np.abs(column) / unit).astype(np.uint64))
    return total


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The steps of splitmix64: nearby numbers become numbers without pattern."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
