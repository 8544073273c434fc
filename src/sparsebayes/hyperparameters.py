"""Draws of the variances and the noise of an active model, which a fit only maximizes over.

The target is the objective of the fit as a density of (log v, log noise). It does not fall to zero
where a variance does (the atom is out, the rest of the model stays), so it has no integral: every
variance is restricted to a factor of e^5 = 148 about its best one, and the noise to that factor
below its own. A Gibbs sampler goes from the best point, in many chains at once, until it drifts no
more:

    w | v, noise    normal, as the posterior of the weights
    noise | w       inverse gamma of shape T n / 2 and scale |t - Phi w|^2 / 2
    v_j | w         inverse gamma of shape T / 2 and scale |w_j|^2 / 2

the last two within their ranges, and corrected for a hyperprior by Metropolis steps; `Gamma`, which
is conjugate, adds to shape and scale. Laplace's approximation would be cheaper and is no good:
weakly supported atoms have nearly flat and skewed directions, and a collapsed noise is a corner.

Everything is measured in units of the best point, where v_j = 1 and noise = 1: what the data say is
then the matrix J = V^(1/2) G V^(1/2) / noise, recovered from the posterior of the weights, whose
precision is I + J, with the residual and its degrees of freedom.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtri, dtrtrs
from scipy.special import gammainc, gammaincinv

from sparsebayes._parameters import NotStorableError, decode, encode
from sparsebayes.hyperpriors import Flat, Gamma, Hyperprior

FloatArray = NDArray[np.float64]

__all__ = ["Draws", "Evidence", "Optimum", "draw", "weights_at"]

_REACH = float(np.exp(5.0))
_CHAINS = 64
_FEW = 24  # atoms up to which matrices of all chains are factorized in one go
_ROUND = 16  # sweeps between looks at the noise
_MOST_ROUNDS = 30
_DRIFT = 0.1  # from one round to the next, in standard deviations, that is none
_KEPT = 2  # of each chain
_APART = 8  # sweeps from one that is kept to the next
_SEED = 0


@dataclass(frozen=True)
class Evidence:
    """What it takes, beside the posterior of the weights, to score other variances and noises.

    Parameters
    ----------
    n : float
        Residual degrees of freedom of an empty model, as a `Quadratic` has them.
    residual : float
        Sum of squared residuals at the posterior mean, over all targets.
    noise_estimated : bool
        Whether the noise variance was estimated; a given one is certain.
    hyperprior : Hyperprior or None
        Prior of the variances; None if it was one that a model file cannot hold.

    Examples
    --------
    >>> Evidence(9.0, 2.5, True, Flat()).to_spec()["n"]
    9.0
    """

    n: float
    residual: float
    noise_estimated: bool
    hyperprior: Hyperprior | None

    def to_spec(self) -> dict[str, Any]:
        """Describe it by a dict that JSON can hold.

        Returns
        -------
        dict
            For `from_spec`.
        """
        try:
            hyperprior = encode(self.hyperprior)
        except NotStorableError:
            hyperprior = None
        return {
            "n": float(self.n),
            "residual": float(self.residual),
            "noise_estimated": self.noise_estimated,
            "hyperprior": hyperprior,
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> "Evidence":
        """Rebuild what `to_spec` described; a ValueError for anything unexpected.

        Parameters
        ----------
        spec : dict
            From `to_spec`.

        Returns
        -------
        Evidence
            The same.
        """
        n, residual = float(spec["n"]), float(spec["residual"])
        hyperprior = decode(spec["hyperprior"])
        numbers = np.isfinite(n) and n > 0 and np.isfinite(residual) and residual >= 0
        if not numbers or not isinstance(spec["noise_estimated"], bool):
            raise ValueError("stored posterior: what is kept of the evidence is malformed")
        if hyperprior is not None and not isinstance(hyperprior, Hyperprior):
            raise ValueError("stored posterior: its hyperprior is none")
        return cls(n, residual, spec["noise_estimated"], hyperprior)


class Optimum(NamedTuple):
    """The best point of a fit, and what the data say about others, in its own units."""

    J: FloatArray  # (m, m) precision of the weights that comes from the data
    x: FloatArray  # (m, T) posterior mean
    residual: float
    n: float
    noise_estimated: bool
    hyperprior: Hyperprior
    v: FloatArray  # (m,) the variances that are one here
    noise_var: float  # the noise variance that is

    @classmethod
    def of(
        cls,
        mean: FloatArray,
        root: FloatArray,
        v: FloatArray,
        noise_var: float,
        evidence: Evidence,
        hyperprior: Hyperprior,
    ) -> "Optimum":
        """Recover it from a posterior.

        Parameters
        ----------
        mean : ndarray of shape (m, T)
            Posterior mean of the weights.
        root : ndarray of shape (m, m) or (m,)
            Root of their covariance, or of its diagonal.
        v : ndarray of shape (m,)
            Prior variances.
        noise_var : float
            Noise variance.
        evidence : Evidence
            What else is known.
        hyperprior : Hyperprior
            Prior of the variances.

        Returns
        -------
        Optimum
            The point.

        Examples
        --------
        >>> import numpy as np
        >>> one = np.ones(1)
        >>> Optimum.of(one[:, None], 0.5 * one, one, 1.0, Evidence(9, 9, True, Flat()), Flat()).J
        array([[3.]])
        """
        scale = np.sqrt(v)
        if root.ndim == 1:
            J = np.diag(v / np.square(root) - 1.0)
        elif len(v) == 0:
            J = np.zeros((0, 0))
        else:
            # The covariance is A A' = R'R with QR = A', so that the precision is R^-1 R^-T.
            R = np.linalg.qr((root / scale[:, None]).T, mode="r")
            inverse, _ = dtrtri(R)
            J = inverse @ inverse.T - np.eye(len(v))
        return cls(
            J=J,
            x=mean / scale[:, None],
            residual=evidence.residual / noise_var,
            n=evidence.n,
            noise_estimated=evidence.noise_estimated,
            hyperprior=hyperprior,
            v=v,
            noise_var=noise_var,
        )


class Draws(NamedTuple):
    """Draws of the variances and of the noise, in units of the optimum."""

    v: FloatArray  # (K, m)
    noise: FloatArray  # (K,)


def weights_at(
    optimum: Optimum, v: FloatArray, noise: float
) -> tuple[FloatArray, FloatArray] | None:
    """Posterior of the weights at other variances and another noise.

    Parameters
    ----------
    optimum : Optimum
        The best point.
    v : ndarray of shape (m,)
        Variances, in units of the best ones.
    noise : float
        Noise variance, in that of the best one.

    Returns
    -------
    L, y : ndarray of shape (m, m) and (m, T), or None
        With R = diag(sqrt(v)), the covariance is R L^-T L^-1 R and the mean R L^-T y. None where
        float64 cannot factorize the matrix.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> best = Optimum(3 * one, one, 9.0, 9.0, True, Flat(), one[0], 1.0)
    >>> weights_at(best, np.ones(1), 1.0)
    (array([[2.]]), array([[2.]]))
    """
    root = np.sqrt(v / noise)
    B = optimum.J * root * root[:, None]
    B.flat[:: len(v) + 1] += 1.0
    L, info = dpotrf(B.T, lower=1, clean=1, overwrite_a=1)
    if info != 0:
        return None
    h = (optimum.J @ optimum.x + optimum.x) * (root / np.sqrt(noise))[:, None]
    y, _ = dtrtrs(L, h, lower=1)
    return np.asarray(L), np.asarray(y)


def draw(optimum: Optimum) -> Draws:
    """Draw variances and noise from their posterior; the same draws at every call.

    Parameters
    ----------
    optimum : Optimum
        The best point, where all chains start.

    Returns
    -------
    Draws
        128 of them, hardly correlated.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> draws = draw(Optimum(30 * one, one, 20.0, 20.0, True, Flat(), one[0], 1.0))
    >>> draws.v.shape, bool(0.8 < np.median(draws.noise) < 1.2)
    ((128, 1), True)
    """
    chains = Chains(optimum, _CHAINS, np.random.default_rng(_SEED))
    _burn_in(chains)
    kept = []
    for _ in range(_KEPT):
        for _ in range(_APART):
            chains.sweep()
        kept.append((chains.v.copy(), chains.noise.copy()))
    return Draws(np.vstack([v for v, _ in kept]), np.concatenate([noise for _, noise in kept]))


def _burn_in(chains: "Chains") -> None:
    """Sweep until the noise, which moves slowest where atoms are many, drifts no more."""
    last = np.nan
    for number in range(_MOST_ROUNDS):
        levels = []
        for _ in range(_ROUND):
            chains.sweep()
            levels.append(np.log(chains.noise))
        level, spread = float(np.mean(levels)), float(np.std(levels))
        if number and abs(level - last) <= _DRIFT * spread:
            break
        last = level


class Chains:
    """Gibbs samplers that run side by side.

    Parameters
    ----------
    optimum : Optimum
        Where they start, and their target.
    count : int
        How many.
    rng : numpy.random.Generator
        Source of randomness.
    """

    def __init__(self, optimum: Optimum, count: int, rng: np.random.Generator) -> None:
        self.optimum, self.rng = optimum, rng
        m, n_targets = optimum.x.shape
        self.v, self.noise = np.ones((count, m)), np.ones(count)
        self.x = np.tile(optimum.x, (count, 1, 1))  # (C, m, T) weights
        self._shape, self._rate = 0.5 * n_targets, np.zeros(m)
        prior = optimum.hyperprior
        if isinstance(prior, Gamma):
            self._shape, self._rate = self._shape + prior.a, prior.b / optimum.v
        self._corrects = not isinstance(prior, Flat | Gamma)

    def sweep(self) -> None:
        """Move every chain once: its noise, its variances, and then its weights."""
        last = self.v, self.noise
        if self.optimum.noise_estimated:
            self._move_noise()
        if self.optimum.x.size:
            self._move_variances()
            self._move_weights(*last)

    def _move_weights(self, last_v: FloatArray, last_noise: FloatArray) -> None:
        normal = self.rng.standard_normal(self.x.shape)
        if len(self.optimum.v) <= _FEW and self._move_weights_at_once(normal):
            return
        for c in range(len(normal)):
            found = weights_at(self.optimum, self.v[c], float(self.noise[c]))
            if found is None:  # out of range: the chain stays where it was
                self.v[c], self.noise[c] = last_v[c], last_noise[c]
                continue
            L, y = found
            drawn, _ = dtrtrs(L, y + normal[c], lower=1, trans=1)
            self.x[c] = np.sqrt(self.v[c])[:, None] * drawn

    def _move_weights_at_once(self, normal: FloatArray) -> bool:
        """Move the weights of all chains in one go; false where a matrix cannot be factorized."""
        best = self.optimum
        scale = np.sqrt(self.v)
        root = scale / np.sqrt(self.noise)[:, None]
        B = best.J * root[:, None, :] * root[:, :, None] + np.eye(root.shape[1])
        try:
            L = np.linalg.cholesky(B)
        except np.linalg.LinAlgError:
            return False
        h = (best.J @ best.x + best.x) * (root / np.sqrt(self.noise)[:, None])[:, :, None]
        y = np.linalg.solve(L, h)
        self.x = scale[:, :, None] * np.linalg.solve(L.transpose(0, 2, 1), y + normal)
        return True

    def _move_noise(self) -> None:
        best = self.optimum
        d = self.x - best.x
        # |t - Phi w|^2 about the posterior mean, whose gradient is -2 mu / v
        residual = best.residual + np.einsum("cit,cit->c", d, best.J @ d - 2.0 * best.x)
        shape = 0.5 * best.x.shape[1] * best.n
        noise = _inverse_gamma(
            shape, 0.5 * np.maximum(residual, 0.0), 1.0 / _REACH, np.inf, self.rng
        )
        if self._corrects:
            gains = self._log_prior(self.v, noise) - self._log_prior(self.v, self.noise)
            better = np.log(self.rng.random(len(noise))) < gains.sum(axis=1)
            noise = np.where(better, noise, self.noise)
        self.noise = noise

    def _move_variances(self) -> None:
        scale = 0.5 * np.einsum("cit,cit->ci", self.x, self.x) + self._rate
        v = _inverse_gamma(self._shape, scale, 1.0 / _REACH, _REACH, self.rng)
        if self._corrects:
            gains = self._log_prior(v, self.noise) - self._log_prior(self.v, self.noise)
            v = np.where(np.log(self.rng.random(v.shape)) < gains, v, self.v)
        self.v = v

    def _log_prior(self, v: FloatArray, noise: FloatArray) -> FloatArray:
        best = self.optimum
        each = [
            best.hyperprior.log_density(own * best.v, float(level) * best.noise_var)
            for own, level in zip(v, noise, strict=True)
        ]
        return np.array(each).reshape(v.shape)


def _inverse_gamma(
    shape: float, scale: FloatArray, low: float, high: float, rng: np.random.Generator
) -> FloatArray:
    """Draw from inverse gamma distributions restricted to a range, by their distribution function.

    The reciprocal, times the scale, is a gamma variable between ends. The chains' uniform numbers
    are one in each of as many equal intervals: for each chain a uniform number, and together an
    average with less noise.
    """
    first, last = scale / high, scale / low
    order = np.argsort(rng.random(scale.shape), axis=0)
    uniform = (order + rng.random(scale.shape)) / len(scale)
    below = gammainc(shape, first)
    x = gammaincinv(shape, below + uniform * (gammainc(shape, last) - below))
    x = np.where(np.isfinite(x), x, first)  # a tail that rounds to nothing is next to its end
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.where(x > 0, scale / x, low)
    return np.clip(drawn, low, high)
