"""For large problems: rounds of weighted thresholding, with nothing but products with the atoms.

The log determinant in the evidence is a concave function of the variances, and so is a smoothness
prior: both lie below their tangents, and a problem with the tangents in their place is a lasso
whose weights are sqrt(S + slope of the prior) (Wipf & Nagarajan 2010). A round

1. solves that lasso by accelerated thresholding, from where it was, and gives each atom the
   variance that belongs to its coefficient;
2. finds the posterior mean by conjugate gradients;
3. draws from the posterior by perturb and solve: the mean square of Phi'C^-1 times made-up targets
   is S, for all atoms at once, so their sparsities s are known up to the scatter of the draws;
4. takes the noise from the residual and the degrees of freedom.

It starts with no atom and much noise, where S is 1 / noise, and the first lasso is the convex one
at the threshold that the prior sets. Everything is O(M) in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import refuse_if_never_out
from sparsebayes.core.quadratic import InnerProducts, LazyQuadratic
from sparsebayes.core.stored import Stored, StoredQuadratic
from sparsebayes.engine import log_evidence_constant, log_hyperprior
from sparsebayes.hyperpriors import best_variance, gain
from sparsebayes.implicit import Draws, Implicit, Matrix, SampledState, matrix_of, shrunk
from sparsebayes.problem import Certificate, Problem, Progress, Report, Solution, Status
from sparsebayes.solvers.newton import Noise

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["solve"]

_START = 0.5  # noise to start with, as a fraction of the targets' mean square
_FALL = 0.5  # least ratio of the noise of successive rounds
_REWEIGHTS = 3  # of the lasso in a round, with the sparsities held
_THRESHOLDINGS = 25  # for each
_STILL = 3e-4  # relative change at which thresholding ends
_POWER = 20  # power iterations for the largest eigenvalue of G
_SLACK = 1.05  # they come from below
_TINY = 1e-12  # a variance, in units of the noise, whose slope stands for that at zero
_MOST = 10.0  # none is above one, but estimates scatter about it
_LEAST = 1e-6  # sparsities below this, in units of 1/noise, are rounding
_PROBES = 8
_MANY = 2**15  # atoms above which half as many probes will do
_UNKNOWN = 1e9  # scatter of sparsities that nobody has estimated
_MEMORY = 0.15  # least weight of a new round in the average of sparsities
_LOOSE = 1e-2  # of the conjugate gradients for draws, whose scatter is larger
_MEAN = 1e-2  # error of the mean, in units of the noise
_CG = 200
_LANCZOS = 60  # steps for the determinant
_STAY = 1  # rounds at each
_DROP = 0.3  # nats for each sample, below the best level of noise, at which no lower one is tried
_FULL = 0.8  # degrees of freedom for each sample at which the model explains everything
_FURTHER = 1.5
_LEAST_LEFT = 0.02


def solve(
    problem: Problem,
    *,
    tol: float = 1e-3,
    max_iter: int = 60,
    n_probes: int | None = None,
    random_state: np.random.RandomState | None = None,
    start: tuple[IndexArray, FloatArray, float] | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximise the objective over all atoms, their variances and the noise, with products alone.

    Parameters
    ----------
    problem : Problem
        Of one target, on a `StoredQuadratic` without weights of rows and without an intercept.
    tol : float, default=1e-3
        Relative change of the weights, and a tenth of that of the noise, at which rounds end.
    max_iter : int, default=60
        Most rounds once the noise has come down from where it starts, which takes one for every
        factor of two.
    n_probes : int or None
        Draws from the posterior in each round; the scatter of sparsities goes with their root.
        By default 8, and 4 above 32768 atoms, where more are averaged over.
    random_state : RandomState or None
        Source of the draws.
    start : tuple of (active, v, noise_var) or None
        Where to start, for a warm start.
    report : callable or None
        Called with a `Progress` after every round.

    Returns
    -------
    Solution
        Its state is a `SampledState`. The certificate's gain and gradient are estimates from draws,
        with the scatter ``rounding``; its curvature is not known, NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.core.stored import weighted_quadratic
    >>> from sparsebayes.design import ArrayDesign
    >>> from sparsebayes.hyperpriors import Flat
    >>> t = np.array([[3.0], [0.1], [-4.0]])
    >>> quad = weighted_quadratic(ArrayDesign(np.eye(3)), t)
    >>> solution = solve(Problem(quad, Flat(), noise_var=1.0), n_probes=64)
    >>> sorted(solution.state.active.tolist()), solution.status.name
    ([0, 2], 'SETTLED')
    """
    refuse_if_never_out(problem.hyperprior, "the matrix-free solver")
    rounds = _Rounds.of(problem, n_probes, random_state)
    noise = problem.noise()
    trace: list[Progress] = []

    def note(phase: str, point: _Point) -> None:
        n_active = int(np.count_nonzero(point.v))
        trace.append(
            Progress(
                phase, len(trace) + 1, n_active, point.objective, point.noise_var, float("nan")
            )
        )
        if report is not None:
            report(trace[-1])

    point = rounds.first(start, noise)
    if start is None:
        point = _descend(rounds, point, noise, note)
    settled, last = False, len(trace) + max_iter
    while len(trace) < last and not settled:
        before = point
        point = rounds.next(before, _next_noise(before, noise), average=True)
        note("settle", point)
        settled = _is_settled(before, point, noise, tol)
    state, certificate = rounds.finish(point, noise)
    ended = Status.SETTLED if settled else Status.MAX_ITER
    return Solution(
        state,
        noise._replace(var=state.noise_var),
        problem.verdict(state, noise, ended),
        certificate,
        settled,
        len(trace),
        tuple(trace),
    )


