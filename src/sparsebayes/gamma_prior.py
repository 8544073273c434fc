"""Gamma prior of a precision: of atoms, as Tipping (2001) has it, and of the noise."""

import math
import numbers
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsebayes._cubics import falling_roots
from sparsebayes._hyperprior import LEAST_S, Flat, LogDerivatives
from sparsebayes.noise_priors import LogGamma

FloatArray = NDArray[np.float64]

__all__ = ["Gamma"]


@dataclass(frozen=True)
class Gamma:
    """Gamma prior of precisions: log density a log(1/v) - b / v (Tipping 2001, appendix A).

    It is a density of the logarithm of the precision, so that ``Gamma(0, 0)`` is `Flat`. With
    b > 0 it is minus infinity at v = 0: every atom stays in the model with some variance, about
    b / (a + 1/2) at least, and only ``solver="em"`` and ``"mackay"`` take it. As ``noise_prior``
    it is worth 2 a observations of noise whose squares sum to 2 b, and every solver takes it.

    Parameters
    ----------
    a : float
        Shape, at least 0.
    b : float
        Rate, at least 0, in units of y squared and, of an atom, for unit norm. With b = 0 the
        density is unbounded at v = 0 unless a = 0 too, and refused.

    Examples
    --------
    >>> import numpy as np
    >>> prior = Gamma(a=1.0, b=2.0)
    >>> prior.best_variance(np.array([1.0]), np.array([0.0]), noise_var=1.0).round(3)
    array([1.535])
    >>> Gamma(0.0, 0.0).best_variance(np.array([2.0]), np.array([10.0]), noise_var=1.0)
    array([2.])
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            value = getattr(self, name)
            real = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not (real and 0 <= float(value) < math.inf):
                raise ValueError(
                    f"Gamma(a, b): {name} must be a finite number >= 0, got {value!r}."
                )
        if self.a > 0 and self.b == 0:
            raise ValueError(
                f"Gamma(a, b): with b=0 and a={self.a!r} the density is unbounded where a variance "
                "is zero; use b > 0, or Gamma(0, 0), which is flat."
            )

    @property
    def of_noise(self) -> LogGamma:
        """The same prior, of the precision of the noise."""
        return LogGamma(float(self.a), float(self.b))

    def rescaled(self, factor: float) -> "Gamma":
        """Return the same prior for variances in another unit: those given, times ``factor``.

        Parameters
        ----------
        factor : float
            What a variance is multiplied by.

        Returns
        -------
        Gamma
            The prior.

        Examples
        --------
        >>> Gamma(2.0, 3.0).rescaled(100.0)
        Gamma(a=2.0, b=300.0)
        """
        return Gamma(self.a, self.b * factor)

    @property
    def log_normalizer(self) -> float:
        """Logarithm of what the density is multiplied by; zero where it is improper."""
        return self.of_noise.log_normalizer

    def log_density(self, v: FloatArray, noise_var: float) -> FloatArray:
        """Return ``-a log v - b / v``, normalized where a > 0; minus infinity at zero."""
        if self.b == 0:
            return np.zeros_like(v)
        inside = v != 0
        some = np.where(inside, v, 1.0)
        with np.errstate(over="ignore"):
            density = self.log_normalizer - self.a * np.log(some) - self.b / some
        return np.where(inside, density, -np.inf)

    def log_derivatives(self, v: FloatArray, noise_var: float) -> LogDerivatives:
        """Return the derivatives; the noise has no part in them."""
        scaled, none = self.b / v, np.zeros_like(v)
        return LogDerivatives(scaled - self.a, -scaled, none, none, none)

    def best_variance(
        self, s: FloatArray, q2: FloatArray, noise_var: float, n_targets: int = 1
    ) -> FloatArray:
        """Return the highest maximum over v > 0."""
        if self.b == 0:
            return Flat().best_variance(s, q2, noise_var, n_targets)
        first, last = self.maxima(s, q2, n_targets)
        low, high = (_value(self, s, q2, v, n_targets) for v in (first, last))
        return np.where(high > low, last, first)

    def maxima(
        self, s: FloatArray, q2: FloatArray, n_targets: FloatArray | float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """First and last local maximum of an atom's worth over v > 0, for b > 0.

        Parameters
        ----------
        s, q2 : ndarray of shape (k,)
            Sparsity and squared quality, out of the own model.
        n_targets : float or ndarray of shape (k,), default=1.0
            Number of targets that share the atom.

        Returns
        -------
        first, last : ndarray of shape (k,)
            Variances; the same where there is one maximum.

        Examples
        --------
        >>> import numpy as np
        >>> first, last = Gamma(1.0, 0.01).maxima(np.array([1.0, 1.0]), np.array([2.0, 10.0]))
        >>> first.round(3), last.round(3)
        (array([0.01, 0.01]), array([0.01 , 1.067]))
        """
        s = np.maximum(s, LEAST_S)
        # 2 v^2 (1 + v s)^2 / s times the derivative of the worth, in x = v s
        rate = self.b * s
        cubic = (
            np.zeros_like(s) - (n_targets + 2 * self.a),
            q2 / s - n_targets - 4 * self.a + 2 * rate,
            4 * rate - 2 * self.a,
            2 * rate,
        )
        first, last = falling_roots(cubic)
        return first / s, last / s


def _value(
    prior: Gamma, s: FloatArray, q2: FloatArray, v: FloatArray, n_targets: int
) -> FloatArray:
    """Evidence and prior of a variance (T&F eq. 18), which compare maxima of one atom."""
    x = v * s
    evidence = v * q2 / (1.0 + x) - n_targets * np.log1p(x)
    return np.asarray(0.5 * evidence + prior.log_density(v, 1.0))
