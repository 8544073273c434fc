"""Estimators: the only file that knows scikit-learn's rules."""

import numbers
import sys
import time
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsebayes._threads import one_lapack_thread
from sparsebayes.design import make_design
from sparsebayes.dictionaries import Atoms, Bias, Kernel, Linear, Union
from sparsebayes.dictionaries.linear import LinearAtoms
from sparsebayes.engine import inverse_factor
from sparsebayes.hyperpriors import Flat, Hyperprior, Smoothness
from sparsebayes.posterior import Posterior
from sparsebayes.predictive import Normal
from sparsebayes.problem import Problem, Progress, Solution, Status
from sparsebayes.quadratic import DesignQuadratic
from sparsebayes.solvers import sequential, working_set

FloatArray = NDArray[np.float64]

__all__ = ["RVR", "SparseBayesRegressor"]

_PRIORS = ("auto", "flat", "aic", "bic", "ric")
_SOLVERS = ("auto", "working-set", "sequential")
_LATER_SOLVERS = ("em", "mackay", "orthonormal")


class _Fitting(RegressorMixin, BaseEstimator):
    """What both regressors do; they differ in how the dictionary is spelled."""

    def _dictionary(self) -> Any:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the atoms that the data support.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. Several targets share their atoms, prior variances and noise variance.
        sample_weight : array-like of shape (n_samples,) or None
            Weights; a weight of two equals a row given twice, a weight of zero one left out.

        Returns
        -------
        self
            The fitted estimator.
        """
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
        self._check_parameters()
        targets = np.asarray(y, dtype=np.float64)
        single = targets.ndim == 1
        targets = targets[:, None] if single else targets
        weights = _checked_weights(sample_weight, X.shape[0])
        rows = None if weights is None else np.flatnonzero(weights > 0)
        if weights is not None and rows is not None and rows.size < weights.size:
            X, targets, weights = X[rows], targets[rows], weights[rows]
        else:
            rows = None

        rng = check_random_state(self.random_state)
        dictionary = self._dictionary()
        atoms = dictionary.bind(X, sample_weight=weights, random_state=rng)
        t, shift, scale = _standardized(targets, weights, self.fit_intercept)
        with one_lapack_thread():
            quad = DesignQuadratic(make_design(atoms, X), t, weights, center=self.fit_intercept)
            n = float(X.shape[0] if weights is None else weights.sum())
            hyperprior = _resolve_prior(self.prior, dictionary, n, int((quad.diag > 0).sum()))
            noise_var = None if self.noise_variance is None else self.noise_variance / scale**2
            problem = Problem(quad, hyperprior, noise_var)
            solution = self._solve(problem, rng, scale)
        self._keep(solution, quad, atoms, rows, shift, scale, single)
        if solution.status is not Status.CONVERGED:
            warnings.warn(
                f"{type(self).__name__}: {solution.status.value}", ConvergenceWarning, stacklevel=2
            )
        return self

    def _check_parameters(self) -> None:
        if self.noise_variance is not None and not (
            isinstance(self.noise_variance, numbers.Real)
            and np.isfinite(self.noise_variance)
            and self.noise_variance > 0
        ):
            raise ValueError(
                f"noise_variance must be None (estimated) or a number > 0, got {self.noise_variance!r}."
            )
        if self.solver in _LATER_SOLVERS:
            raise ValueError(
                f"solver={self.solver!r} is not available in this version: use one of {_SOLVERS}."
            )
        if self.solver not in _SOLVERS:
            raise ValueError(f"solver must be one of {_SOLVERS}, got {self.solver!r}.")
        if not (isinstance(self.tol, numbers.Real) and 0 < self.tol < np.inf):
            raise ValueError(f"tol must be a number > 0, got {self.tol!r}.")
        for name, least in (("max_iter", 1), ("n_restarts", 0)):
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or value < least:
                raise ValueError(f"{name} must be an integer >= {least}, got {value!r}.")

    def _solve(self, problem: Problem, rng: np.random.RandomState, scale: float) -> Solution:
        start = self._warm(problem, scale) if self.warm_start else None
        settings: dict[str, Any] = {
            "tol": float(self.tol),
            "max_iter": int(self.max_iter),
            "random_state": rng,
            "start": start,
            "report": _Reporter(type(self).__name__, int(self.verbose)) if self.verbose else None,
        }
        if self.solver == "sequential":
            return sequential.solve(problem, **settings)
        return working_set.solve(problem, n_restarts=int(self.n_restarts), **settings)

    def _warm(
        self, problem: Problem, scale: float
    ) -> tuple[NDArray[np.intp], FloatArray, float] | None:
        """Active atoms, variances and noise of the last fit, if the dictionary is of the same size."""
        last: Solution | None = getattr(self, "solution_", None)
        size = getattr(self, "_size", None)
        if last is None or size != problem.quad.size or not last.state.active.size:
            return None
        change = (self._scale / scale) ** 2
        usable = problem.quad.diag[last.state.active] > 0
        return (
            last.state.active[usable],
            last.state.v[usable] * change,
            last.state.noise_var * change,
        )

    def _keep(
        self,
        solution: Solution,
        quad: DesignQuadratic,
        atoms: Atoms,
        rows: NDArray[np.intp] | None,
        shift: FloatArray,
        scale: float,
        single: bool,
    ) -> None:
        """Store the solution in the users' units, ordered as their dictionary is."""
        state = solution.state
        order = np.argsort(atoms.index[state.active], kind="stable")
        active = state.active[order]
        # Sigma = V^(1/2) W V^(1/2) with W = L^-T L^-1.
        root = np.sqrt(state.v)[:, None] * inverse_factor(state.white).T
        total = quad.n + 1.0
        posterior = Posterior(
            atoms=atoms.restrict(active),
            norm=quad.norm[active],
            center=quad.mean[active],
            mean=state.mu[order],
            root=root[order],
            prior_variance=state.v[order],
            offset=shift + scale * quad.offset,
            offset_variance=state.noise_var / total if self.fit_intercept else 0.0,
            noise_variance=state.noise_var,
            scale=scale,
            single=single,
        )
        n_targets = quad.g.shape[1]
        evidence = solution.log_evidence - n_targets * quad.n * np.log(scale)
        fitted = {
            "noise_variance_": state.noise_var * scale**2,
            "log_marginal_likelihood_": float(evidence),
            "certificate_": solution.certificate,
            "converged_": solution.converged,
            "n_iter_": solution.n_iter,
        }
        self._restore(posterior, fitted)
        index = posterior.atoms.index
        self.relevance_ = index if rows is None else _original(index, atoms, rows)
        self.solution_ = solution
        self._scale, self._size = scale, quad.size

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
        return validate_data(
            self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False
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
        posterior = self.posterior_
        mean, variance = posterior.predict(X, variance=return_std)
        if return_std and variance is not None:
            std = posterior.scale * np.sqrt(variance + posterior.noise_variance)
            return mean, std if mean.ndim == 1 else np.repeat(std[:, None], mean.shape[1], axis=1)
        if return_cov:
            half = posterior.half_covariance(X)
            cov = half @ half.T
            cov.flat[:: len(cov) + 1] += posterior.noise_variance
            return mean, cov * posterior.scale**2
        return mean

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
        posterior = self.posterior_
        mean, variance = posterior.predict(X, variance=True)
        spread = np.zeros(len(mean)) if variance is None else variance
        function = posterior.scale * np.sqrt(spread)
        target = posterior.scale * np.sqrt(spread + posterior.noise_variance)
        if mean.ndim == 2:
            function, target = (np.broadcast_to(a[:, None], mean.shape) for a in (function, target))
        return Normal(mean, target, function)

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
        X = self._checked(X)
        posterior = self.posterior_
        mean, _ = posterior.predict(X, variance=False)
        half = posterior.half_covariance(X)
        rng = check_random_state(random_state)
        shape = (half.shape[1], *mean.shape[1:], n_samples)
        draws = np.tensordot(half, rng.standard_normal(shape), axes=1)
        if noise:
            draws += np.sqrt(posterior.noise_variance) * rng.standard_normal(draws.shape)
        return np.asarray(mean[..., None] + posterior.scale * draws)

    def save(self, path: Any) -> None:
        """Write a model file of arrays and JSON, which `sparsebayes.load` reads without running code.

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
        freedom: "aic" 1, "bic" log(n_samples) / 2, "ric" log(number of atoms). "auto" is "flat", the
        relevance vector machine of the papers, for kernels, and "ric" for every other dictionary,
        where a flat prior keeps one irrelevant atom in three.
    noise_variance : float or None, default=None
        Variance of the noise; None estimates it.
    solver : {"auto", "working-set", "sequential"}, default="auto"
        "auto" is "working-set"; "sequential" is Tipping & Faul (2003), for comparison.
    tol : float, default=1e-6
        Gain, in nats, that the certificate may leave on the table.
    max_iter : int, default=10_000
        Most iterations.
    n_restarts : int, default=0
        Further random searches for a better optimum (working-set solver).
    warm_start : bool, default=False
        Whether ``fit`` starts from the last solution, if the dictionary has the same number of atoms.
    random_state : int, RandomState or None, default=None
        For k-means centers and restarts.
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
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes import SparseBayesRegressor
    >>> rng = np.random.default_rng(0)
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


class RVR(_Fitting):
    """Relevance vector regression, spelled as scikit-learn's SVR.

    A kernel is centered at every training row (or at ``centers``); the fit keeps the few that the data
    support, the relevance vectors, estimates the noise and gives error bars.

    Parameters
    ----------
    kernel : str, callable or kernel object, default="rbf"
        "rbf", "laplacian", "poly", "sigmoid", "linear", "lspline", "tps", any name that
        scikit-learn's ``pairwise_kernels`` knows, "precomputed", a function ``K(X, Z)``, or an object of
        ``sklearn.gaussian_process.kernels``. It need not be positive definite.
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
    fit_intercept, prior, noise_variance, solver, tol, max_iter, n_restarts, warm_start, random_state, \
verbose
        As in `SparseBayesRegressor`; here prior="auto" is "flat".

    Attributes
    ----------
    relevance_ : ndarray of shape (n_active,)
        Rows of X (or of the centers) that became relevance vectors.
    relevance_vectors_ : ndarray of shape (n_active, n_features)
        The relevance vectors.
    weights_, prior_variance_, intercept_, noise_variance_, covariance_, log_marginal_likelihood_, \
certificate_, converged_, n_iter_, solution_, n_features_in_, feature_names_in_
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags


class _Reporter:
    """Prints progress to stderr: every step, or one in half a second."""

    def __init__(self, name: str, verbose: int) -> None:
        self.name = name
        self.interval = 0.0 if verbose > 1 else 0.5
        self.begun = self.last = time.perf_counter()

    def __call__(self, line: Progress) -> None:
        now = time.perf_counter()
        if now - self.last >= self.interval or line.phase == "certify":
            self.last = now
            print(
                f"[{self.name}] {now - self.begun:7.1f} s  {line.phase:<8}  atoms {line.n_active:5d}  "
                f"objective {line.objective:14.6f}  noise {line.noise_var:9.3g}  "
                f"best gain {line.max_gain:9.3g}",
                file=sys.stderr,
            )


def _checked_weights(sample_weight: ArrayLike | None, n: int) -> FloatArray | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight.shape == {weights.shape}, expected ({n},): one weight for each row of X."
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    if not (weights > 0).any():
        raise ValueError("sample_weight is zero for every sample: nothing is left to fit.")
    return None if (weights == 1).all() else weights


def _standardized(
    targets: FloatArray, weights: FloatArray | None, center: bool
) -> tuple[FloatArray, FloatArray, float]:
    """Targets about their mean (with an intercept), in a unit of their own size.

    The unit is a power of two, so nothing is rounded; targets of 1e150 and 1e-150 look alike to
    the engine.
    """
    peak = float(np.abs(targets).max(initial=0.0))
    shift = np.zeros(targets.shape[1])
    t = targets
    if center and peak > 0:
        unit = _power_of_two(peak)
        shift = np.average(targets / unit, axis=0, weights=weights) * unit
        t = targets - shift
        if np.abs(t).max() <= 4 * np.finfo(float).eps * peak:  # constant up to rounding
            t = np.zeros_like(t)
    spread = float(np.abs(t).max(initial=0.0))
    scale = _power_of_two(spread or peak or 1.0)
    return t / scale, shift, scale


def _power_of_two(value: float) -> float:
    return float(2.0 ** np.clip(np.frexp(value)[1], -1000, 1000))


def _resolve_prior(prior: Any, dictionary: Any, n: float, m: int) -> Hyperprior:
    """Turn the parameter ``prior`` into a hyperprior, for N samples and M atoms."""
    if isinstance(prior, str):
        if prior not in _PRIORS:
            raise ValueError(f"prior must be one of {_PRIORS}, a number or a hyperprior, got {prior!r}.")
        if prior == "auto":
            prior = "flat" if _is_kernel_machine(dictionary) else "ric"
        if prior == "flat":
            return Flat()
        price = {"aic": 1.0, "bic": 0.5 * np.log(max(n, 1.0)), "ric": np.log(max(m, 1))}[prior]
        return Smoothness(float(price))
    if isinstance(prior, numbers.Real) and not isinstance(prior, bool):
        return Smoothness(float(prior))
    if isinstance(prior, Hyperprior) and not isinstance(prior, type):
        return prior
    raise TypeError(f"prior must be one of {_PRIORS}, a number or a hyperprior, got {prior!r}.")


def _is_kernel_machine(dictionary: Any) -> bool:
    parts = dictionary.parts if isinstance(dictionary, Union) else [dictionary]
    kinds = [part for part in parts if not isinstance(part, Bias)]
    return bool(kinds) and all(isinstance(part, Kernel) for part in kinds)


def _original(index: NDArray[np.intp], atoms: Atoms, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Positions among all rows, where rows of weight zero were left out before binding."""
    return rows[index] if atoms.count == rows.size and hasattr(atoms, "centers") else index
