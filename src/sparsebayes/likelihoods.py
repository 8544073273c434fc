"""Likelihoods: how targets are distributed around latent functions of the inputs.

A likelihood has K latent functions, one for most, one per class for :class:`Multinomial`. It is
log-concave in their values f at a row, and says three things: which targets it can take, how the
log-likelihood of a row looks around f to second order, and what it predicts where f is uncertain.
:func:`sparsebayes.testing.check_likelihood` tells whether an object keeps these promises.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

FloatArray = NDArray[np.float64]

__all__ = ["Bernoulli", "Expansion", "Gaussian", "Likelihood", "Multinomial", "Poisson"]

_LARGEST_COUNT = 2.0**53  # beyond it float64 cannot tell integers apart
_LARGEST_LOG_RATE = 300.0  # no count is near exp(300); squares of it still fit into float64
_LARGEST_EXCESS = 1e100  # over it: its product with the rate of exp(300) fits too
_STIRLING_FROM = 100.0  # from here on four terms of the series are exact to rounding


class Expansion(NamedTuple):
    """The log-likelihood of each row around its latent values, to second order.

    Sample weights are not in it: who expands multiplies all three by them.

    Examples
    --------
    >>> import numpy as np
    >>> value, slope, curvature = Bernoulli().expand(np.array([1.0]), np.zeros((1, 1)))
    >>> value.round(3), slope, curvature
    (array([-0.693]), array([[0.5]]), array([[[0.25]]]))
    """

    value: FloatArray  # (N,) log p(t_n | f_n)
    slope: FloatArray  # (N, K) its gradient in f_n
    curvature: FloatArray  # (N, K, K) minus its Hessian: symmetric, positive semidefinite

    def weighted(self, weights: FloatArray | None) -> "Expansion":
        """All three times the weight of each row, (N,); None where all are one."""
        if weights is None:
            return self
        value, slope, curvature = self
        w = weights[:, None]
        return Expansion(value * weights, slope * w, curvature * w[:, :, None])


@runtime_checkable
class Likelihood(Protocol):
    """What a fit asks of a likelihood; all methods are vectorized over rows."""

    @property
    def n_latent(self) -> int:
        """Number of latent functions K."""

    def check(self, y: ArrayLike) -> FloatArray:
        """Targets as `expand` takes them, (N,); ValueError for those that it cannot take."""

    def expand(self, t: FloatArray, f: FloatArray) -> Expansion:
        """Expand around f (N, K); no overflow, NaN or warning, however large f is."""

    def predictive(self, mean: FloatArray, covariance: FloatArray) -> Any:
        """Distribution of targets whose f is normal: mean (n, K), covariance (n, K, K)."""


@dataclass(frozen=True)
class Gaussian:
    """Normal noise of a known variance around one latent function.

    Parameters
    ----------
    noise_var : float
        Variance of the noise; positive.

    Examples
    --------
    >>> import numpy as np
    >>> Gaussian(4.0).expand(np.array([3.0]), np.array([[1.0]])).slope
    array([[0.5]])
    """

    noise_var: float

    def __post_init__(self) -> None:
        if not 0 < self.noise_var < np.inf:
            raise ValueError(f"noise_var must be positive and finite, got {self.noise_var!r}.")

    @property
    def n_latent(self) -> int:
        """One latent function."""
        return 1

    def check(self, y: ArrayLike) -> FloatArray:
        """Take finite numbers.

        Parameters
        ----------
        y : array-like of shape (N,)
            Targets.

        Returns
        -------
        ndarray of shape (N,)
            Targets as floats.
        """
        return _numbers(y)

    def expand(self, t: FloatArray, f: FloatArray) -> Expansion:
        """Expand the log-likelihood, which is a quadratic.

        Parameters
        ----------
        t : ndarray of shape (N,)
            Targets.
        f : ndarray of shape (N, 1)
            Values of the latent function.

        Returns
        -------
        Expansion
            Value, slope and curvature of each row.
        """
        with np.errstate(over="ignore"):
            slope = (t[:, None] - f) / self.noise_var
            value = -0.5 * ((t - f[:, 0]) * slope[:, 0] + np.log(2 * np.pi * self.noise_var))
        return Expansion(value, slope, np.full((len(t), 1, 1), 1 / self.noise_var))

    def predictive(self, mean: FloatArray, covariance: FloatArray) -> Any:
        """Add the noise.

        Parameters
        ----------
        mean : ndarray of shape (n, 1)
            Means of the latent function.
        covariance : ndarray of shape (n, 1, 1)
            Its variances.

        Returns
        -------
        Normal
            Distribution of the target.
        """
        from sparsebayes.predictive import Normal

        variance = covariance[:, 0, 0]
        return Normal(mean[:, 0], np.sqrt(variance + self.noise_var), np.sqrt(variance))


@dataclass(frozen=True)
class Bernoulli:
    """Two classes: a target is 1 with the probability 1 / (1 + exp(-f)), else 0.

    Examples
    --------
    >>> import numpy as np
    >>> Bernoulli().expand(np.array([0.0, 1.0]), np.array([[800.0], [800.0]])).value
    array([-800.,    0.])
    """

    @property
    def n_latent(self) -> int:
        """One latent function."""
        return 1

    def check(self, y: ArrayLike) -> FloatArray:
        """Take zeros and ones, or booleans.

        Parameters
        ----------
        y : array-like of shape (N,)
            Targets.

        Returns
        -------
        ndarray of shape (N,)
            Targets as floats.
        """
        t = _numbers(y)
        _refuse(t[(t != 0) & (t != 1)], "targets must be 0 or 1")
        return t

    def expand(self, t: FloatArray, f: FloatArray) -> Expansion:
        """Expand the log-likelihood; differences such as 1 - p are never formed.

        Parameters
        ----------
        t : ndarray of shape (N,)
            Targets, 0 or 1.
        f : ndarray of shape (N, 1)
            Values of the latent function.

        Returns
        -------
        Expansion
            Value, slope and curvature of each row.
        """
        sign = 2.0 * t - 1.0
        margin = sign * f[:, 0]
        small = np.exp(-np.abs(margin))  # the odds of the less probable of the two
        total = 1.0 + small
        value = np.minimum(margin, 0.0) - np.log1p(small)
        slope = sign * np.where(margin > 0, small, 1.0) / total
        return Expansion(value, slope[:, None], (small / total / total)[:, None, None])

    def predictive(self, mean: FloatArray, covariance: FloatArray) -> Any:
        """Average the sigmoid over the latent function.

        Parameters
        ----------
        mean : ndarray of shape (n, 1)
            Means of the latent function.
        covariance : ndarray of shape (n, 1, 1)
            Its variances.

        Returns
        -------
        Categorical
            Probabilities of 0 and 1.
        """
        from sparsebayes.latent_integrals import log_mean_sigmoid
        from sparsebayes.predictive import Categorical

        return Categorical(log_mean_sigmoid(mean[:, 0], covariance[:, 0, 0]))


@dataclass(frozen=True)
class Multinomial:
    """Several classes: the softmax of one latent function per class.

    Adding the same number to all latent functions changes nothing.

    Parameters
    ----------
    n_classes : int
        Number of classes K, at least two; targets are 0 to K - 1.

    Examples
    --------
    >>> import numpy as np
    >>> Multinomial(3).expand(np.array([2.0]), np.zeros((1, 3))).slope.round(3)
    array([[-0.333, -0.333,  0.667]])
    """

    n_classes: int

    def __post_init__(self) -> None:
        if isinstance(self.n_classes, bool) or not isinstance(self.n_classes, int | np.integer):
            raise ValueError(f"n_classes must be an integer, got {self.n_classes!r}.")
        if self.n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {self.n_classes}.")

    @property
    def n_latent(self) -> int:
        """One latent function per class."""
        return int(self.n_classes)

    def check(self, y: ArrayLike) -> FloatArray:
        """Take the integers 0 to K - 1.

        Parameters
        ----------
        y : array-like of shape (N,)
            Targets.

        Returns
        -------
        ndarray of shape (N,)
            Targets as floats.
        """
        t = _numbers(y)
        wrong = (t < 0) | (t >= self.n_classes) | (t != np.floor(t))
        _refuse(t[wrong], f"targets must be integers from 0 to {self.n_classes - 1}")
        return t

    def expand(self, t: FloatArray, f: FloatArray) -> Expansion:
        """Expand the log-likelihood; 1 - p is never formed where it would cancel.

        Parameters
        ----------
        t : ndarray of shape (N,)
            Targets, 0 to K - 1.
        f : ndarray of shape (N, K)
            Values of the latent functions.

        Returns
        -------
        Expansion
            Value, slope and curvature of each row.
        """
        rows, label = np.arange(len(t)), t.astype(np.intp)
        best = np.argmax(f, axis=1)
        with np.errstate(over="ignore"):
            below = f - f[rows, best][:, None]
        odds = np.exp(below)
        odds[rows, best] = 0.0
        rest = odds.sum(axis=1)
        odds[rows, best] = 1.0
        total = 1.0 + rest
        p = odds / total[:, None]
        miss = 1.0 - p
        miss[rows, best] = rest / total  # the only p that can be near one
        value = below[rows, label] - np.log1p(rest)
        slope = -p
        slope[rows, label] = miss[rows, label]
        curvature = -p[:, :, None] * p[:, None, :]
        diagonal = np.arange(self.n_classes)
        curvature[:, diagonal, diagonal] = p * miss
        return Expansion(value, slope, curvature)

    def predictive(self, mean: FloatArray, covariance: FloatArray) -> Any:
        """Average the softmax over the latent functions.

        Parameters
        ----------
        mean : ndarray of shape (n, K)
            Means of the latent functions.
        covariance : ndarray of shape (n, K, K)
            Their covariances.

        Returns
        -------
        Categorical
            Probabilities of the classes.
        """
        from sparsebayes.latent_integrals import log_mean_softmax
        from sparsebayes.predictive import Categorical

        return Categorical(log_mean_softmax(mean, covariance))


@dataclass(frozen=True)
class Poisson:
    """Counts with the rate exp(f).

    Beyond f = 300, where no count can be, the rate goes on as the parabola that continues exp(f)
    smoothly: an optimizer that went astray there still finds a finite slope and curvature, and the
    way back.

    Examples
    --------
    >>> import numpy as np
    >>> Poisson().expand(np.array([2.0]), np.zeros((1, 1))).slope
    array([[1.]])
    """

    @property
    def n_latent(self) -> int:
        """One latent function."""
        return 1

    def check(self, y: ArrayLike) -> FloatArray:
        """Take counts: 0, 1, 2, ...

        Parameters
        ----------
        y : array-like of shape (N,)
            Targets.

        Returns
        -------
        ndarray of shape (N,)
            Targets as floats.
        """
        t = _numbers(y)
        _refuse(t[t < 0], "targets must be counts, which are not negative")
        _refuse(t[t != np.floor(t)], "targets must be counts, which are integers")
        _refuse(t[t > _LARGEST_COUNT], "targets must be counts of at most 2**53")
        return t

    def expand(self, t: FloatArray, f: FloatArray) -> Expansion:
        """Expand the log-likelihood, including its constant -log t!.

        Parameters
        ----------
        t : ndarray of shape (N,)
            Targets, counts.
        f : ndarray of shape (N, 1)
            Values of the latent function: logarithms of rates.

        Returns
        -------
        Expansion
            Value, slope and curvature of each row.
        """
        log_rate = f[:, 0]
        near = np.minimum(log_rate, _LARGEST_LOG_RATE)
        rate = np.exp(near)
        # Relative to the rate t, the best: t f - exp(f) - log t! would cancel where t is large.
        some = t > 0
        d = np.where(some, near - np.log(np.where(some, t, 1.0)), 0.0)
        slope = np.where(some, -t * np.expm1(d), -rate)
        with np.errstate(over="ignore"):
            value = _log_density_of_best_rate(t) + (slope + t * d)
            beyond = np.clip(log_rate - _LARGEST_LOG_RATE, 0.0, _LARGEST_EXCESS)
            value += beyond * (slope - 0.5 * rate * beyond)
        return Expansion(value, (slope - rate * beyond)[:, None], rate[:, None, None])

    def predictive(self, mean: FloatArray, covariance: FloatArray) -> Any:
        """Average the Poisson distribution over its rate.

        Parameters
        ----------
        mean : ndarray of shape (n, 1)
            Means of the latent function.
        covariance : ndarray of shape (n, 1, 1)
            Its variances.

        Returns
        -------
        Counts
            Distribution of the counts.
        """
        from sparsebayes.predictive import Counts

        return Counts(mean[:, 0], np.sqrt(covariance[:, 0, 0]))


def totals_of(
    likelihood: Likelihood, t: FloatArray, weights: FloatArray | None
) -> FloatArray | None:
    """Weight of each class, or of all events: what the rows say of the intercepts.

    Parameters
    ----------
    likelihood : Likelihood
        One of ours, or any other.
    t : ndarray of shape (N,)
        Targets as the likelihood checked them.
    weights : ndarray of shape (N,) or None
        Weight of each row.

    Returns
    -------
    ndarray or None
        Of both classes for `Bernoulli`, of all K for `Multinomial`, one number for `Poisson`;
        None for other likelihoods.

    Examples
    --------
    >>> import numpy as np
    >>> totals_of(Bernoulli(), np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.25]))
    array([2.  , 0.25])
    >>> totals_of(Poisson(), np.array([0.0, 3.0]), None)
    array([3.])
    """
    kind = type(likelihood)  # not isinstance: what inherits from ours may mean something else
    w = np.ones(len(t)) if weights is None else weights
    if kind is Bernoulli:
        return np.array([float(w @ (1.0 - t)), float(w @ t)])
    if kind is Multinomial:
        return np.bincount(t.astype(np.intp), w, likelihood.n_latent).astype(np.float64)
    return np.array([float(w @ t)]) if kind is Poisson else None


def _log_density_of_best_rate(t: FloatArray) -> FloatArray:
    """Log probability of a count t under the Poisson distribution of rate t, to full precision.

    Parameters
    ----------
    t : ndarray
        Counts, at least zero.

    Returns
    -------
    ndarray
        t log t - t - log t!, which for large t are differences of large numbers.
    """
    many = t > _STIRLING_FROM
    few = np.where(many, 0.0, t)
    direct = xlogy(few, few) - few - gammaln(few + 1.0)
    r = 1.0 / np.where(many, t, 1.0)
    series = r * (1 / 12 - r**2 * (1 / 360 - r**2 / 1260))
    return np.where(many, 0.5 * np.log(r / (2 * np.pi)) - series, direct)


def _numbers(y: ArrayLike) -> FloatArray:
    """Targets as a vector of finite floats."""
    array = np.asarray(y)
    if array.ndim != 1:
        raise ValueError(f"targets must be one-dimensional, got an array of shape {array.shape}.")
    if array.dtype.kind not in "buifO":
        raise ValueError(f"targets must be numbers, got {array.dtype}.")
    try:
        t = array.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("targets must be numbers.") from None
    if not np.isfinite(t).all():
        raise ValueError("targets must be finite: they contain NaN or infinity.")
    return t


def _refuse(wrong: FloatArray, demand: str) -> None:
    if wrong.size:
        raise ValueError(f"{demand}; got {wrong[0]:.15g} ({wrong.size} such targets).")
