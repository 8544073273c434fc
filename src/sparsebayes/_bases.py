"""What a signal may be sparse in: wavelets, dictionaries and matrices, as products with atoms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._sensing_forms import checked_shape
from sparsebayes._wavelet_transforms import Transform, names
from sparsebayes.dictionaries._operator_checks import checked_operator, verify_adjoint
from sparsebayes.dictionaries._products import products_at
from sparsebayes.dictionaries._protocol import Products, is_dictionary, is_sparse
from sparsebayes.dictionaries.operators import Operator, OperatorProducts
from sparsebayes.dictionaries.wavelets import WaveletProducts

FloatArray = NDArray[np.float64]

__all__ = ["known_shape", "products_of"]


def known_shape(shape: Any, sensing: Any, basis: Any) -> tuple[int, ...] | None:
    """Shape of the signal as far as it is given; the rows of a matrix as basis tell its length.

    Parameters
    ----------
    shape : int, tuple of ints or None
        As given.
    sensing : object
        As given: indices of samples do not tell how many there are.
    basis : object
        As given.

    Returns
    -------
    tuple of ints or None
        None where only the sensing can tell.

    Examples
    --------
    >>> import numpy as np
    >>> known_shape(8, None, "haar"), known_shape(None, np.array([1, 2]), np.eye(5))
    ((8,), (5,))
    """
    if shape is not None:
        return checked_shape(shape)
    if isinstance(basis, Transform):
        return basis.shape
    indices = isinstance(sensing, list | np.ndarray) and np.ndim(sensing) == 1
    stored = isinstance(basis, np.ndarray) or is_sparse(basis) or hasattr(basis, "matvec")
    if indices and np.asarray(sensing).dtype.kind in "iu" and stored and np.ndim(basis) in (0, 2):
        return (int(basis.shape[0]),)
    return None


def products_of(
    basis: Any, shape: tuple[int, ...], level: Any, rng: np.random.RandomState
) -> Products:
    """Products with the atoms of a basis at all samples.

    Parameters
    ----------
    basis : str, Transform, dictionary, matrix or LinearOperator
        As `reconstruct` takes it.
    shape : tuple of ints
        Of the signal.
    level : int or None
        Of a wavelet given by its name.
    rng : RandomState
        For dictionaries with k-means centers.

    Returns
    -------
    Products
        Of samples by atoms.

    Examples
    --------
    >>> import numpy as np
    >>> products_of("haar", (4,), None, np.random.RandomState(0)).shape
    (4, 4)
    """
    n = math.prod(shape)
    if level is not None and not (isinstance(basis, str) and basis.lower() in names()):
        raise ValueError("level is for a wavelet given by its name.")
    if isinstance(basis, str):
        if basis.lower() == "identity":
            return _Identity(n)
        if basis.lower() not in names():
            raise ValueError(
                f"basis must be 'identity', the name of a discrete wavelet such as 'haar', a "
                f"dictionary or a matrix, got {basis!r}."
            )
        return WaveletProducts(Transform(basis, shape, level), np.arange(n))
    if isinstance(basis, Transform):
        if basis.shape != shape:
            raise ValueError(f"basis is of signals of shape {basis.shape}, the signal of {shape}.")
        return WaveletProducts(basis, np.arange(n))
    if is_dictionary(basis):
        # Rows of a matrix are samples, pixels row by row.
        axes = (n,) if isinstance(basis, Operator) else shape
        X = np.indices(axes, dtype=np.float64).reshape(len(axes), -1).T.copy()
        atoms = basis.bind(X, random_state=rng)
        products = products_at(atoms, X)
        if products is not None:
            return products
        if atoms.size == 0:
            raise ValueError("basis has no atoms on the samples of the signal.")
        return OperatorProducts(atoms.evaluate(X))
    try:
        matrix = checked_operator(np.asarray(basis) if isinstance(basis, list) else basis)
    except (TypeError, ValueError) as error:
        raise type(error)(
            "basis must be the name of a wavelet, 'identity', a dictionary, a matrix or a "
            f"LinearOperator: {str(error).replace('A ', 'it ', 1)}."
        ) from None
    products = OperatorProducts(matrix)
    if products.shape[0] != n:
        raise ValueError(
            f"basis has {products.shape[0]} rows, one for each sample, but the signal has {n}."
        )
    verify_adjoint(products)
    return products


@dataclass(frozen=True, eq=False)
class _Identity:
    """The samples themselves."""

    n: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.n

    def synthesize(self, weights: FloatArray) -> FloatArray:
        return weights

    def analyze(self, rows: FloatArray) -> FloatArray:
        return rows

    def squares(self, rows: FloatArray) -> FloatArray:
        return rows

    def squared_norms(self) -> FloatArray:
        return np.ones(self.n)
