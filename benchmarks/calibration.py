"""Can the probabilities be believed? Reliability, log-loss and Brier score on real test sets.

Beside an SVC calibrated by Platt's method on five folds, and a Gaussian process classifier. All
have the kernel exp(-|x - z|^2 / r^2) of the same width: that of the SVC's smallest error in 5-fold
cross-validation on the first training sets, together with its C; the choice that suits the SVC.
The Gaussian process learns its amplitude. Ours are fitted once and asked twice: integrated over
the posterior of the weights, and plugged in at its mode as in the papers. "RVC, own width" has the
width of its smallest cross-validated log-loss on the same folds instead. The last
table says where ours is worse than a peer, and why.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.svm import SVC

from benchmarks import _calibration_why as why
from benchmarks._classification import (
    DATA,
    IDA,
    Array,
    Labels,
    Reliability,
    Split,
    absent,
    brier,
    chance,
    cross_validate,
    log_loss,
    reliability,
    selection_sets,
    splits,
    standard_error,
    widths,
)
from benchmarks._harness import Report, Run, argument_parser

DATASETS = ("ripley", "pima", *IDA)
WITH_USPS = (*DATASETS, "usps")
OURS, PLUG_IN, OWN = "RVC", "RVC, plug-in", "RVC, own width"
SVM, GP = "SVC, calibrated", "GP"
METHODS = (OURS, PLUG_IN, OWN, SVM, GP)
C_GRID = (300.0, 30.0, 3.0, 0.3)
LIMIT = 120.0  # seconds, after which a competitor retires from a data set
SLOW = 30.0  # CPU seconds, after which it meets two splits only
GP_ROWS = 2000  # beyond, its covariance matrices take minutes

COLUMNS = {
    "": "",
    "error %": ".2f",
    "log-loss": ".4f",
    "- RVC's": "+.4f",
    "+-": ".4f",
    "Brier": ".4f",
    "ECE %": ".2f",
    "by chance %": ".2f",
    "vectors": ".1f",
    "CPU s": ".3f",
    "splits": "d",
}


@dataclass(slots=True)
class Answers:
    """Probabilities of one method, split by split."""

    proba: list[Array] = field(default_factory=list)
    y: list[Labels] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    vectors: list[int] = field(default_factory=list)

    def add(self, proba: Array, y: Labels, cpu: float, model: Any) -> None:
        self.proba.append(proba)
        self.y.append(y)
        self.cpu.append(cpu)
        if hasattr(model, "relevance_"):
            self.vectors.append(len(np.unique(np.hstack(model.relevance_))))

    def scores(self, score: Callable[[Array, Labels], Array]) -> list[Array]:
        """Of every row, split by split."""
        return [score(p, y) for p, y in zip(self.proba, self.y, strict=True)]

    def mean(self, score: Callable[[Array, Labels], Array]) -> float:
        return float(np.mean([values.mean() for values in self.scores(score)]))

    def reliability(self, first: int | None = None) -> Reliability:
        """Of the rows of all splits together, or of the first ones."""
        return reliability(np.vstack(self.proba[:first]), np.concatenate(self.y[:first]))


def misses(proba: Array, y: Labels) -> Array:
    return np.asarray(proba.argmax(axis=1) != y, dtype=float)


def difference(
    mine: Answers, other: Answers, score: Callable[[Array, Labels], Array]
) -> tuple[float, float]:
    """Mean of mine minus the other's on the splits both have, and its standard error.

    Over the splits; over the rows where there is only one split.
    """
    pairs = zip(mine.scores(score), other.scores(score), strict=False)
    gaps = [a - b for a, b in pairs]
    values = gaps[0] if len(gaps) == 1 else np.array([gap.mean() for gap in gaps])
    return float(values.mean()), standard_error(values)


# Methods


def rvc(width: float) -> Any:
    RVC = import_module("sparsebayes").RVC
    return RVC(gamma=1 / width**2, prior="flat", random_state=0)


def calibrated(width: float, C: float) -> Any:
    return CalibratedClassifierCV(SVC(C=C, gamma=1 / width**2), method="sigmoid", cv=5)


def gaussian_process(width: float) -> Any:
    covariance = ConstantKernel(1.0, (1e-3, 1e6)) * RBF(width / np.sqrt(2), "fixed")
    return GaussianProcessClassifier(covariance)


def svc_setting(name: str, sets: list[Split]) -> tuple[float, float]:
    """Width and C of the smallest cross-validated error of the SVC."""

    def error(setting: tuple[float, float], data: Split) -> float:
        model = SVC(C=setting[1], gamma=1 / setting[0] ** 2).fit(data.X, data.y)
        return float(np.mean(model.predict(data.X_test) != data.y_test))

    grid = [(r, C) for C in C_GRID for r in widths(name, sets[0].X)]
    width, C = cross_validate(grid, error, selection_sets(name, sets))[0]
    return width, C


def own_width(name: str, sets: list[Split]) -> float:
    """Width of the smallest cross-validated log-loss of our classifier."""

    def loss(width: float, data: Split) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = rvc(width).fit(data.X, data.y)
        return float(log_loss(model.predict_proba(data.X_test), data.y_test).mean())

    grid = widths(name, sets[0].X)[1::2]
    return float(cross_validate(grid, loss, selection_sets(name, sets))[0])


def fit(make: Callable[[], Any], data: Split) -> Any:
    return make().fit(data.X, data.y)


def answers(name: str, sets: list[Split], setting: tuple[float, float]) -> dict[str, Answers]:
    """Everyone's probabilities on every split."""
    width, C = setting
    methods: dict[str, Callable[[], Any]] = {
        OURS: partial(rvc, width),
        OWN: partial(rvc, own_width(name, sets)),
        SVM: partial(calibrated, width, C),
        GP: partial(gaussian_process, width),
    }
    if len(sets[0].X) > GP_ROWS:
        print(f"  {name}: too many rows for {GP}, left out")
        del methods[GP]
    found = {method: Answers() for method in METHODS if method == PLUG_IN or method in methods}
    messages: set[str] = set()
    for data in sets:
        for method, make in list(methods.items()):
            if len(found[method].y) >= 2 and found[method].cpu[0] > SLOW:
                continue
            run = Run()
            run.once(partial(fit, make, data), LIMIT)
            messages |= {f"{method} warned: {m.splitlines()[0][:150]}" for m in run.messages}
            if run.result is None:
                print(f"  {name}: {method} passed {LIMIT:.0f} s and retires")
                del methods[method]
                continue
            proba = run.result.predict_proba(data.X_test)
            found[method].add(proba, data.y_test, run.cpu, run.result)
            if method == OURS:
                plugged = run.result.predict_proba(data.X_test, plug_in=True)
                found[PLUG_IN].add(plugged, data.y_test, run.cpu, run.result)
    for message in sorted(messages):
        print(f"  {name}: {message}")
    return {method: answer for method, answer in found.items() if answer.y}


