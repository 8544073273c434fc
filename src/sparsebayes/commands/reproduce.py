"""``sparsebayes reproduce``: the papers' experiments, measured beside printed."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsebayes._console import counted, progress
from sparsebayes.commands._options import RawText
from sparsebayes.commands._summary import Summary, add_summary_options
from sparsebayes.reproduce import PAPERS

if TYPE_CHECKING:
    from sparsebayes.reproduce.findings import Findings

_WIDTH = 70  # of remarks

_EPILOG = """\
papers:
{papers}

examples:
  sparsebayes reproduce tipping2001
      what is measured on this machine beside what the paper prints
  sparsebayes reproduce schmolck-everson2007 --output pictures
      and its figures, drawn into a folder, which is made where it is missing

All data are built in, and each paper takes less than a minute. Without PAPER
the papers are listed.
"""


def add(commands: Any) -> None:
    """Add the command to a parser.

    Parameters
    ----------
    commands : subparsers of argparse
        Of the program's parser.
    """
    papers = "\n".join(f"  {name:<22}{title}" for name, title in PAPERS.items())
    reproduce = commands.add_parser(
        "reproduce",
        help="repeat the experiments of a paper",
        description="Repeat the experiments of a paper: measured beside printed, with pictures.",
        epilog=_EPILOG.format(papers=papers),
        formatter_class=RawText,
    )
    reproduce.add_argument(
        "paper", metavar="PAPER", nargs="?", choices=list(PAPERS), help="one of those below"
    )
    reproduce.add_argument("--output", metavar="FOLDER", help="folder to draw pictures into")
    add_summary_options(reproduce)


def run(arguments: argparse.Namespace) -> None:
    """Run ``sparsebayes reproduce``.

    Parameters
    ----------
    arguments : Namespace
        From the parser.
    """
    if arguments.paper is None:
        _list(arguments)
        return
    if arguments.output is not None:
        _check_folder(arguments.output)
    from sparsebayes.reproduce import reproduce

    start = time.perf_counter()
    with progress():
        found = reproduce(arguments.paper, None if arguments.quiet else _tell)
    seconds = time.perf_counter() - start
    summary = Summary(found.source)
    summary.facts(paper=arguments.paper, source=found.source)
    summary.line("time", f"{seconds:.1f} s", seconds=seconds)
    summary.table([("", "measured", "printed"), *(entry.cells for entry in found.entries)])
    summary.facts(
        entries=[
            {
                "what": entry.what,
                "measured": entry.measured,
                "printed": entry.printed,
                "relation": entry.relation or None,
                "spread": entry.spread,
            }
            for entry in found.entries
        ],
        remarks=found.remarks,
    )
    lines = [line for remark in found.remarks for line in textwrap.wrap(remark, _WIDTH)]
    for place, line in enumerate(lines):
        summary.line("remarks" if place == 0 else "", line)
    _draw(found, arguments, summary)
    summary.show(arguments)


def _list(arguments: argparse.Namespace) -> None:
    if arguments.output is not None:
        raise ValueError("--output needs a PAPER; without one the papers are listed")
    summary = Summary("Papers whose experiments can be repeated")
    width = max(map(len, PAPERS)) + 2
    for name, title in PAPERS.items():
        summary.line(f"{name:<{width}}", title)
    summary.facts(papers=PAPERS)
    summary.show(arguments)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _check_folder(name: str) -> None:
    """Refuse what pictures cannot be written into, before the work that they are of."""
    folder = Path(name)
    if name == "-":
        raise ValueError("--output: pictures cannot go to stdout, a folder is needed")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError('--output: pictures need matplotlib: pip install "sparsebayes[plot]"')
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{name}: is a file, a folder is needed")
    above = folder if folder.exists() else folder.absolute().parent
    if not above.is_dir():
        raise ValueError(f"{name}: no such folder {above}")
    if not os.access(above, os.W_OK):
        raise ValueError(f"{name}: the folder {above} is not writable")


def _draw(found: Findings, arguments: argparse.Namespace, summary: Summary) -> None:
    if arguments.output is None:
        count = counted(len(found.pictures), "picture")
        summary.line("pictures", f"none; --output FOLDER draws {count}", pictures=[])
        return
    from sparsebayes._files import atomic_write

    folder = Path(arguments.output)
    folder.mkdir(exist_ok=True)
    paths = []
    for picture in found.pictures:
        path = folder / f"{arguments.paper}-{picture.name}.png"
        with atomic_write(path) as file:
            picture.figure().savefig(file, format="png", dpi=120)
        paths.append(str(path))
    summary.line("pictures", ", ".join(paths), pictures=paths)
