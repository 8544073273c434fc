"""Smooth functions with little or no noise, as computer models are, beside a Gaussian process.

The smoother a function, the wider the kernels that suit it, until float64 hardly tells them apart:
here a fit must not follow what rounding makes up. Errors are root mean squares to the truth at 1000
further points, relative to the function's standard deviation; medians over draws, and the worst.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from benchmarks._harness import Report, argument_parser, rms
from sparsebayes import RVR

Array = NDArray[np.float64]

NOISE = (0.0, 1e-4, 1e-2)  # standard deviation, relative to the function's
TEST_ROWS = 1000
USEFUL = 1.0  # relative error at which the mean of the targets would have done as well
COLUMNS = {
    "": "",
    "N": "d",
    "noise": "g",
    "machine": "",
    "error": ".1e",
    "worst": ".1e",
    "kernels": ".0f",
    "ended": "",
    "fit s": ".2f",
}


def branin(X: Array) -> Array:
    x, y = 15 * X[:, 0] - 5, 15 * X[:, 1]
    dip = (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2
    return np.asarray(dip + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10)


def friedman(X: Array) -> Array:
    bent = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return np.asarray(bent + 10 * X[:, 3] + 5 * X[:, 4])


FUNCTIONS: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "sine": (1, lambda X: np.sin(2 * np.pi * X[:, 0])),
    "decay": (1, lambda X: np.exp(-3 * X[:, 0]) * np.sin(6 * X[:, 0])),
    "branin": (2, branin),
    "friedman": (5, friedman),
}


def gaussian_process(dim: int) -> Any:
    kernel = ConstantKernel(1.0, (1e-3, 1e6)) * RBF(np.ones(dim), (1e-2, 1e3))
    return GaussianProcessRegressor(
        kernel + WhiteKernel(1e-4, (1e-12, 1.0)),
        normalize_y=True,
        n_restarts_optimizer=2,
        random_state=0,
    )


GAMMAS = ("scale", "pooled", "pooled-ard", "evidence", "ard")


def machines(dim: int) -> dict[str, Any]:
    own = {f"RVR, {gamma}": RVR(gamma=gamma, random_state=0) for gamma in GAMMAS}
    return {**own, "GP": gaussian_process(dim)}


def measure(name: str, rows: int, noise: float, draws: int) -> list[dict[str, Any]]:
    """All machines on the same draws of one function: a line for each."""
    dim, function = FUNCTIONS[name]
    found: dict[str, list[tuple[float, float, str, float]]] = {}
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        X, new = rng.uniform(size=(rows, dim)), rng.uniform(size=(TEST_ROWS, dim))
        y, truth = function(X), function(new)
        y = y + noise * y.std() * rng.standard_normal(rows)
        scaler = StandardScaler().fit(X)
        X, new = scaler.transform(X), scaler.transform(new)
        for machine, model in machines(dim).items():
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(X, y)
            seconds = time.process_time() - start
            error = rms(model.predict(new) - truth) / float(truth.std())
            own = machine != "GP"
            kernels = len(model.relevance_) if own else rows
            ended = model.solution_.status.name if own else ""
            found.setdefault(machine, []).append((error, kernels, ended, seconds))
    lines = []
    for machine, runs in found.items():
        errors, kernels, ends, seconds = zip(*runs, strict=True)
        counts = {ended: ends.count(ended) for ended in sorted(set(ends)) if ended}
        lines.append(
            {
                "": name,
                "N": rows,
                "noise": noise,
                "machine": machine,
                "error": float(np.median(errors)),
                "worst": max(errors),
                "kernels": float(np.median(kernels)),
                "ended": ", ".join(f"{ended} {n}" for ended, n in counts.items()),
                "fit s": float(np.median(seconds)),
            }
        )
    return lines


def main() -> None:
    parser = argument_parser("smooth functions with little noise, beside a Gaussian process", 1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 100, 300])
    parser.add_argument("--draws", type=int, default=3, help="data sets for each line")
    parser.add_argument("--only", nargs="+", choices=FUNCTIONS, default=list(FUNCTIONS))
    args = parser.parse_args()
    report = Report.open("Functions with little noise", args.threads)
    lines: list[dict[str, Any]] = []
    for name in args.only:
        own = [line for N in args.sizes for s in NOISE for line in measure(name, N, s, args.draws)]
        report.show(name, own, COLUMNS)
        lines += own
    for gamma in GAMMAS:
        mine = [line for line in lines if line["machine"] == f"RVR, {gamma}"]
        worst = max(mine, key=lambda line: line["worst"])
        where = f"{worst['']}, N = {worst['N']}, noise {worst['noise']:g}"
        claim = f"RVR, {gamma}: never worse than the mean of the targets"
        report.judge(claim, worst["worst"] < USEFUL, f"worst {worst['worst']:.2g} ({where})")
    report.close(args)


if __name__ == "__main__":
    main()
