"""What the benchmarks share: pinned threads, clocks, an independent evidence, targets."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.metadata
import json
import os
import platform
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl
from numpy.typing import NDArray

from benchmarks import _page

SHARED = Path(__file__).resolve().parents[2] / "shared"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PACKAGES = ("sparsebayes", "numpy", "scipy", "scikit-learn", "fastrvm", "sklearn-rvm")


# Command line and environment


def argument_parser(description: str, repeats: int) -> argparse.ArgumentParser:
    """Parser with the options every benchmark has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1, help="BLAS threads")
    parser.add_argument("--repeats", type=int, default=repeats, help="timings; the minimum counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write a page of them there")
    return parser


def pin_threads(threads: int) -> None:
    """Start this process again with the BLAS threads pinned, unless they are.

    The BLAS libraries read these variables once, when NumPy is first imported.
    """
    if any(os.environ.get(name) != str(threads) for name in THREAD_VARIABLES):
        pinned = dict.fromkeys(THREAD_VARIABLES, str(threads))
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **pinned})


def version(package: str) -> str | None:
    """Installed version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu_model() -> str:
    """Name of the processor as the operating system gives it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def environment(threads: int) -> dict[str, Any]:
    """Everything a time depends on apart from the code."""
    pools = [
        f"{pool['internal_api']} {pool['version']} x{pool['num_threads']}"
        for pool in threadpoolctl.threadpool_info()
    ]
    return {
        "cpu": f"{cpu_model()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "threads": threads,
        "thread_pools": pools,
    }


def describe(env: dict[str, Any]) -> str:
    """Return the environment as the header of a benchmark's output."""
    packages = ", ".join(f"{k} {v or '(not installed)'}" for k, v in env["packages"].items())
    return "\n".join(
        [
            f"{env['cpu']}; Python {env['python']}",
            packages,
            f"threads pinned: {env['threads']}; pools: {', '.join(env['thread_pools'])}",
        ]
    )


# Clocks


