"""Calibrating spectra: how much protein, from which wavelengths
================================================================

Near infrared spectra of a feed: bands of water, fat, protein and starch overlap, every sample has
a baseline of its own, and the laboratory's values for calibration have errors as well. The trade
uses partial least squares (PLS), whose number of components is cross-validated.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cross_decomposition import PLSRegression
from sklearn.model_selection import GridSearchCV

from sparsebayes import SparseBayesRegressor

NM = np.arange(1100, 1700, 4.0)
BANDS = [  # center, width in nm, height
    [(1190, 22, 0.4), (1360, 30, 0.3), (1450, 45, 1.0)],  # water
    [(1210, 18, 0.8), (1395, 25, 0.5), (1680, 60, 0.3)],  # fat
    [(1180, 30, 0.3), (1510, 35, 0.7), (1640, 60, 0.3)],  # protein
    [(1280, 60, 0.3), (1440, 60, 0.4), (1580, 55, 0.7)],  # starch
]
PURE = np.array([sum(h * np.exp(-(((NM - p) / w) ** 2) / 2) for p, w, h in b) for b in BANDS])


def measure(n, rng):
    """Spectra, and protein in percent as the laboratory finds it, up to 0.3."""
    share = rng.dirichlet([6, 3, 4, 8], n)
    x = (NM - NM.mean()) / 300
    baseline = rng.normal(0, [0.05, 0.03, 0.01], (n, 3)) @ np.array([x**0, x, x**2])
    path = 1 + 0.01 * rng.normal(size=(n, 1))
    spectra = path * (share @ PURE) + baseline + rng.normal(0, 1e-3, (n, len(NM)))
    return spectra, 100 * share[:, 2] + rng.normal(0, 0.3, n)


rng = np.random.default_rng(0)
spectra, protein = measure(100, rng)
new_spectra, new_protein = measure(1000, rng)

# %%
# Each atom is a filter: the slope of the spectrum around a wavelength, over a width of 6, 12 or 24
# nm. A slope does not see an offset, and a width averages noise. 450 filters, 100 samples.

width, center = (a.ravel() for a in np.meshgrid([6.0, 12.0, 24.0], NM, indexing="ij"))
u = (NM[:, None] - center) / width
filters = u * np.exp(-0.5 * u**2)
filters /= np.abs(filters).sum(axis=0)

model = SparseBayesRegressor().fit(spectra @ filters, protein)
forecast = model.predict_distribution(new_spectra @ filters)
low, high = forecast.interval(0.9)
inside = np.mean((low <= new_protein) & (new_protein <= high))
std = np.sqrt(np.diag(model.covariance_))
for atom, weight, error in zip(model.relevance_, model.weights_, std, strict=True):
    print(f"slope at {center[atom]:.0f} nm over {width[atom]:.0f} nm: {weight:.0f} +- {error:.0f}")

# %%
# PLS uses all wavelengths and is a little better; single wavelengths are worse atoms. Filters are
# few, need no cross-validation and give error bars, a little short: they do not doubt the choice.

grid = {"n_components": range(1, 16)}
pls = GridSearchCV(PLSRegression(scale=False), grid, cv=10).fit(spectra, protein)
single = SparseBayesRegressor().fit(spectra, protein).predict(new_spectra)
found = {"filters": forecast.mean, "wavelengths": single, "PLS": pls.predict(new_spectra)}
for name, predicted in found.items():
    print(f"{name}: error {np.sqrt(np.mean((predicted - new_protein) ** 2)):.3f} % protein")
print(f"90% intervals of sparse Bayes hold {inside:.1%} of new samples")

_, (top, bottom) = plt.subplots(2, figsize=(6, 5), layout="constrained")
top.plot(NM, spectra[:20].T, color="0.6", linewidth=0.6)
for atom in model.relevance_:
    ends = center[atom] - width[atom], center[atom] + width[atom]
    top.axvspan(*ends, color="#d55e00", alpha=0.3, linewidth=0)
top.set(xlabel="nm", ylabel="absorbance", title="20 spectra, and the filters kept")
bars = {"fmt": ".", "color": "#0072b2", "elinewidth": 0.8}
off = (forecast.mean - new_protein)[:80]
bottom.errorbar(new_protein[:80], off, 1.645 * forecast.std[:80], **bars)
bottom.set(xlabel="laboratory, % protein", ylabel="error, %", title="new samples, 90% bars")
plt.show()
