"""Rows of chunks that a user's own code makes, one after the other and as often as asked."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.rows.blocks import Block, ChunkError
from sparsebayes.rows.checking import (
    Checker,
    as_array,
    check_lengths,
    column_names,
    reason_of,
    refused,
)

__all__ = ["ChunkSource", "Chunks"]

_ONCE = (
    "chunks are read several times, but {} can be read only once: give a function that returns a "
    "fresh one, as in Chunks(lambda: read(path)), or a list of chunks."
)
_RESTART = "chunks must be the same every time that they are read"


class Chunks:
    """Data in chunks ``(X, y)`` or ``(X, y, sample_weight)``, to be given to ``fit`` as X.

    A fit reads all chunks several times, so they must come again, the same ones in the same order.
    Chunks may differ in length; one that is too large for the memory of the fit is cut.

    Parameters
    ----------
    make : callable or iterable
        A function without arguments that returns a fresh iterator of chunks, or an object that can
        be iterated again, such as a list.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.rows import Chunks
    >>> def read():
    ...     for month in range(12):
    ...         yield np.full((2, 1), month), np.full(2, 3.0 * month)
    >>> len(list(Chunks(read)))
    12
    """

    def __init__(self, make: Callable[[], Iterable[Any]] | Iterable[Any]) -> None:
        self.make = make
        if isinstance(make, Iterator):
            raise TypeError(_ONCE.format(f"a {type(make).__name__}"))
        if not (callable(make) or hasattr(make, "__iter__")):
            raise TypeError(
                "chunks must be a list of (X, y), another iterable of them, or a function that "
                f"returns one, but they are {type(make).__name__}."
            )

    def __iter__(self) -> Iterator[Any]:
        made = self.make() if callable(self.make) else self.make
        if not hasattr(made, "__iter__"):
            raise TypeError(
                f"the function that makes chunks must return an iterator of (X, y), but it "
                f"returned {type(made).__name__}."
            )
        return iter(made)

    def __repr__(self) -> str:
        return f"Chunks({self.make!r})"


@dataclass
class ChunkSource:
    """Rows of chunks.

    Parameters
    ----------
    given : Chunks
        The chunks.
    numeric_y : bool, default=True
        Whether targets are numbers, not labels.

    Examples
    --------
    >>> source = ChunkSource(Chunks([([[1.0], [2.0], [3.0]], [0, 1, 0]), ([[4.0]], [1])]))
    >>> [block.name for block in source.chunks(2)]
    ['chunk 0 (rows 0 to 1)', 'chunk 0 (rows 2 to 2)', 'chunk 1 (rows 3 to 3)']
    """

    given: Chunks
    numeric_y: bool = True
    n_rows: int | None = field(default=None, init=False)  # known after the first pass
    n_features: int = field(init=False)
    n_targets: int = field(init=False)
    feature_names: tuple[str, ...] | None = field(init=False)
    mark: int = field(init=False, repr=False)  # of the first chunk

    def __post_init__(self) -> None:
        once = self._begin()
        if once is self._begin():
            raise TypeError(_ONCE.format("what the function returns"))
        for number, item in self._items(once):
            X, y, _ = _parts(item, f"chunk {number}", self.numeric_y)
            if not X.shape[0]:
                continue
            check = Checker(self.numeric_y)
            few = check.block(X[:1], y[:1], None, start=0, name=f"chunk {number}")
            self.n_features, self.n_targets = few.X.shape[1], check.n_targets or 0
            self.feature_names, self.mark = column_names(item[0]), _mark(X)
            return
        raise ValueError("there are no chunks with rows in them.")

    def chunks(self, block_rows: int) -> Iterator[Block]:
        """All rows in order.

        Parameters
        ----------
        block_rows : int
            Most rows of a block.

        Yields
        ------
        Block
            Checked rows; a `ChunkError` for what cannot be used.
        """
        check = Checker(self.numeric_y, self.n_features, self.n_targets, self.feature_names or ())
        start, number = 0, -1
        for number, item in self._items(self._begin()):
            name = f"chunk {number}"
            X, y, weights = _parts(item, name, self.numeric_y)
            names = column_names(item[0])
            del item
            n = int(X.shape[0])
            if not n:
                continue
            if start == 0 and (X.shape[1:] != (self.n_features,) or _mark(X) != self.mark):
                raise refused(name, f"it is another one than when it was first read; {_RESTART}")
            if self.n_rows is not None and start + n > self.n_rows:
                raise refused(name, f"there were {self.n_rows} rows before, now more; {_RESTART}")
            if names is not None and self.feature_names is not None and names != self.feature_names:
                raise refused(
                    name,
                    f"its columns are {', '.join(names)}, those of the first one are "
                    f"{', '.join(self.feature_names)}",
                )
            for i in range(0, n, block_rows):
                j = min(i + block_rows, n)
                # Copies: other threads may be at work when the user's code fills its arrays anew.
                yield check.block(
                    X[i:j].copy(),
                    y[i:j].copy(),
                    weights[i:j].copy() if np.ndim(weights) else weights,
                    start=start + i,
                    name=f"{name} (rows {start + i} to {start + j - 1})",
                )
            start += n
        if self.n_rows is not None and start < self.n_rows:
            raise refused(
                f"chunk {number + 1}",
                f"it is missing: there were {self.n_rows} rows before, now {start}; {_RESTART}",
            )
        self.n_rows = start

    def _begin(self) -> Iterator[Any]:
        try:
            return iter(self.given)
        except (TypeError, ChunkError):  # no iterable: `Chunks` has said so
            raise
        except Exception as error:  # whatever a user's code raises
            raise refused("chunk 0", f"it cannot be made ({reason_of(error)})") from error

    def _items(self, chunks: Iterator[Any]) -> Iterator[tuple[int, Any]]:
        number = 0
        while True:
            try:
                item = next(chunks)
            except StopIteration:
                return
            except ChunkError:
                raise
            except Exception as error:  # whatever a user's code raises
                reason = f"it cannot be made ({reason_of(error)})"
                raise refused(f"chunk {number}", reason) from error
            yield number, item
            del item
            number += 1


def _parts(item: Any, name: str, numeric_y: bool) -> tuple[Any, Any, Any]:
    if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
        raise refused(name, f"it must be (X, y) or (X, y, sample_weight), not {_described(item)}")
    X, y, weights = (*item, None)[:3]
    X = X.tocsr() if is_sparse(X) else as_array(X, "X", name)
    if X.ndim != 2:
        raise refused(name, f"X must have two dimensions, but its shape is {X.shape}")
    y = None if y is None else as_array(y, "y", name, labels=not numeric_y)
    weights = None if weights is None else as_array(weights, "sample_weight", name)
    check_lengths(int(X.shape[0]), y, weights, name)
    return X, y, weights


def _described(item: Any) -> str:
    return f"{len(item)} things" if isinstance(item, (tuple, list)) else type(item).__name__


def _mark(X: Any) -> int:
    """A number that another chunk would hardly have."""
    values = X.data if is_sparse(X) else X
    if values.dtype.kind not in "biuf":
        return 0  # refused when it is checked
    return zlib.crc32(np.ascontiguousarray(values).data)
