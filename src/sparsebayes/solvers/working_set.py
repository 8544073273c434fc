"""The default solver: screens of the whole dictionary, work on a few atoms, joint Newton steps.

1. Screen: S, Q and the gain of every atom. Only this touches the whole dictionary.
2. Work: add the best few candidates one at a time, each given those before it, on their small Gram
   matrix; then Newton steps on all active variances (and the noise), deleting as they go.
3. Exchange: greedy growth ends in one of many optima. Add to each active atom the atoms that
   would best replace it, raise all variances, let them compete under EM steps, converge again, and
   keep the result if it is better.

The noise is held at a fraction of the targets' power until the model has grown: estimated from the
start it would swallow the signal while the model is small.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtri

from sparsebayes.engine import (
    COLLINEAR,
    Breakdown,
    Screen,
    State,
    inverse_factor,
    refresh,
    screen,
    without_self,
)
from sparsebayes.hyperpriors import gain
from sparsebayes.problem import Problem, Progress, Report, Solution, Status, certify, empty_state
from sparsebayes.quadratic import Gram, Quadratic
from sparsebayes.solvers.newton import Noise, newton, uncoupled

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["solve"]

_HELD = 0.09  # noise held at (0.3 std)^2 while the model grows
_BATCH = 64  # candidates considered together after one screen
_STALE = 0.05  # an addition below this fraction of the first one waits for the next screen
_COARSE = 3.0  # nats left on the table while the noise is held, in a sample of a dictionary
_GROWN = 0.3  # the same in the whole of a small one
_FIXED = 0.03  # a given noise below this fraction of the power is approached from above
_ROUGH = 0.05  # nats left on the table while structure is still changing
_ROUGH_LARGE = 0.2  # the same in a large dictionary
_FINE = 1e-3  # nats left on the table where optima are compared
_MARGIN = 0.02  # nats by which an exchange must be better to be kept
_WORTHWHILE = 0.2  # nats that an exchange must gain for another round of them
_RELATIVE = 2e-3  # the same for a large dictionary, relative to what the model explains
_SMOOTH = 1.0  # median loss of the best swaps, in nats, below which atoms slide
_COUPLING = 0.05  # squared posterior correlation up to which atoms may be swapped together
_EXCHANGES = ((10.0, 0.5), (1e5, 1.0))  # raise of variances, cut of an estimated noise
_LAX = 0.02  # Newton steps stop when they promise this fraction of the best pending gain
_DENSE = 400  # atoms up to which the whole Gram matrix is computed at once
_SAMPLE = 384  # atoms that structure is sought in, of a larger dictionary
_PARTNERS = 4  # replacements tried for each active atom
_CROWD = 800  # atoms that may compete in one exchange
_EM_STEPS = 15
_ROUNDS = 12


@dataclass
class _Run:
    """One fit: the problem, and what has been spent."""

    problem: Problem
    max_iter: int
    report: Report | None
    large: bool  # structure is sought in a sample of the dictionary
    iterations: int = 0
    trace: list[Progress] = field(default_factory=list)

    @property
    def exhausted(self) -> bool:
        return self.iterations >= self.max_iter

    @property
    def rough(self) -> float:
        return _ROUGH_LARGE if self.large else _ROUGH

    def note(self, phase: str, state: State, max_gain: float) -> None:
        line = Progress(
            phase, self.iterations, state.active.size, state.objective, state.noise_var, max_gain
        )
        self.trace.append(line)
        if self.report is not None:
            self.report(line)

    def newton(
        self, active: IndexArray, v: FloatArray, noise: Noise, tol: float, escape: bool = False
    ) -> State:
        """Newton steps on the variances of ``active`` and, if it is estimated, the noise."""
        budget = max(1, min(100, self.max_iter - self.iterations))
        gram, hyperprior = self.problem.quad.gram(active), self.problem.hyperprior
        end = newton(gram, hyperprior, v, noise, tol=tol, max_steps=budget, escape=escape)
        self.iterations += end.steps + 1
        return State(active[end.kept], end.v, end.noise_var, end.white, end.objective)


def solve(
    problem: Problem,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    n_restarts: int = 0,
    random_state: np.random.RandomState | None = None,
    start: tuple[IndexArray, FloatArray, float] | None = None,
    report: Report | None = None,
) -> Solution:
    """Maximise the objective over all atoms, their variances and the noise.

    Parameters
    ----------
    problem : Problem
        The problem.
    tol : float, default=1e-6
        Largest gain, in nats, that the certificate leaves on the table.
    max_iter : int, default=10_000
        Most Newton steps in all.
    n_restarts : int, default=0
        Further random exchanges, each followed to its optimum; the best is kept.
    random_state : RandomState or None
        Source of the random exchanges.
    start : tuple of (active, v, noise_var) or None
        Where to start, for a warm start.
    report : callable or None
        Called with a `Progress` after every screen.

    Returns
    -------
    Solution
        State, status, certificate and trace.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.hyperpriors import Flat
    >>> from sparsebayes.quadratic import Gram
    >>> gram = Gram(np.eye(3), np.array([[3.0], [0.1], [-4.0]]), tt=30.0, n=10.0, spread=1.0)
    >>> solution = solve(Problem(gram, Flat(), noise_var=1.0))
    >>> sorted(solution.state.active.tolist()), solution.status.name
    ([0, 2], 'CONVERGED')
    """
    if problem.quad.size <= _DENSE:
        problem = replace(problem, quad=problem.quad.gram(np.arange(problem.quad.size)))
    run = _Run(problem, max_iter, report, large=problem.quad.size > 2 * _SAMPLE)
    rng = np.random.RandomState(0) if random_state is None else random_state
    noise = problem.noise(_HELD)
    good = empty_state(problem, problem.noise().var)
    try:
        if start is not None:
            noise = noise._replace(var=noise.var if not noise.estimated else start[2])
            good = refresh(problem.quad, problem.hyperprior, start[0], start[1], noise.var)
        else:
            good = _explore(run, noise, max(noise.var, _FIXED * problem.power), rng)
        good = _restarts(run, good, noise, n_restarts, rng)
        return _finish(run, good, noise, tol)
    except Breakdown:
        return _solution(replace(run, problem=problem), good, noise, Status.BREAKDOWN, tol)


def _explore(run: _Run, noise: Noise, held_var: float, rng: np.random.RandomState) -> State:
    """Find the structure: grow with the noise held, release it, exchange.

    With a large dictionary this is done on a sample of it whose Gram matrix is small: atoms that
    correlate with the targets, and atoms drawn at random for what only shows later.
    """
    quad = run.problem.quad
    sample = None
    if run.large:
        sample = _sample(quad, rng)
        run.problem = replace(run.problem, quad=quad.gram(sample))
    state = empty_state(run.problem, held_var)
    if noise.estimated or held_var != noise.var:
        held = Noise(held_var, False, noise.floor)
        state = _climb(run, state, held, _COARSE if run.large else _GROWN, "grow")
    state = _climb(run, state, noise, run.rough, "climb")
    if sample is not None:
        run.problem = replace(run.problem, quad=quad)
        active = sample[state.active]
        state = refresh(quad, run.problem.hyperprior, active, state.v, state.noise_var)
        state = _climb(run, state, noise, run.rough, "climb")
    return _exchange_rounds(run, state, noise, run.rough)


def _sample(quad: Quadratic, rng: np.random.RandomState) -> IndexArray:
    power = np.einsum("ij,ij->i", quad.g, quad.g)
    best = np.argpartition(-power, _SAMPLE // 2)[: _SAMPLE // 2]
    rest = np.setdiff1d(np.flatnonzero(quad.diag), best)
    drawn = rng.choice(rest, min(_SAMPLE - best.size, rest.size), replace=False)
    return np.sort(np.concatenate([best, drawn]))


def _climb(run: _Run, state: State, noise: Noise, tol: float, phase: str) -> State:
    """Screen, add and converge until no candidate gains more than ``tol``.

    A candidate whose promised gain did not come true is collinear with the model beyond what
    float64 resolves; it is left out until something else has changed the model.
    """
    problem = run.problem
    barred: list[IndexArray] = []
    start = _at(noise, state)
    if state.active.size or noise.estimated:
        state = run.newton(state.active, state.v, start, tol=max(tol, 1e-3))
    elif start.var != state.noise_var:
        state = empty_state(problem, start.var)
    while not run.exhausted:
        statistics = screen(problem.quad, problem.hyperprior, state)
        gains = statistics.gains.copy()
        gains[state.active] = 0.0
        for failed in barred:
            gains[failed] = 0.0
        best = float(gains.max(initial=0.0))
        run.note(phase, state, best)
        if best <= tol:
            break
        added, v_added = _additions(problem, state, statistics, gains, tol)
        active = np.concatenate([state.active, added])
        v = np.concatenate([state.v, v_added])
        try:
            climbed = run.newton(active, v, _at(noise, state), tol=max(_LAX * best, 1e-11))
        except Breakdown:
            climbed = state
        if climbed.objective > state.objective + 0.01 * tol:
            state, barred = climbed, []
        else:
            barred.append(added)
    return state


def _at(noise: Noise, state: State) -> Noise:
    """The noise to go on from: an estimated one where the state has it, a given one as given."""
    return noise._replace(var=state.noise_var) if noise.estimated else noise


def _additions(
    problem: Problem, state: State, statistics: Screen, gains: FloatArray, tol: float
) -> tuple[IndexArray, FloatArray]:
    """Exact greedy additions among the best candidates, the other variances held.

    R = Phi_c' C^-1 Phi_c and r = Phi_c' C^-1 t of the candidates change by one outer product when
    one of them enters, so each addition is scored given those before it.
    """
    hyperprior, n_targets = problem.hyperprior, problem.n_targets
    noise_var = state.noise_var
    count = min(_BATCH, gains.size)
    top = np.argpartition(-gains, count - 1)[:count]
    top = top[gains[top] > tol]
    top = top[np.argsort(-gains[top], kind="stable")]
    X = statistics.X[:, top]
    R = (problem.quad.gram(top).G - X.T @ X) / noise_var
    r = statistics.Q[top].copy()
    own = problem.quad.diag[top] * (COLLINEAR / noise_var)
    free = np.ones(top.size, dtype=np.bool_)
    chosen: list[int] = []
    variances: list[float] = []
    first = 0.0
    while True:
        s = R.diagonal()
        usable = free & (s > own)
        s = np.where(usable, s, 1.0)
        q2 = np.where(usable, np.einsum("ij,ij->i", r, r), 0.0)
        v = hyperprior.best_variance(s, q2, noise_var, n_targets)
        worth = gain(hyperprior, s, q2, v, noise_var, n_targets)
        j = int(np.argmax(worth))
        if worth[j] <= tol or worth[j] < _STALE * first:
            break
        first = first or float(worth[j])
        chosen.append(j)
        variances.append(float(v[j]))
        free[j] = False
        column = R[:, j] * (v[j] / (1.0 + v[j] * s[j]))
        r -= np.outer(column, r[j])
        R -= np.outer(column, R[j])
    return top[chosen], np.array(variances)


class _Exchange(NamedTuple):
    """How an exchange is done."""

    raised: float  # factor on all variances
    cut: float  # factor on an estimated noise
    partners: int  # atoms brought in for each active one
    rough: float  # nats to converge to


def _exchange_rounds(run: _Run, state: State, noise: Noise, rough: float) -> State:
    """Exchange atoms for others that serve better, as long as it is worth the time.

    Where most active atoms have a neighbor that would do almost as well, the landscape is smooth
    and they slide to better places by swaps; where they have none it is rugged, and only many
    atoms in competition find a better optimum.
    """
    worthwhile, patience = _WORTHWHILE, 2
    if run.large:
        explained = state.objective - empty_state(run.problem, run.problem.power).objective
        worthwhile, patience = max(_WORTHWHILE, _RELATIVE * explained), 1
    if state.active.size:
        swaps = _swaps(run.problem, state)
        if float(np.median(swaps.loss)) < _SMOOTH:
            return _slide(run, state, noise, rough, swaps, worthwhile)
    failed = 0
    for turn in range(_ROUNDS):
        if failed == patience or run.exhausted:
            break
        raised, cut = _EXCHANGES[turn % len(_EXCHANGES)]
        failed += 1
        trial = _exchange(run, state, noise, _Exchange(raised, cut, _PARTNERS, rough))
        if trial is not None and _better(run.problem, trial, state):
            if trial.objective > state.objective + worthwhile:
                failed = 0
            state = trial
    return state


class _Swaps(NamedTuple):
    """For each active atom, the exact effect of its best replacement, other variances held."""

    loss: FloatArray  # (m,) nats lost by the swap; negative is a gain
    partner: IndexArray  # (m,) the atom that would replace it
    v: FloatArray  # (m,) its variance


def _swaps(problem: Problem, state: State) -> _Swaps:
    S, Q2, usable = _swap_table(problem, state, screen(problem.quad, problem.hyperprior, state))
    # The best partner has the largest q^2 / s; its own variance and gain are found only then.
    partner = np.argmax(np.where(usable, Q2 / np.where(usable, S, 1.0), 0.0), axis=1)
    rows = np.arange(partner.size)
    s, q2 = np.where(usable, S, 1.0)[rows, partner], np.where(usable, Q2, 0.0)[rows, partner]
    hyperprior, noise_var, n_targets = problem.hyperprior, state.noise_var, problem.n_targets
    v = hyperprior.best_variance(s, q2, noise_var, n_targets)
    own_s, own_q2 = without_self(state.v, state.white)
    worth = gain(hyperprior, own_s, own_q2, state.v, noise_var, n_targets)
    return _Swaps(worth - gain(hyperprior, s, q2, v, noise_var, n_targets), partner, v)


def _slide(
    run: _Run, state: State, noise: Noise, rough: float, swaps: _Swaps, worthwhile: float
) -> State:
    """Swap atoms for better neighbors, many at a time, until it gains little."""
    for _ in range(_ROUNDS):
        gaining = np.where((swaps.loss < -_MARGIN) & (swaps.v > 0), swaps.loss, np.inf)
        movers = uncoupled(state.white.W, gaining, _COUPLING)
        _, first = np.unique(swaps.partner[movers], return_index=True)
        chosen = np.array(movers, dtype=np.intp)[first]
        if chosen.size == 0 or run.exhausted:
            break
        active, v = state.active.copy(), state.v.copy()
        active[chosen], v[chosen] = swaps.partner[chosen], swaps.v[chosen]
        try:
            moved = run.newton(active, v, _at(noise, state), tol=rough)
            trial = _climb(run, moved, noise, rough, "slide")
        except Breakdown:
            break
        if not _better(run.problem, trial, state):
            break
        small = trial.objective < state.objective + worthwhile
        state = trial
        if small or not state.active.size:
            break
        swaps = _swaps(run.problem, state)
    return state


def _better(problem: Problem, trial: State, state: State) -> bool:
    """Whether ``trial`` is the better optimum: evidence does not order models that collapse."""
    collapsed = problem.is_collapsed(trial), problem.is_collapsed(state)
    if collapsed[0] != collapsed[1]:
        return collapsed[1]
    return trial.objective > state.objective + _MARGIN


def _exchange(run: _Run, state: State, noise: Noise, how: _Exchange) -> State | None:
    """Let every active atom compete with the atoms that would best replace it."""
    try:
        return _competed(run, state, noise, how)
    except Breakdown:  # raised variances can leave float64's range: this exchange is not possible
        return None


def _competed(run: _Run, state: State, noise: Noise, how: _Exchange) -> State:
    problem, rough = run.problem, how.rough
    partners = min(how.partners, _CROWD // max(state.active.size, 1) - 1)
    if partners < 1:
        return state
    extra, v_extra = _replacements(problem, state, partners)
    active = np.concatenate([state.active, extra])
    v = np.concatenate([state.v, v_extra]) * how.raised
    noise_var = max(state.noise_var * how.cut, noise.floor) if noise.estimated else state.noise_var
    gram = problem.quad.gram(active)
    for _ in range(_EM_STEPS if active.size else 0):
        d, power = _spread(gram, v, noise_var)
        v = v * (power / problem.n_targets + d)  # Tipping 2001, EM update: mu^2 + Sigma_jj
        keep = np.flatnonzero(v > 1e-6 * noise_var)
        if keep.size < v.size:
            gram, v, active = gram.gram(keep), v[keep], active[keep]
    run.iterations += _EM_STEPS
    trial = refresh(problem.quad, problem.hyperprior, active, v, noise_var)
    if noise.estimated:
        held = Noise(noise_var, False, noise.floor)
        trial = _climb(run, trial, held, rough, "exchange")
    return _climb(run, trial, noise, rough, "exchange")


def _spread(gram: Gram, v: FloatArray, noise_var: float) -> tuple[FloatArray, FloatArray]:
    """Diagonal of W and squares of z, summed over targets: all that EM needs of a posterior."""
    root = np.sqrt(v / noise_var)
    B = gram.G * root
    B *= root[:, None]
    B.ravel()[:: v.size + 1] += 1.0
    L, info = dpotrf(B.T, lower=1, clean=1, overwrite_a=1)
    if info != 0:
        raise Breakdown
    inverse, _ = dtrtri(L, lower=1, overwrite_c=1)
    z = inverse.T @ (inverse @ (gram.g * (root / np.sqrt(noise_var))[:, None]))
    return np.einsum("ij,ij->j", inverse, inverse), (z * z).sum(axis=1)


def _swap_table(
    problem: Problem, state: State, statistics: Screen
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """S, squared Q and usability of every atom in the place of each active one: m x M tables.

    With V = H_.a Sigma, deleting j gives atom m the statistics S_m + V_mj^2 / Sigma_jj and
    Q_m + mu_j V_mj / Sigma_jj (T&F eqs. 40, 41): all swaps j -> m are scored exactly.
    """
    quad, noise_var, white = problem.quad, state.noise_var, state.white
    d = white.W.diagonal()
    Y = inverse_factor(white).T @ statistics.X  # (m, M): V = Y' sqrt(v / noise)
    lever = Y / (np.sqrt(noise_var) * d)[:, None]
    Q2 = np.einsum("ij,ij->i", statistics.Q, statistics.Q) + lever * (
        2.0 * (white.z @ statistics.Q.T) + lever * np.einsum("ij,ij->i", white.z, white.z)[:, None]
    )
    Y *= Y
    Y /= (noise_var * d)[:, None]
    S = statistics.S + Y
    usable = S * noise_var > COLLINEAR * quad.diag
    usable[:, state.active] = False
    return S, Q2, usable


def _replacements(problem: Problem, state: State, partners: int) -> tuple[IndexArray, FloatArray]:
    """For each active atom, the atoms that would serve best in its place, and variances."""
    quad = problem.quad
    statistics = screen(quad, problem.hyperprior, state)
    if not state.active.size:  # several atoms may help where none does alone
        return _promising(quad, statistics, state.noise_var)
    S, Q2, usable = _swap_table(problem, state, statistics)
    score = np.where(usable, Q2 / np.where(usable, S, 1.0), -1.0)
    count = min(partners, quad.size)
    best = np.argpartition(-score, count - 1, axis=1)[:, :count]
    rows = np.repeat(np.arange(len(score)), count)
    chosen = best.ravel()
    extra = np.unique(chosen[score[rows, chosen] > 0])
    partner = np.argmax(score[:, extra], axis=0)
    return extra, state.v[partner]


def _promising(
    quad: Quadratic, statistics: Screen, noise_var: float
) -> tuple[IndexArray, FloatArray]:
    q2 = np.einsum("ij,ij->i", statistics.Q, statistics.Q)
    count = min(_BATCH, quad.size)
    best = np.argpartition(-q2, count - 1)[:count]
    best = best[q2[best] > 0]
    return best, np.full(best.size, noise_var)


def _restarts(
    run: _Run, state: State, noise: Noise, n_restarts: int, rng: np.random.RandomState
) -> State:
    """Random exchanges from the best optimum so far, and fresh explorations, in turn."""
    if n_restarts:
        state = _climb(run, state, noise, _FINE, "restart")
    for restart in range(n_restarts):
        if run.exhausted:
            break
        trial: State | None
        if restart % 2:
            trial = _fresh(run, noise, noise.var * 4.0 ** rng.uniform(-1, 1), rng)
        else:
            raised, cut = 10.0 ** rng.uniform(0, 5), 2.0 ** -float(rng.randint(0, 3))
            how = _Exchange(raised, cut, int(rng.randint(2, 7)), run.rough)
            trial = _exchange(run, state, noise, how)
        if trial is None:
            continue
        trial = _climb(run, trial, noise, _FINE, "restart")
        if _better(run.problem, trial, state):
            state = _exchange_rounds(run, trial, noise, _FINE)
    return state


def _fresh(run: _Run, noise: Noise, held_var: float, rng: np.random.RandomState) -> State | None:
    problem = run.problem
    try:
        return _explore(run, noise, held_var, rng)
    except Breakdown:
        return None
    finally:
        run.problem = problem  # an exploration works on a sample of it


def _finish(run: _Run, state: State, noise: Noise, tol: float) -> Solution:
    """Converge tightly, from definitions, until the certificate holds."""
    problem = run.problem
    previous = -np.inf
    while True:
        state = _climb(run, state, noise, tol, "finish")
        state = run.newton(state.active, state.v, _at(noise, state), tol=1e-11, escape=True)
        state = refresh(problem.quad, problem.hyperprior, state.active, state.v, state.noise_var)
        certificate, _ = certify(problem, state, noise)
        run.note("certify", state, certificate.max_gain)
        if certificate.holds(tol):
            return _solution(run, state, noise, Status.CONVERGED, tol)
        if run.exhausted:
            return _solution(run, state, noise, Status.MAX_ITER, tol)
        if state.objective <= previous + 1e-12 * abs(state.objective):
            return _solution(run, state, noise, Status.STALLED, tol)
        previous = state.objective


def _solution(run: _Run, state: State, noise: Noise, ended: Status, tol: float) -> Solution:
    """Certify a state, over the whole dictionary, and say how the fit ended."""
    certificate, _ = certify(run.problem, state, noise)
    return Solution(
        state,
        noise._replace(var=state.noise_var),
        run.problem.verdict(state, noise, ended),
        certificate,
        ended is Status.CONVERGED,
        run.iterations,
        tuple(run.trace),
    )
