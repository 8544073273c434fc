"""What ``sparsebayes fit`` is given: rows to fit, and rows to judge the fit by."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes import _tables
from sparsebayes._console import counted
from sparsebayes._tables import TableError
from sparsebayes._tables.choosing import choose
from sparsebayes._tables.cleaning import Clean, clean, read_strictly
from sparsebayes._tables.table import Table
from sparsebayes.commands._tables import opened

if TYPE_CHECKING:
    from sparsebayes.rows.local import Source

__all__ = ["Data", "gathered", "split"]

_BLOCK_ROWS = 10_000
_DIGITS = 3  # of the place of a column; a year has more


@dataclass
class Data:
    """Rows of a fit.

    Parameters
    ----------
    table : Table
        Where they come from.
    X, y : object
        What an estimator takes.
    features, targets : list of str
        Names of the columns.
    classes : bool
        Whether the target is one of classes.
    rows : int
        How many are fitted.
    places : ndarray of shape (rows,) or None
        Which rows of the table they are, counted from 1.
    test : tuple or None
        Inputs and targets of rows that are held out, and which rows these are.
    notes, warnings : list of str
        Sentences about the data; warnings are said even to who wants no notes.
    source : Source or None
        The rows, where they are read in blocks.
    """

    table: Table
    X: Any
    y: Any
    features: list[str]
    targets: list[str]
    classes: bool
    rows: int
    places: Any = None
    test: tuple[Any, Any, Any] | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    source: Source | None = None

    def score(self, model: Any) -> float | None:
        """R2 or accuracy on the rows that were fitted; None where nothing varies."""
        if self.source is None:
            if not self.classes and not _varies(self.y).any():
                return None
            return float(model.score(self.X, self.y))
        return _score(model, self.source)


def gathered(arguments: argparse.Namespace) -> Data:
    """Read the rows, and hold some out if that is asked for.

    Parameters
    ----------
    arguments : Namespace
        From the parser.

    Returns
    -------
    Data
        Rows of at least one feature.
    """
    asked = [*arguments.target, *(arguments.features or []), *arguments.drop]
    # A small number is the place of a column, in a file without names: no sign of a header.
    wanted = [name for name in asked if not (name.isdecimal() and len(name) <= _DIGITS)]
    table = opened(arguments, arguments.data, wanted)
    targets, features = choose(table, arguments.target, arguments.features, arguments.drop)
    in_blocks = os.path.isdir(arguments.data) or (
        _tables.is_parquet(arguments.data) and (arguments.memory or arguments.checkpoint)
    )
    if in_blocks:
        if arguments.test:
            raise TableError(
                "--test splits a table in memory, and this one is read in blocks: give rows of "
                "their own with --test-file"
            )
        return _blocks(arguments, table, targets, features)
    found = (
        read_strictly(
            table, targets, features, classes=_strictly_classes(arguments, table, targets)
        )
        if arguments.strict
        else clean(table, targets, features, named=bool(arguments.features), task=_task(arguments))
    )
    if len(found.X) < 2:
        raise TableError(f"{table.path}: 1 row of data, at least 2 are needed to fit")
    data = Data(
        table,
        found.X,
        found.y,
        found.features,
        targets,
        found.classes,
        len(found.X),
        found.places,
        notes=found.notes,
        warnings=found.warnings,
    )
    _note_copies(data, found)
    _note_constant(data)
    if arguments.test:
        _hold_out(data, arguments.test, arguments.seed)
    return data


def _task(arguments: argparse.Namespace) -> str:
    """What is asked of the target; counts are numbers."""
    if arguments.likelihood == "poisson":
        if arguments.task == "classification":
            raise TableError("--likelihood poisson is for counts, and --task classification is not")
        if len(arguments.target) > 1:
            raise TableError("--likelihood poisson takes one --target")
        return "regression"
    return str(arguments.task)


def _strictly_classes(arguments: argparse.Namespace, table: Table, targets: list[str]) -> bool:
    task = _task(arguments)
    if task == "classification" and len(targets) > 1:
        raise TableError("--task classification takes one --target")
    if task != "auto" or len(targets) > 1:
        return task == "classification"
    return table.is_text(targets[0])


def _note_copies(data: Data, found: Clean) -> None:
    """Say whether rows are equal: it may be a mistake, and they make a test too easy."""
    count = len(found.X) - int(_groups(found.X, found.y).max() + 1)
    if count:
        what = "1 row is a copy of another" if count == 1 else f"{count} rows are copies of others"
        data.notes.append(f"{data.table.path}: {what}: they count like any row")


def _note_constant(data: Data) -> None:
    """Say which targets are constant: what is fitted to them looks perfect and means nothing."""
    if data.classes:
        return
    for name, varies in zip(data.targets, _varies(data.y), strict=True):
        if not varies:
            data.warnings.append(
                f"{data.table.path}: the target, column {name!r}, is constant in these rows: "
                "there is nothing to predict"
            )


def _varies(y: NDArray[Any]) -> NDArray[np.bool_]:
    columns = y.reshape(len(y), -1)
    return np.asarray((columns != columns[0]).any(axis=0))


def _groups(X: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.intp]:
    """A number for each row, the same for equal ones."""
    codes = np.unique(y, return_inverse=True)[1].reshape(len(X), -1)
    rows = np.ascontiguousarray(np.column_stack([X, codes]))
    return np.unique(rows.view(np.dtype((np.void, rows.strides[0]))).ravel(), return_inverse=True)[
        1
    ]


def _hold_out(data: Data, fraction: float, seed: int) -> None:
    test = split(data.X, data.y, fraction, seed, by_class=data.classes)
    if test.all() or not test.any() or (~test).sum() < 2:
        raise TableError(
            f"{data.table.path}: --test {fraction:g} of {counted(len(test), 'row')} leaves no rows "
            "to fit, or none to test"
        )
    data.test = data.X[test], data.y[test], data.places[test]
    data.X, data.y, data.places = data.X[~test], data.y[~test], data.places[~test]
    data.rows = len(data.X)


def split(
    X: NDArray[np.float64],
    y: NDArray[Any],
    fraction: float,
    seed: int,
    *,
    by_class: bool = False,
) -> NDArray[np.bool_]:
    """Draw rows for a test; copies of a row stay together, and each class gives its share.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features.
    y : ndarray of shape (n,) or (n, targets)
        Targets or labels.
    fraction : float
        Share of rows, between 0 and 1.
    seed : int
        Of the draw.
    by_class : bool, default=False
        Whether y holds classes.

    Returns
    -------
    ndarray of bool of shape (n,)
        Rows of the test.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.commands._fit_data import split
    >>> X, y = np.arange(10.0)[:, np.newaxis], np.array(["a", "b"] * 5)
    >>> y[split(X, y, 0.4, seed=0, by_class=True)].tolist()
    ['a', 'b', 'b', 'a']
    """
    groups = _groups(X, y)
    strata = np.unique(y, return_inverse=True)[1] if by_class else np.zeros(len(X), dtype=np.intp)
    first = np.unique(groups, return_index=True)[1]
    order = np.random.default_rng(seed).permutation(len(first))
    sizes = np.bincount(groups)
    chosen = np.zeros(len(first), dtype=bool)
    for stratum in np.unique(strata):
        own = order[strata[first[order]] == stratum]
        # Half a group more or less is nearest to the share; one group at least stays for the fit.
        wanted = np.cumsum(sizes[own]) - 0.5 * sizes[own] < fraction * sizes[own].sum()
        wanted[-1] = False
        chosen[own[wanted]] = True
    return np.asarray(chosen[groups])


def _blocks(
    arguments: argparse.Namespace, table: Table, targets: list[str], features: list[str]
) -> Data:
    """Rows that are read piece by piece: columns are chosen by their types."""
    from sparsebayes._tables.arrow import ArrowFile
    from sparsebayes.rows import Parquet, open_source

    classes = _strictly_classes(arguments, table, targets)
    notes = []
    if classes and arguments.task == "auto":
        notes.append(f"{targets[0]!r} is text, so its values are taken for classes")
    if isinstance(table, ArrowFile) and not (arguments.strict or arguments.features):
        features, said = table.numeric(features)
        notes += [f"{table.path}: {sentence}" for sentence in said]
        if not features:
            raise TableError(f"{table.path}: no column is left to predict from ({said[-1]})")
    files = Parquet(table.path, columns=features)
    target: Any = targets[0] if len(targets) == 1 else targets
    source = open_source(files, target, numeric_y=not classes)
    rows = int(source.n_rows or 0)
    if rows < 2:
        raise TableError(f"{table.path}: {counted(rows, 'row')} of data, at least 2 are needed")
    return Data(table, files, target, features, targets, classes, rows, notes=notes, source=source)


def _score(model: Any, source: Source) -> float | None:
    """What ``model.score`` would be if all rows were in memory; None of constant targets."""
    hits, n = 0, 0
    shift: Any = None
    error = total = squares = np.zeros(1)
    for block in source.chunks(_BLOCK_ROWS):
        n += block.n
        predicted = model.predict(block.X)
        if hasattr(model, "classes_"):
            hits += int((predicted == block.y).sum())
            continue
        y = block.y.reshape(block.n, -1)
        shift = y.mean(axis=0) if shift is None else shift  # squares about it do not cancel
        error = error + ((y - predicted.reshape(y.shape)) ** 2).sum(axis=0)
        total = total + (y - shift).sum(axis=0)
        squares = squares + ((y - shift) ** 2).sum(axis=0)
    if shift is None:
        return hits / n
    spread = squares - total**2 / n
    known = spread > 0
    if not known.any():
        return None
    of_each = np.where(known, 1.0 - error / np.where(known, spread, 1.0), error == 0)
    return float(of_each.mean())
