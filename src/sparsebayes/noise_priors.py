"""Priors of the noise variance, and the normalizer of a smoothness prior that depends on the noise.

An inverse-gamma prior of a variance is so many observations of it made before: 2 (g + 1) of them,
whose squares add up to 2 h; a Gamma(c, d) prior of the logarithm of the precision is 2 c of them,
of squares 2 d. A quadratic that counts them with the targets has the prior in its
evidence, and no solver needs to know.
"""

import math
import numbers
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expn

__all__ = [
    "InverseGamma",
    "LogGamma",
    "NoisePrior",
    "Observations",
    "smoothness_log_normalizer",
]

_LEVELS = 80  # of a continued fraction, at arguments of one and more
_NARROW = 0.1  # logarithms of an antiderivative closer than this cancel: the integral is narrow
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


class Observations(NamedTuple):
    """What a prior of the noise adds to a quadratic."""

    n: float  # residual degrees of freedom, for each target
    tt: float  # sum of squares, over all targets
    log_offset: float  # log evidence that depends on no parameter


@dataclass(frozen=True)
class InverseGamma:
    """Prior of the noise variance: log density -(g + 1) log noise - h / noise (S&E eq. 5).

    Its mode is h / (g + 1), which 2 (g + 1) observations would be needed to tell. The paper takes
    g = h = 1e-4. With g = 0 or h = 0 it is improper and its normalizer is left out; (0, 0) is
    Jeffreys' prior 1 / noise.

    Parameters
    ----------
    g : float
        Shape, at least 0.
    h : float
        Scale, at least 0, in the units of the noise variance.

    Examples
    --------
    >>> prior = InverseGamma(g=9.0, h=2.0)
    >>> densities = [prior.log_density(noise) for noise in (0.1, 0.2, 0.4)]
    >>> densities.index(max(densities))
    1
    """

    g: float
    h: float

    def __post_init__(self) -> None:
        for name in ("g", "h"):
            value = getattr(self, name)
            real = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not (real and 0 <= float(value) < math.inf):
                raise ValueError(
                    f"InverseGamma(g, h): {name} must be a finite number >= 0, got {value!r}."
                )

    @property
    def log_normalizer(self) -> float:
        """Logarithm of what the density is multiplied by; zero where it is improper."""
        if self.g == 0 or self.h == 0:
            return 0.0
        return self.g * math.log(self.h) - math.lgamma(self.g)

    def log_density(self, noise_var: float) -> float:
        """Log density of a noise variance.

        Parameters
        ----------
        noise_var : float
            Noise variance, above 0.

        Returns
        -------
        float
            Log density, normalized where g > 0 and h > 0.

        Examples
        --------
        >>> round(InverseGamma(1.0, 1.0).log_density(1.0), 6)
        -1.0
        """
        return self.log_normalizer - (self.g + 1) * math.log(noise_var) - self.h / noise_var

    def rescaled(self, factor: float) -> "InverseGamma":
        """Return the same prior for variances in another unit: those given, times ``factor``.

        Parameters
        ----------
        factor : float
            What a variance is multiplied by.

        Returns
        -------
        InverseGamma
            The prior.

        Examples
        --------
        >>> InverseGamma(2.0, 3.0).rescaled(100.0)
        InverseGamma(g=2.0, h=300.0)
        """
        return InverseGamma(self.g, self.h * factor)

    def observations(self, n_targets: int) -> Observations:
        """Return what the prior adds to a quadratic of so many targets.

        Parameters
        ----------
        n_targets : int
            Number of targets that share the noise variance.

        Returns
        -------
        Observations
            To be added to ``n``, ``tt`` and ``log_offset``.

        Examples
        --------
        >>> InverseGamma(4.0, 3.0).observations(2)[:2]
        (5.0, 6.0)
        """
        return _observed(2.0 * (self.g + 1), self.h, self.log_normalizer, n_targets)


