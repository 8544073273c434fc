"""The papers' experiments on built-in data, each within a minute: ``sparsebayes reproduce``.

What needs data that are not built in, or more draws, is in the project's ``benchmarks/reproduce``,
which takes what both need from here. Nothing but the standard library is imported before a paper is
asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparsebayes.reproduce.findings import Findings

__all__ = ["PAPERS", "reproduce"]

PAPERS = {
    "tipping2001": "Sparse Bayesian learning and the relevance vector machine",
    "faul-tipping2002": "Analysis of sparse Bayesian learning",
    "tipping-faul2003": "Fast marginal likelihood maximisation for sparse Bayesian models",
    "schmolck-everson2007": "Smooth relevance vector machine",
    "thesis": "Sparse Bayesian learning for compressive sensing with wavelets",
}


def reproduce(paper: str, tell: Callable[[str], None] | None = None) -> Findings:
    """Repeat the experiments of a paper.

    Parameters
    ----------
    paper : str
        One of ``PAPERS``.
    tell : callable or None, default=None
        Told what comes next, in a few words.

    Returns
    -------
    Findings
        What was measured beside what is printed, and pictures.

    Examples
    --------
    >>> from sparsebayes.reproduce import reproduce
    >>> found = reproduce("faul-tipping2002")
    >>> found.entries[-1].what
    'log evidence of the default solver'
    """
    if paper not in PAPERS:
        raise ValueError(f"no paper {paper!r}; there are {', '.join(PAPERS)}.")
    module = import_module(f"{__name__}.{paper.replace('-', '_')}")
    found: Findings = module.measure(tell or _silence)
    return found


def _silence(text: str) -> None:
    """Tell nobody."""
