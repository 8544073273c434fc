"""Quadratics of a likelihood around a place: its expansion to second order in K latent functions.

A column is an atom in one latent function: ``phi_a(x) e_k``, numbered ``a K + k``. With B_n the
curvature of the likelihood at sample n, ``G_ij = sum_n c_i(x_n)' B_n c_j(x_n)``. Intercepts with a
flat prior are projected out: ``c_i(x) = phi_a(x) e_k - mu_i``, ``mu_i = C^+ sum_n B_n e_k phi_a``,
``C = sum_n B_n``; C is singular where the likelihood does not change with a shift of all latents.

The place need be no mode: there ``l(f) + slope (f' - f) - (f' - f)'B(f' - f)/2`` is what the
likelihood looks like.
"""

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.intercepts import Intercepts
from sparsebayes.core.quadratic import Columns, Facts, InnerProducts, LazyQuadratic
from sparsebayes.core.roots import rooted
from sparsebayes.core.sums import Known, Rooted
from sparsebayes.core.tolerances import TOLERANCES
from sparsebayes.mode_search import Normal, Place

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
P = TypeVar("P", bound=InnerProducts)

__all__ = [
    "ActiveColumns",
    "Projected",
    "active_quadratic",
    "expanded",
    "in_coordinates",
    "projected",
    "total_pull",
    "value_at",
]


class Projected(NamedTuple):
    """Sums over samples, intercepts projected out, for M atoms and K latent functions."""

    tilt: FloatArray  # (M, K, K) what intercepts take off columns besides the means of atoms
    squares: FloatArray  # (M, K, K) products of the columns of each atom; else only the diagonal
    drawn: FloatArray  # (M, K) products with the pull


def projected(
    intercepts: Intercepts,
    cross: FloatArray,  # (M, K, K) sums of B (phi - mean)
    squares: FloatArray,  # (M, K, K) sums of B (phi - mean)^2
    drawn: FloatArray,  # (M, K) sums of (phi - mean) times the pull
    total: FloatArray,  # (K,) sums of the pull
) -> Projected:
    """Project the intercepts out of sums about the means of atoms."""
    tilt = cross @ intercepts.covariance
    if tilt.any():
        left = squares - tilt @ cross.transpose(0, 2, 1)
        own, before = (each.diagonal(axis1=1, axis2=2) for each in (left, squares))
        k = np.arange(len(total))
        left[:, k, k] = np.where(own > TOLERANCES.rounding * before, own, 0.0)
        squares = left
    return Projected(tilt, squares, drawn - tilt @ total)


def expanded(
    products: P,
    intercepts: Intercepts,
    mean: FloatArray,  # (M,) of atoms
    sums: Projected,
    total: FloatArray,  # (K,) sums of the pull
    shared: bool,
    value: float,
) -> LazyQuadratic[P]:
    """The quadratic; ``value`` is what depends on no weight, at intercepts of zero.

    Where the K columns of an atom share their variance (``shared``) they share their scale.
    """
    own = sums.squares.diagonal(axis1=1, axis2=2)  # (M, K)
    present = own != 0
    if not ((own >= TOLERANCES.smallest) & (own <= TOLERANCES.largest) | ~present).all():
        raise ValueError(
            "the atoms have values whose squares leave the range of float64: give X in other units."
        )
    scale = np.sqrt(own.mean(axis=1, keepdims=True) if shared else own)
    norm = np.broadcast_to(scale, own.shape).ravel()
    drawn, covariance = sums.drawn.reshape(-1, 1), intercepts.covariance
    squares = sums.squares if shared else None
    log_offset = value + 0.5 * float(total @ covariance @ total) + intercepts.log_volume
    return LazyQuadratic(
        products,
        Columns(mean, norm, drawn, covariance @ total, sums.tilt, squares),
        Facts(0.0, 0.0, 1.0, log_offset),
        intercepts,
    )


def total_pull(normal: Normal, place: Place, C: FloatArray) -> FloatArray:
    """Sum of B f + slope over samples, (K,); C is the sum of B."""
    z, c = place
    return normal.pull + normal.cross.T @ z + C @ c


def value_at(normal: Normal, place: Place, value: float, total: FloatArray) -> float:
    """The expansion where all weights and intercepts are zero; ``value`` is l(f) at the place."""
    z, c = place
    met = z @ normal.gradient + c @ normal.pull  # slope f
    bent = z @ (normal.gram @ z) + c @ (total - normal.pull + normal.cross.T @ z)  # f'B f
    return float(value - met - 0.5 * bent)


