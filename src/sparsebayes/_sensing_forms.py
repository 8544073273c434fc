"""What measures a signal, in all the forms that a user may give it."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes.dictionaries._operator_checks import checked_operator, verify_adjoint
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries.operators import OperatorProducts

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Matrix", "Picks", "Sensing", "check_shape", "checked_sensing", "checked_shape", "real"]


@runtime_checkable
class Sensing(Protocol):
    """What turns a signal into measurements; objects of your own need these four."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the signal: one number, or two for an image."""
        ...

    @property
    def n_measurements(self) -> int:
        """Number of measurements n."""
        ...

    def measure(self, signal: FloatArray) -> FloatArray:
        """Measure a signal, `shape` to (n,), or several, `(k, *shape)` to (k, n)."""
        ...

    def adjoint(self, measurements: FloatArray) -> FloatArray:
        """Transpose of `measure`: (n,) to `shape`, or (k, n) to `(k, *shape)`."""
        ...


@dataclass(frozen=True, eq=False)
class Picks:
    """Some samples of a signal themselves, each as often as it is named."""

    shape: tuple[int, ...]
    places: IndexArray  # of the signal in one row

    @property
    def n_measurements(self) -> int:
        """Number of measurements."""
        return len(self.places)

    def measure(self, signal: FloatArray) -> FloatArray:
        """(*shape) to (n,), or (k, *shape) to (k, n)."""
        lead = signal.shape[: signal.ndim - len(self.shape)]
        return signal.reshape(*lead, -1)[..., self.places]

    def adjoint(self, measurements: FloatArray) -> FloatArray:
        """(n,) to `shape`, or (k, n) to `(k, *shape)`."""
        lead, n = measurements.shape[:-1], math.prod(self.shape)
        many = measurements.reshape(-1, len(self.places))
        if (np.diff(self.places) > 0).all():
            spread = np.zeros((len(many), n))
            spread[:, self.places] = many
        else:
            spread = np.stack([np.bincount(self.places, row, minlength=n) for row in many])
        return spread.reshape(*lead, *self.shape)


@dataclass(frozen=True, eq=False)
class Matrix:
    """Any matrix or linear operator, (n, N)."""

    shape: tuple[int, ...]
    products: OperatorProducts

    @property
    def n_measurements(self) -> int:
        """Number of measurements."""
        return self.products.shape[0]

    def measure(self, signal: FloatArray) -> FloatArray:
        """(*shape) to (n,), or (k, *shape) to (k, n)."""
        lead = signal.shape[: signal.ndim - len(self.shape)]
        many = signal.reshape(-1, self.products.shape[1])
        return self.products.synthesize(many).reshape(*lead, -1)

    def adjoint(self, measurements: FloatArray) -> FloatArray:
        """(n,) to `shape`, or (k, n) to `(k, *shape)`."""
        lead = measurements.shape[:-1]
        many = measurements.reshape(-1, self.products.shape[0])
        return self.products.analyze(many).reshape(*lead, *self.shape)


def checked_sensing(sensing: Any, shape: tuple[int, ...] | None) -> Sensing:
    """Turn whatever measures into an object that does; errors name what does not fit.

    Parameters
    ----------
    sensing : Sensing, array, sparse matrix, LinearOperator or tuple of arrays
        As `reconstruct` takes it.
    shape : tuple of ints or None
        Of the signal, where it is known.

    Returns
    -------
    Sensing
        Measures signals of one shape.

    Examples
    --------
    >>> import numpy as np
    >>> checked_sensing(np.array([True, False, True]), None).measure(np.array([5.0, 6.0, 7.0]))
    array([5., 7.])
    """
    if isinstance(sensing, type):
        raise TypeError(f"sensing must be an object, not the class {sensing.__name__}.")
    if isinstance(sensing, tuple):
        return _picked_at(sensing, shape)
    if not isinstance(sensing, np.ndarray | list) and isinstance(sensing, Sensing):
        own = checked_shape(sensing.shape)
        if shape is not None and shape != own:
            raise ValueError(f"sensing measures signals of shape {own}, but shape is {shape}.")
        _check_own(sensing, own)
        return sensing
    if not is_sparse(sensing) and isinstance(sensing, list | np.ndarray):
        array = _array(sensing)
        if array.dtype == bool:
            return _masked(array, shape)
        if array.ndim == 1:
            return _picked(array, shape)
        sensing = array
    return _linear(sensing, shape)


def _array(sensing: Any) -> NDArray[Any]:
    try:
        array = np.asarray(sensing)
    except ValueError:
        raise ValueError("sensing must be an array, got rows that differ.") from None
    if array.ndim not in (1, 2):
        raise ValueError(
            "sensing must be a mask or indices of samples, or a matrix, but the array has shape "
            f"{array.shape}."
        )
    return array


def _masked(mask: NDArray[np.bool_], shape: tuple[int, ...] | None) -> Picks:
    if shape is not None and mask.shape != shape:
        raise ValueError(
            f"the mask has shape {mask.shape}, but the signal {shape}. (An array of bool is a mask "
            "of the samples that are measured; give a matrix as float.)"
        )
    if not mask.any():
        raise ValueError("the mask is False everywhere: nothing is measured.")
    return Picks(mask.shape, np.flatnonzero(mask))


