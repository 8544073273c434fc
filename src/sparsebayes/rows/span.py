"""Kernels that are sums of a few of them to rounding: passes over rows evaluate these alone.

Smooth kernels are numerically of low rank. Pivoted Cholesky of K(Z, Z), Z the centers, takes the
kernel that is worst explained by those before it, until none is left unexplained; then at any row
``K(x, Z) = K(x, P) T`` with ``T = K(P, P)^-1 K(P, Z)``. As pivots are chosen in this order, entries
of T are of the order of one, however ill-conditioned K(Z, Z) is. Sums over rows of products of
pivots give those of all atoms.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from sparsebayes.dictionaries import Atoms
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.union import UnionAtoms
from sparsebayes.rows.blocks import Block
from sparsebayes.rows.gaussian import TILE_CELLS, ProductSums, shifted_tiles

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Span", "find_span"]

_LEFT = 1e-14  # of the diagonal of K(Z, Z), where pivoting ends: little more than rounding
_WORTH = 0.75  # fraction of the atoms beyond which pivots do not pay
_FEW = 256  # atoms that cost little in any case
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
    given: FloatArray | None = None  # (M,) references of all atoms, where they are known

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
        return replace(self, T=self.T[:, indices], given=self.means[indices])

    def between(
        self, gram: FloatArray, one: IndexArray, two: IndexArray | None = None, K: int = 1
    ) -> FloatArray:
        """Products of some columns with others, of those of the few with each other.

        Parameters
        ----------
        gram : ndarray of shape (r K, r K)
            Of the few, in K latent functions each.
        one : ndarray of shape (p,)
            Columns: an atom in one of K latent functions, numbered ``a K + k``.
        two : ndarray of shape (q,) or None, default=None
            Others; None for the same, and a symmetric result.
        K : int, default=1
            Latent functions.

        Returns
        -------
        ndarray of shape (p, q)
            The products.
        """
        r = self.rank
        same, two = two is None, one if two is None else two
        by_latent = gram.reshape(r, K, r * K)
        left = np.empty((one.size, r * K))
        for k in range(K):
            mine = np.flatnonzero(one % K == k)
            left[mine] = self.T[:, one[mine] // K].T @ by_latent[:, k]
        found = np.empty((one.size, two.size))
        for k in range(K):
            mine = np.flatnonzero(two % K == k)
            found[:, mine] = left[:, k::K] @ self.T[:, two[mine] // K]
        return 0.5 * (found + found.T) if same else found

    def squares(self, gram: FloatArray, K: int = 1, pairs: bool = True) -> FloatArray:
        """Products of the K columns of each atom with each other.

        Parameters
        ----------
        gram : ndarray of shape (r K, r K)
            Of the few, in K latent functions each.
        K : int, default=1
            Latent functions.
        pairs : bool, default=True
            Whether products of different latent functions are wanted too; else they are zero.

        Returns
        -------
        ndarray of shape (M, K, K)
            The products.
        """
        T = self.T
        found = np.zeros((T.shape[1], K, K))
        for k in range(K):
            for other in range(k, K if pairs else k + 1):
                products = np.einsum("rm,rm->m", T, gram[k::K, other::K] @ T)
                found[:, k, other] = found[:, other, k] = products
        return found

    def products(self, sums: ProductSums, chosen: IndexArray) -> ProductSums:
        """Sums of all atoms, of those of the few with each other.

        Parameters
        ----------
        sums : ProductSums
            Of the few, less their references; all products with each other.
        chosen : ndarray of shape (k,)
            Atoms whose products with all others are wanted.

        Returns
        -------
        ProductSums
            The same of all atoms.
        """
        gram, T, every = sums.columns, self.T, np.arange(self.T.shape[1])
        if np.array_equal(chosen, every):
            columns = self.between(gram, every)
            second = columns.diagonal().copy()
        else:
            columns, second = self.between(gram, chosen, every), self.squares(gram)[:, 0, 0]
        return replace(
            sums, first=sums.first @ T, second=second, drawn=sums.drawn @ T, columns=columns
        )


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
    pivots, blocks = list[IndexArray](), list[tuple[IndexArray, FloatArray]]()
    for part, columns in parts:
        found = _interpolation(part) if isinstance(part, KernelAtoms) else None
        own, T = found or (np.arange(part.size), np.eye(part.size))
        pivots.append(columns[own])
        blocks.append((columns, T))
    chosen = np.concatenate(pivots)
    if chosen.size > _WORTH * M:
        return None
    whole, start = np.zeros((chosen.size, M)), 0
    for columns, T in blocks:
        whole[start : start + len(T), columns] = T
        start += len(T)
    span = _checked(Span(atoms.restrict(chosen), np.zeros(chosen.size), whole), atoms, X)
    return span if span is None or center else replace(span, reference=np.zeros(chosen.size))


def _interpolation(atoms: KernelAtoms) -> tuple[IndexArray, FloatArray] | None:
    """Pivots among kernels, and T; None where K(Z, Z) is no matrix of a kernel."""
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
    T /= scale[order[:rank], None]
    return np.asarray(order[:rank], dtype=np.intp), T


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
