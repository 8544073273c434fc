"""Blocks of rows on this machine beside the same blocks on Dask: ``benchmarks.million --dask``.

Threads of the local scheduler, and a cluster of processes with a thread each that hold the rows.
Clusters start before the clock does.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import Report, Run, version
from benchmarks._million_machines import MEMORY, described, draw, fit_own, read, write
from benchmarks.predict import peak_rss
from sparsebayes._memory import Budget, resolve_memory

KINDS = ("local", "dask threads", "dask cluster")
ROWS = 10**6
OVERHEAD = 30.0  # per cent
PROBE_ROWS = 1000

COLUMNS = {
    "": "",
    "N": ",d",
    "wall s": ".1f",
    "overhead %": "+.1f",
    "CPU s": ".1f",
    "peak MB": ".0f",
    "workers MB": ".0f",
    "passes": "d",
    "max gain": ".1e",
    "converged": "",
    "off": ".0e",
}


def ready() -> float:
    """Import what a worker needs; the peak of its memory so far, in MB."""
    __import__("sparsebayes.rows")
    return peak_rss() / 1e6


@contextlib.contextmanager
def placed(kind: str, threads: int, X: Any, y: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The rows where they shall be worked on, and the client if there is one."""
    if kind == "local":
        yield X, y, None
        return
    import dask
    import dask.array as da

    rows = Budget(resolve_memory(MEMORY), threads).block_rows(X.shape[1])
    lazy = da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)
    if kind == "dask threads":
        with dask.config.set(scheduler="threads", num_workers=threads):
            yield *lazy, None
        return
    from dask.distributed import Client, LocalCluster, wait

    options: dict[str, Any] = {"dashboard_address": ":0", "memory_limit": 0}
    with LocalCluster(threads, threads_per_worker=1, **options) as cluster, Client(cluster) as c:
        c.run(ready)
        kept = dask.persist(*lazy)
        wait(kept)
        yield *kept, c


def one_fit(problem: str, kind: str, folder: str, threads: int) -> dict[str, Any]:
    """Fit in this process, and predict a few rows."""
    X, y = read(Path(folder), disk=False)
    run = Run()
    with placed(kind, threads, X, y) as (rows, targets, client):
        run.once(partial(fit_own, problem, rows, targets))
        workers = None if client is None else sum(client.run(ready).values())
    probe, _, _ = draw(problem, PROBE_ROWS, [1])
    regression = problem == "regression"
    values = run.result.predict(probe) if regression else run.result.predict_proba(probe)[:, 1]
    return described(run.result) | {
        "CPU s": run.cpu,
        "wall s": run.wall,
        "peak MB": peak_rss() / 1e6,
        "workers MB": workers,
        "values": values.tolist(),
        "messages": run.messages,
    }


def run(
    report: Report,
    args: argparse.Namespace,
    problems: list[str],
    measure: Callable[[list[Any], float], dict[str, Any]],
) -> None:
    """Measure, print, judge."""
    print(f"dask {version('dask')}; CPU seconds are those of the client")
    n = 10**4 if args.quick else ROWS
    for problem in problems:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            write(Path(folder), problem, n)
            best: dict[str, dict[str, Any]] = {}
            for _ in range(args.repeats):
                for kind in KINDS:
                    task = ["dask", problem, kind, folder, args.threads]
                    found = measure(task, args.limit)
                    for message in found.pop("messages"):
                        print(f"  {kind}: {message.splitlines()[0][:150]}", flush=True)
                    if "wall s" in found:
                        best[kind] = min(
                            [best.get(kind, found), found], key=lambda row: float(row["wall s"])
                        )
        rows: list[dict[str, Any]] = [{"": kind, "N": n} | found for kind, found in best.items()]
        report.show(f"{problem}, {n:,} rows", with_overhead(rows), COLUMNS)
        if args.quick:
            print("with few rows: no verdicts")
            continue
        for row in rows[1:]:
            figure = f"{row['overhead %']:+.1f} %"
            claim = f"{problem}, {row['']}: less than {OVERHEAD:.0f} % over local blocks"
            report.judge(claim, row["overhead %"] < OVERHEAD, figure)


def with_overhead(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Time over that of the first row, and the largest difference of predictions from its own."""
    first = np.asarray(rows[0]["values"])
    for row in rows:
        row["overhead %"] = 100 * (row["wall s"] / rows[0]["wall s"] - 1)
        row["off"] = float(np.abs(np.asarray(row.pop("values")) - first).max())
    return rows
