"""A tree of Dask tasks computed by whatever scheduler is active, and heard of while it is."""

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["computed"]


def computed(root: Any, leaves: Mapping[Any, int], heard: Callable[[int], None]) -> Any:
    """Compute a delayed value; it alone comes back from the workers.

    Parameters
    ----------
    root : Delayed
        The value.
    leaves : dict
        Tasks of its graph, by their keys, and how many rows each deals with.
    heard : callable
        Told of the rows when a leaf is done; what it raises ends the computation.

    Returns
    -------
    object
        The value.

    Examples
    --------
    >>> import dask
    >>> leaves = [dask.delayed(abs)(-i) for i in (1, 2)]
    >>> told = []
    >>> computed(dask.delayed(sum)(leaves), {leaf.key: 10 for leaf in leaves}, told.append)
    3
    >>> told
    [10, 10]
    """
    import dask
    from dask.base import get_scheduler
    from dask.callbacks import Callback

    owner = getattr(get_scheduler(), "__self__", None)
    if hasattr(owner, "scheduler_info"):  # a client of a cluster
        return _on_cluster(owner, root, leaves, heard)

    def done(key: Any, *_: Any) -> None:
        if key in leaves:
            heard(leaves[key])

    with Callback(posttask=done):
        return dask.compute(root, traverse=False)[0]


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
