"""The kernel formulas, evaluated in blocks of rows that stay in the processor's cache.

Every kernel is a `Formula`: what to make of a block of rows of X (`left`), of the centers
(`right`), and how to `fill` a block of the result from the two. No temporary is larger than a
block; the exponential, not memory, is what an rbf matrix costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from sparsebayes.dictionaries._protocol import Floats, Matrix, OutOfRange, is_sparse

_CACHED = 1 << 16  # entries of a block of our own formulas: half a megabyte
_LARGEST = 1 << 20  # entries of any block, and of those of other people's kernels
FEW_INPUTS = 3  # up to here exact differences cost no more than a matrix product
SPREAD = 500.0  # |z|^2 up to which |x|^2 + |z|^2 - 2 x.z is right to 1e-12
_LOWEST = -708.0  # exp below this is subnormal, which takes ten times as long
_FLOOR = np.exp(np.full(8, _LOWEST))[0]


@dataclass(frozen=True)
class Formula:
    """A kernel with its centers: `fill(left(X_block), right, out_block)`."""

    left: Callable[[Matrix], Matrix]
    right: Matrix
    fill: Callable[[Matrix, Matrix, Floats], None]
    # K(x, z) == K(z, x), `right` can be cut into rows, and a value costs more than its copy.
    symmetric: bool = False
    cells: int = _CACHED

    def evaluate(self, X: Matrix, out: Floats, *, same: bool) -> None:
        """Fill `out` (n, M), not empty; `same` says that the rows of X are the centers."""
        n, M = out.shape
        # Matrix products want some dozen rows, more for many inputs, if the outer cache has room.
        wanted = 64 if self.right.shape[1] < 32 else 256
        step = min(n, max(self.cells // M, min(wanted, _LARGEST // M), 1))
        if same and self.symmetric:
            self._mirrored(X, out, step)
            return
        direct = out.flags.c_contiguous
        scratch = None if direct else np.empty((step, M))
        for i in range(0, n, step):
            rows = out[i : i + step]
            block = rows if scratch is None else scratch[: len(rows)]
            self.fill(self.left(X[i : i + step]), self.right, block)
            if scratch is not None:
                rows[...] = block

    def _mirrored(self, X: Matrix, out: Floats, step: int) -> None:
        # Half of the matrix is computed; a contiguous block makes its transpose cheap to write.
        n = len(out)
        scratch = np.empty(step * n)
        for i in range(0, n, step):
            stop = min(i + step, n)
            block = scratch[: (stop - i) * (n - i)].reshape(stop - i, n - i)
            self.fill(self.left(X[i:stop]), self.right[i:], block)
            out[i:stop, i:] = block
            out[i:, i:stop] = block.T


# --- shared by several kernels ---------------------------------------------------------------


def scaled(X: Matrix, scale: float | Floats) -> Matrix:
    """Columns of X, dense or CSR, times `scale`."""
    if not is_sparse(X):
        return X * scale
    X = X.copy()
    X.data = X.data * (scale if np.ndim(scale) == 0 else np.asarray(scale)[X.indices])
    return X


def squared_norms(X: Matrix) -> Floats:
    """Sums of squares of the rows, (n,)."""
    squares = X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
    return np.asarray(squares, dtype=np.float64).ravel()


def _product(left: Matrix, right: Matrix, out: Floats) -> None:
    if is_sparse(left) or is_sparse(right):
        result = left @ right.T
        out[...] = result.toarray() if is_sparse(result) else result
    else:
        np.matmul(left, right.T, out=out)


def exp_in_place(out: Floats) -> None:
    """Exponential, in place, that is zero instead of subnormal."""
    if out.min() < _LOWEST:
        np.maximum(out, _LOWEST, out=out)
        np.exp(out, out=out)
        # Exactly zero where it was cut, and nothing that double precision sees elsewhere.
        np.subtract(out, _FLOOR, out=out)
    else:
        np.exp(out, out=out)


def refuse_overflow(name: str, out: Floats) -> None:
    """Raise a ValueError where a kernel's values left the range of float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        total = out.sum()
    if not np.isfinite(total):
        raise OutOfRange(
            f"kernel {name!r} overflows on this X: scale the inputs (StandardScaler), "
            "or choose a smaller gamma or degree"
        )


# --- kernels of the distance -----------------------------------------------------------------


