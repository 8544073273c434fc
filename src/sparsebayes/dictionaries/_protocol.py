"""What a dictionary and its atoms promise, and the few checks they all share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from sparsebayes.dictionaries.union import Union

Floats: TypeAlias = NDArray[np.float64]
Positions: TypeAlias = NDArray[np.intp]
# A float64 array or a scipy.sparse CSR matrix (or CSR array) of float64: SciPy ships no types.
Matrix: TypeAlias = Any
Spec: TypeAlias = dict[str, Any]
Arrays: TypeAlias = dict[str, NDArray[Any]]


@runtime_checkable
class Atoms(Protocol):
    """Atoms bound to data: they can be evaluated at any rows, and restricted to a few."""

    @property
    def size(self) -> int:
        """Number of atoms M."""

    @property
    def index(self) -> Positions:
        """Position of each atom in the dictionary as its user counts it, shape (M,)."""

    @property
    def count(self) -> int:
        """Number of positions of the dictionary as its user counts them."""

    @property
    def orthonormal(self) -> bool:
        """Whether the atoms claim to be orthonormal on the data they are bound to."""

    @property
    def n_features_in(self) -> int | None:
        """Columns that X must have; None where it does not matter."""

    def evaluate(self, X: Matrix, out: Floats | None = None) -> Matrix:
        """All atoms at the rows of X: (n, M), dense or CSR; in `out` where that is given."""

    def restrict(self, indices: ArrayLike) -> Atoms:
        """Only the atoms at `indices` (of 0..M-1), holding nothing of the others."""

    def to_spec(self) -> tuple[Spec, Arrays]:
        """Describe the atoms by a JSON-able dict with a "kind", and named arrays."""


class OutOfRange(ValueError):
    """Values of atoms leave the range of float64: at these parameters there is nothing to fit."""


def check_range(*right: np.bool_ | bool) -> None:
    """Raise an error unless all that is predicted is as it should be, such as finite."""
    if not all(right):
        raise OutOfRange(
            "predictions overflow on this X: it is too far from the data that were fitted"
        )


def of_unit_norm(values: Floats, center: Floats, norm: Floats, out: Floats | None = None) -> Floats:
    """Values of atoms (n, m), each less its center and divided by its norm, (m,) both."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            unit: Floats = np.subtract(values, center, out=out)
            unit /= norm
    except FloatingPointError:
        raise OutOfRange(
            "atoms overflow on this X: it is too far from the data that were fitted"
        ) from None
    return unit


@runtime_checkable
class Tunable(Protocol):
    """Atoms with parameters to learn, such as the width of a kernel.

    What is learned are logarithms of positive parameters, `theta`, empty where nothing is. A fit
    asks for derivatives only contracted with a matrix, so no array is larger than atoms at rows.
    """

    @property
    def theta(self) -> Floats:
        """Logarithms of the parameters to learn, shape (P,)."""

    @property
    def bounds(self) -> Floats:
        """Lowest and highest value of each entry of `theta`, shape (P, 2)."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the parameters, such as "gamma[0]", for reports."""

    def with_theta(self, theta: ArrayLike) -> Self:
        """The same atoms with other parameters."""

    def pullback(self, X: Matrix, D: Floats) -> Floats:
        """Sums over D[n, m] times the derivative of atom m at row n in `theta`, shape (P,)."""


@runtime_checkable
class Products(Protocol):
    """Products with the matrix of atoms at some rows, N x M, that never form it.

    Atoms that are faster as a transform than as a matrix have one more method,
    ``at(X) -> Products``; a fit then evaluates only the few atoms it needs one by one.

    Where samples have weights, and for classes and counts, norms are weighted. They are summed
    over all columns, in blocks, unless there is one more method here: ``squares(rows)``, products
    of rows (k, N) with the squares of all atoms, (k, M).
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Rows N and atoms M."""

    def synthesize(self, weights: Floats) -> Floats:
        """Sums of atoms at the rows: (k, M) to (k, N)."""

    def analyze(self, rows: Floats) -> Floats:
        """Inner products with all atoms: (k, N) to (k, M), the adjoint of `synthesize`."""

    def squared_norms(self) -> Floats | None:
        """Sums of squares of each atom at the rows, (M,); None where they are not known."""


@runtime_checkable
class Dictionary(Protocol):
    """How atoms are made: parameters only, until it is bound to data."""

    def bind(
        self, X: Matrix, *, sample_weight: Floats | None = None, random_state: Any = None
    ) -> Atoms:
        """Make the atoms of this dictionary on the rows of X."""


