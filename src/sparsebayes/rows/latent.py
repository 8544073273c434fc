"""Sums that a likelihood of latent functions needs of a block of rows.

Latent functions are sums of few atoms: they are found again in every pass, from the weights, so
that nothing as long as the data is kept between passes. As in `rows.gaussian`, phi stands for an
atom less its reference; a column is an atom in one of K latent functions, numbered ``a K + k``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.stored import weighted_gram
from sparsebayes.dictionaries import Atoms
from sparsebayes.likelihoods import Expansion, Likelihood
from sparsebayes.rows.blocks import Block, Sums, weighted_rows
from sparsebayes.rows.gaussian import TILE_CELLS, shifted_tiles

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Functions", "LookSums", "Looks", "ScreenSums", "Screens"]


@dataclass(frozen=True)
class Functions:
    """Latent functions: sums of some atoms, less their references, and intercepts."""

    atoms: IndexArray  # (a,) among those of a statistic
    weights: FloatArray  # (a, K)
    c: FloatArray  # (K,) intercepts

    @classmethod
    def of(cls, columns: IndexArray, w: FloatArray, c: FloatArray) -> "Functions":
        """Latent functions of weights of columns.

        Parameters
        ----------
        columns : ndarray of shape (m,)
            The columns.
        w : ndarray of shape (m,)
            Their weights.
        c : ndarray of shape (K,)
            Intercepts, of atoms less their references.

        Returns
        -------
        Functions
            The same, by atom.

        Examples
        --------
        >>> import numpy as np
        >>> found = Functions.of(np.array([3, 6, 2]), np.array([1.0, 2.0, 3.0]), np.zeros(2))
        >>> found.atoms, found.weights
        (array([1, 3]), array([[3., 1.],
               [2., 0.]]))
        """
        K = len(c)
        atoms, which = np.unique(columns // K, return_inverse=True)
        weights = np.zeros((atoms.size, K))
        weights[which, columns % K] = w
        return cls(atoms, weights, c)

    def at(self, phi: FloatArray) -> FloatArray:
        """Values where all atoms of the statistic, less their references, are ``phi``: (n, K)."""
        if not self.atoms.size:
            return np.tile(self.c, (len(phi), 1))
        few = phi if self.atoms.size == phi.shape[1] else phi[:, self.atoms]
        return np.asarray(few @ self.weights + self.c)


@dataclass(frozen=True)
class LookSums(Sums):
    """The log likelihood at one place, and its derivatives in the weights of some columns."""

    largest = ("moved", "peak")

    value: float  # log likelihood
    elsewhere: FloatArray  # the same at other places
    pull: FloatArray  # (K,) of slopes
    C: FloatArray  # (K, K) of curvatures B
    gradient: FloatArray  # (m,) of slopes times phi
    cross: FloatArray  # (m, K) of B phi
    gram: FloatArray  # (m, m) of phi_i B phi_j
    moved: float  # largest difference of latent functions to another place
    peak: float  # largest latent function


@dataclass(frozen=True)
class Looks:
    """The statistic that Newton's method and small quadratics rest on.

    Parameters
    ----------
    atoms : Atoms
        Few atoms.
    reference : ndarray of shape (M,)
        What is subtracted from them.
    likelihood : Likelihood
        Likelihood of the targets.
    functions : Functions
        Where to look.
    columns : ndarray of shape (m,)
        In whose weights derivatives are taken.
    others : tuple of Functions, default=()
        Other places, where only the log likelihood is wanted.
    before : Functions or None, default=None
        A place from which latent functions have moved here.
    """

    atoms: Atoms
    reference: FloatArray
    likelihood: Likelihood
    functions: Functions
    columns: IndexArray
    others: tuple[Functions, ...] = ()
    before: Functions | None = None

    def __call__(self, block: Block) -> LookSums:
        """Sum over the rows of a block.

        Parameters
        ----------
        block : Block
            Rows; ``y`` holds targets as the likelihood takes them, (n,).

        Returns
        -------
        LookSums
            The sums.
        """
        m, K = self.columns.size, self.likelihood.n_latent
        atom, k = np.divmod(self.columns, K)
        every = np.array_equal(atom, np.arange(self.atoms.size))
        members = [np.flatnonzero(k == one) for one in range(K)]
        value, elsewhere = 0.0, np.zeros(len(self.others))
        pull, C = np.zeros(K), np.zeros((K, K))
        gradient, cross, gram = np.zeros(m), np.zeros((m, K)), np.zeros((m, m))
        product = np.empty_like(gram)
        moved = peak = 0.0
        for part, phi in _tiles(self.atoms, self.reference, block, max(m, K * K)):
            f = self.functions.at(phi)
            values, slope, B = _expanded(self.likelihood, part, f)
            value += float(values.sum())
            pull += slope.sum(axis=0)
            C += B.sum(axis=0)
            peak = max(peak, float(np.abs(f).max(initial=0.0)))
            if self.before is not None:
                away = np.abs(f - self.before.at(phi))
                moved = max(moved, float(away.max(initial=0.0)))
            for i, other in enumerate(self.others):
                elsewhere[i] += _expanded(self.likelihood, part, other.at(phi)).value.sum()
            if not m:
                continue
            U = phi if every else phi[:, atom]
            for one, mine in enumerate(members):
                own = U if K == 1 else U[:, mine]
                gradient[mine] += slope[:, one] @ own
                cross[mine] += own.T @ B[:, one]
            if K > 1:
                gram += weighted_gram(U.T, k, B)
            else:  # the product of an array with itself takes half the time
                U *= np.sqrt(B[:, 0])
                gram += np.matmul(U.T, U, out=product)
        return LookSums(value, elsewhere, pull, C, gradient, cross, gram, moved, peak)


@dataclass(frozen=True)
class ScreenSums(Sums):
    """Moments of all atoms under the curvature of a likelihood, and products with some columns."""

    drawn: FloatArray  # (K, M) of phi times the pull B f + slope
    first: FloatArray  # (pairs, M) of B_kl phi, k <= l
    second: FloatArray  # (pairs or K, M) of B_kl phi^2
    columns: FloatArray  # (p, K, M) of phi_i B_kl phi


@dataclass(frozen=True)
class Screens:
    """The statistic that a screen of the dictionary rests on.

    Parameters
    ----------
    atoms : Atoms
        All atoms, M.
    reference : ndarray of shape (M,)
        What is subtracted from them.
    likelihood : Likelihood
        Likelihood of the targets.
    functions : Functions
        Where it is expanded.
    wanted : ndarray of shape (p,)
        Columns whose products with all others are wanted.
    pairs : bool
        Whether squares are wanted for pairs of different latent functions too.
    """

    atoms: Atoms
    reference: FloatArray
    likelihood: Likelihood
    functions: Functions
    wanted: IndexArray
    pairs: bool

    def __call__(self, block: Block) -> ScreenSums:
        """Sum over the rows of a block.

        Parameters
        ----------
        block : Block
            Rows; ``y`` holds targets as the likelihood takes them, (n,).

        Returns
        -------
        ScreenSums
            The sums.
        """
        M, K, p = self.atoms.size, self.likelihood.n_latent, self.wanted.size
        atom, k = np.divmod(self.wanted, K)
        one, two = np.triu_indices(K)
        squared = np.ones(one.size, dtype=np.bool_) if self.pairs else one == two
        P = one.size
        products = np.zeros((K + P + p * K, M))
        second = np.zeros((int(squared.sum()), M))
        left, found = np.empty((len(products), 0)), np.empty_like(products)
        for part, phi in _tiles(self.atoms, self.reference, block, K * K):
            f = self.functions.at(phi)
            _, slope, B = _expanded(self.likelihood, part, f)
            if left.shape[1] != len(phi):
                left = np.empty((len(products), len(phi)))
            left[:K] = (np.einsum("nkl,nl->nk", B, f) + slope).T
            left[K : K + P] = B[:, one, two].T
            if p:
                B_k = B.transpose(2, 1, 0)[k]  # (p, K, n)
                weighted = left[K + P :].reshape(p, K, len(phi))
                np.multiply(phi[:, atom].T[:, None], B_k, out=weighted)
            np.matmul(left, phi, out=found)
            products += found
            np.square(phi, out=phi)
            second += left[K : K + P][squared] @ phi
        columns = products[K + P :].reshape(p, K, M)
        return ScreenSums(products[:K], products[K : K + P], second, columns)


def _tiles(
    atoms: Atoms, reference: FloatArray, block: Block, width: int
) -> Iterator[tuple[Block, FloatArray]]:
    """Few rows of positive weight at a time, and atoms there; ``width``: other values of a row."""
    block = weighted_rows(block)
    if not block.n:
        return
    step = max(1, TILE_CELLS // max(atoms.size, width))
    if not atoms.size:
        for start in range(0, block.n, step):
            part = _rows(block, slice(start, start + step))
            yield part, np.empty((part.n, 0))
        return
    for rows, phi in shifted_tiles(atoms, reference, block, step * atoms.size):
        yield _rows(block, rows), phi


def _rows(block: Block, rows: slice) -> Block:
    weights = None if block.weights is None else block.weights[rows]
    return block._replace(X=block.X[rows], y=block.y[rows], weights=weights)


def _expanded(likelihood: Likelihood, block: Block, f: FloatArray) -> Expansion:
    """Expansion of the likelihood of some rows, weights included."""
    with np.errstate(over="ignore"):
        value, slope, curvature = likelihood.expand(block.y, f)
        return Expansion(value, slope, curvature).weighted(block.weights)
