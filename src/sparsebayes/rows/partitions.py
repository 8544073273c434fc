"""Partitions of Dask collections as keys of a graph: measured, aligned, and reduced in a tree."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from sparsebayes.rows.checking import holds_dates
from sparsebayes.rows.passes import homes

__all__ = [
    "Partitions",
    "Pieces",
    "as_numbers",
    "cut",
    "delayed_parts",
    "is_array",
    "is_tabular",
    "lots",
    "measured",
    "pieces_of",
    "room_in_graph",
    "shipped",
]

_LOTS = 2  # tasks for each thread of a worker: one waits while the other is done
_LIMIT = "distributed.admin.large-graph-warning-threshold"


class Pieces(NamedTuple):
    """One collection, piece by piece."""

    keys: tuple[Any, ...]
    lengths: tuple[int, ...] | None  # rows of each; None where not known without computing them
    graph: Any


def pieces_of(collection: Any) -> Pieces:
    """A dask array, in one piece along its columns, or a dataframe or series, as pieces.

    Parameters
    ----------
    collection : dask array, dataframe or series
        Values.

    Returns
    -------
    Pieces
        Its partitions; nothing is computed.
    """
    lengths = None
    if is_array(collection):
        if collection.ndim == 2:
            collection = collection.rechunk({1: -1})
        if not np.isnan(collection.chunks[0]).any():
            lengths = tuple(int(n) for n in collection.chunks[0])
    parts = delayed_parts(collection)
    return Pieces(tuple(part.key for part in parts), lengths, _union(part.dask for part in parts))


def delayed_parts(collection: Any) -> list[Any]:
    """One delayed object for each partition.

    Parameters
    ----------
    collection : dask array, dataframe or series
        Values; an array in one piece along its columns.

    Returns
    -------
    list of Delayed
        The partitions.
    """
    held = False
    if "distributed" in sys.modules:
        from distributed import futures_of

        # Optimized graphs of arrays lose the futures that keep persisted chunks on the workers.
        held = bool(futures_of(collection))
    return list(np.ravel(collection.to_delayed(optimize_graph=not held)))


def is_array(collection: Any) -> bool:
    """Whether a collection is a dask array.

    Parameters
    ----------
    collection : dask collection
        Anything.

    Returns
    -------
    bool
        The answer.
    """
    return is_tabular(collection) and hasattr(collection, "rechunk")


def is_tabular(collection: Any) -> bool:
    """Whether a collection is a dask array, dataframe or series: it has rows.

    Parameters
    ----------
    collection : dask collection
        Anything.

    Returns
    -------
    bool
        The answer.
    """
    from dask.delayed import Delayed

    # A delayed object claims to have every attribute.
    return not isinstance(collection, Delayed) and hasattr(collection, "ndim")


def measured(several: Sequence[Pieces]) -> list[Pieces]:
    """Find out how many rows pieces have, where that is not known: one look at those.

    Parameters
    ----------
    several : sequence of Pieces
        Collections.

    Returns
    -------
    list of Pieces
        All lengths known.
    """
    unknown = [pieces for pieces in several if pieces.lengths is None]
    if not unknown:
        return list(several)
    tasks = [[(_length, key) for key in pieces.keys] for pieces in unknown]
    found = iter(_compute(tasks, _union(pieces.graph for pieces in unknown)))
    return [
        pieces if pieces.lengths is not None else pieces._replace(lengths=tuple(next(found)))
        for pieces in several
    ]


def cut(pieces: Pieces, lengths: tuple[int, ...]) -> Pieces:
    """The same rows in other pieces.

    Parameters
    ----------
    pieces : Pieces
        Rows, of known lengths.
    lengths : tuple of int
        Rows that each new piece shall have; they are as many in total.

    Returns
    -------
    Pieces
        The new ones.
    """
    if pieces.lengths == lengths:
        return pieces
    layer = f"sparsebayes-cut-{uuid4().hex}"
    ends = np.cumsum(pieces.lengths or (0,))
    tasks: dict[Any, Any] = {}
    stop = 0
    for i, n in enumerate(lengths):
        start, stop = stop, stop + n
        first = int(np.searchsorted(ends, start, side="right"))
        last = max(first, int(np.searchsorted(ends, stop, side="left")))
        first, last = min(first, len(ends) - 1), min(last, len(ends) - 1)
        offset = start - (int(ends[first - 1]) if first else 0)
        tasks[layer, i] = (_joined, list(pieces.keys[first : last + 1]), offset, n)
    return Pieces(tuple(tasks), lengths, _extended(pieces.graph, layer, tasks))


def shipped(values: NDArray[Any], lengths: tuple[int, ...]) -> Pieces:
    """Values in memory, sent to where partitions are, once.

    Parameters
    ----------
    values : ndarray of shape (n, ...)
        Values of all rows.
    lengths : tuple of int
        Rows of each partition.

    Returns
    -------
    Pieces
        What Dask keeps of them.
    """
    import dask

    stops = np.cumsum(lengths)
    parts = [
        dask.delayed(values[stop - n : stop], traverse=False, name=f"sparsebayes-{uuid4().hex}")
        for n, stop in zip(lengths, stops, strict=True)
    ]
    with room_in_graph(values.nbytes):
        kept = dask.persist(*parts, traverse=False)
    return Pieces(tuple(part.key for part in kept), lengths, _union(part.dask for part in kept))


@dataclass(frozen=True)
class Partitions:
    """X, y and weights of partitions, in one graph.

    Parameters
    ----------
    lengths : tuple of int
        Rows of each partition.
    columns : tuple
        X, y and weights: `Pieces` of these lengths each; weights may be one number or None.
    """

    lengths: tuple[int, ...]
    columns: tuple[Pieces | float | None, ...]

    @cached_property
    def graph(self) -> Any:
        """What all keys stand for."""
        return _union(column.graph for column in self.columns if isinstance(column, Pieces))

    @cached_property
    def lots(self) -> list[list[int]]:
        """Partitions that one task deals with: those that a worker has in its memory."""
        keys = self.columns[0].keys if isinstance(self.columns[0], Pieces) else ()
        return lots(homes(keys))

    def reduced(
        self,
        opened: Callable[..., Any] | None,
        parcel: bytes,
        leaf: Callable[..., Any],
        merged: Callable[..., Any],
        fan_in: int,
    ) -> tuple[Any, dict[Any, int]]:
        """A tree of tasks that ends in one value; nothing is computed.

        Parameters
        ----------
        opened : callable or None
            Makes of the parcel, on a worker, what the other tasks take first; None where each takes
            the parcel itself.
        parcel : bytes
            What all tasks need.
        leaf : callable
            Of the parcel, then of each partition of a lot: X, y, weights, its number, first row and
            number of rows.
        merged : callable
            Of the parcel, whether nothing is merged after it, and some values of ``leaf`` or
            ``merged``, in order.
        fan_in : int
            How many ``merged`` takes at a time.

        Returns
        -------
        root : Delayed
            Its value.
        leaves : dict
            Keys of the leaves, and how many rows each deals with.
        """
        from dask.delayed import Delayed

        layer = f"sparsebayes-fold-{uuid4().hex}"
        contents: Any = parcel
        tasks: dict[Any, Any] = {}
        if opened is not None:
            contents = (layer, "parcel")
            tasks[contents] = (opened, parcel)
        leaves: dict[Any, int] = {}
        starts = np.cumsum((0, *self.lengths)).tolist()
        for lot in self.lots:
            key = layer, 0, lot[0]
            parts = [[*self._keys(i), i, starts[i], self.lengths[i]] for i in lot]
            tasks[key] = (leaf, contents, *parts)
            leaves[key] = sum(self.lengths[i] for i in lot)
        level: list[Any] = list(leaves)
        depth = 0
        while depth == 0 or len(level) > 1:
            depth += 1
            groups = [level[i : i + fan_in] for i in range(0, len(level), fan_in)]
            level = [(layer, depth, i) for i in range(len(groups))]
            last = len(groups) == 1
            tasks |= {
                key: (merged, contents, last, *group)
                for key, group in zip(level, groups, strict=True)
            }
        tasks[layer] = level[0]
        return Delayed(layer, _extended(self.graph, layer, tasks)), leaves

    def _keys(self, i: int) -> list[Any]:
        return [column.keys[i] if isinstance(column, Pieces) else column for column in self.columns]

    def first_unreadable(self) -> int | None:
        """Number of the first partition that cannot be computed, found by halving.

        Returns
        -------
        int or None
            None where all can be computed.
        """
        low, high = 0, len(self.lengths)
        if self._readable(low, high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._readable(low, middle):
                low = middle
            else:
                high = middle
        return low

    def _readable(self, low: int, high: int) -> bool:
        try:
            _compute([(_looked_at, *self._keys(i)) for i in range(low, high)], self.graph)
        except Exception:  # noqa: BLE001  (whatever reading raises; the caller has one to show)
            return False
        return True


def lots(homes: Sequence[tuple[str, int] | None]) -> list[list[int]]:
    """Divide partitions among tasks: two for each thread of a worker that has them in memory.

    A task costs the scheduler and a worker some milliseconds. What is in no memory yet has a task
    of its own, so that no more of it is read at a time than there are threads.

    Parameters
    ----------
    homes : sequence of pairs or None
        Worker and its threads, for each partition.

    Returns
    -------
    list of lists of int
        Numbers of partitions; ascending in each, and by the first of each.

    Examples
    --------
    >>> lots([("a", 1), ("b", 1), None, ("b", 1), ("b", 1), ("a", 1), ("b", 1)])
    [[0], [1, 3], [2], [4, 6], [5]]
    """
    by_home: dict[Any, list[int]] = {}
    for i, home in enumerate(homes):
        by_home.setdefault(home or i, []).append(i)
    found = list[list[int]]()
    for home, mine in by_home.items():
        threads = home[1] if isinstance(home, tuple) else 1
        size = -(-len(mine) // (_LOTS * threads))
        found += [mine[i : i + size] for i in range(0, len(mine), size)]
    return sorted(found)


@contextlib.contextmanager
def room_in_graph(size: int) -> Iterator[None]:
    """Let Dask not complain of a graph with one large thing in it that is there on purpose.

    Parameters
    ----------
    size : int
        Bytes of it.
    """
    if "distributed" not in sys.modules:  # without it nobody complains
        yield
        return
    import dask
    from dask.utils import parse_bytes

    usual = parse_bytes(dask.config.get(_LIMIT, "10MB"))
    with dask.config.set({_LIMIT: usual + size}):
        yield


def as_numbers(values: Any) -> Any:
    """Numbers of a pandas frame or series as an array, those that are missing as NaN.

    Parameters
    ----------
    values : frame, series or array
        What a partition holds.

    Returns
    -------
    array
        Of float64 if there were names; what holds no numbers is left to later checks.

    Examples
    --------
    >>> import pandas as pd
    >>> as_numbers(pd.Series([1, None], dtype="Int64"))
    array([ 1., nan])
    """
    if not hasattr(values, "to_numpy") or holds_dates(values):
        return values
    try:
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        return values


def _compute(tasks: list[Any], graph: Any) -> Any:
    import dask
    from dask.delayed import Delayed

    layer = f"sparsebayes-look-{uuid4().hex}"
    return dask.compute(Delayed(layer, _extended(graph, layer, {layer: tasks})), traverse=False)[0]


def _union(graphs: Any) -> Any:
    from dask.highlevelgraph import HighLevelGraph

    return HighLevelGraph.merge(*graphs)


def _extended(graph: Any, layer: str, tasks: dict[Any, Any]) -> Any:
    from dask.highlevelgraph import HighLevelGraph

    return HighLevelGraph(
        {**graph.layers, layer: tasks}, {**graph.dependencies, layer: set(graph.layers)}
    )


def _length(values: Any) -> int:
    return int(values.shape[0])


def _looked_at(*values: Any) -> None:
    """Nothing: that its arguments could be computed is the answer."""


def _joined(parts: list[Any], start: int, n: int) -> Any:
    arrays = [np.asarray(part) for part in parts]
    whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return whole[start : start + n]
