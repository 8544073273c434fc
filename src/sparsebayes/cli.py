"""The command line: ``sparsebayes demo``, ``fit``, ``predict`` and ``denoise``.

Only the standard library is imported before a command runs: help and usage errors are instant.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparsebayes._arguments import parser
from sparsebayes._console import counted, item, say, warnings_as_lines

if TYPE_CHECKING:
    from sparsebayes._tables import Table

__all__ = ["main"]

_LESS_MEMORY = {
    "fit": ": use fewer rows, --centers NUMBER, or --kernel none",
    "denoise": ": cut the signal into pieces, or fill in its gaps beforehand",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str or None, default=None
        Arguments without the program's name; None for those of the process.

    Returns
    -------
    int
        The exit code: 0, 1 for trouble with data, 130 for an interruption. Wrong usage raises
        ``SystemExit(2)``, as argparse does.

    Examples
    --------
    >>> from sparsebayes.cli import main
    >>> main(["predict", "missing.model", "missing.csv"])
    1
    """
    arguments = parser().parse_args(argv)
    try:
        with warnings_as_lines():
            _COMMANDS[arguments.command](arguments)
            sys.stdout.flush()
    except KeyboardInterrupt:
        kept = getattr(arguments, "checkpoint", None)
        more = kept and os.path.exists(kept)
        say("interrupted" + (f": with --resume a fit goes on from {kept}" if more else ""))
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader, `head` perhaps, has had enough. Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        say(f"error: {place}{error.strerror or error}")
    except MemoryError:
        say(f"error: not enough memory{_LESS_MEMORY.get(arguments.command, '')}")
    except (ArithmeticError, TypeError, ValueError) as error:
        say(f"error: {error}")
    else:
        return 0
    return 1


def _demo(arguments: argparse.Namespace) -> None:
    from sparsebayes import _tables

    picture: str = arguments.output
    _tables.check_picture(picture)
    from sparsebayes._demo import draw, run_demo
    from sparsebayes._fit_command import summarize

    demo = run_demo(arguments.seed)
    print("Relevance vector regression of 100 noisy values of sin(x)/x\n")
    summarize(demo.model, len(demo.data.y), f"  (true: {demo.data.noise_std:.4g})")
    item("error", f"RMSE {demo.rmse:.4f} against the true function at 1000 points")
    item("time", f"{demo.seconds:.3f} s")
    if importlib.util.find_spec("matplotlib") is None:
        item("picture", 'none; for one: pip install "sparsebayes[plot]"')
    else:
        draw(demo, picture)
        item("picture", picture)


def _fit(arguments: argparse.Namespace) -> None:
    from sparsebayes._fit_command import run

    run(arguments)


def _predict(arguments: argparse.Namespace) -> None:
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


def _denoise(arguments: argparse.Namespace) -> None:
    from sparsebayes._denoise_command import run

    run(arguments)


_COMMANDS = {"demo": _demo, "fit": _fit, "predict": _predict, "denoise": _denoise}
