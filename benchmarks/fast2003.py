"""The experiment of Tipping & Faul 2003, section 5.1, beside today's machines for the same task.

Two-dimensional sinc, noise of standard deviation 0.1, Gaussian kernel exp(-|x - z|^2 / r^2) with
r = 2.5 centered on the N training inputs. Every fit includes its kernel evaluations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import ARDRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVR

from benchmarks import _fast2003_classification
from benchmarks._harness import (
    Report,
    Run,
    argument_parser,
    evidence,
    evidence_of_contrasts,
    evidence_with_bias,
    interleave,
    mean,
    mean_lead,
    median_times,
    name_absent,
    print_warnings,
    rms,
    version,
)
from sparsebayes import RVR, SparseBayesRegressor
from sparsebayes.datasets import sinc
from sparsebayes.dictionaries import Bias, Kernel

WIDTH = 2.5
GAMMA = 1 / WIDTH**2
NOISE_STD = 0.1
LIMIT = 120.0  # seconds, after which a competitor retires
SLOW = 10.0  # CPU seconds, after which it is run on the first draw only

Array = NDArray[np.float64]
Lines = dict[tuple[str, int], dict[str, Any]]


# What was found: atoms at the data, their prior variances, the noise variance
Found = tuple[Array, Array, float]


def ours(model: Any, X: Array) -> Found:
    """Kernel atoms; an intercept is not among them."""
    Phi_a = rbf_kernel(X, model.relevance_vectors_, gamma=GAMMA)
    return Phi_a, model.prior_variance_, model.noise_variance_


def ours_bias(model: Any, X: Array) -> Found:
    """The same where the bias is the dictionary's atom 0."""
    Phi = np.column_stack([np.ones(len(X)), rbf_kernel(X, gamma=GAMMA)])
    return Phi[:, model.relevance_], model.prior_variance_, model.noise_variance_


def fastrvm_model(model: Any, X: Array) -> Found:
    """Atoms of fastrvm, whose precisions need their units put right.

    It works on unit-norm columns and returns alpha / norm^2 for the columns as given, where the
    weight w / norm has precision alpha * norm^2: norm^4 restores it (the evidence then equals its
    own trace plus the -N/2 log 2 pi which that leaves out, to 1e-10 without a bias). Its bias is
    held at the precision 2e-16 for unit norm, never estimated or deleted: in effect a flat prior.
    """
    Phi_a = rbf_kernel(X, model.relevance_vectors_, gamma=GAMMA)
    norms = np.linalg.norm(Phi_a, axis=0)
    return Phi_a, 1 / (model.alpha_.ravel() * norms**4), float(1 / model.beta_)


def sklearn_rvm_model(model: Any, X: Array) -> Found:
    """Atoms of sklearn-rvm: ``Phi_`` is its own rescaled design, bias included."""
    return model.Phi_, 1 / model.alpha_, float(1 / model.beta_)


def ard_model(model: Any, X: Array) -> Found:
    """Atoms of ARDRegression, which keeps what is below its threshold and centers the data."""
    kept = model.lambda_ < model.threshold_lambda
    return rbf_kernel(X, gamma=GAMMA)[:, kept], 1 / model.lambda_[kept], float(1 / model.alpha_)


# The intercept is part of the model, and there are three: none; a constant atom whose variance is
# estimated like any other; a flat prior. The first is a point of the second (variance zero). The
# evidence of the third is over N - 1 contrasts and compares with no other. To be scored as a model
# of the second kind it is given the constant atom that suits it best, which is not what it
# maximized.
EVIDENCE = {"none": evidence, "atom": evidence, "flat": evidence_of_contrasts}
AS_ATOM = {"none": evidence, "atom": evidence, "flat": evidence_with_bias}


@dataclass(slots=True)
class Competitor:
    """A way to fit, and how to read what it found."""

    name: str
    make: Callable[[], Any]
    read: Callable[[Any, Array], Found] | None  # None: support vectors, there is no evidence
    intercept: str = "none"
    precomputed: bool = False
    retired: bool = False
    slow: bool = False
    own: bool = False

    def fit(self, X: Array, t: Array) -> Any:
        model = self.make()
        # EMRVR.fit returns None.
        model.fit(rbf_kernel(X, gamma=GAMMA) if self.precomputed else X, t)
        return model

    def predict(self, model: Any, X: Array, X_test: Array) -> Array:
        inputs = rbf_kernel(X_test, X, gamma=GAMMA) if self.precomputed else X_test
        return np.asarray(model.predict(inputs), dtype=float)


