"""The narrow waist: a quadratic in the weights, all that the engine ever sees.

Around the current weights a likelihood is ``const + b.w - w.H.w / 2`` with ``H = G / noise`` and
``b = g / noise``. A quadratic gives ``g``, the diagonal of ``G``, columns of ``G`` and small blocks
of it, for atoms of unit norm; no Phi, no t, no link.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf, dormqr

from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.tolerances import COLLINEAR, EPS, TOLERANCES
from sparsebayes.noise_priors import NoisePrior

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
P = TypeVar("P", bound="InnerProducts")

__all__ = [
    "AnyQuadratic",
    "ColumnCache",
    "Columns",
    "Facts",
    "Gram",
    "InnerProducts",
    "Later",
    "LazyQuadratic",
    "LeastSquares",
    "OrthonormalQuadratic",
    "Quadratic",
    "Root",
    "Targets",
    "members",
    "most_rooted",
    "reduced",
]


class Quadratic(Protocol):
    """Sufficient statistics of a fit, for M atoms and T targets."""

    @property
    def size(self) -> int:
        """Number of atoms M."""
        ...

    @property
    def diag(self) -> FloatArray:
        """Diagonal of G, shape (M,): one for an atom of unit norm, zero for a void one."""
        ...

    @property
    def g(self) -> FloatArray:
        """Phi' W t, shape (M, T)."""
        ...

    @property
    def tt(self) -> float:
        """Sum of squared targets t' W t, over all targets."""
        ...

    @property
    def n(self) -> float:
        """Residual degrees of freedom of an empty model: sum of weights, less one if centered."""
        ...

    @property
    def spread(self) -> float:
        """Variance of the targets about their means, summed over targets."""
        ...

    @property
    def log_offset(self) -> float:
        """Log evidence that depends on no parameter."""
        ...

    @property
    def group(self) -> int:
        """Columns that share one variance: one, or K where latent functions share their atoms'."""
        ...

    @property
    def collinear(self) -> float:
        """Fraction of diag(G) below which S is rounding; below `COLLINEAR` there is a root."""
        ...

    @property
    def blocks(self) -> FloatArray:
        """Blocks of G for each atom, shape (M, group, group); asked only where group > 1."""
        ...

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return columns of G as rows, shape (k, M); k and M are times ``group`` where it is."""
        ...

    def gram(self, indices: IndexArray) -> "Gram":
        """Return the quadratic of some atoms alone, dense."""
        ...

    def least_squares(self) -> "LeastSquares | None":
        """What this is the square of, where that is known."""
        ...


class LeastSquares(Protocol):
    """What a quadratic is the square of: ``G = D'D`` and ``g = D't``, with columns D of length q.

    G holds the squares of what D holds: atoms whose weights almost cancel leave twice the digits
    in D that they leave in G.
    """

    @property
    def t(self) -> FloatArray:
        """Targets, (q, T)."""
        ...

    @property
    def rest(self) -> float | None:
        """Squares of targets that no column reaches; None where that is tt less those of t."""
        ...

    @property
    def error(self) -> float:
        """Relative error of the columns."""
        ...

    @property
    def least(self) -> float:
        """Fraction of diag(G) below which S is rounding."""
        ...

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return some columns, shape (q, k)."""
        ...

    def along(self, rows: FloatArray) -> FloatArray:
        """Products of rows, shape (k, q), with all columns, shape (k, M)."""
        ...


