"""Models that grow: rows come a few at a time, and models of different rows are merged."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from sparsebayes._conclusions import Regression
from sparsebayes._counting import is_bound
from sparsebayes._kernel_report import relevance_of
from sparsebayes._memory import Budget, resolve_memory
from sparsebayes._sameness import first_difference, same
from sparsebayes._samples import check_total_weight, weights_of_some
from sparsebayes._settings import check_settings
from sparsebayes._sum_regression import regress_sums
from sparsebayes.design import STORED_BYTES
from sparsebayes.dictionaries import Atoms
from sparsebayes.estimators._base import Fitting, seeded
from sparsebayes.estimators._streaming import open_rows
from sparsebayes.fit.widths import learns
from sparsebayes.problem import Solution
from sparsebayes.rows.blocks import Rows, weighted_rows
from sparsebayes.rows.dask_rows import is_dask
from sparsebayes.rows.local import LocalRows, cores
from sparsebayes.rows.sources import is_streamed
from sparsebayes.rows.sufficient import Sufficient, SufficientStatistics

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["Growing"]

# How a fit is run, and not what it is of: two models may differ in it and be merged.
_FREE = (
    "callback",
    "checkpoint",
    "max_iter",
    "memory",
    "n_restarts",
    "on_interrupt",
    "random_state",
    "resume",
    "screened",
    "verbose",
    "warm_start",
)
_ENOUGH = 2  # rows, weights counted, that a fit needs
_MATRICES = 3  # of all pairs of atoms that each thread holds, and that are held besides


@dataclass(frozen=True)
class Seen:
    """What is kept of the rows that were seen."""

    dictionary: Any  # as it was then
    atoms: Atoms
    statistics: SufficientStatistics


def _grows(model: Any) -> bool:
    """Whether rows can be added to a model; an AttributeError that says why not."""
    if not (isinstance(model.likelihood, str) and model.likelihood == "gaussian"):
        raise AttributeError(
            "sums over rows are all that a fit needs where the likelihood is 'gaussian', and only "
            f"there; this one has likelihood={model.likelihood!r}"
        )
    if not is_bound(model._spelled()):
        raise AttributeError(
            "rows can be added where atoms do not depend on them: linear ones, or kernels with "
            "gamma=<number> and centers=<array>"
        )
    return True


def _where_rows_add_up(method: Callable[P, R]) -> Callable[P, R]:
    """Let estimators have a method only where that is so."""
    found: Callable[P, R] = available_if(_grows)(method)
    return found


class Growing(Fitting):
    """Adds `partial_fit` and `merge` to a regressor."""

    _seen: Seen | None  # the sums that were accumulated

    @_where_rows_add_up
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those seen before, and fit all of them.

        The model is the one that `fit` would find on all rows together, however they are divided
        into calls. Rows are not kept: sums over them are, which take 8 M^2 bytes for M atoms, and
        several times that while some are added. `fit` forgets them, and after it `partial_fit`
        begins anew. Parameters other than those of the dictionary may be changed between calls.

        For Gaussian noise, and atoms that do not depend on the data: linear ones, kernels with a
        number for ``gamma`` and an array of ``centers``, unions of these, and dictionaries of
        your own that have an attribute ``bound = True``.

        Parameters
        ----------
        X : array-like, scipy.sparse matrix, or rows to be read, of shape (n_samples, n_features)
            Inputs of further rows, of all kinds that `fit` takes; one row is enough.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or names of columns
            Their targets, as in `fit`.
        sample_weight : array-like of shape (n_samples,) or None
            Their weights, as in `fit`; their sum may be small.

        Returns
        -------
        self
            The estimator, fitted once the weights of all rows sum to two.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsebayes import SparseBayesRegressor
        >>> X = np.random.default_rng(0).normal(size=(90, 5))
        >>> y = 1 + 2 * X[:, 3]
        >>> model = SparseBayesRegressor(noise_variance=0.01)
        >>> for rows in np.split(np.arange(90), 3):
        ...     model = model.partial_fit(X[rows], y[rows])
        >>> model.relevance_, model.weights_.round(2), model.n_samples_seen_
        (array([3]), array([2.]), 90)
        """
        check_settings(self)
        self._refuse_what_sums_do_not_have()
        seen = self._known()
        dictionary = self._dictionary()
        if seen is not None:
            _check_dictionary(seen, dictionary)
        if is_dask(X) or is_streamed(X):
            rows = self._opened_rows(X, y, sample_weight, seen is None)
        else:
            _, X, y = self._checked_pair(
                X, y, multi_output=True, y_numeric=True, ensure_min_samples=1, reset=seen is None
            )
            weights = weights_of_some(sample_weight, X.shape[0])
            if weights is not None and not weights.any():
                if seen is None:
                    check_total_weight(0.0)
                return self
            rows, _ = open_rows(X, np.asarray(y, dtype=np.float64), weights, self._budget())
        atoms = self._bound_atoms(dictionary, rows.n_features) if seen is None else seen.atoms
        added = self._summed(rows, atoms)
        if seen is None:
            seen = Seen(copy.deepcopy(dictionary), atoms, added)
        else:
            _check_targets(seen, added)
            seen = replace(seen, statistics=added.plus(seen.statistics))
        solution = self._refit(seen)
        if solution is not None:
            self._warn(solution)
        return self

    @_where_rows_add_up
    def merge(self, other: Any) -> Self:
        """Add the rows that another model has seen, and fit all of them.

        Both models must have been fitted by `partial_fit`, with the same parameters. The result is
        that of one model that has seen all rows; neither their order nor that of merges matters,
        but for rounding.

        Parameters
        ----------
        other : estimator
            A model of the same class, which is not changed. It may come from a pickle, which holds
            its sums; a model file does not.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsebayes import SparseBayesRegressor
        >>> X = np.random.default_rng(0).normal(size=(90, 5))
        >>> y = 1 + 2 * X[:, 3]
        >>> one, two = (SparseBayesRegressor(noise_variance=0.01) for _ in range(2))
        >>> one = one.partial_fit(X[:60], y[:60])
        >>> one.merge(two.partial_fit(X[60:], y[60:])).n_samples_seen_
        90
        """
        check_settings(self)
        self._refuse_what_sums_do_not_have()
        if type(other) is not type(self):
            raise TypeError(
                f"merge takes another {type(self).__name__}, got {type(other).__name__}."
            )
        if other is self:
            raise ValueError("a model cannot be merged with itself: its rows would count twice.")
        mine, yours = self._known(), getattr(other, "_seen", None)
        if mine is None or yours is None:
            whose = "this model" if mine is None else "the other one"
            raise ValueError(
                f"merge adds sums over rows, and {whose} has none: only partial_fit keeps them, "
                "and pickles do, but neither fit nor model files."
            )
        _check_dictionary(mine, self._dictionary())
        self._check_twin(other, mine, yours)
        both = mine.statistics.joined(yours.statistics)
        solution = self._refit(replace(mine, statistics=both))
        if solution is not None:
            self._warn(solution)
        return self

    def _refit(self, seen: Seen) -> Solution | None:
        """Fit what was seen, if it is enough; nothing of the model is changed if that fails."""
        solution = None
        if seen.statistics.total >= _ENOUGH:
            rng, reporter = seeded(self.random_state), self._reporter(noise=True)
            last = getattr(self, "_last", None)
            result = regress_sums(
                seen.statistics,
                seen.atoms,
                seen.dictionary,
                fit_intercept=bool(self.fit_intercept),
                prior=self.prior,
                noise_variance=self.noise_variance,
                noise_prior=self.noise_prior,
                solve=partial(self._solve, rng, reporter),
                last=last if self.warm_start and isinstance(last, Regression) else None,
            )
            solution = result.solution
            variances = seen.statistics.inputs.variance
            self._keep_regression(result, relevance_of(result.posterior.atoms, variances))
            if reporter is not None:
                reporter.close(solution)
        self._seen = seen
        self.n_samples_seen_ = seen.statistics.rows
        return solution

    def _known(self) -> Seen | None:
        seen: Seen | None = getattr(self, "_seen", None)
        if seen is None and hasattr(self, "posterior_") and not hasattr(self, "solution_"):
            raise ValueError(
                "this model was read from a file, which holds no sums over rows: nothing can be "
                "added to it. Pickle a model that shall go on, or begin anew with a clone of it."
            )
        return seen

    def _refuse_what_sums_do_not_have(self) -> None:
        if self.solver == "orthonormal":
            raise ValueError(
                "solver='orthonormal' does not apply: atoms that do not depend on the data are not "
                "orthonormal on them; use solver='auto'."
            )

    def _budget(self) -> Budget:
        return Budget(STORED_BYTES if self.memory is None else resolve_memory(self.memory), cores())

    def _opened_rows(self, X: Any, y: Any, sample_weight: Any, first: bool) -> Rows:
        """Rows to be read piece by piece, whose inputs are those of the first ones."""
        rows, names = open_rows(X, y, sample_weight, self._budget())
        if first:
            self.n_features_in_ = rows.n_features
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = np.asarray(names, dtype=object)
            return rows
        if rows.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {rows.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        before = getattr(self, "feature_names_in_", None)
        if names is not None and before is not None and list(names) != list(before):
            raise ValueError(
                f"the inputs are named {', '.join(names)}, but those of the first rows "
                f"{', '.join(before)}."
            )
        return rows

    def _bound_atoms(self, dictionary: Any, n_features: int) -> Atoms:
        """Atoms of a dictionary that asks no more of data than how many inputs there are."""
        atoms: Atoms = dictionary.bind(np.zeros((1, n_features)))
        if learns(atoms):
            raise ValueError(
                "parameters of kernels cannot be learned from sums over rows: fit some thousand "
                "rows first, and give the widths that were found."
            )
        memory = self._budget().memory
        if _MATRICES * 2 * 8 * atoms.size**2 > memory:
            raise ValueError(
                f"the products of {atoms.size} atoms with each other take {8 * atoms.size**2:.1e} "
                f"bytes, and six times that is more than {memory:.1e}: set memory, use fewer "
                "centers, or give all rows to fit."
            )
        return atoms

    def _summed(self, rows: Rows, atoms: Atoms) -> SufficientStatistics:
        """Sums over rows, by as many threads as there is memory for their matrices."""
        if isinstance(rows, LocalRows):
            matrices = self._budget().memory // (8 * max(atoms.size, 1) ** 2)
            most = max(1, matrices // _MATRICES - 1)
            rows = replace(rows, threads=min(rows.threads, most))
        found: SufficientStatistics = rows.mapped(weighted_rows).fold(Sufficient(atoms))
        return found

    def _check_twin(self, other: Any, mine: Seen, yours: Seen) -> None:
        """Refuse a model of something else, by the name of what differs."""
        if not same(mine.dictionary, yours.dictionary):
            differs = _named_difference(mine.dictionary, yours.dictionary)
            raise ValueError(f"models that differ in {differs} cannot be merged.")
        made_of = {"dictionary", *getattr(mine.dictionary, "get_params", dict)()}
        free = made_of.union(_FREE)
        pairs: list[dict[str, Any]] = []
        for model, seen in ((self, mine), (other, yours)):
            parameters = model.get_params(deep=False)
            kept = {name: value for name, value in parameters.items() if name not in free}
            names = getattr(model, "feature_names_in_", None)
            kept["the number of features"] = int(model.n_features_in_)
            kept["the names of features"] = None if names is None else list(names)
            kept["targets"] = _named_targets(seen.statistics)
            pairs.append(kept)
        difference = first_difference(*pairs)
        if difference is not None:
            raise ValueError(f"models that differ in {difference} cannot be merged.")


def _named_difference(one: Any, other: Any) -> str:
    """What differs between two dictionaries."""
    if type(one) is type(other) and hasattr(one, "get_params"):
        return first_difference(one.get_params(deep=False), other.get_params(deep=False)) or (
            "its parameters"
        )
    return f"the dictionary ({type(one).__name__} and {type(other).__name__})"


def _check_dictionary(seen: Seen, dictionary: Any) -> None:
    if not same(dictionary, seen.dictionary):
        raise ValueError(
            f"the dictionary has changed since the first rows were seen, in "
            f"{_named_difference(seen.dictionary, dictionary)}: sums over rows are of its atoms. "
            "Begin anew with a clone of the model."
        )


def _check_targets(seen: Seen, added: SufficientStatistics) -> None:
    before = seen.statistics
    if (added.n_targets, added.single) != (before.n_targets, before.single):
        raise ValueError(
            f"y is {_named_targets(added)}, but in the rows seen before it was "
            f"{_named_targets(before)}."
        )


def _named_targets(statistics: SufficientStatistics) -> str:
    return "one-dimensional" if statistics.single else f"of {statistics.n_targets} columns"
