"""``sparsebayes demo``: built-in data, fitted and drawn."""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

from sparsebayes.commands._options import RawText, seed
from sparsebayes.commands._summary import Summary, add_summary_options


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    demo = commands.add_parser(
        "demo",
        help="fit built-in data, print what was found, draw a picture",
        description="Fit noisy values of sin(x)/x, print what was found and draw a picture.",
        formatter_class=RawText,
    )
    demo.add_argument(
        "--output",
        metavar="PICTURE",
        default="sparsebayes-demo.png",
        help="png, pdf or svg file to write (default: %(default)s)",
    )
    demo.add_argument("--seed", type=seed, default=0, help="of the noise (default: %(default)s)")
    add_summary_options(demo)


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes demo``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    from sparsebayes import _tables

    picture: str = arguments.output
    _tables.check_picture(picture)
    from sparsebayes.commands._demonstration import draw, run_demo
    from sparsebayes.commands.fit import summarize

    demo = run_demo(arguments.seed)
    found = Summary("Relevance vector regression of 100 noisy values of sin(x)/x")
    truth = f"  (true: {demo.data.noise_std:.4g})"
    summarize(found, demo.model, len(demo.data.y), truth)
    found.line(
        "error", f"RMSE {demo.rmse:.4f} against the true function at 1000 points", rmse=demo.rmse
    )
    found.line("time", f"{demo.seconds:.3f} s", seconds=demo.seconds)
    if importlib.util.find_spec("matplotlib") is None:
        found.line("picture", 'none; for one: pip install "sparsebayes[plot]"', picture=None)
    else:
        draw(demo, picture)
        found.line("picture", picture, picture=picture)
    found.show(arguments)
