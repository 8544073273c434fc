"""Figures 1 to 4 of Tipping 2001, each a single run in print: what one run and many runs give.

Figure 1: sinc without noise at 100 points, linear splines, the noise held at 0.01^2: approximation.
Figure 2: the same with uniform noise of +-0.2, its variance estimated.
Figure 3: Ripley's two classes, 100 of the 250 training points, Gaussian kernel of width 0.5.
Figure 4: see `figure4`.

Random draws behind figures 2 and 3 are lost, so the printed figures are placed in the distribution
over 100 draws: mean and standard deviation of a draw, and the share of draws that are as good as
printed or better.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._classification import Split, absent, standard_error
from benchmarks._classification import splits as classification_splits
from benchmarks._harness import Report, rms
from benchmarks.reproduce._drawing import BLUE, ORANGE, canvas, save
from benchmarks.reproduce.tipping2001 import figure4
from benchmarks.reproduce.tipping2001.classification import Bench
from benchmarks.reproduce.tipping2001.regression_data import uniform_sinc
from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.datasets import Dataset, sinc
from sparsebayes.dictionaries import Bias, Kernel
from sparsebayes.reproduce.tipping2001 import (
    HALF_RANGE,
    NOISE_STD,
    PRINTED_1,
    PRINTED_2,
    approximation,
    draw_sincs,
    largest_error,
    rms_error,
    uniform_noise,
)

Array = NDArray[np.float64]

DRAWS = 100
SUBSET, WIDTH = 100, 0.5  # figure 3
PRINTED_3 = {"vectors": 4, "SVM vectors": 38, "error": 9.3, "SVM error": 10.6}

INTERCEPT, BIAS = "intercept", "bias an atom"


def kernels_in(model: Any) -> int:
    """Kernels in a model; where the bias is an atom, it is the one at position zero."""
    first = 0 if isinstance(model, RVR | RVC) else 1
    return int((model.relevance_ >= first).sum())


# Figure 1


def approximate(solver: str, bias: str, order: NDArray[np.intp]) -> Any:
    """The fit of figure 1 with the rows, and so the atoms, in some order."""
    data = sinc(100, noise=0.0)
    if bias == INTERCEPT:
        model: Any = approximation(solver)
    else:
        held: dict[str, Any] = {"noise_variance": NOISE_STD**2, "solver": solver}
        atoms = Bias() + Kernel("lspline", gamma=1.0)
        model = SparseBayesRegressor(
            atoms, fit_intercept=False, prior="flat", random_state=0, **held
        )
    return model, Split(data.X[order], data.y[order], data.X, data.truth)


def figure1(report: Report, draws: int, bench: Bench) -> Any:
    """The default fit, and the optima that other solvers and orders of the atoms end at."""
    rows = []
    orders = [np.arange(100), *(np.random.default_rng(s).permutation(100) for s in range(1, draws))]
    for bias in (INTERCEPT, BIAS):
        for solver in ("auto", "sequential", "em", "mackay"):
            fits = [bench.fit(*approximate(solver, bias, order)) for order in orders]
            evidence = np.array([fit.log_marginal_likelihood_ for fit in fits])
            best = fits[int(evidence.argmax())]
            rows.append(
                {
                    "": f"{solver}, {bias}",
                    "orders": len(fits),
                    "converged": sum(fit.converged_ for fit in fits),
                    "log evidence, best": evidence.max(),
                    "median": float(np.median(evidence)),
                    "lowest": evidence.min(),
                    "vectors of the best": kernels_in(best),
                    "error of the best": largest_error(best),
                    "least error": min(map(largest_error, fits)),
                    "largest error": max(map(largest_error, fits)),
                }
            )
    columns = {"": "", "orders": "d", "converged": "d", "log evidence, best": ".2f"}
    columns |= {"median": ".2f", "lowest": ".2f", "vectors of the best": "d"}
    columns |= {"error of the best": ".4f", "least error": ".4f", "largest error": ".4f"}
    report.show(
        "Figure 1: sinc without noise; printed 9 vectors, largest error 0.0070 (SVM 36, 0.0100)",
        rows,
        columns,
    )
    model = bench.fit(*approximate("auto", INTERCEPT, orders[0]))
    count, error = kernels_in(model), largest_error(model)
    report.judge(
        "figure 1: at most 9 vectors and a largest error of 0.0070",
        count <= PRINTED_1["vectors"] and error <= PRINTED_1["error"],
        f"{count} vectors, {error:.4f}",
    )
    return sincs(model, sinc(100, noise=0.0), f"{count} vectors, largest error {error:.4f}")


# Figures 2 and 3


def shares(error: Array, count: Array, paper: dict[str, float]) -> dict[str, Any]:
    """A distribution over draws, and where the printed run lies in it."""
    low, middle, high = np.quantile(error, [0.1, 0.5, 0.9])
    return {
        "draws": len(error),
        "error": error.mean(),
        "+-": standard_error(error),
        "10 %": low,
        "median": middle,
        "90 %": high,
        "printed": paper["error"],
        "as good, %": 100 * float(np.mean(error <= paper["error"])),
        "SVM": paper["SVM error"],
        "vectors": count.mean(),
        "from": int(count.min()),
        "to": int(count.max()),
        "printed vec": paper["vectors"],
        "as few, %": 100 * float(np.mean(count <= paper["vectors"])),
        "both, %": 100 * float(np.mean((error <= paper["error"]) & (count <= paper["vectors"]))),
        "SVM vec": paper["SVM vectors"],
    }


def share_columns(digits: int) -> dict[str, str]:
    fine = f".{digits}f"
    names = ("error", "+-", "10 %", "median", "90 %", "printed")
    columns = {"": "", "draws": "d"} | dict.fromkeys(names, fine)
    columns |= {"as good, %": ".0f", "SVM": fine, "vectors": ".1f", "from": "d", "to": "d"}
    return columns | {"printed vec": "d", "as few, %": ".0f", "both, %": ".0f", "SVM vec": "d"}


def place(report: Report, figure: str, row: dict[str, Any], unit: str) -> None:
    """A single run in print: two standard deviations of a single run, or better."""
    deviation = row["+-"] * row["draws"] ** 0.5
    report.judge(
        f"{figure}: the printed error of a single run, within two standard deviations of one",
        row["error"] <= row["printed"] + 2 * deviation,
        f"{row['error']:.3g} +- {deviation:.2g} beside {row['printed']:.4g}{unit}; "
        f"{row['both, %']:.0f} % of {row['draws']} draws have at most that and at most "
        f"{row['printed vec']} vectors",
    )


def figure2(report: Report, draws: int, bench: Bench) -> Any:
    """Uniform noise: the distribution over draws."""
    rows, shown = [], None
    for bias in (INTERCEPT, BIAS):
        error, count = np.empty(draws), np.empty(draws)
        for seed in range(draws):
            data = uniform_sinc(seed, HALF_RANGE)
            if bias == INTERCEPT:
                model: Any = RVR("lspline", gamma=1.0, prior="flat", random_state=0)
            else:
                atoms = Bias() + Kernel("lspline", gamma=1.0)
                model = SparseBayesRegressor(atoms, fit_intercept=False, prior="flat")
            bench.fit(model, data)
            error[seed], count[seed] = (
                rms(model.predict(data.X_test) - data.y_test),
                kernels_in(model),
            )
            shown = model if shown is None else shown
        rows.append({"": bias} | shares(error, count, PRINTED_2))
    report.show(
        "Figure 2: sinc, uniform noise of +-0.2, linear splines; RMS error", rows, share_columns(4)
    )
    place(report, "figure 2", rows[0], "")
    data = uniform_noise(0, HALF_RANGE)
    error_0 = rms_error(shown)
    return sincs(shown, data, f"draw 0: {kernels_in(shown)} vectors, RMS error {error_0:.4f}")


def figure3(report: Report, draws: int, bench: Bench) -> Any:
    """Two classes: the distribution over subsets of the training set."""
    if reason := absent("ripley"):
        print(f"figure 3, {reason}")
        return None
    whole = classification_splits("ripley")[0]
    rows, fits = [], []
    for bias in (INTERCEPT, BIAS):
        error, count = np.empty(draws), np.empty(draws)
        for seed in range(draws):
            chosen = np.random.default_rng(seed).choice(len(whole.X), SUBSET, replace=False)
            data = Split(whole.X[chosen], whole.y[chosen], whole.X_test, whole.y_test)
            if bias == INTERCEPT:
                model: Any = RVC(gamma=1 / WIDTH**2, prior="flat", random_state=0)
            else:
                atoms = Bias() + Kernel("rbf", gamma=1 / WIDTH**2)
                model = SparseBayesClassifier(atoms, fit_intercept=False, prior="flat")
            error[seed], count[seed] = 100 * bench.error(model, data), kernels_in(model)
            fits.append((error[seed], seed, model, data))
        rows.append({"": bias} | shares(error, count, PRINTED_3))
    report.show(
        "Figure 3: Ripley's classes, 100 of 250 points; test error in %", rows, share_columns(1)
    )
    place(report, "figure 3", rows[0], " %")
    return draw_classes(*sorted(fits[:draws], key=lambda fit: fit[:2])[draws // 2])


# Pictures


def sincs(model: Any, data: Dataset, title: str) -> Any:
    figure, axes = canvas(1, 1, (6.5, 3.2))
    draw_sincs(axes[0, 0], model, data, title)
    return figure


def draw_classes(error: float, seed: int, model: Any, data: Split) -> Any:
    figure, axes = canvas(1, 1, (5, 4.2))
    axis = axes[0, 0]
    for label, color in ((0, BLUE), (1, ORANGE)):
        axis.plot(
            *data.X[data.y == label].T, ".", markersize=4, color=color, label=f"class {label}"
        )
    grid = np.stack(np.meshgrid(np.linspace(-1.3, 1, 120), np.linspace(-0.3, 1.2, 90)), axis=-1)
    height = model.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    axis.contour(grid[..., 0], grid[..., 1], height, [0.0], colors="black", linewidths=1)
    vectors = model.relevance_vectors_
    axis.plot(*vectors.T, "o", fillstyle="none", color="black", markersize=10, label="vectors")
    title = f"subset {seed}, the median: {len(vectors)} vectors, test error {error:.1f} %"
    axis.set_title(title, fontsize="small", loc="left")
    axis.legend(fontsize="x-small", frameon=False, loc="lower left")
    axis.tick_params(labelsize="x-small")
    return figure


FIGURES: dict[str, tuple[Callable[[Report, int, Bench], Any], int]] = {
    "figure1": (figure1, 12),
    "figure2": (figure2, DRAWS),
    "figure3": (figure3, DRAWS),
    "figure4": (figure4.figure4, 40),
}


def run(report: Report, args: argparse.Namespace, names: list[str]) -> None:
    """Measure, and draw where a folder is given."""
    bench = Bench()
    folder: Path | None = args.draw
    for name in names:
        make, draws = FIGURES[name]
        picture = make(report, max(2, draws // 10) if args.quick else draws, bench)
        if folder is not None and picture is not None:
            save(picture, folder / f"rvm2001-{name}.png")
    bench.tell()
