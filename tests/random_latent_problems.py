"""Random problems with latent functions for the property-based tests, and how to draw them."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

import laplace_oracle
from random_problems import seeds
from sparsebayes.core.quadratic import members
from sparsebayes.design import ArrayDesign
from sparsebayes.laplace import Latent
from sparsebayes.likelihoods import Bernoulli, Gaussian, Multinomial, Poisson

LIKELIHOODS = {
    "gaussian": Gaussian(0.3),
    "bernoulli": Bernoulli(),
    "three classes": Multinomial(3),
    "five classes": Multinomial(5),
    "poisson": Poisson(),
}
CLASSES = ["three classes", "five classes"]


@dataclass(frozen=True)
class LatentCase:
    """Atoms and targets at N rows, a model on them, and the same as the oracle wants it."""

    Phi: np.ndarray  # (N, M)
    t: np.ndarray  # (N,)
    weights: np.ndarray | None  # (N,)
    likelihood: object
    center: bool
    shared: bool
    active: np.ndarray  # (m,) columns, or atoms where their variances are shared
    v: np.ndarray  # (m,) variances of weights of atoms as given

    @property
    def K(self):
        return self.likelihood.n_latent

    @property
    def group(self):
        return self.K if self.shared else 1

    @property
    def columns(self):
        return members(self.active, self.group)

    @property
    def v_columns(self):
        return np.repeat(self.v, self.group)

    def latent(self, Phi=None):
        design = ArrayDesign(self.Phi) if Phi is None else Phi
        return Latent(design, self.t, self.weights, self.likelihood, self.center, self.shared)

    def at(self, active, v):
        return replace(self, active=np.asarray(active, dtype=np.intp), v=np.asarray(v, dtype=float))

    @cached_property
    def dense(self):
        """Mode, evidence, S and Q by definition."""
        pairs = [(int(i) // self.K, int(i) % self.K) for i in self.columns]
        return laplace_oracle.laplace(
            self.Phi, self.t, self.weights, self.likelihood, pairs, self.v_columns, self.center
        )

    @cached_property
    def frozen(self):
        """The quadratic at the mode, of all columns."""
        return Frozen(self.Phi, self.dense.B, self.dense.f, self.dense.slope, self.center)


class Frozen:
    """A quadratic by definition: H and b of all columns as given, the intercepts projected out."""

    def __init__(self, Phi, B, f, slope, center):
        N, K = f.shape
        every = np.column_stack(
            [laplace_oracle.column(Phi, a, k, K) for a in range(Phi.shape[1]) for k in range(K)]
        )
        ones = np.tile(np.eye(K), (N, 1))
        self.C = ones.T @ B @ ones
        self.centers = np.zeros((every.shape[1], K))
        if center:
            inverse = np.linalg.pinv(self.C, rcond=1e-10, hermitian=True)
            self.centers = (inverse @ ones.T @ B @ every).T
            every = every - ones @ self.centers.T
        self.every = every
        self.H = every.T @ B @ every
        self.b = every.T @ (B @ f.ravel() + slope.ravel())

    def value(self, v):
        """Log evidence of variances (M K,), zero for those out of the model, less a constant."""
        inside = np.flatnonzero(v)
        H, b, v = self.H[np.ix_(inside, inside)], self.b[inside], v[inside]
        root = np.sqrt(v)
        inner = np.eye(len(v)) + root[:, None] * H * root
        sign, log_det = np.linalg.slogdet(inner)
        log_det = log_det + (np.log(sign) if np.iscomplexobj(sign) else 0.0)
        return 0.5 * (root * b) @ np.linalg.solve(inner, root * b) - 0.5 * log_det


def without_gauge(f):
    """Latent functions less what a shift of all of them is: the same if there is but one."""
    return f - f.mean(axis=-1, keepdims=True) if f.shape[-1] > 1 else f


def draw_targets(rng, likelihood, n):
    """Targets of every kind that there is: intercepts then have a mode."""
    K = likelihood.n_latent
    if isinstance(likelihood, Gaussian):
        return rng.standard_normal(n) + 2.0
    if isinstance(likelihood, Poisson):
        return np.append(1.0 + rng.poisson(2.0), rng.poisson(np.exp(rng.standard_normal(n - 1))))
    kinds = max(K, 2)
    return np.append(np.arange(kinds), rng.randint(0, kinds, n - kinds)).astype(float)


@st.composite
def latent_cases(draw, names=tuple(LIKELIHOODS), shared=None, max_active=5):
    """Small problems of any likelihood: few rows, variances four decades about the atoms' own."""
    rng = np.random.RandomState(draw(seeds))
    likelihood = LIKELIHOODS[draw(st.sampled_from(names))]
    K = likelihood.n_latent
    if shared is None:
        shared = K > 1 and draw(st.booleans())
    n, m = draw(st.integers(max(5, K), 14)), draw(st.integers(1, 5))
    Phi = rng.standard_normal((n, m)) * 10.0 ** rng.uniform(-1, 1, m) + rng.choice([0, 1], m)
    if draw(st.booleans()) and m > 2:
        Phi[:, -1] = -3 * Phi[:, 0]  # a copy
    t = draw_targets(rng, likelihood, n)
    weights = None
    if draw(st.booleans()):
        weights = rng.uniform(0.3, 3.0, n)
        weights[max(K, 2) :] *= rng.uniform(size=n - max(K, 2)) < 0.8
    per_atom = 1 if shared else K
    active = rng.permutation(m * per_atom)[: draw(st.integers(0, max_active))]
    size = np.mean(Phi**2, axis=0)[active // per_atom]
    v = 10.0 ** rng.uniform(-2, 2, active.size) / size
    return LatentCase(Phi, t, weights, likelihood, draw(st.booleans()), shared, active, v)


def blobs(seed, likelihood, n=60, gamma=0.5, center=True, shared=False):
    """Kernels at rows in the plane, and targets that depend on the place; the model is empty."""
    rng, K = np.random.RandomState(seed), max(likelihood.n_latent, 2)
    kind = np.arange(n) % K
    angle = 2 * np.pi * kind / K
    X = np.stack([1.5 * np.cos(angle), 1.5 * np.sin(angle)], axis=1) + rng.standard_normal((n, 2))
    if isinstance(likelihood, Poisson):
        t = rng.poisson(np.exp(1.0 + np.sin(X[:, 0]))).astype(float)
    elif isinstance(likelihood, Gaussian):
        t = np.sin(X[:, 0]) + likelihood.noise_var**0.5 * rng.standard_normal(n)
    else:
        t = kind.astype(float)
    Phi = np.exp(-gamma * np.sum((X[:, None] - X) ** 2, axis=2))
    none = np.empty(0, dtype=np.intp)
    return LatentCase(Phi, t, None, likelihood, center, shared, none, np.empty(0))
