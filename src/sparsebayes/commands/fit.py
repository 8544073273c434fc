"""``sparsebayes fit``: columns of a table to a model."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from sparsebayes._console import counted, progress, say
from sparsebayes.commands._options import (
    RawText,
    count,
    number_or_word,
    numbers_or_word,
    positive,
    seed,
)
from sparsebayes.commands._summary import Summary, add_summary_options

if TYPE_CHECKING:
    from sparsebayes._tables import Table
    from sparsebayes.rows.local import Source

_BLOCK_ROWS = 10_000
_INTERVAL = 4.0  # seconds: less than an estimator of many rows leaves between its lines
_LEARNED = ("evidence", "ard")
_FEATURES_SHOWN = 6


_EPILOG = """\
examples:
  sparsebayes fit houses.csv --target price --output houses.model
      one Gaussian basis function for each row, the relevant ones kept
  sparsebayes fit genes.parquet --target response --kernel none
      linear in the features, the relevant ones kept; nothing is saved
  sparsebayes fit track.csv --target x y --features time --gamma 0.5
      two targets that share their basis functions
  sparsebayes fit houses.csv --target price --gamma ard
      widths of the basis functions learned; tells which features matter
  sparsebayes fit iris.csv --target species --output iris.model
      classification, because the species are text
  sparsebayes fit flights --target delay --centers 2000 --checkpoint state
      a folder of parquet files, read in blocks; the same command with --resume
      goes on after an interruption

