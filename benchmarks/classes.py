"""Three classes or more: variances of their own or shared ones, or a machine for each class.

Data that come with scikit-learn or that it draws, standardized; kernels of width "scale", and the
columns themselves. Error and log-loss of held-out rows, five folds; the differences of log-losses
are of the same rows. One-vs-rest probabilities are normalized to sum to one by scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs, make_classification
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._classification import Array, Labels, log_loss
from benchmarks._harness import Report, Run, argument_parser
from sparsebayes import RVC, SparseBayesClassifier

OWN, SHARED, REST = "own variances", "shared variances", "one-vs-rest"
COLUMNS = {
    "": "",
    "machine": "",
    "error %": ".1f",
    "log-loss": ".3f",
    "- own's": "+.3f",
    "+-": ".3f",
    "atoms": ".1f",
    "CPU s": ".2f",
    "converged": "",
}


def problems() -> dict[str, tuple[Array, Labels]]:
    clusters = make_classification(
        800, 10, n_informative=6, n_classes=5, n_clusters_per_class=2, random_state=1
    )
    return {
        "iris, 3 classes": load_iris(return_X_y=True),
        "wine, 3": load_wine(return_X_y=True),
        "clusters, 5": clusters,
        "blobs, 8": make_blobs(600, centers=8, cluster_std=2.0, random_state=2)[:2],
        "digits, 10": load_digits(return_X_y=True),
    }


def machine(make: type, kind: str) -> Any:
    if kind == REST:
        return OneVsRestClassifier(make(random_state=0))
    return make(shared=kind == SHARED, random_state=0)


def atoms(model: Any) -> int:
    """Different atoms in the model."""
    parts = [m.relevance_ for m in getattr(model, "estimators_", [])] or model.relevance_
    return len(np.unique(np.concatenate(parts)))


def line(name: str, make: type, kind: str, X: Array, y: Labels, own: Array | None) -> Any:
    """Figures of one machine, and the log-loss of every row."""
    loss, wrong = np.empty(len(y)), np.empty(len(y))
    kept, seconds, converged = [], [], []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        model = make_pipeline(StandardScaler(), machine(make, kind))
        run = Run()
        run.once(lambda model=model, train=train: model.fit(X[train], y[train]))
        proba = model.predict_proba(X[test])
        loss[test], wrong[test] = log_loss(proba, y[test]), proba.argmax(axis=1) != y[test]
        kept.append(atoms(model[-1]))
        seconds.append(run.cpu)
        converged += [m.converged_ for m in getattr(model[-1], "estimators_", [model[-1]])]
    change = None if own is None else loss - own
    return {
        "": name,
        "machine": kind,
        "error %": 100 * float(wrong.mean()),
        "log-loss": float(loss.mean()),
        "- own's": None if change is None else float(change.mean()),
        "+-": None if change is None else float(change.std(ddof=1) / len(y) ** 0.5),
        "atoms": float(np.mean(kept)),
        "CPU s": float(np.median(seconds)),
        "converged": f"{sum(converged)} of {len(converged)}",
    }, loss


def main() -> None:
    args = argument_parser("Several classes, in one model or in several", 1).parse_args()
    report = Report.open("Several classes: own or shared variances, or one-vs-rest", args.threads)
    for heading, make in ("Kernels", RVC), ("Columns", SparseBayesClassifier):
        rows = []
        for name, (X, y) in problems().items():
            first, own = line(name, make, OWN, X, y, None)
            rows.append(first)
            rows += [line(name, make, kind, X, y, own)[0] for kind in (SHARED, REST)]
            print(f"  {heading}, {name}: done", flush=True)
        report.show(heading, rows, COLUMNS)
    report.close(args)


if __name__ == "__main__":
    main()