def minus_squared_distance(
    Z: Matrix, gamma: float | Floats, sparse: bool, finish: Callable[[Floats], None]
) -> Formula:
    """`finish` of -sum_k gamma_k (x_k - z_k)^2."""
    root = np.sqrt(gamma)
    if sparse:
        V = scaled(Z, root)
        norms = squared_norms(V)

        def fill_sparse(U: Matrix, V: Matrix, out: Floats) -> None:
            _product(U, V, out)
            np.multiply(out, 2.0, out=out)
            np.subtract(out, squared_norms(U)[:, None], out=out)
            np.subtract(out, norms, out=out)
            np.minimum(out, 0.0, out=out)
            finish(out)

        return Formula(lambda X: scaled(X, root), V, fill_sparse)

    # Distances do not change when both move, and those of inputs near the origin do not cancel.
    origin = Z.mean(axis=0)
    V = (Z - origin) * root
    norms = squared_norms(V)
    if Z.shape[1] <= FEW_INPUTS or norms.max() > SPREAD:
        one = np.ndim(gamma) == 0  # differences of the inputs as they are have no rounding at all

        def fill_exact(U: Floats, V: Floats, out: Floats) -> None:
            cdist(U, V, "sqeuclidean", out=out)
            np.multiply(out, -gamma if one else -1.0, out=out)
            finish(out)

        left = (lambda X: X) if one else (lambda X: (X - origin) * root)
        return Formula(left, Z if one else V, fill_exact, symmetric=True)

    def augmented(X: Floats) -> Floats:  # (n, d) -> (n, d + 2)
        U = np.empty((X.shape[0], X.shape[1] + 2))
        np.subtract(X, origin, out=U[:, 2:])
        U[:, 2:] *= root
        np.negative(squared_norms(U[:, 2:]), out=U[:, 0])
        U[:, 1] = 1.0
        return U

    def fill_product(U: Floats, V: Floats, out: Floats) -> None:
        np.matmul(U, V.T, out=out)
        np.minimum(out, 0.0, out=out)
        finish(out)

    right = np.column_stack((np.ones(len(V)), -norms, 2.0 * V))
    return Formula(augmented, right, fill_product, symmetric=True)


def _rbf(Z: Matrix, gamma: float | Floats, sparse: bool) -> Formula:
    return minus_squared_distance(Z, gamma, sparse, exp_in_place)


def _tps(Z: Matrix, gamma: float | Floats, sparse: bool) -> Formula:
    # Schmolck & Everson eq. 40, (d/r)^2 log(d/r) = 1/2 D log D with D = d^2/r^2, and 0 at D = 0.
    def finish(out: Floats) -> None:
        np.negative(out, out=out)
        logs = np.maximum(out, np.finfo(np.float64).tiny)
        np.log(logs, out=logs)
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(out, logs, out=out)
        np.multiply(out, 0.5, out=out)
        refuse_overflow("tps", out)

    return minus_squared_distance(Z, gamma, sparse, finish)


def minus_manhattan_distance(
    Z: Matrix, gamma: float | Floats, sparse: bool, finish: Callable[[Floats], None]
) -> Formula:
    """`finish` of -sum_k gamma_k |x_k - z_k|."""
    one = np.ndim(gamma) == 0

    def fill(U: Matrix, V: Matrix, out: Floats) -> None:
        if sparse:
            out[...] = manhattan_distances(narrow(U), V)
        else:
            cdist(U, V, "cityblock", out=out)
        np.multiply(out, -gamma if one else -1.0, out=out)
        finish(out)

    origin = 0.0 if sparse else Z.mean(axis=0)  # products near the origin keep their digits

    def left(X: Matrix) -> Matrix:
        if one:
            return X
        return scaled(X, gamma) if sparse else (X - origin) * gamma

    return Formula(left, narrow(left(Z)) if sparse else left(Z), fill, symmetric=not sparse)


def narrow(X: Matrix) -> Any:
    """CSR with the indices of 32 bits that `manhattan_distances` and `KMeans` take."""
    X = sp.csr_matrix(X)
    indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_matrix((X.data, indices, indptr), shape=X.shape)


def _laplacian(Z: Matrix, gamma: float | Floats, sparse: bool) -> Formula:
    return minus_manhattan_distance(Z, gamma, sparse, exp_in_place)


# --- kernels of the inner product ------------------------------------------------------------


def inner(
    Z: Matrix, scale: float | Floats, finish: Callable[[Floats], None], symmetric: bool = False
) -> Formula:
    """`finish` of sum_k scale_k x_k z_k."""

    def fill(U: Matrix, V: Matrix, out: Floats) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            _product(U, V, out)
            finish(out)

    plain = np.ndim(scale) == 0 and scale == 1.0
    left = (lambda X: X) if plain else (lambda X: scaled(X, scale))
    return Formula(left, Z, fill, symmetric)


