"""Which of 1000 columns matter? 200 rows, 8 true columns, and no cross-validation.

Run it with --picture to write sparse_linear.png beside this file.
"""

import sys
from pathlib import Path

import numpy as np

from sparsebayes import SparseBayesRegressor
from sparsebayes.datasets import sparse_linear


def main() -> None:
    data = sparse_linear(200, 1000, k=8, snr_db=15, random_state=0)
    true = np.flatnonzero(data.weights)
    print(f"{data.X.shape[0]} rows, {data.X.shape[1]} columns; true:", *true)

    model = SparseBayesRegressor().fit(data.X, data.y)
    print("kept:", *model.relevance_)
    std = np.sqrt(np.diag(model.covariance_))
    for column, weight, error in zip(model.relevance_, model.weights_, std, strict=True):
        print(f"  {column:4d}  {weight:+.2f} +- {error:.2f}   (true {data.weights[column]:+.0f})")
    print(f"noise: {model.noise_variance_**0.5:.2f} (true {data.noise_std:.2f})")

    # What an atom must be worth is the prior's decision: "ric" is the default here.
    for prior in ("bic", "ric"):
        kept = SparseBayesRegressor(prior=prior).fit(data.X, data.y).relevance_
        print(f'prior="{prior}" keeps {len(kept)}, {len(np.intersect1d(kept, true))} of them true')
    if "--picture" in sys.argv[1:]:
        draw(model, data.weights, std)


def draw(model: SparseBayesRegressor, true, std) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.5), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(np.flatnonzero(true), true[true != 0], "x", color="black", label="true")
    axes.errorbar(
        model.relevance_, model.weights_, 2 * std, fmt="o", color="tab:blue", label="found"
    )
    axes.axhline(0, color="0.8", linewidth=1, zorder=0)
    axes.set(xlabel="column", ylabel="weight", xlim=(-20, len(true) + 20))
    axes.legend(frameon=False)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=120)
    print(f"picture: {path.name}")


if __name__ == "__main__":
    main()
