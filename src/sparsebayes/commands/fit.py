"""``sparsebayes fit``: columns of a table to a model."""

from __future__ import annotations

import argparse
import contextlib
import time
from typing import Any

from sparsebayes._console import counted, progress, say
from sparsebayes.commands._options import (
    RawText,
    count,
    fraction,
    number_or_word,
    numbers_or_word,
    positive,
    seed,
)
from sparsebayes.commands._summary import Summary, add_summary_options
from sparsebayes.commands._tables import (
    add_table_options,
    refuse_overwriting,
    refuse_reading_twice,
    tell,
)

_INTERVAL = 4.0  # seconds: less than an estimator of many rows leaves between its lines
_LEARNED = ("pooled", "pooled-ard", "evidence", "ard")
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
  sparsebayes fit sales.csv --target price --test 0.2 --report sales.html
      a fifth of the rows held out, and a report on them to be read in a browser
  sparsebayes fit flights --target delay --centers 2000 --checkpoint state
      a folder of parquet files, read in blocks; the same command with --resume
      goes on after an interruption

Every column but the targets is a feature unless --features or --drop says
otherwise. What cannot be used is left out, and a note on stderr says so: dates,
text, constant columns, columns without most of their values, rows with gaps.
With --strict each of these is an error.
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
        help="fit a model to a table",
        description="Fit a sparse Bayesian regression or classification to the columns of\n"
        "a csv, tsv, parquet, feather or npy file, or of a folder of parquet files.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    fit.add_argument(
        "data",
        metavar="DATA",
        help="csv, tsv, parquet, feather or npy file, folder of parquet files, or - for stdin",
    )
    add_table_options(fit.add_argument_group("how DATA is read"))
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
    test = fit.add_argument_group("test")
    test.add_argument(
        "--test",
        metavar="FRACTION",
        type=fraction,
        help="share of rows, drawn at random, that are held out to judge the model by",
    )
    test.add_argument("--test-file", metavar="FILE", help="table of rows to judge the model by")
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
        help="inverse squared width of the kernel: a number, one for each feature (0.5,2), "
        "scale, auto, pooled (found before the fit), evidence (learned), or pooled-ard and ard, "
        "the same for each feature, which tells the relevant ones (default: pooled-ard for several "
        "features, pooled for one or for kernels other than rbf and laplacian, scale for classes)",
    )
    model.add_argument("--degree", type=int, help="of the polynomial kernel (default: 3)")
    model.add_argument(
        "--standardize",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="give each feature its own width, by its standard deviation (default: with --gamma "
        "scale, as for classes, if they differ by more than 10); --no-standardize: one width for "
        "all",
    )
    model.add_argument(
        "--centers",
        metavar="NUMBER",
        type=count,
        help="basis functions there are, at centers of clusters of rows (default: one at each row "
        "up to 5000 rows, 1000 for more, 300 for classes, shared by more than two of them)",
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
    model.add_argument(
        "--likelihood",
        choices=("gaussian", "poisson"),
        metavar="NAME",
        default="gaussian",
        help="of numbers: gaussian, or poisson for counts (default: %(default)s)",
    )
    model.add_argument(
        "--seed", type=seed, default=0, help="of random choices (default: %(default)s)"
    )
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
    fit.add_argument("--output", metavar="MODEL", help="model file to write, or - for stdout")
    fit.add_argument(
        "--report", metavar="FILE", help="HTML file to write: what was fitted, and how good it is"
    )
    add_summary_options(fit)


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes fit``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    _check(arguments)
    import numpy as np

    from sparsebayes.commands._fit_data import gathered
    from sparsebayes.commands._fit_model import estimator_for
    from sparsebayes.commands._fit_outcome import (
        doubt_words,
        judged,
        opened_test,
        show_quality,
        size_of,
        title_of,
        write_model,
        write_report,
    )

    data = gathered(arguments)
    test = opened_test(arguments, data)
    model = estimator_for(arguments, data)
    tell(data.notes, quiet=arguments.quiet)
    for warning in data.warnings:
        say(f"warning: {warning}")
    started = time.perf_counter()
    with contextlib.nullcontext() if arguments.quiet else progress(interval=_INTERVAL):
        model.fit(data.X, data.y)
    seconds = time.perf_counter() - started
    doubt_words(data, model)
    vars(model).pop("feature_names_in_", None)  # blocks of rows are plain arrays
    score = data.score(model) if data.test is None and test is None else None
    # As after fitting a data frame: whoever loads the model can check a frame against them.
    model.feature_names_in_ = np.array(data.features, dtype=object)
    write_model(arguments, data, model)  # before anything that rows to test it with may upset
    tested = judged(arguments, data, model, test)
    found = Summary(title_of(data))
    found.facts(
        data=data.table.path, target=data.targets, features=data.features, seed=arguments.seed
    )
    task = "classification" if data.classes else "regression"
    kind = " of counts" if arguments.likelihood == "poisson" else ""
    found.line("task", task + kind, task=task)
    summarize(found, model, size_of(arguments, model, data))
    show_quality(found, data, score, tested)
    found.line("time", f"{seconds:.3f} s", seconds=seconds)
    write_report(arguments, data, model)
    saved = arguments.output or "not saved; give --output MODEL to predict with it"
    found.line("model", "stdout" if saved == "-" else saved, model=arguments.output)
    if arguments.report is not None:
        found.line("report", arguments.report, report=arguments.report)
    found.facts(notes=data.notes, warnings=data.warnings)
    found.show(arguments)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be done before any work."""
    from sparsebayes import _tables

    if arguments.report == "-":
        raise _tables.TableError("--report writes a file, not to stdout: name one")
    for path in arguments.output, arguments.report:
        if path is not None and path != "-":
            _tables.check_folder(path)
            refuse_overwriting(path, arguments.data, arguments.test_file)
    if arguments.output is not None and arguments.output == arguments.report:
        raise _tables.TableError(f"{arguments.output}: named by both --output and --report")
    if arguments.resume and arguments.checkpoint is None:
        raise _tables.TableError("--resume goes on from a checkpoint: name it with --checkpoint")
    if arguments.test and arguments.test_file is not None:
        raise _tables.TableError("--test and --test-file: give one of them")
    refuse_reading_twice(DATA=arguments.data, **{"--test-file": arguments.test_file})


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
    estimator = " ".join(repr(model).split())
    found.line("atoms kept", f"{kept} of {size}", estimator=estimator, atoms=kept, of_atoms=size)
    if hasattr(model, "classes_"):
        found.line("classes", shown(model.classes_), classes=model.classes_)
    elif hasattr(model, "noise_variance_"):
        noise = float(model.noise_variance_)
        text = f"{noise**0.5:.4g} standard deviation{noise_remark}"
        found.line("noise found", text, noise_variance=noise)
    evidence = float(model.log_marginal_likelihood_)
    found.line("log evidence", f"{evidence:.3f}", log_marginal_likelihood=evidence)
    gamma = getattr(model, "gamma", None)
    if isinstance(gamma, str) and gamma in _LEARNED and hasattr(model, "gamma_"):
        _show_widths(found, model)
    found.certificate(model.certificate_, model.converged_)


def _show_widths(found: Summary, model: Any) -> None:
    """What was learned of the kernel: its width, or the most relevant features and theirs."""
    import numpy as np

    found.facts(gamma=model.gamma_)
    if np.ndim(model.gamma_) == 0:
        found.line("gamma found", f"{model.gamma_:.4g}")
        return
    from sparsebayes._pipelines import input_names

    shares = model.feature_relevance_
    found.facts(feature_relevance=dict(zip(input_names(model), shares.tolist(), strict=True)))
    names = [name if name.isprintable() else repr(name) for name in input_names(model)]
    first = np.argsort(-shares, kind="stable")[:_FEATURES_SHOWN]
    width = max(len(names[place]) for place in first)
    for line, place in enumerate(first):
        text = f"{names[place]:<{width}}  {shares[place]:6.1%}  gamma {model.gamma_[place]:.4g}"
        found.line("relevance" if line == 0 else "", text)
    if first.size < shares.size:
        rest = 1.0 - float(shares[first].sum())
        others = counted(shares.size - first.size, "other")
        found.line("", f"{others}, {max(rest, 0.0):.1%} together")
