"""Rows of arrays: in memory, mapped from a file, or of zarr and HDF5."""

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparsebayes.dictionaries._protocol import is_sparse
from sparsebayes.rows.blocks import Block
from sparsebayes.rows.checking import Checker, reason_of, refused

__all__ = ["ArraySource", "read_rows"]


@dataclass
class ArraySource:
    """Rows of arrays that can be sliced.

    Blocks of zarr and HDF5 arrays end where their chunks do, as far as a block has room for one: a
    chunk that is larger is read, and unpacked, once for every block in it.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Anything with ``shape``, ``dtype`` and slices of rows.
    y : array of shape (n,) or (n, T)
        Likewise.
    sample_weight : array of shape (n,), a number or None, default=None
        Likewise.
    numeric_y : bool, default=True
        Whether targets are numbers, not labels.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(10.0).reshape(5, 2)
    >>> source = ArraySource(X, X[:, 0])
    >>> [(block.start, block.n, block.name) for block in source.chunks(3)]
    [(0, 3, 'chunk 0 (rows 0 to 2)'), (3, 2, 'chunk 1 (rows 3 to 4)')]
    """

    X: Any
    y: Any
    sample_weight: Any = None
    numeric_y: bool = True
    feature_names: tuple[str, ...] | None = None

    n_rows: int = field(init=False)
    n_features: int = field(init=False)
    unit: int = field(init=False, repr=False)  # rows that are stored together

    def __post_init__(self) -> None:
        self.n_rows, self.n_features = map(int, self.X.shape)
        # A shard of zarr is a file of many chunks.
        stored = getattr(self.X, "shards", None) or getattr(self.X, "chunks", None)
        self.unit = int(stored[0]) if isinstance(stored, tuple) else 1

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
        check = Checker(self.numeric_y, self.n_features, names=self.feature_names or ())
        step = block_rows // self.unit * self.unit or block_rows
        for number, start in enumerate(range(0, self.n_rows, step)):
            stop = min(start + step, self.n_rows)
            name = f"chunk {number} (rows {start} to {stop - 1})"
            X = read_rows(self.X, start, stop, "X", name)
            y = read_rows(self.y, start, stop, "y", name)
            weights = self.sample_weight
            if weights is not None and np.ndim(weights):
                weights = read_rows(weights, start, stop, "sample_weight", name)
            yield check.block(X, y, weights, start=start, name=name)


def read_rows(values: Any, start: int, stop: int, what: str, name: str) -> Any:
    """Rows of an array wherever it is, in memory.

    Parameters
    ----------
    values : array or CSR matrix
        Anything with ``dtype`` and slices of rows.
    start, stop : int
        Which rows.
    what : str
        What the user calls the array, for messages.
    name : str
        Which block, for messages.

    Returns
    -------
    ndarray or CSR matrix
        The rows; a `ChunkError` where they cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> read_rows(np.arange(5), 1, 3, "y", "chunk 0")
    array([1, 2])
    """
    if isinstance(values, np.memmap):
        return _read_mapped(values, start, stop, what, name)
    if isinstance(values, np.ndarray) or is_sparse(values):
        return values[start:stop]
    try:
        if values.dtype.kind == "O" and hasattr(values, "asstr"):
            return values.asstr()[start:stop]  # HDF5 gives text as bytes otherwise
        return np.asarray(values[start:stop])
    except Exception as error:  # whatever a store or a codec raises
        raise refused(name, f"{what} cannot be read ({reason_of(error)})") from error


def _read_mapped(values: Any, start: int, stop: int, what: str, name: str) -> Any:
    root = values
    while isinstance(root.base, np.memmap):
        root = root.base
    _check_length(root, what, name)
    if not isinstance(root.base, mmap.mmap):
        return np.array(values[start:stop])
    block = np.array(values[start:stop])
    # A private mapping would lose what was written to it.
    if root.mode != "c" and hasattr(root.base, "madvise"):
        _forget(root, values[start:stop])
    return block


def _check_length(root: Any, what: str, name: str) -> None:
    """Refuse a file that has become shorter: to read beyond its end kills the process."""
    if root.filename is None:
        return
    try:
        size = os.stat(root.filename).st_size
    except OSError as error:
        raise refused(name, f"{what} cannot be read: {root.filename} is gone") from error
    if size < root.offset + root.nbytes:
        raise refused(
            name,
            f"{what} cannot be read: {root.filename} has {size} bytes, but had at least "
            f"{root.offset + root.nbytes}",
        )


def _forget(root: Any, part: Any) -> None:
    """Let go of pages that were read, or a pass would leave the whole file in memory."""
    if not part.size:
        return
    low, high = np.lib.array_utils.byte_bounds(part)
    # A mapping starts at a multiple of the granularity below the offset of its array.
    begun = root.ctypes.data - root.offset % mmap.ALLOCATIONGRANULARITY
    low = (low - begun) // mmap.PAGESIZE * mmap.PAGESIZE
    root.base.madvise(mmap.MADV_DONTNEED, low, high - begun - low)
