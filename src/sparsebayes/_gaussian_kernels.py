"""Learned kernels of a regression with Gaussian noise: how to fit and how to tune."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsebayes._samples import copies
from sparsebayes.dictionaries._protocol import Matrix, OutOfRange
from sparsebayes.engine import Breakdown, State, refresh
from sparsebayes.evidence_gradient import gaussian_gradient
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.kernel_learning import Tuned
from sparsebayes.problem import Problem, Solution
from sparsebayes.quadratic import DesignQuadratic
from sparsebayes.solvers.newton import newton

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Start = tuple[IndexArray, FloatArray, float]  # active atoms, their variances, noise variance

__all__ = ["GaussianFit", "GaussianModel"]

_FINE = 1e-9  # nats that Newton's method leaves: the derivative is exact only at the maximum
_WALL = -1e100  # where float64 cannot tell


class GaussianFit(NamedTuple):
    """A fit of all atoms, and the quadratic that it is of."""

    quad: DesignQuadratic
    solution: Solution


class GaussianModel(NamedTuple):
    """A `kernel_learning.Model`.

    ``quadratic`` makes the quadratic of atoms, ``solve`` the solution of a problem.
    """

    X: Matrix
    t: FloatArray  # (N, T)
    hyperprior: Hyperprior
    noise_var: float | None
    quadratic: Callable[[Any], DesignQuadratic]
    solve: Callable[[Problem, Start | None], Solution]

    def fit(self, atoms: Any, start: Start | None) -> GaussianFit:
        """Fit all atoms, their parameters held."""
        quad = self.quadratic(atoms)
        return GaussianFit(quad, self.solve(self.problem(quad), start))

    def problem(self, quad: DesignQuadratic) -> Problem:
        """The problem of a quadratic."""
        return Problem(quad, self.hyperprior, self.noise_var, copies(quad.weights))

    def profile(self, atoms: Any, fit: GaussianFit) -> "GaussianProfile":
        """The active atoms alone."""
        return GaussianProfile(self, atoms, _state(fit))

    def gradient(self, atoms: Any, fit: GaussianFit) -> FloatArray:
        """Derivative of the objective in the parameters."""
        return self.slope(atoms.restrict(_state(fit).active), fit.quad, _state(fit))

    def slope(self, active: Any, quad: DesignQuadratic, state: State) -> FloatArray:
        """The same, of a state and its active atoms."""
        D = gaussian_gradient(quad, state, self.hyperprior, self.t)
        return np.asarray(active.pullback(self.X, D))


class GaussianProfile:
    """The objective of a few atoms, maximized over variances and noise, as a function of theta."""

    def __init__(self, model: GaussianModel, atoms: Any, state: State) -> None:
        self.model, self.active = model, state.active
        self.few = atoms.restrict(state.active)
        self.v, self.noise_var = state.v.copy(), state.noise_var
        self.best: Tuned | None = None
        self.last: Tuned | None = None

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Objective and its derivatives at ``theta``."""
        model, few = self.model, self.few.with_theta(theta)
        try:
            quad = model.quadratic(few)
            noise = model.problem(quad).noise()
            if noise.estimated:
                noise = noise._replace(var=max(self.noise_var, noise.floor))
            usable = np.flatnonzero(quad.diag)
            end = newton(quad.gram(usable), model.hyperprior, self.v[usable], noise, tol=_FINE)
            kept = usable[end.kept]
            state = refresh(quad, model.hyperprior, kept, end.v, end.noise_var)
            slope = model.slope(few.restrict(kept), quad, state)
        except (Breakdown, OutOfRange):
            self.last = None
            return _WALL, np.zeros_like(theta)
        start = self.active[kept], state.v, state.noise_var
        self.last = Tuned(state.objective, theta.copy(), start)
        if self.best is None or state.objective > self.best.objective:
            self.v[kept], self.noise_var = state.v, state.noise_var
            self.best = self.last
        return state.objective, slope


def _state(fit: GaussianFit) -> State:
    state = fit.solution.state
    assert isinstance(state, State)  # atoms with parameters to learn are not orthonormal
    return state
