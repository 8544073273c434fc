"""Sparse Bayesian learning beside what people use today, on small problems: a page in minutes.

Each problem favors somebody: smooth functions, classes, few true columns, only true columns,
outliers, a gap in the data, wavelets, few measurements. The other benchmarks take each of these
further.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import ARDRegression, LassoCV, OrthogonalMatchingPursuitCV, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, SVR

from benchmarks import _signals_compared
from benchmarks._harness import Report, Run, argument_parser, name_absent, rms, version
from benchmarks._inducing import SGPR
from sparsebayes import RVC, RVR, SparseBayesRegressor
from sparsebayes.datasets import mixtures, sinc, sparse_linear

Array = NDArray[np.float64]
Makers = Mapping[str, Callable[[], Any]]

WIDTH = 0.16  # gamma of the 2-D sinc in Tipping & Faul 2003
MANY = 10_000  # rows predicted for a time


def gaussian_process(dim: int) -> GaussianProcessRegressor:
    """Learned width, amplitude and noise; wide bounds so that no warning is one about bounds."""
    kernel = ConstantKernel(1.0, (1e-4, 1e6)) * RBF(np.ones(dim), (1e-3, 1e5))
    noise = WhiteKernel(0.1, (1e-8, 1e4))
    return GaussianProcessRegressor(kernel + noise, normalize_y=True)


def searched_svr() -> GridSearchCV:
    """SVR as it has to be used: three settings by cross-validation."""
    grid = {"C": [0.1, 1, 10], "epsilon": [0.05, 0.1], "gamma": [0.05, 0.16, 0.5]}
    return GridSearchCV(SVR(), grid)


def size(model: Any) -> int | None:
    """How many terms a prediction sums."""
    inner = getattr(model, "best_estimator_", model)
    for name in ("relevance_", "relevance_vectors_", "support_", "Z_", "X_train_"):
        if hasattr(inner, name):
            return len(getattr(inner, name))
    if hasattr(inner, "base_estimator_"):
        return len(inner.base_estimator_.X_train_)
    if hasattr(inner, "calibrated_classifiers_"):
        machines = (one.estimator.best_estimator_ for one in inner.calibrated_classifiers_)
        return sum(len(machine.support_) for machine in machines)
    return None


def contest(
    makers: Makers, draws: int, problem: Callable[[int], Any], score: Callable[..., dict[str, Any]]
) -> list[dict[str, Any]]:
    """Fit everyone to the same draws; means of scores, medians of times."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in makers}
    for draw in range(draws):
        data = problem(draw)
        for name, make in makers.items():
            model, run = make(), Run()
            run.once(partial(model.fit, *data[:2]))
            rows[name].append({"fit s": run.cpu} | score(model, *data))
    return [{"": name} | average(scores) for name, scores in rows.items()]


