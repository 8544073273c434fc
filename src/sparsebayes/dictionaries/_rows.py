"""Facts about the rows of X that kernels need: which are distinct, and how much X varies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries._protocol import Floats, Matrix, Positions, is_sparse

_CELLS = 1 << 16  # entries hashed at a time: half a megabyte


def first_occurrences(X: Matrix) -> Positions:
    """Find, in ascending order, the first of each group of equal rows (0.0 equals -0.0)."""
    keys = _row_hashes(X)
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.arange(X.shape[0], dtype=np.intp)
    order = np.argsort(keys, kind="stable")
    starts = np.concatenate(([True], keys[order[1:]] != keys[order[:-1]]))
    first = order[starts]
    twin = first[np.cumsum(starts) - 1][~starts]
    if not _rows_equal(X, order[~starts], twin):
        return _first_occurrences_exactly(X)
    return np.sort(first).astype(np.intp, copy=False)


def row_keys(X: Matrix) -> NDArray[np.uint64]:
    """Hashes of rows; the smallest ones are a random sample that no order of rows changes.

    The upper half does not depend on the order of the columns either, the lower half tells rows
    apart that have equal entries in other columns.
    """
    keys = []
    for ordered in (False, True):
        sums = _row_hashes(X, ordered)
        with np.errstate(over="ignore"):
            sums += np.uint64(0x9E3779B97F4A7C15)
        keys.append(_mixed(_mixed(sums)))
    half = np.uint64(32)
    return (keys[0] >> half << half) | (keys[1] >> half)


def _row_hashes(X: Matrix, ordered: bool = True) -> NDArray[np.uint64]:
    """Sums of mixed entries, each times a factor of its column if these are ordered."""
    n, d = X.shape
    # Odd and without pattern (splitmix64): with 1, 3, 5, 7 (a, b, b, a) would equal (b, a, a, b).
    factors = np.arange(1, d + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    factors = (_mixed(_mixed(factors)) | np.uint64(1)) if ordered else np.ones(d, np.uint64)
    if is_sparse(X):
        X = _canonical(X)
        terms = _mixed_bits(X.data) * factors[X.indices]
        total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(terms)))
        sums: NDArray[np.uint64] = total[X.indptr[1:]] - total[X.indptr[:-1]]
        return sums
    keys = np.empty(n, dtype=np.uint64)
    step = max(1, _CELLS // max(d, 1))
    for i in range(0, n, step):
        keys[i : i + step] = (_mixed_bits(X[i : i + step]) * factors).sum(axis=1)
    return keys


def _mixed_bits(values: Floats) -> NDArray[np.uint64]:
    # Doubles such as 1.0 and 2.0 differ in their top bits only, which sums would not spread.
    return _mixed((values + 0.0).view(np.uint64))


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits ^= bits >> np.uint64(32)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(29)
    return bits


def _canonical(X: Matrix) -> Matrix:
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _rows_equal(X: Matrix, rows: Positions, others: Positions) -> bool:
    if is_sparse(X):
        return bool((X[rows] != X[others]).nnz == 0)
    return bool(np.array_equal(X[rows], X[others]))


def _first_occurrences_exactly(X: Matrix) -> Positions:
    # Reached only when two different rows share a 64-bit hash.
    seen: dict[bytes, int] = {}
    if is_sparse(X):
        X = _canonical(X).copy()
        X.eliminate_zeros()
        ends = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        keys = [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in ends]
    else:
        keys = [(row + 0.0).tobytes() for row in X]
    for i, key in enumerate(keys):
        seen.setdefault(key, i)
    return np.fromiter(seen.values(), dtype=np.intp, count=len(seen))


def variance(X: Matrix, sample_weight: Floats | None) -> float | None:
    """Variance of all entries of X, each weight that many copies of its row; None if constant."""
    n, d = X.shape
    # Rounding of the mean would turn a constant into a tiny variance and gamma into 1e30.
    if X.min() == X.max():
        return None
    w = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    total = w.sum() * d
    if is_sparse(X):
        X = _canonical(X)
        weights = np.repeat(w, np.diff(X.indptr))
        mean = weights @ X.data / total
        spread = weights @ (X.data - mean) ** 2 + (total - weights.sum()) * mean**2
    else:
        mean = (w @ X).sum() / total
        spread = (w @ (X - mean) ** 2).sum()
    return float(spread / total)


def column_variances(X: Matrix, sample_weight: Floats | None) -> Floats:
    """Variance of each column of X, (d,), each weight that many copies of its row."""
    w = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if not w.all():
        X, w = X[w > 0], w[w > 0]
    share = w / w.sum()
    # As for all entries, a constant must not get a variance by rounding.
    low, high = X.min(axis=0), X.max(axis=0)
    if is_sparse(X):
        X = _canonical(X)
        low, high = low.toarray().ravel(), high.toarray().ravel()
        weights, d = np.repeat(share, np.diff(X.indptr)), X.shape[1]
        mean = np.bincount(X.indices, weights * X.data, minlength=d)
        stored = np.bincount(X.indices, weights, minlength=d)
        squares = np.bincount(X.indices, weights * (X.data - mean[X.indices]) ** 2, minlength=d)
        spread = squares + (1.0 - stored) * mean**2
    else:
        mean = share @ X
        spread = share @ (X - mean) ** 2
    # ... and what varies must not lose it by underflow.
    return np.where(low == high, 0.0, np.maximum(spread, np.finfo(np.float64).smallest_subnormal))
