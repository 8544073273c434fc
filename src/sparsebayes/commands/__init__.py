"""The commands of the command line, a module each: ``add`` tells the parser, ``run`` does it.

Nothing but the standard library is imported before a command runs: help is instant.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import NoReturn

from sparsebayes import __version__

NAMES = (
    "demo",
    "fit",
    "predict",
    "report",
    "denoise",
    "reconstruct",
    "export",
    "info",
    "reproduce",
    "completion",
)

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
    top = _Parser(
        prog="sparsebayes",
        description="Sparse Bayesian regression with error bars, classification and denoising.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"sparsebayes {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", dest="command", required=True)
    for name in NAMES:
        import_module(f"{__name__}.{name}").add(commands)
    return top


def run(arguments: argparse.Namespace) -> None:
    """Run the command that was parsed.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    import_module(f"{__name__}.{arguments.command}").run(arguments)
