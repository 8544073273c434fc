"""Columns and parts of a matrix that is known by its products only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsebayes.dictionaries._protocol import Atoms, Floats, Positions, Products

BLOCK_BYTES = 2**25
"""Size of an array of rows that is made at a time."""


def products_at(atoms: Atoms, X: Any) -> Products | None:
    """Products with the atoms at the rows of X, where the atoms have them."""
    if atoms.size == 0 or not hasattr(atoms, "at"):
        return None
    products: Products = atoms.at(X)
    return products


def blocks(count: int, length: int, block_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Cut ``count`` rows of ``length`` numbers into blocks of bounded size."""
    step = max(1, block_bytes // (8 * max(length, 1)))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def is_permutation(rows: Positions, n: int) -> bool:
    """Whether every one of ``n`` rows is named once."""
    return len(rows) == n and bool((np.bincount(rows, minlength=n) == 1).all())


def columns_of(products: Products, indices: Positions, block_bytes: int = BLOCK_BYTES) -> Floats:
    """Atoms at ``indices`` as rows, (k, N): sums of which one weight is one."""
    n, m = products.shape
    columns = np.empty((len(indices), n))
    for part in blocks(len(indices), max(n, m), block_bytes):
        unit = np.zeros((part.stop - part.start, m))
        unit[np.arange(len(unit)), indices[part]] = 1.0
        columns[part] = products.synthesize(unit)
    return columns


def squares_of(products: Products, rows: Floats) -> Floats | None:
    """Products with the squares of all atoms, (k, N) to (k, M), if they are to be had."""
    if isinstance(products, SomeColumns):
        whole = squares_of(products.products, rows)
        return None if whole is None else whole[:, products.indices]
    if isinstance(products, SomeRows):
        spread = scatter(rows, products.rows, products.products.shape[0])
        return squares_of(products.products, spread)
    if not hasattr(products, "squares"):
        return None
    return np.array(products.squares(rows), dtype=np.float64)


def scatter(values: Floats, places: Positions, size: int) -> Floats:
    """Spread the columns of ``values`` over ``size`` places; those that meet are added."""
    whole = np.zeros((len(values), size))
    if np.bincount(places).max(initial=0) <= 1:
        whole[:, places] = values
        return whole
    for row, own in zip(whole, values, strict=True):
        row[:] = np.bincount(places, own, minlength=size)
    return whole


@dataclass(frozen=True, eq=False)
class SomeColumns:
    """Products with some of the atoms."""

    products: Products
    indices: Positions

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and atoms."""
        return self.products.shape[0], len(self.indices)

    def synthesize(self, weights: Floats) -> Floats:
        """Sums of atoms: (k, M) to (k, N)."""
        return self.products.synthesize(scatter(weights, self.indices, self.products.shape[1]))

    def analyze(self, rows: Floats) -> Floats:
        """Inner products with the atoms: (k, N) to (k, M)."""
        return np.ascontiguousarray(self.products.analyze(rows)[:, self.indices])

    def squared_norms(self) -> Floats | None:
        """Those of the chosen atoms."""
        known = self.products.squared_norms()
        return None if known is None else known[self.indices]


@dataclass(frozen=True, eq=False)
class SomeRows:
    """Products with the atoms at some of the rows, each as often as it is named."""

    products: Products
    rows: Positions

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and atoms."""
        return len(self.rows), self.products.shape[1]

    def synthesize(self, weights: Floats) -> Floats:
        """Sums of atoms: (k, M) to (k, N)."""
        return np.ascontiguousarray(self.products.synthesize(weights)[:, self.rows])

    def analyze(self, rows: Floats) -> Floats:
        """Inner products with the atoms: (k, N) to (k, M)."""
        return self.products.analyze(scatter(rows, self.rows, self.products.shape[0]))

    def squared_norms(self) -> None:
        """Not known: they are sums over other rows."""
        return
