"""What the parameters of a kernel may be, and the numbers they become on given data."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import kernel_metrics

from sparsebayes.dictionaries._distinct import DistinctRows, distinct_rows, sample_size
from sparsebayes.dictionaries._protocol import Floats, Matrix, Positions, is_sparse
from sparsebayes.dictionaries._rows import first_occurrences, variance
from sparsebayes.dictionaries._width_bounds import starting_widths
from sparsebayes.dictionaries.kernel_functions import (
    DENSE_ONLY,
    INVERSE_DISTANCE,
    WITH_GAMMA,
    WITHOUT_GAMMA,
    narrow,
)

# A name, a function K(X, Z), or a kernel object of sklearn.gaussian_process.
KernelLike: TypeAlias = Any

OWN = WITH_GAMMA | WITHOUT_GAMMA
_ALIASES = {"polynomial": "poly"}
LEARNED = ("evidence", "ard")  # words for a gamma that a fit learns: one, or one per input
POOLED = ("pooled", "pooled-ard")  # the same, found before a fit, which holds them


def is_gp_kernel(kernel: KernelLike) -> bool:
    if isinstance(kernel, (str, type)) or not hasattr(kernel, "requires_vector_input"):
        return False
    from sklearn.gaussian_process.kernels import Kernel as GaussianProcessKernel

    return isinstance(kernel, GaussianProcessKernel)


def checked_kernel(kernel: KernelLike) -> KernelLike:
    if isinstance(kernel, str):
        name = _ALIASES.get(kernel, kernel)
        if name in OWN or name == "precomputed" or name in kernel_metrics():
            return name
        names = sorted(OWN | {"precomputed", *_ALIASES} | kernel_metrics().keys())
        raise ValueError(
            f"unknown kernel {kernel!r}; choose one of {', '.join(names)}, a function K(X, Z), "
            "or an object of sklearn.gaussian_process.kernels"
        )
    if isinstance(kernel, type) or not callable(kernel):
        raise TypeError(
            f"kernel must be a name, a function K(X, Z) or an object (not a class) of "
            f"sklearn.gaussian_process.kernels, but it is {kernel!r}"
        )
    return clone(kernel) if is_gp_kernel(kernel) else kernel


def checked_params(params: Mapping[str, Any] | None, kernel: KernelLike) -> dict[str, Any]:
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
        raise TypeError(f"kernel_params must be a dict with names as keys, but it is {params!r}")
    ours = isinstance(kernel, str) and (kernel in OWN or kernel == "precomputed")
    if params and (ours or is_gp_kernel(kernel)):
        raise ValueError(
            f"kernel {kernel!r} takes no kernel_params, but they are {dict(params)!r}; "
            "give gamma, degree and coef0 by their own names"
        )
    return dict(params)


def checked_degree(degree: Any) -> int:
    if isinstance(degree, bool) or not isinstance(degree, Integral) or degree < 0:
        raise ValueError(f"degree must be an integer, 0 or more, but it is {degree!r}")
    return int(degree)


def checked_coef0(coef0: Any) -> float:
    if isinstance(coef0, bool) or not isinstance(coef0, Real) or not np.isfinite(float(coef0)):
        raise ValueError(f"coef0 must be a finite number, but it is {coef0!r}")
    return float(coef0)


def given_gamma(gamma: Any) -> str | Floats:
    """A word or numbers, for whatever inputs."""
    allowed = (
        "gamma must be a positive number, one number per input, 'scale', 'auto', 'pooled', "
        "'pooled-ard', 'evidence' or 'ard'"
    )
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto", *POOLED, *LEARNED):
            raise ValueError(f"{allowed}, but it is {gamma!r}")
        return gamma
    if isinstance(gamma, (bool, np.bool_)) or gamma is None:
        raise TypeError(f"{allowed}, but it is {gamma!r}")
    try:
        values = np.asarray(gamma, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{allowed}, but it is {gamma!r}") from None
    if not (np.isfinite(values).all() and (values >= 0).all() and (values > 0).any()):
        raise ValueError(f"{allowed}, but it is {gamma!r}")
    return values


def checked_gamma(
    gamma: Any, kernel: KernelLike, X: Matrix, sample_weight: Floats | None
) -> float | Floats | None:
    d, values, used = X.shape[1], given_gamma(gamma), takes_gamma(kernel)
    if isinstance(values, str):
        if not used:
            return None
        if gamma in POOLED:
            raise ValueError(
                f"gamma={gamma!r} is found from the targets, and there are none here: fit an "
                "estimator with this dictionary, or give a number"
            )
        return float(1.0 / d) if gamma == "auto" else width_of_word(gamma, kernel, X, sample_weight)
    if not used:
        return None
    if values.ndim == 0:
        return float(values)
    if values.shape != (d,):
        raise ValueError(f"gamma has shape {values.shape}, but X has {d} features")
    if kernel not in WITH_GAMMA:
        raise ValueError(f"kernel {kernel!r} takes one gamma, not one per input")
    return values.copy()


def checked_learned(gamma: Any, kernel: KernelLike, params: Mapping[str, Any]) -> str:
    """What a fit shall learn of the kernel: "", "evidence" or "ard"."""
    if not isinstance(gamma, str) or gamma not in (*LEARNED, POOLED[1]):
        return ""
    if is_gp_kernel(kernel):
        if gamma in POOLED:
            raise ValueError(
                f"gamma={gamma!r} is for kernels with a name: use gamma='evidence', which learns "
                f"the parameters of {kernel}"
            )
        with np.errstate(divide="ignore"):
            theta = kernel.theta
        if theta.size and np.isfinite(theta).all():
            return gamma
        reason = f"all parameters of {kernel} are fixed"
        if theta.size:
            reason = f"{kernel} has a parameter of zero, which has no logarithm; fix it"
    elif not isinstance(kernel, str):
        reason = (
            "a kernel function has no derivatives in its width; use a kernel's name or an object "
            "of sklearn.gaussian_process.kernels"
        )
    elif kernel == "precomputed":
        reason = "a precomputed kernel matrix has no width; use a kernel's name and give the inputs"
    elif not takes_gamma(kernel):
        reason = f"kernel {kernel!r} has no width"
    elif "gamma" in params:
        reason = f"kernel_params has a gamma of {params['gamma']!r}"
    elif gamma != "evidence" and kernel not in WITH_GAMMA:
        reason = f"kernel {kernel!r} takes one gamma, not one per input; use gamma='evidence'"
    else:
        return gamma
    raise ValueError(f"gamma={gamma!r} has nothing to learn: {reason}")


def takes_gamma(kernel: KernelLike) -> bool:
    """Whether gamma is a parameter of this kernel."""
    if not isinstance(kernel, str) or kernel in WITHOUT_GAMMA or kernel == "precomputed":
        return False
    return kernel in WITH_GAMMA or "gamma" in inspect.signature(kernel_metrics()[kernel]).parameters


def width_of_word(
    word: str, kernel: str, X: Matrix, sample_weight: Floats | None, given: str | None = None
) -> float | Floats:
    """What "scale" is, or where "evidence" or "ard" begin; ``given`` is what the user has said."""
    given = word if given is None else given
    if word == "ard":
        return starting_widths(X, sample_weight, kernel in INVERSE_DISTANCE, given)
    d = X.shape[1]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        scale = scale_gamma(variance(X, sample_weight), d, given)
    # A search must not depend on the unit of X: 1 / (d std(X)), where gamma has that unit.
    learned = word in LEARNED and kernel in INVERSE_DISTANCE
    return float((scale / d) ** 0.5) if learned else scale


def scale_gamma(spread: float | None, d: int, given: str = "scale") -> float:
    """What "scale" is, from the variance of all entries of X: None where X is constant."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        gamma = 1.0 if spread is None else np.divide(1.0, d * spread)
    if not (np.isfinite(gamma) and gamma > 0):
        raise ValueError(
            f"gamma={given!r} cannot be computed: the variance of X is {spread:g}; scale the inputs"
        )
    return float(gamma)


