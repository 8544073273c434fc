"""What both regressors do: from targets to a fitted model."""

from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from sparsebayes._conclusions import Regression
from sparsebayes._journey import Journey
from sparsebayes._kernel_report import feature_relevance, relevance_of
from sparsebayes._latent import Inference
from sparsebayes._regression import regress
from sparsebayes._row_regression import regress_rows
from sparsebayes._samples import checked_weights
from sparsebayes._settings import check_settings, resolve_likelihood
from sparsebayes.augmentation import TrainingData, has_one_kernel
from sparsebayes.estimators._base import linear_atoms, seeded
from sparsebayes.estimators._forecasting import Forecasting
from sparsebayes.estimators._incremental import Growing
from sparsebayes.estimators._streaming import Streaming
from sparsebayes.latent_posterior import LatentPosterior
from sparsebayes.likelihoods import Likelihood, Poisson, totals_of
from sparsebayes.posterior import Posterior
from sparsebayes.problem import Report, Solution
from sparsebayes.rows.blocks import Rows
from sparsebayes.rows.steps import Checked
from sparsebayes.rows.summary import summarize

FloatArray = NDArray[np.float64]

__all__ = ["Regressing"]

_OF_ONE_FIT = (
    "coef_",
    "relevance_vectors_",
    "noise_variance_",
    "likelihood_",
    "n_samples_seen_",
    "_seen",
    "_training",
)


