"""Table 1 of Schmolck & Everson 2007: what its rows are, and one fit in orthonormal wavelets.

Protocol. Signals of Donoho & Johnstone with noise at SNR = std(f, ddof=1) / sigma, scaled to its
exact sample standard deviation; the mean removed, no intercept. Error is that of the whole signal,
mean included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sparsebayes._wavelet_transforms import Transform
from sparsebayes.core.quadratic import OrthonormalQuadratic
from sparsebayes.datasets import Dataset, bumps, doppler, sinc
from sparsebayes.hyperpriors import Flat, InverseGamma, Smoothness
from sparsebayes.problem import Problem, Status
from sparsebayes.solvers import orthonormal

__all__ = ["LEAST", "PHASE", "PRIORS", "Fitted", "Setting", "Wavelets", "hyperprior", "price"]

FloatArray = NDArray[np.float64]

PHASE = 7  # samples between the filters of PyWavelets and of WaveLab
LEAST = 1e-12  # noise below this share of the variance is none
PRIORS = ("None", "AIC", "BIC", "RIC")


@dataclass(frozen=True, slots=True)
class Setting:
    """What the rows of one block of the table have in common."""

    signal: str
    snr: float
    N: int
    kernel: str
    given: bool = False  # whether the noise is

    def draw(self, seed: int) -> Dataset:
        """Draw the signal with noise."""
        if self.signal == "Sinc":
            return sinc(self.N, snr=self.snr, exact_noise=True, random_state=seed)
        make = {"Bumps": bumps, "Doppler": doppler}[self.signal]
        return make(self.N, snr=self.snr, exact_noise=True, random_state=seed)

    def __str__(self) -> str:
        return f"{self.signal} {self.snr:.0f}, {self.kernel}"


def price(prior: str, N: int) -> float:
    """The price c of a degree of freedom (after eq. 14)."""
    return float({"None": 0.0, "AIC": 1.0, "BIC": 0.5 * np.log(N), "RIC": np.log(N)}[prior])


def hyperprior(c: float) -> Flat | Smoothness:
    """The prior of a price."""
    return Smoothness(c) if c else Flat()


@dataclass(frozen=True, slots=True)
class Fitted:
    """An answer: variances of all atoms, noise, and the signal."""

    v: FloatArray
    noise_var: float
    mean: FloatArray

    def figures(self, data: Dataset) -> tuple[float, float, float]:
        """Atoms, mean square error and noise, as the table has them."""
        error = self.mean + data.y.mean() - data.truth
        return float((self.v > 0).sum()), float(np.mean(error**2)), self.noise_var


@dataclass(frozen=True, slots=True)
class Wavelets:
    """One draw as the orthonormal wavelets see it."""

    g: FloatArray
    transform: Transform
    phase: int

    @classmethod
    def of(cls, data: Dataset, phase: int = PHASE) -> Self:
        """Transform a draw, rotated so that the filters start where WaveLab's do."""
        transform = Transform("sym8", data.y.shape)
        return cls(transform.analyze(np.roll(data.y - data.y.mean(), phase)), transform, phase)

    def answer(self, v: FloatArray, noise_var: float) -> Fitted:
        """Return the signal of these variances."""
        smooth = self.transform.synthesize(self.g * (v / (v + noise_var)))
        return Fitted(v, noise_var, np.roll(smooth, -self.phase))

    def ours(self, c: float, noise_var: float | None, prior: InverseGamma | None = None) -> Fitted:
        """Fit by the library's closed form."""
        tt, N = float(self.g @ self.g), len(self.g)
        n, log_offset, spread = float(N), 0.0, tt / N
        if prior is not None:
            before = prior.observations(1)
            n, tt, log_offset = n + before.n, tt + before.tt, before.log_offset
        quad = OrthonormalQuadratic(self.g[:, np.newaxis], tt, n, spread, log_offset)
        solution = orthonormal.solve(Problem(quad, hyperprior(c), noise_var))
        if prior is None and solution.status is Status.COLLAPSED:
            # The objective has no maximum but at no noise: further down, as far as Algorithm 1.
            solution = orthonormal.solve(Problem(quad, hyperprior(c), LEAST * spread))
        state = solution.state
        v = np.zeros(N)
        v[state.active] = state.v
        return self.answer(v, state.noise_var)
