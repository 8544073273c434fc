"""The table of classification benchmarks in Tipping 2001, beside its printed columns.

Protocol. Gaussian kernel exp(-|x - z|^2 / r^2), the width r by 5-fold cross-validation of the
error, as in the paper, which does not say of which rows. Here, as is customary for these sets:
one width for all splits, that of the smallest error over the folds of the first five training
sets (Pima: of its only one; USPS: of 1500 training rows in proportion to the classes), out of
nine widths in steps of sqrt 2 (USPS: the middle five, the others err far more). The SVM has its C
and width from the same folds. USPS as ten one-vs-rest machines, as in the paper, and as one
multinomial machine of the same width; its vectors are summed over the machines or classes, as
the printed 316 and 2540 are.

Error and vectors are means over the original splits, with the standard error of the mean; for a
single split the binomial one. A relevance vector is one atom: equal rows give equal atoms and
count once here, in the column "rows" as often as they occur, which is how Titanic was counted.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from benchmarks._classification import (
    DATA,
    Array,
    Split,
    absent,
    cross_validate,
    selection_sets,
    splits,
    standard_error,
    widths,
)
from benchmarks._harness import Report

PRINTED = {
    "pima": "Pima Diabetes",
    "banana": "Banana",
    "breast-cancer": "Breast Cancer",
    "titanic": "Titanic",
    "waveform": "Waveform",
    "german": "German",
    "image": "Image",
    "usps": "U.S.P.S.",
}
DATASETS = tuple(PRINTED)
C_GRID = (0.3, 3.0, 30.0, 300.0)

Make = Callable[[Any, Split], Any]

COLUMNS = {
    "": "",
    "N": "d",
    "splits": "d",
    "r": ".2f",
    "error %": ".2f",
    "+-": ".2f",
    "paper RVM": ".1f",
    "paper SVM": ".1f",
    "SVC": ".2f",
    "vectors": ".1f",
    "rows": ".1f",
    "distinct": ".1f",
    "paper RVM vec": ".1f",
    "paper SVM vec": ".1f",
    "SVC vec": ".1f",
    "s / fit": ".2f",
}


# Machines


def machine(width: float) -> Any:
    RVC = import_module("sparsebayes").RVC
    return RVC(gamma=1 / width**2, prior="flat", random_state=0)


def rvm(width: float, data: Split) -> Any:
    """Two classes: one machine. More: one for each, against the rest."""
    model = machine(width)
    return model if data.y.max() == 1 else OneVsRestClassifier(model)


def svm(setting: tuple[float, float], data: Split) -> Any:
    width, C = setting
    model = SVC(C=C, gamma=1 / width**2)
    return model if data.y.max() == 1 else OneVsRestClassifier(model)


def vectors(model: Any) -> list[Array]:
    """Relevance or support vectors, one array for each machine or class."""
    machines = getattr(model, "estimators_", [model])
    found = [m.support_vectors_ if isinstance(m, SVC) else m.relevance_vectors_ for m in machines]
    return found[0] if isinstance(found[0], list) else found


def occurrences(found: list[Array], X: Array) -> int:
    """Rows of X that equal one of the vectors, summed over the machines."""
    if not sum(map(len, found)):
        return 0
    count = Counter(map(bytes, np.ascontiguousarray(X)))
    return sum(count[bytes(v)] for part in found for v in set(map(bytes, part)))


@dataclass(slots=True)
class Outcome:
    """One kind of machine on the splits of a data set."""

    setting: Any
    error: list[float] = field(default_factory=list)
    vectors: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    distinct: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def uncertainty(self, test_rows: int) -> float:
        """Standard error of the mean error."""
        if len(self.error) > 1:
            return standard_error(self.error)
        return float(np.sqrt(self.error[0] * (1 - self.error[0]) / test_rows))


class Bench:
    """Fits, and remembers what they warned of."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()

    def fit(self, model: Any, data: Split) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(data.X, data.y)
        self.messages.update(f"{w.category.__name__}: {w.message}" for w in caught)
        return model

    def tell(self) -> None:
        """Print what was warned of, below a table."""
        for message, times in self.messages.most_common(10):
            print(f"  warned {times} times: {message.splitlines()[0][:150]}")

    def error(self, model: Any, data: Split) -> float:
        return float(np.mean(self.fit(model, data).predict(data.X_test) != data.y_test))

    def outcome(
        self, make: Callable[[Any, Split], Any], setting: Any, sets: list[Split]
    ) -> Outcome:
        """Train and test on every split."""
        result = Outcome(setting)
        for data in sets:
            cpu = time.process_time()
            model = self.fit(make(setting, data), data)
            result.seconds.append(time.process_time() - cpu)
            result.error.append(float(np.mean(model.predict(data.X_test) != data.y_test)))
            found = vectors(model)
            result.vectors.append(sum(map(len, found)))
            result.rows.append(occurrences(found, data.X))
            stacked = np.vstack([part for part in found if len(part)] or [data.X[:0]])
            result.distinct.append(len(np.unique(stacked, axis=0)))
        return result


# The table