def competitors(solver: str, with_cv: bool, wanted: list[str] | None) -> list[Competitor]:
    """All that are installed and wanted."""
    dictionary = Bias() + Kernel("rbf", gamma=GAMMA)
    settings: dict[str, Any] = {"prior": "flat", "solver": solver, "random_state": 0}
    field_ = [
        Competitor("SVR", lambda: SVR(C=1, epsilon=0.1, gamma=GAMMA), None),
        Competitor("RVR", lambda: RVR(gamma=GAMMA, **settings), ours, "flat", own=True),
        Competitor(
            "RVR, no intercept",
            lambda: RVR(gamma=GAMMA, fit_intercept=False, **settings),
            ours,
            own=True,
        ),
        Competitor(
            "RVR, bias atom",
            lambda: SparseBayesRegressor(dictionary, fit_intercept=False, **settings),
            ours_bias,
            "atom",
            own=True,
        ),
    ]
    if version("fastrvm"):
        fastrvm = import_module("fastrvm")

        field_ += [
            Competitor("fastrvm", lambda: fastrvm.RVR(gamma=GAMMA), fastrvm_model),
            Competitor(
                "fastrvm, bias",
                lambda: fastrvm.RVR(gamma=GAMMA, fit_intercept=True),
                fastrvm_model,
                "flat",
            ),
        ]
    if version("sklearn-rvm"):
        sklearn_rvm = import_module("sklearn_rvm")

        field_.append(
            Competitor(
                "sklearn-rvm", lambda: sklearn_rvm.EMRVR(gamma=GAMMA), sklearn_rvm_model, "atom"
            )
        )
    field_.append(Competitor("ARDRegression", ARDRegression, ard_model, "flat", True))
    if with_cv:
        grid = {"C": [0.1, 1, 10, 100], "epsilon": [0.01, 0.05, 0.1, 0.2]}
        field_.append(
            Competitor("SVR, 5-fold CV", lambda: GridSearchCV(SVR(gamma=GAMMA), grid), None)
        )
    name_absent(["fastrvm", "sklearn-rvm"])
    return [c for c in field_ if wanted is None or c.name.split(",")[0] in wanted]


