"""Error bars where there are no data
=====================================

Far from the data a sparse model is sure of itself: all of its kernels are zero there.
``augment=True`` adds a kernel at each test point, and error bars grow again.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparsebayes import RVR

# %%
# Nothing was observed between 0 and 5, nor beyond 10.

NOISE = 0.1
rng = np.random.default_rng(1)


def observe(x):
    return np.sinc(x / np.pi) + NOISE * rng.normal(size=len(x))


x = np.concatenate([rng.uniform(-10, 0, 80), rng.uniform(5, 10, 40)])
y = observe(x)
model = RVR(kernel="rbf", gamma=0.5).fit(x[:, None], y)
print(f"{len(model.relevance_)} of {len(x)} kernels kept; no data between 0 and 5, beyond 10")

# %%
# How many new observations are within intervals of 90 %, and how wide are the error bars?

regions = {"among the data": (-10, 0), "in the gap": (0.5, 4.5), "beyond the data": (10.5, 20)}
for name, (low, high) in regions.items():
    new = rng.uniform(low, high, 5000)
    observed = observe(new)
    print(f"{name:<16}", end="")
    for kind, augment in ("model", False), ("augmented", True):
        forecast = model.predict_distribution(new[:, None], augment=augment)
        bottom, top = forecast.interval(0.9)
        inside = np.mean((bottom <= observed) & (observed <= top))
        print(f"  {kind} {inside:4.0%}, {forecast.std.mean():.2f}", end="")
    print()

# %%
# Both kinds of error bars.

grid = np.linspace(-16, 20, 1200)
_, panels = plt.subplots(2, figsize=(8, 5), layout="constrained", sharex=True, sharey=True)
for axes, augment in zip(panels, (False, True), strict=True):
    forecast = model.predict_distribution(grid[:, None], augment=augment)
    for level, alpha in (0.99, 0.15), (0.9, 0.3):
        low, high = forecast.interval(level)
        band = {"color": "#0072b2", "alpha": alpha, "lw": 0, "label": f"{level:.0%} interval"}
        axes.fill_between(grid, low, high, **band)
    axes.plot(grid, forecast.mean, color="#0072b2", label="mean")
    axes.plot(grid, np.sinc(grid / np.pi), "--", color="#d55e00", label="truth")
    axes.plot(x, y, ".", color="0.4", label="data")
    axes.set_title("augment=True" if augment else "the model's own", loc="left")
panels[0].legend(frameon=False, loc="upper left", ncols=2, fontsize="small")
plt.show()
