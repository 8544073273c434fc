"""Several dictionaries side by side, and the way back from stored atoms of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from sparsebayes.dictionaries._protocol import (
    Addable,
    Arrays,
    Atoms,
    Floats,
    Matrix,
    Positions,
    Spec,
    Tunable,
    check_columns,
    checked_theta,
    evaluate_into,
    is_dictionary,
    is_sparse,
    positions,
    room,
    spec_positions,
    spec_value,
)
from sparsebayes.dictionaries.bias import BiasAtoms
from sparsebayes.dictionaries.kernels import KernelAtoms
from sparsebayes.dictionaries.linear import LinearAtoms, PrecomputedAtoms
from sparsebayes.dictionaries.operators import MatrixAtoms
from sparsebayes.dictionaries.wavelets import WaveletAtoms

_DEEPEST = 50


class Union(Addable, BaseEstimator):
    """The atoms of several dictionaries, one after the other; ``a + b`` makes one too.

    Parameters of the parts are reached by their number, as in ``set_params(**{"1__gamma": 2.0})``
    or, in a grid search over an estimator, ``dictionary__1__gamma``.

    Parameters
    ----------
    parts : list of dictionaries
        They may be unions themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Bias, Kernel, Linear
    >>> both = Bias() + Linear() + Kernel("rbf", gamma=0.5)
    >>> both
    Union(parts=[Bias(), Linear(), Kernel(gamma=0.5)])
    >>> atoms = both.bind(np.array([[0.0], [1.0]]))
    >>> atoms.evaluate(np.array([[3.0]])).round(3)
    array([[1.   , 3.   , 0.011, 0.135]])
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; those of part number i as "i" and "i__name".

        Parameters
        ----------
        deep : bool, default=True
            Include the parts and their parameters.

        Returns
        -------
        dict
            Name to value.
        """
        params: dict[str, Any] = {"parts": self.parts}
        if deep and isinstance(self.parts, (list, tuple)):
            for i, part in enumerate(self.parts):
                params[str(i)] = part
                if hasattr(part, "get_params") and not isinstance(part, type):
                    nested = part.get_params(deep=True)
                    params |= {f"{i}__{key}": value for key, value in nested.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by the names that `get_params` lists.

        Parameters
        ----------
        **params : dict
            Names and values, such as ``{"1__gamma": 2.0}``.

        Returns
        -------
        Union
            This object.
        """
        # First whole lists, then whole parts, then their parameters, in whatever order they came.
        if "parts" in params:
            self.parts = params.pop("parts")
        numbers = {str(i) for i in range(len(self.parts))}
        for key in params:
            if key.partition("__")[0] not in numbers:
                raise ValueError(
                    f"invalid parameter {key!r} for {self!r}: give 'parts', the number of a part, "
                    "or that and a parameter of it, such as '0__gamma'"
                )
        replaced = {int(key): value for key, value in params.items() if "__" not in key}
        if replaced:
            self.parts = [replaced.get(i, part) for i, part in enumerate(self.parts)]
        nested: dict[int, dict[str, Any]] = {}
        for key, value in params.items():
            number, separator, name = key.partition("__")
            if separator:
                nested.setdefault(int(number), {})[name] = value
        for i, values in nested.items():
            self.parts[i].set_params(**values)
        return self

    def bind(
        self, X: Matrix, *, sample_weight: Floats | None = None, random_state: Any = None
    ) -> UnionAtoms:
        """Bind every part to the rows of X.

        Parameters
        ----------
        X : float64 array or CSR matrix of shape (n_samples, n_features)
            Training rows.
        sample_weight : array of shape (n_samples,), default=None
            Given to every part.
        random_state : int, RandomState or None, default=None
            Given to every part.

        Returns
        -------
        UnionAtoms
            The atoms of the first part, then those of the second, and so on.
        """
        check_columns(X, None)
        return self.bind_parts(
            lambda part: part.bind(X, sample_weight=sample_weight, random_state=random_state)
        )

    def bind_parts(self, bind: Callable[[Any], Atoms]) -> UnionAtoms:
        """Bind every part in a way of one's own.

        Parameters
        ----------
        bind : callable
            From a part, a dictionary, to its atoms.

        Returns
        -------
        UnionAtoms
            The atoms of all parts.
        """
        if not isinstance(self.parts, (list, tuple)) or not self.parts:
            raise TypeError(
                f"parts must be a list of at least one dictionary, but it is {self.parts!r}"
            )
        for i, part in enumerate(self.parts):
            if not is_dictionary(part):
                raise TypeError(f"part {i} of the union is no dictionary but {part!r}")
        atoms = tuple(bind(part) for part in self.parts)
        starts = np.cumsum([0] + [part.size for part in atoms])
        offsets = np.cumsum([0] + [part.count for part in atoms])
        return UnionAtoms(
            parts=atoms,
            columns=tuple(np.arange(a, b) for a, b in pairwise(starts)),
            index=np.concatenate([p.index + o for p, o in zip(atoms, offsets, strict=False)]),
            count=int(offsets[-1]),
            n_features_in=next((p.n_features_in for p in atoms if p.n_features_in), None),
        )


