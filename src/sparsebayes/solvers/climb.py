"""Screen, add and converge: how the working-set solver climbs from any state.

A screen scores every atom of the dictionary. The best few candidates enter one at a time, each
given those before it, on their small Gram matrix; then Newton steps move all active variances (and
the noise), deleting as they go.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sparsebayes._hyperprior import is_flat, lets_out
from sparsebayes.core.quadratic import members
from sparsebayes.engine import Breakdown, Screen, State, screen
from sparsebayes.hyperpriors import Hyperprior, best_variance, gain
from sparsebayes.problem import Problem, Progress, Report, empty_state
from sparsebayes.solvers.newton import Noise, newton
from sparsebayes.solvers.swaps import SwapTable, swap_table

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Run", "additions", "climb", "resume_noise"]

_BATCH = 64  # candidates considered together after one screen
_STALE = 0.05  # an addition below this fraction of the first one waits for the next screen
_ROUGH = 0.05  # nats left on the table while structure is still changing
_ROUGH_LARGE = 0.2  # the same in a large dictionary
_SHORTCUT = 4  # additions, or batches of them, after which a shortcut is sought
_LEAPS = 100  # of atoms to the other maximum of their worth, between additions
_COARSE, _DIGITS = 1e-3, 2.0**12  # Newton tolerance from which on variances are rounded first
_LAX = 0.1  # Newton steps stop when they promise this fraction of the best pending gain


# From the account, the state some additions ago, the state, the noise and the tolerance.
Shortcut = Callable[["Run", State, State, Noise, float], State]


@dataclass
class Run:
    """One fit: the problem, and what has been spent."""

    problem: Problem
    max_iter: int
    report: Report | None
    large: bool  # structure is sought in a sample of the dictionary
    sharp: bool = False  # atoms nearly in the span of the model are told from it (`engine.screen`)
    phase: str = "climb"  # what the search does, for the trace
    iterations: int = 0
    trace: list[Progress] = field(default_factory=list)
    _screened: tuple[Problem, State, Screen] | None = None
    _swaps: SwapTable | None = None  # of the state that was screened last

    @property
    def exhausted(self) -> bool:
        """Whether max_iter is used up."""
        return self.iterations >= self.max_iter

    @property
    def rough(self) -> float:
        """Nats left on the table while structure is still changing."""
        return _ROUGH_LARGE if self.large else _ROUGH

    def note(self, phase: str, state: State, max_gain: float) -> None:
        """Add a line to the trace and report it."""
        line = Progress(
            phase, self.iterations, state.active.size, state.objective, state.noise_var, max_gain
        )
        self.trace.append(line)
        if self.report is not None:
            self.report(line)

    def screen(self, state: State) -> Screen:
        """Screen the dictionary, unless this very state is the last that was screened."""
        last = self._screened
        if (
            last is None
            or last[0] is not self.problem
            or last[1].v is not state.v
            or last[1].noise_var != state.noise_var
            or not np.array_equal(last[1].active, state.active)
        ):
            quad = self.problem.quad
            self._screened = self._swaps = None  # as large as a few columns of G: not two of them
            statistics = screen(quad, self.problem.hyperprior, state, sharp=self.sharp)
            last = self._screened = self.problem, state, statistics
        return last[2]

    def swap_table(self, state: State) -> SwapTable:
        """Score all swaps of active atoms for others, unless that is known of this very state."""
        statistics = self.screen(state)
        if self._swaps is None:
            self._swaps = swap_table(self.problem, state, statistics)
        return self._swaps

    def newton(
        self, active: IndexArray, v: FloatArray, noise: Noise, tol: float, escape: bool = False
    ) -> State:
        """Newton steps on the variances of ``active`` and, if it is estimated, the noise."""
        budget = max(1, min(100, self.max_iter - self.iterations))
        gram, hyperprior = self.problem.quad.gram(active), self.problem.hyperprior
        if tol > _COARSE:  # rounding of sums must not grow from step to step until it decides
            if noise.estimated and self.problem.power > 0:  # in units that no scale changes
                power = self.problem.power
                noise = noise._replace(var=float(_rounded(np.array(noise.var / power))) * power)
            v = _rounded(v / noise.var) * noise.var
        end = newton(gram, hyperprior, v, noise, tol=tol, max_steps=budget, escape=escape)
        self.iterations += end.steps + 1
        return State(active[end.kept], end.v, end.noise_var, end.white, end.objective)


def _rounded(x: FloatArray) -> FloatArray:
    """Numbers to a few digits: where structure is sought, nobody needs more."""
    mantissa, exponent = np.frexp(x)
    return np.asarray(np.ldexp(np.rint(mantissa * _DIGITS), exponent) / _DIGITS)


def climb(
    run: Run,
    state: State,
    noise: Noise,
    tol: float,
    phase: str,
    shortcut: Shortcut | None = None,
) -> State:
    """Screen, add and converge until no candidate gains more than ``tol``.

    Every few additions a ``shortcut`` may lead on from where the state was before them and is now.
    A candidate whose promised gain did not come true is collinear with the model beyond what
    float64 resolves; it is left out until something else has changed the model.
    """
    problem = run.problem
    barred: list[IndexArray] = []
    start = resume_noise(noise, state)
    if state.active.size or noise.estimated:
        state = run.newton(state.active, state.v, start, tol=max(tol, 1e-3))
    elif start.var != state.noise_var:
        state = empty_state(problem, start.var)
    before, rounds = state, 0
    while not run.exhausted:
        rounds += 1
        if shortcut is not None and rounds % _SHORTCUT == 0:
            before, state = state, shortcut(run, before, state, noise, tol)
        statistics = run.screen(state)
        gains = statistics.gains.copy()
        if not lets_out(problem.hyperprior):
            state = _leapt(run, state, statistics, noise, tol)
        gains[state.active] = 0.0
        for failed in barred:
            gains[failed] = 0.0
        best = float(gains.max(initial=0.0))
        run.note(phase, state, best)
        if best <= tol:
            break
        added, v_added = additions(problem, state, statistics, gains, tol)
        active = np.concatenate([state.active, added])
        v = np.concatenate([state.v, v_added])
        try:
            climbed = run.newton(active, v, resume_noise(noise, state), tol=max(_LAX * best, 1e-11))
        except Breakdown:
            climbed = state
        # an objective without atoms that must be in is minus infinity, whatever the state says
        due = not lets_out(problem.hyperprior) and climbed.active.size > state.active.size
        if due or climbed.objective > state.objective + 0.01 * tol:
            state, barred = climbed, []
        else:
            barred.append(added)
    return state


def _leapt(run: Run, state: State, statistics: Screen, noise: Noise, tol: float) -> State:
    """Where a prior lets no atom out, its worth may have two maxima: move those at the lower one.

    One at a time, the best first; Newton steps would never cross the valley.
    """
    for _ in range(_LEAPS):
        own = statistics.gains[state.active]
        j = int(own.argmax()) if own.size else 0
        if run.exhausted or not own.size or own[j] <= tol:
            break
        v = state.v.copy()
        v[j] = statistics.v[state.active[j]]
        leapt = run.newton(state.active, v, resume_noise(noise, state), tol=max(_LAX * tol, 1e-11))
        if leapt.objective <= state.objective:
            break
        state = leapt
        statistics = run.screen(state)
    return state


def resume_noise(noise: Noise, state: State) -> Noise:
    """The noise to go on from: an estimated one where the state has it, a given one as given."""
    return noise._replace(var=state.noise_var) if noise.estimated else noise


def additions(
    problem: Problem, state: State, statistics: Screen, gains: FloatArray, tol: float
) -> tuple[IndexArray, FloatArray]:
    """Exact greedy additions among the best candidates, the other variances held.

    R = Phi_c' C^-1 Phi_c and r = Phi_c' C^-1 t of the candidates change by one outer product when
    one of them enters, so each addition is scored given those before it.
    """
    hyperprior, n_targets = problem.hyperprior, problem.n_targets
    noise_var, group = state.noise_var, problem.quad.group
    top = np.flatnonzero(gains > tol)
    if top.size > _BATCH:
        top = top[np.argpartition(-gains[top], _BATCH - 1)[:_BATCH]]
    top = top[np.argsort(-gains[top], kind="stable")]
    own = members(top, group)
    R = statistics.products(problem.quad, top)
    R /= noise_var
    r = statistics.Q[own]
    # S below which a candidate is of no use: collinear with the model, or already in it
    least = problem.quad.diag[own] * (statistics.least / noise_var)
    update = np.empty_like(R)
    chosen: list[int] = []
    variances: list[float] = []
    first = 0.0
    while True:
        s, q2 = _out_of_model(R, r, least, group)
        j, best, v = _best(hyperprior, s, q2, noise_var, n_targets, chosen)
        if best <= tol or best < _STALE * first:
            break
        first = first or best
        chosen.append(j)
        variances.append(v)
        entered = slice(j * group, (j + 1) * group)
        least[entered] = np.inf
        if group == 1:
            column = R[:, j] * (v / (1.0 + v * s[j]))
            r -= column[:, None] * r[j]
            np.multiply(column[:, None], R[j], out=update)
            R -= update
        else:
            inner = R[entered, entered] + np.eye(group) / v
            share = np.linalg.solve(inner, R[entered])  # (K, k)
            r -= share.T @ r[entered]
            R -= R[:, entered] @ share
    return top[chosen], np.array(variances)


def _best(
    hyperprior: Hyperprior,
    s: FloatArray,
    q2: FloatArray,
    noise_var: float,
    n_targets: int,
    chosen: list[int],
) -> tuple[int, float, float]:
    """The candidate that gains most, what it gains, and with which variance."""
    if is_flat(hyperprior) and s.ndim == 1:  # a gain rises with q2 / s: one is enough
        j = int((q2 / s).argmax())
        v = best_variance(hyperprior, s[j : j + 1], q2[j : j + 1], noise_var, n_targets)
        worth = gain(hyperprior, s[j : j + 1], q2[j : j + 1], v, noise_var, n_targets)
        return j, float(worth[0]), float(v[0])
    v = best_variance(hyperprior, s, q2, noise_var, n_targets)
    worth = gain(hyperprior, s, q2, v, noise_var, n_targets)
    worth[chosen] = 0.0  # where a prior lets no atom out, being in is worth something always
    j = int(worth.argmax())
    return j, float(worth[j]), float(v[j])


def _out_of_model(
    R: FloatArray, r: FloatArray, least: FloatArray, group: int
) -> tuple[FloatArray, FloatArray]:
    """Sparsity and squared quality of candidates; those in the span of the model have none."""
    if group == 1:
        s = R.diagonal()
        usable = s > least
        q2 = np.einsum("ij,ij->i", r, r)
        q2 *= usable
        return np.where(usable, s, 1.0), q2
    k = len(R) // group
    blocks = R.reshape(k, group, k, group)[np.arange(k), :, np.arange(k)]
    s, directions = np.linalg.eigh(blocks)
    q = np.einsum("akl,ak->al", directions, r.reshape(k, group))
    usable = s > least.reshape(k, group).max(axis=1, keepdims=True)
    return np.where(usable, s, 0.0), np.where(usable, q * q, 0.0)
