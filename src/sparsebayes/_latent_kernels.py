"""Learned kernels of latent functions, by Laplace's approximation: how to fit and how to tune."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes.dictionaries._protocol import Matrix, OutOfRange
from sparsebayes.engine import Breakdown, State
from sparsebayes.evidence_gradient import latent_profile_gradient
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.kernel_learning import Tuned
from sparsebayes.laplace import Latent, find_mode
from sparsebayes.latent_quadratic import LatentQuadratic
from sparsebayes.problem import Solution
from sparsebayes.shared_variance import Targets
from sparsebayes.solvers.expansion import Point, expand, renumbered, restored
from sparsebayes.solvers.settling import Fit, settle

FloatArray = NDArray[np.float64]

__all__ = ["LatentFit", "LatentModel", "working_targets"]

_FINE = 1e-7  # nats that mode and variances leave to each other
_STEPS = 1000  # Newton steps of one evaluation, at most
_WALL = -1e100  # where float64 cannot tell
_SATURATED = 1e-3  # of the largest curvature: rows below it would have targets of any size


class LatentFit(NamedTuple):
    """A fit of all atoms: solution, last expansion, and what it is of."""

    solution: Solution
    quad: LatentQuadratic
    latent: Latent

    @property
    def state(self) -> State:
        """State of the last expansion."""
        state = self.solution.state
        assert isinstance(state, State)  # orthonormal atoms have a closed form for noise only
        return state

    @property
    def point(self) -> Point:
        """Where the fit ended."""
        norm = self.quad.norm[self.state.active * self.quad.group]
        return Point(self.state.active, self.state.v / norm**2)


class LatentModel(NamedTuple):
    """A `kernel_learning.Model`; ``latent`` makes the data and likelihood of some atoms."""

    X: Matrix
    hyperprior: Hyperprior
    latent: Callable[[Any], Latent]
    solve: Callable[[Latent, Hyperprior, Point | None], tuple[Solution, LatentQuadratic]]

    def fit(self, atoms: Any, start: Point | None) -> LatentFit:
        """Fit all atoms, their parameters held."""
        latent = self.latent(atoms)
        return LatentFit(*self.solve(latent, self.hyperprior, start), latent)

    def profile(self, atoms: Any, fit: LatentFit) -> "LatentProfile":
        """The active atoms alone."""
        return LatentProfile(self, atoms, fit)

    def gradient(self, atoms: Any, fit: LatentFit) -> FloatArray:
        """Derivative of the objective in the parameters, mode and variances following."""
        return self.slope(atoms, fit.latent, fit.quad, fit.state)

    def slope(self, atoms: Any, latent: Latent, quad: LatentQuadratic, state: State) -> FloatArray:
        """The same, of a state on an expansion."""
        active, D = latent_profile_gradient(latent, quad, state, self.hyperprior)
        return np.asarray(atoms.restrict(active).pullback(self.X, D))


class LatentProfile:
    """The objective of a few atoms, mode and variances settled, as a function of theta."""

    def __init__(self, model: LatentModel, atoms: Any, fit: LatentFit) -> None:
        self.model = model
        self.K, self.per_atom = fit.quad.K, fit.quad.K // fit.quad.group
        self.active = np.unique(fit.point.active // self.per_atom)
        self.few = atoms.restrict(self.active)
        self.point = renumbered(fit.point, self.active, self.per_atom, self.K)
        self.best: Tuned | None = None
        self.last: Tuned | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Objective and its derivatives at ``theta``."""
        model, few = self.model, self.few.with_theta(theta)
        try:
            latent = model.latent(few)
            account = Fit(latent, model.hyperprior, _STEPS, None)
            point = settle(account, latent, self.point, _FINE)
            at = expand(latent, model.hyperprior, point)
        except (Breakdown, OutOfRange):
            self.last = None
            return _WALL, np.zeros_like(theta)
        end = restored(at.point, self.active, self.per_atom, self.K)
        self.last = Tuned(at.state.objective, theta.copy(), end._replace(starts=()))
        if self.best is None or at.state.objective > self.best.objective:
            self.best = self.last
            self._remember(at.point)
        if not at.state.active.size:
            return at.state.objective, np.zeros_like(theta)
        assert isinstance(at.quad, LatentQuadratic)  # kernels are learned from samples in memory
        return at.state.objective, model.slope(few, latent, at.quad, at.state)

    def _remember(self, point: Point) -> None:
        """Begin the next time where this ended; atoms that have left may come back."""
        v = dict(zip(self.point.active.tolist(), self.point.v.tolist(), strict=True))
        v |= dict(zip(point.active.tolist(), point.v.tolist(), strict=True))
        self.point = Point(self.point.active, np.array([v[j] for j in self.point.active]))


def working_targets(latent: Latent) -> Targets:
    """Numbers whose least squares are the first Newton step from the model without atoms.

    Parameters
    ----------
    latent : Latent
        Data and likelihood.

    Returns
    -------
    Targets
        One column for each latent function, weighted as their curvature is on average.
    """
    nothing = np.empty(0, dtype=np.intp)
    _, slope, curvature = find_mode(latent, nothing, np.empty(0)).expansion
    own = np.einsum("nkk->nk", curvature)
    weights = own.mean(axis=1)
    usable = weights > _SATURATED * weights.max()
    least = np.where(own > 0, own, 1.0)
    t = np.where(usable[:, None], slope / least, 0.0)
    return Targets(t, np.where(usable, weights / weights.max(), 0.0), latent.center, None)
