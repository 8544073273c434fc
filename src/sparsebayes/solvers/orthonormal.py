"""Orthonormal atoms: every variance in closed form, the noise by one search, O(M) in all.

Atoms that do not interact are one-dimensional problems. With p the squared correlation of an atom
with the targets, summed over T of them, and y = p / noise - 2 c, it is active if and only if
y > T; it then has 1 - T / y degrees of freedom, by which its coefficient is shrunk, and gains
(y - T - T log(y / T)) / 2 nats. c = 0 is the flat hyperprior; others answer through their
`best_variance`. A noise that is not given is where the objective so maximized is highest, over all
noises: the answer is the global maximum.

Under a flat hyperprior, as many atoms as data explain them all: the objective has no maximum but
at no noise. The noise then rests at its floor, and the status says that it has collapsed.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from sparsebayes._hyperprior import refuse_if_never_out
from sparsebayes.core.quadratic import OrthonormalQuadratic
from sparsebayes.diagonal import Arrow, DiagonalState
from sparsebayes.engine import log_hyperprior
from sparsebayes.hyperpriors import Flat, Hyperprior, LogDerivatives, Smoothness, gain
from sparsebayes.problem import SAFELY, Certificate, Problem, Progress, Report, Solution, Status
from sparsebayes.solvers.newton import Noise
from sparsebayes.solvers.noise_profile import Profile, best_noise

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Prices", "solve"]

_EPS = float(np.finfo(float).eps)
_GRID = 0.1  # step in log noise at which the profile of a hyperprior of the user's own is looked at


@dataclass(frozen=True, eq=False)
class Prices:
    """The smoothness prior with a price for each atom of an orthonormal problem.

    Parameters
    ----------
    c : ndarray of shape (M,)
        Price of a degree of freedom of each atom, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> prior = Prices(np.array([0.0, 2.0]))
    >>> prior.best_variance(np.ones(2), np.array([4.9, 4.9]), noise_var=1.0).round(3)
    array([3.9, 0. ])
    """

    c: FloatArray

    def log_density(self, v: FloatArray, noise_var: float) -> FloatArray:
        """Return ``-c v / (v + noise)`` for atom after atom."""
        return -self.c * (v / (v + noise_var))

    def log_derivatives(self, v: FloatArray, noise_var: float) -> LogDerivatives:
        """Return the derivatives for atom after atom."""
        one = Smoothness(1.0).log_derivatives(v, noise_var)
        return LogDerivatives(*(self.c * part for part in one))

    def best_variance(
        self, s: FloatArray, q2: FloatArray, noise_var: float, n_targets: int = 1
    ) -> FloatArray:
        """Return the best variance of every atom at its own price."""
        best = np.empty_like(s)
        for price in np.unique(self.c):
            own = self.c == price
            smooth = Smoothness(float(price))
            best[own] = smooth.best_variance(s[own], q2[own], noise_var, n_targets)
        return best


def solve(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    random_state: np.random.RandomState | None = None,
    start: tuple[IndexArray, FloatArray, float] | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximize the objective over all atoms, their variances and the noise, globally.

    Parameters
    ----------
    problem : Problem
        The problem, whose quadratic is an `OrthonormalQuadratic`.
    tol : float, default=1e-6
        Largest gain, in nats, that the certificate may leave on the table.
    max_iter, random_state, start
        Taken as every solver takes them, and of no use here: nothing is iterated, drawn or
        improved.
    report : callable or None
        Called with a `Progress` at the end.

    Returns
    -------
    Solution
        Its state is a `DiagonalState`.

    Examples
    --------
    >>> import numpy as np
    >>> g = np.array([[3.0], [0.1], [-4.0]])
    >>> quad = OrthonormalQuadratic(g, tt=30.0, n=10.0, spread=1.0)
    >>> solution = solve(Problem(quad, Flat(), noise_var=1.0))
    >>> solution.state.active, solution.state.mu.ravel().round(4), solution.status.name
    (array([0, 2]), array([ 2.6667, -3.75  ]), 'CONVERGED')
    """
    quad = problem.quad
    if not isinstance(quad, OrthonormalQuadratic):
        raise TypeError(
            f"the orthonormal solver takes an OrthonormalQuadratic, got {type(quad).__name__}."
        )
    refuse_if_never_out(problem.hyperprior, "the closed form of orthonormal atoms")
    power = np.einsum("ij,ij->i", quad.g, quad.g)
    rest = max(quad.tt - float(power.sum()), 0.0)
    noise = problem.noise()
    if noise.estimated:
        noise = noise._replace(var=_noise(problem, power, rest, noise.floor))
    state = _state(problem, power, rest, noise.var)
    certificate = _certify(problem, power, rest, state, noise)
    holds = certificate.holds(tol)
    ended = Status.CONVERGED if holds else Status.STALLED
    line = Progress("exact", 1, state.active.size, state.objective, noise.var, certificate.max_gain)
    if report is not None:
        report(line)
    status = problem.verdict(state, noise, ended)
    return Solution(state, noise, status, certificate, holds, 1, (line,))


def _price(hyperprior: Hyperprior) -> float | FloatArray | None:
    """The price c of a degree of freedom; None for hyperpriors that know no such thing."""
    if type(hyperprior) is Flat:
        return 0.0
    if type(hyperprior) is Smoothness or type(hyperprior) is Prices:
        return hyperprior.c
    return None


def _of(hyperprior: Hyperprior, atoms: IndexArray) -> Hyperprior:
    """The hyperprior of some atoms."""
    if isinstance(hyperprior, Prices):
        return Prices(hyperprior.c[atoms])
    return hyperprior


