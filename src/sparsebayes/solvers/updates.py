"""Fixed-point updates of variances and noise: EM and MacKay's (Tipping 2001, appendix A).

Both maximize -count/2 log v - moment / (2 v) plus the log hyperprior for each atom, the posterior
held. In EM a count is the number of targets and a moment mu^2 + Sigma_jj, summed over them; that
is the expected log likelihood of targets and weights together, so the objective never falls. In
MacKay's rule a count is the degrees of freedom and a moment mu^2, which is faster and promises
nothing. Under `Flat` and `Gamma` the maximum is a formula; under any other hyperprior it is climbed
to from where the variance is, the noise after the variances (a generalized EM step).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sparsebayes.core.quadratic import Gram
from sparsebayes.engine import Whitened
from sparsebayes.hyperpriors import Flat, Gamma, Hyperprior
from sparsebayes.solvers.newton import Noise

FloatArray = NDArray[np.float64]

__all__ = ["Updated", "em", "mackay", "noise_given_dof"]

_CLIMB_STEPS = 50
_LONGEST = 2.0  # step in a log parameter
_SHORTEST = 1e-9
_HALVINGS = 20
_FARTHEST = 50.0  # in the log noise
_EPS = float(np.finfo(float).eps)


class Updated(NamedTuple):
    """What an update gives."""

    v: FloatArray  # (m,) variances of unit-norm atoms
    noise_var: float


class _Moments(NamedTuple):
    """What a posterior says of each atom, summed over targets or over its columns."""

    power: FloatArray  # (m,) squared means, in units of the atom's variance
    dof: FloatArray  # (m,)
    terms: int  # of each sum


def _moments(gram: Gram, white: Whitened) -> _Moments:
    n_targets = gram.g.shape[1]
    power = np.einsum("ij,ij->i", white.z, white.z)
    dof = n_targets * np.maximum(1.0 - white.W.diagonal(), 0.0)
    if gram.group == 1:
        return _Moments(power, dof, n_targets)
    shape = (-1, gram.group)
    return _Moments(power.reshape(shape).sum(axis=1), dof.reshape(shape).sum(axis=1), gram.group)


def em(gram: Gram, hyperprior: Hyperprior, v: FloatArray, noise: Noise, white: Whitened) -> Updated:
    """One step of EM on all variances and, if it is estimated, the noise; it climbs."""
    power, dof, terms = _moments(gram, white)
    second = v * (power + (terms - dof))  # sums of mu^2 + Sigma_jj
    v_new = _best_variances(hyperprior, v, noise.var, second, np.full(v.shape, float(terms)))
    if not noise.estimated:
        return Updated(v_new, noise.var)
    n_targets = gram.g.shape[1]
    second_noise = white.residual + noise.var * float(dof.sum())
    noise_new = second_noise / (n_targets * gram.n)
    if not isinstance(hyperprior, Flat | Gamma):

        def of_noise(var: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            slope = hyperprior.log_derivatives(v_new, float(var[0]))
            density = hyperprior.log_density(v_new, float(var[0]))
            sums = (np.sum(np.broadcast_to(each, v_new.shape)) for each in (slope[2], slope[4]))
            first, second = (np.array([each]) for each in sums)
            return np.array([density.sum()]), first, second

        start, moment = np.array([noise.var]), np.array([second_noise])
        count = np.array([n_targets * gram.n])
        noise_new = float(_climbed(start, moment, count, of_noise)[0])
    return Updated(v_new, max(noise_new, noise.floor))


def mackay(
    gram: Gram, hyperprior: Hyperprior, v: FloatArray, noise: Noise, white: Whitened
) -> Updated:
    """One of MacKay's steps, at rest where there is no gradient; the objective may fall."""
    power, dof, _ = _moments(gram, white)
    v_new = _best_variances(hyperprior, v, noise.var, v * power, np.maximum(dof, _EPS))
    n_targets = gram.g.shape[1]
    free = n_targets * gram.n - float(dof.sum())
    return Updated(v_new, noise_given_dof(hyperprior, v_new, noise, white.residual, free))