class Root(NamedTuple):
    """The least squares of few atoms, as a matrix."""

    D: FloatArray  # (q, M)
    t: FloatArray  # (q, T)
    rest: float | None = None
    error: float = TOLERANCES.summed

    @property
    def least(self) -> float:
        """Fraction of diag(G) below which S is rounding."""
        return TOLERANCES.rooted if self.error > EPS else TOLERANCES.told

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return some columns, shape (q, k)."""
        return self.D[:, indices]

    def along(self, rows: FloatArray) -> FloatArray:
        """Products of rows, shape (k, q), with all columns, shape (k, M)."""
        return np.asarray(rows @ self.D)


def reduced(root: Root) -> Root:
    """Bring least squares to one row more than columns, by a triangle; ``root.D`` is overwritten.

    The last row holds what is left of each target, so that sums of squares are as before.
    """
    q, m = root.D.shape
    if q <= m + 1:
        return root
    R, tau, _, info = dgeqrf(root.D, overwrite_a=1)  # without a copy of columns in Fortran's order
    length = 64 * root.t.shape[1]
    t, _, mistaken = dormqr("L", "T", R, tau, np.asfortranarray(root.t), length)
    assert info == mistaken == 0, "LAPACK refused its arguments"
    left = np.sqrt(np.einsum("ij,ij->j", t[m:], t[m:]))
    D = np.zeros((m + 1, m))
    D[:m] = np.triu(R[:m])
    return root._replace(D=D, t=np.concatenate([t[:m], left[None]]))


def most_rooted(n: int) -> int:
    """Atoms at n rows up to which a root of all of them is worth its cost."""
    return max(TOLERANCES.few_rooted, int((TOLERANCES.rooted_work / max(n, 1)) ** 0.5))


class Later:
    """The root of some atoms, made when it is asked for first and then kept.

    Of more than ``most`` atoms it is not worth its cost, and each smaller model makes its own.
    """

    def __init__(self, make: Callable[[IndexArray], Root], indices: IndexArray, most: int) -> None:
        self._make, self._indices, self._most = make, indices, most
        self._made: Root | None = None

    def __call__(self) -> Root | None:
        """Return the root, or None where there are too many atoms."""
        if self._made is None and self._indices.size <= self._most:
            self._made = self._make(self._indices)
        return self._made

    def some(self, own: IndexArray) -> "Later":
        """The root of some of these atoms: taken from this one, where that is worth its cost."""
        few = self._indices[own]
        if self._indices.size > self._most:
            return Later(self._make, few, self._most)

        def taken(_: IndexArray) -> Root:
            whole = self()
            assert whole is not None
            return reduced(whole._replace(D=whole.D[:, own]))

        return Later(taken, few, self._most)


@dataclass(frozen=True)
class Gram:
    """A quadratic held as a dense matrix, of few atoms."""

    G: FloatArray  # (M, M)
    g: FloatArray  # (M, T)
    tt: float
    n: float
    spread: float
    log_offset: float = 0.0
    group: int = 1  # columns that share one variance
    root: Root | None = None  # where it is known: then it is used always
    later: Later | None = None  # where it can be made: then it is used where squares lose digits

    @property
    def collinear(self) -> float:
        """Fraction of diag(G) below which S is rounding."""
        return COLLINEAR if self.root is None else TOLERANCES.rooted

    def least_squares(self) -> Root | None:
        """What this is the square of, where that is known."""
        return self.root if self.later is None else self.later()

    @property
    def size(self) -> int:
        """Number of atoms M: of variances."""
        return len(self.g) // self.group

    @property
    def diag(self) -> FloatArray:
        """Diagonal of G."""
        return self.G.diagonal()

    @property
    def blocks(self) -> FloatArray:
        """Blocks of G for each atom, shape (M, group, group)."""
        M, group = self.size, self.group
        return self.G.reshape(M, group, M, group)[np.arange(M), :, np.arange(M)]

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return columns of G as rows, shape (k, M)."""
        return self.G[members(indices, self.group)]

    def gram(self, indices: IndexArray) -> "Gram":
        """Return the quadratic of some atoms alone."""
        own = members(indices, self.group)
        G = self.G.take(own, axis=0).take(own, axis=1)
        root = None if self.root is None else self.root._replace(D=self.root.D[:, own])
        later = None if self.later is None else self.later.some(own)
        known = self.tt, self.n, self.spread, self.log_offset, self.group
        return Gram(G, self.g[own], *known, root, later)


