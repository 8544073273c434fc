"""A heartbeat out of its noise
===============================

Wavelets take an electrocardiogram out of its noise, with error bars. The noise is estimated, and
there is no threshold to choose.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparsebayes import denoise
from sparsebayes.plotting import SignalDisplay

# %%
# The truth is made of the waves P, Q, R, S and T of each beat: time in seconds, width, and height
# in millivolts. There are 3700 samples; any length will do.

RATE = 500  # samples a second
WAVES = [
    (-0.20, 0.025, 0.15),
    (-0.035, 0.010, -0.12),
    (0.0, 0.011, 1.1),
    (0.035, 0.010, -0.25),
    (0.25, 0.045, 0.3),
]
time = np.arange(3700) / RATE
truth = np.zeros_like(time)
for beat in np.arange(0.4, 8.4, 60 / 66):
    for place, width, height in WAVES:
        truth += height * np.exp(-0.5 * ((time - beat - place) / width) ** 2)
noisy = truth + np.random.default_rng(0).normal(0, 0.1, len(truth))

# %%
# Error bars are those of the coefficients kept. Details that were set to zero are not in them.

found = denoise(noisy)
print(f"{found.n_atoms} of {len(noisy)} coefficients kept, ", end="")
print(f"{found.degrees_of_freedom:.0f} degrees of freedom")
print(f"noise found: {found.noise_variance**0.5:.4f} mV (true: 0.1)")
print(f"a single change of the model gains at most {found.certificate.max_gain:.1g} nats")
for name, signal in ("before", noisy), ("after", found.signal):
    print(f"error {name}: {np.sqrt(np.mean((signal - truth) ** 2)):.4f} mV")
inside = np.abs(found.signal - truth) < 2 * found.std
print(f"error bars: {found.std.mean():.4f} mV; twice that holds {inside.mean():.0%} of the truth")

# %%
# What a coefficient must be worth is the decision of the prior.

print("price of a coefficient, coefficients kept, error")
for prior in ("aic", "bic", "ric"):
    other = denoise(noisy, prior=prior)
    print(f"{prior} {other.n_atoms:6d} {np.sqrt(np.mean((other.signal - truth) ** 2)):8.4f} mV")

# %%
# The first three seconds.

_, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
SignalDisplay.from_result(found, x=time, truth=truth, ax=axes)
axes.set(xlim=(0, 3), ylim=(-0.6, 1.7), xlabel="seconds", ylabel="millivolts")
axes.legend(loc="upper right", ncols=4, fontsize="small", frameon=False)
plt.show()
