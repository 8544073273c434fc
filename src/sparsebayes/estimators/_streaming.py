"""Fits of rows that are read piece by piece: from files, from chunks, from other machines."""

from typing import Any

import numpy as np

from sparsebayes._counting import n_kernel_atoms
from sparsebayes._journey import Journey
from sparsebayes._memory import Budget, resolve_memory
from sparsebayes.checkpoints import Checkpoint
from sparsebayes.design import STORED_BYTES
from sparsebayes.estimators._base import Fitting
from sparsebayes.progress import Watch
from sparsebayes.rows.blocks import Rows
from sparsebayes.rows.dask_rows import is_dask, open_dask
from sparsebayes.rows.local import LocalRows, cores
from sparsebayes.rows.sources import is_streamed, open_source

__all__ = ["Streaming"]


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
        if asked or is_dask(X) or is_streamed(X):
            return True
        shape: tuple[Any, ...] = getattr(X, "shape", ())
        if len(shape) != 2 or not isinstance(shape[0], int):
            return False
        n = shape[0]
        return 8 * n * n_kernel_atoms(self._spelled(), n) > STORED_BYTES

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
        rows: Rows
        if is_dask(X):
            rows = open_dask(X, y, sample_weight, numeric_y=numeric_y)
            names = rows.feature_names
        else:
            source = open_source(X, y, sample_weight, numeric_y=numeric_y)
            names = source.feature_names
            rows = LocalRows(source, budget.block_rows(source.n_features), threads)
        rows.meter.listen = watch.read
        self.n_features_in_ = rows.n_features
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        returns = self.on_interrupt == "return"
        parameters = self.get_params()
        return rows, Journey(budget, watch, checkpoint, parameters, returns, float(self.screened))
