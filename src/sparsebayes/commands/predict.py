"""``sparsebayes predict``: a model and a table to predictions."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from sparsebayes._console import counted, say
from sparsebayes.commands._options import RawText

if TYPE_CHECKING:
    from sparsebayes._tables import Table

_EPILOG = """\
examples:
  sparsebayes predict houses.model new-houses.csv --output prices.parquet
  sparsebayes predict houses.model new-houses.csv --no-std | head

The model's features are found in DATA by name, in any order; other columns
are ignored. The output has the columns prediction and std (prediction_NAME and
std_NAME for each of several targets), one line for each row of DATA. std
includes the noise: the mean plus or minus two of them holds about 95 % of new
observations. Of a classification the columns are prediction, the most probable
class, and probability_CLASS for each class.

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
        help="predict the rows of a csv or parquet file",
        description="Predict the rows of a csv or parquet file with a fitted model.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    predict.add_argument("model", metavar="MODEL", help="file written by sparsebayes fit")
    predict.add_argument("data", metavar="DATA", help="csv, tsv or parquet file")
    predict.add_argument(
        "--output",
        metavar="FILE",
        help="csv, tsv or parquet file to write (default: csv to stdout)",
    )
    predict.add_argument(
        "--std",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="with standard deviations, or probabilities of the classes (default: yes)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes predict``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    from sparsebayes import _tables, persistence

    if arguments.output is not None:
        _tables.check_output(arguments.output)
    if os.path.isdir(arguments.model):
        raise _tables.TableError(f"{arguments.model}: is a directory, a model file is needed")
    stored = persistence.read_model(arguments.model)
    model = stored.model
    table = _tables.open_table(arguments.data)
    # The columns are matched here, by name; the estimator then takes a plain array.
    names = vars(model).pop("feature_names_in_", None)
    features = _unnamed(model, table) if names is None else list(names)
    lacking = [name for name in features if name not in table.names]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise _tables.TableError(
            f"{table.path}: no column {lacking[0]!r}{more}, which the model {arguments.model} needs"
            + _tables.suggestion(lacking[0], table.names)
        )
    X = _tables.read_numbers(table, features)
    if hasattr(model, "classes_"):
        _tables.write_table(arguments.output, _probabilities(model, X, arguments.std))
        return
    found = model.predict(X, return_std=arguments.std)
    mean, std = found if arguments.std else (found, None)
    _tables.write_table(arguments.output, _named(mean, std, stored.target_names))


def _unnamed(model: Any, table: Table) -> list[str]:
    """Take all columns in order for a model that was fitted to an array without names."""
    from sparsebayes._tables import TableError

    if len(table.names) != model.n_features_in_:
        raise TableError(
            f"{table.path}: {counted(len(table.names), 'column')}, but the model was fitted to "
            f"{counted(model.n_features_in_, 'feature')} without names: give it exactly those"
        )
    say("note: the model has no feature names, so the columns are taken in their order")
    return table.names


def _named(mean: Any, std: Any, targets: tuple[str, ...] | None) -> dict[str, Any]:
    """Name the columns of the predictions."""
    import numpy as np

    if mean.ndim == 1:
        return {"prediction": mean} if std is None else {"prediction": mean, "std": std}
    count = mean.shape[1]
    names = targets if targets and len(targets) == count else [str(t + 1) for t in range(count)]
    columns = {}
    if std is not None and std.ndim == 1:
        std = np.broadcast_to(std[:, np.newaxis], mean.shape)
    for place, name in enumerate(names):
        columns[f"prediction_{name}"] = mean[:, place]
        if std is not None:
            columns[f"std_{name}"] = std[:, place]
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
