"""Which width by default? gamma="pooled", "evidence" and "scale" beside cross-validation.

Cross-validation chooses one of nine widths, from an eighth to eight times that of "scale", by the
error on five folds: 46 fits. The error is the root mean square against the truth (the targets where
nobody knows it), or the log-loss. A plain fit is one with gamma="scale".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from benchmarks._classification import log_loss
from benchmarks._harness import Report, interleave, rms
from benchmarks._kernel_problems import Draw, Split, classifications, regressions
from sparsebayes import RVC, RVR

Array = NDArray[np.float64]

FACTORS = 2.0 ** np.linspace(-6, 6, 9)  # of gamma
FOLDS = 5
POOLED, EVIDENCE, SCALE, CV = "pooled", "evidence", "scale", "CV"
MOST = 5.0  # plain fits

COLUMNS = {
    "": "",
    "CV": ".4g",
    "scale / CV": ".3f",
    "pooled / CV": ".3f",
    "evidence / CV": ".3f",
    "pooled, worst draw": ".3f",
    "evidence, worst draw": ".3f",
    "atoms, scale": ".1f",
    "atoms, pooled": ".1f",
    "atoms, evidence": ".1f",
    "atoms, CV": ".1f",
    "plain fit s": ".3f",
    "pooled, in plain fits": ".1f",
    "evidence, in plain fits": ".1f",
    "CV, in plain fits": ".0f",
    "not converged": "d",
    "draws": "d",
}


@dataclass(slots=True)
class Scores:
    """One way to choose the width, draw by draw."""

    error: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    atoms: list[int] = field(default_factory=list)
    failed: int = 0


def searched(machine: Callable[..., Any], data: Split, seed: int) -> Any:
    """The width of the least error on five folds, fitted again."""
    start = 1 / (data.X.shape[1] * data.X.var())
    if machine is RVR:
        folds, scoring = KFold(FOLDS, shuffle=True, random_state=seed), "neg_mean_squared_error"
    else:
        folds, scoring = StratifiedKFold(FOLDS, shuffle=True, random_state=seed), "neg_log_loss"
    grid = {"gamma": list(start * FACTORS)}
    search = GridSearchCV(machine(random_state=0), grid, cv=folds, scoring=scoring)
    return search.fit(data.X, data.y).best_estimator_


def fitted(machine: Callable[..., Any], choice: str, data: Split) -> Any:
    return machine(gamma=choice, random_state=0).fit(data.X, data.y)


def error(model: Any, data: Split) -> float:
    if isinstance(model, RVR):
        return rms(model.predict(data.X_test) - data.truth)
    labels = np.searchsorted(model.classes_, data.y_test)
    return float(log_loss(model.predict_proba(data.X_test), labels).mean())


def measure(machine: Callable[..., Any], draw: Draw, draws: int, repeats: int) -> dict[str, Scores]:
    """All of them on the same draws."""
    found = {name: Scores() for name in (POOLED, EVIDENCE, SCALE, CV)}
    for seed in range(draws):
        data = draw(seed)
        jobs = {name: partial(fitted, machine, name, data) for name in (POOLED, EVIDENCE, SCALE)}
        runs = interleave(jobs, repeats=repeats, limit=None)
        runs |= interleave({CV: partial(searched, machine, data, seed)}, repeats=1, limit=None)
        for name, run in runs.items():
            scores = found[name]
            scores.error.append(error(run.result, data))
            scores.cpu.append(run.cpu)
            scores.atoms.append(len(run.result.relevance_))
            scores.failed += not run.result.converged_
    return found


def ratios(found: dict[str, Scores], name: str) -> Array:
    return np.divide(found[name].error, found[CV].error)


def row(name: str, found: dict[str, Scores]) -> dict[str, Any]:
    plain = np.array(found[SCALE].cpu)
    return {
        "": name,
        "CV": float(np.mean(found[CV].error)),
        "scale / CV": geometric(ratios(found, SCALE)),
        "pooled / CV": geometric(ratios(found, POOLED)),
        "evidence / CV": geometric(ratios(found, EVIDENCE)),
        "pooled, worst draw": float(ratios(found, POOLED).max()),
        "evidence, worst draw": float(ratios(found, EVIDENCE).max()),
        "atoms, scale": float(np.mean(found[SCALE].atoms)),
        "atoms, pooled": float(np.mean(found[POOLED].atoms)),
        "atoms, evidence": float(np.mean(found[EVIDENCE].atoms)),
        "atoms, CV": float(np.mean(found[CV].atoms)),
        "plain fit s": float(np.median(plain)),
        "pooled, in plain fits": float(np.median(found[POOLED].cpu / plain)),
        "evidence, in plain fits": float(np.median(found[EVIDENCE].cpu / plain)),
        "CV, in plain fits": float(np.median(found[CV].cpu / plain)),
        "not converged": found[POOLED].failed + found[EVIDENCE].failed,
        "draws": len(plain),
    }


def geometric(values: Array) -> float:
    return float(np.exp(np.mean(np.log(values))))


def summarize(report: Report, kind: str, name: str, rows: list[dict[str, Any]]) -> None:
    """Means over problems, worst cases, wins and verdicts on one way to find a width."""
    scale, learned = (np.array([r[f"{which} / CV"] for r in rows]) for which in (SCALE, name))
    fits = np.array([r[f"{name}, in plain fits"] for r in rows])
    worst = int(learned.argmax())
    slowest = int(fits.argmax())
    report.judge(
        f"{kind}: {name} better than scale",
        geometric(learned) < geometric(scale),
        f"error {geometric(learned):.3f} of CV's in the geometric mean, scale's "
        f"{geometric(scale):.3f}; better in {int((learned < scale).sum())} of {len(rows)} problems",
    )
    report.judge(
        f"{kind}: {name} within 5 % of cross-validation",
        geometric(learned) <= 1.05,
        f"{geometric(learned):.3f}; better in {int((learned < 1).sum())} of {len(rows)}",
    )
    report.judge(
        f"{kind}: {name} is robust, in no problem 25 % above cross-validation",
        learned[worst] <= 1.25,
        f"worst {learned[worst]:.3f}, {rows[worst]['']}; worst of scale {scale.max():.3f}",
    )
    report.judge(
        f"{kind}: {name} takes at most {MOST:.0f} plain fits",
        float(np.median(fits)) <= MOST,
        f"median {np.median(fits):.1f}, most {fits[slowest]:.1f}, {rows[slowest]['']}; "
        f"above in {int((fits > MOST).sum())} of {len(rows)}",
    )


def run(report: Report, args: Any) -> None:
    """Both machines on all problems."""
    kinds = {
        "regression": (RVR, regressions()),
        "classification": (RVC, classifications()),
    }
    for kind, (machine, problems) in kinds.items():
        rows = []
        names = [n for n in problems if not args.only or any(n.startswith(w) for w in args.only)]
        for name in names[:: 4 if args.quick else 1]:
            rows.append(row(name, measure(machine, problems[name], args.draws, args.repeats)))
            print(
                f"  {name}: {rows[-1]['pooled / CV']:.3f}, "
                f"{rows[-1]['pooled, in plain fits']:.1f} plain fits",
                flush=True,
            )
        if rows:
            report.show(f"{kind}: errors over that of cross-validation", rows, COLUMNS)
            for name in (POOLED, EVIDENCE):
                summarize(report, kind, name, rows)
