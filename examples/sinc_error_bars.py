"""Relevance vector regression with error bars, and whether the error bars are right.

Run it with --picture to write sinc_error_bars.png beside this file.
"""

import sys
from pathlib import Path

import numpy as np

from sparsebayes import RVR
from sparsebayes.datasets import sinc


def main() -> None:
    data = sinc(100, noise=0.1, random_state=1)
    model = RVR(kernel="rbf", gamma=1 / 9).fit(data.X, data.y)
    print(f"{len(model.relevance_)} of {len(data.X)} kernels kept, at x =", end=" ")
    print(np.round(model.relevance_vectors_[:, 0], 1))
    print(f"noise found: {model.noise_variance_**0.5:.3f} (true: {data.noise_std})")
    print(f"a single change of the model gains at most {model.certificate_.max_gain:.1g} nats")

    new = sinc(10_000, noise=0.1, random_state=2)
    forecast = model.predict_distribution(new.X)
    print(f"error against the truth: {np.sqrt(np.mean((forecast.mean - new.truth) ** 2)):.3f}")
    for level in (0.5, 0.9, 0.99):
        low, high = forecast.interval(level)
        inside = np.mean((low <= new.y) & (new.y <= high))
        print(f"{level:.0%} intervals hold {inside:.1%} of new observations")
    if "--picture" in sys.argv[1:]:
        draw(model, data, new.X)


def draw(model: RVR, data, X) -> None:
    from matplotlib.figure import Figure

    x, forecast = X[:, 0], model.predict_distribution(X)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for level, alpha in (0.99, 0.12), (0.9, 0.2), (0.5, 0.3):
        low, high = forecast.interval(level)
        label = f"{level:.0%} interval"
        axes.fill_between(x, low, high, color="tab:blue", alpha=alpha, linewidth=0, label=label)
    axes.plot(x, forecast.mean, color="tab:blue", label="mean")
    axes.plot(data.X[:, 0], data.y, ".", color="0.4", label="data")
    axes.legend(frameon=False)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=120)
    print(f"picture: {path.name}")


if __name__ == "__main__":
    main()
