"""The narrow waist: a quadratic in the weights, all that the engine ever sees.

Around the current weights a likelihood is ``const + b.w - w.H.w / 2`` with ``H = G / noise`` and
``b = g / noise``. A quadratic gives ``g``, the diagonal of ``G``, columns of ``G`` and small blocks
of it, for atoms of unit norm; no Phi, no t, no link.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf, dormqr

from sparsebayes.design import Design, Moments
from sparsebayes.low_rank import LowRankDesign
from sparsebayes.noise_priors import NoisePrior

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = [
    "COLLINEAR",
    "EPS",
    "ROOTED",
    "SUMMED",
    "CenteredQuadratic",
    "ColumnCache",
    "DesignQuadratic",
    "Gram",
    "Later",
    "LeastSquares",
    "OrthonormalQuadratic",
    "Quadratic",
    "Root",
    "Targets",
    "members",
    "most_rooted",
    "reduced",
]

COLLINEAR = 1e-8
"""A candidate with S below this fraction of diag(H) is collinear with the model in float64."""

ROOTED = 1e-10
"""The same for a root whose columns are sums of others, with the errors of these sums."""

SUMMED = 1e-11
"""Relative error of such columns."""

EPS = float(np.finfo(float).eps)
"""Rounding of float64."""

# As `ROOTED`, for columns known to the last bit: S is the square of what is left of a column,
# of an error of about eps, so that three digits of it are known where S is this small.
_TOLD = 1e-24

_ROOTED_WORK = 4e10  # N m^2 up to which the root of m atoms takes a few seconds,
_FEW_ROOTED = 256  # and atoms of any number of rows
_CHUNK_CELLS = 2**25  # entries of atoms that are held at a time: 256 megabytes
_SPARE_CELLS = 2**24  # entries of columns that are made room for in advance: 128 megabytes
_RECENT = 1024  # atoms of a block of G up to which it is remembered: 8 megabytes


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
    error: float = SUMMED

    @property
    def least(self) -> float:
        """Fraction of diag(G) below which S is rounding."""
        return ROOTED if self.error > EPS else _TOLD

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
    return max(_FEW_ROOTED, int((_ROOTED_WORK / max(n, 1)) ** 0.5))


class Later:
    """The root of some atoms, made when it is asked for first and then kept.

    Parameters
    ----------
    make : callable
        Makes the root of the atoms at given positions.
    indices : ndarray of shape (m,)
        Which atoms.
    most : int
        Atoms beyond which a root is not worth its cost, and each smaller model makes its own.
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
        """The root of some of these atoms.

        Parameters
        ----------
        own : ndarray of shape (k,)
            Which of them.

        Returns
        -------
        Later
            Taken from this root, where that is worth its cost.
        """
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
    """A quadratic held as a dense matrix: for few atoms, or as mergeable statistics.

    Examples
    --------
    >>> import numpy as np
    >>> Phi, t = np.eye(3)[:, :2], np.array([1.0, 2.0, 3.0])
    >>> gram = Gram(Phi.T @ Phi, Phi.T @ t[:, None], tt=t @ t, n=3.0, spread=0.7)
    >>> gram.size, gram.gram(np.array([1])).g
    (2, array([[2.]]))
    """

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
        return COLLINEAR if self.root is None else ROOTED

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
    few. With atoms Phi, here of unit norm and orthogonal, ``g`` is what an orthonormal transform
    makes of the targets.

    Parameters
    ----------
    g : ndarray of shape (M, T)
        Phi't.
    tt : float
        Sum of squared targets, over all targets.
    n : float
        Residual degrees of freedom of an empty model: number of samples, less one if centered.
    spread : float
        Variance of the targets about their means, summed over targets.
    log_offset : float, default=0.0
        Log evidence that depends on no parameter.
    void : ndarray of bool of shape (M,) or None, default=None
        Atoms that are none: of norm zero once they are centered. Their ``g`` must be zero.

    Examples
    --------
    >>> import numpy as np
    >>> g = np.array([[3.0], [0.1]])
    >>> quad = OrthonormalQuadratic(g, tt=10.0, n=4.0, spread=2.5)
    >>> quad.size, quad.gram(np.array([0, 1])).G
    (2, array([[1., 0.],
           [0., 1.]]))
    """

    g: FloatArray  # (M, T)
    tt: float
    n: float
    spread: float
    log_offset: float = 0.0
    void: NDArray[np.bool_] | None = None
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


class CenteredQuadratic:
    """What quadratics of Gaussian noise have in common, wherever their sums come from.

    Atoms are centered (if there is an intercept) and brought to unit norm here, so nothing
    downstream knows an atom's own scale. Columns of G are kept once computed: they are what a
    screen costs.

    Parameters
    ----------
    moments : Moments
        Means and norms of the atoms.
    targets : Targets
        Sums over the targets.
    center : bool
        Whether an intercept with a flat prior is integrated out.
    noise_prior : InverseGamma, LogGamma or None
        Prior of the noise variance: observations made before, which count with the targets.
    """

    group = 1
    collinear = COLLINEAR
    g: FloatArray  # (M, T)

    def __init__(
        self, moments: Moments, targets: "Targets", center: bool, noise_prior: NoisePrior | None
    ) -> None:
        self.mean, self.norm = moments.mean, moments.norm
        void = self.norm == 0
        with np.errstate(over="ignore"):  # of a subnormal norm, which is refused where it matters
            self._inverse_norm = np.where(void, 0.0, 1.0 / np.where(void, 1.0, self.norm))
        self.diag = np.where(void, 0.0, 1.0)
        total, n_targets = targets.total, len(targets.mean)
        self.offset = targets.mean if center else np.zeros(n_targets)
        self.tt = targets.squares
        drift = 0.0 if center else total * float(targets.mean @ targets.mean)
        self.spread = max(self.tt - drift, 0.0) / total
        self.total = total
        self.n = total - 1.0 if center else total
        # Integrating exp(-N (c - mean)^2 / (2 noise)) over the intercept c leaves N^(-1/2).
        self.log_offset = -0.5 * n_targets * float(np.log(total)) if center else 0.0
        self.before = 0.0  # of tt, what no row has
        if noise_prior is not None:
            before = noise_prior.observations(n_targets)
            self.n += before.n
            self.tt += before.tt
            self.before = before.tt
            self.log_offset += before.log_offset
        self.cache = ColumnCache(len(self.norm))
        self._recent = RecentBlock(len(self.norm))

    @property
    def size(self) -> int:
        """Number of atoms M."""
        return len(self.norm)

    @property
    def blocks(self) -> FloatArray:
        """Diagonal of G, as blocks of one."""
        return self.diag[:, None, None]

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return columns of G as rows, shape (k, M), computing only those not seen before."""
        return self.cache.columns(indices, self._compute)

    def gram(self, indices: IndexArray) -> Gram:
        """Return the quadratic of some atoms alone; whole columns of G are used where kept."""
        G, new = self.cache.block(indices)
        if new.size == indices.size:
            G = self._recent.block(indices, self._block)
        elif new.size:
            G[new[:, None], new] = self._recent.block(indices[new], self._block)
        G.flat[:: indices.size + 1] = self.diag[indices]
        known = self.tt, self.n, self.spread, self.log_offset
        return Gram(G, self.g[indices], *known, later=self._later(indices))

    def least_squares(self) -> LeastSquares | None:
        """What this is the square of, where that is known."""
        return None

    def _later(self, indices: IndexArray) -> Later | None:
        """The root of some atoms, where it can be made."""
        return None

    def _compute(self, fresh: IndexArray) -> FloatArray:
        """Columns of G as rows."""
        raise NotImplementedError

    def _block(self, indices: IndexArray) -> FloatArray:
        """G of some atoms alone."""
        raise NotImplementedError