def printed() -> dict[str, dict[str, float]]:
    """The paper's columns for each data set."""
    with (DATA / "published" / "tipping2001_classification.csv").open() as file:
        lines = {line["dataset"]: line for line in csv.DictReader(file)}
    columns = ("err_pct_RVM", "err_pct_SVM", "vec_RVM", "vec_SVM")
    return {name: {c: float(lines[PRINTED[name]][c]) for c in columns} for name in DATASETS}


def outcomes(name: str, bench: Bench, args: argparse.Namespace) -> tuple[Split, dict[str, Outcome]]:
    """All machines on one data set, with progress."""
    sets = splits(name)
    grid = widths(name, sets[0].X)
    if args.quick:
        chosen_on, grid = selection_sets(name, sets, count=1, rows=500), grid[::2]
        sets = chosen_on if name == "usps" else sets[:3]
    else:
        chosen_on = selection_sets(name, sets)
    start = time.perf_counter()

    def say(text: str) -> None:
        print(f"  {name}, {time.perf_counter() - start:.0f} s: {text}", flush=True)

    width, errors = cross_validate(grid, lambda r, d: bench.error(rvm(r, d), d), chosen_on)
    curve = ", ".join(f"{r:.2f}: {100 * e:.1f}" for r, e in errors.items())
    say(f"r = {width:.2f} out of (CV error %) {curve}")
    found = {"RVC": bench.outcome(rvm, width, sets)}
    say(f"RVC error {100 * np.mean(found['RVC'].error):.2f} %")
    if name == "usps":
        found["multinomial"] = bench.outcome(lambda r, _: machine(r), width, sets)
        say(f"multinomial error {100 * np.mean(found['multinomial'].error):.2f} %")
    if not args.no_svm:
        pairs = [(r, C) for C in reversed(C_GRID) for r in grid]
        setting, _ = cross_validate(pairs, lambda s, d: bench.error(svm(s, d), d), chosen_on)
        found["SVC"] = bench.outcome(svm, setting, sets)
        say(f"SVC error {100 * np.mean(found['SVC'].error):.2f} %, r, C = {setting}")
    return sets[0], found


def lines(
    name: str, data: Split, found: dict[str, Outcome], paper: dict[str, float]
) -> list[dict[str, Any]]:
    """One line of the table, two for USPS."""
    svc = found.get("SVC")
    alone = {"RVC": name}
    both = {"RVC": f"{name}, one-vs-rest", "multinomial": f"{name}, multinomial"}
    kinds = both if "multinomial" in found else alone
    return [
        {
            "": title,
            "N": len(data.X),
            "splits": len(result.error),
            "r": result.setting,
            "error %": 100 * float(np.mean(result.error)),
            "+-": 100 * result.uncertainty(len(data.X_test)),
            "paper RVM": paper["err_pct_RVM"],
            "paper SVM": paper["err_pct_SVM"],
            "SVC": svc and 100 * float(np.mean(svc.error)),
            "vectors": float(np.mean(result.vectors)),
            "vectors +-": standard_error(list(map(float, result.vectors))),
            "rows": float(np.mean(result.rows)),
            "distinct": float(np.mean(result.distinct)),
            "paper RVM vec": paper["vec_RVM"],
            "paper SVM vec": paper["vec_SVM"],
            "SVC vec": svc and float(np.mean(svc.vectors)),
            "SVC r, C": svc and svc.setting,
            "s / fit": float(np.median(result.seconds)),
        }
        for kind, title in kinds.items()
        for result in [found[kind]]
    ]


def judge(report: Report, rows: list[dict[str, Any]]) -> None:
    """Within two standard errors of the printed error of the RVM, or better."""
    for row in rows:
        limit = row["paper RVM"] + 2 * row["+-"]
        figure = f"{row['error %']:.2f} +- {row['+-']:.2f} beside {row['paper RVM']:.1f}"
        report.judge(f"{row['']}: the printed RVM error", row["error %"] <= limit, figure)


def run(report: Report, args: argparse.Namespace, names: list[str]) -> None:
    """Reproduce the table."""
    if not (DATA / "published").exists():
        print("classification: ../shared/data is absent; skipped")
        return
    paper, bench, rows = printed(), Bench(), []
    for name in names:
        if reason := absent(name):
            print(reason)
            continue
        data, found = outcomes(name, bench, args)
        rows += lines(name, data, found, paper[name])
    heading = "Classification. Paper: as printed; SVC: measured here. USPS: vectors of all classes"
    report.show(heading + (" (quick)" if args.quick else ""), rows, COLUMNS)
    if rows:
        # The paper's last line: the mean of the ratios to its SVM column.
        pairs = {"error %": "paper SVM", "paper RVM": "paper SVM", "vectors": "paper SVM vec"}
        ratio = {k: np.mean([row[k] / row[svm_] for row in rows]) for k, svm_ in pairs.items()}
        print(
            f"mean ratio to the printed SVM: error {ratio['error %']:.2f} "
            f"(printed RVM {ratio['paper RVM']:.2f}), vectors {ratio['vectors']:.2f}"
        )
    bench.tell()
    if args.quick:
        print("quick: not the paper's protocol, no verdicts")
    else:
        judge(report, rows)
