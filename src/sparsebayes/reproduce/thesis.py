"""Chapter 4 of a thesis on compressive sensing: few measurements of what is sparse in wavelets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pywt
from numpy.typing import NDArray
from sklearn.linear_model import OrthogonalMatchingPursuitCV

from sparsebayes.datasets import blocks
from sparsebayes.dictionaries import Wavelet
from sparsebayes.plotting._canvas import BLUE, GRAY, ORANGE
from sparsebayes.reconstruction import Reconstruction, reconstruct
from sparsebayes.reproduce.findings import Entry, Findings, Picture
from sparsebayes.sensing import PartialDCT

__all__ = ["measure", "psnr"]

FloatArray = NDArray[np.float64]

_LENGTH, _MEASURED, _SNR = 512, 256, 20.0
_DRAWS = 5
_PIXELS = 128


class _Signal(NamedTuple):
    truth: FloatArray
    found: Reconstruction
    greedy: FloatArray


def psnr(picture: FloatArray, truth: FloatArray) -> float:
    """Peak signal to noise ratio of 8-bit pictures, in decibels."""
    return float(10 * np.log10(255**2 / np.mean((np.clip(picture, 0, 255) - truth) ** 2)))


def measure(tell: Callable[[str], None]) -> Findings:
    """Measure a signal of steps and a photograph by few numbers, and reconstruct both.

    Parameters
    ----------
    tell : callable
        Told what comes next.

    Returns
    -------
    Findings
        Figures and pictures.
    """
    tell(f"Blocks from {_MEASURED} measurements, {_DRAWS} draws")
    signals = [_signal(seed) for seed in range(_DRAWS)]
    ours = float(np.median([_relative(s.found.signal, s.truth) for s in signals]))
    greedy = float(np.median([_relative(s.greedy, s.truth) for s in signals]))
    inside = [np.abs(s.found.signal - s.truth) <= 1.645 * s.found.std for s in signals]
    kept = float(np.mean([s.found.n_atoms for s in signals]))
    tell(f"a picture of {_PIXELS} x {_PIXELS} pixels from half as many measurements")
    picture = pywt.data.camera()[60:316, 130:386].astype(np.float64)
    block = len(picture) // _PIXELS
    picture = picture.reshape(_PIXELS, block, _PIXELS, block).mean(axis=(1, 3))
    sensing = PartialDCT(picture.shape, picture.size // 2, random_state=0)
    y = sensing.measure(picture)
    seen = reconstruct(y, sensing, basis="haar", solver="matrix-free")
    least = np.asarray(sensing.adjoint(y)).reshape(picture.shape)
    return Findings(
        "Chapter 4, Sparse Bayesian learning, of a thesis on compressive sensing with wavelets",
        (
            Entry(f"Blocks, {_MEASURED} of {_LENGTH}: relative error", ours, None, ".4f"),
            Entry("the same by cross-validated matching pursuit", greedy, None, ".4f"),
            Entry("Haar wavelets kept", kept, None, ".1f"),
            Entry("share of samples within 90 % intervals", float(np.mean(inside)), None, ".2f"),
            Entry(
                "picture, half as many measurements: dB", psnr(seen.signal, picture), None, ".1f"
            ),
            Entry("the same by least energy: dB", psnr(least, picture), None, ".1f"),
            Entry("Haar wavelets kept of the picture", seen.n_atoms, None, "d"),
        ),
        (
            "The chapter prints no figures: its algorithm stands beside other ways to reconstruct.",
            f"Measurements of the signal are random projections with noise at {_SNR:g} dB, of the "
            "picture coefficients of its cosine transform, drawn at random.",
            "Larger problems: python -m benchmarks.compressive, in the project's repository.",
        ),
        (
            Picture("signal", (6.5, 3.2), partial(_draw_signal, signals[0])),
            Picture("picture", (8, 3), partial(_draw_picture, picture, least, seen)),
        ),
    )


def _signal(seed: int) -> _Signal:
    rng = np.random.default_rng(seed)
    truth = blocks(_LENGTH, snr=np.inf).truth
    A = rng.standard_normal((_MEASURED, _LENGTH)) / _MEASURED**0.5
    clean = A @ truth
    y = clean + clean.std() * 10 ** (-_SNR / 20) * rng.standard_normal(_MEASURED)
    found = reconstruct(y, A, basis="haar")
    atoms = Wavelet("haar").bind(np.arange(_LENGTH, dtype=np.float64)[:, np.newaxis])
    basis = atoms.evaluate(np.arange(_LENGTH, dtype=np.float64)[:, np.newaxis])
    greedy = OrthogonalMatchingPursuitCV(fit_intercept=False, max_iter=_MEASURED // 2)
    return _Signal(truth, found, basis @ greedy.fit(A @ basis, y).coef_)


def _relative(signal: FloatArray, truth: FloatArray) -> float:
    return float(np.linalg.norm(signal - truth) / np.linalg.norm(truth))


def _draw_signal(drawn: _Signal, figure: Any) -> None:
    axes = figure.add_subplot()
    low, high = (drawn.found.signal + sign * 2 * drawn.found.std for sign in (-1, 1))
    places = np.arange(_LENGTH)
    axes.fill_between(places, low, high, color=BLUE, alpha=0.3, lw=0, label="two deviations")
    axes.plot(drawn.found.signal, color=BLUE, linewidth=1.1, label="reconstructed")
    axes.plot(drawn.truth, "--", color=ORANGE, linewidth=1, label="truth")
    axes.plot(drawn.greedy, ":", color=GRAY, linewidth=1, label="matching pursuit")
    axes.set_title(f"{_LENGTH} samples from {_MEASURED} measurements", fontsize="small", loc="left")
    axes.legend(fontsize="x-small", frameon=False, ncols=2)
    axes.tick_params(labelsize="x-small")
    axes.margins(x=0.01)


def _draw_picture(truth: FloatArray, least: FloatArray, found: Reconstruction, figure: Any) -> None:
    panels = {"picture": truth}
    panels[f"least energy, {psnr(least, truth):.1f} dB"] = least
    panels[f"reconstructed, {psnr(found.signal, truth):.1f} dB"] = found.signal
    for axes, (name, values) in zip(figure.subplots(1, 3), panels.items(), strict=True):
        axes.imshow(values, cmap="gray", vmin=0, vmax=255)
        axes.set_title(name, fontsize="small")
        axes.set_axis_off()