def distinct_columns(K: Matrix) -> Positions:
    # Equal rows of the data gave equal columns of the kernel matrix. Eight rows tell most apart.
    few = K[:8].T
    few = few.tocsr() if is_sparse(few) else np.ascontiguousarray(few)
    if len(first_occurrences(few)) == K.shape[1]:
        return np.arange(K.shape[1], dtype=np.intp)
    return first_occurrences(K.T.tocsr() if is_sparse(K) else np.ascontiguousarray(K.T))


def refuse_sparse(kernel: KernelLike, X: Matrix) -> None:
    if not is_sparse(X):
        return
    if isinstance(kernel, str):
        able = kernel in OWN and kernel not in DENSE_ONLY
    else:
        able = not is_gp_kernel(kernel)
    if not able:
        raise TypeError(f"kernel {kernel!r} does not take sparse data; give X.toarray() instead")


def checked_centers(
    centers: Any,
    gamma: float | Floats | None,
    X: Matrix,
    sample_weight: Floats | None,
    random_state: Any,
) -> tuple[Matrix, Positions, int]:
    """Distinct centers, their positions, and how many the user counts."""
    if centers is None:
        chosen = X
    elif isinstance(centers, Integral) and not isinstance(centers, bool):
        chosen = _k_means(int(centers), X, sample_weight, random_state)
    else:
        chosen = _given_centers(centers, X.shape[1])
    # Rows that differ only in inputs the kernel does not see give equal atoms too.
    seen = chosen if np.all(gamma) or gamma is None else chosen[:, np.flatnonzero(gamma)]
    index = first_occurrences(seen)
    count = chosen.shape[0]
    return (chosen if len(index) == count else chosen[index]), index, count


def _k_means(k: int, X: Matrix, sample_weight: Floats | None, random_state: Any) -> Matrix:
    limit = sample_size(checked_number(k))
    return clustered(k, distinct_rows(X, sample_weight, limit), random_state)


def checked_number(k: int) -> int:
    if k < 1:
        raise ValueError(f"centers must be at least 1 when it is a number, but it is {k}")
    return k


def clustered(k: int, distinct: DistinctRows, random_state: Any) -> Matrix:
    """k-means centers of distinct rows, or these rows if there are not more than k."""
    X, weights = distinct.rows()
    if k >= X.shape[0]:
        return X
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters=k, random_state=random_state)
    X = narrow(X) if is_sparse(X) else X
    return np.ascontiguousarray(model.fit(X, sample_weight=weights).cluster_centers_)


def _given_centers(centers: Any, d: int) -> Matrix:
    allowed = f"centers must be None, a number, or an array of shape (n_centers, {d})"
    if is_sparse(centers):
        chosen = centers.tocsr().astype(np.float64)
        finite = np.isfinite(chosen.data).all()
    else:
        try:
            chosen = np.array(centers, dtype=np.float64, order="C")
        except (TypeError, ValueError):
            raise TypeError(f"{allowed}, but it is {centers!r}") from None
        finite = np.isfinite(chosen).all()
    if chosen.ndim != 2 or chosen.shape[0] == 0 or chosen.shape[1] != d:
        raise ValueError(f"{allowed}, but its shape is {chosen.shape}")
    if not finite:
        raise ValueError("centers must not hold NaN or infinity")
    return chosen