@dataclass(frozen=True)
class OrthonormalQuadratic:
    """The quadratic of orthonormal atoms: G is the identity and is never formed.

    Any solver takes it; `solvers.orthonormal` needs nothing but ``g``, so that a million atoms are
    few. With orthogonal atoms of unit norm, ``g`` is what a transform makes of the targets.
    """

    g: FloatArray  # (M, T)
    tt: float
    n: float
    spread: float
    log_offset: float = 0.0
    void: NDArray[np.bool_] | None = None  # atoms of norm zero once centered; their g is zero
    group: int = field(default=1, init=False)
    collinear: float = field(default=COLLINEAR, init=False)

    @property
    def size(self) -> int:
        """Number of atoms M."""
        return len(self.g)

    @property
    def diag(self) -> FloatArray:
        """Diagonal of G: ones, and zeros for void atoms."""
        return np.ones(len(self.g)) if self.void is None else np.where(self.void, 0.0, 1.0)

    @property
    def blocks(self) -> FloatArray:
        """Diagonal of G, as blocks of one."""
        return self.diag[:, None, None]

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return columns of G as rows, shape (k, M): for small problems."""
        rows = np.zeros((indices.size, len(self.g)))
        rows[np.arange(indices.size), indices] = self.diag[indices]
        return rows

    def gram(self, indices: IndexArray) -> Gram:
        """Return the quadratic of some atoms alone, dense."""
        G = np.diag(self.diag[indices])
        return Gram(G, self.g[indices], self.tt, self.n, self.spread, self.log_offset)

    def least_squares(self) -> None:
        """Nothing is lost in the squares of orthonormal atoms."""


def members(indices: IndexArray, group: int) -> IndexArray:
    """Columns of atoms that have ``group`` columns each."""
    if group == 1:
        return indices
    return np.asarray((indices[:, None] * group + np.arange(group)).ravel())


class Facts(NamedTuple):
    """Numbers that every quadratic has, as `Quadratic` explains them."""

    tt: float
    n: float
    spread: float
    log_offset: float


class Targets(NamedTuple):
    """Sums over targets with Gaussian noise, weights included."""

    total: float  # of weights
    mean: FloatArray  # (T,)
    squares: float  # about the mean if there is an intercept, over all targets

    def offset(self, center: bool) -> FloatArray:
        """Intercepts where all weights are zero, (T,)."""
        return self.mean if center else np.zeros(len(self.mean))

    def rest(self, prior: NoisePrior | None) -> float:
        """Squares that no row has: those of observations made before."""
        return 0.0 if prior is None else prior.observations(len(self.mean)).tt

    def facts(self, center: bool, prior: NoisePrior | None) -> Facts:
        """What a quadratic says of them; a prior of the noise is observations made before."""
        total, n_targets = self.total, len(self.mean)
        drift = 0.0 if center else total * float(self.mean @ self.mean)
        spread = max(self.squares - drift, 0.0) / total
        # Integrating exp(-N (c - mean)^2 / (2 noise)) over the intercept c leaves N^(-1/2).
        log_offset = -0.5 * n_targets * float(np.log(total)) if center else 0.0
        found = Facts(self.squares, total - 1.0 if center else total, spread, log_offset)
        if prior is None:
            return found
        before = prior.observations(n_targets)  # count with the targets
        return found._replace(
            tt=found.tt + before.tt,
            n=found.n + before.n,
            log_offset=found.log_offset + before.log_offset,
        )


class Columns(NamedTuple):
    """What is known of all columns: an atom in one of K latent functions, numbered ``a K + k``."""

    mean: FloatArray  # (M,) of atoms; zero if there is no intercept
    norm: FloatArray  # (M K,) once intercepts are projected out
    drawn: FloatArray  # (M K, T) products with targets
    offset: FloatArray  # (T,) or (K,) intercepts where all weights are zero
    tilt: FloatArray | None = None  # (M, K, K) what else the intercepts take off each column
    squares: FloatArray | None = None  # (M, K, K) where the columns of an atom share its variance


class InnerProducts(Protocol):
    """Products of columns with each other, summed over rows wherever these are kept.

    Intercepts are projected out here; ``unit``, (M K,), brings columns to unit norm.
    """

    @property
    def keep(self) -> bool:
        """Whether columns of G are worth keeping."""
        ...

    @property
    def collinear(self) -> float:
        """As of a quadratic; below `COLLINEAR` every block has its root."""
        ...

    def columns(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with all, shape (k, M K); those with themselves may be off."""
        ...

    def block(self, some: IndexArray, unit: FloatArray) -> FloatArray:
        """Products of some columns with each other, shape (k, k)."""
        ...

    def least_squares(self, unit: FloatArray) -> "LeastSquares | None":
        """What all of them are the squares of, where that is known."""
        ...

    def root(self, some: IndexArray, unit: FloatArray) -> "Root | Later | None":
        """What some columns are the squares of; it may be made when it is asked for."""
        ...


