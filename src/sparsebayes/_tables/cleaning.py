"""Tables as they come: which columns and rows can be used, with a sentence for all that cannot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsebayes._console import counted
from sparsebayes._labels import shown
from sparsebayes._tables.reading import labels_of, read_labels, read_numbers
from sparsebayes._tables.table import Column, FloatArray, Kind, Table, TableError, listed, quoted

__all__ = ["Clean", "clean", "read_strictly"]

_MOST_CLASSES = 100  # different texts that are taken for classes without being asked
_FEW_NUMBERS = 10  # different integers that may be meant for classes
_LEFT_OUT: dict[Kind, tuple[str, str]] = {
    "dates": ("holds dates", "to use them make numbers of them, such as days since the first"),
    "text": ("holds text", "to use it make numbers of it, such as 0 and 1 for each of its values"),
    "ambiguous": (
        "may be read in two ways, as 1,234 is 1234 or 1.234",
        "say which with --decimal point or --decimal comma",
    ),
    "percentages": ("holds percentages", "to use them take the % signs away"),
    "other": ("holds neither numbers nor text", ""),
    "nothing": ("has no values", ""),
}


@dataclass(frozen=True, eq=False)
class Clean:
    """Rows and columns that can be fitted.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features, all finite.
    y : ndarray of shape (n,) or (n, targets)
        Numbers, or labels of classes.
    features, targets : list of str
        Names of the columns.
    classes : bool
        Whether the target is one of classes.
    rows : int
        How many rows the table has.
    places : ndarray of shape (n,)
        Which of them these are, counted from 1.
    notes : list of str
        Sentences about what was left out and why.
    warnings : list of str
        Those that should not be overlooked.
    """

    X: FloatArray
    y: NDArray[Any]
    features: list[str]
    targets: list[str]
    classes: bool
    rows: int
    places: NDArray[np.intp]
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_strictly(table: Table, targets: list[str], features: list[str], *, classes: bool) -> Clean:
    """Read a table that has nothing to be left out; else it is an error.

    Parameters
    ----------
    table : Table
        From `open_table`.
    targets, features : list of str
        Columns.
    classes : bool
        Whether the target is one of classes.

    Returns
    -------
    Clean
        All rows.
    """
    if classes:
        X, y = read_numbers(table, features), read_labels(table, targets[0])
    else:
        values = read_numbers(table, features + targets)
        X, y = values[:, : len(features)], _squeezed(values[:, len(features) :])
    return Clean(X, y, features, targets, classes, len(X), np.arange(1, len(X) + 1))


def clean(
    table: Table,
    targets: list[str],
    features: list[str],
    *,
    named: bool = False,
    task: str = "auto",
) -> Clean:
    """Read what can be used of a table.

    Parameters
    ----------
    table : Table
        From `open_table`, not strict.
    targets, features : list of str
        Columns.
    named : bool, default=False
        Whether the user named the features: then none that is no number is left out in silence of
        an error.
    task : "auto", "regression" or "classification", default="auto"
        What is wanted of the target.

    Returns
    -------
    Clean
        With at least two rows; a TableError where they are not left.
    """
    looked = {column.name: column for column in table.look([*features, *targets])}
    rows = len(looked[targets[0]].numbers)
    if not rows:
        raise TableError(f"{table.path}: the file has no rows of data")
    if rows < 2:
        raise TableError(f"{table.path}: 1 row of data, at least 2 are needed to fit")
    notes = [f"{table.path}: {remark}" for remark in table.remarks]
    if table.unnamed and not named:
        notes.append(f"{table.path}: {_without_names(table)}")
    classes = _is_of_classes(table, [looked[name] for name in targets], task, notes)
    kept = _columns(table.path, [looked[name] for name in features], named, notes)
    y, there = _targets(table, [looked[name] for name in targets], classes, notes)
    X = finite(table.path, kept, notes)
    complete = there & ~np.isnan(X).any(axis=1)
    warnings = _say_rows(table.path, kept, X, there, complete, notes)
    X, y = X[complete], y[complete[there]]
    if len(X) < 2:
        left = counted(len(X), "row")
        raise TableError(
            f"{table.path}: {left} without gaps, at least 2 are needed to fit"
            f"{_most_gaps(kept, rows)}"
        )
    varies = (X != X[0]).any(axis=0)
    names = [column.name for column in kept]
    constant = [name for name, moves in zip(names, varies, strict=True) if not moves]
    if constant:
        # Such as the rows that are left: what the whole column holds was looked at before.
        _say_constant(table.path, constant, " in these rows", notes)
        names = [name for name, moves in zip(names, varies, strict=True) if moves]
        X = np.ascontiguousarray(X[:, varies])
    if not names:
        raise _nothing_left(table.path, notes)
    places = np.flatnonzero(complete) + 1
    return Clean(X, y, names, targets, classes, rows, places, notes, warnings)


def _without_names(table: Table) -> str:
    places = [str(table.names.index(name) + 1) for name in table.unnamed]
    if len(places) == 1:
        return f"column {places[0]} has no name: left out"
    return f"columns {', '.join(places[:6])} have no names: left out"


def _is_of_classes(table: Table, targets: list[Column], task: str, notes: list[str]) -> bool:
    for target in targets:
        if target.kind in ("dates", "ambiguous", "percentages", "nothing", "other"):
            raise TableError(f"{table.path}: the target, {fault(target)}")
    if len(targets) > 1:
        if task == "classification":
            raise TableError("--task classification takes one --target")
        task = "regression"
    target = targets[0]
    if task == "auto" and not target.odd and target.kind == "numbers":
        _say_few(table.path, target, notes)
    few = target.odd and len(np.unique(target.numbers[np.isfinite(target.numbers)])) <= _FEW_NUMBERS
    if task == "auto" and (few or target.kind in ("text", "truths")):
        _refuse_names(table, target)
        what = "is true or false" if target.kind == "truths" else "is text"
        notes.append(f"{target.name!r} {what}, so its values are taken for classes")
        return True
    return task == "classification"


def _say_few(path: str, target: Column, notes: list[str]) -> None:
    """Tell who may mean classes how to ask for them."""
    numbers = target.numbers[np.isfinite(target.numbers)]
    different = np.unique(numbers)
    few = 2 <= different.size <= min(_FEW_NUMBERS, numbers.size // 3)
    if few and np.array_equal(different, np.rint(different)):
        values = shown(different.astype(np.int64) if np.abs(different).max() < 2**53 else different)
        notes.append(
            f"{path}: {target.name!r} holds only {values}, which are taken as numbers; --task "
            "classification takes them for classes"
        )


def _refuse_names(table: Table, target: Column) -> None:
    different = len({value for value in table.values(target.name) if value is not None})
    there = len(target.numbers) - target.missing
    if different > _MOST_CLASSES:
        raise TableError(
            f"{table.path}: the target, column {target.name!r}, is text with {different} different "
            f"values in {counted(there, 'row')} ({target.example}): too many to be taken for "
            "classes; --task classification takes them all the same"
        )


def _columns(path: str, columns: list[Column], named: bool, notes: list[str]) -> list[Column]:
    """The features that can be used."""
    rows = len(columns[0].numbers)
    kept, constant = [], []
    faulty: dict[Kind, list[Column]] = {}
    sparse = []
    for column in columns:
        if not column.usable:
            if named:
                raise TableError(f"{path}: {fault(column)}")
            faulty.setdefault(column.kind, []).append(column)
        elif 2 * (column.missing + column.odd) > rows and not named:
            sparse.append(column)
        elif (values := column.numbers[~np.isnan(column.numbers)]).min() == values.max():
            constant.append(column.name)
        else:
            kept.append(column)
            if column.remark:
                notes.append(f"{path}: column {column.name!r} {column.remark}")
            if column.odd:
                notes.append(f"{path}: {odd_values(column)}")
    for kind, some in faulty.items():
        what, advice = _LEFT_OUT[kind]
        if len(some) > 1:
            what = what.replace("holds", "hold", 1).replace("has", "have", 1)
        example = f" ({some[0].example})" if some[0].example else ""
        names = listed([column.name for column in some])
        notes.append(f"{path}: {names} {what}{example}: left out" + (f"; {advice}" * bool(advice)))
    if sparse:
        have = "has" if len(sparse) == 1 else "have"
        names = listed([column.name for column in sparse])
        gaps = min(column.missing + column.odd for column in sparse)
        least = "" if len(sparse) == 1 else "at least "
        notes.append(f"{path}: {names} {have} no value in {least}{gaps} of {rows} rows: left out")
    if constant:
        _say_constant(path, constant, "", notes)
    if not kept:
        raise _nothing_left(path, notes)
    return kept


def _say_constant(path: str, names: list[str], where: str, notes: list[str]) -> None:
    are = "is" if len(names) == 1 else "are"
    notes.append(f"{path}: {listed(names)} {are} constant{where}: left out")


def _nothing_left(path: str, notes: list[str]) -> TableError:
    reason = notes[-1].removeprefix(f"{path}: ")
    return TableError(f"{path}: no column is left to predict from ({reason})")


def fault(column: Column) -> str:
    what, advice = _LEFT_OUT.get(column.kind, ("", ""))
    example = f", {column.example}" if column.example else ""
    if column.kind in ("text", "dates", "percentages"):
        return f"column {column.name!r}{example} is not a number, the column {what}: {advice}"
    return f"column {column.name!r}{example} {what}" + (f": {advice}" if advice else "")


def odd_values(column: Column) -> str:
    if column.odd == 1:
        return f"column {column.name!r}, {column.example} is not a number: taken as missing"
    return (
        f"column {column.name!r} has {column.odd} values that are not numbers, the first in "
        f"{column.example}: taken as missing"
    )


def _targets(
    table: Table, targets: list[Column], classes: bool, notes: list[str]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Targets of the rows that have them, and which rows do."""
    if classes:
        values = table.values(targets[0].name)
        there = np.array([value is not None for value in values])
        _say_targets(table, there, targets, notes, classes=True)
        return labels_of([value for value in values if value is not None]), there
    for target in targets:
        if not target.usable:
            raise TableError(f"{table.path}: {fault(target)}")
        if target.remark:
            notes.append(f"{table.path}: column {target.name!r} {target.remark}")
        if target.odd:
            notes.append(f"{table.path}: {odd_values(target)}")
    y = finite(table.path, targets, notes)
    there = np.asarray(~np.isnan(y).any(axis=1))
    _say_targets(table, there, targets, notes)
    return _squeezed(y[there]), there