@dataclass(frozen=True)
class _Point:
    """What a round leaves; atoms are of unit norm."""

    weights: FloatArray  # (M,) posterior mean
    v: FloatArray  # (M,)
    noise_var: float
    sparsity: FloatArray  # (M,) s times the noise: estimates, averaged over rounds
    scatter: float  # sum of squared weights of that average: 1 for a single round
    wanted: float  # noise that the residual asks for
    objective: float = -np.inf
    dof: float = 0.0


def _descend(
    rounds: "_Rounds", point: _Point, noise: Noise, note: Callable[[str, _Point], None]
) -> _Point:
    """Lower the noise step by step, whatever the residual asks for, and return to the best level.

    Estimated from the start, the noise would swallow the signal while the model is small: the
    objective has a maximum there, and another where the model is found.
    """
    n = rounds.quad.n
    best = point
    noise_var = point.noise_var
    while True:
        for _ in range(_STAY):
            point = rounds.next(point, noise_var, average=False)
        note("descend", point)
        if point.objective > best.objective or not noise.estimated:
            best = point
        hopeless = noise.estimated and (
            point.objective < best.objective - _DROP * n or point.dof > _FULL * n
        )
        end = noise.floor if noise.estimated else noise.var
        if hopeless or noise_var <= end:
            return best
        noise_var = max(_FALL * noise_var, end)


def _next_noise(point: _Point, noise: Noise) -> float:
    """The noise that the residual asks for, and a little further: it moves slowly by itself."""
    if not noise.estimated:
        return noise.var
    ratio = (point.wanted / point.noise_var) ** _FURTHER
    return max(point.noise_var * float(np.clip(ratio, _FALL, 1 / _FALL)), noise.floor)


def _is_plain(products: InnerProducts) -> bool:
    """Whether they are of a design whose rows all count the same."""
    return isinstance(products, Stored) and products.weights is None


def _is_settled(before: _Point, point: _Point, noise: Noise, tol: float) -> bool:
    change = np.linalg.norm(point.weights - before.weights)
    same = not noise.estimated or abs(np.log(point.noise_var / point.wanted)) <= 10 * tol
    return bool(same and change <= tol * np.linalg.norm(point.weights))