class Addable:
    """Gives a dictionary the `+` that makes unions."""

    def __add__(self, other: Any) -> Union:
        return _join(self, other) if is_dictionary(other) else NotImplemented

    def __radd__(self, other: Any) -> Union:
        return _join(other, self) if is_dictionary(other) else NotImplemented


def _join(first: Any, second: Any) -> Union:
    from sparsebayes.dictionaries.union import Union

    parts: list[Any] = []
    for dictionary in (first, second):
        parts.extend(dictionary.parts if isinstance(dictionary, Union) else [dictionary])
    return Union(parts)


def is_dictionary(value: Any) -> bool:
    """Whether `value` is an instance (not a class) that can be bound to data."""
    return isinstance(value, Dictionary) and not isinstance(value, type)


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy.sparse matrix or array, without narrowing its type."""
    return bool(sp.issparse(X))


def positions(indices: ArrayLike, size: int) -> Positions:
    """Turn indices or a mask into an intp array within 0..size-1."""
    chosen = np.asarray(indices)
    if chosen.size == 0:
        return np.empty(0, dtype=np.intp)
    kept: Positions = np.arange(size, dtype=np.intp)[chosen.ravel()]
    return kept


def checked_theta(theta: ArrayLike, labels: tuple[str, ...]) -> Floats:
    """`theta` as floats, refused unless it has one number for each label and exp(theta) is one."""
    values = np.asarray(theta, dtype=np.float64)
    if values.shape != (len(labels),):
        raise ValueError(f"theta has shape {values.shape}, but the parameters are {labels}")
    with np.errstate(over="ignore", under="ignore"):
        usable = np.isfinite(values) & np.isfinite(np.exp(values)) & (np.exp(values) > 0)
    if not usable.all():
        raise ValueError(f"theta must be logarithms of positive numbers, but it is {values}")
    return values


def check_columns(X: Matrix, n_features: int | None) -> None:
    """Refuse an X that has not the columns the atoms were bound to."""
    if X.ndim != 2:
        raise ValueError(f"X must be two-dimensional, but it has shape {X.shape}")
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, but the dictionary was bound to {n_features}"
        )


def room(out: Floats | None, shape: tuple[int, int]) -> Floats:
    """`out` if it fits, a new array where there is none."""
    if out is None:
        return np.empty(shape)
    if out.shape != shape or out.dtype != np.float64:
        raise ValueError(
            f"out must be float64 of shape {shape}, but it is {out.dtype} of shape {out.shape}"
        )
    return out


def evaluate_into(atoms: Atoms, X: Matrix, out: Floats) -> Floats:
    """`out` with all atoms at the rows of X, also of atoms that return an array of their own."""
    values = atoms.evaluate(X, out=out)
    if values is not out:
        out[...] = values.toarray() if is_sparse(values) else values
    return out


def spec_value(spec: Mapping[str, Any], name: str, kinds: type | tuple[type, ...]) -> Any:
    """`spec[name]`, refused unless it is of one of `kinds` (a bool is no number)."""
    value = spec.get(name)
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise ValueError(f"stored {spec.get('kind')!r} atoms: {name!r} is missing or malformed")
    return value


def spec_array(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], kind: str = "f"
) -> NDArray[Any]:
    """`arrays[name]`, refused unless its dtype is of `kind` and its shape fits (None: any)."""
    value = arrays.get(name)
    if not isinstance(value, np.ndarray) or value.dtype.kind != kind or value.ndim != len(shape):
        raise ValueError(f"stored atoms: array {name!r} is missing or malformed")
    if any(want is not None and want != got for want, got in zip(shape, value.shape, strict=True)):
        raise ValueError(f"stored atoms: array {name!r} has shape {value.shape}, not {shape}")
    if kind == "f" and not np.isfinite(value).all():
        raise ValueError(f"stored atoms: array {name!r} holds NaN or infinity")
    return value.astype(np.float64 if kind == "f" else np.intp, copy=False)


def spec_positions(
    arrays: Mapping[str, NDArray[Any]], name: str, size: int | None, below: int
) -> Positions:
    """`arrays[name]` as `size` positions within 0..below-1."""
    value = spec_array(arrays, name, (size,), kind="i")
    if value.size and not (value.min() >= 0 and value.max() < below):
        raise ValueError(f"stored atoms: array {name!r} points outside 0..{below - 1}")
    return value
