"""USPS digits, 7291 x 256, ten classes: time and peak memory of training beside SVC's.

Every machine is trained in a process of its own, so that its peak is its own. Gaussian kernel
exp(-|x - z|^2 / r^2) of one width for all. ``--rows`` trains on part of the data for a first look,
``--restarts`` and ``--solver`` tell what other searches for the optimum would find. ``--smoothed``
takes the digits as those had them whose SVM is printed in Tipping 2001. The evidence of one-vs-rest
machines is their sum.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from benchmarks._classification import SMOOTHED, Array, Split, absent, log_loss, splits
from benchmarks._harness import Report, Run, argument_parser
from benchmarks.predict import peak_rss
from benchmarks.reproduce.tipping2001.classification import at_mode

WIDTH = 11.0  # where the cross-validated error of SVC(C=10) on 1500 rows is smallest
C = 10.0
MB = 1e6
TIME_TARGET = 600.0  # seconds
MEMORY_TARGET = 4e9  # bytes
OWN = ("RVC, multinomial", "RVC, multinomial, shared", "RVC, one-vs-rest")
KINDS = ("SVC", "SVC, one-vs-rest", "SVC, calibrated", *OWN)

COLUMNS = {
    "": "",
    "CPU s": ".1f",
    "wall s": ".1f",
    "x SVC": ".2f",
    "peak MB": ".0f",
    "of the fit": ".0f",
    "error %": ".2f",
    "plug-in": ".2f",
    "log-loss": ".4f",
    "vectors": "d",
    "distinct": "d",
    "evidence": ".1f",
    "converged": "",
}


def machine(kind: str, width: float, search: dict[str, Any]) -> Any:
    gamma = 1 / width**2
    svc = SVC(C=C, gamma=gamma)
    if not kind.startswith("RVC"):
        wrapped = {
            "SVC": svc,
            "SVC, one-vs-rest": OneVsRestClassifier(svc),
            "SVC, calibrated": CalibratedClassifierCV(svc, cv=5),
        }
        return wrapped[kind]
    RVC = import_module("sparsebayes").RVC
    shared = kind.endswith("shared")
    rvc = RVC(gamma=gamma, prior="flat", shared=shared, random_state=0, **search)
    return OneVsRestClassifier(rvc) if kind.endswith("rest") else rvc


def vectors(model: Any) -> list[Array]:
    """One array of relevance or support vectors for each machine or class."""
    if hasattr(model, "calibrated_classifiers_"):
        return [m.estimator.support_vectors_ for m in model.calibrated_classifiers_]
    if hasattr(model, "estimators_"):
        return [part for m in model.estimators_ for part in vectors(m)]
    if isinstance(model, SVC):
        return [model.support_vectors_]
    found = model.relevance_vectors_
    return found if isinstance(found, list) else [found]


def data(digits: str, rows: int | None) -> Split:
    whole = splits(digits)[0]
    if rows is None:
        return whole
    X, _, y, _ = train_test_split(
        whole.X, whole.y, train_size=rows, stratify=whole.y, random_state=0
    )
    return Split(X, y, whole.X_test, whole.y_test)


def child(
    kind: str, width: float, digits: str, rows: int | None, search: dict[str, Any]
) -> dict[str, Any]:
    """Train one machine in this process."""
    usps = data(digits, rows)
    model = machine(kind, width, search)
    before = peak_rss()
    run = Run()
    run.once(lambda: model.fit(usps.X, usps.y))
    # Before predicting and scoring, which are not training.
    peak = peak_rss()
    found = vectors(model)
    parts = getattr(model, "estimators_", [model])
    # One-vs-rest probabilities are normalized to sum to one by scikit-learn.
    proba = model.predict_proba(usps.X_test) if hasattr(model, "predict_proba") else None
    ours = hasattr(parts[0], "log_marginal_likelihood_")
    plugged = at_mode(model, usps.X_test) if ours else None
    return {
        "CPU s": run.cpu,
        "wall s": run.wall,
        "peak MB": peak / MB,
        "of the fit": (peak - before) / MB,
        "error %": 100 * float(np.mean(model.predict(usps.X_test) != usps.y_test)),
        "plug-in": None if plugged is None else 100 * float(np.mean(plugged != usps.y_test)),
        "log-loss": None if proba is None else float(log_loss(proba, usps.y_test).mean()),
        "vectors": sum(map(len, found)),
        "distinct": len(np.unique(np.vstack(found), axis=0)),
        "evidence": sum(part.log_marginal_likelihood_ for part in parts) if ours else None,
        "converged": ("yes" if all(part.converged_ for part in parts) else "no")
        if hasattr(parts[0], "converged_")
        else None,
        "messages": run.messages,
    }


def measure(task: list[Any], limit: float) -> dict[str, Any]:
    """Run `child` in a fresh process, with the threads pinned as they are here."""
    command = [sys.executable, "-m", "benchmarks.usps", "--child", json.dumps(task)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"messages": [f"passed {limit:.0f} s and was stopped"]}
    if done.returncode:
        # A process that the system ends for want of memory says nothing.
        said = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        return {"messages": [f"failed: {said[-1]}"]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def judge(report: Report, row: dict[str, Any]) -> None:
    """Time and memory of one of our machines."""
    seconds, peak = row.get("wall s"), row.get("peak MB")
    short = seconds is not None and seconds <= TIME_TARGET
    small = peak is not None and peak * MB <= MEMORY_TARGET
    measured = "not measured"
    report.judge(f"{row['']}: under 10 minutes", short, f"{seconds:.0f} s" if seconds else measured)
    report.judge(f"{row['']}: under 4 GB", small, f"{peak:.0f} MB" if peak else measured)


def main() -> None:
    parser = argument_parser("USPS: time and peak memory of training", 1)
    parser.add_argument("--only", nargs="+", metavar="KIND", choices=KINDS, default=KINDS)
    parser.add_argument("--width", type=float, default=WIDTH, help="r of the kernel")
    parser.add_argument("--rows", type=int, help="train on so many of the 7291")
    parser.add_argument(
        "--smoothed", action="store_true", help="digits blurred by a Gaussian of 0.75 pixels"
    )
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds for one machine")
    parser.add_argument("--restarts", type=int, default=0, help="n_restarts of ours")
    parser.add_argument("--solver", default="auto", help="solver of ours")
    parser.add_argument("--child", metavar="JSON", help="used by the benchmark itself")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(*json.loads(args.child)), default=float))
        return
    digits = SMOOTHED if args.smoothed else "usps"
    title = "USPS, smoothed" if args.smoothed else "USPS"
    report = Report.open(
        f"{title}, ten classes, r = {args.width:g}, C of SVC = {C:g}", args.threads
    )
    if reason := absent(digits):
        print(reason)
        return
    rows = []
    search = {"n_restarts": args.restarts, "solver": args.solver}
    for kind in args.only:
        found = measure([kind, args.width, digits, args.rows, search], args.limit)
        for message in found.pop("messages"):
            print(f"  {kind}: {message.splitlines()[0][:150]}")
        print(f"  {kind}: {found.get('wall s', np.nan):.1f} s", flush=True)
        rows.append({"": kind} | found)
    clock = "CPU s" if args.threads == 1 else "wall s"
    svc = next((row.get(clock) for row in rows if row[""] == "SVC"), None)
    for row in rows:
        row["x SVC"] = row[clock] / svc if svc and clock in row else None
    size = 7291 if args.rows is None else args.rows
    report.show(f"N = {size}; peak of the whole process, and its growth by the fit", rows, COLUMNS)
    if args.rows is None:
        for row in rows:
            if row[""] in OWN:
                judge(report, row)
    else:
        print("on part of the data: no verdicts")
    report.close(args)


if __name__ == "__main__":
    main()
