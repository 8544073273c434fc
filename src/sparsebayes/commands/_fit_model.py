"""The estimator that ``sparsebayes fit`` fits, and choices that depend on the data."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from sparsebayes import RVC, RVR, SparseBayesClassifier, SparseBayesRegressor
from sparsebayes._tables import TableError
from sparsebayes.commands._fit_data import Data
from sparsebayes.dictionaries._distinct import distinct_rows, sample_size
from sparsebayes.dictionaries._kernel_parameters import (
    LEARNED,
    POOLED,
    checked_kernel,
    clustered,
    takes_gamma,
)
from sparsebayes.dictionaries.kernel_functions import INVERSE_DISTANCE, WITH_GAMMA

__all__ = ["estimator_for"]

_MOST_ROWS = 5000  # up to here every row is a center
_CENTERS = 1000
_CENTERS_OF_CLASSES = 300  # shared by the latent functions, which are fitted together
_UNEQUAL = 10.0  # ratio of scales beyond which a kernel is told them
_BY_DIFFERENCES = ("rbf", "laplacian")  # kernels of differences: a scale is a factor of gamma


def estimator_for(arguments: argparse.Namespace, data: Data) -> Any:
    """Make the estimator; what is chosen for the user is added to the notes of the data.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    data : Data
        Rows to fit.

    Returns
    -------
    estimator
        Not fitted.
    """
    settings: dict[str, Any] = {
        "prior": arguments.prior,
        "solver": arguments.solver,
        "random_state": arguments.seed,
        "verbose": 0 if arguments.quiet else 1,
    }
    for name in ("memory", "checkpoint", "resume"):
        if getattr(arguments, name):
            settings[name] = getattr(arguments, name)
    if data.classes:
        if arguments.noise_variance is not None:
            raise TableError("--noise-variance is for regression, and the target is one of classes")
    else:
        settings["noise_variance"] = arguments.noise_variance
        settings["likelihood"] = arguments.likelihood
    _refuse_unused(arguments)
    if arguments.kernel == "none":
        linear: Any = SparseBayesClassifier if data.classes else SparseBayesRegressor
        return linear("linear", **settings)
    machine: Any = RVC if data.classes else RVR
    gamma, scales = _gamma(arguments, data)
    centers = _centers(arguments, data, scales)
    if arguments.degree is not None:
        settings["degree"] = arguments.degree
    return machine(arguments.kernel, gamma=gamma, centers=centers, **settings)


def _refuse_unused(arguments: argparse.Namespace) -> None:
    """Refuse options that the kernel would not look at."""
    if arguments.kernel == "none":
        options = {
            "--gamma": arguments.gamma,
            "--degree": arguments.degree,
            "--standardize": arguments.standardize or None,
            "--centers": arguments.centers,
        }
        for option, value in options.items():
            if value is not None:
                raise TableError(f"{option} is for kernels, and --kernel none has none")
        return
    kernel = checked_kernel(arguments.kernel)
    if arguments.gamma is not None and not takes_gamma(kernel):
        raise TableError(f"--gamma is the width of a kernel, and --kernel {kernel} has none")
    if arguments.degree is not None and kernel != "poly":
        raise TableError(f"--degree is for --kernel poly, and --kernel {kernel} has none")


def _gamma(arguments: argparse.Namespace, data: Data) -> tuple[Any, Any]:
    """The inverse width, and standard deviations of features where they are in it."""
    asked = arguments.standardize
    gamma = _default_gamma(arguments, data) if arguments.gamma is None else arguments.gamma
    able = arguments.kernel in _BY_DIFFERENCES and not (
        gamma in (*LEARNED, *POOLED) or isinstance(gamma, list) or data.source is not None
    )
    if asked and not able:
        raise TableError(
            "--standardize is for tables in memory, the kernels rbf and laplacian, and a --gamma "
            "that is scale, auto or one number"
        )
    each = isinstance(gamma, list) or gamma == LEARNED[1]
    if asked is False or data.source is not None or each:
        return gamma, None
    with np.errstate(over="ignore", invalid="ignore"):
        scales = data.X.std(axis=0)
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        return gamma, None
    ratio = float(scales.max() / scales.min())
    if not (asked or (ratio > _UNEQUAL and gamma in ("scale", LEARNED[0], *POOLED))):
        return gamma, None
    low, high = (data.features[int(find(scales))] for find in (np.argmin, np.argmax))
    seen = (
        f"scales of features differ by a factor of {ratio:.3g}, from {low!r} (standard deviation "
        f"{scales.min():.3g}) to {high!r} ({scales.max():.3g})"
    )
    if gamma == POOLED[1]:
        if arguments.gamma is None:
            data.notes.append(
                f"{seen}: each has its own gamma, found before the fit (--no-standardize has one "
                "for all)"
            )
        return gamma, scales
    if not able:
        scalable = checked_kernel(arguments.kernel) in WITH_GAMMA
        advice = (
            "--gamma pooled-ard finds a scale for each before the fit, --gamma ard learns them "
            "with it"
            if scalable  # other kernels have one for all features, or none
            else "scale them before, or take another kernel"
        )
        data.notes.append(f"{seen}: the kernel compares them as they are; {advice}")
        return gamma, None
    common = 1.0 / len(scales) if isinstance(gamma, str) else float(gamma)
    power = 1 if arguments.kernel in INVERSE_DISTANCE else 2
    # exp(-g |x/s - z/s|^2) is exp(-sum_j g/s_j^2 (x_j - z_j)^2): the model needs no scaler.
    widths = common / scales**power
    if not (np.isfinite(widths).all() and (widths > 0).all()):
        raise TableError(f"{data.table.path}: {seen}: too much for one kernel, scale them before")
    data.notes.append(
        f"{seen}: standardized, each has its own gamma (--no-standardize takes them as they are)"
        if not asked
        else f"{seen}: standardized, each has its own gamma"
    )
    return widths.tolist(), scales


def _default_gamma(arguments: argparse.Namespace, data: Data) -> str:
    """Found before the fit, for each feature where a kernel can have that; not for classes."""
    if data.classes or arguments.standardize or not takes_gamma(checked_kernel(arguments.kernel)):
        return "scale"
    several = len(data.features) > 1 and arguments.standardize is None
    return POOLED[1 if several and arguments.kernel in _BY_DIFFERENCES else 0]


def _centers(arguments: argparse.Namespace, data: Data, scales: Any) -> Any:
    """How many basis functions, or where they are."""
    number = arguments.centers
    if number is None:
        if data.rows <= _MOST_ROWS:
            return None
        number = _CENTERS
        if data.classes:
            K = 2 if data.source is not None else np.unique(data.y).size
            number = max(_CENTERS_OF_CLASSES // (K if K > 2 else 1), 1)
        data.notes.append(
            f"more than {_MOST_ROWS} rows ({data.rows}): {number} basis functions are at centers "
            "of clusters of rows, not one at each; --centers NUMBER takes more or fewer"
        )
    if scales is None or number >= data.rows:
        return number
    # Clusters in the units that the kernel compares in, not in those of the largest feature.
    rows = distinct_rows(data.X / scales, None, sample_size(number))
    return clustered(number, rows, arguments.seed) * scales
