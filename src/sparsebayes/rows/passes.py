"""A tree of Dask tasks computed by whatever scheduler is active, and heard of while it is."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Pace", "computed", "homes", "workers"]

_LONG = 5.0  # seconds of a pass on a cluster from which on its parts are heard of


@dataclass
class Pace:
    """How long the last pass took."""

    seconds: float = 0.0


def computed(root: Any, leaves: Mapping[Any, int], heard: Callable[[int], None], pace: Pace) -> Any:
    """Compute a delayed value; it alone comes back from the workers.

    Parameters
    ----------
    root : Delayed
        The value.
    leaves : dict
        Tasks of its graph, by their keys, and how many rows each deals with.
    heard : callable
        Told of rows that are done; what it raises ends the computation. On a cluster it is told of
        all rows at once, unless passes are long: to hear of every leaf costs as much as to have it.
    pace : Pace
        How long the last pass took; changed to what this one takes.

    Returns
    -------
    object
        The value.

    Examples
    --------
    >>> import dask
    >>> leaves = [dask.delayed(abs)(-i) for i in (1, 2)]
    >>> told = []
    >>> rows = {leaf.key: 10 for leaf in leaves}
    >>> computed(dask.delayed(sum)(leaves), rows, told.append, Pace())
    3
    >>> told
    [10, 10]
    """
    import dask
    from dask.callbacks import Callback

    begun = time.perf_counter()
    client = _client()
    if client is not None:
        if pace.seconds >= _LONG:
            found = _on_cluster(client, root, leaves, heard)
        else:
            found = dask.compute(root, traverse=False)[0]
            heard(sum(leaves.values()))
    else:

        def done(key: Any, *_: Any) -> None:
            if key in leaves:
                heard(leaves[key])

        with Callback(posttask=done):
            found = dask.compute(root, traverse=False)[0]
    pace.seconds = time.perf_counter() - begun
    return found


def _on_cluster(client: Any, root: Any, leaves: Mapping[Any, int], heard: Any) -> Any:
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph
    from distributed import as_completed

    # A task that returns a number for each leaf: results of leaves stay where they are, and are
    # let go when they have been merged.
    layer = f"{root.key}-heard"
    tasks = {(layer, i): (_counted, key, n) for i, (key, n) in enumerate(leaves.items())}
    graph = HighLevelGraph(
        {**root.dask.layers, layer: tasks},
        {**root.dask.dependencies, layer: set(root.dask.layers)},
    )
    counts = [Delayed(key, graph, layer=layer) for key in tasks]
    futures = client.compute([Delayed(root.key, graph), *counts], traverse=False)
    try:
        rows = dict(zip((future.key for future in futures[1:]), leaves.values(), strict=True))
        for future in as_completed(futures[1:]):
            if future.status != "finished":
                break  # the root fails of the same reason
            heard(rows[future.key])
        return client.gather(futures[0])
    finally:
        for future in futures:
            future.release()


def _counted(_: Any, n: int) -> int:
    return n


def workers() -> int:
    """Threads of all workers of the cluster whose client is active; zero where there is none."""
    client = _client()
    return 0 if client is None else sum(client.nthreads().values())


def homes(keys: Sequence[Any]) -> list[tuple[str, int] | None]:
    """Where values are kept: the first worker that has each of them, and its threads.

    Parameters
    ----------
    keys : sequence
        Keys of the values.

    Returns
    -------
    list
        Address and threads; None for what is in the memory of no worker.
    """
    client = _client()
    if client is None:
        return [None] * len(keys)
    held, threads = client.who_has(), client.nthreads()
    found = [next(iter(held.get(key, ())), None) for key in keys]
    return [None if home is None else (home, threads.get(home, 1)) for home in found]


def _client() -> Any:
    """The client of a cluster that would compute now; None where it is done on this machine."""
    from dask.base import get_scheduler

    owner = getattr(get_scheduler(), "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None