class LazyQuadratic(Generic[P]):
    """A quadratic of columns of unit norm: columns of G are made when asked for, and then kept."""

    def __init__(self, products: P, columns: Columns, facts: Facts, intercepts: Intercepts) -> None:
        self.products, self.intercepts = products, intercepts
        self.tt, self.n, self.spread, self.log_offset = facts
        self.mean, self.norm, drawn, self.offset, tilt, squares = columns
        M, K = len(self.mean), len(intercepts.C)
        self.K = K
        self.group = 1 if squares is None else K
        self.tilt = np.zeros((M, K, K)) if tilt is None else tilt
        self.collinear = products.collinear
        void = self.norm == 0
        with np.errstate(over="ignore"):  # of a subnormal norm, which is refused where it matters
            self.unit = np.where(void, 0.0, 1.0 / np.where(void, 1.0, self.norm))
        self.diag = np.where(void, 0.0, 1.0)
        self.blocks = self.diag[:, None, None]
        if squares is not None:
            self.blocks = squares * (self.unit[::K] ** 2)[:, None, None]
            self.diag = np.ascontiguousarray(self.blocks.diagonal(axis1=1, axis2=2)).ravel()
        self.g = np.ascontiguousarray(drawn * self.unit[:, None])
        self.cache = ColumnCache(len(self.norm))
        self._recent = RecentBlock(len(self.norm))

    @property
    def size(self) -> int:
        """Number of atoms as a solver counts them: M K columns, or M where variances are shared."""
        return len(self.norm) // self.group

    def members(self, indices: IndexArray) -> IndexArray:
        """Columns of atoms as a solver counts them."""
        return members(indices, self.group)

    def atom(self, columns: IndexArray) -> IndexArray:
        """Atoms of columns."""
        return np.asarray(columns // self.K)

    def latent(self, columns: IndexArray) -> IndexArray:
        """Latent functions of columns."""
        return np.asarray(columns % self.K)

    def centers(self, columns: IndexArray) -> FloatArray:
        """What intercepts take off columns, in each latent function: shape (k, K)."""
        a, k = self.atom(columns), self.latent(columns)
        found = self.tilt[a, k].copy()
        found[np.arange(columns.size), k] += self.mean[a]
        return found

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return columns of G as rows, shape (k, M K), computing only those not seen before."""
        some = self.members(indices)
        return self.cache.columns(some, self._made) if self.products.keep else self._made(some)

    def keep(self, some: IndexArray, make: Callable[[IndexArray], FloatArray]) -> None:
        """Keep columns of G that were found on the way."""
        if some.size:
            self.cache.columns(some, lambda fresh: self._own(make(fresh), fresh))

    def _made(self, some: IndexArray) -> FloatArray:
        return self._own(self.products.columns(some, self.unit), some)

    def _own(self, rows: FloatArray, some: IndexArray) -> FloatArray:
        rows[np.arange(some.size), some] = self.diag[some]
        return rows

    def gram(self, indices: IndexArray) -> Gram:
        """Return the quadratic of some atoms alone; whole columns of G are used where kept."""
        some = self.members(indices)
        G, new = self.cache.block(some)
        if new.size == some.size:
            G = self._recent.block(some, self._block)
        elif new.size:
            G[new[:, None], new] = self._recent.block(some[new], self._block)
        G.flat[:: some.size + 1] = self.diag[some]
        found = self.products.root(some, self.unit)
        root, later = (None, found) if isinstance(found, Later) else (found, None)
        known = self.tt, self.n, self.spread, self.log_offset, self.group
        return Gram(G, self.g[some], *known, root, later)

    def _block(self, some: IndexArray) -> FloatArray:
        return self.products.block(some, self.unit)

    def least_squares(self) -> LeastSquares | None:
        """What this is the square of, where that is known."""
        return self.products.least_squares(self.unit)


AnyQuadratic = LazyQuadratic[Any]


class RecentBlock:
    """The block of G asked for last: of many atoms that competed, those that are left come next."""

    def __init__(self, size: int) -> None:
        self._place = np.full(size, -1, dtype=np.intp)
        self._atoms = np.empty(0, dtype=np.intp)
        self._G = np.empty((0, 0))

    def block(self, indices: IndexArray, compute: Callable[[IndexArray], FloatArray]) -> FloatArray:
        """Return G of some atoms alone, a copy; ``compute`` makes what is not known."""
        places = self._place[indices]
        if places.min(initial=0) >= 0:
            return self._G.take(places, axis=0).take(places, axis=1)
        G = compute(indices)
        if indices.size <= TOLERANCES.recent:
            self._place[self._atoms] = -1
            self._place[indices] = np.arange(indices.size)
            self._atoms, self._G = indices.copy(), G.copy()
        return G


class ColumnCache:
    """Columns of G, kept once computed: they are what a screen costs."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.n_columns = 0  # columns ever computed
        self._slot = np.full(size, -1, dtype=np.intp)
        self._kept = np.empty((0, size))
        self._owner = np.empty(0, dtype=np.intp)

    def columns(
        self, indices: IndexArray, compute: Callable[[IndexArray], FloatArray]
    ) -> FloatArray:
        """Return columns as rows, shape (k, M); those not kept are asked of ``compute``."""
        fresh = indices[self._slot[indices] < 0]
        if fresh.size:
            self._keep(compute(fresh), fresh, indices)
        return self._kept[self._slot[indices]]

    def block(self, indices: IndexArray) -> tuple[FloatArray, IndexArray]:
        """Return G among ``indices`` as far as it is kept, and the positions it is not."""
        slots = self._slot[indices]
        old = np.flatnonzero(slots >= 0)
        G = np.empty((indices.size, indices.size))
        if old.size:
            block = self._kept[slots[old][:, None], indices]
            G[old] = block
            G[:, old] = block.T
        return G, np.flatnonzero(slots < 0)

    def _keep(self, rows: FloatArray, fresh: IndexArray, wanted: IndexArray) -> None:
        self.n_columns += fresh.size
        used = len(self._owner)
        if used + fresh.size > len(self._kept):
            # Forget columns nobody asks for now, before taking more memory.
            keep = wanted[self._slot[wanted] >= 0]
            needed = keep.size + fresh.size
            capacity = max(64, needed + min(needed, TOLERANCES.spare_cells // self.size))
            larger = np.empty((capacity, self.size))
            larger[: keep.size] = self._kept[self._slot[keep]]
            self._slot[self._owner] = -1
            self._slot[keep] = np.arange(keep.size)
            self._kept, self._owner, used = larger, keep, keep.size
        self._kept[used : used + fresh.size] = rows
        self._slot[fresh] = np.arange(used, used + fresh.size)
        self._owner = np.concatenate([self._owner, fresh])
