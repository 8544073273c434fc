"""The command line: one of ``commands``, its errors as one line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from sparsebayes import commands
from sparsebayes._console import say, warnings_as_lines

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
    arguments = commands.parser().parse_args(argv)
    try:
        with warnings_as_lines():
            commands.run(arguments)
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