def leaves(whole: Any) -> list[Any]:
    """Dictionaries, or atoms, that a union is made of, however deep; anything else alone.

    Parameters
    ----------
    whole : object
        A dictionary or atoms.

    Returns
    -------
    list
        Those that are no unions, in order.

    Examples
    --------
    >>> from sparsebayes.dictionaries import Bias, Linear
    >>> leaves(Union([Bias(), Union([Linear()])]))
    [Bias(), Linear()]
    """
    if isinstance(whole, Union | UnionAtoms):
        return [leaf for part in whole.parts for leaf in leaves(part)]
    return [whole]


@dataclass(frozen=True, eq=False)
class UnionAtoms:
    """Atoms of several kinds; `columns[k]` is where those of `parts[k]` stand in the result."""

    parts: tuple[Atoms, ...]
    columns: tuple[Positions, ...]
    index: Positions
    count: int
    n_features_in: int | None
    orthonormal: bool = False

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.index)

    @property
    def theta(self) -> Floats:
        """Logarithms of the parameters to learn, of one part after the other."""
        return np.concatenate([np.empty(0)] + [part.theta for part in self._tunable])

    @property
    def bounds(self) -> Floats:
        """Lowest and highest theta, (P, 2)."""
        return np.concatenate([np.empty((0, 2))] + [part.bounds for part in self._tunable])

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the parameters, with the number of their part as in `Union.get_params`."""
        return tuple(
            f"{k}__{label}"
            for k, part in enumerate(self.parts)
            if isinstance(part, Tunable)
            for label in part.labels
        )

    @property
    def _tunable(self) -> list[Tunable]:
        return [part for part in self.parts if isinstance(part, Tunable)]

    def with_theta(self, theta: ArrayLike) -> UnionAtoms:
        """The same atoms with other parameters."""
        values = checked_theta(theta, self.labels)
        parts, start = [], 0
        for part in self.parts:
            if isinstance(part, Tunable):
                stop = start + len(part.theta)
                part, start = part.with_theta(values[start:stop]), stop
            parts.append(part)
        return replace(self, parts=tuple(parts))

    def pullback(self, X: Matrix, D: Floats) -> Floats:
        """Sums over D (n, M) times derivatives of the atoms in theta, (P,)."""
        check_columns(X, self.n_features_in)
        pairs = zip(self.parts, self.columns, strict=True)
        pulled = [p.pullback(X, D[:, columns]) for p, columns in pairs if isinstance(p, Tunable)]
        return np.concatenate([np.empty(0)] + pulled)

    def evaluate(self, X: Matrix, out: Floats | None = None) -> Matrix:
        """All atoms at the rows of X, (n, M); CSR when X is sparse and most atoms stay so."""
        check_columns(X, self.n_features_in)
        if out is None and is_sparse(X) and self._mostly_sparse(X):
            blocks = [sp.csr_matrix(part.evaluate(X)) for part in self.parts]
            order = np.argsort(np.concatenate(self.columns))
            return sp.hstack(blocks, format="csr")[:, order]
        out = room(out, (X.shape[0], self.size))
        for part, columns in zip(self.parts, self.columns, strict=True):
            if len(columns) == 0:
                continue
            if (np.diff(columns) == 1).all():
                evaluate_into(part, X, out[:, columns[0] : columns[-1] + 1])
            else:
                block = np.empty((X.shape[0], len(columns)))
                out[:, columns] = evaluate_into(part, X, block)
        return out

    def _mostly_sparse(self, X: Matrix) -> bool:
        # No rows tell the kind of a result as well as all of them do.
        nothing = X[:0]
        kept = sum(part.size for part in self.parts if is_sparse(part.evaluate(nothing)))
        return 2 * kept > self.size

    def restrict(self, indices: ArrayLike) -> UnionAtoms:
        """Only the atoms at `indices`, in that order.

        Parts without any are dropped, unless there is something to learn: theta stays whole.
        """
        chosen = positions(indices, self.size)
        owner = np.empty(self.size, dtype=np.intp)
        place = np.empty(self.size, dtype=np.intp)
        for k, columns in enumerate(self.columns):
            owner[columns] = k
            place[columns] = np.arange(len(columns))
        parts, kept, whole = [], [], len(self.theta) > 0
        for k, part in enumerate(self.parts):
            columns = np.flatnonzero(owner[chosen] == k)
            if len(columns) or whole:
                parts.append(part.restrict(place[chosen[columns]]))
                kept.append(columns)
        return UnionAtoms(
            tuple(parts), tuple(kept), self.index[chosen], self.count, self.n_features_in
        )

    def to_spec(self) -> tuple[Spec, Arrays]:
        """Describe the parts; array names get the number of their part in front."""
        specs: list[Spec] = []
        arrays: Arrays = {"index": self.index}
        pairs = zip(self.parts, self.columns, strict=True)
        for k, (part, columns) in enumerate(pair for pair in pairs if len(pair[1])):
            spec, own = part.to_spec()
            specs.append(spec)
            arrays[f"{k}.columns"] = columns
            arrays |= {f"{k}.atoms.{name}": array for name, array in own.items()}
        return {
            "kind": "union",
            "parts": specs,
            "count": self.count,
            "n_features_in": self.n_features_in,
        }, arrays

    @classmethod
    def from_spec(
        cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], depth: int = 0
    ) -> UnionAtoms:
        """Rebuild the atoms that `to_spec` described; a ValueError for anything unexpected."""
        count = spec_value(spec, "count", int)
        d = spec_value(spec, "n_features_in", (int, type(None)))
        index = spec_positions(arrays, "index", None, count)
        parts, kept = [], []
        for k, stored in enumerate(spec_value(spec, "parts", list)):
            prefix = f"{k}.atoms."
            own = {
                key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)
            }
            part = _from_spec(stored, own, depth + 1)
            if part.n_features_in not in (None, d):
                raise ValueError(f"stored union: part {k} does not fit the others")
            parts.append(part)
            kept.append(spec_positions(arrays, f"{k}.columns", part.size, len(index)))
        filled = np.sort(np.concatenate(kept)) if kept else np.empty(0)
        if not np.array_equal(filled, np.arange(len(index))):
            raise ValueError("stored union: the columns of its parts do not make a whole")
        return cls(tuple(parts), tuple(kept), index, count, d)


def atoms_from_spec(spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Atoms:
    """Rebuild atoms from what their `to_spec` returned; runs no code from its arguments.

    Parameters
    ----------
    spec : dict
        Names and numbers, with a "kind".
    arrays : dict of arrays
        The arrays that go with it.

    Returns
    -------
    Atoms
        As they were.

    Raises
    ------
    ValueError
        If anything is missing, malformed or unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Kernel, atoms_from_spec
    >>> X = np.array([[0.0], [1.0]])
    >>> spec, arrays = Kernel("rbf", gamma=1.0).bind(X).to_spec()
    >>> atoms_from_spec(spec, arrays).evaluate(X).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    return _from_spec(spec, arrays, 0)


def _from_spec(spec: Any, arrays: Mapping[str, NDArray[Any]], depth: int) -> Atoms:
    kind = spec.get("kind") if isinstance(spec, Mapping) else None
    if depth > _DEEPEST:
        raise ValueError(f"stored union is nested more than {_DEEPEST} deep")
    match kind:
        case "bias":
            return BiasAtoms.from_spec(spec, arrays)
        case "linear":
            return LinearAtoms.from_spec(spec, arrays)
        case "precomputed":
            return PrecomputedAtoms.from_spec(spec, arrays)
        case "kernel":
            return KernelAtoms.from_spec(spec, arrays)
        case "operator":
            return MatrixAtoms.from_spec(spec, arrays)
        case "wavelet" | "stationary-wavelet":
            return WaveletAtoms.from_spec(spec, arrays)
        case "union":
            return UnionAtoms.from_spec(spec, arrays, depth)
    raise ValueError(f"stored atoms of unknown kind {kind!r}")
