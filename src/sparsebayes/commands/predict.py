"""``sparsebayes predict``: a model and a table to predictions."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from sparsebayes._console import counted
from sparsebayes.commands._options import RawText, fraction
from sparsebayes.commands._summary import Summary, add_summary_options
from sparsebayes.commands._tables import add_table_options, opened, refuse_overwriting, tell

if TYPE_CHECKING:
    from sparsebayes._tables import Table
    from sparsebayes._tables.matching import Matched

_EPILOG = """\
examples:
  sparsebayes predict houses.model new-houses.csv --output prices.parquet
  sparsebayes predict houses.model new-houses.csv --keep id --interval 0.9
  sparsebayes predict houses.model new-houses.csv --no-std | head
  cat new-houses.csv | sparsebayes predict houses.model - > prices.csv

The model's features are found in DATA by name, in any order; other columns
are ignored. The output has the columns prediction and std (prediction_NAME and
std_NAME for each of several targets), one line for each row of DATA. std
includes the noise: the mean plus or minus two of them holds about 95 % of new
observations. Of a classification the columns are prediction, the most probable
class, and probability_CLASS for each class.
A row with missing values gets an empty prediction, and these are counted on
stderr; with --strict they are an error. In csv and tsv, texts that a
spreadsheet would run as a formula (=, +, - or @ first, and no number) get an
apostrophe in front, which a note counts.

