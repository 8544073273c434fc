"""Learned kernels: what a width for each input brings, and whether learning should be the default.

Without an option: RVR(gamma="ard") beside scikit-learn's Gaussian process with an anisotropic RBF,
an amplitude and a noise, all learned, on Friedman's problems and Boston. The error is printed
twice: against the targets as observed, and against the truth, where the noise of the test rows no
longer hides a difference. The other rows are widths that are found before the fit ("pooled-ard",
and "pooled", the default), learned in one number, and not learned. ``--why`` adds rows that take
the difference apart.

``--default``: gamma="pooled" and "evidence" beside "scale" and cross-validation (see
`_kernel_default`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks import _kernel_default
from benchmarks._harness import Report, Run, argument_parser, interleave, rms
from benchmarks._kernel_problems import Draw, Split, friedman, with_boston
from sparsebayes import RVR
from sparsebayes.predictive import Normal

Array = NDArray[np.float64]

GP, ARD, POOLED_ARD = "GP", "RVR, ard", "RVR, pooled-ard"
POOLED, EVIDENCE, SCALE = "RVR, pooled", "RVR, evidence", "RVR, scale"
GP_WIDTHS, OWN_WIDTHS = "RVR, the GP's widths", "GP, the RVR's widths"
PREDICTIONS = 5  # timings of a prediction; the least counts
ROWS = 10_000  # predicted in each of them: test rows, again and again
LIMIT = 600.0  # seconds of a fit
NARROWEST = 1e-10  # of learned gammas: below, an input does not matter

COLUMNS = {
    "": "",
    "RMSE": ".4g",
    "x GP's": ".3f",
    "to truth": ".4g",
    "x GP's, truth": ".3f",
    "NLPD": ".3f",
    "atoms": ".1f",
    "fit s": ".2f",
    "x GP's fit": ".2f",
    "predict ms": ".2f",
    "times faster": ".1f",
    "with std ms": ".2f",
    "std, faster": ".1f",
    "draws": "d",
}


# Competitors


def covariance(d: int) -> Any:
    return ConstantKernel(1.0) * RBF(np.ones(d)) + WhiteKernel(0.1)


def gaussian_process(kernel: Any) -> Any:
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)


def fixed_process(gamma: Array) -> Any:
    """The widths of another machine; amplitude and noise are learned."""
    lengths = 1 / np.sqrt(2 * np.maximum(gamma, NARROWEST))
    bounds = (1e-5, 1e8)
    return gaussian_process(ConstantKernel(1.0, bounds) * RBF(lengths, "fixed") + WhiteKernel(0.1))


def makers(data: Split) -> dict[str, Callable[[], Any]]:
    return {
        GP: lambda: gaussian_process(covariance(data.X.shape[1])),
        ARD: lambda: RVR(gamma="ard", random_state=0),
        POOLED_ARD: lambda: RVR(gamma="pooled-ard", random_state=0),
        POOLED: lambda: RVR(random_state=0),
        EVIDENCE: lambda: RVR(gamma="evidence", random_state=0),
        SCALE: lambda: RVR(gamma="scale", random_state=0),
    }


def dissections(process: Any, learned: Any) -> dict[str, Callable[[], Any]]:
    """Machines that differ from the two in one respect."""
    lengths = process.kernel_.k1.k2.length_scale
    return {
        GP_WIDTHS: lambda: RVR(gamma=1 / (2 * lengths**2), random_state=0),
        OWN_WIDTHS: lambda: fixed_process(learned.gamma_),
        "RVR, ard, aic": lambda: RVR(gamma="ard", prior="aic", random_state=0),
        "RVR, ard, bic": lambda: RVR(gamma="ard", prior="bic", random_state=0),
        "RVR, ard, 3 restarts": lambda: RVR(gamma="ard", n_restarts=3, random_state=0),
    }


# Measuring


@dataclass(slots=True)
class Result:
    """One machine on the draws of a problem."""

    rmse: list[float] = field(default_factory=list)
    truth: list[float] = field(default_factory=list)
    nlpd: list[float] = field(default_factory=list)
    atoms: list[int] = field(default_factory=list)
    fit: list[float] = field(default_factory=list)
    predict: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)
    messages: set[str] = field(default_factory=set)

    def add(self, model: Any, data: Split, cpu: float, predictions: dict[str, Run]) -> None:
        mean, std = model.predict(data.X_test, return_std=True)
        self.rmse.append(rms(mean - data.y_test))
        self.truth.append(rms(mean - data.truth))
        self.nlpd.append(float(-np.mean(Normal(mean, std, std).logpdf(data.y_test))))
        self.atoms.append(len(getattr(model, "relevance_", data.X)))
        self.fit.append(cpu)
        self.predict.append(predictions["mean"].cpu)
        self.spread.append(predictions["std"].cpu)


def times(model: Any, X: Array) -> dict[str, Run]:
    X = np.resize(X, (ROWS, X.shape[1]))
    jobs = {
        "mean": partial(model.predict, X),
        "std": partial(model.predict, X, return_std=True),
    }
    return interleave(jobs, repeats=PREDICTIONS, limit=None)


def fit(make: Callable[[], Any], data: Split) -> Any:
    return make().fit(data.X, data.y)


def measure(draw: Draw, draws: int, repeats: int, why: bool) -> dict[str, Result]:
    """Everyone on the same draws."""
    results: dict[str, Result] = {}
    for seed in range(draws):
        data = draw(seed)
        jobs = {name: partial(fit, make, data) for name, make in makers(data).items()}
        runs = interleave(jobs, repeats=repeats, limit=LIMIT)
        if why:
            more = dissections(runs[GP].result, runs[ARD].result)
            jobs = {name: partial(fit, make, data) for name, make in more.items()}
            runs |= interleave(jobs, repeats=1, limit=LIMIT)
        for name, run in runs.items():
            result = results.setdefault(name, Result())
            result.messages.update(run.messages)
            if run.result is not None:
                result.add(run.result, data, run.cpu, times(run.result, data.X_test))
    return results


def ratio(own: list[float], other: list[float]) -> float:
    """Geometric mean over draws."""
    return float(np.exp(np.mean(np.log(own) - np.log(other[: len(own)]))))


def row(name: str, r: Result, gp: Result) -> dict[str, Any]:
    return {
        "": name,
        "RMSE": float(np.mean(r.rmse)),
        "x GP's": ratio(r.rmse, gp.rmse),
        "to truth": float(np.mean(r.truth)),
        "x GP's, truth": ratio(r.truth, gp.truth),
        "NLPD": float(np.mean(r.nlpd)),
        "atoms": float(np.mean(r.atoms)),
        "fit s": float(np.median(r.fit)),
        "x GP's fit": ratio(r.fit, gp.fit),
        "predict ms": 1e3 * float(np.median(r.predict)),
        "times faster": ratio(gp.predict, r.predict),
        "with std ms": 1e3 * float(np.median(r.spread)),
        "std, faster": ratio(gp.spread, r.spread),
        "draws": len(r.rmse),
    }


def judge(report: Report, name: str, r: dict[str, Any], rows: int) -> None:
    """The targets of RVR(gamma="ard") on one problem."""
    for label, key in (("RMSE", "x GP's"), ("RMSE to the truth", "x GP's, truth")):
        if label == "RMSE" or r["to truth"] != r["RMSE"]:
            report.judge(
                f"{name}: {label} within 5 % of the GP's", r[key] <= 1.05, f"x {r[key]:.3f}"
            )
    slower = min(r["times faster"], r["std, faster"])
    figure = f"{r['times faster']:.0f} times, with error bars {r['std, faster']:.0f}"
    report.judge(f"{name}: prediction 10 times faster", slower >= 10, figure)
    if rows >= 1000:
        share = r["x GP's fit"]
        report.judge(f"{name}: not slower to fit", share <= 1, f"{share:.2f} of its time")


def compare(report: Report, args: Any) -> None:
    """Beside the Gaussian process."""
    problems = with_boston(friedman(240)) | ({} if args.quick else friedman(1000))
    for name, draw in problems.items():
        if args.only and not any(name.startswith(wanted) for wanted in args.only):
            continue
        results = measure(draw, args.draws, args.repeats, args.why)
        rows = [row(own, result, results[GP]) for own, result in results.items()]
        report.show(name, rows, COLUMNS)
        for own, result in results.items():
            for text in sorted(result.messages) if own != GP else ():
                print(f"  {own} warned: {text.splitlines()[0][:150]}")
        judge(report, name, next(r for r in rows if r[""] == ARD), len(draw(0).X))


def main() -> None:
    parser = argument_parser("Learned kernels beside a Gaussian process", 1)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="problems that begin so")
    parser.add_argument("--draws", type=int, help="data sets of each problem")
    parser.add_argument("--quick", action="store_true", help="one draw of the small problems")
    parser.add_argument("--why", action="store_true", help="add rows that explain differences")
    parser.add_argument("--default", action="store_true", help="the choice of a default instead")
    args = parser.parse_args()
    args.draws = args.draws or (1 if args.quick else 5)
    report = Report.open("Learned kernels", args.threads)
    if args.default:
        _kernel_default.run(report, args)
    else:
        compare(report, args)
    report.close(args)


if __name__ == "__main__":
    main()
