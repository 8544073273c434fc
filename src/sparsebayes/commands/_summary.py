"""What a command found: lines for people, or one JSON object for programs."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparsebayes._console import harmless

if TYPE_CHECKING:
    from sparsebayes.problem import Certificate

_INDENT, _NAMES = "  ", 14


def add_summary_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--quiet``.

    Parameters
    ----------
    parser : ArgumentParser
        Of one command.
    """
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    how.add_argument("--quiet", action="store_true", help="print no summary and no progress")


_GAIN, _SLOPE = 1e-9, 1e-6  # below these a certificate tells of rounding, and is not printed


class Summary:
    """Lines in two columns, and the same facts by name.

    Parameters
    ----------
    title : str
        The first line.

    Examples
    --------
    >>> from argparse import Namespace
    >>> from sparsebayes.commands._summary import Summary
    >>> found = Summary("a fit")
    >>> found.line("noise", "0.1 standard deviation", noise_variance=0.01)
    >>> found.show(Namespace(json=True))
    {"noise_variance": 0.01}
    """

    def __init__(self, title: str) -> None:
        self._lines = [title, ""]
        self._facts: dict[str, Any] = {}

    def line(self, name: str, text: str, **facts: Any) -> None:
        """Add a line for people, with what it says for programs."""
        self._lines.append(f"{_INDENT}{name:<{_NAMES}}{text}")
        self._facts |= facts

    def facts(self, **facts: Any) -> None:
        """Add what only programs ask for."""
        self._facts |= facts

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Add a table for people: its first row is the heading, its first column stands left."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        self._lines.append("")
        for name, *figures in rows:
            cells = [text.rjust(width) for text, width in zip(figures, widths[1:], strict=True)]
            self._lines.append(_INDENT + _INDENT.join([name.ljust(widths[0]), *cells]))
        self._lines.append("")

    def certificate(self, certificate: Certificate, converged: bool) -> None:
        """Add what is certain about an answer."""
        gain = f"{max(certificate.max_gain, _GAIN):.1e} nats"
        estimated = math.isnan(certificate.max_curvature)
        if not converged:
            text = f"not reached: a change would still gain {gain}"
        elif estimated:
            text = f"settled: a change gains about {gain}, as far as draws can tell"
        else:
            text = f"no single change of an atom gains more than {gain}"
        self.line(
            "certificate",
            text,
            converged=bool(converged),
            certificate={
                "max_gain": certificate.max_gain,
                "gradient_norm": certificate.gradient_norm,
                "max_curvature": certificate.max_curvature,
                "fraction": certificate.fraction,
            },
        )
        slope, bend = certificate.gradient_norm, certificate.max_curvature
        self.line(
            "",
            f"gradient {max(slope, _SLOPE):.1e}" + ("" if estimated else f", curvature {bend:.1e}"),
        )
        if certificate.fraction < 1:
            self.line("", f"of {certificate.fraction:.3g} of the dictionary, drawn at random")

    def show(self, arguments: argparse.Namespace) -> None:
        """Print it in the way that was asked for; to stderr where stdout takes the result."""
        taken = getattr(arguments, "output", None) == "-"
        if getattr(arguments, "json", False):
            text = json.dumps(plain(self._facts), ensure_ascii=False, allow_nan=False)
        elif getattr(arguments, "quiet", False):
            return
        else:
            text = "\n".join(map(harmless, self._lines))
        print(text, file=sys.stderr if taken else sys.stdout)


def plain(value: Any) -> Any:
    """Make a value one of JSON's, with null for numbers that are not finite.

    Parameters
    ----------
    value : object
        Numbers, strings, arrays, and lists and dictionaries of them.

    Returns
    -------
    object
        For ``json.dumps``.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.commands._summary import plain
    >>> plain({"a": np.array([1.0, np.nan]), "b": np.True_})
    {'a': [1.0, None], 'b': True}
    """
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
