"""Estimators: the only file that knows scikit-learn's rules."""

import numbers
import sys
import time
import warnings
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsebayes._counting import is_pairwise, takes_sparse
from sparsebayes._regression import Regression, Start, regress
from sparsebayes._samples import checked_weights
from sparsebayes._settings import check_settings
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries.linear import LinearAtoms
from sparsebayes.posterior import Posterior
from sparsebayes.predictive import Normal
from sparsebayes.problem import Problem, Progress, Solution, Status
from sparsebayes.solvers import sequential, working_set

FloatArray = NDArray[np.float64]

__all__ = ["RVR", "SparseBayesRegressor"]


class _Fitting(RegressorMixin, BaseEstimator):
    """What both regressors do; they differ in how the dictionary is spelled."""

    def _dictionary(self) -> Any:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self._spelled())
        tags.input_tags.pairwise = is_pairwise(self._spelled())
        tags.target_tags.multi_output = True
        return tags

    def _spelled(self) -> Any:
        """Return the dictionary as it was given, right or wrong."""
        raise NotImplementedError

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the atoms that the data support.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs; a square matrix where the kernel is "precomputed".
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. Several targets share their atoms, prior variances and noise variance.
        sample_weight : array-like of shape (n_samples,) or None
            Weights; a weight of two equals a row given twice, a weight of zero one left out.

        Returns
        -------
        self
            The fitted estimator.
        """
        check_settings(self)
        dictionary = self._dictionary()
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
        )
        if is_pairwise(dictionary) and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"a precomputed kernel matrix must be square, but X has shape {X.shape}; for "
                "kernels at other centers, fit SparseBayesRegressor(prior='flat') on the matrix."
            )
        rng = _seeded(self.random_state)
        targets = np.asarray(y, dtype=np.float64)
        result = regress(
            _canonical(X),
            targets.reshape(len(targets), -1),
            checked_weights(sample_weight, X.shape[0]),
            dictionary,
            single=targets.ndim == 1,
            fit_intercept=bool(self.fit_intercept),
            prior=self.prior,
            noise_variance=self.noise_variance,
            solve=partial(self._solve, rng),
            last=getattr(self, "_last", None) if self.warm_start else None,
            random_state=rng,
        )
        self._keep(result)
        if result.solution.status is not Status.CONVERGED:
            warnings.warn(
                f"{type(self).__name__}: {result.solution.status.value}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _solve(self, rng: np.random.RandomState, problem: Problem, start: Start | None) -> Solution:
        reporter = _Reporter(type(self).__name__, int(self.verbose)) if self.verbose else None
        settings: dict[str, Any] = {
            "tol": float(self.tol),
            "max_iter": int(self.max_iter),
            # A fit is repeatable unless it is asked not to be.
            "random_state": np.random.RandomState(0) if self.random_state is None else rng,
            "start": start,
            "report": reporter,
        }
        name, _, selection = self.solver.partition("-")
        if name == "sequential":
            solution = sequential.solve(problem, selection=selection or "greedy", **settings)
        else:
            solution = working_set.solve(problem, n_restarts=int(self.n_restarts), **settings)
        if reporter is not None:
            reporter.close(solution)
        return solution

    def _keep(self, result: Regression) -> None:
        solution, posterior = result.solution, result.posterior
        estimated = posterior.noise_variance * posterior.scale**2
        fitted = {
            "noise_variance_": float(self.noise_variance or estimated),
            "log_marginal_likelihood_": result.log_evidence,
            "certificate_": solution.certificate,
            "converged_": solution.converged,
            "n_iter_": solution.n_iter,
        }
        self._restore(posterior, fitted)
        self.solution_ = solution
        self._last = result

    def _restore(self, posterior: Posterior, fitted: dict[str, Any]) -> None:
        """Set the fitted attributes that a posterior determines."""
        self.posterior_ = posterior
        for name, value in fitted.items():
            setattr(self, name, value)
        self.relevance_ = posterior.atoms.index
        self.weights_ = posterior.weights
        self.prior_variance_ = posterior.weight_variance
        self.covariance_ = posterior.covariance
        self.intercept_ = posterior.intercept
        for name in ("coef_", "relevance_vectors_"):
            self.__dict__.pop(name, None)
        if isinstance(posterior.atoms, LinearAtoms):
            coef = np.zeros((posterior.atoms.count, *self.weights_.shape[1:]))
            coef[posterior.atoms.index] = self.weights_
            self.coef_ = coef if coef.ndim == 1 else coef.T
        if hasattr(posterior.atoms, "centers"):
            self.relevance_vectors_ = posterior.atoms.centers

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return _canonical(
            validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        )

    def predict(self, X: ArrayLike, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict the target.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        return_std : bool, default=False
            Whether to return the standard deviation of the target, noise included.
        return_cov : bool, default=False
            Whether to return the covariance of the targets, noise included.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictive mean.
        std : ndarray of the same shape
            Only with ``return_std``.
        cov : ndarray of shape (n_samples, n_samples)
            Only with ``return_cov``; the same for each target.
        """
        if return_std and return_cov:
            raise ValueError("return_std and return_cov cannot both be asked for.")
        X = self._checked(X)
        if return_std:
            return self.posterior_.spread(X, noise=True)
        mean = self.posterior_.predict(X)
        return (mean, self.posterior_.target_covariance(X)) if return_cov else mean

    def predict_distribution(self, X: ArrayLike) -> Normal:
        """Predict the distribution of the target.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        Normal
            With ``mean``, ``std``, ``interval``, ``ppf``, ``cdf``, ``logpdf`` and ``sample``.
        """
        X = self._checked(X)
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
            Whether to add observation noise.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_targets, n_samples)
            Each column is one function, so values in it are correlated as the posterior says.
        """
        if not isinstance(n_samples, numbers.Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an integer >= 1, got {n_samples!r}.")
        X = self._checked(X)
        return self.posterior_.sample(X, int(n_samples), _seeded(random_state), noise=bool(noise))

    def save(self, path: Any) -> None:
        """Write a model file of arrays and JSON; `sparsebayes.load` reads it without running code.

        Parameters
        ----------
        path : str or path
            Where to write; an existing file is replaced.
        """
        from sparsebayes.persistence import save

        save(self, path)


class SparseBayesRegressor(_Fitting):
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
        dictionary, where a flat prior keeps one irrelevant atom in three.
    noise_variance : float or None, default=None
        Variance of the noise; None estimates it.
    solver : {"auto", "working-set", "sequential", "sequential-random", "sequential-cyclic"}, \
default="auto"
        "auto" is "working-set"; "sequential" is Tipping & Faul (2003), for comparison, with the
        greatest increase, a random atom or the next in order as its next move.
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
        Variance of the noise.
    covariance_ : ndarray of shape (n_active, n_active)
        Posterior covariance of the weights.
    log_marginal_likelihood_ : float
        Log evidence, the intercept integrated out with a flat prior.
    certificate_ : Certificate
        ``max_gain``, ``gradient_norm`` and ``max_curvature`` over the whole dictionary.
    converged_ : bool
        Whether the certificate holds to ``tol``.
    n_iter_ : int
        Iterations used.
    solution_ : Solution
        State, status and trace of the fit.
    posterior_ : Posterior
        What predictions need, in units of its own; its size depends on neither the number of
        samples nor that of atoms.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
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
    """

    def __init__(
        self,
        dictionary: Any = "linear",
        *,
        fit_intercept: bool = True,
        prior: Any = "auto",
        noise_variance: float | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        n_restarts: int = 0,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.dictionary = dictionary
        self.fit_intercept = fit_intercept
        self.prior = prior
        self.noise_variance = noise_variance
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _dictionary(self) -> Any:
        if isinstance(self.dictionary, str):
            if self.dictionary != "linear":
                raise ValueError(
                    'dictionary must be "linear" or a dictionary such as Kernel("rbf"), '
                    f"got {self.dictionary!r}."
                )
            return Linear()
        if isinstance(self.dictionary, type) or not hasattr(self.dictionary, "bind"):
            raise TypeError(
                'dictionary must be "linear" or an object of sparsebayes.dictionaries such as '
                f'Kernel("rbf"), got {self.dictionary!r}.'
            )
        return self.dictionary

    def _spelled(self) -> Any:
        return self.dictionary


class RVR(_Fitting):
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
    gamma : float, array-like of shape (n_features,), "scale" or "auto", default="scale"
        Inverse squared width, for all inputs or for each; "scale" is 1 / (n_features * X.var()).
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    kernel_params : dict or None, default=None
        Further parameters of a callable or a scikit-learn kernel.
    centers : None, int or array-like of shape (n_centers, n_features), default=None
        Where kernels sit: the training rows, that many k-means centers, or these points.
    fit_intercept, prior, noise_variance, solver, tol, max_iter, n_restarts, warm_start, \
random_state, verbose
        As in `SparseBayesRegressor`; here prior="auto" is "flat".

    Attributes
    ----------
    relevance_ : ndarray of shape (n_active,)
        Rows of X (or of the centers) that became relevance vectors.
    relevance_vectors_ : ndarray of shape (n_active, n_features)
        The relevance vectors.
    weights_, prior_variance_, intercept_, noise_variance_, covariance_, log_marginal_likelihood_, \
certificate_, converged_, n_iter_, solution_, posterior_, n_features_in_, feature_names_in_
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
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_params: dict[str, Any] | None = None,
        centers: Any = None,
        fit_intercept: bool = True,
        prior: Any = "auto",
        noise_variance: float | None = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        n_restarts: int = 0,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
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
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_restarts = n_restarts
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _dictionary(self) -> Any:
        return Kernel(
            self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            kernel_params=self.kernel_params,
            centers=self.centers,
        )

    def _spelled(self) -> Any:
        return self._dictionary()


class _Reporter:
    """Prints progress to stderr: every step, or one in half a second, and how it ended."""

    def __init__(self, name: str, verbose: int) -> None:
        self.name = name
        self.interval = 0.0 if verbose > 1 else 0.5
        self.begun = self.last = time.perf_counter()

    def __call__(self, line: Progress) -> None:
        now = time.perf_counter()
        if now - self.last >= self.interval:
            self.last = now
            self._say(
                f"{line.phase:<8}  atoms {line.n_active:5d}  objective {line.objective:14.6f}  "
                f"noise {line.noise_var:9.3g}  best gain {line.max_gain:9.3g}"
            )

    def close(self, solution: Solution) -> None:
        """Say how the fit ended."""
        self._say(
            f"{solution.state.active.size} atoms, {solution.n_iter} iterations, "
            f"{solution.status.value}"
        )

    def _say(self, text: str) -> None:
        spent = time.perf_counter() - self.begun
        print(f"[{self.name}] {spent:7.1f} s  {text}", file=sys.stderr)


def _seeded(random_state: Any) -> np.random.RandomState:
    try:
        rng: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise ValueError(
            f"random_state must be None, an integer or a RandomState, got {random_state!r}."
        ) from None
    return rng


def _canonical(X: Any) -> Any:
    """Sum entries of a sparse matrix that were stored in parts; never in the user's own copy."""
    if is_sparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
