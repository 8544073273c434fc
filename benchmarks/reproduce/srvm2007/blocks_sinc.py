"""Section 4.3: Blocks and sinc side by side, from Haar wavelets and thin-plate splines.

N = 1024, SNR 7, default settings of `denoise` but for the prior "ric". A separation is good if what
the Haar wavelets give is Blocks on the left and constant on the right, and what the splines give is
constant on the left and sinc on the right; the shares below are of the variance of each half that
the part meant for it explains, a constant apart.

"One search" is the same fit by solver="working-set", which does not start a second time from what
the parts would keep alone: its objective minus that of the default, in nats, and its error.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._harness import Report
from sparsebayes import SparseBayesRegressor
from sparsebayes.reproduce.blocks_and_sinc import (
    ATOMS,
    MSE,
    N,
    Panel,
    draw,
    haar,
    separation,
    splines,
    union,
)


def line(panel: Panel) -> dict[str, Any]:
    """What a table says of a fit."""
    mse, atoms = panel.printed or (None, None)
    return {
        "": panel.name,
        "MSE": panel.mse,
        "printed MSE": mse,
        "S": int(panel.found.n_atoms),
        "printed S": atoms,
        "noise": float(panel.found.noise_variance),
        "true noise": panel.data.noise_std**2,
        "s": panel.seconds,
    }


COLUMNS = {
    "": "",
    "MSE": ".4f",
    "printed MSE": ".3f",
    "S": "d",
    "printed S": "d",
    "noise": ".4f",
    "true noise": ".4f",
    "s": ".1f",
}


def one_search(panel: Panel) -> tuple[float, float]:
    """Objective minus that of the default, and error, of a single search."""
    data = panel.data
    model = SparseBayesRegressor(haar() + splines(), prior="ric", solver="working-set")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.y)
    behind = model.solution_.state.objective - panel.found.solution.state.objective
    return float(behind), float(np.mean((model.predict(data.X) - data.truth) ** 2))


def run(report: Report, runs: int, collapsed: bool) -> None:
    """Print several draws beside the printed figures."""
    lines = []
    for seed in range(runs):
        panel = union(draw(seed), printed=(MSE, ATOMS))
        haar_share, spline_share = separation(panel)
        behind, single = one_search(panel)
        of_haar = int((panel.found.coefficients[:N] != 0).sum())
        lines.append(
            line(panel)
            | {
                "": f"draw {seed}",
                "Haar": of_haar,
                "splines": int(panel.found.n_atoms) - of_haar,
                "Blocks by Haar": haar_share,
                "sinc by splines": spline_share,
                "one search": behind,
                "its MSE": single,
            }
        )
    more = {"Haar": "d", "splines": "d", "Blocks by Haar": ".3f", "sinc by splines": ".3f"}
    report.show(
        "BlocksSinc, Haar + thin-plate splines, RIC, noise estimated",
        lines,
        COLUMNS | more | {"one search": ".1f", "its MSE": ".4f"},
    )
    data = draw(0)
    known = data.noise_std**2
    plain = union(data, "flat", noise_variance=known, printed=(0.024, 419))
    rows = [line(plain) | {"": "flat prior, noise given"}]
    if collapsed:
        panel = union(data, "flat", printed=(0.024, 419))
        rows.append(
            line(panel) | {"": f"flat prior, noise estimated ({panel.found.solution.status.name})"}
        )
    report.show("The plain RVM on draw 0", rows, COLUMNS)
    mse, atoms = (np.array([line[key] for line in lines]) for key in ("MSE", "S"))
    good = int(((mse <= MSE) & (atoms <= ATOMS)).sum())
    report.judge(
        f"BlocksSinc: MSE at most {MSE} with at most {ATOMS} atoms",
        good == runs,
        f"{good} of {runs} draws; MSE {mse.mean():.4f} on average, {mse.max():.4f} at worst; "
        f"{atoms.mean():.0f} atoms, {atoms.max()} at most",
    )
    least = min(min(x["Blocks by Haar"], x["sinc by splines"]) for x in lines)
    report.judge(
        "its parts are separated: 95 % of each half by the part meant for it",
        least >= 0.95,
        f"at least {100 * least:.1f} %",
    )
