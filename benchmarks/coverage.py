"""Do error bars hold what they say? Coverage on and off the data's support, and log density.

One fit is asked four times: for its own error bars, for those with an atom added at the test point
(``augment``), for those averaged over variances and noise (``marginalize``), and for both; beside a
Gaussian process with the same kernel and a noise. All learn the width of the kernel, one for all
inputs, by the evidence: ours from a grid, the Gaussian process with its amplitude and noise by
gradients.

Rows are divided by one input: a gap within its range, and everything beyond its upper end, have no
training data. Training rows are drawn from the rest, and so are the test rows "on the data".
Coverage is of intervals of the noisy targets, over draws of training set and noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from benchmarks._harness import SHARED, Report, argument_parser, rms
from sparsebayes import RVR, EvidenceSearch, SparseBayesRegressor
from sparsebayes.datasets import friedman1, friedman2, friedman3, sinc, sparse_linear
from sparsebayes.predictive import Normal

Array = NDArray[np.float64]

PLAIN, AUGMENTED, MARGINAL, BOTH, GP = "plain", "augmented", "marginalized", "both", "GP"
ON, GAP, OUTSIDE = "on the data", "in a gap", "outside"
LEVELS = (0.5, 0.9, 0.95)
GAP_FROM, GAP_TO, END = 0.55, 0.7, 0.85  # shares of all rows, in the order of one input
POOL, TEST_ROWS = 4000, 400
BOSTON = SHARED / "data" / "boston" / "boston.csv"
LSTAT = 12  # its most informative column
FRIEDMAN_COLUMNS = {"friedman1": 3, "friedman2": 1, "friedman3": 1}
GRID = [2.0**k for k in range(-6, 4)]  # gamma, times the number of inputs
RULES = {
    "50 %": ".3f",
    "90 %": ".3f",
    "95 %": ".3f",
    "width": ".3f",
    "RMSE": ".4g",
    "NLPD": ".3f",
    "- plain's": "+.3f",
    "+-": ".3f",
}
COLUMNS = {"": "", "rows": ""} | RULES


class Data(NamedTuple):
    """A training set, and test sets by where they are."""

    X: Array
    y: Array
    tests: dict[str, tuple[Array, Array]]


@dataclass(slots=True)
class Scores:
    """Of one method at one place, draw by draw."""

    covered: list[list[float]] = field(default_factory=list)
    width: list[float] = field(default_factory=list)
    nlpd: list[float] = field(default_factory=list)
    rmse: list[float] = field(default_factory=list)

    def add(self, forecast: Any, y: Array, unit: float) -> None:
        intervals = [forecast.interval(level) for level in LEVELS]
        self.covered.append([float(np.mean((a <= y) & (y <= b))) for a, b in intervals])
        low, high = intervals[-1]
        self.width.append(float(np.mean(high - low)) / unit)
        self.nlpd.append(float(-np.mean(forecast.logpdf(y))))
        self.rmse.append(rms(forecast.mean - y))

    @property
    def coverage(self) -> Array:
        return np.asarray(np.mean(self.covered, axis=0))


# Data


def divided(X: Array, y: Array, column: int, n: int, seed: int) -> Data:
    """Training and test rows on the data, and test rows in a gap and beyond the end."""
    order = np.argsort(np.argsort(X[:, column], kind="stable")) / len(X)
    places = {GAP: (order >= GAP_FROM) & (order < GAP_TO), OUTSIDE: order >= END}
    rest = np.flatnonzero(~(places[GAP] | places[OUTSIDE]))
    rest = np.random.default_rng(seed).permutation(rest)
    scaler = StandardScaler().fit(X[rest[:n]])
    rows = {ON: rest[n : n + TEST_ROWS]}
    rows |= {place: np.flatnonzero(inside)[:: _every(inside)] for place, inside in places.items()}
    tests = {place: (scaler.transform(X[own]), y[own]) for place, own in rows.items()}
    return Data(scaler.transform(X[rest[:n]]), y[rest[:n]], tests)


def _every(inside: NDArray[np.bool_]) -> int:
    return max(1, int(inside.sum()) // TEST_ROWS)


def drawn(make: Callable[..., Any], column: int) -> Callable[[int, int], Data]:
    def draw(n: int, seed: int) -> Data:
        data = make(POOL, random_state=seed)
        return divided(data.X, data.y, column, n, seed)

    return draw


def boston(n: int, seed: int) -> Data:
    table = np.loadtxt(BOSTON, delimiter=",", skiprows=1)
    return divided(table[:, :-1], table[:, -1], LSTAT, n, seed)


def linear(n: int, seed: int) -> Data:
    data = sparse_linear(n + TEST_ROWS, 100, 8, snr_db=10.0, random_state=seed)
    return Data(data.X[:n], data.y[:n], {ON: (data.X[n:], data.y[n:])})


DATASETS: dict[str, tuple[Callable[[int, int], Data], tuple[int, ...]]] = {
    "sinc": (drawn(sinc, 0), (25, 50, 100)),
    "friedman1": (drawn(friedman1, FRIEDMAN_COLUMNS["friedman1"]), (50, 100, 240)),
    "friedman2": (drawn(friedman2, FRIEDMAN_COLUMNS["friedman2"]), (50, 100, 240)),
    "friedman3": (drawn(friedman3, FRIEDMAN_COLUMNS["friedman3"]), (50, 100, 240)),
    "boston": (boston, (50, 300)),
    "linear": (linear, (40, 80)),
}


# Methods


def ours(data: Data, kernel: bool) -> dict[str, Callable[[Array], Any]]:
    """One fit, and its kinds of error bars."""
    model: Any = SparseBayesRegressor()
    if kernel:
        grid = {"gamma": [gamma / data.X.shape[1] for gamma in GRID]}
        model = EvidenceSearch(RVR(), grid).fit(data.X, data.y).best_estimator_
    else:
        model.fit(data.X, data.y)
    # without atoms there is no kernel that could be centered at a test point
    augment = kernel and len(model.relevance_) > 0
    kinds: dict[str, dict[str, bool]] = {PLAIN: {}, MARGINAL: {"marginalize": True}}
    if kernel:
        kinds[AUGMENTED] = {"augment": augment}
        kinds[BOTH] = {"augment": augment, "marginalize": True}
    return {kind: partial(model.predict_distribution, **how) for kind, how in kinds.items()}


def gaussian_process(data: Data) -> Callable[[Array], Any]:
    d = data.X.shape[1]
    covariance = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(d**0.5, (1e-2, 1e3))
    kernel = covariance + WhiteKernel(0.1, (1e-6, 1e1))
    model = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0
    ).fit(data.X, data.y)

    def forecast(X: Array) -> Normal:
        mean, std = model.predict(X, return_std=True)
        return Normal(mean, std, std)

    return forecast


def measure(draw: Callable[[int, int], Data], n: int, draws: int, kernel: bool) -> Any:
    """Scores of every method at every place."""
    found: dict[tuple[str, str], Scores] = {}
    for seed in range(draws):
        data = draw(n, seed)
        with warnings.catch_warnings():
            # A collapsed fit is part of what is measured, and a width at its bound is no news.
            warnings.simplefilter("ignore", ConvergenceWarning)
            methods = ours(data, kernel)
            if kernel:
                methods[GP] = gaussian_process(data)
        unit = float(np.std(np.concatenate([y for _, y in data.tests.values()])))
        for place, (X, y) in data.tests.items():
            for method, forecast in methods.items():
                found.setdefault((place, method), Scores()).add(forecast(X), y, unit)
    return found


# Output


def lines(found: dict[tuple[str, str], Scores]) -> list[dict[str, Any]]:
    """One line for each place and method."""
    rows = []
    for (place, method), scores in found.items():
        gap = np.subtract(scores.nlpd, found[place, PLAIN].nlpd)
        error = float(gap.std(ddof=1) / len(gap) ** 0.5) if len(gap) > 1 else None
        values = [
            *scores.coverage.tolist(),
            float(np.mean(scores.width)),
            float(np.mean(scores.rmse)),
            float(np.mean(scores.nlpd)),
            float(gap.mean()) if method != PLAIN else None,
            error if method != PLAIN else None,
        ]
        rows.append({"": method, "rows": place} | dict(zip(RULES, values, strict=True)))
    return rows


def judge(report: Report, found: dict[str, dict[tuple[str, str], Scores]]) -> None:
    """Over all data sets: are the 95 % intervals nearer to 95 %, and is the density higher?"""
    claims = [(MARGINAL, ON), (AUGMENTED, GAP), (AUGMENTED, OUTSIDE)]
    claims += [(BOTH, place) for place in (ON, GAP, OUTSIDE)]
    for method, place in claims:
        pairs = [
            (each[place, method], each[place, PLAIN])
            for each in found.values()
            if (place, method) in each
        ]
        if not pairs:
            continue
        off = [[abs(s.coverage[-1] - LEVELS[-1]) for s in pair] for pair in pairs]
        nearer = sum(own <= plain for own, plain in off)
        own, plain = np.mean(off, axis=0)
        report.judge(
            f"{method}, {place}: coverage of 95 % intervals nearer than plain ones'",
            own < plain,
            f"{100 * own:.1f} off instead of {100 * plain:.1f} on average, nearer in {nearer} "
            f"of {len(pairs)}",
        )
        gains = [float(np.median(np.subtract(b.nlpd, a.nlpd))) for a, b in pairs]
        report.judge(
            f"{method}, {place}: log density higher",
            sum(gain > 0 for gain in gains) > len(gains) / 2,
            f"in {sum(gain > 0 for gain in gains)} of {len(gains)}, by {np.median(gains):+.3f} "
            "nats a row in the median",
        )


def main() -> None:
    parser = argument_parser("Coverage of intervals, on and off the data", 1)
    parser.add_argument("--only", nargs="+", metavar="DATASET", choices=tuple(DATASETS))
    parser.add_argument("--draws", type=int, default=20, help="training sets of each size")
    parser.add_argument("--quick", action="store_true", help="few draws of the smallest size")
    args = parser.parse_args()
    report = Report.open("Coverage of error bars", args.threads)
    found: dict[str, dict[tuple[str, str], Scores]] = {}
    for name in args.only or DATASETS:
        if name == "boston" and not BOSTON.exists():
            print("../shared/data/boston is absent: Boston is left out")
            continue
        draw, sizes = DATASETS[name]
        for n in sizes[:1] if args.quick else sizes:
            draws = min(args.draws, 5) if args.quick else args.draws
            scores = found[f"{name} {n}"] = measure(draw, n, draws, name != "linear")
            heading = f"{name}, N = {n}, {draws} draws; widths of 95 % intervals in sd of targets"
            report.show(heading, lines(scores), COLUMNS)
    judge(report, found)
    report.close(args)


if __name__ == "__main__":
    main()
