"""The signals of the comparison: denoising beside thresholds, few measurements beside pursuits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.linear_model import LassoCV, OrthogonalMatchingPursuitCV

from benchmarks._harness import Report, Run, version
from sparsebayes import denoise, reconstruct
from sparsebayes.datasets import blocks, bumps, doppler, heavisine
from sparsebayes.dictionaries import Wavelet
from sparsebayes.sensing import PartialDCT

Array = NDArray[np.float64]
SAMPLES = 512


def thresholds(y: Array, method: str) -> Array:
    """scikit-image's wavelet denoising with the same wavelet."""
    restoration = import_module("skimage.restoration")
    scale = np.abs(y).max()  # It takes images of floats between -1 and 1.
    found = restoration.denoise_wavelet(
        y / scale, wavelet="sym8", method=method, rescale_sigma=True
    )
    return np.asarray(found) * scale


def denoising(report: Report, draws: int) -> None:
    """Mean squared error over the noise variance."""
    methods: dict[str, Callable[[Array], Array]] = {"denoise": lambda y: denoise(y).signal}
    if version("scikit-image"):
        methods["BayesShrink"] = lambda y: thresholds(y, "BayesShrink")
        methods["VisuShrink"] = lambda y: thresholds(y, "VisuShrink")
    rows = []
    for name, method in methods.items():
        row: dict[str, Any] = {"": name}
        run = Run()
        for make in (blocks, bumps, heavisine, doppler):
            errors = []
            for draw in range(draws):
                data = make(2048, snr=4, random_state=draw)
                run.once(partial(method, data.y))
                errors.append(np.mean((run.result - data.truth) ** 2) / data.noise_std**2)
            row[make.__name__] = np.mean(errors)
        rows.append(row | {"ms": run.cpu * 1e3})
    columns = dict.fromkeys(("blocks", "bumps", "heavisine", "doppler"), ".3f")
    heading = f"Denoising: squared error over noise variance, 2048 samples, SNR 4, {draws} draws"
    report.show(heading, rows, {"": "", **columns, "ms": ".2f"})


def pursuit(A: Array, sent: Array) -> Array:
    """Basis pursuit: the least sum of absolute values that explains what was sent."""
    M = A.shape[1]
    program = linprog(np.ones(2 * M), A_eq=np.hstack([A, -A]), b_eq=sent)
    return np.asarray(program.x[:M] - program.x[M:])


def by_regression(make: Callable[[], Any]) -> Callable[[Array, Array], Array]:
    """A cross-validated regression on the atoms."""

    def solve(A: Array, sent: Array) -> Array:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of paths that end early; the error is what counts
            return np.asarray(make().fit(A, sent).coef_)

    return solve


def few_measurements(report: Report, draws: int) -> None:
    """Steps of 512 samples, sparse in the Haar basis, from fewer and fewer numbers."""
    places = np.arange(SAMPLES)[:, None]
    haar = Wavelet("haar").bind(places).evaluate(places)
    signal = blocks(SAMPLES).truth
    solvers: dict[str, Callable[[Array, Array], Array]] = {
        "basis pursuit": pursuit,
        "OrthogonalMatchingPursuitCV": by_regression(
            lambda: OrthogonalMatchingPursuitCV(fit_intercept=False, max_iter=80)
        ),
        "LassoCV": by_regression(lambda: LassoCV(fit_intercept=False)),
    }
    rows: dict[str, dict[str, Any]] = {name: {"": name} for name in ("reconstruct", *solvers)}
    times: dict[str, Run] = {name: Run() for name in rows}
    for count in (100, 120, 140, 180, 240):
        errors: dict[str, list[float]] = {name: [] for name in rows}
        for draw in range(draws):
            sensing = PartialDCT(SAMPLES, count, random_state=draw)
            sent = sensing.measure(signal)
            A = np.column_stack([sensing.measure(atom) for atom in haar.T])
            for name, run in times.items():
                if name == "reconstruct":
                    run.once(lambda s=sensing, t=sent: reconstruct(t, s, basis="haar").signal)
                else:
                    run.once(lambda name=name, A=A, t=sent: haar @ solvers[name](A, t))
                errors[name].append(np.sqrt(np.mean((run.result - signal) ** 2)) / signal.std())
        for name, row in rows.items():
            row[f"{count}"] = 100 * np.mean(errors[name])
    for name, row in rows.items():
        row["s"] = times[name].cpu
    heading = f"Few measurements: error in % from so many numbers of 512, {draws} draws"
    counts = dict.fromkeys(("100", "120", "140", "180", "240"), ".1f")
    report.show(heading, list(rows.values()), {"": "", **counts, "s": ".2f"})


def run(report: Report, draws: int) -> None:
    """Both tables."""
    denoising(report, draws)
    few_measurements(report, draws)
