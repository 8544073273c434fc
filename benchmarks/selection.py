"""Choosing between dictionaries: by evidence, with and without a penalty, and by cross-validation.

Candidates differ in shape and width of their kernels. Each is fitted once to all rows, which is all
that evidence needs, and five times more for cross-validation. What a rule is worth is the error of
its choice on new data, over that of the candidate that turns out best: 1 is a perfect choice.
The default penalty was chosen on these same problems, by earlier runs: its figures flatter it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_circles, make_moons
from sklearn.model_selection import KFold, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._harness import Report, Run, argument_parser
from sparsebayes import SparseBayesClassifier, SparseBayesRegressor
from sparsebayes.datasets import friedman1, friedman2, friedman3, mixtures, sinc
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.metrics import log_predictive_density
from sparsebayes.problem import Status

Array = Any

CANDIDATES = [
    Linear(),
    *(Kernel("rbf", gamma=gamma) for gamma in (0.1, 0.3, 1.0, 3.0)),
    Kernel("poly", gamma=0.2, coef0=1.0),
    Kernel("laplacian", gamma=0.1),
    Kernel("lspline", gamma=0.3),
    Linear() + Kernel("rbf", gamma=0.1),
    Linear() + Kernel("rbf", gamma=1.0),
]
PENALTIES = {"evidence": 0.0, "- dof/2": 0.5, "- dof": 1.0, "- 2 dof": 2.0}
COLUMNS = {"": "", "draws": "d"} | dict.fromkeys((*PENALTIES, "CV error", "CV density"), ".3f")
COLUMNS |= {"CV s / evidence s": ".1f"}
NEW_ROWS = 2000


def numbers(make: Callable[..., Any], **options: Any) -> Callable[[int, int], tuple[Array, Array]]:
    """Noisy training data or, of so many rows that they are new, the true function."""

    def draw(n: int, seed: int) -> tuple[Array, Array]:
        data = make(n, random_state=seed, **options)
        return data.X, data.truth if n == NEW_ROWS else data.y

    return draw


def classes(make: Callable[..., Any], **options: Any) -> Callable[[int, int], tuple[Array, Array]]:
    def draw(n: int, seed: int) -> tuple[Array, Array]:
        X, y = make(n, random_state=seed, **options)
        return X, y

    return draw


def two_mixtures(n: int, random_state: int) -> tuple[Array, Array]:
    data = mixtures(n, random_state=random_state)
    return data.X, data.y


REGRESSION = {
    "sinc": numbers(sinc, noise=0.1),
    "Friedman 1": numbers(friedman1),
    "Friedman 2": numbers(friedman2),
    "Friedman 3": numbers(friedman3),
}
CLASSIFICATION = {
    "mixtures": classes(two_mixtures),
    "moons": classes(make_moons, noise=0.3),
    "circles": classes(make_circles, noise=0.2, factor=0.5),
}


def losses(models: list[Any], X: Array, y: Array, regression: bool) -> Array:
    """Root mean square error against the truth, or mean log loss."""
    if regression:
        return np.array([np.sqrt(np.mean((model.predict(X) - y) ** 2)) for model in models])
    return np.array([-log_predictive_density(model, X, y) for model in models])


def one_draw(draw: Callable[..., Any], n: int, seed: int, regression: bool) -> dict[str, float]:
    """Error of what each rule chooses, over the least one."""
    X, y = draw(n, seed)
    last = SparseBayesRegressor() if regression else SparseBayesClassifier()
    models = [make_pipeline(StandardScaler(), clone(last)) for _ in CANDIDATES]
    for model, candidate in zip(models, CANDIDATES, strict=True):
        model[-1].dictionary = candidate
    fitting, folding = Run(), Run()
    fitting.once(lambda: [model.fit(X, y) for model in models])
    fold = KFold if regression else StratifiedKFold
    folds = fold(5, shuffle=True, random_state=0)
    kinds = {
        "CV error": "neg_mean_squared_error" if regression else "accuracy",
        "CV density": log_predictive_density,
    }
    folding.once(lambda: [cross_validate(model, X, y, cv=folds, scoring=kinds) for model in models])
    held_out = {
        rule: np.array([each[f"test_{rule}"].mean() for each in folding.result]) for rule in kinds
    }
    error = losses(models, *draw(NEW_ROWS, 1000 + seed), regression)
    steps = [model[-1] for model in models]
    sound = np.array([step.solution_.status is not Status.COLLAPSED for step in steps])
    evidence = np.array([step.log_marginal_likelihood_ for step in steps])
    dof = np.array([step.degrees_of_freedom_ for step in steps])
    scores = {
        rule: np.where(sound, evidence - penalty * dof, -np.inf)
        for rule, penalty in PENALTIES.items()
    }
    ratios = {
        rule: float(error[score.argmax()] / error.min())
        for rule, score in (scores | held_out).items()
    }
    return ratios | {"CV s / evidence s": folding.cpu / fitting.cpu}


def main() -> None:
    parser = argument_parser("Choosing a dictionary by evidence and by cross-validation", 1)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--draws", type=int, default=6)
    args = parser.parse_args()
    title = f"Error of the chosen one of {len(CANDIDATES)} dictionaries over the least error"
    report = Report.open(f"{title}, N = {args.rows}", args.threads)
    rows = []
    for problems, regression in (REGRESSION, True), (CLASSIFICATION, False):
        for problem, draw in problems.items():
            found = [one_draw(draw, args.rows, seed, regression) for seed in range(args.draws)]
            averaged = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
            rows.append({"": problem, "draws": args.draws} | averaged)
            print(f"{problem} done", flush=True)
    overall = {key: float(np.mean([row[key] for row in rows])) for key in list(COLUMNS)[2:]}
    rows.append({"": "mean", "draws": args.draws} | overall)
    report.show("1 is a perfect choice", rows, COLUMNS)
    ours, best = overall["- dof"], min(overall[rule] for rule in PENALTIES)
    report.judge(
        "- dof, the default, within 2 % of the best penalty",
        ours <= 1.02 * best,
        f"{ours:.3f}, {best:.3f}",
    )
    ratio = ours / overall["CV error"]
    report.judge("within 10 % of cross-validation", ratio <= 1.1, f"{ratio:.3f}")
    report.close(args)


if __name__ == "__main__":
    main()
