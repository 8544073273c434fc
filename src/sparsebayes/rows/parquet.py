"""Rows of parquet files."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._tables.arrow import need_pyarrow
from sparsebayes.rows.arrays import read_rows
from sparsebayes.rows.blocks import Block
from sparsebayes.rows.checking import Checker, reason_of, refused

__all__ = ["Parquet", "ParquetSource", "are_paths", "is_path", "parquet_files"]

_SUFFIXES = (".parquet", ".pq")
_BUFFER = 1 << 18  # bytes of a column that are read at a time


@dataclass(frozen=True)
class Parquet:
    """Parquet files to be given to ``fit`` as X; a path alone will do where y names the target.

    Parameters
    ----------
    path : str, path or list of them
        A file, a folder (all parquet files in it and below, in the order of their names), or
        several files in the given order.
    target : str, list of str or None, default=None
        Column, or columns, to be fitted; None where ``y`` of ``fit`` says it.
    columns : str, list of str or None, default=None
        Inputs; None for all other columns of numbers.
    weight : str or None, default=None
        Column of sample weights.

    Examples
    --------
    >>> from sparsebayes.rows import Parquet
    >>> Parquet("sales", target="price", weight="copies")
    Parquet(path='sales', target='price', columns=None, weight='copies')
    """

    path: Any
    target: str | Sequence[str] | None = None
    columns: str | Sequence[str] | None = None
    weight: str | None = None


def is_path(X: Any) -> bool:
    """Whether X is the path of something."""
    return isinstance(X, (str, os.PathLike))


def are_paths(X: Any) -> bool:
    """Whether X is a list of paths, and not one of words."""
    return (
        isinstance(X, (list, tuple))
        and bool(X)
        and all(
            isinstance(item, os.PathLike)
            or (isinstance(item, str) and item.lower().endswith(_SUFFIXES))
            for item in X
        )
    )


@dataclass
class ParquetSource:
    """Rows of parquet files.

    Parameters
    ----------
    given : Parquet
        The files, with a target.
    sample_weight : array of shape (n,), a number or None, default=None
        Weights that are not in the files.
    numeric_y : bool, default=True
        Whether targets are numbers, not labels.
    """

    given: Parquet
    sample_weight: Any = None
    numeric_y: bool = True
    files: list[tuple[str, str]] = field(init=False, repr=False)  # paths and their short names
    feature_names: tuple[str, ...] = field(init=False)
    n_rows: int = field(init=False)

    def __post_init__(self) -> None:
        self.files = parquet_files(self.given.path)
        need_pyarrow(self.files[0][0])
        self._check_names()
        with _opened(*self.files[0]) as first:
            self.feature_names = self._inputs(first.schema_arrow)
        lengths = []
        for path, name in self.files:
            with _opened(path, name) as file:
                self._check_schema(file.schema_arrow, name)
                lengths.append(file.metadata.num_rows)
        self.n_rows = sum(lengths)
        given = self.sample_weight
        if given is not None and np.shape(given) not in ((), (self.n_rows,)):
            raise ValueError(
                f"the files have {self.n_rows} rows, but sample_weight has shape {np.shape(given)}."
            )

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return len(self.feature_names)

    @property
    def targets(self) -> list[str]:
        """Columns of y."""
        return _names(self.given.target)

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
        check = Checker(self.numeric_y, self.n_features, names=self.feature_names)
        start = number = 0
        wanted = [*self.feature_names, *self.targets]
        wanted += _names(self.given.weight)
        for path, short in self.files:
            inside = 0
            with _opened(path, short, number) as file:
                self._check_schema(file.schema_arrow, short, number)
                if start + file.metadata.num_rows > self.n_rows:
                    raise refused(f"chunk {number} ({short})", "it has more rows than before")
                batches = file.iter_batches(block_rows, columns=wanted, use_threads=False)
                while (batch := _next(batches, f"chunk {number} ({short})")) is not None:
                    n = batch.num_rows
                    if not n:
                        continue
                    name = f"chunk {number} (rows {inside} to {inside + n - 1} of {short})"
                    yield self._block(batch, check, start, inside, name)
                    start, inside, number = start + n, inside + n, number + 1
        if start < self.n_rows:
            raise refused(
                f"chunk {number}", f"it is missing: there were {self.n_rows} rows, now {start}"
            )

    def _block(self, batch: Any, check: Checker, start: int, inside: int, name: str) -> Block:
        n = batch.num_rows
        X = np.empty((n, self.n_features))
        for place, column in enumerate(self.feature_names):
            X[:, place] = _numbers(batch, column)
        read = _numbers if self.numeric_y else _values
        columns = [read(batch, column) for column in self.targets]
        y = columns[0] if isinstance(self.given.target, str) else np.column_stack(columns)
        weights = self.sample_weight
        if self.given.weight is not None:
            weights = _numbers(batch, self.given.weight)
        elif weights is not None and np.ndim(weights):
            weights = read_rows(weights, start, start + n, "sample_weight", name)
        return check.block(X, y, weights, start=start, name=name, first=inside)

    def _check_names(self) -> None:
        target, columns, weight = self.given.target, self.given.columns, self.given.weight
        if not self.targets:
            raise ValueError(
                "the target is missing: give the name of its column, as in fit(path, 'price') or "
                "Parquet(path, target='price')."
            )
        names = [name for role in (target, columns, weight) for name in _names(role)]
        if not all(isinstance(name, str) for name in names):
            raise TypeError(
                f"target, columns and weight must be names of columns, but they are {target!r}, "
                f"{columns!r} and {weight!r}."
            )
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise ValueError(
                f"column {repeated[0]!r} is named twice among target, columns and weight."
            )
        if weight is not None and self.sample_weight is not None:
            raise ValueError(
                "weights are given both as a column and as sample_weight: give one of them."
            )

    def _inputs(self, schema: Any) -> tuple[str, ...]:
        if self.given.columns is not None:
            names = tuple(_names(self.given.columns))
        else:
            names = _numeric_names(schema, {*self.targets, self.given.weight})
        if not names:
            raise ValueError(f"{self.files[0][1]} has no column of numbers beside the target.")
        return names

    def _check_schema(self, schema: Any, short: str, number: int | None = None) -> None:
        import pyarrow as pa

        name = short if number is None else f"chunk {number} ({short})"
        known = Counter(schema.names)
        numbers = [*self.feature_names, *(self.targets if self.numeric_y else [])]
        numbers += _names(self.given.weight)
        for column in (*numbers, *self.targets):
            if column not in known:
                listed = ", ".join(schema.names[:20])
                raise refused(name, f"it has no column {column!r}; it has {listed}")
            if known[column] > 1:
                raise refused(name, f"it has column {column!r} more than once")
        for column in numbers:
            if not _is_numeric(kind := schema.field(column).type):
                raise refused(name, f"column {column!r} must be numbers, but holds {kind}")
        for column in self.targets if not self.numeric_y else []:
            kind = schema.field(column).type
            if pa.types.is_decimal(kind) and kind.precision > np.finfo(np.float64).precision:
                raise refused(
                    name,
                    f"labels of column {column!r} are {kind}, of more digits than a number has: "
                    "cast them to text or integers",
                )
        if self.given.columns is None:
            found = _numeric_names(schema, {*self.targets, self.given.weight})
            more = [column for column in found if column not in self.feature_names]
            if more:
                raise refused(
                    name,
                    f"it has a column {more[0]!r}, the first file has not; name the inputs, "
                    "as in Parquet(path, columns=[...])",
                )


def _names(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def parquet_files(path: Any) -> list[tuple[str, str]]:
    """Parquet files that a path stands for: paths, and short names for messages."""
    if are_paths(path):
        return [(os.fspath(item), os.fspath(item)) for item in path]
    if not is_path(path):
        raise TypeError(
            f"a path, or a list of parquet files, is needed, but it is {type(path).__name__}."
        )
    home = Path(path)
    if not home.exists():
        raise ValueError(f"there is no file or folder {os.fspath(path)!r}.")
    if not home.is_dir():
        if home.suffix.lower() == ".npy":
            raise ValueError(f"{home} is no parquet file: give np.load(path, mmap_mode='r') as X.")
        return [(str(home), home.name)]
    found = [
        (str(file), file.relative_to(home).as_posix())
        for file in home.rglob("*")
        if file.suffix.lower() in _SUFFIXES and file.is_file()
    ]
    # Other programs keep unfinished and hidden files under such names.
    found = [pair for pair in found if not any(p[0] in "._" for p in pair[1].split("/"))]
    if not found:
        raise ValueError(f"there is no parquet file in the folder {os.fspath(path)!r}.")
    return sorted(found, key=lambda pair: pair[1])


@contextmanager
def _opened(path: str, short: str, number: int | None = None) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = short if number is None else f"chunk {number} ({short})"
    try:
        # Neither of these alone keeps a whole row group out of memory.
        file = pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
    except FileNotFoundError as error:
        raise refused(name, "the file is gone" if number is not None else "no such file") from error
    except (pa.ArrowException, OSError) as error:
        reason = f"the file cannot be read as parquet ({reason_of(error)})"
        raise refused(name, reason) from error
    with file:
        yield file


def _next(batches: Any, name: str) -> Any:
    import pyarrow as pa

    try:
        return next(batches, None)
    except (pa.ArrowException, OSError) as error:
        raise refused(name, f"the file cannot be read ({reason_of(error)})") from error


def _is_numeric(kind: Any) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _numeric_names(schema: Any, without: set[Any]) -> tuple[str, ...]:
    # pandas stores a frame's index under such names: it is no column of the user's.
    return tuple(
        column.name
        for column in schema
        if _is_numeric(column.type)
        and column.name not in without
        and not column.name.startswith("__index_level_")
    )


def _numbers(batch: Any, name: str) -> NDArray[np.float64]:
    import pyarrow as pa

    column = batch.column(name).cast(pa.float64(), safe=False)
    found: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)  # missing values are NaN
    return found


def _values(batch: Any, name: str) -> NDArray[Any]:
    import pyarrow as pa

    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64(), safe=False)
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found