class ActiveColumns(NamedTuple):
    """The columns that sums were made of: ``scale`` (phi - mean), whitened or not."""

    columns: IndexArray  # (m,) of ``a K + k``
    scale: FloatArray  # (m,)
    mean: FloatArray  # (m,)
    n_atoms: int  # that are counted, active or not


def active_quadratic(
    active: ActiveColumns, normal: Normal, place: Place, value: float, center: bool, shared: bool
) -> LazyQuadratic[Known]:
    """The quadratic of active columns, from sums that Newton's method has made; others are void.

    ``value`` is the log likelihood at the place: weights of the scaled columns, and intercepts.
    """
    (z, c), (gradient, _, gram, D, curvature, _) = place, normal
    intercepts = Intercepts(curvature, center)
    M, K, columns, inverse = active.n_atoms, len(c), active.columns, 1.0 / active.scale
    mean, cross, drawn = np.zeros(M), np.zeros((M, K, K)), np.zeros((M, K))
    mean[columns // K] = active.mean
    cross.reshape(-1, K)[columns] = D * inverse[:, None]
    drawn.reshape(-1)[columns] = (gradient + gram @ z + D @ c) * inverse
    squares = np.zeros((M * K, K))
    one, two = np.nonzero(columns[:, None] // K == columns // K)
    squares[columns[one], columns[two] % K] = gram[one, two] * (inverse[one] * inverse[two])
    total = total_pull(normal, place, intercepts.C)
    sums = projected(intercepts, cross, squares.reshape(M, K, K), drawn, total)
    scale, rows = np.zeros(M * K), np.zeros(M * K, dtype=np.intp)
    scale[columns], rows[columns] = inverse, np.arange(columns.size)
    known = Known(gram - D @ intercepts.covariance @ D.T, scale, rows=rows)
    value = value_at(normal, place, value, total)
    return expanded(known, intercepts, mean, sums, total, shared, value)


def in_coordinates(
    normal: Normal,  # sums of all columns of q coordinates
    place: Place,  # weights of these, and intercepts
    value: float,
    A: FloatArray,  # (q, M) atoms less their references; zero for those that are void
    reference: FloatArray,  # (M,)
    center: bool,
    shared: bool,
    n: int,  # about how many samples there are
    clip: bool = False,
    seen: Any = None,
) -> LazyQuadratic[Rooted]:
    """The quadratic of atoms that are sums of a few which are not collinear.

    Directions of negative curvature, of rounding or of a sample that stands for all samples, are
    left out with ``clip``; else they raise `Breakdown`.
    """
    (theta, c), (q, M) = place, A.shape
    K = len(c)
    intercepts = Intercepts(normal.curvature, center)
    C, covariance = intercepts.C, intercepts.covariance
    total = total_pull(normal, place, C)
    drawn = normal.gradient + normal.gram @ theta + normal.cross @ c
    left = normal.gram - normal.cross @ covariance @ normal.cross.T
    F, t = rooted(left, drawn - normal.cross @ (covariance @ total), clip)
    products = Rooted(F, t[:, None], A, K, seen)
    cross = np.tensordot(A, normal.cross.reshape(q, K, K), (0, 0))
    raw = np.empty((M, K))  # sums of B phi^2 for atoms as given
    for k in range(K):
        raw[:, k] = np.einsum("qm,qm->m", A, normal.gram[k::K, k::K] @ A)
        raw[:, k] += reference * (2.0 * cross[:, k, k] + reference * C[k, k])
    shift = np.zeros(M)
    if center:
        shift = np.einsum("akk->a", cross) / max(float(C.trace()), TOLERANCES.no_curvature)
    off = cross - shift[:, None, None] * C
    if K == 1 and center:
        off = np.zeros_like(cross)  # but for rounding
    squares = products.squares(shared)
    constant = (np.einsum("akk->ak", squares) <= TOLERANCES.constant * n * raw).all(axis=1) & center
    squares, off = (np.where(constant[:, None, None], 0.0, sums) for sums in (squares, off))
    pulled = np.stack([A.T @ (F[:, k::K].T @ t) for k in range(K)], axis=1)
    sums = Projected(off @ covariance, squares, pulled)
    value = value_at(normal, place, value, total)
    return expanded(products, intercepts, reference + shift, sums, total, shared, value)
