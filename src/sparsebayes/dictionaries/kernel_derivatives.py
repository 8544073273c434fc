"""Derivatives of our kernels in the logarithms of their widths, contracted with a matrix.

A kernel is a function of ``s = sum_k gamma_k a_k(x, z)``, where a_k is minus a squared or absolute
difference, or a product, of input k; so dK / d log gamma_k = K'(s) gamma_k a_k. Summed over
samples and centers with a matrix D, one width needs one number per pair, and one width per input a
matrix product (Tipping 2001, appendix C). The linear spline is a product over inputs instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from sparsebayes.dictionaries._protocol import Floats, Matrix, is_sparse
from sparsebayes.dictionaries.kernel_functions import (
    FEW_INPUTS,
    SPREAD,
    Formula,
    exp_in_place,
    inner,
    minus_manhattan_distance,
    minus_squared_distance,
    power,
    refuse_overflow,
    squared_norms,
)

_CELLS = 1 << 17  # entries of a block of rows: a megabyte

# From a block of rows X (n, d) and A (n, M) to sums over pairs of A a_k, (d,).
Contraction: TypeAlias = Callable[[Matrix, Floats], Floats]


def pull_widths(
    name: str,
    X: Matrix,
    D: Floats,
    Z: Matrix,
    *,
    gamma: float | Floats,
    degree: int,
    coef0: float,
) -> Floats:
    """Sum D[n, m] dK(x_n, z_m) / d log gamma over pairs, for one of our named kernels.

    Parameters
    ----------
    name : str
        A kernel with a gamma.
    X : float64 array or CSR matrix of shape (n, d)
        Rows.
    D : array of shape (n, M)
        Derivative of some number in the values of the kernel.
    Z : float64 array or CSR matrix of shape (M, d)
        Centers.
    gamma : float or array of shape (d,)
        One width, or one for each input.
    degree : int
        Degree of "poly".
    coef0 : float
        Constant of "poly" and "sigmoid".

    Returns
    -------
    ndarray of shape (1,) or (d,)
        Derivatives of that number in log gamma.

    Examples
    --------
    >>> import numpy as np
    >>> X, Z = np.array([[0.0], [2.0]]), np.array([[1.0]])
    >>> pull_widths("rbf", X, np.ones((2, 1)), Z, gamma=0.5, degree=3, coef0=0.0).round(3)
    array([-0.607])
    """
    if name == "lspline":
        return _pull_lspline(X, D, Z, gamma)
    one = np.ndim(gamma) == 0
    slope = _slope(name, degree, coef0)

    def finish(s: Floats) -> None:
        if one:
            s *= slope(s)
        else:
            s[...] = slope(s)

    sparse = is_sparse(X) or is_sparse(Z)
    formula, contract = _argument(name, Z, gamma, sparse, finish)
    total = np.zeros(1 if one else Z.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in row_blocks(X.shape[0], Z.shape[0]):
            block = X[rows]
            A = np.empty(D[rows].shape)
            formula.fill(formula.left(block), formula.right, A)
            A *= D[rows]
            total += A.sum() if one else contract(block, A)
        if not one:
            total *= gamma
    refuse_overflow(name, total)
    return total


def row_blocks(n: int, M: int) -> Iterator[slice]:
    """Slices of n rows, of which M values each make a block."""
    step = max(_CELLS // max(M, 1), 16)
    return (slice(i, i + step) for i in range(0, n, step))


def _slope(name: str, degree: int, coef0: float) -> Callable[[Floats], Floats]:
    """K'(s), for kernels that are a function of one s."""
    match name:
        case "rbf" | "laplacian":
            return _exp
        case "tps":
            return _tps_slope
        case "poly":
            return lambda s: _poly_slope(s, degree, coef0)
        case "sigmoid":
            return lambda s: 1.0 - np.tanh(s + coef0) ** 2
    raise ValueError(f"kernel {name!r} has no width to learn")


def _exp(s: Floats) -> Floats:
    value = s.copy()
    exp_in_place(value)
    return value


def _tps_slope(s: Floats) -> Floats:
    # K = D log(D) / 2 with D = -s; where D = 0 it is multiplied by zero, so any number will do.
    distance = np.where(s < 0, -s, 1.0)
    return np.asarray(-0.5 * (np.log(distance) + 1.0))


