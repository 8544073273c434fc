"""What a fitted regressor says of new rows."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsebayes.augmentation import TrainingData, augmented
from sparsebayes.dictionaries._protocol import check_range
from sparsebayes.estimators._augmenting import training_data
from sparsebayes.estimators._base import Fitting, seeded
from sparsebayes.estimators._lazy import lazily
from sparsebayes.latent_posterior import LatentPosterior
from sparsebayes.marginalization import marginal_covariance, marginal_mixture, marginal_spread
from sparsebayes.posterior import Posterior
from sparsebayes.predictive import Normal

FloatArray = NDArray[np.float64]

__all__ = ["Forecasting"]


class Forecasting(Fitting):
    """Means, error bars, distributions and draws."""

    @lazily
    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        augment: Any = False,
        marginalize: bool = False,
    ) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        return_std : bool, default=False
            Whether to return the standard deviation of the target, noise included.
        return_cov : bool, default=False
            Whether to return the covariance of the targets, noise included; only for the Gaussian
            likelihood.
        augment : bool, (X, y) or (X, y, sample_weight), default=False
            Whether to add, for each row and this prediction only, an atom of the kernel that is
            centered at the row, so that error bars grow away from the training data. For Gaussian
            noise and models with atoms of one kernel; not with ``return_cov``. True takes the
            training data from memory, where ``fit`` left a reference to them; a model that was
            pickled or stored has none, and needs them given again.
        marginalize : bool, default=False
            Whether to average over the variances and the noise, by 128 draws from their posterior,
            instead of taking the best ones; for Gaussian noise and at most 1000 active atoms. The
            draws are the same at every call. With ``augment`` each draw is augmented.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictive mean. Of another likelihood than the Gaussian it is taken at the mean of the
            latent function, so that of counts it is the median of the rate: the mean of a rate
            whose logarithm is uncertain is that of its tail, and infinite where the training data
            hold no counts at all. ``predict_distribution(X).mean`` averages.
        std : ndarray of the same shape
            Only with ``return_std``.
        cov : ndarray of shape (n_samples, n_samples)
            Only with ``return_cov``; the same for each target, but with ``marginalize``, which
            gives it for one target alone.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be asked for.")
        X = self._checked(X)
        data = training_data(self, augment)
        if data is not None and return_cov:
            raise ValueError(
                "return_cov and augment cannot both be asked for: each row has an augmented "
                "model of its own, and no covariance with other rows."
            )
        averaged = self._marginalizes(marginalize)
        with np.errstate(over="ignore", invalid="ignore"):
            forecast = self._forecast(X, data, bool(return_std), bool(return_cov), averaged)
        return self._in_range(forecast)

    def _forecast(
        self,
        X: Any,
        data: TrainingData | None,
        return_std: bool,
        return_cov: bool,
        averaged: bool,
    ) -> Any:
        if averaged:
            covariance = marginal_covariance(self.posterior_, X) if return_cov else None
            mean, std = marginal_spread(self.posterior_, X, data)
            if covariance is not None:
                return mean, covariance
            return (mean, std) if return_std else mean
        if data is not None:
            forecast = augmented(self.posterior_, data, X)
            return (forecast.mean, forecast.std) if return_std else forecast.mean
        if isinstance(self.posterior_, LatentPosterior):
            if return_cov:
                raise ValueError(
                    f"return_cov is not available for likelihood={self.likelihood_!r}: use "
                    "return_std, or the covariance of draws of sample_y."
                )
            latent, covariance = self.posterior_.spread(X)
            mean = self.likelihood_.predictive(latent, np.zeros_like(covariance)).mean
            if not return_std:
                return mean
            return mean, self.likelihood_.predictive(latent, covariance).std
        if return_std:
            return self.posterior_.spread(X, noise=True)
        mean = self.posterior_.predict(X)
        return (mean, self.posterior_.target_covariance(X)) if return_cov else mean

    def _in_range(self, forecast: Any) -> Any:
        """What was predicted; a ValueError where it left the range of float64."""
        # A rate of counts may well be infinite: it is the exponential of something.
        right = np.isfinite if isinstance(self.posterior_, Posterior) else _is_number
        parts = forecast if isinstance(forecast, tuple) else (forecast,)
        check_range(*(right(values).all() for values in parts))
        return forecast

    def _marginalizes(self, marginalize: Any) -> bool:
        """Whether it is asked for, and possible."""
        if not isinstance(marginalize, bool | np.bool_):
            raise TypeError(f"marginalize must be True or False, got {marginalize!r}.")
        if marginalize and isinstance(self.posterior_, LatentPosterior):
            raise ValueError(
                f"marginalize is for Gaussian noise, and this model has "
                f"likelihood={self.likelihood_!r}."
            )
        return bool(marginalize)

    def predict_distribution(
        self, X: ArrayLike, augment: Any = False, marginalize: bool = False
    ) -> Any:
        """Predict the distribution of the target.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        augment : bool, (X, y) or (X, y, sample_weight), default=False
            As in `predict`.
        marginalize : bool, default=False
            As in `predict`.

        Returns
        -------
        Normal, Counts or Mixture
            With ``mean``, ``std``, ``interval``, ``ppf``, ``cdf``, ``logpdf`` (of counts
            ``logpmf``) and ``sample``; what the ``predictive`` of your own likelihood returns.
            A `Mixture` with ``marginalize``: of a normal distribution for each draw, whose
            intervals have the tails that their moments alone would miss.
        """
        X = self._checked(X)
        data = training_data(self, augment)
        averaged = self._marginalizes(marginalize)
        with np.errstate(over="ignore", invalid="ignore"):
            if averaged:
                mixture = marginal_mixture(self.posterior_, X, data)
                self._in_range((mixture.mean, mixture.std))
                return mixture
            if data is not None:
                return Normal(*self._in_range(tuple(augmented(self.posterior_, data, X))))
            if isinstance(self.posterior_, LatentPosterior):
                return self.likelihood_.predictive(*self._in_range(self.posterior_.spread(X)))
            mean, std = self._in_range(self.posterior_.spread(X, noise=True))
            return Normal(mean, std, self.posterior_.spread(X, noise=False)[1])

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, noise: bool = False
    ) -> FloatArray:
        """Draw functions from the posterior and evaluate them.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_rows, n_features)
            Inputs.
        n_samples : int, default=1
            Number of functions.
        random_state : int, RandomState or None, default=0
            Source of randomness.
        noise : bool, default=False
            Whether to draw targets around the functions: with Gaussian noise, or counts.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Each column is one function, so values in it are correlated as the posterior says. For
            the Poisson likelihood it is a function of rates: what the mean of the target would be
            if the weights were known.
        """
        if not isinstance(n_samples, numbers.Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an integer >= 1, got {n_samples!r}.")
        X, rng = self._checked(X), seeded(random_state)
        if not isinstance(self.posterior_, LatentPosterior):
            with np.errstate(over="ignore", invalid="ignore"):
                drawn = self.posterior_.sample(X, int(n_samples), rng, noise=bool(noise))
            return np.asarray(self._in_range(drawn))
        latent = self.posterior_.sample(X, int(n_samples), rng)[:, 0]
        known = self.likelihood_.predictive(latent.reshape(-1, 1), np.zeros((latent.size, 1, 1)))
        draws = known.sample(1, rng)[0] if noise else known.mean
        return np.asarray(draws, dtype=np.float64).reshape(latent.shape)


def _is_number(values: FloatArray) -> NDArray[np.bool_]:
    return ~np.isnan(values)
