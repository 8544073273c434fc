"""Random problems for the property-based tests, and how to draw them."""

from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

import oracle
from sparsebayes.core.stored import weighted_quadratic
from sparsebayes.design import ArrayDesign
from sparsebayes.hyperpriors import Flat, Smoothness

PRIORS = [Flat(), Smoothness(0.5), Smoothness(3.0)]

seeds = st.integers(0, 2**32 - 1)
priors = st.sampled_from(PRIORS)


def examples(count):
    """Settings of a property: always the same examples, however slow the machine."""
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


@dataclass(frozen=True)
class Case:
    """Atoms and targets at N rows, a model on them, and the same as the oracle wants it."""

    Phi: np.ndarray  # (N, M)
    t: np.ndarray  # (N, T)
    weights: np.ndarray | None  # (N,) whole numbers
    center: bool
    active: np.ndarray  # (m,)
    v: np.ndarray  # (M,) variances of atoms of unit norm, zero out of the model
    noise: float

    def quad(self):
        weights = None if self.weights is None else self.weights.astype(float)
        return weighted_quadratic(ArrayDesign(self.Phi), self.t, weights, self.center)

    @property
    def v_a(self):
        return self.v[self.active]

    @property
    def unit(self):
        """Atoms of unit norm, neither centered nor weighted: rows repeated."""
        rows = oracle.repeated(self.Phi, self.weights)
        spread = rows - rows.mean(axis=0) if self.center else rows
        norm = np.sqrt(np.sum(spread**2, axis=0))
        return rows / np.where(norm > 1e-12, norm, 1.0)

    @property
    def rows(self):
        """What every definition of the oracle begins with, but the variances: (unit atoms, t)."""
        return self.unit, oracle.repeated(self.t, self.weights)

    def at(self, v=None, noise=None):
        """Arguments of the oracle's definitions."""
        v = self.v if v is None else v
        return *self.rows, v, self.noise if noise is None else noise, self.center

    def with_variance(self, j, v_j):
        v = self.v.copy()
        v[j] = v_j
        return v


@st.composite
def cases(draw, max_active=6):
    """Small problems: few rows, any number of atoms, variances four decades about the noise."""
    rng = np.random.RandomState(draw(seeds))
    n, m = draw(st.integers(4, 12)), draw(st.integers(1, 10))
    n_targets = draw(st.sampled_from([1, 1, 2, 3]))
    center = draw(st.booleans())
    Phi = rng.standard_normal((n, m)) * 10.0 ** rng.uniform(-2, 2, m) + rng.choice([0, 1], m)
    if draw(st.booleans()) and m > 2:
        Phi[:, -1] = -3 * Phi[:, 0]  # a copy
    if draw(st.booleans()) and m > 2:
        Phi[:, 1] = 0.0
    t = Phi[:, : m // 2] @ rng.standard_normal((m // 2, n_targets)) * 0.3
    t = (t + rng.standard_normal((n, n_targets))) * 10.0 ** draw(st.integers(-2, 2))
    weights = rng.randint(0, 4, n) if draw(st.booleans()) else None
    if weights is not None and weights.sum() < 3:
        weights[:3] = 1
    usable = np.setdiff1d(np.arange(m), np.flatnonzero(~Phi.any(axis=0)))
    active = rng.permutation(usable)[: draw(st.integers(0, max_active))]
    noise = float(np.mean(t**2)) * 10.0 ** rng.uniform(-1.5, 0.5)
    v = np.zeros(m)
    v[active] = noise * 10.0 ** rng.uniform(-2, 2, active.size)
    case = Case(Phi, t, weights, center, active, v, noise)
    # an atom may be constant where the weights are not zero: it is void, and not to be made active
    void = case.quad().diag[active] == 0
    v[active[void]] = 0.0
    return Case(Phi, t, weights, center, active[~void], v, noise)


def random_case(seed, n=30, m=20, k=4, n_targets=1, center=False, noise=0.1):
    """A sparse linear problem of ordinary size, its model empty."""
    rng = np.random.RandomState(seed)
    Phi = rng.standard_normal((n, m))
    w = np.zeros((m, n_targets))
    w[rng.permutation(m)[:k]] = rng.choice([-1.0, 1.0], (k, n_targets)) * rng.uniform(
        0.5, 1.5, (k, n_targets)
    )
    t = Phi @ w + noise * rng.standard_normal((n, n_targets))
    none = np.empty(0, dtype=np.intp)
    return Case(Phi, t, None, center, none, np.zeros(m), noise**2)
