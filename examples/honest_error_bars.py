"""Error bars where there are no data: the model's own, and augmented ones.

Run it with --picture to write honest_error_bars.png beside this file.
"""

import sys
from pathlib import Path

import numpy as np

from sparsebayes import RVR

NOISE = 0.1
REGIONS = {"among the data": (-10, 0), "in the gap": (0.5, 4.5), "beyond the data": (10.5, 20)}


def observe(x, rng):
    return np.sinc(x / np.pi) + NOISE * rng.normal(size=len(x))


def main() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-10, 0, 80), rng.uniform(5, 10, 40)])
    y = observe(x, rng)
    model = RVR(kernel="rbf", gamma=0.5).fit(x[:, None], y)
    print(f"{len(model.relevance_)} of {len(x)} kernels kept; no data between 0 and 5, beyond 10")
    print("new observations within 90% intervals, and the mean standard deviation:")
    for name, (low, high) in REGIONS.items():
        new = rng.uniform(low, high, 5000)
        observed = observe(new, rng)
        print(f"  {name:<16}", end="")
        for kind, augment in ("model", False), ("augmented", True):
            forecast = model.predict_distribution(new[:, None], augment=augment)
            bottom, top = forecast.interval(0.9)
            inside = np.mean((bottom <= observed) & (observed <= top))
            print(f"  {kind} {inside:4.0%}, {forecast.std.mean():.2f}", end="")
        print()
    if "--picture" in sys.argv[1:]:
        draw(model, x, y)


def draw(model: RVR, x, y) -> None:
    from matplotlib.figure import Figure

    grid = np.linspace(-16, 20, 1200)
    figure = Figure(figsize=(8, 6), layout="constrained")
    panels = figure.subplots(2, sharex=True, sharey=True)
    for axes, augment in zip(panels, (False, True), strict=True):
        forecast = model.predict_distribution(grid[:, None], augment=augment)
        for level, alpha in (0.99, 0.15), (0.9, 0.3):
            low, high = forecast.interval(level)
            label = f"{level:.0%} interval"
            axes.fill_between(
                grid, low, high, color="tab:blue", alpha=alpha, linewidth=0, label=label
            )
        axes.plot(grid, forecast.mean, color="tab:blue", label="mean")
        axes.plot(grid, np.sinc(grid / np.pi), "--", color="tab:orange", label="truth")
        axes.plot(x, y, ".", color="0.4", label="data")
        axes.set_title("augment=True" if augment else "the model's own", loc="left")
    panels[0].legend(frameon=False, loc="upper left", ncols=2)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=120)
    print(f"picture: {path.name}")


if __name__ == "__main__":
    main()
