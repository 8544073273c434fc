"""Whether results hang on the last bit or on the order of rows: small fits under several kernels.

``python -m benchmarks.robustness`` runs some 300 well-posed fits (`_robustness_fits`) in a process
for each of four kernels of OpenBLAS, whose sums differ in their last bits, and in three other
orders of rows and columns. What a fit finds is compared with what it finds on this machine as it
is, in the order of its data. ``--certificates`` compares certificates of 200 fits with little noise
with those of independent code in float64 and in long double (`_certificates`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import threadpoolctl

from benchmarks import _certificates
from benchmarks._harness import Report, argument_parser
from benchmarks._robustness_fits import Case, cases, found

# Kernels of OpenBLAS, and features of the processor that NumPy must not use beside them.
WIDE = ("X86_V4", "AVX512_ICL", "AVX512_SPR")
KERNELS: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "native": (None, ()),
    "Haswell": ("Haswell", WIDE),
    "Sandybridge": ("Sandybridge", ("X86_V3", *WIDE)),  # Zen has the sums of Haswell
    "Nehalem": ("Nehalem", ("X86_V3", *WIDE)),
}
ORDERS = (0, 1, 2, 3)  # of rows and columns; the first is that of the data
OTHER = 0.1  # nats from which on another optimum was found
REACHED = 0.99  # share that must converge

Result = dict[str, Any]
Results = dict[tuple[str, int, str], Result]  # of a kernel, an order and a fit


# One kernel


def work(orders: Sequence[int], wanted: Sequence[str] | None) -> None:
    """Run fits and print a line of JSON for each."""
    pools = threadpoolctl.threadpool_info()
    names = sorted({pool.get("architecture", "?") for pool in pools if "blas" in pool["user_api"]})
    enabled = extensions().get("found", [])
    print(json.dumps({"architecture": " ".join(names), "extensions": " ".join(enabled)}))
    for case in cases(wanted):
        for order in orders:
            print(json.dumps({"key": case.key, "order": order, **attempt(case, order)}), flush=True)


def attempt(case: Case, order: int) -> Result:
    """One fit; a failure is a result too."""
    cpu = time.process_time()
    try:
        result = found(case, order)
    except Exception as error:  # noqa: BLE001
        result = {"status": f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"}
    return result | {"cpu": time.process_time() - cpu}


def extensions() -> dict[str, list[str]]:
    """Extensions of the processor: those that NumPy uses, and those it was built for besides."""
    told: Any = np.show_config(mode="dicts")
    return dict(told["SIMD Extensions"])


def started(kernel: str, args: argparse.Namespace, output: IO[str]) -> subprocess.Popen[str]:
    """Start the fits in a process of its own."""
    core, disabled = KERNELS[kernel]
    there = [name for names in extensions().values() for name in names]
    env = {k: v for k, v in os.environ.items() if k not in SWITCHES}
    if core:
        env["OPENBLAS_CORETYPE"] = core
    if off := [name for name in disabled if name in there]:
        env["NPY_DISABLE_CPU_FEATURES"] = " ".join(off)
    words = ["--worker", "--orders", *map(str, args.orders)]
    words += ["--only", *args.only] if args.only else []
    command = [sys.executable, "-m", "benchmarks.robustness", *words]
    return subprocess.Popen(command, env=env, stdout=output, text=True)


def under_all(args: argparse.Namespace) -> Iterator[tuple[str, Result]]:
    """Results of all kernels, whose processes run side by side: no time is measured here."""
    with ExitStack() as stack:
        outputs = {k: stack.enter_context(TemporaryFile("w+")) for k in KERNELS}
        processes = {kernel: started(kernel, args, outputs[kernel]) for kernel in KERNELS}
        for kernel, process in processes.items():
            stack.callback(process.kill)
            if process.wait():
                raise SystemExit(f"the fits under {kernel} ended with {process.returncode}")
            outputs[kernel].seek(0)
            for line in outputs[kernel]:
                yield kernel, json.loads(line)


SWITCHES = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES")


# What is compared


def converged(case: Case, result: Result) -> bool:
    """Whether a fit has an answer: without noise, the floor of the noise is one too."""
    return result["status"] == "CONVERGED" or (case.free and result["status"] == "NOISE_FLOOR")


def evidence_apart(one: Result, other: Result) -> float | None:
    """Nats between two fits; None where one has no evidence."""
    if "evidence" not in one or "evidence" not in other:
        return None
    return abs(float(one["evidence"]) - float(other["evidence"]))


def predictions_apart(one: Result, other: Result) -> float | None:
    """Largest difference of predictions, in standard deviations of a target about the first."""
    if "mean" not in one or "mean" not in other:
        return None
    std = np.maximum(one["std"], 1e-12)
    return float((np.abs(np.subtract(one["mean"], other["mean"])) / std).max(initial=0.0))


def is_other(one: Result, other: Result) -> bool:
    """Whether two fits ended at different optima."""
    apart = evidence_apart(one, other)
    return apart is None or apart > OTHER


def row_of(family: str, group: Sequence[Case], results: Results, runs: Sequence[Any]) -> Result:
    """What a family shows in some runs, each a kernel and an order, beside the first one."""
    every = [(case, results[kernel, order, case.key]) for case in group for kernel, order in runs]
    first = {case.key: results["native", 0, case.key] for case in group}
    # Without noise the evidence is that of rounding, and its error bars too.
    firm = [(first[case.key], one) for case, one in every if not case.free]
    evidence = [evidence_apart(*pair) for pair in firm]
    predictions = [predictions_apart(*pair) for pair in firm]
    free = [
        np.abs(np.subtract(first[case.key]["mean"], one["mean"])).max()
        for case, one in every
        if case.free and "mean" in one and "mean" in first[case.key]
    ]
    others = {case.key for case, one in every if not case.free and is_other(first[case.key], one)}
    ends = Counter(one["status"] for _, one in every)
    answered = sum(converged(case, one) for case, one in every)
    return {
        "family": family,
        "fits": len(group),
        "runs": len(every),
        "converged, %": 100 * ends.pop("CONVERGED", 0) / len(every),
        "at the floor, %": 100 * ends.pop("NOISE_FLOOR", 0) / len(every),
        "answered": answered,
        "evidence, nats": max((x for x in evidence if x is not None), default=None),
        "predictions, std": max((x for x in predictions if x is not None), default=None),
        "without noise, abs": max(free, default=None),
        "other optimum": len(others),
        "ended otherwise": ", ".join(f"{name} {count}" for name, count in ends.most_common()),
    }


COLUMNS = {
    "family": "",
    "fits": "d",
    "runs": "d",
    "converged, %": ".1f",
    "at the floor, %": ".1f",
    "evidence, nats": ".2g",
    "predictions, std": ".2g",
    "without noise, abs": ".2g",
    "other optimum": "d",
    "ended otherwise": "",
}


def of_families(chosen: Sequence[Case], results: Results, runs: Sequence[Any]) -> list[Result]:
    """One line for each family, and one for all fits."""
    groups: dict[str, list[Case]] = {}
    for case in chosen:
        groups.setdefault(case.family, []).append(case)
    groups["all"] = list(chosen)
    return [row_of(family, group, results, runs) for family, group in groups.items()]


def apart(chosen: Sequence[Case], results: Results) -> list[Result]:
    """Fits with noise that ended at another optimum in some run, or without an answer."""
    rows = []
    for case in chosen:
        first = results["native", 0, case.key]
        found = {(k, o): one for (k, o, key), one in results.items() if key == case.key}
        unanswered = sorted({one["status"] for one in found.values() if not converged(case, one)})
        pairs = {run: evidence_apart(first, one) or 0.0 for run, one in found.items()}
        by_kernel = max(nats for (_, order), nats in pairs.items() if order == 0)
        by_order = max(nats for (kernel, _), nats in pairs.items() if kernel == "native")
        far = not case.free and max(pairs.values()) > OTHER
        if unanswered or far:
            rows.append(
                {
                    "fit": case.key,
                    "by kernel, nats": by_kernel,
                    "by order, nats": by_order,
                    "without an answer": ", ".join(unanswered),
                }
            )
    return rows


APART_COLUMNS = {
    "fit": "",
    "by kernel, nats": ".2g",
    "by order, nats": ".2g",
    "without an answer": "",
}


def judge(report: Report, chosen: Sequence[Case], rows: dict[str, list[Result]]) -> None:
    """Targets: all runs for statuses, kernels and orders apart for what is found."""
    for what, of_what in rows.items():
        every = of_what[-1]
        share = every["answered"] / every["runs"]
        figure = f"{100 * share:.1f} % of {every['runs']} runs"
        report.judge(
            f"{what}: at least 99 % end CONVERGED, or at the floor", share >= REACHED, figure
        )
        far = every["other optimum"]
        count = sum(not case.free for case in chosen)
        report.judge(
            f"{what}: no fit with noise ends at another optimum", not far, f"{far} of {count}"
        )


def compare(report: Report, args: argparse.Namespace) -> None:
    """Run all fits under all kernels, and tell what differs."""
    chosen = list(cases(args.only))
    results: Results = {}
    total = 0.0
    for kernel, one in under_all(args):
        if "architecture" in one:
            told = f"{kernel}: OpenBLAS reports {one['architecture']}"
            report.note(f"{told}; NumPy uses {one['extensions'] or 'no extensions'}")
            continue
        results[kernel, one["order"], one["key"]] = one
        total += one["cpu"]
    native = [("native", order) for order in args.orders]
    kernels = [(kernel, 0) for kernel in KERNELS]
    both = [(kernel, order) for kernel in KERNELS for order in args.orders]
    tables = {
        "under four kernels": kernels,
        f"in {len(args.orders) - 1} other orders of rows and columns": native,
        "both": both,
    }
    report.note(
        f"{len(chosen)} fits, each under {len(KERNELS)} kernels and in {len(args.orders)} orders; "
        f"{len(results)} runs took {total:.0f} CPU seconds"
    )
    report.note(
        "differences are those to the fit under the native kernel in the order of its data. "
        "Predictions: the largest difference of 25 new rows, in standard deviations of a target; "
        "of fits without noise, as it is (targets are about one in size). Without noise there is "
        "no evidence to compare: it hangs on rounding"
    )
    report.note(f"another optimum: more than {OTHER} nats away")
    rows = {}
    for name, runs in tables.items():
        rows[name] = of_families(chosen, results, runs)
        report.show(name[:1].upper() + name[1:], rows[name], COLUMNS)
    if far := apart(chosen, results):
        report.show("Fits at another optimum, or without an answer", far, APART_COLUMNS)
    judge(report, chosen, rows)


def main() -> None:
    parser = argument_parser("Whether results hang on rounding or on order", 1)
    parser.add_argument("--only", nargs="+", metavar="FAMILY", help="families; default all")
    parser.add_argument("--orders", nargs="+", type=int, default=ORDERS, help="orders; 0: as it is")
    parser.add_argument("--no-certificates", action="store_true", help="leave these out")
    parser.add_argument("--certificates", action="store_true", help="only these")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.orders, args.only)
        return
    report = Report.open("Results and rounding", args.threads)
    if not args.certificates:
        compare(report, args)
    if not args.no_certificates:
        _certificates.compare(report)
    report.close(args)


if __name__ == "__main__":
    main()