@dataclass(frozen=True)
class LogGamma:
    """Prior of the logarithm of the noise precision: log density -c log noise - h / noise.

    It is what `Gamma` means as a prior of the noise (Tipping 2001, appendix A): its mode is h / c,
    which 2 c observations would be needed to tell.

    Parameters
    ----------
    c : float
        Shape, at least 0.
    h : float
        Rate, at least 0, in the units of the noise variance.

    Examples
    --------
    >>> prior = LogGamma(c=10.0, h=2.0)
    >>> densities = [prior.log_density(noise) for noise in (0.1, 0.2, 0.4)]
    >>> densities.index(max(densities))
    1
    >>> prior.observations(2)[:2], prior.rescaled(100.0)
    ((10.0, 4.0), LogGamma(c=10.0, h=200.0))
    """

    c: float
    h: float

    @property
    def log_normalizer(self) -> float:
        """Logarithm of what the density is multiplied by; zero where it is improper."""
        if self.c == 0 or self.h == 0:
            return 0.0
        return self.c * math.log(self.h) - math.lgamma(self.c)

    def log_density(self, noise_var: float) -> float:
        """Log density of the logarithm of a noise variance, normalized where c > 0 and h > 0."""
        return self.log_normalizer - self.c * math.log(noise_var) - self.h / noise_var

    def rescaled(self, factor: float) -> "LogGamma":
        """Return the same prior for variances in another unit: those given, times ``factor``."""
        return LogGamma(self.c, self.h * factor)

    def observations(self, n_targets: int) -> Observations:
        """Return what the prior adds to a quadratic of so many targets."""
        return _observed(2.0 * self.c, self.h, self.log_normalizer, n_targets)


NoisePrior = InverseGamma | LogGamma


def _observed(count: float, h: float, log_normalizer: float, n_targets: int) -> Observations:
    # the evidence of these observations would have (2 pi)^(-count / 2)
    log_offset = 0.5 * count * math.log(2 * math.pi) + log_normalizer
    return Observations(count / n_targets, 2.0 * h, log_offset)


def smoothness_log_normalizer(c: float, noise_var: float, low: float, high: float) -> float:
    """Logarithm of the integral of exp(-c / (1 + noise alpha)) over alpha from low to high.

    S&E eq. 17, which means E1 where it prints Ei. With x = c / (1 + noise alpha) its
    antiderivative is (1 / noise + alpha) E2(x), E2(x) = exp(-x) - x E1(x).

    Parameters
    ----------
    c : float
        Price of a degree of freedom.
    noise_var : float
        Noise variance.
    low, high : float
        Range of the precision alpha = 1 / v.

    Returns
    -------
    float
        The logarithm.

    Examples
    --------
    >>> import math
    >>> round(math.exp(smoothness_log_normalizer(0.0, 0.1, 0.0, 10.0)), 9)
    10.0
    """
    if not (noise_var > 0 and 0 <= low < high < math.inf):
        raise ValueError(
            "log_normalizer needs noise_var > 0 and 0 <= low < high, got "
            f"noise_var={noise_var!r}, low={low!r}, high={high!r}."
        )
    start, end = noise_var * low, noise_var * high
    lower, upper = _log_antiderivative(c, start), _log_antiderivative(c, end)
    if upper - lower > _NARROW:
        return upper + math.log1p(-math.exp(lower - upper)) - math.log(noise_var)
    # Both are nearly the same, and the integrand hardly varies between them.
    half = 0.5 * (high - low)
    alpha = low + half * (_NODES + 1.0)
    top = c / (1.0 + end)
    values = np.exp(top - c / (1.0 + noise_var * alpha))
    return math.log(half * float(_WEIGHTS @ values)) - top


def _log_antiderivative(c: float, scaled: float) -> float:
    """log((1 + noise alpha) E2(c / (1 + noise alpha))), at noise alpha = ``scaled``."""
    x = c / (1.0 + scaled)
    return math.log1p(scaled) + _log_e2(x)


def _log_e2(x: float) -> float:
    """Return log E2(x), also where E2 underflows."""
    if x < 1.0:
        return math.log(float(expn(2, x)))
    tail = 0.0
    for k in range(_LEVELS, 0, -1):
        tail = k * (k + 1) / (x + 2 + 2 * k - tail)
    return -x - math.log(x + 2 - tail)
