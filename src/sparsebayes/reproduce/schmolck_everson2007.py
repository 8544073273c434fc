"""Schmolck & Everson 2007: rows of Table 1 in wavelets, and Blocks beside sinc in a union."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sparsebayes.plotting._canvas import BLUE, GRAY, ORANGE
from sparsebayes.reproduce import blocks_and_sinc as pair
from sparsebayes.reproduce.findings import Entry, Findings, Picture
from sparsebayes.reproduce.smooth_table import PRIORS, Setting, Wavelets, price

__all__ = ["measure"]

_RUNS = 10
_BUMPS = Setting("Bumps", 2, 128, "symmlet")
_PRINTED = {  # of that setting, with standard deviations: atoms, mean square error, noise
    "None": ((127.0, 0.0), (0.119, 0.001), (0.000, 0.000)),
    "AIC": ((36.3, 7.8), (0.088, 0.008), (0.121, 0.037)),
    "BIC": ((11.9, 2.5), (0.153, 0.034), (0.262, 0.038)),
    "RIC": ((2.6, 1.4), (0.320, 0.051), (0.450, 0.068)),
}
_QUANTITIES = {"atoms": ".1f", "MSE": ".3f", "noise variance": ".3f"}


def measure(tell: Callable[[str], None]) -> Findings:
    """Repeat one block of Table 1, and section 4.3.

    Parameters
    ----------
    tell : callable
        Told what comes next.

    Returns
    -------
    Findings
        Figures and pictures.
    """
    tell(f"Table 1, {_BUMPS}, {_RUNS} draws")
    draws = [_BUMPS.draw(seed) for seed in range(_RUNS)]
    entries = []
    for prior in PRIORS:
        c = price(prior, _BUMPS.N)
        rows = [Wavelets.of(data).ours(c, None).figures(data) for data in draws]
        name = f"Table 1, {_BUMPS}, prior {prior}"
        means = np.mean(rows, axis=0).tolist()
        for (quantity, form), mean, (printed, spread) in zip(
            _QUANTITIES.items(), means, _PRINTED[prior], strict=True
        ):
            entries.append(Entry(f"{name}: {quantity}", mean, printed, form, spread=spread))
    tell("Blocks beside sinc, wavelets and splines")
    panel = pair.union(pair.draw(0), printed=(pair.MSE, pair.ATOMS))
    steps, smooth = pair.separation(panel)
    entries += [
        Entry("Blocks beside sinc: MSE", panel.mse, pair.MSE, ".4f"),
        Entry("Blocks beside sinc: atoms", panel.found.n_atoms, pair.ATOMS, "d"),
        Entry("share of Blocks that Haar wavelets explain", steps, None, ".3f"),
        Entry("share of sinc that splines explain", smooth, None, ".3f"),
    ]
    return Findings(
        "Schmolck & Everson 2007, Smooth relevance vector machine, Machine Learning 68, 107-135",
        tuple(entries),
        (
            f"Table 1: means of {_RUNS} draws; printed figures are means of ten other draws. Prior "
            "None is the plain RVM, which takes all noise for signal here.",
            "The whole table, with Algorithm 1 beside it: python -m benchmarks.reproduce.srvm2007, "
            "in the project's repository.",
        ),
        (
            Picture("table1", (7, 4.5), partial(_draw_bumps, draws[0])),
            Picture("figure8", (6.5, 5), partial(_draw_parts, panel)),
        ),
    )


def _draw_bumps(data: Any, figure: Any) -> None:
    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    for axes, prior in zip(panels, PRIORS, strict=True):
        found = Wavelets.of(data).ours(price(prior, _BUMPS.N), None)
        atoms, mse, _ = found.figures(data)
        axes.plot(data.y, ".", color=GRAY, markersize=3, label="data")
        axes.plot(data.truth, "--", color=ORANGE, linewidth=1, label="truth")
        axes.plot(found.mean + data.y.mean(), color=BLUE, linewidth=1.1, label="fit")
        title = f"prior {prior}: {atoms:.0f} atoms, MSE {mse:.3f}"
        axes.set_title(title, fontsize="small", loc="left")
        axes.tick_params(labelsize="x-small")
    panels[0].legend(fontsize="x-small", frameon=False)


def _draw_parts(panel: pair.Panel, figure: Any) -> None:
    x, data, found = panel.data.X[:, 0], panel.data, panel.found
    top, *parts = figure.subplots(3, sharex=True)
    top.plot(x, data.y, ".", color=GRAY, markersize=2.5, label="data")
    top.plot(x, found.signal, color=BLUE, linewidth=1.1, label="fit")
    top.set_title(f"{found.n_atoms} atoms, MSE {panel.mse:.4f}", fontsize="small", loc="left")
    top.legend(fontsize="x-small", frameon=False, loc="lower right", ncols=2)
    for axes, name, values, color in zip(
        parts, pair.NAMES, found.parts, (ORANGE, BLUE), strict=True
    ):
        axes.plot(x, values, color=color, linewidth=1.1)
        axes.set_title(f"part of the {name}", fontsize="small", loc="left")
    for axes in (top, *parts):
        axes.tick_params(labelsize="x-small")
        axes.margins(x=0.01)
