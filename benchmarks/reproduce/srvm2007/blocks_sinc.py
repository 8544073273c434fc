"""Section 4.3: Blocks and sinc side by side, from Haar wavelets and thin-plate splines.

N = 1024, SNR 7, default settings of `denoise` but for the prior "ric". A separation is good if what
the Haar wavelets give is Blocks on the left and constant on the right, and what the splines give is
constant on the left and sinc on the right; the shares below are of the variance of each half that
the part meant for it explains, a constant apart.

"One search" is the same fit by solver="working-set", which does not start a second time from what
the parts would keep alone: its objective minus that of the default, in nats, and its error.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import Report
from sparsebayes import SparseBayesRegressor, denoise
from sparsebayes.datasets import Dataset, blocks_sinc
from sparsebayes.dictionaries import Kernel, Wavelet

Array = NDArray[np.float64]

N = 1024
SNR = 7.0
WIDTH = 3.0
MSE, ATOMS = 0.009, 88  # printed for RIC, and to be reached
NAMES = ("Haar wavelets", "thin-plate splines")


def haar() -> Wavelet:
    return Wavelet("haar")


def splines() -> Kernel:
    return Kernel("tps", gamma=1 / WIDTH**2)


@dataclass(frozen=True, slots=True)
class Panel:
    """One fit, with what the paper prints of it."""

    name: str
    data: Dataset
    found: Any
    seconds: float
    warned: tuple[str, ...]
    printed: tuple[float, float] | None = None  # MSE, S

    @property
    def mse(self) -> float:
        return float(np.mean((self.found.signal - self.data.truth) ** 2))

    def row(self) -> dict[str, Any]:
        mse, atoms = self.printed or (None, None)
        return {
            "": self.name,
            "MSE": self.mse,
            "printed MSE": mse,
            "S": int(self.found.n_atoms),
            "printed S": atoms,
            "noise": float(self.found.noise_variance),
            "true noise": self.data.noise_std**2,
            "s": self.seconds,
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


def fit(
    name: str,
    data: Dataset,
    dictionary: Any,
    prior: Any,
    noise_variance: float | None = None,
    printed: tuple[float, float] | None = None,
) -> Panel:
    """Denoise, and keep what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.process_time()
        where = None if isinstance(dictionary, str) else data.X[:, 0]
        found = denoise(data.y, dictionary, prior, noise_variance, positions=where)
        seconds = time.process_time() - start
    return Panel(name, data, found, seconds, tuple(str(w.message) for w in caught), printed)


def draw(seed: int) -> Dataset:
    return blocks_sinc(N, SNR, exact_noise=True, random_state=seed)


def union(data: Dataset, prior: Any = "ric", **options: Any) -> Panel:
    return fit("Haar + thin-plate splines", data, haar() + splines(), prior, **options)


def one_search(panel: Panel) -> tuple[float, float]:
    """Objective minus that of the default, and error, of a single search."""
    data = panel.data
    model = SparseBayesRegressor(haar() + splines(), prior="ric", solver="working-set")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.y)
    behind = model.solution_.state.objective - panel.found.solution.state.objective
    return float(behind), float(np.mean((model.predict(data.X) - data.truth) ** 2))


def explained(truth: Array, part: Array) -> float:
    """Share of the variance of the truth that the part explains."""
    return float(1 - (truth - part).var() / truth.var())


def separation(panel: Panel) -> tuple[float, float]:
    """How well the Haar part is Blocks on the left, and the spline part sinc on the right."""
    steps, smooth = panel.found.parts
    left, right = slice(0, N // 2), slice(N // 2, N)
    truth = panel.data.truth
    return explained(truth[left], steps[left]), explained(truth[right], smooth[right])


def run(report: Report, runs: int, collapsed: bool) -> None:
    """Print several draws beside the printed figures."""
    lines = []
    for seed in range(runs):
        panel = union(draw(seed), printed=(MSE, ATOMS))
        haar_share, spline_share = separation(panel)
        behind, single = one_search(panel)
        of_haar = int((panel.found.coefficients[:N] != 0).sum())
        lines.append(
            panel.row()
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
    plain = [union(data, "flat", noise_variance=known, printed=(0.024, 419))]
    rows = [plain[0].row() | {"": "flat prior, noise given"}]
    if collapsed:
        panel = union(data, "flat", printed=(0.024, 419))
        rows.append(
            panel.row() | {"": f"flat prior, noise estimated ({panel.found.solution.status.name})"}
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