def noise_given_dof(
    hyperprior: Hyperprior, v: FloatArray, noise: Noise, misfit: float, free: float
) -> float:
    """The noise variance that explains a misfit, with so many degrees of freedom left over.

    Solves misfit / noise + 2 d(log hyperprior)/d(log noise) = free for the noise (S&E eq. 36,
    corrected): without the term of the prior it is MacKay's formula, and step 9 of T&F. ``misfit``
    is |t - Phi mu|^2 over all targets, ``free`` the number of targets times (N - sum of dof).
    """
    if not noise.estimated:
        return noise.var
    free = max(free, _EPS)
    flat = misfit / free
    if isinstance(hyperprior, Flat | Gamma) or flat <= noise.floor:
        return max(flat, noise.floor)

    def excess(log_noise: float) -> float:
        noise_var = float(np.exp(log_noise))
        prior = np.broadcast_to(hyperprior.log_derivatives(v, noise_var).rho, v.shape)
        return misfit / noise_var + 2 * float(prior.sum()) - free

    low = high = float(np.log(flat))
    if abs(excess(low)) <= 1e-12 * free:
        return flat
    farthest = low + _FARTHEST
    while excess(high) > 0 and high < farthest:
        high += 1.0
    least = float(np.log(max(noise.floor, 1e-300)))
    while excess(low) < 0 and low > least:
        low -= 1.0
    if excess(low) < 0 or excess(high) > 0:  # a prior that wants no noise, or nothing else
        return max(float(np.exp(low if excess(low) < 0 else high)), noise.floor)
    return max(float(np.exp(brentq(excess, low, high, xtol=1e-14))), noise.floor)


def _best_variances(
    hyperprior: Hyperprior, v: FloatArray, noise_var: float, moment: FloatArray, count: FloatArray
) -> FloatArray:
    """Maximize -count/2 log v - moment / (2 v) plus the log hyperprior, atom by atom."""
    if isinstance(hyperprior, Flat):
        return moment / count
    if isinstance(hyperprior, Gamma):
        return (moment + 2.0 * hyperprior.b) / (count + 2.0 * hyperprior.a)

    def prior(v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        slope = hyperprior.log_derivatives(v, noise_var)
        return hyperprior.log_density(v, noise_var), slope.u, slope.uu

    return _climbed(v, moment, count, prior)


def _climbed(
    start: FloatArray,
    moment: FloatArray,
    count: FloatArray,
    prior: Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]],
) -> FloatArray:
    """Climb -count/2 log x - moment / (2 x) + prior(x) from ``start``, each entry by itself.

    ``prior`` gives the logarithm of a density and its two derivatives in log x. Newton's steps,
    each shortened until it climbs: what is reached is never below the start.
    """
    u = np.log(start)

    def look(u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        x = np.exp(u)
        value, slope, bend = prior(x)
        pull = 0.5 * moment / x
        return value - 0.5 * count * u - pull, slope - 0.5 * count + pull, bend - pull

    value, slope, bend = look(u)
    done = np.zeros(u.shape, dtype=np.bool_)
    for _ in range(_CLIMB_STEPS):
        step = np.clip(slope / np.maximum(np.abs(bend), 1e-12), -_LONGEST, _LONGEST)
        done |= np.abs(step) < _SHORTEST
        todo = ~done
        for _ in range(_HALVINGS):
            if not todo.any():
                break
            there = look(np.where(todo, u + step, u))
            rises = todo & (there[0] > value)
            u = np.where(rises, u + step, u)
            value, slope, bend = (
                np.where(rises, new, old)
                for new, old in zip(there, (value, slope, bend), strict=True)
            )
            todo &= ~rises
            step = 0.5 * step
        done |= todo  # no step rises: what is left is rounding
        if done.all():
            break
    return np.exp(u)
