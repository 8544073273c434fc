"""Where in the head? Sources from a lead field
===============================================

102 magnetometers around a head, 1000 places on the cortex: many currents explain the same field.
The lead field is that of current dipoles in a sphere, whose radial field outside has a closed form.
Three places are active within a tenth of a second. The trade's everyday tools are minimum norm
estimates such as sLORETA, and mixed norms: a lasso of whole time courses.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import MultiTaskLasso

from sparsebayes import SparseBayesRegressor


def cap(n, radius, lowest):
    """Points spread evenly over the top of a sphere, in meters."""
    k = np.arange(n) + 0.5
    z, angle = 1 - (1 - lowest) * k / n, np.pi * (1 + 5**0.5) * k
    return radius * np.stack([np.sqrt(1 - z**2) * f(angle) for f in (np.cos, np.sin)] + [z], 1)


rng = np.random.default_rng(0)
sensors, places = cap(102, 0.12, 0.0), cap(1000, 0.075, 0.1)
moments = np.cross(places, rng.normal(size=places.shape))  # radial currents make no field
moments *= 1e-8 / np.linalg.norm(moments, axis=1, keepdims=True)  # 10 nAm
away = sensors[:, None] - places
field = np.cross(moments, away) / np.linalg.norm(away, axis=2, keepdims=True) ** 3
lead = 1e8 * np.einsum("sjk,sk->sj", field, sensors / 0.12)  # mu0 / 4 pi, in femtotesla

# %%
# Several targets share their atoms: a place is in the model at all times or never.


def sparse_bayes(measured):
    return SparseBayesRegressor(fit_intercept=False).fit(lead, measured).relevance_


gram = lead @ lead.T
inverse = lead.T @ np.linalg.inv(gram + np.trace(gram) / len(gram) / 9 * np.eye(len(gram)))
apart = np.linalg.norm(places[:, None] - places, axis=2)
unit = lead / np.linalg.norm(lead, axis=0)


def sloreta(measured):
    """The three highest peaks, were it known that there are three."""
    power = ((inverse @ measured) ** 2).sum(axis=1) / np.einsum("js,sj->j", inverse, lead)
    peaks = np.flatnonzero(power >= np.where(apart < 0.015, power, 0).max(axis=1))
    return peaks[np.argsort(-power[peaks])[:3]]


def mixed_norm(measured):
    """At 30 % of the penalty that silences every place."""
    most = np.linalg.norm(unit.T @ measured, axis=1).max() / len(sensors)
    lasso = MultiTaskLasso(0.3 * most, fit_intercept=False, max_iter=5000).fit(unit, measured)
    return np.flatnonzero(lasso.coef_.any(axis=0))


# %%
# Five times three places, the noise a third of the field. A place counts as found if one of those
# kept is within 10 mm of it, and as false if it is not that near to any true one.

late = (np.linspace(0, 0.1, 25) - np.array([[0.03], [0.05], [0.07]])) / 0.017
courses = np.exp(-(late**2)) * np.sin(late + [[1.5], [0.5], [1.0]])
true = [rng.choice(len(places), 3, replace=False) for _ in range(5)]
clean = [lead[:, chosen] @ courses for chosen in true]
noisy = [signal + signal.std() / 3 * rng.normal(size=signal.shape) for signal in clean]
_, panels = plt.subplots(1, 3, figsize=(6.5, 2.6), layout="constrained", sharey=True)
for axes, way in zip(panels, (sparse_bayes, mixed_norm, sloreta), strict=True):
    kept = [way(measured) for measured in noisy]
    close = [apart[np.ix_(a, b)] < 0.01 for a, b in zip(true, kept, strict=True)]
    found, false = sum(c.any(1).sum() for c in close), sum((~c.any(0)).sum() for c in close)
    print(f"{way.__name__}: {found} of 15 found, {sum(map(len, kept))} kept, {false} of them false")
    axes.plot(*100 * places[:, :2].T, ".", color="0.8", markersize=2)
    axes.plot(*100 * places[true[0], :2].T, "o", color="black", fillstyle="none", markersize=12)
    axes.plot(*100 * places[kept[0], :2].T, "x", color="#d55e00")
    axes.set(title=way.__name__, xlabel="cm", aspect="equal")
plt.show()
