"""Fits up to a million rows in memory and more on disk: time, memory, passes, accuracy.

Two-dimensional sinc (noise 0.1, kernel width 2.5) and two classes (Ripley's mixtures, width 1.0)
with 2000 kernels to choose from, beside linear models on 2000 Nystroem features and LIBSVM. Each
fit has a process of its own, so that its peak memory is its own. ``--dask`` compares blocks of rows
on this machine with the same blocks on Dask.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _million_dask, _million_rates
from benchmarks._classification import standard_error
from benchmarks._harness import Report, argument_parser
from benchmarks._million_machines import (
    CENTERS,
    GAMMAS,
    MACHINES,
    NOISE_STD,
    OWN,
    TEST_ROWS,
    Array,
    draw,
    one_fit,
    true_losses,
    write,
)

PROBLEMS = ("regression", "classification")
LIMIT = 600.0  # seconds, after which a competitor retires
OWN_LIMIT = 6 * 3600.0
WITHIN = {"regression": 60.0, "classification": 180.0}  # seconds for a million rows
MEMORY = 2000.0  # MB
GROWTH = 1.2  # of the time for a row, from 100 000 rows on
SCORES = {"squares": "RMSE", "errors": "error %", "log-losses": "log-loss"}

COLUMNS = {
    "": "",
    "N": ",d",
    "wall s": ".1f",
    "us a row": ".1f",
    "x ours": ".2f",
    "CPU s": ".1f",
    "peak MB": ".0f",
    "at first": ".0f",
    "passes": "d",
    "screens": "d",
    "kernels": "d",
    "RMSE": ".5f",
    "error %": ".2f",
    "log-loss": ".4f",
    "evidence": ".1f",
    "max gain": ".1e",
    "gradient": ".1e",
    "curvature": ".1e",
    "fraction": ".2g",
    "converged": "",
}
ABSENT = {"regression": ("error %", "log-loss"), "classification": ("RMSE",)}


TASKS = {"fit": one_fit, "dask": _million_dask.one_fit}


def measure(task: list[Any], limit: float) -> dict[str, Any]:
    """Do a task in a fresh process, with the threads pinned as they are here."""
    command = [sys.executable, "-m", "benchmarks.million", "--child", json.dumps(task)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"messages": [f"passed {limit:.0f} s and was stopped"]}
    if done.returncode:
        # A process that the system ends for want of memory says nothing.
        said = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        return {"messages": [f"failed: {said[-1]}"]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def best(task: list[Any], limit: float, repeats: int) -> dict[str, Any]:
    """The fastest of several."""
    found = [measure(task, limit) for _ in range(repeats)]
    return min(found, key=lambda row: float(row.get("wall s", np.inf)))


def free_bytes() -> float:
    """Memory that a process may still take, infinite where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if "MemAvailable" in line) * 1024
    except (OSError, StopIteration):
        return np.inf


@dataclass
class Contest:
    """Rows of a problem's tables, and who met the last size."""

    problem: str
    names: list[str]
    limit: float
    repeats: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    last: dict[str, tuple[int, float]] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)

    def reason_to_skip(self, name: str, n: int) -> str | None:
        """Why a competitor cannot meet a size: memory, or time that is at least linear."""
        machine = MACHINES[name]
        if name in self.retired:
            return "has retired"
        need = 1.05 * n * machine.bytes_per_row
        if need > 0.9 * free_bytes():
            return f"needs {need / 1e9:.0f} GB for its features, {free_bytes() / 1e9:.0f} are free"
        size, seconds = self.last.get(name, (n, 0.0))
        if not machine.own and seconds * n / size > self.limit:
            return f"would take at least {seconds * n / size:.0f} s"
        return None

    def meet(self, n: int, folder: Path, disk: bool) -> list[dict[str, Any]]:
        """Fit everyone who can."""
        found = []
        for name in self.names:
            row: dict[str, Any] = {"": name, "N": n}
            if reason := self.reason_to_skip(name, n):
                row["messages"] = [reason]
            else:
                limit = OWN_LIMIT if MACHINES[name].own else self.limit
                row |= best(["fit", self.problem, name, str(folder), disk], limit, self.repeats)
                if "wall s" in row:
                    self.last[name] = (n, row["wall s"])
                    row["us a row"] = 1e6 * row["wall s"] / n
                else:
                    self.retired.add(name)
            for message in row.pop("messages"):
                print(f"  {name}, N = {n:,}: {message.splitlines()[0][:150]}")
            if "wall s" in row:
                print(f"  {name}, N = {n:,}: {row['wall s']:.1f} s", flush=True)
            found.append(with_scores(row))
        if self.problem == "classification":
            found.append(with_scores({"": "truth", "N": n} | true_losses(self.problem)))
        ours = next((row.get("wall s") for row in found if row[""] == OWN), None)
        for row in found:
            row["x ours"] = row["wall s"] / ours if ours and "wall s" in row else None
        self.rows += found
        return found


def with_scores(row: dict[str, Any]) -> dict[str, Any]:
    """Means of the losses beside them."""
    for kind, column in SCORES.items():
        if row.get(kind) is not None:
            average = float(np.mean(row[kind]))
            row[column] = {"RMSE": average**0.5, "error %": 100 * average}.get(column, average)
    return row


def shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the losses of single test rows."""
    return [{k: v for k, v in row.items() if k not in SCORES} for row in rows]


def uncertainty(problem: str, gaps: Array) -> float:
    """Standard error of the mean of differences of losses, one for each test row.

    Errors of a smooth function are alike at neighbors: there the mean of a cell of the plane as
    wide as the kernel counts as one.
    """
    if problem == "regression":
        X, _, _ = draw(problem, TEST_ROWS, [1])
        cells = np.floor(X * GAMMAS[problem] ** 0.5).astype(int)
        _, cell = np.unique(cells, axis=0, return_inverse=True)
        gaps = np.bincount(cell, gaps) / np.bincount(cell)
    return standard_error(gaps)


def judge_accuracy(report: Report, contest: Contest) -> None:
    """Losses beside every competitor's on the same rows, two standard errors allowed."""
    for own in contest.rows:
        if own[""] != OWN:
            continue
        for kind, column in SCORES.items():
            rivals = {
                row[""]: row
                for row in contest.rows
                if row["N"] == own["N"] and row[""] in MACHINES and row is not own
                if row.get(kind) is not None and own.get(kind) is not None
            }
            if not rivals:
                continue
            gaps = {name: np.subtract(own[kind], row[kind]) for name, row in rivals.items()}
            excess = {n: g.mean() - 2 * uncertainty(contest.problem, g) for n, g in gaps.items()}
            worst = max(excess, key=lambda name: excess[name])
            report.judge(
                f"{contest.problem}, N = {own['N']:,}: {column} not worse than any competitor's, "
                "two standard errors allowed",
                excess[worst] <= 0,
                f"{own[column]:.5g} beside {rivals[worst][column]:.5g} of {worst}",
            )


def judge(report: Report, contest: Contest) -> None:
    """Time, memory, certificate."""
    own = [row for row in contest.rows if row[""] == OWN]
    for row in own:
        label = f"{contest.problem}, N = {row['N']:,}"
        if "wall s" not in row:
            report.judge(f"{label}: fits", False, "not measured")
            continue
        if row["N"] == 10**6:
            within, seconds = WITHIN[contest.problem], row["wall s"]
            report.judge(f"{label}: within {within:.0f} s", seconds <= within, f"{seconds:.1f} s")
        peak = row["peak MB"]
        report.judge(f"{label}: peak memory below 2 GB", peak < MEMORY, f"{peak:.0f} MB")
        holds = row["converged"] == "yes" and row["fraction"] == 1.0
        figure = f"gain {row['max gain']:.1e}, gradient {row['gradient']:.1e}"
        report.judge(f"{label}: certificate holds over the whole dictionary", holds, figure)
    large = [row for row in own if row["N"] >= 10**5 and "us a row" in row]
    for one, other in pairwise(large):
        ratio = other["us a row"] / one["us a row"]
        claim = f"{contest.problem}: time linear from {one['N']:,} to {other['N']:,} rows"
        figure = f"{ratio:.2f} of the time for a row"
        report.judge(claim, ratio <= GROWTH, figure)
    judge_accuracy(report, contest)


def sizes(text: str) -> list[int]:
    return [round(float(part)) for part in text.split(",") if part]


def asked(args: Any) -> list[str]:
    """Problems that were asked for, or all."""
    return [name for name in PROBLEMS if getattr(args, name)] or list(PROBLEMS)


def contests(args: Any) -> list[Contest]:
    """One for each problem."""
    return [
        Contest(
            problem,
            [
                name
                for name, machine in MACHINES.items()
                if problem in machine.problems and (args.only is None or name in args.only)
            ],
            args.limit,
            args.repeats,
        )
        for problem in asked(args)
    ]


def main() -> None:
    parser = argument_parser("Up to a million rows in memory and more on disk", 1)
    parser.set_defaults(threads=2)
    parser.add_argument("--regression", action="store_true", help="this problem alone")
    parser.add_argument("--classification", action="store_true", help="this problem alone")
    parser.add_argument("--sizes", type=sizes, default=[10**4, 10**5, 10**6], help="rows in memory")
    parser.add_argument("--disk", type=sizes, default=[], help="rows on disk, such as 1e7")
    parser.add_argument("--only", nargs="+", choices=list(MACHINES), metavar="NAME")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for a competitor")
    parser.add_argument("--folder", type=Path, help="where data are written, instead of a new one")
    parser.add_argument("--dask", action="store_true", help="local blocks beside Dask instead")
    parser.add_argument("--rates", action="store_true", help="passes one by one instead")
    parser.add_argument("--quick", action="store_true", help="10 000 rows, no LIBSVM")
    parser.add_argument("--child", metavar="JSON", help="used by the benchmark itself")
    args = parser.parse_args()
    if args.child:
        kind, *task = json.loads(args.child)
        print(json.dumps(TASKS[kind](*task), default=float))
        return
    if args.quick:
        args.sizes, args.disk = [10**4], []
        args.only = args.only or [name for name in MACHINES if name != "LIBSVM"]
    report = Report.open(f"{CENTERS} kernels, many rows", args.threads)
    if args.dask or args.rates:
        if args.dask:
            _million_dask.run(report, args, asked(args), measure)
        else:
            _million_rates.run(report, args, asked(args))
        report.close(args)
        return
    report.note(f"times are of the wall clock; a competitor retires after {args.limit:.0f} s")
    report.note(f"RMSE (noise {NOISE_STD}) is to the truth; scores of {TEST_ROWS} fresh rows")
    for contest in contests(args):
        columns = {k: v for k, v in COLUMNS.items() if k not in ABSENT[contest.problem]}
        for n, disk in [(n, False) for n in args.sizes] + [(n, True) for n in args.disk]:
            with tempfile.TemporaryDirectory(dir=args.folder) as folder:
                write(Path(folder), contest.problem, n)
                rows = contest.meet(n, Path(folder), disk)
            place = "on disk" if disk else "in memory"
            report.show(f"{contest.problem}, {n:,} rows {place}", shown(rows), columns)
        judge(report, contest)
    report.close(args)


if __name__ == "__main__":
    main()
