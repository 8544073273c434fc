"""Rows in partitions of Dask: sums are computed where a partition is, and merged in a tree.

What a pass needs (atoms, weights) goes out with every task if it is small. Else it is a task of the
graph: it goes out once, workers hand it on to each other, and the scheduler makes it again should
the worker that has it be lost. One sum of the size of the model comes back.
"""

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np

from sparsebayes._threads import one_blas_thread
from sparsebayes.rows.arena import kept_memory
from sparsebayes.rows.blocks import Block, ChunkError, Meter, plus, settled
from sparsebayes.rows.checking import Checker, refused
from sparsebayes.rows.local import cores, work
from sparsebayes.rows.partitions import (
    Partitions,
    Pieces,
    as_numbers,
    cut,
    is_array,
    is_tabular,
    measured,
    pieces_of,
    room_in_graph,
    shipped,
)
from sparsebayes.rows.passes import Pace, computed, workers

T = TypeVar("T")

__all__ = ["DaskRows", "is_dask", "open_dask"]

_FAN_IN = 8  # sums that a task of the tree merges
_SMALL = 2**15  # bytes of what a pass needs that go out with every task: no task waits for them


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask.

    Parameters
    ----------
    X : object
        As given to ``fit``.

    Returns
    -------
    bool
        True for dask arrays, dataframes and series.

    Examples
    --------
    >>> import dask.array as da
    >>> is_dask(da.ones((10, 2))), is_dask([[1.0, 1.0]])
    (True, False)
    """
    dask = sys.modules.get("dask")  # without it there can be none
    return dask is not None and bool(dask.is_dask_collection(X))


@dataclass(frozen=True)
class DaskRows:
    """Rows of a dask array or dataframe, worked on by whatever scheduler is active.

    Parameters
    ----------
    parts : Partitions
        X, y and weights of each partition, as keys of a graph.
    checker : Checker
        Checks each partition when it is read.
    steps : tuple of callables, default=()
        What is done to each block.
    meter : Meter
        What has been read.
    pace : Pace
        How long passes take.

    Examples
    --------
    >>> import dask.array as da
    >>> rows = open_dask(da.ones((10, 2), chunks=(4, 2)), da.arange(10))
    >>> rows.fold(lambda block: block.y.sum(), lambda one, other: one + other)
    np.float64(45.0)
    """

    parts: Partitions
    checker: Checker
    steps: tuple[Callable[[Block], Block], ...] = ()
    meter: Meter = field(default_factory=Meter)
    pace: Pace = field(default_factory=Pace)

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return int(self.checker.n_features or 0)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.parts.lengths)

    @property
    def cores(self) -> int:
        """Blocks that are worked on at a time: by all workers of the client, or on this machine."""
        return workers() or cores()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns of X, if it has any."""
        return tuple(self.checker.names) or None

    def mapped(self, step: Callable[[Block], Block]) -> Self:
        """The same rows with each block changed when it is read.

        Parameters
        ----------
        step : callable
            From a block to another one.

        Returns
        -------
        DaskRows
            The rows, on the same meter.
        """
        return replace(self, steps=(*self.steps, step))

    def fold(self, statistic: Callable[[Block], T], merge: Callable[[T, T], T] = plus) -> T:
        """Compute a statistic of every partition where it is and merge them, in a fixed order.

        Parameters
        ----------
        statistic : callable
            From a block to what is to be merged.
        merge : callable, default=plus
            Makes one of two; the first may be reused for it.

        Returns
        -------
        object
            Of the kind that ``statistic`` gives; the only thing that comes back from the workers.
        """
        import cloudpickle

        self.meter.begin()
        parcel = cloudpickle.dumps((self.checker, self.steps, statistic, merge))
        opened = _opened if len(parcel) > _SMALL else None
        root, leaves = self.parts.reduced(opened, parcel, _of_partitions, _merged, _FAN_IN)
        try:
            with one_blas_thread(), room_in_graph(len(parcel)):
                found: T | None = computed(root, leaves, self.meter.read, self.pace)
        except ChunkError:
            raise
        except Exception as error:
            number = self.parts.first_unreadable()
            if number is None:
                raise
            name = _name(number, sum(self.parts.lengths[:number]), self.parts.lengths[number])
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise refused(name, f"it cannot be computed ({reason.rstrip('.')})") from error
        if found is None:
            raise ValueError("no rows are left to fit.")
        return found


