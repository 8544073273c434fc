"""Candidates of a search by evidence: which may be compared, one fit, and the table of all."""

import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._pipelines import last_step
from sparsebayes.likelihoods import Gaussian, Poisson
from sparsebayes.problem import Status

__all__ = [
    "Outcome",
    "check_comparable",
    "fit_candidate",
    "order",
    "tabulate",
]

# At the floor of the noise a model fits to rounding with fewer atoms than data: that is no collapse
# but the best that noise-free data can get.
_NOT_TRUSTED = (Status.COLLAPSED, Status.BREAKDOWN)
_COLUMNS = ("log_evidence", "log_posterior", "degrees_of_freedom", "n_atoms", "noise_variance")
_LONGEST = 100  # characters that describe a candidate in a message
_REASONS = {
    "fit_intercept": "an intercept has a flat prior, whose evidence depends on the unit of y",
    "class_weight": "it changes how often samples count, so the data are not the same",
    "likelihood": "that of one may be a density of y and that of another a probability, and an "
    "intercept is flat in the unit of its latent function",
}


@dataclass(frozen=True)
class Outcome:
    """One candidate after its fit, good or bad."""

    label: str
    model: Any
    status: Status | None  # None if it could not be fitted
    log_evidence: float
    log_posterior: float
    degrees_of_freedom: float
    n_atoms: int
    noise_variance: float
    seconds: float
    error: Exception | None
    warnings: tuple[tuple[str, type[Warning]], ...]

    @property
    def trusted(self) -> bool:
        """Whether its evidence may be compared with that of others."""
        return self.status is not None and self.status not in _NOT_TRUSTED

    def score(self, penalty: float) -> float:
        """Log evidence, less what its degrees of freedom cost."""
        return self.log_evidence - penalty * self.degrees_of_freedom


def check_comparable(models: list[Any], candidates: list[Mapping[str, Any]]) -> None:
    """Refuse candidates whose evidence says nothing about which is the better model.

    Parameters
    ----------
    models : list of estimators
        Not fitted.
    candidates : list of dict
        The parameters that were set, one for each model.
    """
    last = [last_step(model) for model in models]
    for name, reason in _REASONS.items():
        values: dict[Any, str] = {}
        for step in last:
            value = getattr(step, name, None)
            kind = _kind(value) if name == "likelihood" else repr(value)
            values.setdefault(kind, repr(value))
        if len(values) > 1:
            one, other, *_ = values.values()
            raise ValueError(
                f"candidates with {name}={one} and {name}={other} cannot be compared by "
                f"their evidence: {reason}. Compare them by held-out data."
            )
    priors: dict[Any, str] = {}
    for step, params in zip(last, candidates, strict=True):
        rest = frozenset(
            (name, _identity(value))
            for name, value in params.items()
            if name.rpartition("__")[2] not in ("prior", "noise_prior")
        )
        prior = f"prior={step.prior!r}"
        if getattr(step, "noise_prior", None) is not None:
            prior += f", noise_prior={step.noise_prior!r}"
        if priors.setdefault(rest, prior) != prior:
            raise ValueError(
                f"candidates that differ only in {priors[rest]} and {prior} cannot be compared by "
                "their evidence, which is greatest under the weakest prior whatever the data. "
                "Compare them by held-out data: GridSearchCV with "
                "scoring=sparsebayes.metrics.log_predictive_density."
            )


def _kind(likelihood: Any) -> Any:
    # Likelihoods that differ in their parameters alone have the same targets and the same unit.
    named = {"gaussian": Gaussian, "poisson": Poisson}
    return named.get(likelihood) if isinstance(likelihood, str) else type(likelihood)


def _identity(value: Any) -> Any:
    # Numbers and names by what they are; an array or another object by which one it is.
    return value if isinstance(value, str | int | float | None) else id(value)


