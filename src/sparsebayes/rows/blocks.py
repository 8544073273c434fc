"""Blocks of rows, and what every place that keeps rows can do: fold a statistic over them.

A fit asks for nothing that is as long as the data. What it needs are sums over rows, and a sum over
rows is a sum over blocks of them: computed where a block is, by a function that can be sent there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
T = TypeVar("T")

__all__ = [
    "Block",
    "Chosen",
    "ChunkError",
    "Meter",
    "Rows",
    "Sums",
    "Total",
    "plus",
    "settled",
    "weighted_rows",
]

_AT_ONCE = 2**15  # values that are added at a time: what that takes beside them stays in the cache


class ChunkError(ValueError):
    """A chunk of the data that cannot be used; the message names it and the reason."""


class Block(NamedTuple):
    """Some rows, one after the other."""

    X: Any  # (n, d) float64, dense or CSR
    y: NDArray[Any]  # (n,) or (n, T): as given, or as an earlier step has made it
    weights: FloatArray | None  # (n,); None where all are one
    start: int  # position of the first of them among all rows
    name: str  # for messages, such as "chunk 3 (rows 3000 to 3999)"

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    def some(self, kept: Any) -> "Block":
        """Some of the rows, by their positions in it."""
        weights = None if self.weights is None else self.weights[kept]
        return self._replace(X=self.X[kept], y=self.y[kept], weights=weights)


@dataclass(frozen=True)
class Sums:
    """Base of what a statistic finds in a block: arrays or numbers that add up.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Found(Sums):
    ...     largest = ("peak",)
    ...     total: float
    ...     peak: float
    >>> settled(plus(Found(1.0, 5.0), Found(2.0, 3.0)))
    Found(total=3.0, peak=5.0)
    """

    largest: ClassVar[tuple[str, ...]] = ()  # fields of which the largest value counts, no sum


class Total:
    """Sums of several blocks, added in twice the digits: no order of them changes the result.

    Beside each sum stands what rounding has left out of it (Knuth's two-sum); the order shows only
    where all but one part in 1e30 of the terms cancels. Blocks on other
    machines are merged in an order that depends on where they are; a sum that rounds differently
    can lead a search elsewhere.

    Parameters
    ----------
    sums : Sums
        Of the first block; its arrays are reused.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Found(Sums):
    ...     total: float
    >>> one, two, three = Found(1.0), Found(1e16), Found(-1e16)
    >>> Total(one).plus(two).plus(three).value
    Found(total=1.0)
    """

    def __init__(self, sums: Sums) -> None:
        self._kind, self._names = type(sums), [part.name for part in fields(sums)]
        values = {name: getattr(sums, name) for name in self._names}
        # Sums that are not arrays of their own are kept in one.
        self._sums = {
            name: value if name in sums.largest else _own(value) for name, value in values.items()
        }
        self._lost: dict[str, FloatArray] = {}

    def plus(self, other: "Sums | Total") -> "Total":
        """Add those of another block, or of other blocks.

        Parameters
        ----------
        other : Sums or Total
            Of the same kind.

        Returns
        -------
        Total
            This one, changed.
        """
        more = other._sums if isinstance(other, Total) else vars(other)
        for name, mine in self._sums.items():
            if name in self._kind.largest:
                larger = np.maximum(mine, more[name]) if np.ndim(mine) else max(mine, more[name])
                self._sums[name] = larger
                continue
            if name not in self._lost:
                self._lost[name] = np.zeros_like(mine)
            _add(mine, self._lost[name], np.asarray(more[name], dtype=np.float64))
            if isinstance(other, Total) and name in other._lost:
                self._lost[name] += other._lost[name]
        return self

    @property
    def value(self) -> Any:
        """The sums."""
        found = dict(self._sums)
        for name, lost in self._lost.items():  # of a sum that is infinite, nothing is known
            found[name] = found[name] + np.where(np.isfinite(lost), lost, 0.0)
        return self._kind(*(_plain(found[name]) for name in self._names))


def _own(value: Any) -> FloatArray:
    """An array that may be changed."""
    kept = isinstance(value, np.ndarray) and value.ndim and value.dtype == np.float64
    if kept and value.flags.writeable and value.flags.c_contiguous:
        return np.asarray(value)
    return np.array(value, dtype=np.float64, order="C")


def _plain(value: Any) -> Any:
    return value if np.ndim(value) else float(value)


def _add(total: FloatArray, lost: FloatArray, more: FloatArray) -> None:
    """Add to a sum, and what rounding leaves out to another one; a few values at a time."""
    a, e, b = total.reshape(-1), lost.reshape(-1), more.reshape(-1)
    for start in range(0, a.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        old, new = a[part], b[part]
        with np.errstate(over="ignore", invalid="ignore"):
            both = old + new
            taken = both - old
            e[part] += (old - (both - taken)) + (new - taken)
        old[:] = both


def plus(one: Any, other: Any) -> Any:
    """Add what two blocks, or two lots of blocks, have given.

    Parameters
    ----------
    one, other : Sums, Total, or anything that has a method ``plus``
        Of the same kind; the arrays of ``one`` may be reused.

    Returns
    -------
    object
        Both together: of sums a `Total`.
    """
    return (Total(one) if isinstance(one, Sums) else one).plus(other)


def settled(found: Any) -> Any:
    """What a fold returns of what its merges have led to.

    Parameters
    ----------
    found : object
        Of one block, or merged.

    Returns
    -------
    object
        The sums of a `Total`, rounded once; else the same.
    """
    return found.value if isinstance(found, Total) else found


@dataclass
class Meter:
    """What has been read of a source, by all rows that were derived from it."""

    passes: int = 0
    rows: int = 0  # of all passes
    current: int = 0  # of the pass under way
    length: int = 0  # rows of a pass over everything, once that is known
    listen: Callable[["Meter"], None] | None = field(default=None, repr=False)

    def begin(self) -> None:
        """Note that a pass over the data begins."""
        self.passes += 1
        self.current = 0

    def read(self, n: int) -> None:
        """Note that so many more rows have been dealt with.

        Parameters
        ----------
        n : int
            Rows.
        """
        self.rows += n
        self.current += n
        if self.listen is not None:
            self.listen(self)


class Rows(Protocol):
    """Rows kept somewhere: in memory, in files, on other machines."""

    @property
    def n_features(self) -> int:
        """Columns of X."""

    @property
    def meter(self) -> Meter:
        """What has been read."""

    @property
    def cores(self) -> int:
        """Blocks that are worked on at a time."""

    def fold(self, statistic: Callable[[Block], T], merge: Callable[[T, T], T] = plus) -> T:
        """Compute a statistic of every block and merge them, in the order of the rows.

        Both functions must be picklable. Blocks without rows are left out. The result depends on
        how rows are divided into blocks by rounding alone, and that of sums not at all on where
        blocks are.
        """
        ...

    def mapped(self, step: Callable[[Block], Block]) -> Self:
        """The same rows with each block changed by a picklable function, when it is read."""
        ...


@dataclass(frozen=True)
class Chosen:
    """A step that keeps rows drawn at random, the same ones however rows are divided into blocks.

    Parameters
    ----------
    fraction : float
        Expected fraction of rows that are kept.
    seed : int
        Other rows for another seed.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(1000.0)[:, None]
    >>> whole = Chosen(0.1, 0)(Block(X, X[:, 0], None, 0, "all"))
    >>> later = Chosen(0.1, 0)(Block(X[500:], X[500:, 0], None, 500, "second half"))
    >>> whole.n, np.array_equal(whole.y[whole.y >= 500], later.y)
    (92, True)
    """

    fraction: float
    seed: int

    def __call__(self, block: Block) -> Block:
        """Keep the chosen rows of a block.

        Parameters
        ----------
        block : Block
            Rows.

        Returns
        -------
        Block
            Fewer of them.
        """
        if self.fraction >= 1:
            return block
        return block.some(np.flatnonzero(self.draws(block.start, block.n) < self.fraction))

    def draws(self, start: int, n: int) -> FloatArray:
        """Numbers in [0, 1), one for each row, that depend on its position and the seed alone.

        Parameters
        ----------
        start : int
            Position of the first row.
        n : int
            Number of rows.

        Returns
        -------
        ndarray of shape (n,)
            The numbers.
        """
        # splitmix64 (Steele, Lea and Flood 2014) of the position: a counter-based generator.
        offset = np.uint64((start + (self.seed << 40)) % 2**64)
        with np.errstate(over="ignore"):
            z = np.arange(n, dtype=np.uint64) + offset
            z *= np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))) / 2.0**64


def weighted_rows(block: Block) -> Block:
    """Rows of positive weight: a step.

    Parameters
    ----------
    block : Block
        Rows.

    Returns
    -------
    Block
        The block itself where none has weight zero.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(3.0)[:, None]
    >>> weighted_rows(Block(X, X[:, 0], np.array([1.0, 0.0, 2.0]), 0, "all")).y
    array([0., 2.])
    """
    if block.weights is None or block.weights.all():
        return block
    return block.some(np.flatnonzero(block.weights))