def open_dask(X: Any, y: Any, sample_weight: Any = None, *, numeric_y: bool = True) -> DaskRows:
    """Make rows of Dask collections; what is in memory is sent to the workers once.

    Parameters
    ----------
    X : dask array of shape (n, d) or dask dataframe
        Inputs. Chunks that do not hold all columns are joined; rows of unknown chunks are counted.
    y : dask array, series or dataframe, or array-like, of shape (n,) or (n, T)
        Targets, by position; chunks need not be those of X.
    sample_weight : dask array, dask series, array-like of shape (n,), a number or None, \
default=None
        Weights.
    numeric_y : bool, default=True
        Whether targets are numbers, not labels.

    Returns
    -------
    DaskRows
        The rows.

    Examples
    --------
    >>> import dask.array as da
    >>> rows = open_dask(da.ones((10, 2), chunks=(4, 1)), [1, 2] * 5)
    >>> rows.n_rows, rows.n_features, rows.parts.lengths
    (10, 2, (4, 4, 2))
    """
    names = _checked_inputs(X)
    beside = {"y": _checked_beside("y", y), "sample_weight": sample_weight}
    if sample_weight is not None and np.ndim(sample_weight):
        beside["sample_weight"] = _checked_beside("sample_weight", sample_weight)
    lazy = {"X": X} | {what: values for what, values in beside.items() if is_dask(values)}
    counted = measured([pieces_of(values) for values in lazy.values()])
    known = dict(zip(lazy, counted, strict=True))
    lengths = known["X"].lengths or ()
    if not sum(lengths):
        raise ValueError("X has no rows.")
    others = [_alongside(what, values, known.get(what), lengths) for what, values in beside.items()]
    n_targets = 0 if beside["y"].ndim == 1 else int(beside["y"].shape[1])
    checker = Checker(numeric_y, int(X.shape[1]), n_targets, names)
    return DaskRows(
        Partitions(lengths, (known["X"], *others)), checker, meter=Meter(length=sum(lengths))
    )


def _alongside(
    what: str, values: Any, pieces: Pieces | None, lengths: tuple[int, ...]
) -> Pieces | float | None:
    """Targets or weights in the partitions of X."""
    if values is None or np.ndim(values) == 0:
        return None if values is None else float(values)
    n = len(values) if pieces is None else sum(pieces.lengths or ())
    if n != sum(lengths):
        raise ValueError(f"X has {sum(lengths)} rows, but {what} has {n}.")
    return shipped(values, lengths) if pieces is None else cut(pieces, lengths)


def _checked_inputs(X: Any) -> tuple[str, ...]:
    """Names of the columns of X, if it can be one."""
    if is_array(X):
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions, but its shape is {X.shape}.")
        if np.isnan(X.shape[1]):
            raise ValueError("the number of columns of X must be known.")
        wrong = [] if X.dtype.kind in "biuf" else [X.dtype]
        names: tuple[str, ...] = ()
    elif is_tabular(X) and X.ndim == 2:
        wrong = [
            f"{dtype} in column {name!r}" for name, dtype in X.dtypes.items() if not _is_real(dtype)
        ]
        # As scikit-learn has it: names are names where all of them are text.
        names = tuple(X.columns) if all(isinstance(name, str) for name in X.columns) else ()
    else:
        raise TypeError(f"X must be a dask array or dataframe, got a dask {type(X).__name__}.")
    if wrong:
        raise ValueError(f"X must be numbers, but holds {wrong[0]}.")
    if X.shape[1] == 0:
        raise ValueError("X has no columns.")
    return names


def _checked_beside(what: str, values: Any) -> Any:
    """Targets or weights, in an array if they are in memory."""
    if values is None:
        raise ValueError(f"{what} must be given where X is a collection of Dask.")
    if not is_dask(values):
        values = np.asarray(values)
    elif not is_tabular(values):
        raise TypeError(
            f"{what} must be a dask array, series or dataframe, got a dask {type(values).__name__}."
        )
    most = 2 if what == "y" else 1
    if not 1 <= values.ndim <= most:
        raise ValueError(f"{what} must have at most {most} dimensions, not {values.ndim}.")
    return values


def _is_real(dtype: Any) -> bool:
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    return bool(is_numeric_dtype(dtype) or is_bool_dtype(dtype)) and not is_complex_dtype(dtype)


def _name(number: int, start: int, n: int) -> str:
    return f"partition {number} (rows {start} to {start + n - 1})"


# Tasks: what follows runs on workers.


def _opened(parcel: bytes) -> Any:
    import cloudpickle

    return cloudpickle.loads(parcel)


def _unpacked(contents: Any) -> Any:
    return _opened(contents) if isinstance(contents, bytes) else contents


def _of_partitions(contents: Any, *parts: list[Any]) -> Any:
    """Statistics of some partitions, merged one after the other."""
    contents, found = _unpacked(contents), None
    merge = contents[3]
    with one_blas_thread(), kept_memory():
        for part in parts:
            mine = _of_partition(contents, *part)
            found = mine if found is None else found if mine is None else merge(found, mine)
    return found


def _of_partition(
    contents: Any, X: Any, y: Any, weights: Any, number: int, start: int, n: int
) -> Any:
    checker, steps, statistic, _ = contents
    name = _name(number, start, n)
    if X.shape[0] != n:
        raise refused(
            name,
            f"it has {X.shape[0]} rows, but {n} when they were counted: partitions must be the "
            "same whenever they are computed",
        )
    if not n:
        return None
    y, weights = (as_numbers(y) if checker.numeric_y else y), as_numbers(weights)
    block = checker.block(as_numbers(X), y, weights, start=start, name=name)
    return work(steps, statistic, block)


def _merged(contents: Any, last: bool, *sums: Any) -> Any:
    """Merge in order; inputs of a task may be asked for again and are left as they are."""
    merge = _unpacked(contents)[3]
    found = [each for each in sums if each is not None]
    total = copy.deepcopy(found[0]) if len(found) > 1 else found[0] if found else None
    for each in found[1:]:
        total = merge(total, each)
    return settled(total) if last else total