A model file is arrays and text, not a program: opening a stranger's runs no code.
"""


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    predict = commands.add_parser(
        "predict",
        help="predict the rows of a table",
        description="Predict the rows of a csv, tsv, parquet, feather or npy file with a fitted "
        "model.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    predict.add_argument("model", metavar="MODEL", help="file written by sparsebayes fit")
    predict.add_argument(
        "data", metavar="DATA", help="csv, tsv, parquet, feather or npy file, or - for stdin"
    )
    add_table_options(predict.add_argument_group("how DATA is read"))
    what = predict.add_argument_group("what is written")
    what.add_argument(
        "--output",
        metavar="FILE",
        help="csv, tsv, parquet, feather or npy file to write (default, and -: csv to stdout)",
    )
    what.add_argument(
        "--std",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="with standard deviations, or probabilities of the classes (default: yes)",
    )
    what.add_argument(
        "--interval",
        metavar="LEVEL",
        type=fraction,
        help="with the ends, lower and upper, of intervals that hold this share of new "
        "observations, such as 0.9",
    )
    what.add_argument(
        "--keep",
        metavar="NAME",
        nargs="+",
        action="extend",
        default=[],
        help="columns of DATA to be copied, such as one that names the rows",
    )
    add_summary_options(predict)


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes predict``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    from sparsebayes import _tables, persistence
    from sparsebayes._tables.matching import read_for

    if arguments.output is not None:
        _tables.check_output(arguments.output)
        refuse_overwriting(arguments.output, arguments.data, arguments.model)
    if os.path.isdir(arguments.model):
        raise _tables.TableError(f"{arguments.model}: is a directory, a model file is needed")
    stored = persistence.read_model(arguments.model)
    model = stored.model
    if arguments.interval is not None and hasattr(model, "classes_"):
        raise _tables.TableError("--interval is for numbers, and the model predicts classes")
    names = getattr(model, "feature_names_in_", [])
    table = opened(arguments, arguments.data, [*map(str, names), *arguments.keep])
    kept = _kept(table, arguments.keep)
    rows = read_for(model, table, called=f"the model {arguments.model}", strict=arguments.strict)
    # The columns are matched by name; the estimator then takes a plain array.
    vars(model).pop("feature_names_in_", None)
    found = _predicted(model, rows, arguments, stored.target_names)
    clash = [name for name in kept if name in found]
    if clash:
        raise _tables.TableError(f"--keep: the predictions have a column {clash[0]!r} themselves")
    empty = int((~rows.complete).sum())
    if empty:
        what = (
            "has missing values: its prediction is"
            if empty == 1
            else ("have missing values: their predictions are")
        )
        total = counted(len(rows.complete), "row")
        rows.notes.append(f"{table.path}: {empty} of {total} {what} empty")
    tell(rows.notes, quiet=arguments.quiet)
    guarded = _tables.write_table(arguments.output, kept | found)
    if guarded:
        note = (
            f"{counted(guarded, 'text')} would be a formula in a spreadsheet: written with an "
            "apostrophe in front (parquet, feather: as it is)"
        )
        tell([note], quiet=arguments.quiet)
        rows.notes.append(note)
    if arguments.json:
        _summarize(arguments, table, rows, empty)


def _summarize(arguments: argparse.Namespace, table: Table, rows: Matched, empty: int) -> None:
    summary = Summary("")
    summary.facts(
        model=arguments.model,
        data=table.path,
        rows=len(rows.complete),
        predicted=len(rows.complete) - empty,
        output=arguments.output,
        notes=rows.notes,
    )
    # Where the table went to stdout, this does not.
    shown = vars(arguments) | {"output": arguments.output or "-"}
    summary.show(argparse.Namespace(**shown))


def _kept(table: Table, names: list[str]) -> dict[str, Any]:
    """Columns that are copied as they are."""
    import numpy as np

    from sparsebayes._tables import TableError, suggestion
    from sparsebayes._tables.choosing import found_name

    kept = {}
    for name in names:
        known = found_name(table, name)
        if known is None:
            hint = suggestion(name, table.names)
            raise TableError(f"{table.path}: --keep: no column {name!r}{hint}")
        values = np.empty(len(found := table.copied(known)), dtype=object)
        values[:] = found
        kept[known] = values
    return kept


def _predicted(
    model: Any, rows: Matched, arguments: argparse.Namespace, targets: tuple[str, ...] | None
) -> dict[str, Any]:
    """Columns of predictions, a row for each of the table."""
    import numpy as np

    whole = bool(rows.complete.all())
    X = rows.X if whole else rows.X[rows.complete]
    if not len(X):
        # The names of the columns, and none of their values.
        X = np.zeros((1, rows.X.shape[1]))
    if hasattr(model, "classes_"):
        found = _probabilities(model, X, arguments.std)
    else:
        found = _numbers(model, X, arguments, targets)
    if whole:
        return found
    return {name: _spread(column, rows.complete) for name, column in found.items()}


def _spread(column: Any, complete: Any) -> Any:
    """Put values into the rows that have them; the others are empty."""
    import numpy as np

    numeric = column.dtype.kind == "f"
    spread = np.full(len(complete), np.nan if numeric else None, dtype=None if numeric else object)
    count = int(complete.sum())
    spread[complete] = column[:count] if numeric else column[:count].tolist()
    return spread


def _numbers(
    model: Any, X: Any, arguments: argparse.Namespace, targets: tuple[str, ...] | None
) -> dict[str, Any]:
    """Means, standard deviations and intervals, named by the targets if they are several."""
    import numpy as np

    found = model.predict(X, return_std=arguments.std)
    mean, std = found if arguments.std else (found, None)
    parts = {"prediction": mean} if std is None else {"prediction": mean, "std": std}
    if arguments.interval is not None:
        ends = model.predict_distribution(X).interval(arguments.interval)
        parts["lower"], parts["upper"] = ends
    if mean.ndim == 1:
        return parts
    count = mean.shape[1]
    names = targets if targets and len(targets) == count else [str(t + 1) for t in range(count)]
    columns = {}
    for place, name in enumerate(names):
        for part, values in parts.items():
            each = values if values.ndim == 2 else np.broadcast_to(values[:, None], mean.shape)
            columns[f"{part}_{name}"] = each[:, place]
    return columns


def _probabilities(model: Any, X: Any, wanted: bool) -> dict[str, Any]:
    """Predicted classes, and the probability of each class."""
    if not wanted:
        return {"prediction": model.predict(X)}
    found = model.predict_distribution(X)
    columns = {"prediction": found.mode}
    for place, label in enumerate(model.classes_.tolist()):
        columns[f"probability_{label}"] = found.proba[:, place]
    return columns