def average(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over draws, but of times the median."""
    out: dict[str, Any] = {}
    for key in scores[0]:
        values = [score[key] for score in scores]
        if any(value is None for value in values):
            out[key] = None
        else:
            out[key] = float(np.median(values) if "s" in key.split() else np.mean(values))
    return out


def microseconds(predict: Callable[[Array], Any], X: Array) -> float:
    """Time of a prediction for each of many rows."""
    many = np.resize(X, (MANY, X.shape[1]))
    run = Run()
    for _ in range(2):
        run.once(lambda: predict(many))
    return run.cpu / MANY * 1e6


def score_function(model: Any, X: Array, t: Array, X_new: Array, t_new: Array, f_new: Array) -> Any:
    """Error to the truth; density and coverage of new targets for who has error bars."""
    mean = np.asarray(model.predict(X_new), dtype=float)
    out: dict[str, Any] = {"RMSE": rms(mean - f_new), "log density": None, "within 90 %": None}
    try:
        mean, std = model.predict(X_new, return_std=True)
    except (TypeError, AttributeError):
        pass
    else:
        mean, std = np.ravel(mean), np.ravel(std)
        out["log density"] = norm.logpdf(t_new, mean, std).mean()
        out["within 90 %"] = np.mean(np.abs(t_new - mean) < norm.ppf(0.95) * std) * 100
    return out | {"terms": size(model), "us a row": microseconds(model.predict, X_new)}


def smooth_function(report: Report, draws: int) -> None:
    """2-D sinc, where everyone may use kernels."""
    makers: dict[str, Callable[[], Any]] = {
        "RVR, width given": lambda: RVR(gamma=WIDTH),
        "RVR, width learned": lambda: RVR(gamma="evidence"),
        "SVR, cross-validated": searched_svr,
        "Gaussian process": lambda: gaussian_process(2),
        "SGPR, 100 inducing inputs": SGPR,
    }
    if version("fastrvm"):
        fastrvm = import_module("fastrvm")
        makers["fastrvm, width given"] = lambda: fastrvm.RVR(gamma=WIDTH)
    if version("sklearn-rvm"):
        sklearn_rvm = import_module("sklearn_rvm")
        makers["sklearn-rvm, width given"] = lambda: sklearn_rvm.EMRVR(gamma=WIDTH)

    def problem(draw: int) -> tuple[Array, ...]:
        train = sinc(1000, noise=0.1, dim=2, random_state=draw)
        test = sinc(2000, noise=0.1, dim=2, random_state=1000 + draw)
        return train.X, train.y, test.X, test.y, test.truth

    columns = {"": "", "RMSE": ".4f", "log density": ".3f", "within 90 %": ".1f"}
    columns |= {"terms": ".0f", "fit s": ".3f", "us a row": ".2f"}
    heading = f"A smooth function: 2-D sinc, 1000 rows, noise of 0.1, {draws} draws"
    report.show(heading, contest(makers, draws, problem, score_function), columns)


def outliers(report: Report, draws: int) -> None:
    """One row in twenty is off by up to thirty times the noise."""

    def problem(draw: int) -> tuple[Array, ...]:
        train = sinc(200, noise=0.1, random_state=draw)
        test = sinc(1000, noise=0.0, random_state=1000 + draw)
        rng = np.random.default_rng(draw)
        wild = rng.choice(200, 10, replace=False)
        train.y[wild] += rng.choice([-1, 1], 10) * rng.uniform(1, 3, 10)
        return train.X, train.y, test.X, test.y, test.truth

    makers = {
        "RVR, width learned": lambda: RVR(gamma="evidence"),
        "SVR, cross-validated": searched_svr,
        "Gaussian process": lambda: gaussian_process(1),
    }
    rows = contest(makers, draws, problem, score_function)
    heading = f"Outliers: sinc, 200 rows, ten of them wild, {draws} draws"
    report.show(heading, rows, {"": "", "RMSE": ".3f", "terms": ".0f", "fit s": ".3f"})


def gap(report: Report, draws: int) -> None:
    """Predictions in a gap of the data: how many of the 90 % intervals hold the target."""

    class Augmented(RVR):
        def predict(self, X: Any, return_std: bool = False) -> Any:
            return super().predict(X, return_std=return_std, augment=True)

    def problem(draw: int) -> tuple[Array, ...]:
        rng = np.random.default_rng(draw)
        x = np.concatenate([rng.uniform(-10, 0, 80), rng.uniform(5, 10, 40)])
        x_new = rng.uniform(0.5, 4.5, 1000)
        f, f_new = np.sinc(x / np.pi), np.sinc(x_new / np.pi)
        t, t_new = f + rng.normal(0, 0.1, len(x)), f_new + rng.normal(0, 0.1, len(x_new))
        return x[:, None], t, x_new[:, None], t_new, f_new

    makers = {
        "RVR": lambda: RVR(gamma="evidence"),
        "RVR, augment=True": lambda: Augmented(gamma="evidence"),
        "Gaussian process": lambda: gaussian_process(1),
    }
    rows = contest(makers, draws, problem, score_function)
    columns = {"": "", "RMSE": ".3f", "log density": ".2f", "within 90 %": ".0f", "terms": ".0f"}
    report.show(f"Inside a gap of the data: sinc, 120 rows, {draws} draws", rows, columns)


def score_classes(model: Any, X: Array, y: Array, X_new: Array, y_new: Array) -> dict[str, Any]:
    """Error and log-loss on new rows."""
    chance = model.predict_proba(X_new)
    return {
        "error %": 100 * np.mean(model.predict(X_new) != y_new),
        "log-loss": log_loss(y_new, chance),
        "terms": size(model),
        "us a row": microseconds(model.predict_proba, X_new),
    }


def classes(report: Report, draws: int) -> None:
    """Ripley's mixtures: classes that overlap."""

    def calibrated_svc() -> Any:
        grid = {"C": [0.1, 1, 10, 100], "gamma": [1.0, 4.0]}
        return CalibratedClassifierCV(GridSearchCV(SVC(), grid))

    makers: dict[str, Callable[[], Any]] = {
        "RVC, width given": lambda: RVC(gamma=1.0),
        "RVC, five restarts": lambda: RVC(gamma=1.0, n_restarts=5, random_state=0),
        "SVC, cross-validated": calibrated_svc,
        "Gaussian process": lambda: GaussianProcessClassifier(1.0 * RBF(1.0)),
    }
    if version("fastrvm"):
        fastrvm = import_module("fastrvm")
        makers["fastrvm, width given"] = lambda: fastrvm.RVC(gamma=1.0)

    def problem(draw: int) -> tuple[Array, ...]:
        train, test = mixtures(500, random_state=draw), mixtures(5000, random_state=1000 + draw)
        return train.X, train.y, test.X, test.y

    columns = {"": "", "error %": ".2f", "log-loss": ".4f", "terms": ".0f", "fit s": ".3f"}
    rows = contest(makers, draws, problem, score_classes)
    heading = f"Two classes: mixtures of Gaussians, 500 rows, {draws} draws"
    report.show(heading, rows, columns | {"us a row": ".2f"})


def score_columns(model: Any, X: Array, t: Array, weights: Array) -> dict[str, Any]:
    """Columns found, columns invented, and the error that new standard normal rows would see."""
    kept, true = np.ravel(model.coef_) != 0, weights != 0
    return {
        "found": np.sum(kept & true),
        "invented": np.sum(kept & ~true),
        "error": np.linalg.norm(np.ravel(model.coef_) - weights),
    }


def columns_compared(report: Report, draws: int) -> None:
    """Few true columns of many, then columns that all matter."""
    makers: dict[str, Callable[[], Any]] = {
        "SparseBayesRegressor": SparseBayesRegressor,
        "SparseBayesRegressor, prior 0.5": lambda: SparseBayesRegressor(prior=0.5),
        "ARDRegression": ARDRegression,
        "LassoCV": LassoCV,
        "OrthogonalMatchingPursuitCV": OrthogonalMatchingPursuitCV,
        "RidgeCV": lambda: RidgeCV(np.logspace(-3, 5, 33)),
    }

    def few(draw: int) -> tuple[Array, ...]:
        data = sparse_linear(150, 400, k=10, snr_db=20, random_state=draw)
        return data.X, data.y, data.weights

    def all_of_them(draw: int) -> tuple[Array, ...]:
        rng = np.random.default_rng(draw)
        X, weights = rng.normal(size=(60, 40)), rng.normal(size=40)
        return X, X @ weights + rng.normal(0, np.sqrt(40), 60), weights

    columns = {"": "", "found": ".1f", "invented": ".1f", "error": ".3f", "fit s": ".3f"}
    some = {name: makers[name] for name in makers if not name.endswith("0.5")}
    heading = f"Few true columns: 10 of 400, 150 rows, 20 dB, {draws} draws"
    report.show(heading, contest(some, draws, few, score_columns), columns)
    heading = f"Only true columns: 40 of 40 with normal weights, 60 rows, 0 dB, {draws} draws"
    report.show(heading, contest(makers, draws, all_of_them, score_columns), columns)


def main() -> None:
    parser = argument_parser("Beside what people use today, on small problems", 1)
    parser.add_argument("--draws", type=int, default=5, help="data sets of each problem")
    args = parser.parse_args()
    report = Report.open("Beside what people use today", args.threads)
    report.note("means over draws; times are CPU seconds and medians")
    report.note("terms are what a prediction sums: kernels, support vectors, inducing inputs")
    name_absent(["fastrvm", "sklearn-rvm"])
    smooth_function(report, args.draws)
    gap(report, args.draws)
    outliers(report, args.draws)
    classes(report, args.draws)
    columns_compared(report, args.draws)
    _signals_compared.run(report, args.draws)
    report.close(args)


if __name__ == "__main__":
    main()