def _say_targets(
    table: Table,
    there: NDArray[np.bool_],
    targets: list[Column],
    notes: list[str],
    *,
    classes: bool = False,
) -> None:
    absent = int((~there).sum())
    if absent:
        row = int(np.flatnonzero(~there)[0])
        names = listed([target.name for target in targets]).removeprefix("column ")
        # A word such as none may have been meant for a class.
        word = table.copied(targets[0].name)[row] if len(targets) == 1 else None
        where = f"row {row + 1}" + (f", {quoted(word)}" if isinstance(word, str) else "")
        text = (
            f"{table.path}: {where} has no target ({names}): left out"
            if absent == 1
            else f"{table.path}: {absent} rows have no target ({names}), the first {where}: left "
            "out"
        )
        if classes and isinstance(word, str):
            text += f"; if {quoted(word)} is a class, give it another name"
        notes.append(text)


def finite(path: str, columns: list[Column], notes: list[str]) -> FloatArray:
    """Numbers of columns side by side, with NaN for infinite ones."""
    X = np.stack([column.numbers for column in columns], axis=1)
    infinite = np.isinf(X)
    if infinite.any():
        names = [columns[place].name for place in np.flatnonzero(infinite.any(axis=0))]
        row, place = (int(index[0]) for index in np.nonzero(infinite))
        notes.append(
            f"{path}: {listed(names)}: {counted(int(infinite.sum()), 'infinite value')}, the first "
            f"{X[row, place]} in row {row + 1}: taken as missing"
        )
        X[infinite] = np.nan
    return X


def _say_rows(
    path: str,
    columns: list[Column],
    X: FloatArray,
    there: NDArray[np.bool_],
    complete: NDArray[np.bool_],
    notes: list[str],
) -> list[str]:
    gaps = int((there & ~complete).sum())
    rows = len(X)
    if not gaps:
        return []
    missing = np.isnan(X[there]).sum(axis=0)
    worst = int(missing.argmax())
    have = "has" if gaps == 1 else "have"
    text = (
        f"{path}: {gaps} of {rows} rows {have} missing values, most of them in column "
        f"{columns[worst].name!r} ({missing[worst]}): left out"
    )
    if 2 * gaps > rows:
        return [f"{text}; --drop {columns[worst].name} keeps more rows"]
    notes.append(text)
    return []


def _most_gaps(columns: list[Column], rows: int) -> str:
    worst = max(columns, key=lambda column: column.missing + column.odd)
    gaps = worst.missing + worst.odd
    return f" (column {worst.name!r} has gaps in {gaps} of {rows})" if gaps else ""


def _squeezed(y: FloatArray) -> FloatArray:
    return y[:, 0] if y.shape[1] == 1 else y
