"""Rows on this machine: read in blocks, worked on by a few threads, merged in order."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

from sparsebayes._threads import one_blas_thread
from sparsebayes.rows.blocks import Block, Meter, plus, settled

T = TypeVar("T")

__all__ = ["LocalRows", "Source", "cores", "work"]


class Source(Protocol):
    """Where rows come from; it can be read as often as one likes, and is the same every time."""

    @property
    def n_features(self) -> int:
        """Columns of X."""

    def chunks(self, block_rows: int) -> Iterator[Block]:
        """All rows, in blocks of at most ``block_rows``, each checked; raises `ChunkError`."""
        ...


@dataclass(frozen=True)
class LocalRows:
    """Rows of a source, a few blocks of which are in memory at a time.

    NumPy's products and functions release the interpreter, so threads use several cores; each has
    one BLAS thread.

    Parameters
    ----------
    source : Source
        The rows.
    block_rows : int
        Most rows of a block.
    threads : int, default=1
        Blocks that are worked on at a time; one more is being read.
    steps : tuple of callables, default=()
        What is done to each block.
    meter : Meter
        What has been read.
    """

    source: Source
    block_rows: int
    threads: int = 1
    steps: tuple[Callable[[Block], Block], ...] = ()
    meter: Meter = field(default_factory=Meter)

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return self.source.n_features

    @property
    def cores(self) -> int:
        """Blocks that are worked on at a time."""
        return self.threads

    def mapped(self, step: Callable[[Block], Block]) -> Self:
        """The same rows with each block changed when it is read.

        Parameters
        ----------
        step : callable
            From a block to another one.

        Returns
        -------
        LocalRows
            The rows, on the same meter.
        """
        return replace(self, steps=(*self.steps, step))

    def fold(self, statistic: Callable[[Block], T], merge: Callable[[T, T], T] = plus) -> T:
        """Compute a statistic of every block and merge them, in the order of the rows.

        Parameters
        ----------
        statistic : callable
            From a block to what is to be merged.
        merge : callable, default=plus
            Makes one of two; the first may be reused for it.

        Returns
        -------
        object
            Of the kind that ``statistic`` gives.
        """
        self.meter.begin()
        found: list[T] = []

        def take(result: T | None, n: int) -> None:
            if result is not None:
                found[:] = [merge(found[0], result)] if found else [result]
            self.meter.read(n)

        with one_blas_thread():
            if self.threads == 1:
                for block in self.source.chunks(self.block_rows):
                    take(work(self.steps, statistic, block), block.n)
            else:
                self._in_threads(statistic, take)
        if not found:
            raise ValueError("no rows are left to fit.")
        result: T = settled(found[0])
        return result

    def _in_threads(
        self, statistic: Callable[[Block], T], take: Callable[[T | None, int], None]
    ) -> None:
        pool = ThreadPoolExecutor(self.threads)
        pending: deque[tuple[Future[T | None], int]] = deque()
        try:
            for block in self.source.chunks(self.block_rows):
                pending.append((pool.submit(work, self.steps, statistic, block), block.n))
                del block
                if len(pending) > self.threads:
                    future, n = pending.popleft()
                    take(future.result(), n)
            while pending:
                future, n = pending.popleft()
                take(future.result(), n)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def work(steps: tuple[Callable[[Block], Block], ...], statistic: Any, block: Block) -> Any:
    """Take the steps with a block, then the statistic of what is left of it.

    Parameters
    ----------
    steps : tuple of callables
        What is done to the block.
    statistic : callable
        From a block to anything.
    block : Block
        Rows.

    Returns
    -------
    object or None
        The statistic; None where no rows are left.
    """
    for step in steps:
        block = step(block)
        if not block.n:
            return None
    return statistic(block) if block.n else None


def cores() -> int:
    """Number of cores to use: those of this process, or fewer if OMP_NUM_THREADS says so.

    Returns
    -------
    int
        At least one.
    """
    try:
        available = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        available = os.cpu_count() or 1
    wish = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return max(1, min(available, int(wish))) if wish.isdigit() else available
