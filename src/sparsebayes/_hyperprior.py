"""What a solver asks of a hyperprior, and the flat one, which the others are built on."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

__all__ = [
    "LEAST_S",
    "Flat",
    "Hyperprior",
    "LogDerivatives",
    "is_flat",
    "lets_out",
    "refuse_if_never_out",
]

LEAST_S = 1e-100
"""A sparsity of zero is rounding; its square must not underflow."""


class LogDerivatives(NamedTuple):
    """Derivatives of ``log_density`` for each atom, with u = log v and rho = log noise."""

    u: FloatArray
    uu: FloatArray
    rho: FloatArray
    u_rho: FloatArray
    rho_rho: FloatArray


@runtime_checkable
class Hyperprior(Protocol):
    """What a solver asks of a hyperprior; all methods are vectorised over atoms.

    Variances are those of atoms of unit norm, so that ``v / noise_var`` is a signal to noise ratio.
    """

    def log_density(self, v: FloatArray, noise_var: float) -> FloatArray:
        """Log density at ``v >= 0`` relative to ``v = 0``, where it is zero or minus infinity."""
        ...

    def log_derivatives(self, v: FloatArray, noise_var: float) -> LogDerivatives:
        """First and second derivatives of ``log_density``; of length one where all are equal."""
        ...

    def best_variance(
        self, s: FloatArray, q2: FloatArray, noise_var: float, n_targets: int = 1
    ) -> FloatArray:
        """Return the variance that maximises ``gain``, zero where no variance gains anything."""
        ...


_ZERO = np.zeros(1)
_NO_DERIVATIVES = LogDerivatives(_ZERO, _ZERO, _ZERO, _ZERO, _ZERO)


@dataclass(frozen=True)
class Flat:
    """Every variance equally likely: the relevance vector machine of the papers.

    Alone, an atom orthogonal to the others enters whenever its z-score exceeds one; with a
    dictionary that can span the data this overfits, and :class:`Smoothness` is the remedy.

    Examples
    --------
    >>> import numpy as np
    >>> Flat().best_variance(np.array([2.0]), np.array([10.0]), noise_var=1.0)
    array([2.])
    """

    @property
    def is_flat(self) -> bool:
        """Whether every variance is equally likely."""
        return True

    def log_density(self, v: FloatArray, noise_var: float) -> FloatArray:
        """Return zero: flat."""
        return np.zeros_like(v)

    def log_derivatives(self, v: FloatArray, noise_var: float) -> LogDerivatives:
        """Return zeros, to be broadcast."""
        return _NO_DERIVATIVES

    def best_variance(
        self, s: FloatArray, q2: FloatArray, noise_var: float, n_targets: int = 1
    ) -> FloatArray:
        """Return ``max(q2 / T - s, 0) / s**2`` (T&F eq. 20)."""
        s = np.maximum(s, LEAST_S)
        v = q2 / (n_targets * s) if n_targets > 1 else q2 / s
        v -= 1.0
        np.maximum(v, 0.0, out=v)
        v /= s
        return v


def is_flat(hyperprior: Hyperprior) -> bool:
    """Whether a prior says that it has no opinion; one that does not say has one."""
    return bool(getattr(hyperprior, "is_flat", False))


def lets_out(hyperprior: Hyperprior) -> bool:
    """Whether an atom can be out of the model: whether the density at v = 0 is above zero.

    Parameters
    ----------
    hyperprior : Hyperprior
        Prior of the variances.

    Returns
    -------
    bool
        False for a Gamma prior on the precisions.

    Examples
    --------
    >>> lets_out(Flat())
    True
    """
    if is_flat(hyperprior):
        return True
    with np.errstate(all="ignore"):
        return bool(hyperprior.log_density(np.zeros(1), 1.0)[0] > -np.inf)


def refuse_if_never_out(hyperprior: Hyperprior, solver: str) -> None:
    """Raise an error where a solver that leaves atoms out could not even begin.

    Parameters
    ----------
    hyperprior : Hyperprior
        Prior of the variances.
    solver : str
        Name of the solver, for the message.

    Examples
    --------
    >>> refuse_if_never_out(Flat(), "sequential")
    """
    if not lets_out(hyperprior):
        raise ValueError(
            f"prior={hyperprior!r} is minus infinity for an atom that is out of the model, so that "
            f"no atom could ever be left out, which is what {solver} does: use an estimator with "
            'solver="em" or "mackay".'
        )
