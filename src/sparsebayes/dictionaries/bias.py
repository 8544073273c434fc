"""The constant atom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from sparsebayes.dictionaries._protocol import (
    Addable,
    Arrays,
    Floats,
    Matrix,
    Positions,
    Spec,
    positions,
    room,
    spec_positions,
)


class Bias(Addable, BaseEstimator):
    """One atom that equals 1 everywhere: an intercept with a prior of its own.

    Estimators have ``fit_intercept`` for an intercept without a prior, which is never pruned;
    this one is an atom like any other.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.dictionaries import Bias, Linear
    >>> (Bias() + Linear()).bind(np.array([[2.0], [3.0]])).evaluate(np.array([[5.0]]))
    array([[1., 5.]])
    """

    def bind(
        self, X: Matrix, *, sample_weight: Floats | None = None, random_state: Any = None
    ) -> BiasAtoms:
        """Make the constant atom; X, weights and random state do not matter to it."""
        return BiasAtoms(np.zeros(1, dtype=np.intp))


@dataclass(frozen=True, eq=False)
class BiasAtoms:
    """The constant atom, or none after a restriction to nothing."""

    index: Positions
    count: int = 1
    orthonormal: bool = False
    n_features_in: int | None = None

    @property
    def size(self) -> int:
        """Number of atoms: one, or none."""
        return len(self.index)

    def evaluate(self, X: Matrix, out: Floats | None = None) -> Floats:
        """Fill (n, M) with ones."""
        out = room(out, (X.shape[0], self.size))
        out.fill(1.0)
        return out

    def restrict(self, indices: ArrayLike) -> BiasAtoms:
        """Keep the atom, or nothing."""
        return BiasAtoms(self.index[positions(indices, self.size)])

    def to_spec(self) -> tuple[Spec, Arrays]:
        """Describe the atom by its kind alone."""
        return {"kind": "bias"}, {"index": self.index}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> BiasAtoms:
        """Rebuild the atom that `to_spec` described."""
        return cls(spec_positions(arrays, "index", None, 1))
