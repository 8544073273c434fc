"""The experiment of Tipping & Faul 2003, section 5.2: ``benchmarks.fast2003 --classification``.

Two classes in the plane with mixtures of Gaussians as class-conditional distributions, Gaussian
kernel exp(-|x - z|^2 / r^2) with r = 1.0 centered on the N training inputs. The paper refers to
Tipping 2000 for the mixtures, which prints no constants; Ripley's (1996) stand in for them: two
Gaussians in each class, Bayes error 8.9 %. Every fit includes its kernel evaluations.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from benchmarks._classification import (
    Array,
    Labels,
    laplace_evidence,
    laplace_evidence_with_bias,
    log_loss,
    standard_error,
)
from benchmarks._harness import (
    Report,
    Run,
    interleave,
    mean,
    mean_lead,
    median_times,
    name_absent,
    print_warnings,
    version,
)
from sparsebayes.datasets import Labeled, mixtures
from sparsebayes.dictionaries import Bias, Kernel

WIDTH = 1.0
GAMMA = 1 / WIDTH**2
TEST_ROWS = 20_000
GRID = {"C": [0.1, 1.0, 10.0, 100.0, 1000.0]}
LIMIT = 120.0  # seconds, after which a competitor retires
SLOW = 10.0  # CPU seconds, after which it is run on the first draw only

Lines = dict[tuple[str, int], dict[str, Any]]


def ours(model: Any, X: Array, t: Labels) -> tuple[int, float]:
    """Atoms and evidence of the model with an intercept."""
    Phi_a = rbf_kernel(X, model.relevance_vectors_, gamma=GAMMA)
    return Phi_a.shape[1], laplace_evidence_with_bias(Phi_a, t, model.prior_variance_)


def ours_bias(model: Any, X: Array, t: Labels) -> tuple[int, float]:
    """The same where the bias is the dictionary's atom 0."""
    Phi_a = np.column_stack([np.ones(len(X)), rbf_kernel(X, gamma=GAMMA)])[:, model.relevance_]
    return Phi_a.shape[1], laplace_evidence(Phi_a, t, model.prior_variance_)


def fastrvm_model(model: Any, X: Array, t: Labels) -> tuple[int, float]:
    """Atoms and evidence of fastrvm; norm^4 puts the units of its precisions right.

    The evidence then equals its own trace to 1e-6 where there is no bias.
    """
    Phi_a = rbf_kernel(X, model.relevance_vectors_, gamma=GAMMA)
    prior_var = 1 / (model.alpha_.ravel() * np.linalg.norm(Phi_a, axis=0) ** 4)
    value = laplace_evidence_with_bias if model.fit_intercept else laplace_evidence
    return Phi_a.shape[1], value(Phi_a, t, prior_var)


def sklearn_rvm_model(model: Any, X: Array, t: Labels) -> tuple[int, float]:
    """Atoms and evidence of sklearn-rvm: ``Phi_`` is its own rescaled design, bias included."""
    return len(model.alpha_), laplace_evidence(model.Phi_, t, 1 / model.alpha_)


def svm_model(model: Any, X: Array, t: Labels) -> tuple[int, float]:
    """Distinct support vectors; there is no evidence."""
    machines = getattr(model, "calibrated_classifiers_", None)
    if machines is None:
        return len(getattr(model, "best_estimator_", model).support_), np.nan
    vectors = np.vstack([machine.estimator.support_vectors_ for machine in machines])
    return len(np.unique(vectors, axis=0)), np.nan


def gp_model(model: Any, X: Array, t: Labels) -> tuple[int, float]:
    """All rows; its evidence is that of another model."""
    return len(X), np.nan


@dataclass(slots=True)
class Competitor:
    """A way to fit, and how to read what it found."""

    name: str
    make: Callable[[], Any]
    read: Callable[[Any, Array, Labels], tuple[int, float]]
    kind: str  # "own", "rvm" or "other"
    retired: bool = False
    slow: bool = False

    def fit(self, X: Array, t: Labels) -> Any:
        model = self.make()
        try:
            model.fit(X, t)
        except np.linalg.LinAlgError as error:
            warnings.warn(f"fit failed: {error}", RuntimeWarning, stacklevel=1)
            return None
        return model


