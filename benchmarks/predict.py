"""Predicting many rows: time beside SVR's, and memory that is bounded by blocks.

Each measurement has a process of its own, which loads the fitted model, so that its peak is the
prediction's.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import tracemalloc
from importlib import import_module
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.svm import SVR

from benchmarks._harness import Report, Run, argument_parser, version
from sparsebayes import RVR
from sparsebayes.datasets import sinc

GAMMA = 1 / 2.5**2
TRAINING_ROWS = 2000
MB = 1e6


def peak_rss() -> float:
    """High-water mark of this process's resident memory, in bytes."""
    try:
        # ru_maxrss survives exec on Linux: a child would start at its parent's peak.
        status = Path("/proc/self/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) * 1024
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def child(path: str, rows: int, return_std: bool, repeats: int) -> dict[str, float]:
    """Measure one kind of prediction in this process."""
    model = joblib.load(path)
    X = np.random.default_rng(0).uniform(-10, 10, (rows, 2))
    options = {"return_std": True} if return_std else {}
    model.predict(X[:10], **options)
    before = peak_rss()
    run = Run()
    run.once(lambda: model.predict(X, **options))
    growth = peak_rss() - before
    for _ in range(repeats - 1):
        run.once(lambda: model.predict(X, **options))
    run.result = None
    tracemalloc.start()
    model.predict(X, **options)
    traced = tracemalloc.get_traced_memory()[1]
    return {"cpu": run.cpu, "wall": run.wall, "rss": growth, "traced": traced}


def measure(path: Path, rows: int, return_std: bool, repeats: int) -> dict[str, float]:
    """Run `child` in a fresh process, with the threads pinned as they are here."""
    task = json.dumps([str(path), rows, return_std, repeats])
    command = [sys.executable, "-m", "benchmarks.predict", "--child", task]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return dict(json.loads(done.stdout))


def fitted_models() -> dict[str, tuple[Any, bool]]:
    """Models on the same data, and whether they give a standard deviation.

    sklearn-rvm is not among them: its ``return_std`` allocates rows x rows, 80 GB here.
    """
    data = sinc(TRAINING_ROWS, noise=0.1, dim=2, random_state=0)
    models: dict[str, tuple[Any, bool]] = {
        "SVR": (SVR(C=1, epsilon=0.1, gamma=GAMMA), False),
        "RVR": (RVR(gamma=GAMMA, prior="flat", random_state=0), True),
    }
    if version("fastrvm"):
        models["fastrvm"] = (import_module("fastrvm").RVR(gamma=GAMMA), True)
    else:
        print("fastrvm is not installed and left out (pip install 'sparsebayes[bench]')")
    for model, _ in models.values():
        model.fit(data.X, data.y)
    return models


def atoms(model: Any) -> int:
    vectors = model.support_vectors_ if isinstance(model, SVR) else model.relevance_vectors_
    return len(vectors)


COLUMNS = {
    "": "",
    "rows": "d",
    "vectors": "d",
    "CPU s": ".4f",
    "wall s": ".4f",
    "x SVR": ".3f",
    "peak RSS MB": ".1f",
    "peak arrays MB": ".1f",
    "beyond outputs MB": ".1f",
}


def main() -> None:
    parser = argument_parser("Prediction of many rows: time and peak memory", 3)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--child", metavar="JSON", help="used by the benchmark itself")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(*json.loads(args.child))))
        return
    title = f"Predicting {args.rows} rows, models of 2-D sinc with N = {TRAINING_ROWS}"
    report = Report.open(title, args.threads)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, has_std) in fitted_models().items():
            path = Path(folder) / f"{name}.joblib"
            joblib.dump(model, path)
            for return_std in (False, True) if has_std else (False,):
                for n in (args.rows, 4 * args.rows):
                    found = measure(path, n, return_std, args.repeats)
                    outputs = 8 * n * (1 + return_std)
                    rows.append(
                        {
                            "": name + (", return_std" if return_std else ""),
                            "rows": n,
                            "vectors": atoms(model),
                            "CPU s": found["cpu"],
                            "wall s": found["wall"],
                            "peak RSS MB": found["rss"] / MB,
                            "peak arrays MB": found["traced"] / MB,
                            "beyond outputs MB": max(found["traced"] - outputs, 0) / MB,
                        }
                    )
    clock = "CPU s" if args.threads == 1 else "wall s"
    svr = {row["rows"]: row[clock] for row in rows if row[""] == "SVR"}
    for row in rows:
        row["x SVR"] = row[clock] / svr[row["rows"]]
    report.show("Peak: growth during predict, outputs included", rows, COLUMNS)
    for kind in ("RVR", "RVR, return_std"):
        small, large = (row for row in rows if row[""] == kind)
        report.judge(f"{kind}: not slower than SVR", small["x SVR"] <= 1, f"{small['x SVR']:.3f}")
        figure = f"{small['beyond outputs MB']:.1f} MB, {large['beyond outputs MB']:.1f} MB for 4x"
        # One block may be partial for the smaller request, hence some slack.
        bounded = large["beyond outputs MB"] <= 1.5 * small["beyond outputs MB"] + 1
        report.judge(f"{kind}: memory beyond the outputs does not grow with rows", bounded, figure)
    report.close(args)


if __name__ == "__main__":
    main()
