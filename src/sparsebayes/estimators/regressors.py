"""Regressors: one number to predict, or several that share their atoms."""

import numbers
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from sparsebayes._conclusions import Regression, Start
from sparsebayes._journey import Journey
from sparsebayes._kernel_report import feature_relevance, relevance_of
from sparsebayes._latent import Inference
from sparsebayes._regression import regress
from sparsebayes._row_regression import regress_rows
from sparsebayes._samples import checked_weights
from sparsebayes._settings import check_settings, resolve_likelihood
from sparsebayes.augmentation import TrainingData, augmented, has_one_kernel
from sparsebayes.dictionaries.linear import LinearAtoms
from sparsebayes.estimators._augmenting import training_data
from sparsebayes.estimators._base import OnDictionary, OnKernel, seeded
from sparsebayes.estimators._incremental import Growing
from sparsebayes.estimators._lazy import lazily
from sparsebayes.estimators._streaming import Streaming
from sparsebayes.latent_posterior import LatentPosterior
from sparsebayes.likelihoods import Likelihood, Poisson
from sparsebayes.marginalization import marginal_covariance, marginal_mixture, marginal_spread
from sparsebayes.posterior import Posterior
from sparsebayes.predictive import Normal
from sparsebayes.problem import Problem, Report, Solution
from sparsebayes.quadratic import OrthonormalQuadratic
from sparsebayes.rows.blocks import Rows
from sparsebayes.rows.steps import Checked
from sparsebayes.rows.summary import summarize
from sparsebayes.solvers import joint, orthonormal, sequential, working_set

FloatArray = NDArray[np.float64]

__all__ = ["RVR", "SparseBayesRegressor"]

_OF_ONE_FIT = (
    "coef_",
    "relevance_vectors_",
    "noise_variance_",
    "likelihood_",
    "n_samples_seen_",
    "_seen",
    "_training",
)