def competitors(solver: str, wanted: list[str] | None) -> list[Competitor]:
    """All that are installed and wanted."""
    sparsebayes = import_module("sparsebayes")
    dictionary = Bias() + Kernel("rbf", gamma=GAMMA)
    settings: dict[str, Any] = {"prior": "flat", "solver": solver, "random_state": 0}
    # |x - z|^2 / (2 length^2), the length not learned: the same width for everyone.
    covariance = ConstantKernel(1.0, (1e-3, 1e6)) * RBF(WIDTH / np.sqrt(2), "fixed")
    field_ = [
        Competitor("SVC", lambda: SVC(C=1, gamma=GAMMA), svm_model, "other"),
        Competitor("RVC", lambda: sparsebayes.RVC(gamma=GAMMA, **settings), ours, "own"),
        Competitor(
            "RVC, bias atom",
            lambda: sparsebayes.SparseBayesClassifier(dictionary, fit_intercept=False, **settings),
            ours_bias,
            "own",
        ),
    ]
    if version("fastrvm"):
        fastrvm = import_module("fastrvm")
        field_ += [
            Competitor("fastrvm", lambda: fastrvm.RVC(gamma=GAMMA), fastrvm_model, "rvm"),
            Competitor(
                "fastrvm, bias",
                lambda: fastrvm.RVC(gamma=GAMMA, fit_intercept=True),
                fastrvm_model,
                "rvm",
            ),
        ]
    if version("sklearn-rvm"):
        EMRVC = import_module("sklearn_rvm").EMRVC
        field_.append(
            Competitor("sklearn-rvm", lambda: EMRVC(gamma=GAMMA), sklearn_rvm_model, "rvm")
        )
    field_ += [
        Competitor(
            "SVC, calibrated",
            lambda: CalibratedClassifierCV(SVC(C=1, gamma=GAMMA), cv=5),
            svm_model,
            "other",
        ),
        Competitor(
            "SVC, C by CV", lambda: GridSearchCV(SVC(gamma=GAMMA), GRID, cv=5), svm_model, "other"
        ),
        Competitor("GP", lambda: GaussianProcessClassifier(covariance), gp_model, "other"),
    ]
    name_absent(["fastrvm", "sklearn-rvm"])
    return [c for c in field_ if wanted is None or c.name.split(",")[0] in wanted]


@dataclass(slots=True)
class Result:
    """One competitor at one N, over the draws."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    evidence: list[float] = field(default_factory=list)
    atoms: list[int] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    log_loss: list[float] = field(default_factory=list)
    messages: set[str] = field(default_factory=set)


def measure(field_: list[Competitor], N: int, draws: int, repeats: int) -> dict[str, Result]:
    """Fit everyone on the same data sets, and let the truth compete in what it can."""
    results = {c.name: Result() for c in field_} | {"truth": Result()}
    for draw in range(draws):
        train = mixtures(N, random_state=draw)
        test = mixtures(TEST_ROWS, random_state=10_000 + draw)
        runners = [c for c in field_ if not c.retired and not (draw and c.slow)]
        jobs = {c.name: partial(c.fit, train.X, train.y) for c in runners}
        runs = interleave(jobs, repeats=repeats, limit=LIMIT)
        for c in runners:
            note(results[c.name], c, runs[c.name], train, test)
        p = test.probability
        results["truth"].error.append(float(np.mean((p > 0.5) != test.y)))
        results["truth"].log_loss.append(
            float(log_loss(np.column_stack([1 - p, p]), test.y).mean())
        )
    return results


def note(result: Result, c: Competitor, run: Run, train: Labeled, test: Labeled) -> None:
    """Enter a run, retire who is over time."""
    c.slow = c.slow or run.cpu > SLOW
    c.retired = run.wall > LIMIT or run.over_time
    result.messages.update(run.messages)
    if run.result is None:
        return
    model = run.result
    atoms, log_evidence = c.read(model, train.X, train.y)
    result.cpu.append(run.cpu)
    result.wall.append(run.wall)
    result.atoms.append(atoms)
    result.evidence.append(log_evidence)
    result.error.append(float(np.mean(model.predict(test.X) != test.y)))
    # SVC alone has no probabilities.
    proba = model.predict_proba(test.X) if hasattr(model, "predict_proba") else None
    result.log_loss.append(np.nan if proba is None else float(log_loss(proba, test.y).mean()))


def row(name: str, N: int, r: Result, results: dict[str, Result], clock: str) -> dict[str, Any]:
    """One line of the table."""

    def ratio(other: str) -> float | None:
        # Pairwise, because a slow competitor meets fewer draws.
        rival = getattr(results[other], clock) if other in results else []
        own = getattr(r, clock)
        shared = min(len(own), len(rival))
        return float(np.median(own[:shared]) / np.median(rival[:shared])) if shared else None

    rival = results["fastrvm"].evidence if "fastrvm" in results else []
    return {
        "": name,
        "N": N,
        **median_times(r.cpu, r.wall),
        "x SVC": ratio("SVC"),
        "x fastrvm": ratio("fastrvm"),
        "x SVC, C by CV": ratio("SVC, C by CV"),
        "evidence": mean(r.evidence),
        "- fastrvm's": mean_lead(r.evidence, rival),
        "atoms": mean(r.atoms),
        "error %": None if not r.error else 100 * float(np.mean(r.error)),
        "log-loss": mean(r.log_loss),
        "draws": len(r.error),
    }


COLUMNS = {
    "": "",
    "N": "d",
    "CPU s": ".4f",
    "wall s": ".4f",
    "x SVC": ".2f",
    "x fastrvm": ".3f",
    "x SVC, C by CV": ".3f",
    "evidence": ".2f",
    "- fastrvm's": "+.2f",
    "atoms": ".1f",
    "error %": ".2f",
    "log-loss": ".4f",
    "draws": "d",
}


def judge_time(report: Report, own: str, lines: Lines) -> None:
    """The time targets of one of our two variants."""
    for (name, N), line in lines.items():
        if name != own:
            continue
        bounds = {
            "x fastrvm": {1000: 1 / 3, 4000: 1 / 10}.get(N),
            "x SVC": 4.0 if N == 4000 else None,
            "x SVC, C by CV": 1.0 if N >= 300 else None,
        }
        for column, bound in bounds.items():
            times = line[column]
            if bound is not None and times is not None:
                claim = f"{own}, N = {N}: at most {bound:.3g} {column}"
                report.judge(claim, times <= bound, f"{times:.3f}")


def judge_scores(report: Report, own: str, N: int, peers: list[str], r: dict[str, Result]) -> None:
    """Scores beside every peer's, draw by draw: two standard errors of the difference allowed."""
    for label in ("error", "log_loss"):
        mine = getattr(r[own], label)
        gaps = {
            name: np.subtract(*zip(*zip(mine, theirs, strict=False), strict=True))
            for name in peers
            if (theirs := getattr(r[name], label)) and np.isfinite(theirs).all()
        }
        if not mine or not gaps:
            continue
        allowed = {name: 2 * np.nan_to_num(standard_error(gap)) for name, gap in gaps.items()}
        worst = max(gaps, key=lambda name: gaps[name].mean() - allowed[name])
        excess = gaps[worst].mean()
        report.judge(
            f"{own}, N = {N}: {label.replace('_', '-')} not worse than any peer's",
            excess <= allowed[worst],
            f"{excess:+.4f} beside {worst} (two standard errors: {allowed[worst]:.4f})",
        )


