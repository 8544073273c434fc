"""What comes of ``sparsebayes fit``: its quality, and the files that it writes."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from typing import Any

import numpy as np

from sparsebayes import persistence
from sparsebayes._console import counted, say
from sparsebayes._tables import Table, TableError
from sparsebayes._tables.matching import check_columns, read_for
from sparsebayes._tables.numerals import MISSING
from sparsebayes.commands._fit_data import Data
from sparsebayes.commands._summary import Summary
from sparsebayes.commands._tables import opened, tell

__all__ = [
    "doubt_words",
    "judged",
    "opened_test",
    "show_quality",
    "size_of",
    "title_of",
    "write_model",
    "write_report",
]


def title_of(data: Data) -> str:
    """What was predicted from what."""
    features = counted(len(data.features), "feature")
    targets = (name if name.isprintable() else repr(name) for name in data.targets)
    return f"{' and '.join(targets)} from {features} of {data.table.path}"


def size_of(arguments: argparse.Namespace, model: Any, data: Data) -> int:
    """How many atoms there were to choose from."""
    if arguments.kernel == "none":
        return len(data.features)
    if model.centers is None:
        return data.rows
    return min(data.rows, model.centers if np.ndim(model.centers) == 0 else len(model.centers))


def opened_test(arguments: argparse.Namespace, data: Data) -> Table | None:
    """The table of --test-file, refused before the fit if it cannot be used after it."""
    if arguments.test_file is None:
        return None
    table = opened(arguments, arguments.test_file, [*data.features, *data.targets])
    check_columns(table, data.features, data.targets)
    return table


def doubt_words(data: Data, model: Any) -> None:
    """Warn of classes that are words for a gap: in tables in memory they are taken for gaps."""
    if data.source is None or not data.classes:
        return
    words = [str(label) for label in model.classes_ if str(label).strip().lower() in MISSING]
    for word in words:
        warning = f"{data.table.path}: {word!r} is a class here; if it is a gap, remove those rows"
        data.warnings.append(warning)
        say(f"warning: {warning}")


def judged(
    arguments: argparse.Namespace, data: Data, model: Any, table: Table | None
) -> dict[str, Any] | None:
    """How good the model is on rows that it has not seen."""
    if table is not None:
        rows = read_for(model, table, data.targets, strict=arguments.strict)
        lost = int((~rows.complete).sum())
        if lost:
            rows.notes.append(f"{table.path}: {counted(lost, 'row')} with missing values: left out")
        tell(rows.notes, quiet=arguments.quiet)
        data.notes += rows.notes
        if not rows.complete.any():
            raise TableError(f"{table.path}: no row without missing values to test")
        assert rows.y is not None
        places = np.flatnonzero(rows.complete) + 1
        data.test = rows.X[rows.complete], rows.y[rows.complete], places
    if data.test is None:
        return None
    # Imported late: only who asks for it waits for it.
    from sparsebayes.reporting._quality import measure

    names = vars(model).pop("feature_names_in_")  # the rows are plain arrays
    found = dict(measure(model, *data.test[:2]))
    model.feature_names_in_ = names
    return found


def show_quality(
    found: Summary, data: Data, score: float | None, tested: dict[str, Any] | None
) -> None:
    """Say how good the model is."""
    found.line("rows", f"{data.rows}", rows=data.rows)
    kind = "accuracy" if data.classes else "R2"
    if tested is None:
        text = "not defined, the target is constant," if score is None else f"{score:.4f}"
        found.line("fit", f"{kind} {text} on these rows", **{kind.lower(): score})
        option = "--test 0.2" if data.source is None else "--test-file FILE"
        found.line("", f"to judge it, hold rows out: {option}", test=None)
        return
    assert data.test is not None
    n = len(data.test[0])
    found.facts(test={"rows": n} | tested)
    if data.classes:
        text = f"accuracy {tested['accuracy']:.4f}, log loss {tested['log_loss']:.4f}"
    else:
        explained = "not defined" if tested["r2"] is None else f"{tested['r2']:.4f}"
        text = f"R2 {explained}, RMSE {tested['rmse']:.4g}"
    found.line("held out", f"{text} on {counted(n, 'row')}")
    if not data.classes and "coverage_90" in tested:
        found.line("", f"{tested['coverage_90']:.1%} of them within their 90 % intervals")


def write_report(arguments: argparse.Namespace, data: Data, model: Any) -> None:
    """Write the page about the model, if it was asked for."""
    if arguments.report is None:
        return
    from sparsebayes.reporting import make_report

    training = None if data.source is not None else (data.X, data.y)
    X, y, places = data.test or (None, None, None)
    make_report(
        model,
        X,
        y,
        row_names=places,
        title=title_of(data),
        notes=[*data.warnings, *data.notes],
        target_names=data.targets,
        training=training,
    ).save(arguments.report)


def write_model(arguments: argparse.Namespace, data: Data, model: Any) -> None:
    """Write the model, if it was asked for."""
    names = tuple(data.targets)
    if arguments.output == "-":
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            persistence.save(model, path, target_names=names)
            with open(path, "rb") as file:
                sys.stdout.buffer.write(file.read())
        sys.stdout.buffer.flush()
    elif arguments.output is not None:
        persistence.save(model, arguments.output, target_names=names)