class OverTimeError(BaseException):
    """A fit passed its limit. Not an Exception, lest a peer's ``except Exception`` swallows it."""


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise OverTimeError after so many seconds, at the next Python instruction.

    Of the wall clock: while an interval timer on CPU time is armed, Linux brings the CPU clock
    up to date only at scheduler ticks, and the times of short fits come out as zero.
    """
    if seconds is None or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(*_: object) -> None:
        raise OverTimeError

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@dataclass(slots=True)
class Run:
    """One competitor on one problem: its last result, and the best of its times."""

    result: Any = None
    cpu: float = np.inf
    wall: float = np.inf
    repeats: int = 0
    over_time: bool = False
    messages: list[str] = field(default_factory=list)

    def once(self, job: Callable[[], Any], limit: float | None = None) -> None:
        """Time the job once more. CPU seconds count all threads of this process."""
        gc.collect()
        self.result = None
        with warnings.catch_warnings(record=True) as caught, time_limit(limit):
            warnings.simplefilter("always")
            cpu, wall = time.process_time(), time.perf_counter()
            try:
                self.result = job()
            except OverTimeError:
                self.over_time = True
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        self.cpu, self.wall = min(self.cpu, cpu), min(self.wall, wall)
        self.repeats += 1
        self.messages = sorted({f"{w.category.__name__}: {w.message}" for w in caught})


def interleave(
    jobs: Mapping[str, Callable[[], Any]], *, repeats: int, budget: float = 3.0, limit: float | None
) -> dict[str, Run]:
    """Run the jobs round by round, so that a slow spell of the machine hits all of them.

    A job is repeated until its repeats or its budget of CPU seconds are used up; the minimum
    counts, because noise on a shared machine only ever adds.
    """
    runs = {name: Run() for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            run = runs[name]
            if run.repeats == 0 or (not run.over_time and run.cpu * run.repeats < budget):
                run.once(job, limit)
    return runs


# Evidence, from its definition and not from the library's code


def evidence(
    Phi_a: NDArray[np.float64],  # (N, m)
    t: NDArray[np.float64],  # (N,)
    prior_var: NDArray[np.float64],  # (m,)
    noise_var: float,
) -> float:
    """Log N(t; 0, noise_var I + Phi_a diag(prior_var) Phi_a').

    By the QR factors of [Phi_a diag(prior_var)^1/2 / noise_std; I]: their condition is the square
    root of the normal equations', and t'C^-1 t is the least squares residual, a sum of squares.
    """
    N, m = Phi_a.shape
    noise_std = np.sqrt(noise_var)
    A = np.vstack([Phi_a * (np.sqrt(prior_var) / noise_std), np.eye(m)])
    b = np.concatenate([t / noise_std, np.zeros(m)])
    Q, R = np.linalg.qr(A)
    residual = b - A @ np.linalg.solve(R, Q.T @ b)
    log_det = 2 * np.log(np.abs(np.diag(R))).sum()
    return float(-0.5 * (N * np.log(2 * np.pi * noise_var) + log_det + residual @ residual))


def evidence_with_bias(
    Phi_a: NDArray[np.float64],
    t: NDArray[np.float64],
    prior_var: NDArray[np.float64],
    noise_var: float,
) -> float:
    """Evidence after a constant atom joins with the prior variance that suits it best.

    A flat prior on an intercept has no normalized evidence. This puts such models on the scale
    of those that hold the bias as an atom, at the point of that model nearest to them.
    """
    s, q = constant_atom(Phi_a, t, prior_var, noise_var)
    bias_var = max(q**2 - s, 0.0) / s**2
    if bias_var == 0.0:
        return evidence(Phi_a, t, prior_var, noise_var)
    with_ones = np.column_stack([np.ones(len(t)), Phi_a])
    return evidence(with_ones, t, np.r_[bias_var, prior_var], noise_var)


def evidence_of_contrasts(
    Phi_a: NDArray[np.float64],
    t: NDArray[np.float64],
    prior_var: NDArray[np.float64],
    noise_var: float,
) -> float:
    """Log of the integral of N(t; c 1, noise_var I + Phi_a diag(prior_var) Phi_a') over c.

    The evidence under a flat prior of density one on an intercept c: that of the N - 1 contrasts.
    It is no probability of t, so compares only with itself.
    """
    s, q = constant_atom(Phi_a, t, prior_var, noise_var)
    return evidence(Phi_a, t, prior_var, noise_var) + 0.5 * (np.log(2 * np.pi / s) + q**2 / s)


def constant_atom(
    Phi_a: NDArray[np.float64],
    t: NDArray[np.float64],
    prior_var: NDArray[np.float64],
    noise_var: float,
) -> tuple[float, float]:
    """s = 1'C^-1 1 and q = 1'C^-1 t by Woodbury."""
    N, m = Phi_a.shape
    A = np.vstack([Phi_a * np.sqrt(prior_var / noise_var), np.eye(m)])
    Q = np.linalg.qr(A)[0][:N]
    ones = np.ones(N)
    C_inv_ones = (ones - Q @ (Q.T @ ones)) / noise_var
    return float(C_inv_ones @ ones), float(C_inv_ones @ t)


def rms(error: NDArray[np.float64]) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(error))))


# Tables and targets


def missing(value: Any) -> bool:
    """Whether a figure was not measured or has no meaning."""
    return value is None or (isinstance(value, float) and not np.isfinite(value))


def cell(value: Any, spec: str = "") -> str:
    """One formatted cell."""
    return "-" if missing(value) else format(value, spec)


def cells(rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> list[list[str]]:
    """Return header and rows as text. ``columns`` maps a key to its format specification."""
    lines = [list(columns)]
    return lines + [[cell(row.get(key), spec) for key, spec in columns.items()] for row in rows]


def table(lines: Sequence[Sequence[str]]) -> str:
    """Return header and rows as aligned text."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [i == 0 for i in range(len(widths))]
    return "\n".join(
        "  ".join(
            value.ljust(w) if left else value.rjust(w)
            for value, w, left in zip(line, widths, text, strict=True)
        ).rstrip()
        for line in lines
    )


def mean(values: Sequence[float]) -> float | None:
    """Mean over draws, None where there are none."""
    return float(np.mean(values)) if values else None


def median_times(cpu: Sequence[float], wall: Sequence[float]) -> dict[str, float | None]:
    """The two columns of times, over draws."""
    clocks = {"CPU s": cpu, "wall s": wall}
    return {name: float(np.median(times)) if times else None for name, times in clocks.items()}


def mean_lead(own: Sequence[float], rival: Sequence[float]) -> float | None:
    """Mean of what one is ahead of another, pairwise: a slow competitor meets fewer draws."""
    return mean([a - b for a, b in zip(own, rival, strict=False)])


def name_absent(peers: Sequence[str]) -> None:
    """Say which peers cannot take part."""
    for peer in peers:
        if not version(peer):
            print(f"{peer} is not installed and left out (pip install 'sparsebayes[bench]')")


def print_warnings(messages: Mapping[str, set[str]]) -> None:
    """Print what competitors warned of, below their table."""
    for name, texts in messages.items():
        for text in sorted(texts):
            print(f"  {name} warned: {text.splitlines()[0][:150]}")


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that was promised, and the one that was measured."""

    claim: str
    reached: bool
    figure: str

    def __str__(self) -> str:
        return f"{'reached' if self.reached else 'MISSED '}  {self.claim}: {self.figure}"


@dataclass(slots=True)
class Report:
    """What a benchmark found, printed as it comes and stored at the end."""

    title: str
    env: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    tables: list[tuple[str, list[list[str]]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, title: str, threads: int) -> Report:
        """Pin the threads, print the header."""
        pin_threads(threads)
        report = cls(title, environment(threads))
        print(f"{title}\n{describe(report.env)}", flush=True)
        return report

    def show(self, heading: str, rows: Sequence[dict[str, Any]], columns: dict[str, str]) -> None:
        """Print a table and keep its rows."""
        self.tables.append((heading, cells(rows, columns)))
        print(f"\n{heading}\n{table(self.tables[-1][1])}", flush=True)
        # JSON has no NaN.
        self.rows += [
            {"table": heading} | {k: None if missing(v) else v for k, v in row.items()}
            for row in rows
        ]

    def note(self, text: str) -> None:
        """Print a sentence on what is measured, and keep it."""
        self.notes.append(text)
        print(text, flush=True)

    def judge(self, claim: str, reached: bool, figure: str) -> None:
        """Note one target."""
        self.targets.append(Target(claim, bool(reached), figure))

    def close(self, args: argparse.Namespace) -> None:
        """Print the targets, write the files that were asked for."""
        if self.targets:
            print("\nTargets", *self.targets, sep="\n")
        if args.json is not None:
            kept = {key: value for key, value in asdict(self).items() if key != "tables"}
            args.json.write_text(json.dumps(kept, indent=1, default=float) + "\n")
        if args.page is not None:
            _page.write(self, args.page)