class _Regressor(RegressorMixin, Growing, Streaming):
    """What both regressors do."""

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
            targets = np.asarray(y, dtype=np.float64)
            solution = self._fit_gaussian(X, targets, weights, dictionary)
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
        result = self._infer_rows(rows, summary, dictionary, journey, likelihood)
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

    def _solve(
        self,
        rng: np.random.RandomState,
        reporter: Report | None,
        problem: Problem,
        start: Start | None,
    ) -> Solution:
        settings = self._solver_settings(rng, reporter)
        solver: Any = working_set
        if "selection" in settings:
            solver = sequential
        elif "update" in settings:
            solver = joint
        if isinstance(problem.quad, OrthonormalQuadratic):
            solver = orthonormal
            del settings["n_restarts"]
        solution: Solution = solver.solve(problem, start=start, **settings)
        return solution

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
        if isinstance(posterior.atoms, LinearAtoms):
            coef = np.zeros((posterior.atoms.count, *self.weights_.shape[1:]))
            coef[self.relevance_] = self.weights_
            self.coef_ = coef if coef.ndim == 1 else coef.T
        if hasattr(posterior.atoms, "centers"):
            self.relevance_vectors_ = posterior.atoms.centers[order]

    @property
    def covariance_(self) -> FloatArray:
        """Posterior covariance of the weights, computed when it is asked for."""
        if not hasattr(self, "posterior_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        covariance: FloatArray = self.posterior_.covariance
        return covariance

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
        if self._marginalizes(marginalize):
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
                    f"return_cov is not available for likelihood={self.likelihood!r}: use "
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
        if self._marginalizes(marginalize):
            return marginal_mixture(self.posterior_, X, data)
        if data is not None:
            return Normal(*augmented(self.posterior_, data, X))
        if isinstance(self.posterior_, LatentPosterior):
            return self.likelihood_.predictive(*self.posterior_.spread(X))
        mean, std = self.posterior_.spread(X, noise=True)
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
            return self.posterior_.sample(X, int(n_samples), rng, noise=bool(noise))
        latent = self.posterior_.sample(X, int(n_samples), rng)[:, 0]
        known = self.likelihood_.predictive(latent.reshape(-1, 1), np.zeros((latent.size, 1, 1)))
        draws = known.sample(1, rng)[0] if noise else known.mean
        return np.asarray(draws, dtype=np.float64).reshape(latent.shape)


class SparseBayesRegressor(_Regressor, OnDictionary):
    """Sparse Bayesian regression on any dictionary of atoms.

    From the atoms of the dictionary it keeps the few that the data support, estimates the noise,
    gives error bars, needs no cross-validation, and certifies its answer: ``certificate_`` says how
    much any single change of the model could still gain.

    Parameters
    ----------
    dictionary : "linear" or a dictionary, default="linear"
        Candidate atoms: the columns of X, or e.g. ``Linear() + Kernel("rbf", gamma=0.5)``.
    fit_intercept : bool, default=True
        Whether to fit an intercept, jointly with the weights and with a flat prior.
    prior : {"auto", "flat", "aic", "bic", "ric"}, float or Hyperprior, default="auto"
        Prior of each atom's variance. A number (or its name) is the price in nats of a degree of
        freedom: "aic" 1, "bic" log(n_samples) / 2, "ric" log(number of atoms). "auto" is "flat",
        the relevance vector machine of the papers, for kernels, and "ric" for every other
        dictionary, where a flat prior keeps one irrelevant atom in three. ``Gamma(a, b)`` of the
        precisions keeps every atom, and is for the solvers "em" and "mackay".
    noise_variance : float or None, default=None
        Variance of the noise; None estimates it.
    noise_prior : None, (g, h), InverseGamma or Gamma, default=None
        Inverse-gamma prior of a noise variance that is estimated, worth 2 (g + 1) observations
        whose squares sum to 2 h, in units of y squared. None is a flat prior; Schmolck & Everson
        (2007) take (1e-4, 1e-4). ``Gamma(c, d)`` of the noise precision is worth 2 c observations
        whose squares sum to 2 d.
    likelihood : {"gaussian", "poisson"} or Likelihood, default="gaussian"
        How targets vary around the function: with normal noise; as counts whose rate is the
        exponential of the function; or as an object of `sparsebayes.likelihoods`, or one of your
        own, with one latent function says. All but "gaussian" are fitted by Laplace's
        approximation, to one target, and have no ``noise_variance``.
    solver : {"auto", "working-set", "sequential", "sequential-random", "sequential-cyclic", "em", \
"mackay", "orthonormal"}, default="auto"
        "sequential" is Tipping & Faul (2003), for comparison, with the greatest increase, a random
        atom or the next in order as its next move. "em" and "mackay" are Tipping (2001): all atoms
        start in the model, at a cost of their number cubed, and fixed-point updates prune them;
        the last steps are Newton's, until the certificate holds. "orthonormal" is the closed form
        for a dictionary that is orthonormal on X, and stays so where an intercept is fitted: the
        global maximum, in a time proportional to the number of atoms. "auto" is "orthonormal" where
        that applies, else "working-set"; in a union with a part that is orthonormal it also starts
        from what the parts would keep alone, and the better solution counts.
    tol : float, default=1e-6
        Gain, in nats, that the certificate may leave on the table.
    max_iter : int, default=10_000
        Most iterations.
    n_restarts : int, default=0
        Further random searches for a better optimum (working-set solver).
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution, if the dictionary is of the same size.
    random_state : int, RandomState or None, default=None
        For k-means centers, for the sample of a large dictionary in which a fit begins, and for
        restarts. None draws the centers at random and the others from a fixed seed.
    verbose : int, default=0
        1 prints progress to stderr now and then, 2 prints every step.
    memory : int, str or None, default=None
        What a fit may allocate beyond the data as given: bytes, or a text such as "500MB" or
        "2GiB". Atoms are then evaluated in blocks of rows, and never kept. None does the same
        within 1 GiB where X is no array in memory, or the matrix of atoms would take over 2 GiB.
    checkpoint : path or None, default=None
        A file in which a fit keeps where it stands after every screen of the dictionary.
    resume : bool, default=False
        Whether to go on from the checkpoint, if there is one.
    callback : callable or None, default=None
        Called with a `sparsebayes.progress.FitProgress` as the fit goes on; the fit ends like one
        that is interrupted if it returns True.
    on_interrupt : {"raise", "return"}, default="raise"
        What Ctrl-C does: "return" ends the fit with the last model it had, and a warning.
    screened : float, default=1.0
        Fraction of the atoms that is looked at, drawn at random, where a dictionary is too large to
        look at all of it; the certificate is then of this fraction, and says so. Any of these six
        makes a fit read its rows in blocks.

    Attributes
    ----------
    relevance_ : ndarray of shape (n_active,)
        Positions of the active atoms in the dictionary, the intercept excluded.
    relevance_vectors_ : ndarray of shape (n_active, n_features)
        Centers of the active atoms; only if all atoms are of one kernel.
    weights_ : ndarray of shape (n_active,) or (n_active, n_targets)
        Posterior mean of their weights.
    prior_variance_ : ndarray of shape (n_active,)
        Prior variance of their weights, for the atoms as given.
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Weights of all columns of X, zeros included; only for a linear dictionary.
    intercept_ : float or ndarray of shape (n_targets,)
        Intercept.
    noise_variance_ : float
        Variance of the noise; only for the likelihood "gaussian".
    likelihood_ : Likelihood
        Likelihood of the targets; only for others than "gaussian".
    covariance_ : ndarray of shape (n_active, n_active)
        Posterior covariance of the weights.
    log_marginal_likelihood_ : float
        Log evidence, the intercept integrated out with a flat prior; by Laplace's approximation
        unless the likelihood is "gaussian".
    log_posterior_ : float
        What was maximized: the log evidence, plus the log of the prior of each active atom's
        variance, plus that of the noise variance where it has one. Schmolck & Everson (2007, eq.
        60) also subtract ``Smoothness(c).log_normalizer(noise)`` for each active atom.
    degrees_of_freedom_ : float
        Trace of the matrix that smooths a target, the intercept's one not counted: how many weights
        the data determine.
    gamma_ : float, ndarray of shape (n_features,) or list of these
        Inverse squared width of the kernel, given or learned; a list for several kernels. Only for
        kernels that are known by name and have one.
    kernel_ : kernel object or list of these
        Kernel object with the parameters found; only for `sklearn.gaussian_process` kernels.
    feature_relevance_ : ndarray of shape (n_features,)
        Share of each input in what the kernel sees of the data: gamma times the variance of the
        input, divided by their sum. Only if there is one kernel that has widths.
    certificate_ : Certificate
        ``max_gain``, ``gradient_norm`` and ``max_curvature`` over the whole dictionary.
    converged_ : bool
        Whether the certificate holds to ``tol``.
    n_iter_ : int
        Iterations used.
    solution_ : Solution
        State, status and trace of the fit.
    posterior_ : Posterior or LatentPosterior
        What predictions need, in units of its own; its size depends on neither the number of
        samples nor that of atoms.
    n_samples_seen_ : int
        Number of rows of positive weight in all calls of `partial_fit`; only after it.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import SparseBayesRegressor
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(100, 300))
    >>> y = 3 + 2 * X[:, 7] - X[:, 42] + 0.1 * rng.normal(size=100)
    >>> model = SparseBayesRegressor().fit(X, y)
    >>> model.relevance_, model.weights_.round(1), round(model.intercept_, 1)
    (array([ 7, 42]), array([ 2., -1.]), 3.0)
    >>> mean, std = model.predict(X[:1], return_std=True)
    >>> bool(0.08 < std[0] < 0.12), model.certificate_.max_gain < 1e-6
    (True, True)

    Counts:

    >>> counts = rng.poisson(np.exp(1 + X[:, 7]))
    >>> model = SparseBayesRegressor(likelihood="poisson").fit(X, counts)
    >>> model.relevance_, model.weights_.round(1)
    (array([7]), array([1.]))
    """

    def __init__(
        self,
        dictionary: Any = "linear",
        *,
        fit_intercept: bool = True,
        prior: Any = "auto",
        noise_variance: float | None = None,
        noise_prior: Any = None,
        likelihood: Any = "gaussian",
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        n_restarts: int = 0,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        memory: int | str | None = None,
        checkpoint: Any = None,
        resume: bool = False,
        callback: Any = None,
        on_interrupt: str = "raise",
        screened: float = 1.0,
    ) -> None:
        self.dictionary = dictionary
        self.fit_intercept = fit_intercept
        self.prior = prior
        self.noise_variance = noise_variance
        self.noise_prior = noise_prior
        self.likelihood = likelihood
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.memory = memory
        self.checkpoint = checkpoint
        self.resume = resume
        self.callback = callback
        self.on_interrupt = on_interrupt
        self.screened = screened


class RVR(_Regressor, OnKernel):
    """Relevance vector regression, spelled as scikit-learn's SVR.

    A kernel is centered at every training row (or at ``centers``); the fit keeps the few that the
    data support, the relevance vectors, estimates the noise and gives error bars.

    The kernel matrix is stored up to 2 GiB, about 16 000 rows; a larger one is never held but
    evaluated in blocks of rows, which is slower.

    Parameters
    ----------
    kernel : str, callable or kernel object, default="rbf"
        "rbf", "laplacian", "poly", "sigmoid", "linear", "lspline", "tps", any name that
        scikit-learn's ``pairwise_kernels`` knows, "precomputed", a function ``K(X, Z)``, or an
        object of ``sklearn.gaussian_process.kernels``. It need not be positive definite.
    gamma : float, array-like of shape (n_features,) or str, default="pooled"
        Inverse squared width, for all inputs or for each. "pooled" finds one before the fit, which
        holds it, "pooled-ard" one for each input: those with which all atoms, under one common
        variance, explain the targets best, near that of "scale" where they say nothing (half of
        the gamma so found for "rbf" and "laplacian" in Gaussian noise). "scale" is
        1 / (n_features * X.var()) and "auto" 1 / n_features. "evidence" learns one width with the
        atoms, "ard" one for each input; of a kernel object, which else stays as it is, both learn
        the parameters that are not fixed, within their bounds.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further parameters of a callable or a scikit-learn kernel.
    centers : None, int or array-like of shape (n_centers, n_features), default=None
        Where kernels sit: the training rows, that many k-means centers, or these points.
    fit_intercept, prior, noise_variance, noise_prior, likelihood, solver, tol, max_iter, \
n_restarts, warm_start, random_state, verbose, memory, checkpoint, resume, callback, \
on_interrupt, screened
        As in `SparseBayesRegressor`; here prior="auto" is "flat".

    Attributes
    ----------
    relevance_ : ndarray of shape (n_active,)
        Rows of X (or of the centers) that became relevance vectors.
    relevance_vectors_ : ndarray of shape (n_active, n_features)
        The relevance vectors.
    weights_, prior_variance_, intercept_, noise_variance_, likelihood_, covariance_, \
log_marginal_likelihood_, log_posterior_, degrees_of_freedom_, gamma_, kernel_, \
feature_relevance_, certificate_, converged_, n_iter_, \
solution_, posterior_, n_samples_seen_, n_features_in_, feature_names_in_
        As in `SparseBayesRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import RVR
    >>> from sparsebayes.datasets import sinc
    >>> data = sinc(100, noise=0.1, random_state=0)
    >>> model = RVR(gamma=1 / 9).fit(data.X, data.y)
    >>> len(model.relevance_) < 12
    True
    >>> bool(abs(model.noise_variance_**0.5 - 0.1) < 0.02)
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "pooled",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_params: dict[str, Any] | None = None,
        centers: Any = None,
        fit_intercept: bool = True,
        prior: Any = "auto",
        noise_variance: float | None = None,
        noise_prior: Any = None,
        likelihood: Any = "gaussian",
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        n_restarts: int = 0,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        memory: int | str | None = None,
        checkpoint: Any = None,
        resume: bool = False,
        callback: Any = None,
        on_interrupt: str = "raise",
        screened: float = 1.0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.centers = centers
        self.fit_intercept = fit_intercept
        self.prior = prior
        self.noise_variance = noise_variance
        self.noise_prior = noise_prior
        self.likelihood = likelihood
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.memory = memory
        self.checkpoint = checkpoint
        self.resume = resume
        self.callback = callback
        self.on_interrupt = on_interrupt
        self.screened = screened


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