@dataclass(frozen=True, eq=False)
class _Rounds:
    problem: Problem
    quad: StoredQuadratic
    given: Matrix  # atoms as thresholding sees them
    norm: FloatArray  # (M,) their norms
    unit: Matrix  # atoms at unit norm
    largest: float  # bound of the eigenvalues of the Gram matrix of the former
    floor: float  # of the noise
    rng: np.random.RandomState
    n_probes: int

    @classmethod
    def of(
        cls, problem: Problem, n_probes: int | None, random_state: np.random.RandomState | None
    ) -> "_Rounds":
        quad = problem.quad
        if not isinstance(quad, LazyQuadratic) or not _is_plain(quad.products) or quad.mean.any():
            raise TypeError("the matrix-free solver needs a design, no weights and no intercept.")
        if problem.n_targets != 1:
            raise ValueError(f"the matrix-free solver fits one target, not {problem.n_targets}.")
        rng = np.random.RandomState(0) if random_state is None else random_state
        if n_probes is None:
            n_probes = _PROBES if quad.size <= _MANY else _PROBES // 2
        given, unit = matrix_of(quad)
        # Thresholding creeps along atoms that are short beside the largest eigenvalue. A tight
        # frame is best left as it is given, atoms of all sizes are best brought to one.
        largest, norm = _largest(given, quad.size, rng), quad.norm
        at_one = _largest(unit, quad.size, rng)
        if norm.any() and largest > at_one * float(np.median(norm[norm > 0])) ** 2:
            given, largest, norm = unit, at_one, quad.diag
        return cls(problem, quad, given, norm, unit, largest, problem.noise().floor, rng, n_probes)

    def first(self, start: tuple[IndexArray, FloatArray, float] | None, noise: Noise) -> _Point:
        size = self.quad.size
        # The mean square, not the variance: targets may all be equal.
        held = _START * self.quad.tt / max(self.quad.n, 1.0)
        held = max(held, noise.floor if noise.estimated else noise.var)
        point = _Point(np.zeros(size), np.zeros(size), held, np.ones(size), 1.0, held)
        if start is None:
            return point
        v = np.zeros(size)
        v[start[0]] = start[1]
        noise_var = start[2] if noise.estimated else noise.var
        return replace(point, v=v, noise_var=noise_var, wanted=noise_var, scatter=_UNKNOWN)

    def next(self, point: _Point, noise_var: float, *, average: bool) -> _Point:
        """One round at a level of noise."""
        quad, hyperprior = self.quad, self.problem.hyperprior
        g = quad.g[:, 0]
        weights, v, s = point.weights, point.v, self._shrunk(point)
        for _ in range(_REWEIGHTS):
            weights, v = self._threshold(weights, v, s, noise_var)
        posterior = self._posterior(v, noise_var)
        active, v_a = posterior.active, posterior.v
        z, _ = posterior.mean(g, weights[active] / np.sqrt(v_a), self._precision(noise_var), _CG)
        weights = np.zeros(quad.size)
        weights[active] = np.sqrt(v_a) * z
        draws = posterior.draw(self.rng, self.n_probes, quad.products.design.shape[0], _LOOSE, _CG)
        share = max(_MEMORY, point.scatter / (1.0 + point.scatter)) if average else 1.0
        sparsity = (1 - share) * point.sparsity + share * _sparsities(posterior, draws)
        scatter = (1 - share) ** 2 * point.scatter + share**2
        residual = self._residual(weights, self.unit.synthesize(weights[None])[0])
        s = sparsity[active] / noise_var
        dof = float((v_a * s / (1 + v_a * s)).sum())
        # The noise at which the objective is stationary (S&E eq. 36, corrected).
        left = max(self._left(v_a, noise_var, dof), _LEAST_LEFT * quad.n)
        objective = self._objective(posterior, z)[0] + log_hyperprior(hyperprior, v_a, noise_var)
        wanted = max(residual / left, self.floor)
        return _Point(weights, v, noise_var, sparsity, scatter, wanted, objective, dof)

    def _residual(self, weights: FloatArray, fit: FloatArray) -> float:
        """Sum of squares of what is not fitted."""
        explained = 2 * float(weights @ self.quad.g[:, 0]) - float(fit @ fit)
        return max(self.quad.tt - explained, 0.0)

    def _left(self, v: FloatArray, noise_var: float, dof: float) -> float:
        """Degrees of freedom that weights and hyperprior leave to the noise."""
        drift = self.problem.hyperprior.log_derivatives(v, noise_var).rho
        return self.quad.n - dof - 2 * float(np.broadcast_to(drift, v.shape).sum())

    def _shrunk(self, point: _Point) -> FloatArray:
        """Sparsities with less scatter."""
        return np.clip(shrunk(point.sparsity, self.n_probes / point.scatter), _LEAST, 1.0)

    def _precision(self, noise_var: float) -> float:
        """Error of the mean that is small beside the noise."""
        signal = max(self.quad.tt, self.quad.n * noise_var)
        return _MEAN * float(np.sqrt(self.quad.n * noise_var / signal))

    def _objective(self, posterior: Implicit, z: FloatArray) -> tuple[float, float]:
        """Log evidence, whose determinant is estimated, and its standard error."""
        noise_var = posterior.noise_var
        log_det, error = posterior.log_det(self.rng, max(2, self.n_probes // 2), _LANCZOS)
        h = posterior.root * self.quad.g[posterior.active, 0] / np.sqrt(noise_var)
        # A lower bound of h'B^-1 h whose error is the square of that of z.
        explained = float(2 * h @ z - z @ posterior.apply(z[None])[0]) if z.size else 0.0
        value = log_evidence_constant(self.quad, noise_var) + 0.5 * (explained - log_det)
        return value, 0.5 * error

    def _posterior(self, v: FloatArray, noise_var: float) -> Implicit:
        active = np.flatnonzero(v)
        return Implicit(self.unit, self.quad.size, active, v[active], noise_var)

    def _threshold(
        self, weights: FloatArray, v: FloatArray, sparsity: FloatArray, noise_var: float
    ) -> tuple[FloatArray, FloatArray]:
        """Solve the lasso whose weights are tangents at v; return its variances too."""
        quad = self.quad
        at = np.maximum(v, _TINY * noise_var)
        slope = -self.problem.hyperprior.log_derivatives(at, noise_var).u / at
        S = sparsity / (noise_var + v * sparsity)
        price = np.sqrt(np.maximum(S + 2 * slope, 0.0))
        norm = self.norm
        limit = np.where(norm > 0, noise_var * price * norm / self.largest, np.inf)
        inverse = np.where(norm > 0, 1 / np.where(norm > 0, norm, 1.0), 0.0)
        target = quad.g[:, 0] * norm
        now = weights * inverse
        ahead, momentum = now, 1.0
        for _ in range(_THRESHOLDINGS):
            gradient = self.given.analyze(self.given.synthesize(ahead[None]))[0]
            z = ahead + (target - gradient) / self.largest
            new = np.sign(z) * np.maximum(np.abs(z) - limit, 0.0)
            step = new - now
            if (ahead - new) @ step > 0:  # momentum points uphill: start it afresh
                momentum, ahead = 1.0, new
            else:
                faster = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
                ahead = new + (momentum - 1) / faster * step
                momentum = faster
            now = new
            if np.linalg.norm(step) <= _STILL * np.linalg.norm(new):
                break
        weights = now * norm
        v = np.abs(weights) / np.where(price > 0, price, 1.0)
        return weights, v

    def finish(self, point: _Point, noise: Noise) -> tuple[SampledState, Certificate]:
        """Posterior, evidence and certificate at the last variances."""
        hyperprior, quad = self.problem.hyperprior, self.quad
        noise_var = point.noise_var
        posterior = self._posterior(point.v, noise_var)
        active, v = posterior.active, posterior.v
        g = quad.g[:, 0]
        z, _ = posterior.mean(
            g, point.weights[active] / np.sqrt(v), 0.01 * self._precision(noise_var), 2 * _CG
        )
        evidence, error = self._objective(posterior, z)
        s = self._shrunk(point) / noise_var
        variance = 1.0 / (1.0 / v + s[active])
        weights = np.zeros(quad.size)
        weights[active] = np.sqrt(v) * z
        fit = self.unit.synthesize(weights[None])
        Q = (g - self.unit.analyze(fit)[0]) / noise_var
        Q[active] = z / np.sqrt(v)  # the same, without cancellation
        s = np.where(quad.diag > 0, s, 1.0)
        own = 1.0 + point.v * s
        q2 = np.where(quad.diag > 0, np.square(Q * own), 0.0)
        best = best_variance(hyperprior, s, q2, noise_var)
        gains = gain(hyperprior, s, q2, best, noise_var, 1, point.v)
        W = variance / v
        gradient = 0.5 * (W + np.square(z) - 1.0) + hyperprior.log_derivatives(v, noise_var).u
        slope = 0.0  # in the logarithm of the noise
        if noise.estimated and noise_var > noise.floor * (1 + 1e-9):
            left = self._left(v, noise_var, float((1.0 - W).sum()))
            slope = 0.5 * (self._residual(weights, fit[0]) / noise_var - left)
        scatter = float(np.sqrt(2 * point.scatter / self.n_probes))
        certificate = Certificate(
            max(float(gains.max(initial=0.0)), 0.0),
            max(float(np.abs(gradient).max(initial=0.0)), abs(slope)),
            float("nan"),
            0.5 * scatter,
        )
        objective = evidence + log_hyperprior(hyperprior, v, noise_var)
        state = SampledState(
            active, v, noise_var, evidence, objective, error, weights[active, None], variance
        )
        return state, certificate


def _sparsities(posterior: Implicit, draws: Draws) -> FloatArray:
    """Sparsities of all atoms, out of their own model, times the noise.

    The mean squares of the two kinds of draws estimate S = s / (1 + v s) and W = 1 / (1 + v s): of
    an atom that is out only the first tells anything, of a strong one only the second. Their most
    likely s is between their ratios.
    """
    noise_var = posterior.noise_var
    S = np.einsum("kj,kj->j", draws.quality, draws.quality) * (noise_var / len(draws.quality))
    active, a = posterior.active, posterior.v / noise_var
    if active.size:
        W = np.einsum("kj,kj->j", draws.whitened, draws.whitened) / len(draws.whitened)
        low, high = np.full(active.size, np.log(_LEAST)), np.full(active.size, np.log(_MOST))
        for _ in range(40):
            middle = 0.5 * (low + high)
            s = np.exp(middle)
            rising = S[active] - s + 2 * a * s * s / (1 + a * s) - W * a * s * s > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        S[active] = np.exp(0.5 * (low + high))
    return np.asarray(np.maximum(S, _LEAST))


def _largest(matrix: Matrix, size: int, rng: np.random.RandomState) -> float:
    """Bound of the largest eigenvalue of the Gram matrix, by power iterations."""
    x = rng.standard_normal((1, size))
    value = 0.0
    for _ in range(_POWER):
        x /= np.linalg.norm(x)
        y = matrix.analyze(matrix.synthesize(x))
        value = float(np.linalg.norm(y))
        if value == 0:
            return 1.0
        x = y
    return _SLACK * value
