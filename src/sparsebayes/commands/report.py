"""``sparsebayes report``: a model and rows it has not seen to a page for the browser."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from sparsebayes._console import counted
from sparsebayes.commands._options import RawText
from sparsebayes.commands._summary import Summary, add_summary_options
from sparsebayes.commands._tables import (
    add_table_options,
    opened,
    refuse_overwriting,
    refuse_reading_twice,
    tell,
)

if TYPE_CHECKING:
    from sparsebayes.persistence import ModelFile

_EPILOG = """\
examples:
  sparsebayes report houses.model new-houses.csv --output houses.html
      what was fitted, and how good it is on rows that it was not fitted to
  sparsebayes report houses.model new.csv --training old.csv --output houses.html
      also says which of the new rows lie outside the range of the old ones
  sparsebayes report houses.model --output houses.html
      what was fitted alone

The file is complete in itself: it opens without a network, and loads nothing.
The model's features are found in DATA by name, as in predict. The targets are
the columns that the model was fitted to, if DATA has them, or --target. Rows
with gaps are left out and counted. "sparsebayes fit --test 0.2 --report FILE"
does both in one go.
"""


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    report = commands.add_parser(
        "report",
        help="write a page about a model and its quality on new rows",
        description="Write an HTML page about a fitted model: what it is, how good it is on rows\n"
        "it has not seen, and what to watch out for.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    report.add_argument("model", metavar="MODEL", help="file written by sparsebayes fit")
    report.add_argument(
        "data",
        metavar="DATA",
        nargs="?",
        help="csv, tsv, parquet, feather or npy file of rows the model was not fitted to, or -",
    )
    report.add_argument(
        "--output", metavar="FILE", required=True, help="HTML file to write, or - for stdout"
    )
    add_table_options(report.add_argument_group("how DATA is read"))
    report.add_argument(
        "--target",
        metavar="NAME",
        nargs="+",
        action="extend",
        help="columns that hold what the model predicts (default: those it was fitted to)",
    )
    report.add_argument(
        "--training", metavar="FILE", help="table that the model was fitted to, to compare with"
    )
    report.add_argument("--title", metavar="TEXT", help="title of the page")
    report.add_argument(
        "--note",
        metavar="TEXT",
        action="append",
        default=[],
        help="sentence about the data to be shown; may be given several times",
    )
    add_summary_options(report)


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes report``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    from sparsebayes import _tables, persistence

    if arguments.output != "-":
        _tables.check_folder(arguments.output)
    refuse_overwriting(arguments.output, arguments.model, arguments.data, arguments.training)
    refuse_reading_twice(DATA=arguments.data, **{"--training": arguments.training})
    if os.path.isdir(arguments.model):
        raise _tables.TableError(f"{arguments.model}: is a directory, a model file is needed")
    stored = persistence.read_model(arguments.model)
    rows = _NONE if arguments.data is None else _read(arguments, stored, arguments.data)
    old = _NONE if arguments.training is None else _read(arguments, stored, arguments.training)
    tell([*rows.notes, *old.notes], quiet=arguments.quiet)
    from sparsebayes.reporting import make_report

    report = make_report(
        stored.model,
        rows.X,
        rows.y,
        title=arguments.title,
        notes=[*arguments.note, *rows.notes],
        target_names=arguments.target or stored.target_names,
        training=None if old.X is None else (old.X, old.y),
        row_names=rows.names,
    )
    if arguments.output == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(report.html.encode("utf-8"))
        sys.stdout.buffer.flush()
    else:
        report.save(arguments.output)
    _summarize(arguments, stored, rows, report)


class _Rows(NamedTuple):
    """Rows of a table that have no gaps."""

    X: Any
    y: Any
    names: Any  # their numbers in the table, from 1
    notes: list[str]


_NONE = _Rows(None, None, None, [])


def _read(arguments: argparse.Namespace, stored: ModelFile, path: str) -> _Rows:
    import numpy as np

    from sparsebayes._tables import TableError
    from sparsebayes._tables.matching import read_for

    targets = arguments.target or list(stored.target_names or ())
    table = opened(arguments, path, targets)
    notes = []
    if arguments.target is None and not set(targets) <= set(table.names):
        targets = []
    if not targets:
        notes.append(
            f"{table.path}: has no column of the target, so nothing is said of quality; name "
            "it with --target"
        )
    found = read_for(
        stored.model,
        table,
        targets or None,
        called=f"the model {arguments.model}",
        strict=arguments.strict,
    )
    kept = np.flatnonzero(found.complete)
    if not len(kept):
        raise TableError(f"{table.path}: no row is without gaps")
    lost = len(found.complete) - len(kept)
    if lost:
        notes.append(f"{table.path}: {counted(lost, 'row')} with missing values left out")
    y = None if found.y is None else found.y[kept]
    return _Rows(found.X[kept], y, kept + 1, [*found.notes, *notes])


def _summarize(arguments: argparse.Namespace, stored: ModelFile, rows: _Rows, report: Any) -> None:
    """Say where the report is, the numbers that matter most, and what it warns of."""
    from sparsebayes.reporting._quality import measure

    size = len(report.html.encode("utf-8"))
    summary = Summary(report.title)
    summary.line("report", f"{arguments.output}, {size / 1000:.0f} kB", report=arguments.output)
    if rows.X is not None:
        summary.line("rows", f"{len(rows.X)} held out", held_out_rows=len(rows.X))
    if rows.y is not None:
        model = stored.model
        vars(model).pop("feature_names_in_", None)  # the rows are a plain array
        found = measure(model, rows.X, rows.y)
        if "accuracy" in found:
            text = f"accuracy {found['accuracy']:.4f}, log loss {found['log_loss']:.4f}"
        else:
            text = f"RMSE {found['rmse']:.4g}"
            text += "" if found["r2"] is None else f", R2 {found['r2']:.4f}"
        summary.line("quality", f"{text} on these rows", quality=found)
    for place, line in enumerate(report.warnings):
        summary.line("warnings" if place == 0 else "", line)
    summary.facts(warnings=list(report.warnings))
    summary.show(arguments)
