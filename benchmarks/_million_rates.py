"""Passes over the data one by one, and more rows on more machines: ``benchmarks.million --rates``.

A fit in blocks is watched: what each pass computes, the CPU time it takes, how large its sum is.
From these follows what the same passes cost for a billion rows on a hundred machines of such cores.
Passes over rows that are kept in memory are the client's own: they move nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks._harness import Report
from benchmarks._million_machines import draw, fit_own
from sparsebayes.rows import LocalRows

ROWS = 10**6
FAR_ROWS = 10**9
MACHINES = 100
CORES = 16  # of each
PARTITION = 10**6  # rows
MOST_SAMPLED = 10**6  # rows of a fit's second step, a tenth of them, which are kept in memory
FAN_IN = 8  # sums that one task merges
SCHEDULING = 1e-3  # seconds for a task: assumed, five times what Dask documents for threads
NETWORK = 1e9 / 8  # bytes a second of one machine: assumed, gigabit Ethernet
WORDS = {
    "_Summarize": "first look",
    "_Distinct": "rows to cluster",
    "_keep": "sample of rows",
    "Products": "screen",
    "Screens": "screen",
    "Grams": "competition",
    "Looks": "mode, competition",
}

COLUMNS = {
    "": "",
    "passes": "d",
    "atoms": ".0f",
    "CPU s": ".2f",
    "% of all": ".0f",
    "us a row": ".2f",
    "bytes of a sum": ",.0f",
}
FAR = {
    "": "",
    "passes": "d",
    "compute s": ".1f",
    "MB a machine": ".1f",
    "network s": ".2f",
    "tasks s": ".1f",
}


@dataclass
class Kind:
    """Passes of one kind."""

    seconds: list[float] = field(default_factory=list)
    atoms: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    kept: int | None = None  # rows in memory that it is over, where they are not all


@contextlib.contextmanager
def watched(kinds: dict[str, Kind], n: int) -> Iterator[None]:
    """Note every pass over local rows, n in all."""
    fold = LocalRows.fold

    def noted(self: LocalRows, statistic: Callable[..., Any], *merge: Any) -> Any:
        begun = time.process_time()
        found = fold(self, statistic, *merge)
        seconds = time.process_time() - begun
        name = getattr(statistic, "__name__", type(statistic).__name__)
        word = WORDS.get(name, name.strip("_").lower())
        rows = self.source.n_rows
        is_kept = rows is not None and rows < n
        if is_kept:
            word += ", a tenth" if rows > 0.05 * n else ", sample"
        kind = kinds.setdefault(word, Kind(kept=rows if is_kept else None))
        kind.seconds.append(seconds)
        atoms = getattr(statistic, "atoms", None)
        kind.atoms.append(0 if atoms is None else atoms.size)
        kind.size.append(len(pickle.dumps(found, protocol=5)))
        return found

    type.__setattr__(LocalRows, "fold", noted)
    try:
        yield
    finally:
        type.__setattr__(LocalRows, "fold", fold)


def run(report: Report, args: argparse.Namespace, problems: list[str]) -> None:
    """Measure, print, calculate."""
    n = 10**5 if args.quick else ROWS
    for problem in problems:
        X, y, _ = draw(problem, n, [0, 0])
        kinds: dict[str, Kind] = {}
        begun = time.process_time()
        with watched(kinds, n):
            fit_own(problem, X, y)
        whole = time.process_time() - begun
        rows = [measured(name, kind, n, whole) for name, kind in kinds.items()]
        between = whole - sum(row["CPU s"] for row in rows)
        share = 100 * between / whole
        rows.append({"": "between passes", "CPU s": between, "% of all": share})
        rows.append({"": "the fit", "passes": sum_of(rows, "passes"), "CPU s": whole})
        report.show(f"{problem}, {n:,} rows: kinds of passes", rows, COLUMNS)
        far = [calculated(name, kind, n) for name, kind in kinds.items()]
        far.append({"": "between passes", "compute s": between})
        total = {key: sum_of(far, key) for key in FAR if key}
        far.append({"": "the fit"} | total)
        title = f"{problem}, calculated: {FAR_ROWS:,} rows on {MACHINES} machines of {CORES} cores"
        report.show(title, far, FAR)
        seconds = sum(total[key] for key in ("compute s", "network s", "tasks s"))
        print(f"in all about {seconds:.0f} s")


def sum_of(rows: list[dict[str, Any]], key: str) -> Any:
    return sum(row[key] for row in rows if row.get(key) is not None)


def measured(name: str, kind: Kind, n: int, whole: float) -> dict[str, Any]:
    count, seconds = len(kind.seconds), sum(kind.seconds)
    return {
        "": name,
        "passes": count,
        "atoms": sum(kind.atoms) / count,
        "CPU s": seconds,
        "% of all": 100 * seconds / whole,
        "us a row": 1e6 * seconds / count / n,
        "bytes of a sum": sum(kind.size) / count,
    }


def calculated(name: str, kind: Kind, n: int) -> dict[str, Any]:
    """The same passes over more rows: computing is shared, every edge of the tree has one sum.

    Leaves of the tree are on all machines alike, and a sum may travel at each of its levels; the
    root and the client wait for the last few.
    """
    passes, seconds = len(kind.seconds), sum(kind.seconds)
    if kind.kept is not None:
        # The client has as many cores as the others, but a sample is a single block.
        more = MOST_SAMPLED / kind.kept / CORES if "tenth" in name else 1.0
        return {"": name, "passes": passes, "compute s": seconds * more}
    edges = FAR_ROWS / PARTITION * FAN_IN / (FAN_IN - 1)
    moved = 2 * sum(kind.size) * edges / MACHINES  # with what rounding has left out
    return {
        "": name,
        "passes": passes,
        "compute s": seconds * FAR_ROWS / n / (MACHINES * CORES),
        "MB a machine": moved / 1e6,
        "network s": moved / NETWORK,
        "tasks s": passes * edges * SCHEDULING,
    }
