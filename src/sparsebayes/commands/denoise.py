"""``sparsebayes denoise``: its options; the work is in ``_denoising``."""

from __future__ import annotations

import argparse
from typing import Any

from sparsebayes.commands._options import RawText, count, number_or_word, variance
from sparsebayes.commands._streams import add_format_option
from sparsebayes.commands._summary import add_summary_options

_EPILOG = """\
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


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    denoise = commands.add_parser(
        "denoise",
        help="take the noise from signals, sound or a picture",
        description="Take the noise from signals, sound or a picture by wavelets.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    denoise.add_argument(
        "data", metavar="IN", help="csv, tsv, npy, wav, png or tiff file, or - for stdin"
    )
    denoise.add_argument(
        "--output", metavar="OUT", required=True, help="file to write, or - for stdout"
    )
    add_format_option(denoise)
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
        type=number_or_word,
        default="bic",
        help="price of a coefficient: flat, aic, bic, ric or a number (default: %(default)s)",
    )
    model.add_argument(
        "--level", type=count, help="levels of the transform (default: as many as there are)"
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
        type=variance,
        help="variance of the noise where it is known, in units of the signal squared, or mad: "
        "from the median of the finest coefficients (default: estimated with the signal)",
    )
    add_summary_options(denoise)


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes denoise``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    from sparsebayes.commands import _denoising

    _denoising.run(arguments)
