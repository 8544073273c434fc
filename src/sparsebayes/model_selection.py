"""Choosing between kernels, dictionaries and pipelines by the evidence."""

import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from sparsebayes._candidates import (
    Outcome,
    check_comparable,
    fit_candidate,
    order,
    tabulate,
)
from sparsebayes._pipelines import last_step, through
from sparsebayes._settings import is_count, is_positive
from sparsebayes.estimators._base import Fitting

__all__ = ["EvidenceSearch"]


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _delegated(name: str, beyond_pipelines: bool = False) -> Callable[[_Method], _Method]:
    """Make a method there where the model has it; pipelines know only those of scikit-learn."""

    def check(search: Any) -> bool:
        model = getattr(search, "best_estimator_", search.estimator)
        return hasattr(last_step(model) if beyond_pipelines else model, name)

    decorate: Callable[[_Method], _Method] = available_if(check)
    return decorate


class EvidenceSearch(MetaEstimatorMixin, BaseEstimator):
    """Fit every candidate once to all rows, and keep the one that the evidence favors.

    It is spelled as scikit-learn's ``GridSearchCV``, without folds: the evidence (the log marginal
    likelihood) needs no held-out data. It compares what says how the same targets came about:
    kernels and their widths, dictionaries, centers, noise variances, and steps of a pipeline that
    change X only.

    The score is the log evidence less one for each degree of freedom, as Akaike's criterion has it:
    the evidence is that of prior variances fitted to the same data, and too good by about so much.

    A model that collapsed, which explains the data by nearly as many atoms as there are rows, often
    has the greatest evidence of all. Such candidates, and those whose arithmetic broke down, come
    after all others; the best of them is kept, with a warning, if there are no others.

    Parameters
    ----------
    estimator : estimator
        One of this package, or a pipeline that ends with one.
    param_grid : dict or list of dict
        Values of parameters to try, as for ``GridSearchCV``: all combinations of a dict, and those
        of each dict of a list. Candidates may differ neither in ``fit_intercept``, in
        ``class_weight`` nor in the kind of their ``likelihood``, and not in their prior alone:
        their evidences are not comparable.
    penalty : float, default=1.0
        What a degree of freedom costs in the score, in nats; 0 compares the evidence alone.
    n_jobs : int or None, default=None
        Number of fits at a time; -1 for one on each processor.
    error_score : "raise" or nan, default=nan
        Whether a candidate that cannot be fitted raises its error, or is ranked last with a warning
        that tells the error.
    verbose : int, default=0
        1 prints a line for each candidate to stderr.

    Attributes
    ----------
    best_estimator_ : estimator
        The fitted candidate of rank 1, to which methods of prediction are delegated.
    best_params_ : dict
        Its parameters.
    best_score_ : float
        Its score.
    best_index_ : int
        Its position in ``results_``.
    results_ : dict of arrays
        A table with a row for each candidate, for ``pandas.DataFrame``: ``params``,
        ``param_<name>``, ``score``, ``log_evidence``, ``log_posterior``, ``degrees_of_freedom``,
        ``n_atoms``, ``noise_variance``, ``status``, ``rank``, ``fit_time`` in seconds and
        ``message``, an error or what the fit warned of.
    classes_, n_features_in_, feature_names_in_
        Those of the best estimator, where it has them.

    Examples
    --------
    >>> from sparsebayes import RVR, EvidenceSearch
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(100, noise=0.1, random_state=0)
    >>> search = EvidenceSearch(RVR(), {"gamma": [0.01, 0.1, 31.6]}).fit(data.X, data.y)
    >>> search.best_params_
    {'gamma': 0.1}
    >>> search.results_["log_evidence"][:2].argmax()
    np.int64(1)
    >>> search.results_["status"].tolist()
    ['CONVERGED', 'CONVERGED', 'COLLAPSED']
    >>> mean, std = search.predict(data.X, return_std=True)
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        penalty: float = 1.0,
        n_jobs: int | None = None,
        error_score: Any = np.nan,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.penalty = penalty
        self.n_jobs = n_jobs
        self.error_score = error_score
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags = inner.input_tags
        return tags

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Fit all candidates and keep the best.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets, or labels of classes.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the samples, for the last step of a pipeline only.
        **fit_params
            Further arguments of the estimator's ``fit``, such as
            ``standardscaler__sample_weight`` of a pipeline.

        Returns
        -------
        self
            The fitted search.
        """
        self._check_settings()
        candidates = list(ParameterGrid(self.param_grid))
        if not candidates:
            raise ValueError(f"param_grid has no candidates: {self.param_grid!r}.")
        # A copy of the values too: some are estimators, steps of a pipeline, and will be fitted.
        models = [
            clone(self.estimator).set_params(**clone(params, safe=False)) for params in candidates
        ]
        for model in models:
            if not isinstance(last_step(model), Fitting):
                raise TypeError(
                    "estimator must be one of sparsebayes, or a pipeline that ends with one: "
                    f"{last_step(model)!r} has no evidence."
                )
        check_comparable(models, candidates)
        if sample_weight is not None:
            fit_params = fit_params | {self._weight_name(models[0]): sample_weight}
        penalty = float(self.penalty)
        fits = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(fit_candidate)(
                clone(model),
                params,
                X,
                y,
                fit_params,
                catch=self.error_score != "raise",
                progress=f"{place}/{len(models)}" if self.verbose else "",
            )
            for place, (model, params) in enumerate(zip(models, candidates, strict=True), 1)
        )
        outcomes: list[Outcome] = []
        best = None
        for outcome in fits:  # of the fitted models only the best so far is held
            if best is None or order([best, outcome], penalty)[0]:
                best = outcome
            outcomes.append(replace(outcome, model=None))
        if best is None or best.error is not None:
            raise _failure(outcomes)
        ranked = order(outcomes, penalty)
        self.results_ = tabulate(outcomes, candidates, ranked, penalty)
        self.best_index_ = int(ranked[0])
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = best.score(penalty)
        self.best_estimator_ = best.model
        self._warn(best, outcomes)
        return self

    def _check_settings(self) -> None:
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(f"estimator must be an estimator object, got {self.estimator!r}.")
        free = isinstance(self.penalty, numbers.Real) and self.penalty == 0
        if not (free or is_positive(self.penalty)):
            raise ValueError(f"penalty must be a number >= 0, got {self.penalty!r}.")
        whole = isinstance(self.n_jobs, numbers.Integral) and not isinstance(self.n_jobs, bool)
        if self.n_jobs is not None and not (whole and self.n_jobs != 0):
            raise ValueError(f"n_jobs must be None or an integer but 0, got {self.n_jobs!r}.")
        if not isinstance(self.verbose, bool | np.bool_) and not is_count(self.verbose, 0):
            raise ValueError(f"verbose must be 0 or 1, got {self.verbose!r}.")
        given = self.error_score
        number = isinstance(given, numbers.Real) and np.isnan(float(given))
        if not number and not (isinstance(given, str) and given == "raise"):
            raise ValueError(f'error_score must be "raise" or nan, got {given!r}.')

    def _weight_name(self, model: Any) -> str:
        """Name under which the last step gets the weights."""
        # With metadata routing on, steps ask for what they take by the plain name.
        if not isinstance(model, Pipeline) or get_config()["enable_metadata_routing"]:
            return "sample_weight"
        return f"{model.steps[-1][0]}__sample_weight"

    def _warn(self, best: Outcome, outcomes: list[Outcome]) -> None:
        failed = [outcome for outcome in outcomes if outcome.error is not None]
        if failed:
            told = "; ".join(dict.fromkeys(f"{it.label}: {it.error}" for it in failed))
            warnings.warn(
                f"EvidenceSearch: {len(failed)} of {len(outcomes)} candidates could not be fitted. "
                + told,
                FitFailedWarning,
                stacklevel=3,
            )
        if not best.trusted:
            warnings.warn(
                "EvidenceSearch: every candidate that could be fitted collapsed or broke down, so "
                "their evidence says nothing about which is best; results_ has the status of each.",
                ConvergenceWarning,
                stacklevel=3,
            )
        for message, category in best.warnings:
            warnings.warn(message, category, stacklevel=3)

    @property
    def classes_(self) -> Any:
        """Classes of the best estimator."""
        return self._of_best("classes_")

    @property
    def n_features_in_(self) -> Any:
        """Number of columns of X."""
        return self._of_best("n_features_in_")

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns of X, if it had any."""
        return self._of_best("feature_names_in_")

    def _of_best(self, name: str) -> Any:
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return getattr(self.best_estimator_, name)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R2 or accuracy of the best estimator.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets, or labels of classes.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the samples.

        Returns
        -------
        float
            The score.
        """
        check_is_fitted(self)
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.best_estimator_.score(X, y, **options))

    @_delegated("predict")
    def predict(self, X: Any, **options: Any) -> Any:
        """Predict by the best estimator.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        **options
            Such as ``return_std=True``.

        Returns
        -------
        ndarray, or what the options ask for
            As of the best estimator.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict(X, **options)

    @_delegated("predict_proba")
    def predict_proba(self, X: Any, **options: Any) -> NDArray[np.float64]:
        """Predict probabilities of classes by the best estimator.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        **options
            Such as ``plug_in=True``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_proba(X, **options))

    @_delegated("predict_log_proba")
    def predict_log_proba(self, X: Any, **options: Any) -> NDArray[np.float64]:
        """Predict logarithms of probabilities of classes by the best estimator.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        **options
            Such as ``plug_in=True``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_log_proba(X, **options))

    @_delegated("decision_function")
    def decision_function(self, X: Any, **options: Any) -> NDArray[np.float64]:
        """Log odds by the best estimator.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        **options
            Such as ``plug_in=True``.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            As of the best estimator.
        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X, **options))

    @_delegated("predict_distribution", beyond_pipelines=True)
    def predict_distribution(self, X: Any, **options: Any) -> Any:
        """Predict the distribution of the target by the best estimator, through its pipeline.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        **options
            Such as ``augment=True`` or ``marginalize=True``. Training data that ``augment`` is
            given again must have passed the steps before the last.

        Returns
        -------
        Normal, Counts, Mixture or Categorical
            As of the last step.
        """
        check_is_fitted(self)
        last = last_step(self.best_estimator_)
        return last.predict_distribution(through(self.best_estimator_, X), **options)

    @_delegated("sample_y", beyond_pipelines=True)
    def sample_y(self, X: Any, n_samples: int = 1, **options: Any) -> NDArray[np.float64]:
        """Draw functions from the posterior of the best estimator, through its pipeline.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_rows, n_features)
            Inputs.
        n_samples : int, default=1
            Number of functions.
        **options
            Such as ``random_state=1`` or ``noise=True``.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            As of the last step.
        """
        check_is_fitted(self)
        last = last_step(self.best_estimator_)
        return np.asarray(last.sample_y(through(self.best_estimator_, X), n_samples, **options))


def _failure(outcomes: list[Outcome]) -> Exception:
    """No candidate could be fitted: what they have in common, or all that they said."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if len({(type(error), str(error)) for error in errors}) == 1:
        return errors[0]
    told = "; ".join(dict.fromkeys(f"{it.label}: {it.error}" for it in outcomes))
    return ValueError(f"EvidenceSearch: no candidate could be fitted. {told}")
