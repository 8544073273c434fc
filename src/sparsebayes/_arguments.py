"""What the command line takes. Nothing but the standard library is imported: help is instant."""

from __future__ import annotations

import argparse
import math
from typing import Any, NoReturn

from sparsebayes import __version__

_EPILOG = """\
examples:
  sparsebayes demo
  sparsebayes fit houses.csv --target price --output houses.model
  sparsebayes predict houses.model new-houses.csv --output prices.csv
  sparsebayes denoise noisy.wav --output clean.wav

Fit finds the few basis functions that the data support; predict gives each
row a mean and a standard deviation, or a class and the probabilities of all;
denoise finds the few wavelets that a signal or a picture needs.
"sparsebayes COMMAND --help" tells more.

exit codes: 0 done, 1 trouble with data, model or output (one line on stderr
says what), 2 wrong usage, 130 interrupted, 141 the reader of a pipe went away
"""

_FIT_EPILOG = """\
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

_PREDICT_EPILOG = """\
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

_DENOISE_EPILOG = """\
examples:
  sparsebayes denoise ecg.csv --output clean.csv --plot clean.png
      every column but a first one of positions (dates, or numbers that rise or
      fall throughout), which is kept
  sparsebayes denoise ecg.csv --column lead2 --output clean.csv --std error.csv
      one column, the others as they are; its standard deviation in a file
  sparsebayes denoise hiss.wav --wavelet db4 --output quiet.wav
      every channel, in the format of the file; clipped samples are counted
  sparsebayes denoise night.png --wavelet haar --prior ric --output clean.png
      gray, or every color by itself; transparency is kept
  sparsebayes denoise spectra.npy --axis 1 --output clean.npy
      every row of an array is a signal; without --axis it is a picture

Each wavelet coefficient has a prior variance that the data choose, and most
become zero. --prior is the price of one that does not: bic half the logarithm
of the number of samples, ric twice that, aic 1, flat nothing. A higher price
leaves less noise and fewer details.

Missing samples (nan, or an empty field of a table) are filled in, and counted.
Samples are taken as equally spaced, noise as equally strong everywhere. OUT
has the kind of IN, or is a npy file, and may be IN itself: it changes only
when all is done.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if "required: DATA" in message:
            message += " (put DATA before --target, --features and --drop)"
        super().error(message)


def parser() -> argparse.ArgumentParser:
    """Make the parser; the attribute ``command`` of what it returns is the command's name.

    Returns
    -------
    ArgumentParser
        For ``parse_args``.
    """
    kind: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    top = _Parser(
        prog="sparsebayes",
        description="Sparse Bayesian regression with error bars, classification and denoising.",
        epilog=_EPILOG,
        **kind,
    )
    top.add_argument("--version", action="version", version=f"sparsebayes {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", dest="command", required=True)

    demo = commands.add_parser(
        "demo",
        help="fit built-in data, print what was found, draw a picture",
        description="Fit noisy values of sin(x)/x, print what was found and draw a picture.",
        **kind,
    )
    demo.add_argument(
        "--output",
        metavar="PICTURE",
        default="sparsebayes-demo.png",
        help="png, pdf or svg file to write (default: %(default)s)",
    )
    demo.add_argument("--seed", type=_seed, default=0, help="of the noise (default: %(default)s)")

    fit = commands.add_parser(
        "fit",
        help="fit a model to a csv or parquet file, or a folder of parquet files",
        description="Fit a sparse Bayesian regression or classification to the columns of\n"
        "a csv or parquet file, or of a folder of parquet files.",
        epilog=_FIT_EPILOG,
        **kind,
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
        type=_numbers_or_word,
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
        type=_count,
        help="basis functions there are, at centers of clusters of rows (default: one at each row)",
    )
    model.add_argument(
        "--prior",
        type=_number_or_word,
        default="auto",
        help="how hard it is for a basis function to enter: auto, flat, aic, bic, ric or a number "
        "(default: %(default)s)",
    )
    model.add_argument(
        "--noise-variance",
        metavar="VARIANCE",
        type=_positive,
        help="variance of the noise where it is known (default: estimated)",
    )
    model.add_argument(
        "--solver",
        default="auto",
        help="auto, working-set, sequential, sequential-random, sequential-cyclic, em or mackay "
        "(default: %(default)s)",
    )
    model.add_argument("--seed", type=_seed, help="makes random choices repeatable")
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
    fit.add_argument("--quiet", action="store_true", help="print no summary and no progress")

    predict = commands.add_parser(
        "predict",
        help="predict the rows of a csv or parquet file",
        description="Predict the rows of a csv or parquet file with a fitted model.",
        epilog=_PREDICT_EPILOG,
        **kind,
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
    _add_denoise(commands, kind)
    return top


def _add_denoise(commands: Any, kind: dict[str, Any]) -> None:
    denoise = commands.add_parser(
        "denoise",
        help="take the noise from signals, sound or a picture",
        description="Take the noise from signals, sound or a picture by wavelets.",
        epilog=_DENOISE_EPILOG,
        **kind,
    )
    denoise.add_argument("data", metavar="IN", help="csv, tsv, npy, wav, png or tiff file")
    denoise.add_argument("--output", metavar="OUT", required=True, help="file to write")
    denoise.add_argument(
        "--std", metavar="FILE", help="npy file for standard deviations, or csv, or tiff (gray)"
    )
    denoise.add_argument("--plot", metavar="PICTURE", help="png, pdf or svg file to draw")
    which = denoise.add_argument_group("what is a signal")
    which.add_argument(
        "--column",
        metavar="NAME",
        action="append",
        help="of a csv or tsv file; may be given several times (default: all but positions)",
    )
    which.add_argument("--axis", type=int, help="of a npy file, along which signals run")
    model = denoise.add_argument_group("model")
    model.add_argument(
        "--wavelet",
        metavar="NAME",
        default="sym8",
        help="haar, db4, sym8, coif3 or another discrete wavelet of PyWavelets "
        "(default: %(default)s)",
    )
    model.add_argument(
        "--prior",
        type=_number_or_word,
        default="bic",
        help="price of a coefficient: flat, aic, bic, ric or a number (default: %(default)s)",
    )
    model.add_argument(
        "--level", type=_count, help="levels of the transform (default: as many as there are)"
    )
    model.add_argument(
        "--by-scale",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="let bic and ric count the coefficients of each scale, which keeps more of what is "
        "coarse (default: for pictures)",
    )
    model.add_argument(
        "--noise-variance",
        metavar="VARIANCE",
        type=_variance,
        help="variance of the noise where it is known, in units of the signal squared, or mad: "
        "from the median of the finest coefficients (default: estimated with the signal)",
    )
    denoise.add_argument("--quiet", action="store_true", help="print no summary and no progress")


def _variance(text: str) -> float | str:
    return text if text == "mad" else _positive(text)


def _count(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer above zero")
    return value


def _seed(text: str) -> int:
    value = int(text) if text.isdecimal() else -1
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to 2**32 - 1")
    return value


def _positive(text: str) -> float:
    value = _number_or_word(text)
    if not (isinstance(value, float) and 0 < value < math.inf):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return value


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _numbers_or_word(text: str) -> float | list[float] | str:
    if "," not in text:
        return _number_or_word(text)
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from None
