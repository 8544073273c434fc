"""How large may the weight of an atom added at a test point be? Three choices, measured.

The data near a test point say how large the weight of ``predict(augment=True)`` is; far away
nothing does but its prior variance. Data, places and fits are those of `benchmarks.coverage`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._harness import Report, argument_parser
from benchmarks.coverage import BOSTON, DATASETS, GAP, GRID, LEVELS, ON, OUTSIDE, Data, Scores
from sparsebayes import RVR, EvidenceSearch
from sparsebayes.augmentation import AugmentedFit, TrainingData
from sparsebayes.predictive import Normal

NONE, TARGETS, ABOUT_F0, WEIGHTS = "none", "variance of targets", "about f_0", "mean of weights'"
SETTINGS = [
    ("sinc", 25),
    ("sinc", 100),
    ("friedman1", 100),
    ("friedman2", 100),
    ("friedman3", 100),
    ("boston", 50),
    ("boston", 300),
]
COLUMNS = {"": "", "rows": "", "95 %": ".3f", "off": ".3f", "RMSE": ".4g", "NLPD": ".3f"}


def choices(model: Any, fit: AugmentedFit, y: Any) -> dict[str, float]:
    """Prior variances of the new weight, in units of the posterior; the kernel is one at zero."""
    unit = fit.posterior.scale**2
    own = model.prior_variance_.mean() if len(model.relevance_) else 0.0
    return {NONE: 0.0, TARGETS: y.var() / unit, ABOUT_F0: fit.v_new, WEIGHTS: own / unit}


def measure(data: Data, found: dict[tuple[str, str], Scores]) -> None:
    grid = {"gamma": [gamma / data.X.shape[1] for gamma in GRID]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a collapsed fit is measured too
        model = EvidenceSearch(RVR(), grid).fit(data.X, data.y).best_estimator_
    fit = AugmentedFit(model.posterior_, TrainingData(data.X, data.y[:, None], None))
    p = fit.posterior
    unit = float(np.std(np.concatenate([y for _, y in data.tests.values()])))
    for name, v_new in choices(model, fit, data.y).items():
        fit.v_new = v_new
        for place, (X, y) in data.tests.items():
            mean, variance = fit.predict(X)
            std = p.scale * np.sqrt(variance + p.noise_variance)
            forecast = Normal(p.offset[0] + p.scale * mean[:, 0], std, std)
            found.setdefault((place, name), Scores()).add(forecast, y, unit)


def main() -> None:
    parser = argument_parser("Prior variance of the weight of an atom at a test point", 1)
    parser.add_argument("--draws", type=int, default=6, help="training sets of each size")
    args = parser.parse_args()
    report = Report.open("How large an added weight may be", args.threads)
    off: dict[tuple[str, str], list[float]] = {}
    nlpd: dict[tuple[str, str], list[float]] = {}
    for dataset, n in SETTINGS:
        if dataset == "boston" and not BOSTON.exists():
            print("../shared/data/boston is absent: Boston is left out")
            continue
        found: dict[tuple[str, str], Scores] = {}
        for seed in range(args.draws):
            measure(DATASETS[dataset][0](n, seed), found)
        rows = []
        for (place, name), scores in found.items():
            covered = float(scores.coverage[-1])
            off.setdefault((place, name), []).append(abs(covered - LEVELS[-1]))
            nlpd.setdefault((place, name), []).append(float(np.mean(scores.nlpd)))
            values = [covered, off[place, name][-1], np.mean(scores.rmse), nlpd[place, name][-1]]
            rows.append(
                {"": name, "rows": place} | dict(zip(list(COLUMNS)[2:], values, strict=True))
            )
        report.show(f"{dataset}, N = {n}, {args.draws} draws", rows, COLUMNS)
    average = [
        {"": name, "rows": place, "off": float(np.mean(each)), "NLPD": float(np.mean(nlpd[key]))}
        for key, each in off.items()
        for place, name in [key]
    ]
    report.show("On average over all of these", average, COLUMNS)
    for place in ON, GAP, OUTSIDE:
        own, other = np.mean(off[place, ABOUT_F0]), np.mean(off[place, TARGETS])
        report.judge(
            f"{place}: 95 % intervals nearer than with the variance of the targets",
            own < other,
            f"{100 * own:.1f} instead of {100 * other:.1f} off",
        )
    report.close(args)


if __name__ == "__main__":
    main()
