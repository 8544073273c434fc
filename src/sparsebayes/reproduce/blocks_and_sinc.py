"""Schmolck & Everson 2007, section 4.3: Blocks and sinc side by side, and whose part is whose."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes.datasets import Dataset, blocks_sinc
from sparsebayes.dictionaries import Kernel, Wavelet
from sparsebayes.signals import Denoised, denoise

__all__ = ["ATOMS", "MSE", "NAMES", "WIDTH", "N", "Panel", "draw", "fit", "separation", "union"]

FloatArray = NDArray[np.float64]

N, SNR = 1024, 7.0
WIDTH = 3.0
MSE, ATOMS = 0.009, 88  # printed for RIC
NAMES = ("Haar wavelets", "thin-plate splines")


def haar() -> Wavelet:
    """Atoms for Blocks."""
    return Wavelet("haar")


def splines() -> Kernel:
    """Atoms for sinc."""
    return Kernel("tps", gamma=1 / WIDTH**2)


@dataclass(frozen=True, slots=True)
class Panel:
    """One fit, with what the paper prints of it: error and atoms."""

    name: str
    data: Dataset
    found: Denoised
    seconds: float
    warned: tuple[str, ...]
    printed: tuple[float, float] | None = None

    @property
    def mse(self) -> float:
        """Mean square error of the whole signal."""
        return float(np.mean((self.found.signal - self.data.truth) ** 2))


def draw(seed: int) -> Dataset:
    """Draw the signal with noise of exactly its standard deviation."""
    return blocks_sinc(N, SNR, exact_noise=True, random_state=seed)


def fit(
    name: str,
    data: Dataset,
    dictionary: Any,
    prior: Any,
    noise_variance: float | None = None,
    printed: tuple[float, float] | None = None,
) -> Panel:
    """Denoise, and keep what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        where = None if isinstance(dictionary, str) else data.X[:, 0]
        found = denoise(data.y, dictionary, prior, noise_variance, positions=where)
        seconds = time.process_time() - start
    return Panel(name, data, found, seconds, tuple(str(w.message) for w in caught), printed)


def union(data: Dataset, prior: Any = "ric", **options: Any) -> Panel:
    """Denoise with both kinds of atoms."""
    return fit("Haar + thin-plate splines", data, haar() + splines(), prior, **options)


def separation(panel: Panel) -> tuple[float, float]:
    """How well the Haar part is Blocks on the left, and the spline part sinc on the right."""
    steps, smooth = panel.found.parts
    left, right = slice(0, N // 2), slice(N // 2, N)
    truth = panel.data.truth
    return _explained(truth[left], steps[left]), _explained(truth[right], smooth[right])


def _explained(truth: FloatArray, part: FloatArray) -> float:
    """Share of the variance of the truth that the part explains."""
    return float(1 - (truth - part).var() / truth.var())
