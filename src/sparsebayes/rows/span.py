"""Kernels that are sums of a few of them to rounding: passes over rows evaluate these alone.

Smooth kernels are numerically of low rank. Pivoted Cholesky of K(Z, Z), Z the centers, takes the
kernel that is worst explained by those before it, until none is left unexplained; then at any row
``K(x, Z) = K(x, P) T`` with ``T = K(P, P)^-1 K(P, Z)``. As pivots are chosen in this order, entries
of T are of the order of one, however ill-conditioned K(Z, Z) is. Sums over rows of products of
pivots give those of all atoms.

With K(P, P) = L L', the functions ``u(x) = L^-1 K(P, x)`` span the same, and ``K(x, Z) = u(x)'A``
with ``A = L^-1 K(P, Z)``. Turned so that they are orthonormal at some rows, they are coordinates in
which nothing is lost where weights of atoms almost cancel (`spanned_quadratic`).
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf, dtrtri

from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.rows.blocks import Block
from sparsebayes.rows.gaussian import TILE_CELLS, shifted_tiles
from sparsebayes.rows.products import ScreenSums

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Span", "find_span"]

_LEFT = 1e-14  # of the diagonal of K(Z, Z), where pivoting ends: little more than rounding
_WORTH = 0.75  # fraction of the atoms beyond which pivots do not pay
_FEW = 256  # atoms that cost little in any case
_TELL = 1.5  # rows for each of the few, at least, where coordinates are made orthonormal at them
_COPY = 1e-15  # of a column at these rows, what is left of it beside those before: rounding
_UNEVEN = 1e-10  # relative difference of K and its transpose beyond which it is no kernel
# Differences at rows, of the standard deviation of an atom: of all rows together, and of any.
_TYPICAL, _WORST = 1e-11, 1e-9


@dataclass(frozen=True)
class Span:
    """Atoms as sums of a few others, less a reference that is the same sum of theirs.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> atoms = Kernel("rbf", gamma=1.0, centers=X).bind(X)
    >>> span = find_span(atoms, X)
    >>> wrong = span.few.evaluate(X) @ span.T - atoms.evaluate(X)
    >>> span.rank < 20, bool(np.abs(wrong).max() < 1e-13)
    (True, True)
    """

    few: Atoms  # r of them
    reference: FloatArray  # (r,) about where their means are
    T: FloatArray  # (r, M)
    mix: FloatArray  # (r, r) that makes coordinates of the few
    A: FloatArray  # (r, M) the atoms in these coordinates
    given: FloatArray | None = None  # (M,) references of all atoms, where they are known
    plain: bool = False  # whether the few are the coordinates themselves, and ``mix`` the identity

    @property
    def rank(self) -> int:
        """Number of atoms that the others are sums of."""
        return len(self.T)

    @property
    def means(self) -> FloatArray:
        """References of all atoms, (M,): for some of them the same numbers, to the last bit."""
        return np.asarray(self.reference @ self.T) if self.given is None else self.given

    def restrict(self, indices: IndexArray) -> "Span | None":
        """The same for some of the atoms; None where they are too few for it to pay."""
        if self.rank > _WORTH * indices.size:
            return None
        if indices.size == self.T.shape[1]:
            return self
        return self.seen(indices)

    def seen(self, indices: IndexArray) -> "Span":
        """The same for some of the atoms, be they ever so few.

        Parameters
        ----------
        indices : ndarray of shape (m,)
            Which ones, ascending.

        Returns
        -------
        Span
            Of the same few.
        """
        if indices.size == self.T.shape[1]:
            return self  # they are ascending
        T, A = self.T[:, indices], self.A[:, indices]
        return replace(self, T=T, A=A, given=self.means[indices])

    def turned(self, X: Any) -> "Span":
        """The same in coordinates that are orthonormal at some rows.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d)
            Rows, as those are that sums will be over.

        Returns
        -------
        Span
            With the same coordinates where there are too few rows to tell.
        """
        if X.shape[0] < _TELL * self.rank:
            return self
        values = self.few.evaluate(X)
        values = values.toarray() if is_sparse(values) else values
        R = np.linalg.qr((values - self.reference) @ self.mix).R
        own, size = np.abs(R.diagonal()), np.sqrt(np.einsum("ij,ij->j", R, R))
        nothing = own <= _COPY * size  # one that is constant, or a copy of others
        R[np.diag_indices_from(R)] = np.where(nothing, np.where(size > 0, size, 1.0), R.diagonal())
        inverse, info = dtrtri(R)
        mix, A = self.mix @ np.triu(inverse), R @ self.A
        if info != 0 or not (np.isfinite(mix).all() and np.isfinite(A).all()):
            return self
        return replace(self, mix=mix, A=A)

    def products(self, sums: ScreenSums) -> ScreenSums:
        """Sums of all atoms, of those of the few; none of the products of atoms with each other."""
        T, M = self.T, self.T.shape[1]
        second = np.einsum("rm,rm->m", T, sums.columns[:, 0] @ T)[None]
        first, drawn, none = sums.first @ T, sums.drawn @ T, np.empty((0, 1, M))
        faint = np.zeros((2, M))
        return replace(sums, first=first, second=second, drawn=drawn, columns=none, faint=faint)


def find_span(atoms: Atoms, X: Any, center: bool = True) -> Span | None:
    """Look for a few atoms that all others are sums of, wherever they are evaluated.

    Parameters
    ----------
    atoms : Atoms
        Kernels, or a union with kernels in it.
    X : ndarray or CSR matrix of shape (n, d)
        A sample of the rows: here the sums are compared with the atoms.
    center : bool, default=True
        Whether means of the sample are references; else they are zero.

    Returns
    -------
    Span or None
        None where atoms are few, or not of low rank, or the sums are not the atoms.
    """
    M = atoms.size
    if M <= _FEW:
        return None
    parts = [(atoms, np.arange(M))]
    if isinstance(atoms, UnionAtoms):
        parts = list(zip(atoms.parts, atoms.columns, strict=True))
    found = [(columns, _interpolation(part) or _each(part.size)) for part, columns in parts]
    chosen = np.concatenate([columns[part.pivots] for columns, part in found])
    r = chosen.size
    if r > _WORTH * M:
        return None
    T, A, mix = np.zeros((r, M)), np.zeros((r, M)), np.zeros((r, r))
    start = 0
    for columns, part in found:
        rows = slice(start, start + part.pivots.size)
        T[rows, columns], A[rows, columns], mix[rows, rows] = part.T, part.A, part.mix
        start = rows.stop
    span = _checked(Span(atoms.restrict(chosen), np.zeros(r), T, mix, A), atoms, X)
    return span if span is None or center else replace(span, reference=np.zeros(r))


class _Interpolation(NamedTuple):
    """Some kernels in terms of a few of them, as in `Span`."""

    pivots: IndexArray
    T: FloatArray
    mix: FloatArray
    A: FloatArray


def _each(size: int) -> _Interpolation:
    """Atoms that are no sums of others."""
    same = np.eye(size)
    return _Interpolation(np.arange(size), same, same, same)


def _interpolation(atoms: Atoms) -> _Interpolation | None:
    """Pivots among kernels, and sums of them; None where K(Z, Z) is no matrix of a kernel."""
    if not isinstance(atoms, KernelAtoms):
        return None
    K = np.asarray(atoms.evaluate(atoms.centers))
    own = K.diagonal()
    if not (np.isfinite(K).all() and (own > 0).all()):
        return None
    scale = np.sqrt(own)
    A = np.asfortranarray(K / scale)
    A /= scale[:, None]
    if np.abs(A - A.T).max(initial=0.0) > _UNEVEN:
        return None
    A, order, rank, _ = dpstrf(A, tol=_LEFT, lower=1, overwrite_a=True)
    L, order = np.tril(A[:, :rank]), order - 1
    T = np.empty((rank, len(K)))
    T[:, order[:rank]] = np.eye(rank)
    T[:, order[rank:]] = solve_triangular(L[:rank], L[rank:].T, trans="T", lower=True)
    T *= scale
    pivots = np.asarray(order[:rank], dtype=np.intp)
    T /= scale[pivots, None]
    coordinates = np.empty_like(T)
    coordinates[:, order] = L.T
    mix = solve_triangular(L[:rank], np.diag(1.0 / scale[pivots]), lower=True).T
    return _Interpolation(pivots, T, mix, coordinates * scale)


def _checked(span: Span, atoms: Atoms, X: Any) -> Span | None:
    """The span, with means of the sample as references, if its sums are the atoms there."""
    block = Block(X, np.empty(0), None, 0, "sample")
    M, r, n = atoms.size, span.rank, block.n
    first, second, wrong, worst, few = (np.zeros(k) for k in (M, M, M, M, r))
    step = max(1, TILE_CELLS // M)
    whole = shifted_tiles(atoms, np.zeros(M), block, step * M)
    for (_, phi), (_, own) in zip(
        whole, shifted_tiles(span.few, np.zeros(r), block, step * r), strict=True
    ):
        few += own.sum(axis=0)
        first += phi.sum(axis=0)
        second += np.einsum("nm,nm->m", phi, phi)
        phi -= own @ span.T
        wrong += np.einsum("nm,nm->m", phi, phi)
        np.maximum(worst, np.abs(phi).max(axis=0), out=worst)
    variance = second / n - (first / n) ** 2
    if not np.isfinite(wrong).all() or (wrong > n * _TYPICAL**2 * variance).any():
        return None
    if (worst > _WORST * np.sqrt(np.maximum(variance, 0.0))).any():
        return None
    return replace(span, reference=few / n)
