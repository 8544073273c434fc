"""Problems of a regression on rows: of subsets of the dictionary in turn, and of few atoms."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparsebayes._journey import Journey
from sparsebayes.core.quadratic import AnyQuadratic
from sparsebayes.dictionaries import Atoms
from sparsebayes.rows.blocks import Rows
from sparsebayes.solvers.rounds import View

IndexArray = NDArray[np.intp]

__all__ = ["RowFit", "RowViews"]


class RowFit(Protocol):
    """What a fit must be able to do for its dictionary to be looked at in subsets."""

    @property
    def atoms(self) -> Atoms:
        """All atoms."""

    @property
    def journey(self) -> Journey:
        """Memory."""

    def quadratic(self, rows: Rows, indices: IndexArray, prefetch: IndexArray) -> AnyQuadratic:
        """The quadratic of some atoms on some rows."""
        ...

    def view(self, quad: AnyQuadratic, indices: IndexArray, count: int | None = None) -> View:
        """The problem of some atoms."""
        ...


@dataclass
class RowViews:
    """The dictionary as subsets, each of which fits into memory beside the active atoms.

    Parameters
    ----------
    fit : RowFit
        The fit.
    rows : Rows
        All rows, or some.
    """

    fit: RowFit
    rows: Rows
    _subsets: list[IndexArray] = field(init=False)
    _last: tuple[int, View, AnyQuadratic] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._subsets = self.fit.journey.subsets(self.fit.atoms.size)

    @property
    def count(self) -> int:
        """Number of subsets."""
        return len(self._subsets)

    @property
    def most(self) -> int:
        """Number of atoms of which all of G may be kept."""
        return self.fit.journey.budget.gram_size

    @property
    def screened(self) -> int:
        """Number of atoms in all of them."""
        return sum(subset.size for subset in self._subsets)

    @property
    def quad(self) -> AnyQuadratic:
        """The quadratic of the last view."""
        assert self._last is not None
        return self._last[2]

    def view(self, subset: int, active: IndexArray) -> View:
        """The problem of the active atoms and those of a subset.

        Parameters
        ----------
        subset : int
            Which one.
        active : ndarray of int
            Active atoms.

        Returns
        -------
        View
            The last one again where it will do: it has kept its columns of G.
        """
        last = self._last
        if last is not None and last[0] == subset and np.isin(active, last[1].atoms).all():
            return last[1]
        self._last = None
        indices = np.union1d(self._subsets[subset], active)
        quad = self.fit.quadratic(self.rows, indices, np.searchsorted(indices, active))
        known = None if self.count == 1 else self.screened
        view = self.fit.view(quad, indices, known)
        self._last = subset, view, quad
        return view

    def few(self, atoms: IndexArray) -> View:
        """The problem of some atoms, all of G in one pass.

        Parameters
        ----------
        atoms : ndarray of int
            The atoms, ascending.

        Returns
        -------
        View
            Their problem.
        """
        quad = self.fit.quadratic(self.rows, atoms, np.arange(atoms.size))
        return self.fit.view(quad, atoms, self.screened)
