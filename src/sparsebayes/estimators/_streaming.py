"""Fits of rows that are read piece by piece: from files, from chunks, from other machines."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._counting import n_kernel_atoms
from sparsebayes._journey import Journey
from sparsebayes._latent import Inference
from sparsebayes._memory import Budget, resolve_memory
from sparsebayes._row_latent import infer_rows
from sparsebayes.checkpoints import Checkpoint
from sparsebayes.design import STORED_BYTES
from sparsebayes.estimators._base import Fitting, seeded
from sparsebayes.likelihoods import Likelihood
from sparsebayes.low_rank import is_low_rank
from sparsebayes.progress import Watch
from sparsebayes.rows.blocks import Rows
from sparsebayes.rows.dask_rows import is_dask, open_dask
from sparsebayes.rows.local import LocalRows, cores
from sparsebayes.rows.sources import check_names, is_streamed, open_source
from sparsebayes.rows.summary import Summary

FloatArray = NDArray[np.float64]

__all__ = ["Streaming", "open_rows"]


class Streaming(Fitting):
    """Tells which fits read rows piece by piece, and opens them."""

    def _reads_rows(self, X: Any) -> bool:
        """Whether X is no array in memory, or the fit is asked for what only such a fit can do."""
        asked = (
            self.memory is not None
            or self.checkpoint is not None
            or self.callback is not None
            or self.on_interrupt == "return"
            or self.screened < 1
        )
        mapped = isinstance(X, np.memmap)  # joblib makes these of any array: small ones are arrays
        if asked or is_dask(X) or (is_streamed(X) and not mapped):
            return True
        shape: tuple[Any, ...] = getattr(X, "shape", ())
        if len(shape) != 2 or not isinstance(shape[0], int):
            return False
        n, d = shape
        dictionary = self._spelled()
        width = max(n_kernel_atoms(dictionary, n), d if mapped else 0)
        return bool(8 * n * width > STORED_BYTES) and not is_low_rank(dictionary, X, width)

    def _opened(
        self, X: Any, y: Any, sample_weight: Any, *, numeric_y: bool
    ) -> tuple[Rows, Journey]:
        """Rows, and what a fit of them is told."""
        threads = cores()
        budget = Budget(resolve_memory(self.memory), threads)
        checkpoint = None
        if self.checkpoint is not None:
            checkpoint = Checkpoint(self.checkpoint, bool(self.resume))
        watch = Watch(type(self).__name__, int(self.verbose), self.callback, float(self.tol))
        rows, names = open_rows(X, y, sample_weight, budget, numeric_y=numeric_y)
        rows.meter.listen = watch.read
        self.n_features_in_ = rows.n_features
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        returns = self.on_interrupt == "return"
        parameters = self.get_params()
        return rows, Journey(budget, watch, checkpoint, parameters, returns, float(self.screened))

    def _infer_rows(
        self,
        rows: Rows,
        summary: Summary,
        dictionary: Any,
        journey: Journey,
        likelihood: Likelihood,
        shared: bool = False,
        counts: FloatArray | None = None,
        totals: FloatArray | None = None,
    ) -> Inference:
        """Fit latent functions of rows; warm if the last fit was one of the same kind."""
        rng = seeded(0 if self.random_state is None else self.random_state)
        kind, last = (likelihood.n_latent, shared), getattr(self, "_last", None)
        warm = self.warm_start and isinstance(last, Inference) and self._last_kind == kind
        result = infer_rows(
            rows,
            summary,
            dictionary,
            journey,
            likelihood=likelihood,
            shared=shared,
            counts=counts,
            totals=totals,
            fit_intercept=bool(self.fit_intercept),
            prior=self.prior,
            solver=self.solver,
            solve=partial(self._solve, rng, journey.watch),
            last=last if warm else None,
            random_state=rng,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
        )
        self._last, self._last_kind = result, kind
        journey.watch.close(result.solution)
        return result


def open_rows(
    X: Any, y: Any, sample_weight: Any, budget: Budget, *, numeric_y: bool = True
) -> tuple[Rows, tuple[str, ...] | None]:
    """Rows of what a user has given, wherever they are, and the names of inputs if they have any.

    Parameters
    ----------
    X, y, sample_weight : object
        As given to ``fit``.
    budget : Budget
        What may be held of them at a time, and by how many threads.
    numeric_y : bool, default=True
        Whether targets are numbers, not labels.

    Returns
    -------
    rows : Rows
        Checked when they are read.
    names : tuple of str or None
        Of the columns of X.

    Examples
    --------
    >>> rows, names = open_rows([[1.0], [2.0]], [3.0, 4.0], None, Budget(2**30, 1))
    >>> rows.n_features, names
    (1, None)
    """
    if is_dask(X):
        check_names(getattr(X, "columns", ()))
        scattered = open_dask(X, y, sample_weight, numeric_y=numeric_y)
        return scattered, scattered.feature_names
    source = open_source(X, y, sample_weight, numeric_y=numeric_y)
    rows = LocalRows(source, budget.block_rows(source.n_features), budget.threads)
    return rows, source.feature_names
