"""What all estimators do; they differ in their targets and in how the dictionary is spelled."""

import sys
import time
import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsebayes._counting import is_pairwise, takes_sparse
from sparsebayes._kernel_report import held_parameters, kernel_attributes
from sparsebayes._latent import Inference, infer
from sparsebayes.core.quadratic import OrthonormalQuadratic
from sparsebayes.dictionaries import Kernel, Linear
from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.dictionaries.linear import LinearAtoms
from sparsebayes.latent_posterior import LatentPosterior
from sparsebayes.likelihoods import Likelihood
from sparsebayes.posterior import Posterior
from sparsebayes.problem import Problem, Progress, Report, Solution, Status
from sparsebayes.rows.checking import holds_dates
from sparsebayes.rows.dask_rows import is_dask
from sparsebayes.rows.sources import is_streamed
from sparsebayes.solvers import joint, orthonormal, relinearize, search, sequential
from sparsebayes.solvers.expand import LatentProblem

FloatArray = NDArray[np.float64]

__all__ = ["Fitting", "OnDictionary", "OnKernel", "Reporter", "linear_atoms", "seeded"]


class Fitting(BaseEstimator):
    """Checks of X, the call of a solver, what is kept of a fit, model files."""

    _last: Any  # the last fit, for a warm start
    _last_kind: tuple[int, bool]

    def _dictionary(self) -> Any:
        raise NotImplementedError

    def _spelled(self) -> Any:
        """Return the dictionary as it was given, right or wrong."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self._spelled())
        tags.input_tags.pairwise = is_pairwise(self._spelled())
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def _checked_pair(self, X: Any, y: Any, **rules: Any) -> tuple[Any, Any, Any]:
        """Return the dictionary, X and y, as a fit may take them."""
        dictionary = self._dictionary()
        _refuse_dates(X, "X")
        if rules.get("y_numeric"):
            _refuse_dates(y, "y")
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            **{"ensure_min_samples": 2} | rules,
        )
        if is_pairwise(dictionary) and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"a precomputed kernel matrix must be square, but X has shape {X.shape}; for "
                "kernels at other centers, fit SparseBayesRegressor or SparseBayesClassifier with "
                "prior='flat' on the matrix."
            )
        return dictionary, _canonical(X), _numbers(y) if rules.get("y_numeric") else y

    def _checked(self, X: Any) -> Any:
        """X as predictions take it."""
        if self._is_plain(X):
            return X
        check_is_fitted(self)
        if is_dask(X):
            raise TypeError(
                "X must be in memory here; predict, predict_proba, predict_log_proba and "
                "decision_function also take collections of Dask."
            )
        if is_streamed(X) and not hasattr(X, "shape"):
            raise TypeError(
                "X must be an array here, or a collection of Dask: give the rows of files and of "
                "chunks a piece at a time, as in predict(pandas.read_parquet(part)[names])."
            )
        _refuse_dates(X, "X")
        return _canonical(
            validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        )

    def _is_plain(self, X: Any) -> bool:
        """Whether X is what `validate_data` would return: its looks take longer than few rows."""
        if type(X) is not np.ndarray or X.dtype != np.float64 or X.ndim != 2 or not X.size:
            return False
        if not X.flags.c_contiguous or getattr(self, "n_features_in_", None) != X.shape[1]:
            return False
        if not hasattr(self, "posterior_") or hasattr(self, "feature_names_in_"):
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(X.sum()))

    def _solver_settings(self, rng: np.random.RandomState, reporter: Any) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "tol": float(self.tol),
            "max_iter": int(self.max_iter),
            # A fit is repeatable unless it is asked not to be.
            "random_state": np.random.RandomState(0) if self.random_state is None else rng,
            "report": reporter,
        }
        name, _, selection = self.solver.partition("-")
        if name == "sequential":
            return settings | {"selection": selection or "greedy"}
        if name in joint.UPDATES:
            return settings | {"update": name}
        return settings | {"n_restarts": int(self.n_restarts)}

    def _reporter(self, *, noise: bool) -> "Reporter | None":
        return Reporter(type(self).__name__, int(self.verbose), noise) if self.verbose else None

    def _infer(
        self,
        X: Any,
        t: FloatArray,
        weights: FloatArray | None,
        dictionary: Any,
        likelihood: Likelihood,
        shared: bool = False,
    ) -> Inference:
        """Fit latent functions; warm if the last fit was one of the same kind."""
        rng, reporter = seeded(self.random_state), self._reporter(noise=False)
        kind = (likelihood.n_latent, shared)
        last = getattr(self, "_last", None)
        warm = self.warm_start and isinstance(last, Inference) and self._last_kind == kind
        result = infer(
            X,
            t,
            weights,
            dictionary,
            likelihood=likelihood,
            shared=shared,
            fit_intercept=bool(self.fit_intercept),
            prior=self.prior,
            solve=partial(self._solve, rng, reporter),
            last=last if warm else None,
            random_state=rng,
            tol=float(self.tol),
        )
        self._last, self._last_kind = result, kind
        if reporter is not None:
            reporter.close(result.solution)
        return result

    def _solve(
        self,
        rng: np.random.RandomState,
        reporter: Report | None,
        problem: Problem | LatentProblem,
        start: Any,
    ) -> Solution:
        """Solve a problem, from the start that its solver takes or from none."""
        settings = self._solver_settings(rng, reporter)
        solver: Any = relinearize if isinstance(problem, LatentProblem) else search
        if "selection" in settings:
            solver = sequential
        elif "update" in settings:
            solver = joint
        if isinstance(problem, Problem) and isinstance(problem.quad, OrthonormalQuadratic):
            solver = orthonormal
            del settings["n_restarts"]
        solution: Solution = solver.solve(problem, start=start, **settings)
        return solution

    def _keep(
        self,
        solution: Solution,
        posterior: Any,
        fitted: dict[str, Any],
        relevance: FloatArray | None,
    ) -> None:
        if relevance is not None:
            fitted = fitted | {"feature_relevance_": relevance}
        self._restore(
            posterior,
            fitted
            | {
                "degrees_of_freedom_": float(solution.state.dof.sum()),
                "certificate_": solution.certificate,
                "converged_": solution.converged,
                "n_iter_": solution.n_iter,
            },
        )
        self.solution_ = solution

    def _restore(self, posterior: Any, fitted: dict[str, Any]) -> None:
        """Set the fitted attributes that a posterior determines."""
        for name in ("gamma_", "kernel_", "feature_relevance_"):
            self.__dict__.pop(name, None)  # of another fit
        self.posterior_ = posterior
        for name, value in (fitted | kernel_attributes(posterior.atoms)).items():
            setattr(self, name, value)

    def _warn(self, solution: Solution) -> None:
        if solution.status is not Status.CONVERGED:
            warnings.warn(
                f"{type(self).__name__}: {solution.status.value}",
                ConvergenceWarning,
                stacklevel=3,
            )
        if solution.held:
            warnings.warn(
                f"{type(self).__name__}: {held_parameters(solution.held)}",
                ConvergenceWarning,
                stacklevel=3,
            )

    def save(self, path: Any) -> None:
        """Write a model file of arrays and JSON; `sparsebayes.load` reads it without running code.

        Parameters
        ----------
        path : str or path
            Where to write; an existing file is replaced.
        """
        from sparsebayes.persistence import save

        save(self, path)

    def report(
        self,
        X_test: Any = None,
        y_test: Any = None,
        *,
        path: Any = None,
        title: str | None = None,
        notes: Iterable[str] = (),
        training: Any = None,
    ) -> Any:
        """Report what was fitted, how good it is on held-out data, and what to watch out for.

        Parameters
        ----------
        X_test : array-like or scipy.sparse matrix of shape (n_samples, n_features) or None
            Rows that the model was not fitted to.
        y_test : array-like of shape (n_samples,) or (n_samples, n_targets) or None
            Their targets.
        path : str, path or None, default=None
            Where to write the report; None does not write it.
        title : str or None, default=None
            Title of the report.
        notes : iterable of str, default=()
            Sentences about what was done to the data before, shown near the top.
        training : (X, y) or None, default=None
            The data that the model was fitted to, for a report that compares held-out rows with
            them. Kernel regressions that were fitted in this process know theirs.

        Returns
        -------
        sparsebayes.reporting.Report
            One HTML document, which notebooks show; ``save(path)`` writes it.
        """
        from sparsebayes.reporting import make_report

        found = make_report(self, X_test, y_test, title=title, notes=notes, training=training)
        if path is not None:
            found.save(path)
        return found


class OnDictionary(Fitting):
    """An estimator whose dictionary is a parameter."""

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


class OnKernel(Fitting):
    """An estimator whose parameters are those of one kernel."""

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


class Reporter:
    """Prints progress to stderr: every step, or one in half a second, and how it ended."""

    def __init__(self, name: str, verbose: int, noise: bool) -> None:
        self.name, self.noise = name, noise
        self.interval = 0.0 if verbose > 1 else 0.5
        self.begun = self.last = time.perf_counter()

    def __call__(self, line: Progress) -> None:
        now = time.perf_counter()
        if now - self.last >= self.interval:
            self.last = now
            noise = f"noise {line.noise_var:9.3g}  " if self.noise else ""
            known = not np.isnan(line.max_gain)
            gain = f"best gain {line.max_gain:9.3g}" if known else ""
            self._say(
                f"{line.phase:<8}  atoms {line.n_active:5d}  objective {line.objective:14.6f}  "
                f"{noise}{gain}".rstrip()
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


def linear_atoms(model: Any) -> LinearAtoms:
    """The columns of X in a fitted model, for ``coef_``, which other models do not have."""
    posterior = getattr(model, "posterior_", None)
    if not isinstance(posterior, Posterior | LatentPosterior):
        raise AttributeError(f"this {type(model).__name__} is not fitted yet")
    if not isinstance(posterior.atoms, LinearAtoms):
        raise AttributeError(f"this {type(model).__name__} has no coef_: its atoms are no columns")
    return posterior.atoms


def seeded(random_state: Any) -> np.random.RandomState:
    """Source of randomness that a parameter stands for."""
    try:
        rng: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise ValueError(
            f"random_state must be None, an integer or a RandomState, got {random_state!r}."
        ) from None
    return rng


def _numbers(y: Any) -> FloatArray:
    """Targets as finite floats: objects and text, which hold some, were not looked into before."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be numbers: {error}.") from None
    assert_all_finite(numbers, input_name="y")
    return numbers


def _refuse_dates(values: Any, what: str) -> None:
    if holds_dates(values):
        raise ValueError(
            f"{what} must be numbers, but holds dates or times: make numbers of them, such as days "
            "since the first."
        )


def _canonical(X: Any) -> Any:
    """Sum entries of a sparse matrix that were stored in parts; never in the user's own copy."""
    if is_sparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