def _noise(problem: Problem, power: FloatArray, rest: float, floor: float) -> float:
    c = _price(problem.hyperprior)
    if c is not None:
        profile = Profile.of(power, c, rest, problem.quad.n, problem.n_targets)
        return best_noise(profile, floor)
    # A hyperprior of the user's own: its profile is whatever it says, at O(M) for each noise.
    ceiling = max((rest + float(power.sum())) / (problem.n_targets * problem.quad.n), floor)

    def fall(log_noise: float) -> float:
        return -_state(problem, power, rest, math.exp(log_noise)).objective

    steps = max(2, math.ceil(math.log(ceiling / floor) / _GRID) + 1)
    grid = np.linspace(math.log(floor), math.log(ceiling), steps)
    values = np.array([fall(x) for x in grid])
    best = int(np.argmin(values))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, steps - 1)]
    if ends[0] == ends[1]:
        return float(np.exp(grid[best]))
    found = minimize_scalar(fall, bounds=ends, method="bounded", options={"xatol": 1e-12})
    return float(np.exp(found.x if found.fun <= values[best] else grid[best]))


def _state(problem: Problem, power: FloatArray, rest: float, noise_var: float) -> DiagonalState:
    """The best variances at one noise, and all that follows from them."""
    quad, n_targets = problem.quad, problem.n_targets
    c = _price(problem.hyperprior)
    if c is not None:
        active = np.flatnonzero(power > (n_targets + 2.0 * c) * noise_var)
        own_c = c[active] if isinstance(c, np.ndarray) else c
        v = noise_var * ((power[active] / noise_var - 2.0 * own_c) / n_targets - 1.0)
    else:
        usable = np.flatnonzero(power > 0)
        s = np.full(usable.size, 1.0 / noise_var)
        q2 = power[usable] / noise_var**2
        best = problem.hyperprior.best_variance(s, q2, noise_var, n_targets)
        active, v = usable[best > 0], best[best > 0]
    kept = v > 0  # an atom on the threshold rounds to none
    if not kept.all():
        active, v = active[kept], v[kept]
    left = noise_var / (v + noise_var)  # 1 - dof
    mu = quad.g[active] * (1.0 - left)[:, None]
    # t'C^-1 t, as a sum of positive terms
    own = power[active]
    misfit = (rest + _outside(power, active) + float(own @ left)) / noise_var
    log_det = n_targets * (quad.n * math.log(2 * math.pi * noise_var) - float(np.log(left).sum()))
    log_evidence = quad.log_offset - 0.5 * (log_det + misfit)
    objective = log_evidence + log_hyperprior(_of(problem.hyperprior, active), v, noise_var)
    return DiagonalState(
        active, v, noise_var, log_evidence, objective, mu, noise_var * (1.0 - left)
    )


def _outside(power: FloatArray, active: IndexArray) -> float:
    """Power of the atoms that are not active."""
    out = np.ones(power.size, dtype=np.bool_)
    out[active] = False
    return float(power.sum(where=out))


def _certify(
    problem: Problem, power: FloatArray, rest: float, state: DiagonalState, noise: Noise
) -> Certificate:
    """Recompute from the state what any single change of it would gain, and the derivatives."""
    out = np.ones(power.size, dtype=np.bool_)
    out[state.active] = False
    hyperprior = all_priced = _of(problem.hyperprior, state.active)
    own = power[state.active]
    # The more power an atom has, the more it gains: of those outside, the first to enter.
    first = power.max(where=out, initial=0.0)
    if isinstance(problem.hyperprior, Prices) and out.any():
        due = np.where(out, power - 2.0 * state.noise_var * problem.hyperprior.c, -np.inf)
        place = int(np.argmax(due))
        first = power[place]
        all_priced = _of(problem.hyperprior, np.append(state.active, place))
    elif isinstance(problem.hyperprior, Prices):
        all_priced, first = Prices(np.append(problem.hyperprior.c, 0.0)), 0.0
    changed = np.append(own, first), np.append(state.v, 0.0)
    max_gain = float(_gains(problem, all_priced, changed[0], state.noise_var, changed[1]).max())
    left = state.noise_var / (state.v + state.noise_var)
    residual = rest + float(power.sum(where=out)) + float(own @ np.square(left))
    arrow = Arrow.at(state, hyperprior, noise, problem.quad.n, residual)
    bend = arrow.curvature if state.active.size else -np.inf
    explained = float(own @ (1.0 - left))
    rounding = _EPS * (state.active.size + (explained + problem.quad.tt) / state.noise_var)
    return Certificate(max_gain, arrow.gradient_norm, bend, SAFELY * rounding)


def _gains(
    problem: Problem, hyperprior: Hyperprior, power: FloatArray, noise_var: float, v: FloatArray
) -> FloatArray:
    """Gain of the best variance over ``v``, for each atom."""
    n_targets = problem.n_targets
    c = _price(hyperprior)
    if c is not None:
        # With r = y (1 - dof) / T the best has r = 1, and an atom out of the model r = y / T.
        r = (power / noise_var - 2.0 * c) * (noise_var / (v + noise_var) / n_targets)
        r = np.where(v > 0, r, np.maximum(r, 1.0))
        return np.asarray(0.5 * n_targets * (r - 1.0 - np.log(r)))
    s, q2 = np.full(power.size, 1.0 / noise_var), power / noise_var**2
    best = hyperprior.best_variance(s, q2, noise_var, n_targets)
    return gain(hyperprior, s, q2, best, noise_var, n_targets, v)
