"""Compressing an electrocardiogram
===================================

A trace of 1024 samples from PyWavelets, stored in 11 bits each. A recorder that sends wavelet
coefficients must decide which, and in what steps. The trade keeps the largest, as many as hold a
given share of the energy. The evidence finds which by itself, and the noise: steps finer than that
are not worth their bits.
"""

import zlib

import matplotlib.pyplot as plt
import numpy as np
import pywt

from sparsebayes import denoise

WAVELET, LEVEL, MODE = "sym8", 6, "periodization"
trace = pywt.data.ecg().astype(float)
offset = trace.mean()


def analyze(signal):
    return pywt.coeffs_to_array(pywt.wavedec(signal - offset, WAVELET, MODE, LEVEL))


def send(coefficients, step):
    """Bytes when rounded to steps and packed, and what the receiver makes of them."""
    numbers = np.round(coefficients / step).astype(np.int16)
    levels = pywt.array_to_coeffs(numbers * step, layout, output_format="wavedec")
    return len(zlib.compress(numbers.tobytes(), 9)), pywt.waverec(levels, WAVELET, MODE) + offset


every, layout = analyze(trace)
raw = len(trace) * 11 / 8

# %%
# The evidence says which coefficients are signal. They are sent as they are: shrinkage is for those
# who want the signal without its noise. Steps are twice the noise.

ways = {}
for prior in ("bic", "ric"):
    found = denoise(trace, WAVELET, prior, level=LEVEL)
    kept = np.abs(analyze(found.signal)[0]) > 1e-9 * np.abs(every).max()
    step = 2 * found.noise_variance**0.5
    ways[f"evidence, {prior}"] = np.where(kept, every, 0), step
print(f"noise found: {step / 2:.1f} steps of the converter")

# %%
# The trade's rules at the same steps, and plain rounding of everything at coarse steps. PRD is the
# usual measure: the error in percent of the signal. At equal bytes the rules are as good as each
# other, since the largest coefficients are the best choice of their number in any orthonormal
# basis. What the evidence adds is that nobody had to set a share or a step.

order = np.argsort(-np.abs(every))
energy = np.cumsum(every[order] ** 2) / np.sum(every**2)
for share in (0.99, 0.995, 0.999):
    kept = np.isin(np.arange(len(every)), order[: 1 + np.argmax(energy >= share)])
    ways[f"{share:.1%} of the energy"] = np.where(kept, every, 0), step
ways["all, coarse steps"] = every, 10.0

_, (top, bottom) = plt.subplots(2, figsize=(6, 5), layout="constrained")
print("                     sent  bytes  ratio  PRD")
for (name, (values, step)), marker in zip(ways.items(), "osv^<D", strict=True):
    size, signal = send(values, step)
    prd = 100 * np.linalg.norm(signal - trace) / np.linalg.norm(trace - offset)
    sent = np.sum(np.round(values / step) != 0)
    print(f"{name:20s} {sent:4d} {size:6d} {raw / size:6.1f} {prd:5.1f} %")
    top.plot(raw / size, prd, marker, label=name)
    if name == "evidence, ric":
        bottom.plot(trace, color="0.6", label="trace")
        bottom.plot(signal, color="#0072b2", linewidth=1, label=f"received, {size} bytes")
top.set(xlabel="compression ratio", ylabel="PRD, %")
bottom.set(xlabel="sample", xlim=(0, 500))
for axes in (top, bottom):
    axes.legend(fontsize="small", frameon=False)
plt.show()
