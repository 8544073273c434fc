"""Sums over a block of rows that quadratics are made of: products of atoms in a metric of the rows.

The metric is that of Gaussian noise, or the curvature of a likelihood around latent functions.
These are sums of few atoms: they are found again in every pass, from the weights, so that nothing
as long as the data is kept between passes. As in `rows.gaussian`, phi stands for an atom less its
reference; a column is an atom in one of K latent functions, numbered ``a K + k``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.stored import weighted_gram
from sparsebayes.dictionaries import Atoms
from sparsebayes.likelihoods import Expansion, Likelihood
from sparsebayes.rows.blocks import Block, Sums, weighted_rows
from sparsebayes.rows.gaussian import TILE_CELLS, faint_of, quietly, shifted_tiles

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "Curvature",
    "Functions",
    "LookSums",
    "Looks",
    "ScreenSums",
    "Screens",
    "Weighted",
]


@dataclass(frozen=True)
class Functions:
    """Latent functions: sums of some atoms, less their references, and intercepts."""

    atoms: IndexArray  # (a,) among those of a statistic
    weights: FloatArray  # (a, K)
    c: FloatArray  # (K,) intercepts

    @classmethod
    def of(cls, columns: IndexArray, w: FloatArray, c: FloatArray) -> "Functions":
        """Latent functions of weights w of columns; intercepts c are of atoms less references."""
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
    """The statistic that Newton's method and small quadratics rest on."""

    atoms: Atoms  # few
    reference: FloatArray  # (M,)
    likelihood: Likelihood
    functions: Functions  # where to look
    columns: IndexArray  # (m,) in whose weights derivatives are taken
    others: tuple[Functions, ...] = ()  # where only the log likelihood is wanted
    before: Functions | None = None  # from where latent functions have moved here

    def __call__(self, block: Block) -> LookSums:
        """Sum over rows whose ``y`` are targets as the likelihood takes them, (n,)."""
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
class Weighted:
    """The metric of Gaussian noise: rows count by their weights, and are drawn to their targets."""

    K: ClassVar[int] = 1

    def width(self, block: Block) -> int:
        """Number of targets."""
        return int(block.y.shape[1])

    def of(self, block: Block, phi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What rows are drawn to, (n, T), times their curvature, (n, 1, 1); squares of that."""
        ones = np.ones(block.n) if block.weights is None else block.weights
        pull = block.y * ones[:, None]
        return pull, ones[:, None, None], np.einsum("nt,nt->t", pull, block.y)


@dataclass(frozen=True)
class Curvature:
    """The metric of a likelihood around latent functions: its curvature B there."""

    likelihood: Likelihood
    functions: Functions

    @property
    def K(self) -> int:
        """Number of latent functions."""
        return self.likelihood.n_latent

    def width(self, block: Block) -> int:
        """One number for each latent function."""
        return self.K

    def of(self, block: Block, phi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The pull B f + slope, (n, K), the curvature, (n, K, K), and no squares."""
        f = self.functions.at(phi)
        _, slope, B = _expanded(self.likelihood, block, f)
        return np.einsum("nkl,nl->nk", B, f) + slope, B, np.zeros(self.K)


@dataclass(frozen=True)
class ScreenSums(Sums):
    """Moments of all atoms in a metric B, and products with some columns."""

    largest = ("faint",)

    C: FloatArray  # (K, K) of B
    pull: FloatArray  # (T,) of what rows are drawn to
    squares: FloatArray  # (T,) of its squares, where they are known
    drawn: FloatArray  # (T, M) of phi times the pull
    first: FloatArray  # (pairs, M) of B_kl phi, k <= l
    second: FloatArray  # (pairs or K, M) of B_kl phi^2
    columns: FloatArray  # (p, K, M) of phi_i B_kl phi
    faint: FloatArray  # (2, M) largest phi and -phi of blocks in which squares vanish, or (2, 0)


@dataclass(frozen=True)
class Screens:
    """The statistic that a screen of the dictionary rests on: all atoms, less a reference."""

    atoms: Atoms  # M
    reference: FloatArray  # (M,)
    metric: Weighted | Curvature
    wanted: IndexArray  # (p,) columns whose products with all others are wanted
    pairs: bool = False  # whether squares are, of different latent functions too
    alone: bool = False  # whether nothing else is: all other sums are then zero or empty

    @quietly
    def __call__(self, block: Block) -> ScreenSums:
        """Sum over rows whose ``y`` are targets: (n, T), or as the likelihood takes them."""
        M, K, p, T = self.atoms.size, self.metric.K, self.wanted.size, self.metric.width(block)
        atom, k = np.divmod(self.wanted, K)
        one, two = np.triu_indices(K)
        squared = np.ones(one.size, dtype=np.bool_) if self.pairs else one == two
        every = K == 1 and not self.alone and np.array_equal(self.wanted, np.arange(M))
        lead = 0 if self.alone else T + one.size  # rows of products before those of columns
        products = np.zeros((lead + (0 if every else p * K), M))
        second = np.zeros((int(squared.sum()), M))
        gram = np.zeros((M if every else 0, M))
        C, pulled, squares = np.zeros((K, K)), np.zeros(T), np.zeros(T)
        left, found, square = np.empty((len(products), 0)), *map(np.empty_like, (products, gram))
        cells = max(TILE_CELLS, M * M) if every else TILE_CELLS
        for part, phi in _tiles(self.atoms, self.reference, block, K * K, cells):
            pull, B, own = self.metric.of(part, phi)
            if left.shape[1] != len(phi):
                left = np.empty((len(products), len(phi)))
            if not self.alone:
                C, pulled, squares = C + B.sum(axis=0), pulled + pull.sum(axis=0), squares + own
                left[:T] = pull.T
                left[T:lead] = B[:, one, two].T
            if p and not every:
                weighted = left[lead:].reshape(p, K, len(phi))
                np.multiply(phi[:, atom].T[:, None], B.transpose(2, 1, 0)[k], out=weighted)
            np.matmul(left, phi, out=found)
            products += found
            if every:  # a product with itself takes half the time
                phi *= np.sqrt(B[:, 0])
                gram += np.matmul(phi.T, phi, out=square)
            elif not self.alone:
                np.square(phi, out=phi)
                second += left[T:lead][squared] @ phi
        columns = products[lead:].reshape(-1, K, M)
        if every:
            columns, second = gram[:, None], gram.diagonal()[None].copy()
        faint = np.zeros((2, 0))
        if isinstance(self.metric, Weighted) and not self.alone:
            faint = faint_of(self.atoms, self.reference, block, second[0])
        drawn, first = products[: min(T, lead)], products[T:lead]
        return ScreenSums(C, pulled, squares, drawn, first, second, columns, faint)


def _tiles(
    atoms: Atoms, reference: FloatArray, block: Block, width: int, cells: int = TILE_CELLS
) -> Iterator[tuple[Block, FloatArray]]:
    """Few rows of positive weight at a time, and atoms there; ``width``: other values of a row."""
    block = weighted_rows(block)
    if not block.n:
        return
    step = max(1, cells // max(atoms.size, width))
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
