"""Sparse linear recovery with default settings: known support, wide data and pure noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import (
    ARDRegression,
    LassoCV,
    OrthogonalMatchingPursuit,
    OrthogonalMatchingPursuitCV,
)

from benchmarks._harness import Report, Run, argument_parser, interleave, rms
from sparsebayes import SparseBayesRegressor
from sparsebayes.datasets import SparseLinear, sparse_linear

LIMIT = 120.0  # seconds, after which a competitor retires

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrueSupport:
    """Least squares for someone who was told which columns matter."""

    weights: Array
    coef_: Array
    intercept_: float

    @classmethod
    def fit(cls, data: SparseLinear) -> TrueSupport:
        support = np.flatnonzero(data.weights)
        A = np.column_stack([np.ones(len(data.y)), data.X[:, support]])
        solution = np.linalg.lstsq(A, data.y, rcond=None)[0]
        coef = np.zeros_like(data.weights)
        coef[support] = solution[1:]
        return cls(data.weights, coef, float(solution[0]))


def competitors(data: SparseLinear, *, wide: bool, ard: bool) -> dict[str, Callable[[], Any]]:
    """Name and fit of everyone in the table."""
    X, y = data.X, data.y
    k = int(np.count_nonzero(data.weights))
    field: dict[str, Callable[[], Any]] = {
        "SparseBayesRegressor": lambda: SparseBayesRegressor(random_state=0).fit(X, y),
        "OMP, number known": lambda: OrthogonalMatchingPursuit(n_nonzero_coefs=k).fit(X, y),
        "LassoCV": lambda: LassoCV().fit(X, y),
        "true support": lambda: TrueSupport.fit(data),
    }
    if not wide:
        # On wide data it would hold M x M coefficients of its path: 80 GB.
        field["OMP, cross-validated"] = lambda: OrthogonalMatchingPursuitCV().fit(X, y)
    if ard:
        field["ARDRegression"] = lambda: ARDRegression().fit(X, y)
    return field


def excess(model: Any, data: SparseLinear) -> float:
    """RMS error of the noise-free prediction for new rows, whose columns are standard normal.

    Exact, no test set: the mean square is |coef - weights|^2 + intercept^2.
    """
    return float(np.hypot(np.linalg.norm(model.coef_ - data.weights), model.intercept_))


def recovery(
    size: tuple[int, int, int], seeds: int, ard_seeds: int, repeats: int, wide: bool = False
) -> list[dict[str, Any]]:
    """One row for each competitor, medians over the seeds."""
    collected: dict[str, list[dict[str, float]]] = {}
    messages: set[str] = set()
    for seed in range(seeds):
        data = sparse_linear(*size, snr_db=20.0, random_state=seed)
        support = data.weights != 0
        jobs = competitors(data, wide=wide, ard=seed < ard_seeds)
        runs = interleave(jobs, repeats=repeats, budget=1.0, limit=LIMIT)
        oracle = excess(runs["true support"].result, data)
        for name, run in runs.items():
            messages.update(f"{name}: {message.splitlines()[0][:120]}" for message in run.messages)
            if run.result is None:
                continue
            kept = run.result.coef_ != 0
            sigma2 = getattr(run.result, "noise_variance_", None)
            if name == "ARDRegression":
                sigma2 = 1 / run.result.alpha_
            collected.setdefault(name, []).append(
                {
                    "error": excess(run.result, data),
                    "x oracle": excess(run.result, data) / oracle,
                    "atoms": int(kept.sum()),
                    "missed": int((support & ~kept).sum()),
                    "false": int((kept & ~support).sum()),
                    "noise/truth": np.nan if sigma2 is None else np.sqrt(sigma2) / data.noise_std,
                    "CPU s": run.cpu,
                    "wall s": run.wall,
                }
            )
    for message in sorted(messages):
        print(f"  warned: {message}")
    return [summary(name, lines) for name, lines in collected.items()]


def summary(name: str, lines: list[dict[str, float]]) -> dict[str, Any]:
    """Medians, and the extremes that the targets are about."""

    def values(key: str) -> list[float]:
        return [line[key] for line in lines]

    return {
        "": name,
        "error": rms(np.array(values("error"))),
        "x oracle": float(np.median(values("x oracle"))),
        "worst": max(values("x oracle")),
        "atoms": float(np.mean(values("atoms"))),
        "min": min(values("atoms")),
        "max": max(values("atoms")),
        "missed": float(np.mean(values("missed"))),
        "false": float(np.mean(values("false"))),
        "noise/truth": float(np.median(values("noise/truth"))),
        "CPU s": float(np.median(values("CPU s"))),
        "wall s": float(np.median(values("wall s"))),
        "seeds": len(lines),
    }


COLUMNS = {
    "": "",
    "error": ".4f",
    "x oracle": ".3f",
    "worst": ".3f",
    "atoms": ".1f",
    "min": "d",
    "max": "d",
    "missed": ".1f",
    "false": ".1f",
    "noise/truth": ".3f",
    "CPU s": ".3f",
    "wall s": ".3f",
    "seeds": "d",
}


def judge(report: Report, rows: list[dict[str, Any]], clock: str) -> None:
    """The targets for N = 500, M = 2000."""
    by_name = {row[""]: row for row in rows}
    ours = by_name["SparseBayesRegressor"]
    figure = f"{ours['x oracle']:.3f} median, {ours['worst']:.3f} worst"
    report.judge("error at most 1.2 times the oracle's, every seed", ours["worst"] <= 1.2, figure)
    inside = 28 <= ours["min"] and ours["max"] <= 32
    report.judge("28 to 32 atoms, every seed", inside, f"{ours['min']} to {ours['max']}")
    if "ARDRegression" in by_name:
        times = by_name["ARDRegression"][clock] / ours[clock]
        report.judge("at least 10 times faster than ARDRegression", times >= 10, f"{times:.1f}")
    times = ours[clock] / by_name["OMP, cross-validated"][clock]
    report.judge("not slower than OMP, cross-validated", times <= 1, f"{times:.2f} of its time")


def pure_noise(report: Report, seeds: dict[tuple[int, int], int]) -> None:
    """Nothing to find: whatever is kept is false."""
    rows = []
    for (N, M), count in seeds.items():
        atoms, cpu = [], []
        for seed in range(count):
            data = sparse_linear(N, M, 0, random_state=seed)
            run = Run()
            run.once(partial(SparseBayesRegressor(random_state=0).fit, data.X, data.y))
            atoms.append(len(run.result.relevance_))
            cpu.append(run.cpu)
        mean = float(np.mean(atoms))
        size = f"N = {N}, M = {M}"
        rows.append(
            {
                "": size,
                "mean atoms": mean,
                "max": max(atoms),
                "CPU s": float(np.median(cpu)),
                "seeds": count,
            }
        )
        report.judge(f"pure noise, {size}: less than one atom on average", mean < 1, f"{mean:.2f}")
    columns = {"": "", "mean atoms": ".2f", "max": "d", "CPU s": ".3f", "seeds": "d"}
    report.show("Pure noise", rows, columns)


def main() -> None:
    parser = argument_parser("Sparse linear recovery, wide data and pure noise", 3)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ard-seeds", type=int, default=10, help="seeds for ARDRegression")
    parser.add_argument("--wide-seeds", type=int, default=2, help="0 skips the wide data (160 MB)")
    parser.add_argument("--noise-seeds", type=int, nargs=2, default=(50, 5), metavar=("A", "B"))
    args = parser.parse_args()
    report = Report.open("Sparse linear recovery, default settings", args.threads)
    clock = "CPU s" if args.threads == 1 else "wall s"
    rows = recovery((500, 2000, 30), args.seeds, args.ard_seeds, args.repeats)
    report.show("N = 500, M = 2000, 30 weights of +-1, 20 dB", rows, COLUMNS)
    judge(report, rows, clock)
    if args.wide_seeds:
        # ARDRegression would hold the covariance of all its atoms, M x M.
        rows = recovery((200, 100_000, 10), args.wide_seeds, 0, 1, wide=True)
        report.show("Wide: N = 200, M = 100 000, 10 weights of +-1, 20 dB", rows, COLUMNS)
    pure_noise(report, dict(zip(((100, 100), (1000, 5000)), args.noise_seeds, strict=True)))
    report.close(args)


if __name__ == "__main__":
    main()