DATA has a header line; every column but the targets is a feature unless
--features or --drop says otherwise. All of them must be numbers without gaps,
but for a target of classes.
Features are used as they are: bring them to similar scales first if a kernel
is to compare them, or learn a scale for each with --gamma ard.
"""


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    fit = commands.add_parser(
        "fit",
        help="fit a model to a csv or parquet file, or a folder of parquet files",
        description="Fit a sparse Bayesian regression or classification to the columns of\n"
        "a csv or parquet file, or of a folder of parquet files.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    fit.add_argument(
        "data", metavar="DATA", help="csv, tsv or parquet file, or folder of parquet files"
    )
    columns = fit.add_argument_group("columns")
    columns.add_argument(
        "--target", metavar="NAME", nargs="+", action="extend", required=True, help="to predict"
    )
    columns.add_argument(
        "--features", metavar="NAME", nargs="+", action="extend", help="to predict from"
    )
    columns.add_argument(
        "--drop", metavar="NAME", nargs="+", action="extend", default=[], help="to leave out"
    )
    model = fit.add_argument_group("model")
    model.add_argument(
        "--task",
        choices=("auto", "regression", "classification"),
        metavar="TASK",
        default="auto",
        help="regression, classification, or auto: classification if the target is text, or true "
        "and false (default: %(default)s)",
    )
    model.add_argument(
        "--kernel",
        metavar="NAME",
        default="rbf",
        help="basis functions: rbf, laplacian, poly, sigmoid, linear, lspline, tps, any "
        "kernel of scikit-learn, or none for the features themselves (default: %(default)s)",
    )
    model.add_argument(
        "--gamma",
        type=numbers_or_word,
        default="scale",
        help="inverse squared width of the kernel: a number, one for each feature (0.5,2), "
        "scale, auto, evidence (learned) or ard (learned, one for each feature, which tells the "
        "relevant ones) (default: %(default)s)",
    )
    model.add_argument(
        "--degree", type=int, default=3, help="of the polynomial kernel (default: 3)"
    )
    model.add_argument(
        "--centers",
        metavar="NUMBER",
        type=count,
        help="basis functions there are, at centers of clusters of rows (default: one at each row)",
    )
    model.add_argument(
        "--prior",
        type=number_or_word,
        default="auto",
        help="how hard it is for a basis function to enter: auto, flat, aic, bic, ric or a number "
        "(default: %(default)s)",
    )
    model.add_argument(
        "--noise-variance",
        metavar="VARIANCE",
        type=positive,
        help="variance of the noise where it is known (default: estimated)",
    )
    model.add_argument(
        "--solver",
        default="auto",
        help="auto, working-set, sequential, sequential-random, sequential-cyclic, em or mackay "
        "(default: %(default)s)",
    )
    model.add_argument("--seed", type=seed, help="makes random choices repeatable")
    large = fit.add_argument_group("large data")
    large.add_argument(
        "--memory",
        metavar="SIZE",
        help="what the fit may use beyond a table in memory, such as 500MB or 2GiB; a parquet file "
        "is then read in blocks, as folders are (default for these: 1GiB)",
    )
    large.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="small file that tells where the fit stands, written as it goes",
    )
    large.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint if it is there"
    )
    fit.add_argument("--output", metavar="MODEL", help="model file to write")
    add_summary_options(fit)


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes fit``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    from sparsebayes import _tables

    if arguments.output is not None:
        _tables.check_folder(arguments.output)
    if arguments.resume and arguments.checkpoint is None:
        raise _tables.TableError("--resume goes on from a checkpoint: name it with --checkpoint")
    table = _tables.open_table(arguments.data, folders=True)
    targets = arguments.target
    features = _features(table, targets, arguments.features, arguments.drop)
    classify = _is_classification(arguments, table)
    blocks = _tables.is_parquet(arguments.data) and (arguments.memory or arguments.checkpoint)
    gather = _in_blocks if blocks or os.path.isdir(arguments.data) else _in_memory
    data = gather(table, features, targets, classify)
    if data.rows < 2:
        raise _tables.TableError(f"{table.path}: 1 row of data, at least 2 are needed to fit")

    import numpy as np

    from sparsebayes import persistence

    model = _classifier(arguments) if classify else _regressor(arguments)
    started = time.perf_counter()
    with contextlib.nullcontext() if arguments.quiet else progress(interval=_INTERVAL):
        model.fit(data.X, data.y)
    seconds = time.perf_counter() - started
    vars(model).pop("feature_names_in_", None)  # blocks of rows are plain arrays
    score = data.score(model)
    # As after fitting a data frame: whoever loads the model can check a frame against them.
    model.feature_names_in_ = np.array(features, dtype=object)
    if arguments.output is not None:
        persistence.save(model, arguments.output, target_names=tuple(targets))
    found = Summary(
        f"{' and '.join(targets)} from {counted(len(features), 'feature')} of {table.path}"
    )
    found.facts(data=table.path, target=targets, features=features)
    size = len(features) if arguments.kernel == "none" else arguments.centers or data.rows
    summarize(found, model, min(size, data.rows) if arguments.kernel != "none" else size)
    found.line("rows", f"{data.rows}", rows=data.rows)
    kind = "accuracy" if classify else "R2"
    found.line("fit", f"{kind} {score:.4f} on these rows", **{kind.lower(): score})
    found.line("time", f"{seconds:.3f} s", seconds=seconds)
    saved = arguments.output or "not saved; give --output MODEL to predict with it"
    found.line("model", saved, model=arguments.output)
    found.show(arguments)


class _Data(NamedTuple):
    """What an estimator is fitted to."""

    X: Any
    y: Any
    rows: int
    score: Callable[[Any], float]  # of a fitted estimator, on these rows


def _in_memory(table: Table, features: list[str], targets: list[str], classify: bool) -> _Data:
    from sparsebayes import _tables

    if classify:
        X, y = _tables.read_numbers(table, features), _tables.read_labels(table, targets[0])
    else:
        values = _tables.read_numbers(table, features + targets)
        X, y = values[:, : len(features)], values[:, len(features) :]
        if len(targets) == 1:
            y = y[:, 0]
    return _Data(X, y, len(X), lambda model: float(model.score(X, y)))


def _in_blocks(table: Table, features: list[str], targets: list[str], classify: bool) -> _Data:
    from sparsebayes.rows import Parquet, open_source

    files = Parquet(table.path, columns=features)
    target = targets[0] if len(targets) == 1 else targets
    source = open_source(files, target, numeric_y=not classify)
    return _Data(files, target, int(source.n_rows or 0), lambda model: _score(model, source))


def _score(model: Any, source: Source) -> float:
    """What ``model.score`` would be if all rows were in memory."""
    import numpy as np

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
    of_each = np.where(known, 1.0 - error / np.where(known, spread, 1.0), error == 0)
    return float(of_each.mean())


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
        _refuse_kernels(arguments)
        return SparseBayesRegressor("linear", **common)
    return RVR(arguments.kernel, **_of_kernel(arguments), **common)


def _classifier(arguments: argparse.Namespace) -> Any:
    from sparsebayes import RVC, SparseBayesClassifier

    common = _common(arguments)
    if arguments.kernel == "none":
        _refuse_kernels(arguments)
        return SparseBayesClassifier("linear", **common)
    return RVC(arguments.kernel, **_of_kernel(arguments), **common)


def _of_kernel(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "gamma": arguments.gamma,
        "degree": arguments.degree,
        "centers": arguments.centers,
    }


def _refuse_kernels(arguments: argparse.Namespace) -> None:
    from sparsebayes._tables import TableError

    given = f"--gamma {arguments.gamma}" if arguments.gamma in _LEARNED else None
    if arguments.centers is not None:
        given = "--centers"
    if given is not None:
        raise TableError(f"{given} is for kernels, and --kernel none has none")


def _common(arguments: argparse.Namespace) -> dict[str, Any]:
    given = {
        "prior": arguments.prior,
        "solver": arguments.solver,
        "random_state": arguments.seed,
        "verbose": 0 if arguments.quiet else 1,
    }
    for name in ("memory", "checkpoint", "resume"):
        if getattr(arguments, name):
            given[name] = getattr(arguments, name)
    return given


def summarize(found: Summary, model: Any, size: int, noise_remark: str = "") -> None:
    """Say what was found.

    Parameters
    ----------
    found : Summary
        What is to say it.
    model : estimator
        Fitted.
    size : int
        Number of atoms there were to choose from.
    noise_remark : str, default=""
        To be put behind the noise.
    """
    from sparsebayes._labels import shown

    kept = int(model.posterior_.atoms.size)
    found.line("atoms kept", f"{kept} of {size}", estimator=repr(model), atoms=kept, of_atoms=size)
    if hasattr(model, "classes_"):
        found.line("classes", shown(model.classes_), classes=model.classes_)
    else:
        noise = float(model.noise_variance_)
        text = f"{noise**0.5:.4g} standard deviation{noise_remark}"
        found.line("noise found", text, noise_variance=noise)
    evidence = float(model.log_marginal_likelihood_)
    found.line("log evidence", f"{evidence:.3f}", log_marginal_likelihood=evidence)
    if getattr(model, "gamma", None) in _LEARNED:
        _show_widths(found, model)
    found.certificate(model.certificate_, model.converged_)


def _show_widths(found: Summary, model: Any) -> None:
    """What was learned of the kernel: its width, or the most relevant features and theirs."""
    import numpy as np

    found.facts(gamma=model.gamma_)
    if np.ndim(model.gamma_) == 0:
        found.line("gamma found", f"{model.gamma_:.4g}")
        return
    names, shares = model.feature_names_in_, model.feature_relevance_
    found.facts(feature_relevance=dict(zip(names.tolist(), shares.tolist(), strict=True)))
    first = np.argsort(-shares, kind="stable")[:_FEATURES_SHOWN]
    width = max(len(names[place]) for place in first)
    for line, place in enumerate(first):
        text = f"{names[place]:<{width}}  {shares[place]:6.1%}  gamma {model.gamma_[place]:.4g}"
        found.line("relevance" if line == 0 else "", text)
    if first.size < shares.size:
        rest = 1.0 - float(shares[first].sum())
        others = counted(shares.size - first.size, "other")
        found.line("", f"{others}, {max(rest, 0.0):.1%} together")
