"""What an operator must be, and whether it is what it claims: answers in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import aslinearoperator

from sparsebayes.dictionaries._products import columns_of
from sparsebayes.dictionaries._protocol import Floats, Matrix, Positions, Products, is_sparse

_PROBES = 3
_SAMPLE = 16  # columns of which given norms are verified
_ROUNDING = 1e-8  # relative; single precision is coarser


def checked_operator(A: Any) -> Any:
    """A as a float64 array, a float64 CSR matrix or a real `LinearOperator`."""
    if isinstance(A, type):
        raise TypeError(f"A must be a linear operator, not the class {A.__name__}")
    try:
        operator = aslinearoperator(A)
    except (TypeError, ValueError, NotImplementedError):
        raise TypeError(
            "A must be an array, a scipy.sparse matrix, a LinearOperator or another object that "
            f"scipy.sparse.linalg.aslinearoperator takes, got {type(A).__name__}"
        ) from None
    if 0 in operator.shape:
        raise ValueError(f"A must have rows and columns, but its shape is {operator.shape}")
    dtype = np.dtype(np.float64 if operator.dtype is None else operator.dtype)
    if dtype.kind == "c":
        raise ValueError(
            "A must be real, but it is complex: give the real and imaginary parts of its columns, "
            "or of its rows, as columns or rows of their own"
        )
    if dtype.kind not in "biuf":
        raise TypeError(f"A must hold numbers, but its dtype is {dtype}")
    if is_sparse(A):
        return _finite(A.tocsr().astype(np.float64), "data")
    if isinstance(A, np.ndarray):
        if A.ndim != 2:
            raise ValueError(f"A must be two-dimensional, but its shape is {A.shape}")
        if np.ma.is_masked(A):
            raise ValueError("A has masked entries: fill them in")
        return _finite(np.asarray(A, dtype=np.float64), None)
    if dtype.kind == "f" and dtype.itemsize < 8:
        raise ValueError(
            f"A computes in {dtype}, too coarse to tell atoms apart: give it in float64"
        )
    try:
        operator.rmatvec(np.zeros(operator.shape[0]))
    except NotImplementedError:
        raise ValueError("A has no adjoint: a LinearOperator needs rmatvec beside matvec") from None
    except ValueError:
        pass  # said with its reason when the adjoint is verified
    return operator


def _finite(A: Any, name: str | None) -> Any:
    if not np.isfinite(A if name is None else getattr(A, name)).all():
        raise ValueError("A holds NaN or infinity")
    return A


def row_numbers(X: Matrix, n: int) -> Positions:
    """The only column of X as positions within 0..n-1."""
    if X.ndim != 2 or X.shape[1] != 1:
        raise ValueError(
            f"X must have one column, the numbers of rows of A (0 to {n - 1}), but its shape is "
            f"{X.shape}; for all rows in their order give np.arange({n})[:, None]"
        )
    given = X.toarray()[:, 0] if is_sparse(X) else np.asarray(X)[:, 0]
    wrong = ~((given >= 0) & (given < n) & (given == np.floor(given)))
    if wrong.any():
        value = given[np.argmax(wrong)]
        raise ValueError(
            f"X must hold numbers of rows of A, whole numbers from 0 to {n - 1}, but one is "
            f"{value:.10g}"
        )
    rows: Positions = given.astype(np.intp)
    return rows


def checked_norms(column_norms: ArrayLike | None, m: int) -> Floats | None:
    """Given norms as a float array."""
    if column_norms is None:
        return None
    try:
        norms = np.asarray(column_norms, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"column_norms must be numbers, got {column_norms!r}") from None
    if norms.shape != (m,):
        raise ValueError(
            f"column_norms must have one number for each of the {m} columns of A, but its shape is "
            f"{norms.shape}"
        )
    if not np.isfinite(norms).all() or (norms < 0).any():
        raise ValueError("column_norms must be finite and not negative")
    return norms


def verify_adjoint(products: Products) -> None:
    """Compare <A u, v> with <u, A'v> for random u and v."""
    n, m = products.shape
    rng = np.random.RandomState(0)
    u, v = rng.standard_normal((_PROBES, m)), rng.standard_normal((_PROBES, n))
    Au = _product(products.synthesize, u, (_PROBES, n), "A")
    Av = _product(products.analyze, v, (_PROBES, m), "the adjoint of A")
    with np.errstate(over="ignore", invalid="ignore"):
        forth, back = (Au * v).sum(axis=1), (u * Av).sum(axis=1)
        size = np.linalg.norm(Au, axis=1) * np.linalg.norm(v, axis=1)
        size += np.linalg.norm(Av, axis=1) * np.linalg.norm(u, axis=1)
    if not np.isfinite(size).all():
        return  # values near 1e300 are refused by their norms, in the units of X
    error = np.abs(forth - back)
    if (error > _ROUNDING * size).any():
        i = int(np.argmax(error))
        raise ValueError(
            "the adjoint of A (rmatvec) does not belong to A: <A u, v> = "
            f"{forth[i]:.6g} but <u, A'v> = {back[i]:.6g} for random u and v"
        )


def _product(function: Any, vectors: Floats, shape: tuple[int, int], name: str) -> Floats:
    try:
        found: Floats = function(vectors)
    except ValueError as error:
        raise ValueError(f"{name} fails when it is multiplied with vectors: {error}") from None
    if found.shape != shape:
        raise ValueError(
            f"{name} gives arrays of shape {found.shape[::-1]} where {shape[::-1]} is expected"
        )
    if not np.isfinite(found).all():
        raise ValueError(f"{name} gives NaN or infinity for finite vectors")
    return found


def verify_norms(products: Products, norms: Floats) -> None:
    """Compare some of the given norms with those of the columns."""
    m = len(norms)
    chosen = np.random.RandomState(0).permutation(m)[:_SAMPLE].astype(np.intp)
    columns = columns_of(products, chosen)
    peak = np.abs(columns).max(axis=1)
    found = np.linalg.norm(columns / np.where(peak > 0, peak, 1.0)[:, None], axis=1) * peak
    wrong = np.abs(found - norms[chosen]) > _ROUNDING * np.maximum(found, norms[chosen])
    if wrong.any():
        j = int(np.argmax(wrong))
        raise ValueError(
            f"column_norms are not those of A: column {chosen[j]} has the norm {found[j]:.6g}, "
            f"not {norms[chosen[j]]:.6g}"
        )


def verify_orthonormal(products: Products) -> None:
    """Compare A'A u with u for random u."""
    n, m = products.shape
    u = np.random.RandomState(1).standard_normal((_PROBES, m))
    error = np.inf
    if n >= m:
        error = float(np.abs(products.analyze(products.synthesize(u)) - u).max())
    if not error <= _ROUNDING * float(np.abs(u).max()):
        raise ValueError(
            "the columns of A are not orthonormal: "
            + (f"A'A u differs from u by up to {error:.2g}" if n >= m else f"{m} in {n} rows")
            + "; leave out orthonormal=True"
        )
