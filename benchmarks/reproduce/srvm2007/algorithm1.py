"""Algorithm 1 of Schmolck & Everson 2007 as it is printed, to compare optima with.

Line by line: noise of 0.1 var(t), the atom of the largest projection first (lines 1 to 5), atoms
in random order (line 9), each added, re-estimated or deleted as it is relevant, where relevant
means that the cubic has a positive root (line 11: not that its maximum is above zero), the noise
re-estimated every tenth step (line 23, with the derivative of eq. 36 as it should be). It ends when
every atom has been looked at since the last change of any log alpha or of the log noise by 1e-6
(section 3.4.1). Nothing of the library is used, but for the definition of a draw and of no noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sparsebayes.reproduce.smooth_table import LEAST

Array = NDArray[np.float64]

EVERY = 10  # R of line 6
SETTLED = 1e-6  # in log alpha and log noise
STEPS = 40_000  # kernels that are nearly collinear creep


@dataclass(slots=True)
class Orthonormal:
    """Atoms that do not interact: g = Phi't says all."""

    g: Array  # (M,)
    tt: float
    N: int
    v: Array = field(init=False)  # prior variances 1 / alpha, zero: not included

    def __post_init__(self) -> None:
        self.v = np.zeros(len(self.g))

    def out_of_model(self, i: int, noise: float) -> tuple[float, float]:
        """s and q^2 of atom i (eqs. 30, 31)."""
        return 1 / noise, self.g[i] ** 2 / noise**2

    def fit(self, noise: float) -> tuple[float, float]:
        """|t - Phi mu|^2 and the degrees of freedom at some noise."""
        left = noise / (noise + self.v)
        return self.tt - (self.g**2).sum() + ((left * self.g) ** 2).sum(), (1 - left).sum()


@dataclass(slots=True)
class General:
    """Any atoms, few of them included at a time."""

    Phi: Array  # (N, M)
    t: Array
    v: Array = field(init=False)
    N: int = field(init=False)

    def __post_init__(self) -> None:
        self.N, M = self.Phi.shape
        self.v = np.zeros(M)

    def _posterior(self, noise: float) -> tuple[Array, Array, Array, Array]:
        """Included atoms, their columns over the root of the noise, roots of v, and B^-1."""
        a = np.flatnonzero(self.v)
        root = np.sqrt(self.v[a])
        X = self.Phi[:, a] * (root / np.sqrt(noise))
        return a, X, root, np.linalg.inv(np.eye(len(a)) + X.T @ X)

    def out_of_model(self, i: int, noise: float) -> tuple[float, float]:
        """s and q^2 of atom i (eqs. 30, 31), from the model without it."""
        kept, self.v[i] = self.v[i], 0.0
        _, X, _, inverse = self._posterior(noise)
        self.v[i] = kept
        phi = self.Phi[:, i]
        C_inv_phi = (phi - X @ (inverse @ (X.T @ phi))) / noise
        return float(phi @ C_inv_phi), float(self.t @ C_inv_phi) ** 2

    def fit(self, noise: float) -> tuple[float, float]:
        """|t - Phi mu|^2 and the degrees of freedom at some noise."""
        _, X, _, inverse = self._posterior(noise)
        residual = self.t - X @ (inverse @ (X.T @ self.t))
        return float(residual @ residual), float((1 - np.diag(inverse)).sum())


def best_alpha(s: float, q2: float, noise: float, c: float) -> float | None:
    """The smallest positive root of the cubic, which is the maximum (eqs. 46 to 49)."""
    if q2 <= s:
        return None
    beta = 1 / noise
    cubic = [
        s - q2 + 2 * c * beta,
        2 * s * beta + s**2 - 2 * beta * q2 + 4 * s * beta * c,
        s * beta**2 + 2 * beta * s**2 - beta**2 * q2 + 2 * s**2 * c * beta,
        s**2 * beta**2,
    ]
    if c == 0:
        return s**2 / (q2 - s)
    # In units of beta the roots are of order one.
    roots = np.roots(np.array(cubic) * beta ** np.array([3, 2, 1, 0]) / cubic[3]) * beta
    real = roots.real[(np.abs(roots.imag) <= 1e-6 * np.abs(roots)) & (roots.real > 0)]
    return float(real.min()) if real.size else None


def noise_slope(model: Orthonormal | General, noise: float, c: float) -> float:
    """Derivative of the log posterior in log noise, alpha held (eq. 36 corrected)."""
    rss, dof = model.fit(noise)
    v = model.v[model.v > 0]
    share = v / (v + noise)
    return -0.5 * (model.N - dof) + 0.5 * rss / noise + c * float((share * (1 - share)).sum())


def reestimate(model: Orthonormal | General, noise: float, c: float, least: float) -> float:
    """The next maximum uphill from the present noise."""
    here = np.log(noise)
    sign = np.sign(noise_slope(model, noise, c))
    step = 0.1 * sign
    while sign * noise_slope(model, float(np.exp(here + step)), c) > 0:
        here, step = here + step, 2 * step
        if here < np.log(least):
            return least
    ends = sorted((here, here + step))
    found = brentq(lambda x: noise_slope(model, float(np.exp(x)), c), *ends, xtol=1e-9)
    return max(float(np.exp(found)), least)


def algorithm_1(
    model: Orthonormal | General,
    t: Array,
    c: float,
    rng: np.random.Generator,
    noise: float | None = None,
) -> tuple[Array, float, bool]:
    """Prior variances of all atoms (zero: excluded), the noise, and whether it settled."""
    power = float(t @ t) / len(t)  # var(t): the mean is removed
    estimated, least = noise is None, LEAST * power
    noise = 0.1 * power if noise is None else noise
    M = len(model.v)
    if isinstance(model, Orthonormal):
        projection = np.abs(model.g)
    else:
        projection = np.abs(model.Phi.T @ t) / np.linalg.norm(model.Phi, axis=0)
    first = int(projection.argmax())
    s, q2 = model.out_of_model(first, noise)
    model.v[first] = 1 / (best_alpha(s, q2, noise, c) or s**2 / max(q2 - s, 1e-3 * s))
    step, unchanged = 1, 0
    while step < STEPS:
        for i in rng.permutation(M):
            alpha = best_alpha(*model.out_of_model(i, noise), noise, c)
            v = 1 / alpha if alpha else 0.0
            if v == model.v[i] == 0:
                unchanged += 1
                continue
            moved = v == 0 or model.v[i] == 0 or abs(np.log(v / model.v[i])) > SETTLED
            unchanged = 0 if moved else unchanged + 1
            model.v[i] = v
            step += 1
            if estimated and step % EVERY == 0:
                new = reestimate(model, noise, c, least)
                if abs(np.log(new / noise)) > SETTLED:
                    unchanged = 0
                noise = new
        if unchanged >= 2 * M or not model.v.any():
            return model.v, noise, True
    return model.v, noise, False
