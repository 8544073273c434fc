"""Figures 1, 3, 5, 6, 7 and 8 of Schmolck & Everson 2007 as pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._harness import Report
from benchmarks.reproduce._drawing import BLUE, GRAY, ORANGE, canvas, save
from benchmarks.reproduce.srvm2007.blocks_sinc import COLUMNS, line
from sparsebayes.datasets import Dataset, bumps, doppler, sinc
from sparsebayes.dictionaries import Kernel
from sparsebayes.plotting import ShrinkageDisplay
from sparsebayes.reproduce import blocks_and_sinc as pair
from sparsebayes.reproduce.blocks_and_sinc import Panel, fit


def lspline() -> Kernel:
    return Kernel("lspline", gamma=1 / pair.WIDTH**2)


def gauss(width: float) -> Kernel:
    return Kernel("rbf", gamma=1 / width**2)


def on_ten(data: Dataset) -> Dataset:
    """The same samples at positions from -10 to 10, to which kernel widths refer (section 6.1)."""
    x = np.linspace(-10, 10, len(data.y))[:, np.newaxis]
    return Dataset(x, data.y, data.truth, data.noise_std)


def show(axes: Any, panel: Panel, letter: str = "") -> None:
    """Data, truth and fit, with error and atoms above."""
    x = panel.data.X[:, 0]
    axes.plot(x, panel.data.y, ".", markersize=2.5, color=GRAY, label="data")
    axes.plot(x, panel.data.truth, "--", color=ORANGE, linewidth=1, label="truth")
    axes.plot(x, panel.found.signal, color=BLUE, linewidth=1.1, label="fit")
    title = f"{panel.name}: MSE {panel.mse:.2g}, {panel.found.n_atoms} atoms"
    axes.set_title(f"{letter} {title}".strip(), fontsize="small", loc="left")
    axes.margins(x=0.01)
    axes.tick_params(labelsize="x-small")


def legend(axes: Any) -> None:
    axes.legend(fontsize="x-small", frameon=False, loc="upper right", ncols=3)


def four(prior: str, label: str) -> tuple[Any, list[Panel]]:
    """Figures 1 and 3: two signals with two kinds of atoms."""
    wave = sinc(128, snr=2, exact_noise=True, random_state=0)
    peaks = on_ten(bumps(128, snr=7, exact_noise=True, random_state=0))
    figure, axes = canvas(2, 2, (9, 5))
    panels = []
    for row, (kind, atoms) in enumerate((("symmlet", "sym8"), ("linear spline", lspline()))):
        for column, (name, data) in enumerate((("Sinc", wave), ("Bumps", peaks))):
            panel = fit(f"{name}, {kind}, {label}", data, atoms, prior)
            show(axes[row, column], panel)
            panels.append(panel)
    legend(axes[0, 1])
    return figure, panels


def figure1() -> tuple[Any, list[Panel]]:
    return four("flat", "flat prior")


def figure3() -> tuple[Any, list[Panel]]:
    return four("bic", "BIC")


def doppler_panels() -> list[Panel]:
    data = on_ten(doppler(1024, 7.0, exact_noise=True, random_state=0))
    return [
        fit("Doppler, Gaussian kernels r = 0.5, flat prior", data, gauss(0.5), "flat"),
        fit("Gaussian kernels r = 0.05, flat prior", data, gauss(0.05), "flat"),
        fit("symmlet, flat prior", data, "sym8", "flat"),
        fit("symmlet, BIC", data, "sym8", "bic"),
    ]


def figure5(panels: Sequence[Panel]) -> tuple[Any, list[Panel]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7.5), layout="constrained")
    grid = figure.add_gridspec(3, 2)
    places = (grid[0, :], grid[1, 0], grid[1, 1], grid[2, :])
    for place, panel in zip(places, panels, strict=True):
        axes = figure.add_subplot(place)
        show(axes, panel)
        axes.set_ylim(-0.75, 0.75)
    legend(figure.axes[0])
    return figure, list(panels)


def figure6(panels: Sequence[Panel]) -> tuple[Any, list[Panel]]:
    data = panels[-1].data
    given = fit("symmlet, flat, noise given", data, "sym8", "flat", data.noise_std**2)
    figure, axes = canvas(1, 3, (10, 3.7))
    for place, panel in zip(axes[0], (panels[2], given, panels[3]), strict=True):
        ShrinkageDisplay.from_result(panel.found, limit=0.5, ax=place)
        place.set_title("")
        kept = int(panel.found.n_atoms)
        place.set_title(f"{panel.name}: {kept} kept", fontsize="small", loc="left")
    return figure, [given]


def figure7() -> tuple[Any, list[Panel]]:
    data = pair.draw(0)
    panels = [
        fit("thin-plate splines r = 3, RIC", data, pair.splines(), "ric", printed=(0.379, 72)),
        fit("Haar wavelets, RIC", data, pair.haar(), "ric", printed=(0.020, 75)),
        pair.union(data, printed=(pair.MSE, pair.ATOMS)),
    ]
    figure, axes = canvas(3, 1, (8, 7))
    for place, letter, panel in zip(axes[:, 0], "abc", panels, strict=True):
        show(place, panel, f"({letter})")
    legend(axes[0, 0])
    return figure, panels


def figure8() -> tuple[Any, list[Panel]]:
    data = pair.draw(0)
    plain = pair.union(data, "flat", noise_variance=data.noise_std**2, printed=(0.024, 419))
    smooth = pair.union(data, printed=(pair.MSE, pair.ATOMS))
    named = (("RVM: flat prior, noise given", plain), ("sRVM: RIC", smooth))
    figure, axes = canvas(2, 2, (9, 4.8))
    for column, (label, panel) in enumerate(named):
        shares = pair.separation(panel)
        for row, (name, share) in enumerate(zip(pair.NAMES, shares, strict=True)):
            place = axes[row, column]
            color = (ORANGE, BLUE)[row]
            place.plot(data.X[:, 0], panel.found.parts[row], color=color, linewidth=1)
            place.axvline(0, color=GRAY, linewidth=0.8, linestyle=":")
            half = ("Blocks", "sinc")[row]
            title = f"{label}, {name}: {100 * max(share, 0):.1f} % of {half}"
            place.set_title(title, fontsize="small", loc="left")
            place.tick_params(labelsize="x-small")
            place.margins(x=0.01)
    return figure, []


def run(report: Report, folder: Path) -> None:
    """Draw all of them, and print what they show."""
    waves = doppler_panels()
    pictures: dict[str, Callable[[], tuple[Any, list[Panel]]]] = {
        "1": figure1,
        "3": figure3,
        "5": lambda: figure5(waves),
        "6": lambda: figure6(waves),
        "7": figure7,
        "8": figure8,
    }
    rows = []
    for number, make in pictures.items():
        figure, panels = make()
        save(figure, folder / f"srvm2007-figure{number}.png")
        rows += [line(panel) | {"": f"figure {number}: {panel.name}"} for panel in panels]
        for panel in panels:
            for message in panel.warned:
                print(f"    {panel.name}: {message.splitlines()[0][:150]}")
    report.show("Figures", rows, COLUMNS)
