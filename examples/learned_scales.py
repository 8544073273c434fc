"""Which inputs matter? A width of the kernel for each, learned from the data.

Friedman's first problem has ten inputs, of which the last five do nothing. Run it with --picture to
write learned_scales.png beside this file.
"""

import sys
from pathlib import Path

import numpy as np

from sparsebayes import RVR
from sparsebayes.datasets import friedman1


def main() -> None:
    data = friedman1(200, random_state=0)
    new = friedman1(2000, random_state=1)
    fits = {}
    for gamma in ("scale", "evidence", "ard"):
        fits[gamma] = model = RVR(gamma=gamma).fit(data.X, data.y)
        error = np.sqrt(np.mean((model.predict(new.X) - new.truth) ** 2))
        print(f"gamma={gamma!r}: {len(model.relevance_)} kernels, ", end="")
        print(f"log evidence {model.log_marginal_likelihood_:.1f}, error {error:.2f}")

    model = fits["ard"]
    print("relevance of each input:")
    for place, share in enumerate(model.feature_relevance_):
        print(
            f"  x{place}  gamma {model.gamma_[place]:8.2g}  {share:6.1%}  {'#' * round(40 * share)}"
        )
    if "--picture" in sys.argv[1:]:
        draw(model)


def draw(model: RVR) -> None:
    from matplotlib.figure import Figure

    from sparsebayes.plotting import plot_relevance

    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = plot_relevance(model, figure.add_subplot(), log=True)
    axes.set_title("Friedman 1: x5 to x9 do nothing")
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=120)
    print(f"picture: {path.name}")


if __name__ == "__main__":
    main()