def _picked(indices: NDArray[Any], shape: tuple[int, ...] | None) -> Picks:
    if indices.size == 0:
        raise ValueError("sensing is empty: nothing is measured.")
    if indices.dtype.kind not in "iu":
        raise TypeError(
            "sensing with one axis must be indices of samples or a mask, integers or bool, but "
            f"it is of {indices.dtype}."
        )
    if shape is None:
        raise ValueError(
            "indices of samples do not tell how many there are: give shape=, the length of the "
            "signal or the shape of the image."
        )
    n = math.prod(shape)
    wrong = (indices < 0) | (indices >= n)
    if wrong.any():
        raise ValueError(
            f"sensing holds the index {int(indices[np.argmax(wrong)])}, but a signal of shape "
            f"{shape} has samples 0 to {n - 1}."
        )
    if indices.size == n > 2 and indices.max() <= 1:
        raise ValueError(
            "sensing holds nothing but 0 and 1, one for each sample: as indices they are samples 0 "
            "and 1 over and over. A mask is an array of bool."
        )
    return Picks(shape, indices.astype(np.intp))


def _picked_at(indices: tuple[Any, ...], shape: tuple[int, ...] | None) -> Picks:
    if shape is None:
        raise ValueError("indices of samples do not tell how many there are: give shape=.")
    arrays = [_array(one) for one in indices]
    if len(arrays) != len(shape) or any(one.dtype.kind not in "iu" for one in arrays):
        raise ValueError(
            f"a tuple as sensing holds one array of integers for each axis of the signal; its "
            f"shape is {shape}."
        )
    if any(one.ndim != 1 or one.shape != arrays[0].shape for one in arrays):
        raise ValueError("the arrays of a tuple as sensing must have one axis and one length.")
    for axis, (one, size) in enumerate(zip(arrays, shape, strict=True)):
        if one.size and (one.min() < 0 or one.max() >= size):
            raise ValueError(f"sensing holds an index beyond 0 to {size - 1} for axis {axis}.")
    return _picked(np.ravel_multi_index(tuple(arrays), shape), shape)


def _linear(sensing: Any, shape: tuple[int, ...] | None) -> Matrix:
    try:
        operator = checked_operator(sensing)
    except (TypeError, ValueError) as error:
        raise type(error)(
            "sensing must be a matrix, a LinearOperator, indices, a mask or an object such as "
            f"PartialDCT: {str(error).replace('A ', 'it ', 1)}."
        ) from None
    products = OperatorProducts(operator)
    own = products.shape[1]
    if shape is None:
        shape = (own,)
    if math.prod(shape) != own:
        raise ValueError(
            f"sensing has {own} columns, one for each sample, but a signal of shape {shape} has "
            f"{math.prod(shape)}."
        )
    verify_adjoint(products)
    return Matrix(shape, products)


def _check_own(sensing: Sensing, shape: tuple[int, ...]) -> None:
    """Compare <A x, y> with <x, A'y> for a user's own object."""
    if isinstance(sensing, Picks | Matrix):
        return
    rng = np.random.RandomState(0)
    n = sensing.n_measurements
    x, y = rng.standard_normal((2, *shape)), rng.standard_normal((2, n))
    forth = np.asarray(sensing.measure(x), dtype=np.float64)
    back = np.asarray(sensing.adjoint(y), dtype=np.float64)
    if forth.shape != (2, n) or back.shape != (2, *shape):
        raise ValueError(
            f"sensing: measure of two signals must have shape {(2, n)} and adjoint of two "
            f"measurements {(2, *shape)}, but they have {forth.shape} and {back.shape}."
        )
    size = float(np.linalg.norm(forth) * np.linalg.norm(y))
    if not abs(float((forth * y).sum() - (x * back).sum())) <= 1e-8 * size:
        raise ValueError("sensing: adjoint is not the transpose of measure.")


def checked_shape(shape: Any) -> tuple[int, ...]:
    """Shape of a signal or image as a tuple of one or two positive integers.

    Parameters
    ----------
    shape : int or tuple of ints
        As given.

    Returns
    -------
    tuple of ints
        The same.

    Examples
    --------
    >>> checked_shape(100), checked_shape((8, 8))
    ((100,), (8, 8))
    """
    sizes = (shape,) if isinstance(shape, numbers.Integral) else shape
    whole = isinstance(sizes, tuple | list) and all(
        isinstance(n, numbers.Integral) and not isinstance(n, bool) and int(n) >= 1 for n in sizes
    )
    if not whole or len(sizes) not in (1, 2):
        raise ValueError(f"shape must be one or two positive integers, got {shape!r}.")
    return tuple(int(n) for n in sizes)


def real(values: ArrayLike, name: str) -> FloatArray:
    """Real numbers as float64; an error that names them where they are none."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be real numbers, got an array of {array.dtype}.")
    return array.astype(np.float64, copy=False)


def check_shape(array: FloatArray, own: tuple[int, ...], name: str) -> None:
    """Refuse an array that is neither of a shape nor several of that shape."""
    if array.shape not in (own, (*array.shape[:1], *own)):
        sizes = ", ".join(map(str, own))
        raise ValueError(
            f"{name} takes an array of shape ({sizes}) or (k, {sizes}), got {array.shape}."
        )
