"""A heartbeat out of its noise by wavelets, with error bars, and what they leave out.

Run it with --picture to write denoise.png beside this file.
"""

import sys
from pathlib import Path

import numpy as np

from sparsebayes import denoise

RATE = 500  # samples a second
# Of one beat: waves P, Q, R, S and T by their time in seconds, width and height in millivolts.
WAVES = [
    (-0.20, 0.025, 0.15),
    (-0.035, 0.010, -0.12),
    (0.0, 0.011, 1.1),
    (0.035, 0.010, -0.25),
    (0.25, 0.045, 0.3),
]


def heartbeat(seconds: float, beats_a_minute: float = 66.0) -> np.ndarray:
    """An electrocardiogram without noise."""
    time = np.arange(round(seconds * RATE)) / RATE
    trace = np.zeros_like(time)
    for beat in np.arange(0.4, seconds + 1, 60 / beats_a_minute):
        for place, width, height in WAVES:
            trace += height * np.exp(-0.5 * ((time - beat - place) / width) ** 2)
    return trace


def main() -> None:
    truth = heartbeat(7.4)  # 3700 samples: any length will do
    rng = np.random.default_rng(0)
    noisy = truth + rng.normal(0, 0.1, len(truth))

    found = denoise(noisy)
    print(f"{found.n_atoms} of {len(noisy)} coefficients kept, ", end="")
    print(f"{found.degrees_of_freedom:.0f} degrees of freedom")
    print(f"noise found: {found.noise_variance**0.5:.4f} mV (true: 0.1)")
    print(f"a single change of the model gains at most {found.certificate.max_gain:.1g} nats")
    for name, signal in ("before", noisy), ("after", found.signal):
        print(f"error {name}: {np.sqrt(np.mean((signal - truth) ** 2)):.4f} mV")
    # Error bars are those of the coefficients kept; details that were set to zero are not in them.
    inside = np.abs(found.signal - truth) < 2 * found.std
    print(
        f"error bars: {found.std.mean():.4f} mV; twice that holds {inside.mean():.0%} of the truth"
    )

    print("\nprice of a coefficient, coefficients kept, error")
    for prior in ("aic", "bic", "ric"):
        other = denoise(noisy, prior=prior)
        error = np.sqrt(np.mean((other.signal - truth) ** 2))
        print(f"{prior} {other.n_atoms:6d} {error:8.4f} mV")
    if "--picture" in sys.argv[1:]:
        draw(noisy, found, truth)


def draw(noisy: np.ndarray, found, truth: np.ndarray) -> None:
    from matplotlib.figure import Figure

    time = np.arange(len(noisy)) / RATE
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    low, high = found.signal - 2 * found.std, found.signal + 2 * found.std
    axes.plot(time, noisy, ".", color="0.7", markersize=3, label="data")
    axes.fill_between(time, low, high, color="#0072b2", alpha=0.3, lw=0, label="two deviations")
    axes.plot(time, found.signal, color="#0072b2", linewidth=1.2, label="denoised")
    axes.plot(time, truth, "--", color="black", linewidth=0.8, label="truth")
    axes.set_xlim(0, 3)
    axes.set_xlabel("seconds")
    axes.set_ylabel("millivolts")
    axes.legend(loc="upper right", fontsize="small", ncols=4, frameon=False)
    axes.set_ylim(None, 1.6)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=120)
    print(f"picture: {path.name}")


if __name__ == "__main__":
    main()
