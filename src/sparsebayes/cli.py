"""The command line: ``sparsebayes demo``, ``fit``, ``predict`` and ``denoise``.

Only the standard library is imported before a command runs: help and usage errors are instant.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparsebayes._arguments import parser
from sparsebayes._console import counted, item, progress, say, show_certificate, warnings_as_lines

if TYPE_CHECKING:
    from sparsebayes._tables import Table

__all__ = ["main"]

_LESS_MEMORY = {
    "fit": ": use fewer rows, or --kernel none",
    "denoise": ": cut the signal into pieces, or fill in its gaps beforehand",
}

_LEARNED = ("evidence", "ard")
_FEATURES_SHOWN = 6


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
        say("interrupted")
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

    demo = run_demo(arguments.seed)
    print("Relevance vector regression of 100 noisy values of sin(x)/x\n")
    _summarize(demo.model, len(demo.data.y), f"  (true: {demo.data.noise_std:.4g})")
    item("error", f"RMSE {demo.rmse:.4f} against the true function at 1000 points")
    item("time", f"{demo.seconds:.3f} s")
    if importlib.util.find_spec("matplotlib") is None:
        item("picture", 'none; for one: pip install "sparsebayes[plot]"')
    else:
        draw(demo, picture)
        item("picture", picture)


def _fit(arguments: argparse.Namespace) -> None:
    from sparsebayes import _tables

    if arguments.output is not None:
        _tables.check_folder(arguments.output)
    table = _tables.open_table(arguments.data)
    targets = arguments.target
    features = _features(table, targets, arguments.features, arguments.drop)
    classify = _is_classification(arguments, table)
    if classify:
        X, y = _tables.read_numbers(table, features), _tables.read_labels(table, targets[0])
    else:
        values = _tables.read_numbers(table, features + targets)
        X, y = values[:, : len(features)], values[:, len(features) :]
        if len(targets) == 1:
            y = y[:, 0]
    if len(X) < 2:
        raise _tables.TableError(f"{table.path}: 1 row of data, at least 2 are needed to fit")

    import numpy as np

    from sparsebayes import persistence

    model = _classifier(arguments) if classify else _regressor(arguments)
    started = time.perf_counter()
    with contextlib.nullcontext() if arguments.quiet else progress():
        model.fit(X, y)
    seconds = time.perf_counter() - started
    score = model.score(X, y)
    # As after fitting a data frame: whoever loads the model can check a frame against them.
    model.feature_names_in_ = np.array(features, dtype=object)
    if arguments.output is not None:
        persistence.save(model, arguments.output, target_names=tuple(targets))
    if arguments.quiet:
        return
    print(f"{' and '.join(targets)} from {counted(len(features), 'feature')} of {table.path}\n")
    size = len(features) if arguments.kernel == "none" else len(X)
    _summarize(model, size)
    item("rows", f"{len(X)}")
    item("fit", f"{'accuracy' if classify else 'R2'} {score:.4f} on these rows")
    item("time", f"{seconds:.3f} s")
    item("model", arguments.output or "not saved; give --output MODEL to predict with it")


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


def _features(
    table: Table, targets: list[str], features: list[str] | None, drop: list[str]
) -> list[str]:
    from sparsebayes._tables import TableError, suggestion

    for option, names in ("--target", targets), ("--features", features or []), ("--drop", drop):
        for name in names:
            if name not in table.names:
                hint = suggestion(name, table.names)
                raise TableError(f"{table.path}: {option}: no column {name!r}{hint}")
            if names.count(name) > 1:
                raise TableError(f"{option} names column {name!r} twice")
    for name in features or []:
        if name in targets or name in drop:
            other = "--target" if name in targets else "--drop"
            raise TableError(f"column {name!r} is named by both --features and {other}")
    chosen = features or [name for name in table.names if name not in targets and name not in drop]
    if not chosen:
        raise TableError(f"{table.path}: no column is left to predict from")
    if "" in chosen:
        place = table.names.index("") + 1
        raise TableError(
            f'{table.path}: column {place} has no name: name it, or leave it out with --drop ""'
        )
    return chosen


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


def _is_classification(arguments: argparse.Namespace, table: Table) -> bool:
    """What to do with the target: what was asked for, or classes if it is text."""
    from sparsebayes._tables import TableError

    task, targets = arguments.task, arguments.target
    if task == "regression" or (task == "auto" and len(targets) > 1):
        return False
    if task == "auto":
        if not table.is_text(targets[0]):
            return False
        if not arguments.quiet:
            say(f"note: {targets[0]!r} is text, so its values are taken for classes")
    if len(targets) > 1:
        raise TableError("--task classification takes one --target")
    if arguments.noise_variance is not None:
        raise TableError("--noise-variance is for regression, and the target is one of classes")
    return True


def _regressor(arguments: argparse.Namespace) -> Any:
    from sparsebayes import RVR, SparseBayesRegressor

    common = _common(arguments) | {"noise_variance": arguments.noise_variance}
    if arguments.kernel == "none":
        _refuse_widths(arguments)
        return SparseBayesRegressor("linear", **common)
    return RVR(arguments.kernel, gamma=arguments.gamma, degree=arguments.degree, **common)


def _classifier(arguments: argparse.Namespace) -> Any:
    from sparsebayes import RVC, SparseBayesClassifier

    common = _common(arguments)
    if arguments.kernel == "none":
        _refuse_widths(arguments)
        return SparseBayesClassifier("linear", **common)
    return RVC(arguments.kernel, gamma=arguments.gamma, degree=arguments.degree, **common)


def _refuse_widths(arguments: argparse.Namespace) -> None:
    from sparsebayes._tables import TableError

    if arguments.gamma in _LEARNED:
        raise TableError(f"--gamma {arguments.gamma} is for kernels, and --kernel none has none")


def _common(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "prior": arguments.prior,
        "solver": arguments.solver,
        "random_state": arguments.seed,
        "verbose": 0 if arguments.quiet else 1,
    }


def _summarize(model: Any, size: int, noise_remark: str = "") -> None:
    from sparsebayes._labels import shown

    item("atoms kept", f"{model.posterior_.atoms.size} of {size}")
    if hasattr(model, "classes_"):
        item("classes", shown(model.classes_))
    else:
        item("noise found", f"{model.noise_variance_**0.5:.4g} standard deviation{noise_remark}")
    item("log evidence", f"{model.log_marginal_likelihood_:.3f}")
    if getattr(model, "gamma", None) in _LEARNED:
        _show_widths(model)
    show_certificate(model.certificate_, model.converged_)


def _show_widths(model: Any) -> None:
    """What was learned of the kernel: its width, or the most relevant features and theirs."""
    import numpy as np

    if np.ndim(model.gamma_) == 0:
        item("gamma found", f"{model.gamma_:.4g}")
        return
    names, shares = model.feature_names_in_, model.feature_relevance_
    first = np.argsort(-shares, kind="stable")[:_FEATURES_SHOWN]
    width = max(len(names[place]) for place in first)
    for line, place in enumerate(first):
        text = f"{names[place]:<{width}}  {shares[place]:6.1%}  gamma {model.gamma_[place]:.4g}"
        item("relevance" if line == 0 else "", text)
    if first.size < shares.size:
        rest = 1.0 - float(shares[first].sum())
        item("", f"{counted(shares.size - first.size, 'other')}, {max(rest, 0.0):.1%} together")


def _denoise(arguments: argparse.Namespace) -> None:
    from sparsebayes._denoise_command import run

    run(arguments)


_COMMANDS = {"demo": _demo, "fit": _fit, "predict": _predict, "denoise": _denoise}
