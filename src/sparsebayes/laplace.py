"""Laplace's approximation: Newton's method to the mode, and the quadratic there."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from sparsebayes.design import Design
from sparsebayes.engine import Breakdown
from sparsebayes.latent_quadratic import Intercepts, LatentQuadratic, weighted_gram
from sparsebayes.likelihoods import Expansion, Likelihood

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]

__all__ = ["Latent", "Mode", "Start", "find_mode", "quadratic_at"]

_STEPS = 500
_HALVINGS = 60
_DONE = 1e-9  # nats that the last step promises, relative to the log posterior
_STILL = 1e-4  # change of the latent functions below which Newton's method is at its end
_LEAST = 1e-30  # nats: a mode at infinity is approached no further
_ARMIJO = 1e-4


@dataclass(frozen=True)
class Latent:
    """Data and a likelihood of latent functions: what is expanded around a mode.

    Parameters
    ----------
    design : Design
        Atoms evaluated at the data.
    t : ndarray of shape (N,)
        Targets as the likelihood checked them.
    weights : ndarray of shape (N,) or None
        Weight of each sample.
    likelihood : Likelihood
        Likelihood of the targets.
    center : bool
        Whether each latent function has an intercept, with a flat prior.
    shared : bool, default=False
        Whether the latent functions share the variance of each atom.
    """

    design: Design
    t: FloatArray
    weights: FloatArray | None
    likelihood: Likelihood
    center: bool
    shared: bool = False

    @property
    def K(self) -> int:
        """Number of latent functions."""
        return self.likelihood.n_latent

    def expand(self, f: FloatArray) -> Expansion:
        """Expansion of the likelihood at f, sample weights included."""
        value, slope, curvature = self.likelihood.expand(self.t, f)
        if self.weights is None:
            return Expansion(value, slope, curvature)
        w = self.weights
        return Expansion(value * w, slope * w[:, None], curvature * w[:, None, None])

    def restrict(self, atoms: IndexArray) -> "Latent":
        """The same data with some of the atoms."""
        return replace(self, design=self.design.restrict(atoms))

    def take(self, rows: IndexArray) -> "Latent":
        """Some of the samples, with the same atoms."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, design=self.design.take(rows), t=self.t[rows], weights=weights)


class Start(NamedTuple):
    """Weights of some columns and intercepts, for Newton's method to start from."""

    columns: IndexArray
    w: FloatArray  # weights of these columns, for atoms as given
    c: FloatArray  # (K,) intercepts

    def of(self, columns: IndexArray) -> FloatArray:
        """Weights of other columns: zero for those without one here."""
        if not self.columns.size:
            return np.zeros(columns.size)
        order = np.argsort(self.columns, kind="stable")
        found = np.searchsorted(self.columns, columns, sorter=order)
        place = order[np.minimum(found, order.size - 1)]
        return np.where(self.columns[place] == columns, self.w[place], 0.0)


class Mode(NamedTuple):
    """The maximum of the posterior of the weights, at given variances."""

    w: FloatArray  # (m,) weights of atoms as given
    c: FloatArray  # (K,) intercepts
    f: FloatArray  # (N, K) latent functions
    expansion: Expansion
    penalty: float  # sum of w^2 / (2 v)

    @property
    def log_likelihood(self) -> float:
        """Log likelihood at the mode."""
        return float(self.expansion.value.sum())


def find_mode(
    latent: Latent,
    columns: IndexArray,
    v: FloatArray,
    starts: tuple[Start, ...] = (),
) -> Mode:
    """Maximise the posterior of weights and intercepts by damped Newton steps.

    The log posterior is concave and every step is halved until it climbs, so any start will do.

    Parameters
    ----------
    latent : Latent
        Data and likelihood.
    columns : ndarray of shape (m,)
        Active columns, ``a K + k``.
    v : ndarray of shape (m,)
        Prior variances of their weights, for atoms as given.
    starts : tuple of Start, default=()
        Where the mode may be; Newton's method starts from the best of them, or from zero.

    Returns
    -------
    Mode
        The mode; raises `Breakdown` where float64 cannot reach it.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsebayes.design import ArrayDesign
    >>> from sparsebayes.likelihoods import Poisson
    >>> design = ArrayDesign(np.zeros((4, 1)))
    >>> latent = Latent(design, np.array([1.0, 2, 3, 2]), None, Poisson(), center=True)
    >>> mode = find_mode(latent, np.empty(0, dtype=np.intp), np.empty(0))
    >>> np.exp(mode.f[0]).round(9)
    array([2.])
    """
    newton = _Newton(latent, columns, v)
    return newton.climb([(start.of(columns), start.c) for start in starts])