class Regressing(RegressorMixin, Forecasting, Growing, Streaming):
    """Fits of a Gaussian or another likelihood, in memory or in blocks of rows."""

    _training: TrainingData | None  # of the last fit, for ``augment``

    def __getstate__(self) -> dict[str, Any]:
        # Pickles and copies are as small as the model, whatever it was fitted to.
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        gaussian = isinstance(self.likelihood, str) and self.likelihood == "gaussian"
        tags.target_tags.multi_output = gaussian
        tags.target_tags.positive_only = _is_poisson(self.likelihood)
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the atoms that the data support.

        Parameters
        ----------
        X : array-like, scipy.sparse matrix, or rows to be read, of shape (n_samples, n_features)
            Inputs; a square matrix where the kernel is "precomputed". Rows that need not fit in
            memory: `numpy.memmap`, zarr or HDF5 array, dask array or dataframe, path of parquet
            files, `sparsebayes.rows.Parquet` or `sparsebayes.rows.Chunks`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or names of columns
            Targets. Several targets share their atoms, prior variances and noise variance; only
            the Gaussian likelihood takes several. Names for parquet files, None for chunks.
        sample_weight : array-like of shape (n_samples,) or None
            Weights; a weight of two equals a row given twice, a weight of zero one left out.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_settings(self)
        likelihood = resolve_likelihood(self.likelihood)
        if self._reads_rows(X):
            solution = self._fit_rows(X, y, sample_weight, likelihood)
            self._warn(solution)
            return self
        dictionary, X, y = self._checked_pair(X, y, multi_output=likelihood is None, y_numeric=True)
        weights = checked_weights(sample_weight, X.shape[0])
        if likelihood is None:
            solution = self._fit_gaussian(X, y, weights, dictionary)
        else:
            solution = self._fit_latent(X, y, weights, dictionary, likelihood)
        self._warn(solution)
        return self

    def _fit_gaussian(
        self, X: Any, y: FloatArray, weights: FloatArray | None, dictionary: Any
    ) -> Solution:
        """Fit with normal noise of one variance, estimated unless it is given."""
        rng, reporter = seeded(self.random_state), self._reporter(noise=True)
        targets = y.reshape(len(y), -1)
        settings = self._regression_settings(rng, reporter)
        result = regress(X, targets, weights, dictionary, single=y.ndim == 1, **settings)
        atoms = result.posterior.atoms
        self._keep_regression(result, feature_relevance(atoms, X, weights))
        if has_one_kernel(atoms):
            self._training = TrainingData(X, targets, weights)
        if reporter is not None:
            reporter.close(result.solution)
        return result.solution

    def _fit_rows(
        self, X: Any, y: Any, sample_weight: Any, likelihood: Likelihood | None
    ) -> Solution:
        """Fit rows that are read piece by piece."""
        dictionary = self._dictionary()
        rows, journey = self._opened(X, y, sample_weight, numeric_y=True)
        with journey.watch as watch:
            if likelihood is not None:
                return self._fit_latent_rows(rows, dictionary, journey, likelihood)
            rng = seeded(0 if self.random_state is None else self.random_state)
            settings = self._regression_settings(rng, watch)
            result, summary = regress_rows(
                rows, dictionary, journey, max_iter=int(self.max_iter), **settings
            )
            assert summary.inputs is not None
            self._keep_regression(
                result, relevance_of(result.posterior.atoms, summary.inputs.variance)
            )
            watch.close(result.solution)
        return result.solution

    def _regression_settings(
        self, rng: np.random.RandomState, report: Report | None
    ) -> dict[str, Any]:
        """What a regression is told, wherever its rows are."""
        last = getattr(self, "_last", None)
        return {
            "fit_intercept": bool(self.fit_intercept),
            "prior": self.prior,
            "noise_variance": self.noise_variance,
            "noise_prior": self.noise_prior,
            "solver": self.solver,
            "solve": partial(self._solve, rng, report),
            "last": last if self.warm_start and isinstance(last, Regression) else None,
            "random_state": rng,
            "tol": float(self.tol),
        }

    def _keep_regression(self, result: Regression, relevance: FloatArray | None) -> None:
        posterior = result.posterior
        estimated = posterior.noise_variance * posterior.scale**2
        fitted = {
            "noise_variance_": float(self.noise_variance or estimated),
            "log_marginal_likelihood_": result.log_evidence,
            "log_posterior_": result.log_posterior,
        }
        self._keep(result.solution, posterior, fitted, relevance)
        self._last = result

    def _fit_latent(
        self,
        X: Any,
        y: Any,
        weights: FloatArray | None,
        dictionary: Any,
        likelihood: Likelihood,
    ) -> Solution:
        """Fit the latent function of another likelihood, by Laplace's approximation."""
        t = likelihood.check(y)
        _check_counts(likelihood, bool((t if weights is None else t * weights).any()))
        result = self._infer(X, t, weights, dictionary, likelihood)
        relevance = feature_relevance(result.posterior.atoms, X, weights)
        return self._keep_latent(result, likelihood, relevance)

    def _fit_latent_rows(
        self, rows: Rows, dictionary: Any, journey: Journey, likelihood: Likelihood
    ) -> Solution:
        """The same, of rows that are read piece by piece."""
        journey.watch.stage("first look")
        rows = rows.mapped(Checked(likelihood))
        summary = summarize(rows)
        assert summary.targets is not None
        assert summary.inputs is not None
        _check_counts(likelihood, bool(summary.targets.high.any()))
        # What totals are of counts, they are of their mean with the weight of all.
        totals = totals_of(likelihood, summary.targets.mean, np.array([summary.weight]))
        result = self._infer_rows(rows, summary, dictionary, journey, likelihood, totals=totals)
        relevance = relevance_of(result.posterior.atoms, summary.inputs.variance)
        return self._keep_latent(result, likelihood, relevance)

    def _keep_latent(
        self, result: Inference, likelihood: Likelihood, relevance: FloatArray | None
    ) -> Solution:
        fitted = {
            "log_marginal_likelihood_": result.log_evidence,
            "log_posterior_": result.solution.state.objective,
            "likelihood_": likelihood,
        }
        self._keep(result.solution, result.posterior, fitted, relevance)
        return result.solution

    def _restore(self, posterior: Posterior | LatentPosterior, fitted: dict[str, Any]) -> None:
        for name in _OF_ONE_FIT:
            self.__dict__.pop(name, None)  # of another fit
        super()._restore(posterior, fitted)
        order: Any = slice(None)
        self.intercept_ = posterior.intercept
        if isinstance(posterior, LatentPosterior):
            order = posterior.atom
            self.intercept_ = float(posterior.intercept[0])
        self.relevance_ = posterior.atoms.index[order]
        self.weights_ = posterior.weights
        self.prior_variance_ = posterior.weight_variance
        if hasattr(posterior.atoms, "centers"):
            self.relevance_vectors_ = posterior.atoms.centers[order]

    @cached_property
    def coef_(self) -> FloatArray:
        """Weights of the columns of X, made when they are asked for: there may be many zeros."""
        atoms = linear_atoms(self)
        coef = np.zeros((atoms.count, *self.weights_.shape[1:]))
        coef[self.relevance_] = self.weights_
        return coef if coef.ndim == 1 else coef.T

    @property
    def covariance_(self) -> FloatArray:
        """Posterior covariance of the weights, computed when it is asked for."""
        if not hasattr(self, "posterior_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        covariance: FloatArray = self.posterior_.covariance
        return covariance


def _is_poisson(likelihood: Any) -> bool:
    return isinstance(likelihood, Poisson) or (
        isinstance(likelihood, str) and likelihood == "poisson"
    )


def _check_counts(likelihood: Likelihood, some: bool) -> None:
    """Refuse counts that are all zero."""
    if _is_poisson(likelihood) and not some:
        raise ValueError(
            "y holds no count above zero (with a weight above zero): no rate is small enough to be "
            "the most probable one."
        )
