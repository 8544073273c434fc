"""Which columns of a table are targets and which features, by what the user says."""

from __future__ import annotations

from collections.abc import Sequence

from sparsebayes._tables.reading import suggestion
from sparsebayes._tables.table import Table, TableError

__all__ = ["choose", "found_name"]


def choose(
    table: Table, targets: Sequence[str], features: Sequence[str] | None, drop: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Find the columns that are asked for.

    Parameters
    ----------
    table : Table
        From `open_table`.
    targets, drop : sequence of str
        Names of columns; numbers, counted from 0, where the table has no names of its own.
    features : sequence of str or None
        The same; None for all other columns that have a name.

    Returns
    -------
    targets, features : list of str
        Names in the table.

    Raises
    ------
    TableError
        For columns that are not there, or named twice.
    """
    targets, chosen, drop = (
        _found(table, option, names)
        for option, names in (
            ("--target", targets),
            ("--features", features or []),
            ("--drop", drop),
        )
    )
    for name in chosen:
        if name in targets or name in drop:
            other = "--target" if name in targets else "--drop"
            raise TableError(f"column {name!r} is named by both --features and {other}")
    others = [name for name in table.names if name not in {*targets, *drop}]
    chosen = chosen or [name for name in others if name not in table.unnamed]
    if not chosen:
        raise TableError(f"{table.path}: no column is left to predict from")
    if "" in chosen:
        place = table.names.index("") + 1
        raise TableError(
            f'{table.path}: column {place} has no name: name it, or leave it out with --drop ""'
        )
    return targets, chosen


def found_name(table: Table, name: str) -> str | None:
    """The name of a column by its name, or by its number where names are not the file's.

    Parameters
    ----------
    table : Table
        From `open_table`.
    name : str
        What the user wrote.

    Returns
    -------
    str or None
        None where there is no such column.
    """
    if name in table.names:
        return name
    if table.numbered and name.removeprefix("-").isdecimal():
        place, count = int(name), len(table.names)
        if -count <= place < count:
            return table.names[place]
    return None


def _found(table: Table, option: str, names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        known = found_name(table, name)
        if known is None:
            hint = suggestion(name, table.names)
            raise TableError(f"{table.path}: {option}: no column {name!r}{hint}")
        if known in found:
            raise TableError(f"{option} names column {name!r} twice")
        found.append(known)
    return found
