"""Descend: start from many atoms where growth from none has swallowed the signal.

Broad kernels that overlap explain a signal with large weights of either sign: many together, where
none gains anything alone. Growth then stops at once, with a signal that counts as noise. The model
in which some atoms share one variance shows it: its evidence depends on two numbers, and one
eigendecomposition gives it for all of them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import Breakdown, State, log_evidence_constant, log_hyperprior, refresh
from sparsebayes.hyperpriors import Hyperprior
from sparsebayes.problem import Problem
from sparsebayes.solvers.climb import Run, climb
from sparsebayes.solvers.draws import drawn
from sparsebayes.solvers.exchange import exchange_rounds, is_better, rearrange
from sparsebayes.solvers.newton import Noise

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Shared", "descended", "is_spent", "shared_variance"]

_CROWD = 100  # atoms that share a variance
_FEW = 20  # a model of more atoms has evidently grown
_CLOSE = 20.0  # nats by which their evidence may be below that of the model found
_WORTH = 1.0  # nats that the descent must gain
_SPENT = 0.5  # degrees of freedom per observation at which a model is on its way to collapse
_CUT = 0.5  # of the noise that they leave, or the model found: at it they have to explain more
_TRIES, _SMALLER = 3, 1e-2  # starts, and their variance each time that float64 cannot hold one
_RATIOS = np.logspace(-4, 10, 57)  # of their variance to the noise that are compared


class Shared(NamedTuple):
    """The best model of atoms that all have the same variance."""

    v: float
    noise_var: float
    objective: float


def shared_variance(
    gram: Gram, hyperprior: Hyperprior, noise: Noise, largest: bool = False
) -> Shared:
    """Give all atoms one variance: the best there is, with the noise that suits it.

    Parameters
    ----------
    gram : Gram
        The atoms.
    hyperprior : Hyperprior
        Prior of the variance.
    noise : Noise
        The noise, and whether it is estimated.
    largest : bool, default=False
        Whether to take the maximum of the largest variance where there are several: small ones
        explain a trend, large ones what is left of it.

    Returns
    -------
    Shared
        Variance, noise and objective, the best of some that are compared.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.hyperpriors import Flat
    >>> gram = Gram(np.eye(2), np.array([[3.0], [3.0]]), tt=30.0, n=12.0, spread=1.0)
    >>> shared_variance(gram, Flat(), Noise(1.0, False, 0.0)).v
    10.0
    """
    m, n_targets = gram.g.shape
    values, vectors = eigh(gram.G)
    values = np.maximum(values, 0.0)
    c2 = np.square(vectors.T @ gram.g).sum(axis=1)
    scaled = 1.0 + _RATIOS[:, None] * values
    explained = _RATIOS * (c2 / scaled).sum(axis=1)
    log_det = np.log(scaled).sum(axis=1)
    noise_vars = np.full(_RATIOS.size, noise.var)
    if noise.estimated:
        unexplained = (gram.tt - explained) / (n_targets * gram.n)
        noise_vars = np.maximum(unexplained, noise.floor)
    objective = np.array(
        [
            log_evidence_constant(gram, noise_var)
            + log_hyperprior(hyperprior, np.full(m, ratio * noise_var), noise_var)
            for ratio, noise_var in zip(_RATIOS, noise_vars, strict=True)
        ]
    )
    objective += 0.5 * (explained / noise_vars - n_targets * log_det)
    best = int(objective.argmax())
    if largest:
        best += int(np.flatnonzero(np.diff(objective[best:], prepend=-np.inf) > 0)[-1])
    noise_var = float(noise_vars[best])
    return Shared(float(_RATIOS[best]) * noise_var, noise_var, float(objective[best]))


def descended(run: Run, state: State, noise: Noise, rng: np.random.RandomState) -> State:
    """Start anew from atoms that share one variance, if they do about as well as the model found.

    Parameters
    ----------
    run : Run
        The fit, which has arrived at ``state``.
    state : State
        An optimum that was found before.
    noise : Noise
        The noise, and whether it is estimated.
    rng : RandomState
        Draws the atoms.

    Returns
    -------
    State
        ``state`` or a better one.
    """
    problem = run.problem
    atoms = np.flatnonzero(problem.quad.diag)
    if state.active.size > _FEW or problem.quad.group > 1 or not atoms.size or run.exhausted:
        return state
    if atoms.size > _CROWD:
        atoms = np.sort(drawn(problem.quad, _CROWD, rng))
    gram = problem.quad.gram(atoms)
    many = shared_variance(gram, problem.hyperprior, noise)
    if many.objective < state.objective - _CLOSE:
        return state
    held = noise._replace(estimated=False)
    if noise.estimated:
        least = max(_CUT * min(many.noise_var, state.noise_var), noise.floor)
        held = held._replace(var=least)
    v = shared_variance(gram, problem.hyperprior, held, largest=True).v
    trial = None
    for _ in range(_TRIES):
        try:
            trial = _sorted_out(run, atoms, v, held, noise)
            break
        except Breakdown:  # broad kernels with large variances are more than float64 can hold
            v *= _SMALLER
    if trial is None:
        return state
    if trial.objective < state.objective + _WORTH:
        return state
    trial = exchange_rounds(run, trial, noise, run.rough)
    better = is_better(problem, trial, state) and not is_spent(problem, trial)
    return trial if better else state


def is_spent(problem: Problem, state: State) -> bool:
    """Whether a model explains so much that it is on its way to collapse."""
    return float(state.dof.sum()) > _SPENT * problem.quad.n


def _sorted_out(run: Run, atoms: IndexArray, v: float, held: Noise, noise: Noise) -> State:
    """From atoms of one variance to a model of few, first with the noise held."""
    problem = run.problem
    active, variances = rearrange(run, atoms, np.full(atoms.size, v), held.var)
    trial = refresh(problem.quad, problem.hyperprior, active, variances, held.var)
    if noise.estimated:
        trial = climb(run, trial, held, run.rough, "descend")
    return climb(run, trial, noise, run.rough, "descend")