class Targets(NamedTuple):
    """Sums over targets, weights included."""

    total: float  # of weights
    mean: FloatArray  # (T,)
    squares: float  # about the mean if there is an intercept, over all targets


class DesignQuadratic(CenteredQuadratic):
    """The quadratic of Gaussian noise, or of any weighted least squares, on a design.

    Parameters
    ----------
    design : Design
        Atoms evaluated at the data.
    t : ndarray of shape (N, T)
        Targets.
    weights : ndarray of shape (N,) or None
        Weight of each row; a weight of two equals a row given twice.
    center : bool
        Whether an intercept with a flat prior is integrated out.
    noise_prior : InverseGamma, LogGamma or None
        Prior of the noise variance: observations made before, which count with the targets.
    """

    def __init__(
        self,
        design: Design,
        t: FloatArray,
        weights: FloatArray | None = None,
        center: bool = False,
        noise_prior: NoisePrior | None = None,
    ) -> None:
        self.design = design
        self.weights = weights
        self._coordinates: Root | None = None
        total = float(design.shape[0] if weights is None else weights.sum())
        weighted = t if weights is None else t * weights[:, None]
        average = weighted.sum(axis=0) / total
        residual = t - average if center else t
        weighted = residual if weights is None else residual * weights[:, None]
        self.t = residual if weights is None else residual * np.sqrt(weights)[:, None]
        squares = float(np.einsum("ij,ij->", weighted, residual))
        moments = design.moments(weights, center)
        super().__init__(moments, Targets(total, average, squares), center, noise_prior)
        products = design.correlate(np.ascontiguousarray(weighted.T))
        products -= weighted.sum(axis=0)[:, None] * self.mean
        self.g = np.ascontiguousarray((products * self._inverse_norm).T)

    def unit_atoms(self, indices: IndexArray) -> FloatArray:
        """Centered atoms of unit norm as rows, shape (k, N)."""
        atoms = self.design.columns(indices)
        if self.mean.any():
            atoms -= self.mean[indices, None]
        atoms *= self._inverse_norm[indices, None]
        return atoms

    def least_squares(self) -> LeastSquares:
        """Atoms and targets at the rows, or in the few coordinates that the rows have."""
        if not isinstance(self.design, LowRankDesign):
            return AtRows(self)  # not kept: a cycle of references would hold the design
        if self._coordinates is None:
            self._coordinates = _of_coordinates(self, self.design)
        return self._coordinates

    def _later(self, indices: IndexArray) -> Later:
        return Later(self._root, indices, most_rooted(self.design.shape[0]))

    def _root(self, indices: IndexArray) -> Root:
        rows = self.least_squares()
        D = rows.columns(indices)
        return reduced(Root(D, rows.t, rows.rest, rows.error))

    def _compute(self, fresh: IndexArray) -> FloatArray:
        atoms = self.unit_atoms(fresh)
        if self.weights is not None:
            atoms *= self.weights
        # Phi' W (phi_j - mean_j) needs no centering of Phi: the weighted sum of the row is zero.
        rows = self.design.correlate(atoms)
        # ... but for the rounding of that sum, which a large mean would magnify.
        rows -= atoms.sum(axis=1)[:, None] * self.mean
        rows *= self._inverse_norm
        rows[np.arange(fresh.size), fresh] = self.diag[fresh]
        return rows

    def _block(self, indices: IndexArray) -> FloatArray:
        step = max(1, _CHUNK_CELLS // self.design.shape[0])
        if indices.size <= step or 2 * indices.size < self.size:
            atoms = self.unit_atoms(indices)
            weighted = atoms if self.weights is None else atoms * self.weights
            return np.asarray(weighted @ atoms.T)
        # Most atoms of few, at many rows: whole columns of G cost no more, and need not be held.
        G = np.empty((indices.size, indices.size))
        for start in range(0, indices.size, step):
            part = slice(start, start + step)
            G[part] = self._compute(indices[part])[:, indices]
        return 0.5 * (G + G.T)


@dataclass(frozen=True)
class AtRows:
    """Least squares of a design: columns are atoms at all rows, times roots of weights."""

    quad: DesignQuadratic
    error = EPS
    least = _TOLD

    @property
    def t(self) -> FloatArray:
        """Targets, (N, T)."""
        return self.quad.t

    @property
    def rest(self) -> float:
        """Squares of targets that no column reaches: those of a prior of the noise."""
        return self.quad.before

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return some columns, shape (N, k)."""
        quad = self.quad
        atoms = quad.unit_atoms(indices)
        weights = quad.weights
        if quad.mean.any():  # the rounding of a mean that is large beside what varies about it
            shares = np.full(atoms.shape[1], 1.0) if weights is None else weights
            atoms -= (atoms @ (shares / quad.total))[:, None]
        if weights is not None:
            atoms *= np.sqrt(weights)
        return np.asarray(atoms.T)

    def along(self, rows: FloatArray) -> FloatArray:
        """Products of rows, shape (k, N), with all columns, shape (k, M)."""
        quad = self.quad
        rows = rows if quad.weights is None else rows * np.sqrt(quad.weights)
        found = quad.design.correlate(np.ascontiguousarray(rows))
        if quad.mean.any():
            found -= rows.sum(axis=1)[:, None] * quad.mean
        found *= quad._inverse_norm
        return found


def _of_coordinates(quad: DesignQuadratic, design: LowRankDesign) -> Root:
    """Least squares of a design whose rows have few coordinates."""
    A = design.A.T
    ones = np.ones(len(A)) if quad.weights is None else quad.weights
    if quad.mean.any():
        A = A - (ones @ A) / quad.total
    basis, R = np.linalg.qr(A * np.sqrt(ones)[:, None])
    t = basis.T @ quad.t
    left = quad.t - basis @ t
    rest = quad.before + float(np.vdot(left, left))
    return Root((R @ design.B) * quad._inverse_norm, t, rest, EPS)


class RecentBlock:
    """The block of G asked for last: of many atoms that competed, those that are left come next.

    Parameters
    ----------
    size : int
        Number of atoms M.
    """

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
        if indices.size <= _RECENT:
            self._place[self._atoms] = -1
            self._place[indices] = np.arange(indices.size)
            self._atoms, self._G = indices.copy(), G.copy()
        return G


class ColumnCache:
    """Columns of G, kept once computed: they are what a screen costs.

    Parameters
    ----------
    size : int
        Number of atoms M.
    """

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
            capacity = max(64, needed + min(needed, _SPARE_CELLS // self.size))
            larger = np.empty((capacity, self.size))
            larger[: keep.size] = self._kept[self._slot[keep]]
            self._slot[self._owner] = -1
            self._slot[keep] = np.arange(keep.size)
            self._kept, self._owner, used = larger, keep, keep.size
        self._kept[used : used + fresh.size] = rows
        self._slot[fresh] = np.arange(used, used + fresh.size)
        self._owner = np.concatenate([self._owner, fresh])