@dataclass(slots=True)
class Result:
    """One competitor at one N, over the draws."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    evidence: list[float] = field(default_factory=list)
    as_atom: list[float] = field(default_factory=list)
    atoms: list[int] = field(default_factory=list)
    rmse: list[float] = field(default_factory=list)
    messages: set[str] = field(default_factory=set)


def measure(field_: list[Competitor], N: int, draws: int, repeats: int) -> dict[str, Result]:
    """Fit everyone on the same data sets."""
    results = {c.name: Result() for c in field_}
    for draw in range(draws):
        train = sinc(N, noise=NOISE_STD, dim=2, random_state=draw)
        test = sinc(2000, noise=0.0, dim=2, random_state=10_000 + draw)
        X, t = train.X, train.y
        runners = [c for c in field_ if not c.retired and not (draw and c.slow)]
        jobs = {c.name: partial(c.fit, X, t) for c in runners}
        runs = interleave(jobs, repeats=repeats, limit=LIMIT)
        for c in runners:
            note(results[c.name], c, runs[c.name], (X, t, test.X, test.truth))
    return results


def note(result: Result, c: Competitor, run: Run, data: tuple[Array, Array, Array, Array]) -> None:
    """Enter a run, retire who is over time."""
    X, t, X_test, f_test = data
    c.slow = c.slow or run.cpu > SLOW
    c.retired = run.wall > LIMIT or run.over_time
    result.messages.update(run.messages)
    if run.result is None:
        return
    if c.read is None:
        result.atoms.append(len(getattr(run.result, "best_estimator_", run.result).support_))
    else:
        Phi_a, prior_var, noise_var = c.read(run.result, X)
        result.atoms.append(Phi_a.shape[1])
        result.evidence.append(EVIDENCE[c.intercept](Phi_a, t, prior_var, noise_var))
        result.as_atom.append(AS_ATOM[c.intercept](Phi_a, t, prior_var, noise_var))
    result.cpu.append(run.cpu)
    result.wall.append(run.wall)
    result.rmse.append(rms(c.predict(run.result, X, X_test) - f_test))


def row(name: str, N: int, r: Result, results: dict[str, Result], clock: str) -> dict[str, Any]:
    """One line of the table."""

    def ratio(other: str) -> float | None:
        if not r.cpu or other not in results or not results[other].cpu:
            return None
        return float(np.median(getattr(r, clock)) / np.median(getattr(results[other], clock)))

    rival = results["fastrvm"].as_atom if "fastrvm" in results else []
    return {
        "": name,
        "N": N,
        **median_times(r.cpu, r.wall),
        "x SVR": ratio("SVR"),
        "x fastrvm": ratio("fastrvm"),
        "evidence": mean(r.evidence),
        "bias an atom": mean(r.as_atom),
        "- fastrvm's": mean_lead(r.as_atom, rival),
        "atoms": mean(r.atoms),
        "RMSE": mean(r.rmse),
        "draws": len(r.cpu),
    }


COLUMNS = {
    "": "",
    "N": "d",
    "CPU s": ".4f",
    "wall s": ".4f",
    "x SVR": ".2f",
    "x fastrvm": ".2f",
    "evidence": ".2f",
    "bias an atom": ".2f",
    "- fastrvm's": "+.2f",
    "atoms": ".1f",
    "RMSE": ".4f",
    "draws": "d",
}


def judge(report: Report, own: str, table: Lines, clock: str) -> None:
    """The time targets of one of our variants."""
    seconds = {N: r[f"{clock} s"] for (name, N), r in table.items() if name == own and r["draws"]}
    for N, value in seconds.items():
        if N < 1000:
            report.judge(f"{own}, N = {N}: at most 30 ms", value <= 0.030, f"{value * 1e3:.1f} ms")
            continue
        against = table[own, N]
        if against["x fastrvm"] is not None:
            bound = 1 / 3 if N == 4000 else 1.0
            claim = "a third of fastrvm's time" if N == 4000 else "faster than fastrvm"
            times = against["x fastrvm"]
            report.judge(f"{own}, N = {N}: {claim}", times <= bound, f"{times:.2f} of it")
        if against["x SVR"] is not None:
            times = against["x SVR"]
            report.judge(f"{own}, N = {N}: at most 4 SVR fits", times <= 4, f"{times:.2f}")
    if {1000, 4000} <= seconds.keys():
        growth = seconds[4000] / seconds[1000]
        claim = f"{own}: growth from N = 1000 to 4000 at most 20 times"
        report.judge(claim, growth <= 20, f"{growth:.1f}")


def judge_evidence(
    report: Report, own: Competitor, peers: list[Competitor], N: int, r: dict[str, Result]
) -> None:
    """Evidence against the best peer, draw by draw; a hundredth of a nat counts as equal.

    Like is compared with like: a peer of the same intercept by the evidence that both maximize.
    The model with the bias as an atom holds the others, as points of it, and meets all of them.
    """
    fields = "as_atom" if own.intercept == "atom" else "evidence"
    rivals = {
        c.name: getattr(r[c.name], fields)
        for c in peers
        if own.intercept in ("atom", c.intercept) and r[c.name].evidence
    }
    gaps = [
        min(value - rival[draw] for rival in rivals.values() if draw < len(rival))
        for draw, value in enumerate(getattr(r[own.name], fields))
        if any(draw < len(rival) for rival in rivals.values())
    ]
    if gaps:
        claim = f"{own.name}, N = {N}: evidence not below {'; '.join(rivals)}"
        below = sum(gap < -0.01 for gap in gaps)
        figure = (
            f"worst draw {min(gaps):+.2f}, mean {np.mean(gaps):+.2f} nats over the best of them; "
            f"{below} of {len(gaps)} draws below"
        )
        report.judge(claim, below == 0, figure)


def main() -> None:
    parser = argument_parser("2-D sinc of Tipping & Faul 2003: time, evidence, error", 5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000, 2000, 4000])
    parser.add_argument("--draws", type=int, default=3, help="data sets for each N")
    parser.add_argument("--solver", default="auto", help="of our machines, e.g. sequential")
    parser.add_argument("--cv", action="store_true", help="add a cross-validated SVR")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="RVR, SVR, fastrvm, ...")
    parser.add_argument("--classification", action="store_true", help="section 5.2 instead")
    args = parser.parse_args()
    if args.classification:
        _fast2003_classification.run(args)
        return
    report = Report.open("Tipping & Faul 2003, section 5.1: 2-D sinc, r = 2.5", args.threads)
    # With two threads CPU seconds also count a BLAS pool that spins: there the wall clock decides.
    clock = "cpu" if args.threads == 1 else "wall"
    report.note(f"ratios and targets use the {clock} clock; solver={args.solver!r}")
    field_ = competitors(args.solver, args.cv, args.only)
    peers = [c for c in field_ if not c.own and c.read is not None]
    lines: Lines = {}
    for N in args.sizes:
        results = measure(field_, N, args.draws, args.repeats)
        rows = [row(c.name, N, results[c.name], results, clock) for c in field_]
        report.show(f"N = {N}", rows, COLUMNS)
        print_warnings({name: result.messages for name, result in results.items()})
        lines |= {(r[""], N): r for r in rows}
        for c in field_:
            if c.own and peers:
                judge_evidence(report, c, peers, N, results)
    for c in field_:
        if c.own:
            judge(report, c.name, lines, "CPU" if clock == "cpu" else "wall")
    report.close(args)


if __name__ == "__main__":
    main()
