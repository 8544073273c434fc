"""Sums that a fit with Gaussian noise needs of a block of rows.

Atoms are summed about a reference, their means in a sample of the rows: one pass is enough for
means, norms and products, and none of them is a difference of large numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.design import norm_unless_constant
from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries._protocol import OutOfRange, is_sparse
from sparsebayes.rows.blocks import Block, Sums, weighted_rows

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "TILE_CELLS",
    "Factors",
    "GramSums",
    "Grams",
    "Norms",
    "SizeSums",
    "Sizes",
    "faint_of",
    "norms_of",
    "quietly",
    "sample_means",
    "shifted_tiles",
    "side_by_side",
]

TILE_CELLS = 2**19
"""Values of atoms that are held at a time, by each thread: four megabytes."""

_TINY = float(np.finfo(float).tiny)  # sums of squares below it have lost digits, or all of them
_CONSTANT = 8 * float(np.finfo(float).eps)  # as `design.norm_unless_constant` has it
quietly = np.errstate(over="ignore", invalid="ignore")
"""Sums of values whose squares overflow are infinite or NaN: `norms_of` tells the user."""


@dataclass(frozen=True)
class SizeSums(Sums):
    """How large atoms are, less their reference; weights of rows are in all sums."""

    largest = ("faint",)

    total: float  # of weights
    first: FloatArray  # (M,) of phi
    second: FloatArray  # (M,) of phi^2
    faint: FloatArray  # (2, M) largest phi and -phi of blocks in which squares vanish


@dataclass(frozen=True)
class Sizes:
    """The statistic of means and norms alone.

    Parameters
    ----------
    atoms : Atoms
        The atoms, M.
    reference : ndarray of shape (M,)
        What is subtracted from them.
    """

    atoms: Atoms
    reference: FloatArray

    @quietly
    def __call__(self, block: Block) -> SizeSums:
        """Sum over the rows of a block.

        Parameters
        ----------
        block : Block
            Rows.

        Returns
        -------
        SizeSums
            The sums.
        """
        ones = np.ones(block.n) if block.weights is None else block.weights
        first, second = np.zeros(self.atoms.size), np.zeros(self.atoms.size)
        for rows, phi in shifted_tiles(self.atoms, self.reference, block):
            first += ones[rows] @ phi
            np.square(phi, out=phi)
            second += ones[rows] @ phi
        faint = faint_of(self.atoms, self.reference, block, second)
        return SizeSums(float(ones.sum()), first, second, faint)


@dataclass(frozen=True)
class GramSums(Sums):
    """Products of atoms, less their reference, with each other."""

    total: float  # of weights
    first: FloatArray  # (m,)
    gram: FloatArray  # (m, m)


@dataclass(frozen=True)
class Grams:
    """The statistic of a Gram matrix of few atoms, where rows count by their weights."""

    atoms: Atoms
    reference: FloatArray

    def __call__(self, block: Block) -> GramSums:
        """Sum over the rows of a block."""
        m = self.atoms.size
        ones = np.ones(block.n) if block.weights is None else block.weights
        root = np.sqrt(ones)
        first, gram = np.zeros(m), np.zeros((m, m))
        for rows, phi in shifted_tiles(self.atoms, self.reference, block, max(TILE_CELLS, m * m)):
            first += ones[rows] @ phi
            if block.weights is not None:
                phi *= root[rows, None]
            gram += phi.T @ phi
        return GramSums(float(ones.sum()), first, gram)


Triangles = tuple[tuple[int, FloatArray], ...]
"""Triangles that blocks are reduced to, each with the position of its first row."""


@dataclass(frozen=True)
class Factors:
    """The statistic of least squares without their squares: each block as a triangle.

    Parameters
    ----------
    atoms : Atoms
        The atoms, m.
    reference : ndarray of shape (m,)
        What is subtracted from them.
    mean : ndarray of shape (T,)
        What is subtracted from the targets.
    center : bool
        Whether a constant comes first, so that what follows it is centered.
    """

    atoms: Atoms
    reference: FloatArray
    mean: FloatArray
    center: bool

    def __call__(self, block: Block) -> Triangles:
        """Reduce the rows of a block.

        Parameters
        ----------
        block : Block
            Rows; ``y`` holds targets, (n, T).

        Returns
        -------
        tuple
            One triangle, of the columns ``[1, atoms, targets]``.
        """
        lead = int(self.center)
        columns = lead + self.atoms.size + block.y.shape[1]
        found = np.zeros((0, columns))
        cells = max(TILE_CELLS, 4 * columns * columns)
        for rows, phi in shifted_tiles(self.atoms, self.reference, block, cells):
            part = np.empty((len(phi), columns))
            part[:, :lead] = 1.0
            part[:, lead : lead + self.atoms.size] = phi
            part[:, lead + self.atoms.size :] = block.y[rows] - self.mean
            if block.weights is not None:
                part *= np.sqrt(block.weights[rows])[:, None]
            found = np.asarray(np.linalg.qr(np.concatenate([found, part]), mode="r"))
        return ((block.start, found),)

    def merged(self, found: Triangles) -> FloatArray:
        """One triangle of all blocks: in the order of rows, wherever they were.

        Parameters
        ----------
        found : tuple
            Triangles of blocks.

        Returns
        -------
        ndarray of shape (k, m + T)
            Of atoms and targets, centered if they are to be.
        """
        R = np.zeros((0, found[0][1].shape[1]))
        for _, part in sorted(found, key=lambda one: one[0]):
            R = np.asarray(np.linalg.qr(np.concatenate([R, part]), mode="r"))
        return R[1:, 1:] if self.center else R


def side_by_side(one: Triangles, other: Triangles) -> Triangles:
    """Triangles of more blocks: merged in the end, for their order tells in the last digits."""
    return one + other


def faint_of(atoms: Atoms, reference: FloatArray, block: Block, second: FloatArray) -> FloatArray:
    """Largest phi and -phi of atoms whose squares vanish in a block; of no other atom."""
    found = np.full((2, atoms.size), -np.inf)
    few = np.flatnonzero(second < _TINY)
    if few.size:
        for _, phi in shifted_tiles(atoms.restrict(few), reference[few], weighted_rows(block)):
            ends = np.stack([phi.max(axis=0), -phi.min(axis=0)])
            found[:, few] = np.maximum(found[:, few], ends)
    return found


class Norms(NamedTuple):
    """Means and norms of atoms, found as sums over rows."""

    mean: FloatArray  # (M,) zero where atoms are not centered
    norm: FloatArray  # (M,) zero where an atom is constant
    lost: FloatArray  # (M,) range of values where all squares vanish; zero for all other atoms


def norms_of(sums: SizeSums, reference: FloatArray, center: bool) -> Norms:
    """Means and norms of atoms.

    Parameters
    ----------
    sums : SizeSums
        Sums of the atoms, less their reference.
    reference : ndarray of shape (M,)
        The reference; not used where atoms are not centered.
    center : bool
        Whether norms are about the mean.

    Returns
    -------
    Norms
        An `OutOfRange` is raised where squares overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> X = np.array([[1.0, 0.0, 0.0], [1.0, 2.0, 4e-200]])
    >>> atoms, about = Linear().bind(X), np.zeros(3)
    >>> sums = Sizes(atoms, about)(Block(X, np.empty(2), None, 0, "all"))
    >>> found = norms_of(sums, about, center=True)
    >>> found.norm.round(3), found.lost
    (array([0.   , 1.414, 0.   ]), array([0.e+000, 0.e+000, 4.e-200]))
    """
    total, squares = sums.total, sums.second
    shift = sums.first / total
    mean = reference + shift if center else np.zeros(len(squares))
    if not (np.isfinite(squares) & np.isfinite(mean)).all():
        raise OutOfRange(
            "the atoms have values whose squares leave the range of float64: give X in other units."
        )
    high, low = sums.faint
    extent = high + low if center else np.maximum(high, low)
    vanish = (squares < _TINY) & (extent > _CONSTANT * total**0.5 * np.abs(mean))
    lost = np.where(vanish, extent, 0.0)
    if not center:
        return Norms(mean, np.sqrt(squares), lost)
    # A mean beyond one counts in a unit of its own, for the square of it may overflow.
    unit = np.ldexp(1.0, np.maximum(np.frexp(mean)[1] - 1, 0))
    centered = (squares - total * shift**2) / unit / unit
    norm = norm_unless_constant(centered, centered + total * (mean / unit) ** 2, total) * unit
    return Norms(mean, norm, lost)


def shifted_tiles(
    atoms: Atoms, reference: FloatArray, block: Block, cells: int = TILE_CELLS
) -> Iterator[tuple[slice, FloatArray]]:
    """Atoms less their reference at a few rows of a block at a time; the caller may overwrite them.

    Parameters
    ----------
    atoms : Atoms
        The atoms.
    reference : ndarray of shape (M,)
        What is subtracted.
    block : Block
        Rows.
    cells : int, default=TILE_CELLS
        About as many values at a time.

    Yields
    ------
    rows : slice
        Rows of the block.
    phi : ndarray of shape (rows, M)
        Atoms there, in memory that the next tile reuses.
    """
    step = max(1, min(block.n, cells // max(atoms.size, 1)))
    buffer = np.empty((step, atoms.size))
    some = bool(reference.any())
    for start in range(0, block.n, step):
        rows = slice(start, min(start + step, block.n))
        phi = atoms.evaluate(block.X[rows], out=buffer[: rows.stop - start])
        if is_sparse(phi):
            phi = phi.toarray()
        elif np.shares_memory(phi, block.X):
            phi = phi.copy()
        if some:
            phi -= reference
        yield rows, phi


@quietly
def sample_means(atoms: Atoms, X: Any) -> FloatArray:
    """Means of atoms at some rows: a reference for sums over all of them.

    Parameters
    ----------
    atoms : Atoms
        The atoms.
    X : ndarray or CSR matrix of shape (n, d)
        A sample of the rows; at least one.

    Returns
    -------
    ndarray of shape (M,)
        The means.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Linear
    >>> X = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> sample_means(Linear().bind(X), X)
    array([2., 5.])
    """
    block, total = Block(X, np.empty(0), None, 0, "sample"), np.zeros(atoms.size)
    for _, phi in shifted_tiles(atoms, np.zeros(atoms.size), block):
        total += phi.sum(axis=0)
    return total / block.n
