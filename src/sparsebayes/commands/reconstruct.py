"""``sparsebayes reconstruct``: its options; the work is in ``_reconstruction``."""

from __future__ import annotations

import argparse
from typing import Any

from sparsebayes.commands._options import RawText, count, number_or_word, positive, seed
from sparsebayes.commands._streams import add_format_option
from sparsebayes.commands._summary import add_summary_options

_EPILOG = """\
examples:
  sparsebayes reconstruct torn.png --mask known.png --output whole.png
      the pixels where the mask is not black are known, the others are found;
      every color by itself
  sparsebayes reconstruct gaps.csv --column level --basis sym8 --output whole.csv
      a table with empty fields: they are found, with --std how surely
  sparsebayes reconstruct y.npy --sensing A.npy --basis haar --output x.npy
      y is A times the signal plus noise; A may be a sparse matrix in a npz file
  sparsebayes reconstruct y.npy --dct 512x512 --seed 7 --output x.tiff
      as many numbers of a scrambled cosine transform of a picture as y has, drawn
      by a seed: what sparsebayes.sensing.PartialDCT measures

The signal is a sum of few atoms of the basis; which ones, how large, and how
much noise there is, the evidence decides. Up to 8192 samples are certified to
the digit; larger pictures are solved by products alone, their certificate is
an estimate. Noise is taken as equally strong everywhere.
"""


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    reconstruct = commands.add_parser(
        "reconstruct",
        help="find a signal or a picture from few samples or measurements",
        description="Find a signal or a picture from few samples or measurements of it.",
        epilog=_EPILOG,
        formatter_class=RawText,
    )
    reconstruct.add_argument(
        "data",
        metavar="IN",
        help="csv, tsv, npy, wav, png or tiff file of samples; csv, tsv or npy of measurements; "
        "- for stdin",
    )
    reconstruct.add_argument(
        "--output", metavar="OUT", required=True, help="file to write, or - for stdout"
    )
    add_format_option(reconstruct)
    reconstruct.add_argument("--std", metavar="FILE", help="npy, csv or tiff file for errors")
    reconstruct.add_argument("--plot", metavar="PICTURE", help="png, pdf or svg file to draw")
    measured = reconstruct.add_argument_group("what was measured (default: samples, gaps missing)")
    one = measured.add_mutually_exclusive_group()
    one.add_argument("--mask", metavar="FILE", help="of IN's shape: not zero where IN is known")
    one.add_argument("--sensing", metavar="FILE", help="matrix in a npy, npz or csv file")
    one.add_argument("--dct", metavar="SHAPE", type=shape, help="of the signal: 1000 or 512x512")
    one.add_argument("--hadamard", metavar="SHAPE", type=shape, help="of the signal")
    measured.add_argument(
        "--seed", type=seed, default=0, help="of --dct and --hadamard (default: %(default)s)"
    )
    measured.add_argument("--column", metavar="NAME", action="append", help="of a csv or tsv file")
    model = reconstruct.add_argument_group("model")
    model.add_argument(
        "--basis",
        metavar="NAME",
        default="haar",
        help="what the signal is sparse in: haar, db4, sym8 or another discrete wavelet of "
        "PyWavelets, or identity for the samples themselves (default: %(default)s)",
    )
    model.add_argument("--level", type=count, help="of the wavelets (default: all there are)")
    model.add_argument(
        "--prior",
        type=number_or_word,
        default="auto",
        help="price of an atom: auto, flat, aic, bic, ric or a number (default: %(default)s)",
    )
    model.add_argument(
        "--noise-variance",
        metavar="VARIANCE",
        type=positive,
        help="variance of the noise where it is known (default: estimated)",
    )
    model.add_argument(
        "--solver",
        choices=("auto", "working-set", "matrix-free"),
        metavar="NAME",
        default="auto",
        help="auto, working-set or matrix-free (default: %(default)s)",
    )
    add_summary_options(reconstruct)


def shape(text: str) -> tuple[int, ...]:
    """Take the shape of a signal, such as 1000 or 512x512."""
    sizes = text.lower().split("x")
    if len(sizes) > 2 or not all(size.isdecimal() and int(size) for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is no shape such as 1000 or 512x512")
    return tuple(map(int, sizes))


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes reconstruct``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    from sparsebayes.commands import _reconstruction

    _reconstruction.run(arguments)