def _linear(Z: Matrix) -> Formula:
    return inner(Z, 1.0, lambda out: refuse_overflow("linear", out))


def _poly(Z: Matrix, gamma: float | Floats, degree: int, coef0: float) -> Formula:
    def finish(out: Floats) -> None:
        np.add(out, coef0, out=out)
        power(out, degree)
        refuse_overflow("poly", out)

    return inner(Z, gamma, finish)


def power(out: Floats, degree: int) -> None:
    """Raise `out` to a power, in place."""
    # By squaring: np.power takes twenty times as long as a product.
    if degree == 0:
        out.fill(1.0)
        return
    base = out.copy() if degree > 2 else out
    for bit in bin(degree)[3:]:
        np.multiply(out, out, out=out)
        if bit == "1":
            np.multiply(out, base, out=out)


def _sigmoid(Z: Matrix, gamma: float | Floats, coef0: float, sparse: bool) -> Formula:
    def finish(out: Floats) -> None:
        np.add(out, coef0, out=out)
        np.tanh(out, out=out)

    return inner(Z, gamma, finish, symmetric=not sparse)


def _cosine(Z: Matrix) -> Formula:
    def unit(X: Matrix) -> Matrix:
        norms = np.sqrt(squared_norms(X))
        shrink = 1.0 / np.where(norms > 0, norms, 1.0)
        return sp.diags(shrink, format="csr") @ X if is_sparse(X) else X * shrink[:, None]

    return Formula(unit, unit(Z), _product)


# --- the linear spline -----------------------------------------------------------------------


def _lspline(Z: Matrix, gamma: float | Floats) -> Formula:
    # Schmolck & Everson eq. 38 with a = min, b = max of the two scaled inputs is
    # 1 + a b + a^2 (3 b - a) / 6, for either sign; Tipping 2001 multiplies over the inputs.
    root = np.sqrt(gamma)

    def fill(U: Floats, V: Floats, out: Floats) -> None:
        out.fill(1.0)
        low, high = np.empty_like(out), np.empty_like(out)
        with np.errstate(over="ignore", invalid="ignore"):
            for u, v in zip(U.T, V.T, strict=True):
                np.minimum(u[:, None], v, out=low)
                np.maximum(u[:, None], v, out=high)
                # ((3 b - a) a / 6 + b) a + 1
                factor = 3.0 * high
                factor -= low
                factor *= low
                factor *= 1.0 / 6.0
                factor += high
                factor *= low
                factor += 1.0
                out *= factor
        refuse_overflow("lspline", out)

    return Formula(lambda X: X * root, Z * root, fill, symmetric=True)


# --- kernels of others -----------------------------------------------------------------------


def foreign(Z: Matrix, function: Callable[[Matrix, Matrix], Any], label: str) -> Formula:
    """Wrap a function K(X, Z) -> (n, M) that is not ours, and check its results."""

    def fill(X: Matrix, Z: Matrix, out: Floats) -> None:
        result = function(X, Z)
        result = result.toarray() if is_sparse(result) else np.asarray(result)
        if result.shape != out.shape:
            raise ValueError(
                f"kernel {label} returned shape {result.shape} for {out.shape[0]} rows and "
                f"{out.shape[1]} centers; it must take two matrices and return {out.shape}"
            )
        out[...] = result
        if not np.isfinite(out).all():
            raise OutOfRange(f"kernel {label} returned NaN or infinity")

    return Formula(lambda X: X, Z, fill, cells=_LARGEST)


WITH_GAMMA = frozenset({"rbf", "laplacian", "poly", "sigmoid", "lspline", "tps"})
WITHOUT_GAMMA = frozenset({"linear", "cosine"})
DENSE_ONLY = frozenset({"lspline"})
INVERSE_DISTANCE = frozenset({"laplacian", "chi2"})  # units of gamma; else of its square


def formula(
    name: str, Z: Matrix, *, gamma: float | Floats, degree: int, coef0: float, sparse: bool
) -> Formula:
    """Make the formula of one of our named kernels; `sparse` says that X or Z is sparse."""
    match name:
        case "rbf":
            return _rbf(Z, gamma, sparse)
        case "laplacian":
            return _laplacian(Z, gamma, sparse)
        case "poly":
            return _poly(Z, gamma, degree, coef0)
        case "sigmoid":
            return _sigmoid(Z, gamma, coef0, sparse)
        case "linear":
            return _linear(Z)
        case "cosine":
            return _cosine(Z)
        case "lspline":
            return _lspline(Z, gamma)
        case "tps":
            return _tps(Z, gamma, sparse)
    raise ValueError(f"unknown kernel {name!r}")