def _poly_slope(s: Floats, degree: int, coef0: float) -> Floats:
    value = s + coef0
    power(value, max(degree - 1, 0))
    return value * degree


def _argument(
    name: str, Z: Matrix, gamma: float | Floats, sparse: bool, finish: Callable[[Floats], None]
) -> tuple[Formula, Contraction]:
    """`finish` of s, and how its matrix is contracted with a_k."""
    if name in ("poly", "sigmoid"):
        return inner(Z, gamma, finish), lambda X, A: _products(X, A, Z)
    if name == "laplacian":
        formula = minus_manhattan_distance(Z, gamma, sparse, finish)
        return formula, lambda X, A: -_each_input(X, A, Z, np.abs)
    squares = contract_squares(Z, gamma)
    return minus_squared_distance(Z, gamma, sparse, finish), lambda X, A: -squares(X, A)


def contract_squares(Z: Matrix, gamma: float | Floats) -> Contraction:
    """How to sum A (x_k - z_k)^2 over pairs; `gamma` tells how far apart centers are."""
    if is_sparse(Z):
        return lambda X, A: _squares(X, A, Z)
    origin = Z.mean(axis=0)
    centered = Z - origin
    exact = Z.shape[1] <= FEW_INPUTS or squared_norms(centered * np.sqrt(gamma)).max() > SPREAD

    def contract(X: Matrix, A: Floats) -> Floats:
        if exact:  # far from the origin, or nearly for free: differences that do not cancel
            return _each_input(X, A, Z, np.square)
        return _squares(X, A, Z) if is_sparse(X) else _squares(X - origin, A, centered)

    return contract


def _products(X: Matrix, A: Floats, Z: Matrix) -> Floats:
    """Sums of A x_k z_k."""
    pulled = X.T @ A  # (d, M)
    sums = Z.T.multiply(pulled).sum(axis=1) if is_sparse(Z) else np.einsum("km,mk->k", pulled, Z)
    return np.asarray(sums, dtype=np.float64).ravel()


def _squares(X: Matrix, A: Floats, Z: Matrix) -> Floats:
    """Sums of A (x_k - z_k)^2."""
    own = _squared(X).T @ A.sum(axis=1) + _squared(Z).T @ A.sum(axis=0)
    return np.asarray(own - 2.0 * _products(X, A, Z))


def _squared(X: Matrix) -> Matrix:
    return X.multiply(X) if is_sparse(X) else X * X


def _each_input(X: Matrix, A: Floats, Z: Matrix, size: Callable[[Floats], Floats]) -> Floats:
    """Sums of A size(x_k - z_k), one input after the other."""
    sums = np.empty(Z.shape[1])
    for k in range(len(sums)):
        x, z = _column(X, k), _column(Z, k)
        sums[k] = np.vdot(A, size(x[:, None] - z))
    return sums


def _column(X: Matrix, k: int) -> Floats:
    return np.asarray(X[:, [k]].toarray()[:, 0] if is_sparse(X) else X[:, k])


def _pull_lspline(X: Floats, D: Floats, Z: Floats, gamma: float | Floats) -> Floats:
    """The factor of an input is f = 1 + a b + c, c = a^2 (3 b - a) / 6, of inputs / r.

    Of these a b is proportional to gamma and c to its power 3/2, so d f / d log gamma is
    a b + 3/2 c. Products over the other inputs are from both ends: a factor may be zero.
    """
    root = np.broadcast_to(np.sqrt(gamma), Z.shape[1:])
    V, d = Z * root, Z.shape[1]
    total = np.zeros(d)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in row_blocks(X.shape[0], d * Z.shape[0]):
            U = X[rows] * root
            before = [np.asarray(D[rows], dtype=np.float64)]
            slopes, factors = [], []
            for k in range(d):
                low, high = np.minimum(U[:, k, None], V[:, k]), np.maximum(U[:, k, None], V[:, k])
                product, cubic = low * high, low * low * (3.0 * high - low) / 6.0
                factors.append(1.0 + product + cubic)
                slopes.append(product + 1.5 * cubic)
                before.append(before[-1] * factors[-1])
            after = np.ones_like(before[0])
            for k in reversed(range(d)):
                total[k] += np.vdot(before[k], slopes[k] * after)
                after *= factors[k]
    refuse_overflow("lspline", total)
    return total if np.ndim(gamma) else np.array([total.sum()])