def judge_model(report: Report, own: str, N: int, peers: list[str], r: dict[str, Result]) -> None:
    """Atoms and evidence beside the other relevance vector machines, draw by draw."""
    mine = r[own].atoms
    pairs = {name: list(zip(mine, r[name].atoms, strict=False)) for name in peers if r[name].atoms}
    if not mine or not pairs:
        return
    atoms = {name: np.mean(values, axis=0) for name, values in pairs.items()}
    text = ", ".join(f"{a:.1f} against {b:.1f} of {name}" for name, (a, b) in atoms.items())
    few = all(a <= b for a, b in atoms.values())
    report.judge(f"{own}, N = {N}: atoms as few as the peers'", few, text)
    # With a bias atom ours is the peers' model; an intercept has no normalized evidence.
    if own.endswith("bias atom"):
        gaps = [
            a - b for name in pairs for a, b in zip(r[own].evidence, r[name].evidence, strict=False)
        ]
        figure = f"worst {min(gaps):+.2f}, mean {np.mean(gaps):+.2f} nats over a peer"
        report.judge(f"{own}, N = {N}: evidence not below any peer's", min(gaps) >= -0.01, figure)


def run(args: argparse.Namespace) -> None:
    """Measure, print, judge."""
    title = "Tipping & Faul 2003, section 5.2: two classes, mixtures of Gaussians, r = 1.0"
    report = Report.open(title, args.threads)
    clock = "cpu" if args.threads == 1 else "wall"
    report.note(f"ratios and targets use the {clock} clock; solver={args.solver!r}")
    report.note(
        f"error and log-loss on {TEST_ROWS} further rows; SVC's C by 5-fold CV over {GRID['C']}"
    )
    field_ = competitors(args.solver, args.only)
    own = [c.name for c in field_ if c.kind == "own"]
    lines: Lines = {}
    for N in args.sizes:
        results = measure(field_, N, args.draws, args.repeats)
        rows = [row(name, N, result, results, clock) for name, result in results.items()]
        report.show(f"N = {N}", rows, COLUMNS)
        print_warnings({name: result.messages for name, result in results.items()})
        lines |= {(line[""], N): line for line in rows}
        for name in own:
            judge_scores(report, name, N, [c.name for c in field_ if c.kind != "own"], results)
            judge_model(report, name, N, [c.name for c in field_ if c.kind == "rvm"], results)
    for name in own:
        judge_time(report, name, lines)
    report.close(args)
