"""A second search in a union of dictionaries, by way of what its parts would keep alone.

Atoms of different kinds compete for the same structure, and a model that is grown atom by atom may
end where several of one kind stand for what few of another would do better, with no single change
that helps. What a part of orthonormal atoms would keep if it were alone is known in closed form.
Structure is found more easily in smaller dictionaries: that of these atoms and all those of the
other parts, which then have only the best of the part to beat; and that of the atoms which either
would keep alone. The search in all atoms then starts from either.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes.core.quadratic import Gram, OrthonormalQuadratic, Quadratic
from sparsebayes.core.tolerances import COLLINEAR
from sparsebayes.problem import Problem, Solution, Status
from sparsebayes.solvers import orthonormal

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Start = tuple[IndexArray, FloatArray, float]  # active atoms, their variances, noise variance
Part = tuple[IndexArray, OrthonormalQuadratic]  # where its atoms stand, and they alone

__all__ = ["Some", "search_parts"]

_POOR = (Status.BREAKDOWN, Status.COLLAPSED)  # ends whose objective is no recommendation


@dataclass(frozen=True)
class Some:
    """The quadratic of some atoms of another one.

    Parameters
    ----------
    quad : Quadratic
        Of all atoms.
    kept : ndarray of shape (k,)
        Those that are left.

    Examples
    --------
    >>> import numpy as np
    >>> whole = Gram(np.eye(3), np.array([[3.0], [0.1], [-4.0]]), tt=30.0, n=10.0, spread=1.0)
    >>> Some(whole, np.array([0, 2])).g.ravel()
    array([ 3., -4.])
    """

    quad: Quadratic
    kept: IndexArray

    @property
    def size(self) -> int:
        """Number of atoms that are left."""
        return int(self.kept.size)

    @property
    def diag(self) -> FloatArray:
        """Diagonal of their G."""
        return self.quad.diag[self.kept]

    @property
    def g(self) -> FloatArray:
        """Phi't."""
        return self.quad.g[self.kept]

    @property
    def tt(self) -> float:
        """Sum of squared targets."""
        return self.quad.tt

    @property
    def n(self) -> float:
        """Residual degrees of freedom of an empty model."""
        return self.quad.n

    @property
    def spread(self) -> float:
        """Variance of the targets about their means."""
        return self.quad.spread

    @property
    def log_offset(self) -> float:
        """Log evidence that depends on no parameter."""
        return self.quad.log_offset

    @property
    def group(self) -> int:
        """Columns that share one variance: one."""
        return 1

    @property
    def collinear(self) -> float:
        """Fraction of diag(G) below which S is rounding, where no root is known."""
        return COLLINEAR

    @property
    def blocks(self) -> FloatArray:
        """Diagonal of G, as blocks of one."""
        return self.diag[:, None, None]

    def columns(self, indices: IndexArray) -> FloatArray:
        """Return columns of G as rows."""
        return self.quad.columns(self.kept[indices])[:, self.kept]

    def gram(self, indices: IndexArray) -> Gram:
        """Return the quadratic of fewer atoms still, dense."""
        return self.quad.gram(self.kept[indices])

    def least_squares(self) -> None:
        """Asked of the whole alone: this is a search for where to begin."""


def search_parts(
    problem: Problem,
    parts: Sequence[Part],
    solve: Callable[[Problem, Start | None], Solution],
    direct: Solution,
) -> Solution:
    """Search once more by way of the parts, and return the better solution.

    Parameters
    ----------
    problem : Problem
        Of all atoms.
    parts : sequence of (columns, OrthonormalQuadratic)
        Parts that are orthonormal: where their atoms stand, and the quadratic of these alone.
    solve : callable
        Takes a problem and where to start, or None; returns a solution.
    direct : Solution
        What a search in all atoms found.

    Returns
    -------
    Solution
        Of all atoms: `direct`, or one of a higher objective.

    Examples
    --------
    Wavelets beside points: the points that would do alone, and all wavelets, come first.

    >>> import numpy as np
    >>> from sparsebayes.hyperpriors import Smoothness
    >>> from sparsebayes.solvers import search
    >>> def solve(problem, start):
    ...     return search.solve(problem, start=start)
    >>> t = np.array([[4.0], [4.0], [4.0], [0.0]])
    >>> haar = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [2**0.5, -(2**0.5), 0, 0]]).T / 2
    >>> Phi = np.hstack([haar, np.eye(4)])
    >>> whole = Gram(Phi.T @ Phi, Phi.T @ t, tt=48.0, n=4.0, spread=3.0)
    >>> problem = Problem(whole, Smoothness(1.0), noise_var=0.1)
    >>> points = np.arange(3, 7), OrthonormalQuadratic(t, 48.0, 4.0, 3.0)
    >>> search_parts(problem, [points], solve, solve(problem, None)).state.active
    array([0, 6])
    """
    own = np.zeros(problem.quad.size, dtype=bool)  # atoms of parts that are known in closed form
    best = np.zeros(problem.quad.size, dtype=bool)  # those that their part would keep alone
    for columns, quad in parts:
        alone = orthonormal.solve(replace(problem, quad=quad))
        if alone.status is not Status.COLLAPSED:
            own[columns] = True
            best[columns[alone.state.active]] = True
    if not own.any():
        return direct

    def start_in(kept: IndexArray) -> Start:
        state = solve(replace(problem, quad=Some(problem.quad, kept)), None).state
        return kept[state.active], state.v, state.noise_var

    starts = [start_in(np.flatnonzero(best | ~own))]
    if not own.all():
        best[start_in(np.flatnonzero(~own))[0]] = True
        starts.append(start_in(np.flatnonzero(best)))
    for start in starts:
        again = solve(problem, start) if start[0].size else direct
        better = again.state.objective > direct.state.objective
        if better and (again.status not in _POOR or direct.status in _POOR):
            direct = again
    return direct