def fit_candidate(
    model: Any,
    params: Mapping[str, Any],
    X: Any,
    y: Any,
    fit_params: Mapping[str, Any],
    *,
    catch: bool,
    progress: str,
) -> Outcome:
    """Fit one candidate; its warnings and, if asked, its error are kept and not raised.

    Parameters
    ----------
    model : estimator
        To be fitted in place.
    params : dict
        What is special about it.
    X, y : array-like
        All the data.
    fit_params : dict
        Further arguments of ``fit``.
    catch : bool
        Whether to keep an error.
    progress : str
        How a line on stderr begins; no line where it is empty.

    Returns
    -------
    Outcome
        The model and what is known of it.
    """
    label = _described(params)
    started = time.perf_counter()
    error: Exception | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, **fit_params)
        except (ArithmeticError, MemoryError, TypeError, ValueError) as failure:
            if not catch:
                raise
            error = failure.with_traceback(None)  # which holds the data
    seconds = time.perf_counter() - started
    told = tuple(dict.fromkeys((str(each.message), each.category) for each in caught))
    if error is not None:
        _say(progress, seconds, f"{label}  failed: {error}")
        nan = np.nan
        return Outcome(label, model, None, nan, nan, nan, 0, nan, seconds, error, told)
    last = last_step(model)
    status: Status = last.solution_.status
    outcome = Outcome(
        label,
        model,
        status,
        float(last.log_marginal_likelihood_),
        float(last.log_posterior_),
        float(last.degrees_of_freedom_),
        int(last.posterior_.atoms.size),
        float(getattr(last, "noise_variance_", np.nan)),
        seconds,
        None,
        told,
    )
    evidence = f"log evidence {outcome.log_evidence:.3f}  atoms {outcome.n_atoms}"
    _say(progress, seconds, f"{label}  {evidence}  {status.name}")
    return outcome


def _described(params: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name}={' '.join(repr(value).split())}" for name, value in params.items())
    return (text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...") or "as given"


def _say(progress: str, seconds: float, text: str) -> None:
    if progress:
        line = " ".join(f"[EvidenceSearch] {progress} {seconds:7.1f} s  {text}".splitlines())
        print(line, file=sys.stderr, flush=True)


def order(outcomes: list[Outcome], penalty: float) -> NDArray[np.intp]:
    """Positions of the candidates, best first: by trust, then by score, then as given.

    Parameters
    ----------
    outcomes : list of Outcome
        In the order of the grid.
    penalty : float
        Cost of a degree of freedom, in nats.

    Returns
    -------
    ndarray of shape (n_candidates,)
        Those that could not be fitted are last.
    """
    fitted = np.array([outcome.error is None for outcome in outcomes])
    trusted = np.array([outcome.trusted for outcome in outcomes])
    scores = np.array([outcome.score(penalty) for outcome in outcomes])  # nan is last
    return np.asarray(np.lexsort((-scores, ~trusted, ~fitted)), dtype=np.intp)


def tabulate(
    outcomes: list[Outcome],
    candidates: list[dict[str, Any]],
    ranked: NDArray[np.intp],
    penalty: float,
) -> dict[str, Any]:
    """Make the table of a search, in the manner of ``cv_results_``.

    Parameters
    ----------
    outcomes : list of Outcome
        In the order of the grid.
    candidates : list of dict
        Their parameters.
    ranked : ndarray of shape (n_candidates,)
        What `order` returned.
    penalty : float
        Cost of a degree of freedom, in nats.

    Returns
    -------
    dict of arrays
        Columns of the table.
    """
    n = len(outcomes)
    rank = np.empty(n, dtype=np.intp)
    rank[ranked] = np.arange(1, n + 1)
    table: dict[str, Any] = {"params": candidates}
    for name in sorted({name for params in candidates for name in params}):
        column = np.ma.MaskedArray(np.empty(n, dtype=object), mask=True)
        for place, params in enumerate(candidates):
            if name in params:
                column[place] = params[name]
        table[f"param_{name}"] = column
    table["score"] = np.array([outcome.score(penalty) for outcome in outcomes])
    for name in _COLUMNS:
        table[name] = np.array([getattr(outcome, name) for outcome in outcomes])
    table["status"] = np.array(
        ["FAILED" if outcome.status is None else outcome.status.name for outcome in outcomes]
    )
    table["rank"] = rank
    table["fit_time"] = np.array([outcome.seconds for outcome in outcomes])
    table["message"] = np.array([_message(outcome) for outcome in outcomes], dtype=object)
    return table


def _message(outcome: Outcome) -> str:
    if outcome.error is not None:
        return str(outcome.error)
    return "; ".join(text for text, _ in outcome.warnings)