class _Newton:
    """Newton's method in whitened weights z = w / sqrt(v), the intercepts eliminated."""

    def __init__(self, latent: Latent, columns: IndexArray, v: FloatArray) -> None:
        self.latent, self.K = latent, latent.K
        self.root = np.sqrt(v)
        self.k = columns % self.K
        atoms, which = np.unique(columns // self.K, return_inverse=True)
        rows = latent.design.columns(atoms) if atoms.size else np.zeros((0, len(latent.t)))
        self.mean = np.zeros(len(columns))
        if latent.center:  # a shift of an atom is taken up by the intercept; products keep digits
            mean = rows.mean(axis=1)
            rows -= mean[:, None]
            self.mean = mean[which]
        self.U = rows[which] * self.root[:, None]  # (m, N)
        self.members = [np.flatnonzero(self.k == k) for k in range(self.K)]

    def latents(self, z: FloatArray, c: FloatArray) -> FloatArray:
        f = np.empty((self.U.shape[1], self.K))
        for k, mine in enumerate(self.members):
            f[:, k] = c[k] + z[mine] @ self.U[mine]
        return f

    def shift(self, w: FloatArray) -> FloatArray:
        """What centering the atoms moves from their weights to the intercepts."""
        return np.bincount(self.k, w * self.mean, minlength=self.K).astype(np.float64)

    def climb(self, starts: list[tuple[FloatArray, FloatArray]]) -> Mode:
        z, c = np.zeros(len(self.k)), np.zeros(self.K)
        expansion, f, height = self._look(z, c)
        for w, intercepts in starts:
            z_new, c_new = w / self.root, intercepts + self.shift(w)
            there = self._look(z_new, c_new)
            if there[2] > height or not np.isfinite(height):
                z, c, (expansion, f, height) = z_new, c_new, there
        for _ in range(_STEPS):
            dz, dc, promise = self._step(z, expansion)
            if not promise > 0:
                break
            step = self._search(z, c, dz, dc, height, promise)
            if step is None:
                break
            z, c, expansion, f_new, height = step
            moved = float(np.abs(f_new - f).max(initial=0.0))
            f = f_new
            # What is left is of the order of the square of the step; but a step that promises
            # nothing may be long, where samples are saturated.
            if promise < _LEAST or (
                promise < _DONE * (1.0 + abs(height))
                and moved < _STILL * (1.0 + 1e-6 * float(np.abs(f).max(initial=0.0)))
            ):
                break
        w = z * self.root
        return Mode(w, c - self.shift(w), f, expansion, 0.5 * float(z @ z))

    def _look(self, z: FloatArray, c: FloatArray) -> tuple[Expansion, FloatArray, float]:
        """Expansion, latent functions and log posterior at given weights."""
        f = self.latents(z, c)
        with np.errstate(over="ignore"):
            expansion = self.latent.expand(f)
            height = float(expansion.value.sum()) - 0.5 * float(z @ z)
        return expansion, f, height

    def _step(self, z: FloatArray, expansion: Expansion) -> tuple[FloatArray, FloatArray, float]:
        """Newton step in z and the intercepts, and half the increase it promises twice over."""
        m, K, B = len(z), self.K, expansion.curvature
        pull = expansion.slope.sum(axis=0)  # (K,)
        gradient = -z
        if m == 0:
            step = Intercepts(B, self.latent.center).covariance @ pull
            return gradient, step, float(pull @ step)
        D = np.zeros((m, K))
        for k, mine in enumerate(self.members):
            if mine.size:
                gradient[mine] += self.U[mine] @ expansion.slope[:, k]
                D[mine] = self.U[mine] @ B[:, k]
        A = weighted_gram(self.U, self.k, B)
        A.flat[:: m + 1] += 1.0
        intercepts = Intercepts(B, self.latent.center)
        A -= D @ intercepts.covariance @ D.T
        right = gradient - D @ (intercepts.covariance @ pull)
        factor, info = dpotrf(A, lower=1, overwrite_a=1)
        if info != 0:
            raise Breakdown
        dz, _ = dpotrs(factor, right, lower=1)
        dc = intercepts.covariance @ (pull - D.T @ dz)
        if not self.latent.center:
            return dz, np.zeros(K), float(gradient @ dz)
        return dz, dc, float(gradient @ dz + pull @ dc)

    def _search(
        self,
        z: FloatArray,
        c: FloatArray,
        dz: FloatArray,
        dc: FloatArray,
        height: float,
        promise: float,
    ) -> tuple[FloatArray, FloatArray, Expansion, FloatArray, float] | None:
        scale = 1.0
        for _ in range(_HALVINGS):
            z_new, c_new = z + scale * dz, c + scale * dc
            expansion, f, reached = self._look(z_new, c_new)
            if reached >= height + _ARMIJO * scale * promise:
                return z_new, c_new, expansion, f, reached
            if promise < 1e-12 * (1.0 + abs(height)) and reached > height - 1e-9:
                return z_new, c_new, expansion, f, reached  # the change is below rounding
            scale *= 0.5
        return None


def quadratic_at(latent: Latent, mode: Mode) -> LatentQuadratic:
    """Expand the likelihood around a mode, over all atoms of the design.

    The quadratic's evidence, at the variances of the mode, is Laplace's: the log likelihood at the
    mode, plus the prior there, plus the volume of the posterior.

    Parameters
    ----------
    latent : Latent
        Data and likelihood; its design may have other atoms than the mode was found with.
    mode : Mode
        The mode.

    Returns
    -------
    LatentQuadratic
        The quadratic, for columns of unit norm.
    """
    _, slope, B = mode.expansion
    f = mode.f
    drawn = np.einsum("nkl,nl->nk", B, f)
    quad = LatentQuadratic(latent.design, B, drawn + slope, latent.center, latent.shared)
    # Around intercepts at their best: mu'G mu = sum of (f - c)'B (f - c).
    total = drawn.sum(axis=0)
    spread = float(np.einsum("nk,nk->", f, drawn)) - float(
        total @ quad.intercepts.covariance @ total
    )
    quad.log_offset = (
        mode.log_likelihood - 2.0 * mode.penalty - 0.5 * spread + quad.intercepts.log_volume
    )
    return quad