# Output


def lines(found: dict[str, Answers]) -> list[dict[str, Any]]:
    """One line for each method."""
    rows = []
    for method, answer in found.items():
        gap, error = difference(answer, found[OURS], log_loss)
        rows.append(
            {
                "": method,
                "error %": 100 * answer.mean(misses),
                "log-loss": answer.mean(log_loss),
                "- RVC's": gap if method != OURS else None,
                "+-": error if method != OURS else None,
                "Brier": answer.mean(brier),
                "ECE %": 100 * answer.reliability().error,
                "by chance %": 100 * chance(np.vstack(answer.proba)),
                "vectors": float(np.mean(answer.vectors)) if answer.vectors else None,
                "CPU s": float(np.median(answer.cpu)),
                "splits": len(answer.y),
            }
        )
    return rows


def diagram(found: dict[str, Answers]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The reliability diagram as a table: stated and observed frequencies, and rows, by bin."""
    tables = {method: answer.reliability() for method, answer in found.items()}
    bins = len(tables[OURS].count)
    columns = {"from": ".1f"}
    rows: list[dict[str, Any]] = [{"from": k / bins} for k in range(bins)]
    for method, r in tables.items():
        name = method.split(", ")[-1] if method in (PLUG_IN, OWN) else method.split(",")[0]
        columns |= {f"{name}: stated": ".3f", f"{name}: seen": ".3f", f"{name}: rows": "d"}
        for k, row in enumerate(rows):
            values = float(r.stated[k]), float(r.observed[k]), int(r.count[k])
            row |= dict(zip(list(columns)[-3:], values, strict=True))
    return rows, columns


def judge(report: Report, name: str, found: dict[str, Answers]) -> None:
    """Ours beside each peer; two standard errors are allowed, a hundredth for calibration."""
    ours = found[OURS]
    for peer in (SVM, GP):
        if peer not in found:
            continue
        for label, score in (("log-loss", log_loss), ("Brier score", brier)):
            gap, error = difference(ours, found[peer], score)
            figure = f"{gap:+.4f} +- {error:.4f}"
            report.judge(f"{name}: {label} not worse than of {peer}", gap <= 2 * error, figure)
        first = min(len(ours.y), len(found[peer].y))
        mine, theirs = (answer.reliability(first).error for answer in (ours, found[peer]))
        report.judge(
            f"{name}: calibration error not worse than of {peer}",
            mine <= theirs + 0.01,
            f"{100 * mine:.2f} against {100 * theirs:.2f} %",
        )


def main() -> None:
    parser = argument_parser("Reliability and log-loss beside calibrated SVC and GP", 1)
    parser.add_argument("--only", nargs="+", metavar="DATASET", choices=WITH_USPS)
    parser.add_argument("--splits", type=int, default=10, help="of those that have several")
    args = parser.parse_args()
    report = Report.open("Calibration of class probabilities", args.threads)
    if not DATA.exists():
        print("../shared/data is absent: nothing to measure")
        return
    worse = []
    for name in args.only or DATASETS:
        if reason := absent(name):
            print(reason)
            continue
        sets = splits(name)[: args.splits]
        setting = svc_setting(name, sets)
        found = answers(name, sets, setting)
        sizes = f"{len(sets[0].X)} training, {len(sets[0].X_test)} test rows"
        heading = f"{name}: {sizes}, r = {setting[0]:.3g}, C of the SVC = {setting[1]:g}"
        report.show(heading, lines(found), COLUMNS)
        report.show(f"{name}: reliability", *diagram(found))
        judge(report, name, found)
        gap = partial(difference, score=log_loss)
        peers = [why.line(name, peer, found, gap, OURS, OWN) for peer in (SVM, GP) if peer in found]
        worse += [row for row in peers if row]
    if worse:
        report.show("Where the log-loss of ours is higher, and why", worse, why.COLUMNS)
    report.close(args)


if __name__ == "__main__":
    main()
